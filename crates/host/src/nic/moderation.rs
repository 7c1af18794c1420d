//! How long a device may delay a receive interrupt. If `adaptive-rx` is not offered, small numbers in `rx-usecs` select
//! a mode of the Intel drivers and are not microseconds: a driver that "waits 3 us" adapts to the traffic.

use super::{
    Nic,
    driver::{AdaptiveWord, Meaning, OneLength, STEADY_BYTES},
};

/// How a receive interrupt is delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moderation {
    /// By a fixed time (us).
    Fixed(u32),
    /// By a time that the driver adapts to the traffic.
    Adaptive {
        /// Longest time (us); `None` if unknown.
        most_us: Option<u32>,
        /// Longest time while all frames have the smallest size (us): drivers treat them differently from bulk traffic.
        /// `None` if unknown.
        small_frames_us: Option<u32>,
        /// The value of `rx-usecs` that selects adaptation; `None` if `adaptive-rx` selects it.
        word: Option<u32>,
    },
}

/// Bytes of a frame that a driver does not count: the FCS.
const FCS_BYTES: u32 = 4;

/// A value of `rx-usecs` that selects a mode, and the fixed value that the mode reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Value of `rx-usecs` that selects the mode.
    pub word: u32,
    /// The `rx-usecs` with the same effect (us).
    pub usecs: u32,
}

/// The shortest time between interrupts (us) that igb and igc choose if a device has more than one vector:
/// `igb_update_ring_itr`, igb/igb_main.c, and `igc_update_ring_itr`, igc/igc_main.c; the drivers compute it in quarters
/// of a microsecond and clear the last two bits (`igb_write_itr`).
fn gap_by_length_us(word: u32, counted_bytes: u32) -> u32 {
    const CONSERVATIVE: u32 = 196;
    let on_wire = (counted_bytes + 24).min(3000);
    let quarters = if on_wire > 300 && on_wire < 1200 { on_wire / 3 } else { on_wire / 2 };
    let quarters = if word == 3 { quarters.max(CONSERVATIVE) } else { quarters };
    quarters / 4
}

impl Nic {
    /// The device's adaptive `rx-usecs`, and the fixed value that it reaches while every frame has `frame_bytes` bytes,
    /// FCS included. `None` if `rx-usecs` is not adaptive, or if the value also depends on the number of packets in a
    /// poll.
    pub fn word_under(&self, frame_bytes: u32) -> Option<Word> {
        let Some(Moderation::Adaptive { word: Some(word), .. }) = self.moderation() else { return None };
        let OneLength { is_slow, slow_us, short_us, by_length } = self.adaptive_word()?.one_length.as_ref()?;
        let speed_mbps = self.speed_mbps?;
        let counted_bytes = frame_bytes.checked_sub(FCS_BYTES)?;
        let is_steady = STEADY_BYTES.iter().any(|(of, most)| *of == word && counted_bytes <= *most);
        let usecs = if is_slow(speed_mbps) {
            *slow_us
        } else if *by_length && self.irq_affinity.len() != 1 {
            gap_by_length_us(word, counted_bytes)
        } else if is_steady {
            *short_us
        } else {
            return None;
        };
        Some(Word { word, usecs })
    }

    /// Returns a copy of the device whose adaptive `rx-usecs` is replaced by the fixed value of [`Nic::word_under`], if
    /// there is one.
    pub fn under(&self, frame_bytes: u32) -> Self {
        let mut nic = self.clone();
        if let Some(Word { usecs, .. }) = self.word_under(frame_bytes) {
            nic.coalesce.insert("rx-usecs".to_owned(), usecs);
        }
        nic
    }

    /// Whether `rx-usecs` is the shortest time between two interrupts; false if it is the delay from the first frame,
    /// as ethtool defines it.
    pub fn spaces_interrupts(&self) -> bool {
        matches!(self.known_driver().rx_usecs, Meaning::Gap | Meaning::TwoGaps | Meaning::Rate)
    }

    /// The adaptive mode that its `rx-usecs` selects; `None` if it selects none.
    fn adaptive_word(&self) -> Option<&'static AdaptiveWord> {
        let usecs = *self.coalesce.get("rx-usecs")?;
        self.known_driver().words.iter().find(|word| word.value == usecs)
    }

    /// How the device delays its receive interrupt; `None` if the driver does not report it.
    pub fn moderation(&self) -> Option<Moderation> {
        let usecs = *self.coalesce.get("rx-usecs")?;
        if self.coalesce.get("adaptive-rx") == Some(&1) {
            let most_us = self.coalesce.get("rx-usecs-high").copied();
            return Some(Moderation::Adaptive { most_us, small_frames_us: most_us, word: None });
        }
        Some(match self.adaptive_word() {
            Some(AdaptiveWord { value, most_us, small_frames_us, .. }) => Moderation::Adaptive {
                most_us: Some(*most_us),
                small_frames_us: Some(*small_frames_us),
                word: Some(*value),
            },
            None => Moderation::Fixed(usecs),
        })
    }

    /// Returns the shortest delay, at least `usecs`, that its driver accepts as a delay (us); 0 (no delay) for 0.
    pub fn accepted_delay_us(&self, usecs: u32) -> u32 {
        if usecs == 0 { 0 } else { usecs.max(self.known_driver().least_us) }
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

    /// The fixed value that an adaptive `rx-usecs` reaches, for each driver, value, speed, number of vectors and frame
    /// length; `None` if it depends on the number of packets in a poll.
    #[test]
    fn a_word_comes_to_a_figure_where_frames_have_one_length() {
        let of = |driver: &str, word, speed_mbps, vectors: u32, frame_bytes| {
            let irq_affinity = (0..vectors).map(|irq| (irq, "0".to_owned())).collect();
            let device = Nic { speed_mbps: Some(speed_mbps), irq_affinity, ..nic(driver, &[("rx-usecs", word)]) };
            device.word_under(frame_bytes).map(|word| word.usecs)
        };
        for (driver, word, speed_mbps, vectors, frame_bytes, usecs) in [
            ("igb", 3, 1000, 2, 64, Some(49)),
            ("igb", 1, 1000, 2, 64, Some(10)),
            ("igb", 3, 1000, 2, 1518, Some(192)),
            ("igb", 1, 1000, 2, 512, Some(44)),
            ("igb", 3, 1000, 1, 64, Some(49)),
            ("igb", 1, 1000, 1, 64, Some(14)),
            ("igb", 3, 1000, 1, 1518, None),
            ("igb", 3, 100, 2, 64, Some(245)),
            ("igc", 3, 2500, 2, 64, Some(49)),
            ("e1000e", 3, 1000, 2, 64, Some(50)),
            ("e1000e", 1, 1000, 2, 64, Some(14)),
            ("e1000e", 1, 1000, 2, 512, None),
            ("e1000e", 3, 1000, 2, 1518, None),
            ("e1000e", 3, 100, 2, 1518, Some(250)),
            ("e1000e", 4, 1000, 2, 64, None),
            ("ixgbe", 1, 1000, 2, 64, None),
            ("igb", 50, 1000, 2, 64, None),
        ] {
            let seen = of(driver, word, speed_mbps, vectors, frame_bytes);
            assert_eq!(seen, usecs, "{driver} {word} {speed_mbps} {vectors} {frame_bytes}");
        }
        let device = nic("igb", &[("rx-usecs", 3)]);
        assert_eq!(device.word_under(64), None, "no speed is known");
        let device = Nic { speed_mbps: Some(1000), ..device };
        assert_eq!(device.under(64).moderation(), Some(Moderation::Fixed(49)));
        assert_eq!(nic("igb", &[("rx-usecs", 8)]).under(64).moderation(), Some(Moderation::Fixed(8)));
    }

    /// The latency classes among which e1000, e1000e and igb with one vector choose, as the drivers define them.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Class {
        Lowest,
        Low,
        Bulk,
    }

    fn next(class: Class, packets: u32, bytes: u32, leave_bulk: u32) -> Class {
        let mean = bytes / packets;
        match class {
            Class::Lowest if mean > 8000 => Class::Bulk,
            Class::Lowest if packets < 5 && bytes > 512 => Class::Low,
            Class::Low if bytes > 10_000 && (mean > 8000 || packets < 10 || mean > 1200) => Class::Bulk,
            Class::Low if bytes > 10_000 && packets > 35 => Class::Lowest,
            Class::Low if bytes <= 10_000 && mean > 2000 => Class::Bulk,
            Class::Low if packets <= 2 && bytes < 512 => Class::Lowest,
            Class::Bulk if bytes > 25_000 && packets > 35 => Class::Low,
            Class::Bulk if bytes <= 25_000 && bytes < leave_bulk => Class::Low,
            same => same,
        }
    }

    /// For frames of up to these lengths the chosen interrupt rate never changes, however many packets the polls take
    /// and in any order; for longer frames it can change.
    #[test]
    fn lengths_below_which_no_poll_changes_the_choice() {
        let reached = |word: u32, bytes: u32, leave_bulk: u32| {
            let kept = |class| if word == 3 && class == Class::Lowest { Class::Low } else { class };
            let mut seen = vec![kept(Class::Lowest)];
            let mut at = 0;
            while at < seen.len() {
                for packets in 1..=300 {
                    let class = kept(next(seen[at], packets, packets * bytes, leave_bulk));
                    if !seen.contains(&class) {
                        seen.push(class);
                    }
                }
                at += 1;
            }
            seen
        };
        for leave_bulk in [6000, 1500] {
            for (word, most) in STEADY_BYTES {
                let only = if word == 3 { Class::Low } else { Class::Lowest };
                for bytes in 60..=most {
                    assert_eq!(reached(word, bytes, leave_bulk), [only], "{word} {bytes}");
                }
                assert!(reached(word, most + 1, leave_bulk).len() > 1, "{word}");
            }
        }
    }

    #[test]
    fn delays_that_a_driver_takes() {
        let taken = |driver: &str, usecs| nic(driver, &[]).accepted_delay_us(usecs);
        assert_eq!([0, 8, 10, 50].map(|usecs| taken("igb", usecs)), [0, 10, 10, 50]);
        assert_eq!([0, 8, 50].map(|usecs| taken("mlx5_core", usecs)), [0, 8, 50]);
    }
}
