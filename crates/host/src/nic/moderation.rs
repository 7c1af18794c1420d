//! How long a device may hold a receive interrupt back. Where `adaptive-rx` is not offered, small numbers in `rx-usecs` are words
//! to the Intel drivers, not microseconds: a driver that "waits 3 us" adapts to the traffic.

use super::Nic;

/// How a receive interrupt is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moderation {
    /// By so long (us).
    Fixed(u32),
    /// As the driver sees fit.
    Adaptive {
        /// At the most (us), where it is known.
        most_us: Option<u32>,
        /// At the most under the smallest frames (us), which the drivers distinguish from bulk traffic.
        small_frames_us: Option<u32>,
        /// The value of `rx-usecs` that says so; None: `adaptive-rx` does.
        word: Option<u32>,
    },
}

/// What `rx-usecs` means to a driver.
struct Vocabulary {
    drivers: &'static [&'static str],
    /// Words, and how long the driver then waits at the most and under the smallest frames (us).
    words: &'static [(u32, u32, u32)],
    /// Shortest delay that it takes besides none (us).
    least_us: u32,
}

/// `*_set_coalesce`, `*_update_itr` and `igb_update_ring_itr` below drivers/net/ethernet/intel. 250 us are the 4000 interrupts/s to
/// which `1` and `3` fall under bulk traffic, 15 and 50 us the 70,000 and 20,000 that they allow small frames, 500 us the 2000 of
/// the simplified mode, 126 us ixgbe's IXGBE_ITR_ADAPTIVE_MAX_USECS.
const VOCABULARIES: [Vocabulary; 4] = [
    Vocabulary { drivers: &["e1000", "e1000e"], words: &[(1, 250, 15), (3, 250, 50), (4, 500, 500)], least_us: 10 },
    Vocabulary { drivers: &["igb", "igc"], words: &[(1, 250, 15), (3, 250, 50)], least_us: 10 },
    Vocabulary { drivers: &["ixgbe", "ixgbevf"], words: &[(1, 126, 126)], least_us: 2 },
    // 100,000 interrupts/s: VMXNET3_COAL_RBC_MAX_RATE, `vmxnet3_set_coalesce`, drivers/net/vmxnet3/vmxnet3_ethtool.c.
    Vocabulary { drivers: &["vmxnet3"], words: &[], least_us: 10 },
];

/// Drivers whose `rx-usecs` is the shortest time between two interrupts (ITR, EITR), not a delay from the first frame:
/// `*_set_coalesce` below drivers/net/ethernet/intel; of vmxnet3 a rate that the hypervisor keeps (VMXNET3_COAL_RBC_RATE,
/// drivers/net/vmxnet3/vmxnet3_int.h).
const SPACING: [&str; 12] =
    ["e1000", "e1000e", "igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf", "ice", "idpf", "vmxnet3"];

impl Nic {
    /// Whether `rx-usecs` is the shortest time between two interrupts; false: the delay from the first frame, as ethtool defines it.
    pub fn spaces_interrupts(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| SPACING.contains(&driver))
    }

    fn vocabulary(&self) -> Option<&'static Vocabulary> {
        let driver = self.driver.as_deref()?;
        VOCABULARIES.iter().find(|vocabulary| vocabulary.drivers.contains(&driver))
    }

    /// How it holds its receive interrupt back; None: it does not report.
    pub fn moderation(&self) -> Option<Moderation> {
        let usecs = *self.coalesce.get("rx-usecs")?;
        if self.coalesce.get("adaptive-rx") == Some(&1) {
            let most_us = self.coalesce.get("rx-usecs-high").copied();
            return Some(Moderation::Adaptive { most_us, small_frames_us: most_us, word: None });
        }
        let word = self.vocabulary().and_then(|vocabulary| vocabulary.words.iter().find(|(word, ..)| *word == usecs));
        Some(match word {
            Some((word, most, small)) => {
                Moderation::Adaptive { most_us: Some(*most), small_frames_us: Some(*small), word: Some(*word) }
            }
            None => Moderation::Fixed(usecs),
        })
    }

    /// The shortest delay from this one on that its driver takes as a delay (us).
    pub fn accepted_delay_us(&self, usecs: u32) -> u32 {
        let least = self.vocabulary().map_or(0, |vocabulary| vocabulary.least_us);
        if usecs == 0 { 0 } else { usecs.max(least) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn nic(driver: &str, coalesce: &[(&str, u32)]) -> Nic {
        let coalesce: BTreeMap<String, u32> =
            coalesce.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Nic { driver: Some(driver.to_owned()), coalesce, ..Nic::default() }
    }

    #[test]
    fn words_and_delays() {
        let adaptive = |most_us, small_frames_us, word| Some(Moderation::Adaptive { most_us, small_frames_us, word });
        for (driver, coalesce, means) in [
            ("igb", &[("rx-usecs", 3)][..], adaptive(Some(250), Some(50), Some(3))),
            ("igb", &[("rx-usecs", 4)], Some(Moderation::Fixed(4))),
            ("e1000e", &[("rx-usecs", 4)], adaptive(Some(500), Some(500), Some(4))),
            ("e1000e", &[("rx-usecs", 50)], Some(Moderation::Fixed(50))),
            ("mlx5_core", &[("rx-usecs", 3)], Some(Moderation::Fixed(3))),
            ("mlx5_core", &[("rx-usecs", 8), ("adaptive-rx", 1)], adaptive(None, None, None)),
            (
                "ice",
                &[("rx-usecs", 50), ("adaptive-rx", 1), ("rx-usecs-high", 236)],
                adaptive(Some(236), Some(236), None),
            ),
            ("virtio_net", &[("rx-frames", 1)], None),
        ] {
            assert_eq!(nic(driver, coalesce).moderation(), means, "{driver} {coalesce:?}");
        }
    }

    #[test]
    fn delays_that_a_driver_takes() {
        let taken = |driver: &str, usecs| nic(driver, &[]).accepted_delay_us(usecs);
        assert_eq!([0, 8, 10, 50].map(|usecs| taken("igb", usecs)), [0, 10, 10, 50]);
        assert_eq!([0, 8, 50].map(|usecs| taken("mlx5_core", usecs)), [0, 8, 50]);
    }
}
