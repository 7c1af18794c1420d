//! [`Interrupts`]: the number of frames per interrupt at the model's cliff, for hosts where it was not measured.

use netcliff_core::roofline::RoofHighest;
use netcliff_core::{Engine, FrameSizes, Host, Load, Napi, Offload, Point, Scheme, Traffic};
use netcliff_model::{CliffSearch, Fidelity, ModelEngine};

use super::System;

/// Loss that defines the cliff: the default of `predict --cliff`, so that both commands report the same cliff for a
/// host (checked by the test `limits_and_predict_say_the_same_of_a_host` of the command line).
const LOSS: f64 = 1e-4;
/// Relative width of the search for a cliff, which is printed with three digits.
const WIDTH: f64 = 1e-4;
/// Speed of the link (bit/s). The model does not depend on it.
const LINK_BPS: f64 = 10e9;

/// Number of frames per interrupt at the model's cliff, by frame size.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupts {
    /// The scheme for which the numbers were computed.
    pub scheme: Scheme,
    /// In ascending order of frame size. Empty if the model does not support the host.
    sizes: Vec<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Size {
    frame_bytes: f64,
    frames_per_interrupt: f64,
    cliff_pps: f64,
}

impl Interrupts {
    /// Computes the numbers for the default scheme of `predict`.
    pub fn of(host: &Host, sizes_bytes: &[u32]) -> Self {
        Self::under(Scheme::Napi(Napi::default()), host, sizes_bytes)
    }

    /// Computes the numbers for a scheme, such as the scheme of a NIC with its moderation.
    pub fn under(scheme: Scheme, host: &Host, sizes_bytes: &[u32]) -> Self {
        let mut sizes_bytes = sizes_bytes.to_vec();
        sizes_bytes.sort_unstable();
        sizes_bytes.dedup();
        let sizes = sizes_bytes.iter().map(|bytes| at_cliff(host, &scheme, *bytes)).collect::<Option<Vec<Size>>>();
        Self { sizes: sizes.unwrap_or_default(), scheme }
    }

    /// Number of frames per interrupt for a frame length (bytes), interpolated linearly between the logarithms. `None`
    /// if the model does not support the host.
    fn frames(&self, frame_bytes: f64) -> Option<f64> {
        let after = self.sizes.partition_point(|size| size.frame_bytes < frame_bytes);
        let (low, high) = (self.sizes.get(after.max(1) - 1)?, self.sizes.get(after).or(self.sizes.last())?);
        if high.frame_bytes <= low.frame_bytes {
            return Some(low.frames_per_interrupt);
        }
        let share = (frame_bytes / low.frame_bytes).ln() / (high.frame_bytes / low.frame_bytes).ln();
        let (few, many) = (low.frames_per_interrupt.ln(), high.frames_per_interrupt.ln());
        Some((few + share.clamp(0.0, 1.0) * (many - few)).exp())
    }

    /// Returns the system with the number of frames per interrupt for a frame length (bytes).
    pub(super) fn applied(&self, system: &System, frame_bytes: f64) -> System {
        let fewest = system.frames_per_interrupt;
        let frames_per_interrupt = self.frames(frame_bytes).unwrap_or(f64::INFINITY).max(fewest);
        System { frames_per_interrupt, ..system.clone() }
    }

    /// Returns the bounds of a system with this number of frames per interrupt.
    pub(super) fn highest(&self, system: &System, asked_bytes: f64, offloads: &[Offload]) -> RoofHighest {
        let roof = self.applied(system, asked_bytes).roof(asked_bytes, offloads);
        let pps = roof.lowest().map(|bound| bound.pps);
        RoofHighest {
            frames_per_interrupt: self.frames(asked_bytes),
            cliff_pps: self.sizes.iter().find(|size| size.frame_bytes == asked_bytes).map(|size| size.cliff_pps),
            bounds_pps: roof.bounds.iter().map(|bound| (bound.part.name().to_owned(), bound.pps)).collect(),
            pps,
            bps: pps.map(|pps| roof.bps(pps)),
            binding: roof.binding().map(|part| part.name().to_owned()),
        }
    }
}

/// Computes the cliff for a frame size. `None` if the model does not support the host.
fn at_cliff(host: &Host, scheme: &Scheme, bytes: u32) -> Option<Size> {
    let engine = ModelEngine::new(Fidelity::Exact).without_quantiles();
    let traffic = Traffic { size: FrameSizes::Fixed(bytes), link_bps: LINK_BPS, ..Traffic::default() };
    let search = CliffSearch { width: WIDTH, ..CliffSearch::default() };
    let cliff = search.cliff(&engine, host, scheme, &traffic, LOSS).ok()?;
    let point = Point { host: host.clone(), scheme: scheme.clone(), traffic, load: Load::Pps(cliff.pps) };
    let outcome = engine.evaluate(&point).ok()?;
    let (packets, interrupts) = (outcome.throughput_pps?.value, outcome.interrupts_per_s?.value);
    let frames_per_interrupt = if interrupts > 0.0 { (packets / interrupts).max(1.0) } else { f64::MAX };
    Some(Size { frame_bytes: f64::from(bytes), frames_per_interrupt, cliff_pps: cliff.pps })
}

#[cfg(test)]
mod tests {
    use netcliff_core::Bus;

    use super::*;

    fn system(host: &Host) -> System {
        System {
            link_bps: None,
            bus: Bus::None,
            memory: None,
            cpu: Some(host.clone()),
            cpus: 1,
            frames_per_interrupt: 1.0,
        }
    }

    /// With one interrupt per frame, the bound is below the cliff that the model predicts. With the model's number of
    /// frames per interrupt, the bound is above this cliff.
    #[test]
    fn the_highest_bound_is_above_the_predicted_cliff_and_the_lowest_below() {
        let host = Host { ring: 128, ..Host::pentium4_2530mhz() };
        let found = Interrupts::of(&host, &[1518, 64, 64]);
        for bytes in [64.0, 1518.0] {
            let one_pass = [Offload::Checksum];
            let lowest = system(&host).roof(bytes, &one_pass).lowest().unwrap().pps;
            let highest = found.highest(&system(&host), bytes, &one_pass);
            let (cliff, pps) = (highest.cliff_pps.unwrap(), highest.pps.unwrap());
            assert!(lowest < 0.75 * cliff, "{bytes}: {lowest} {cliff}");
            // With a ring of 128 packets, the cliff is lower than the bound by no more than this.
            assert!(pps > cliff * (1.0 - LOSS) && pps < 1.08 * cliff, "{bytes}: {pps} {cliff}");
            assert!(highest.frames_per_interrupt.unwrap() > 5.0, "{highest:?}");
        }
        // Frame sizes between the computed ones, and beyond their ends.
        let at = |bytes: f64| found.frames(bytes).unwrap();
        let (low, high) = (at(64.0).min(at(1518.0)), at(64.0).max(at(1518.0)));
        assert!((low..=high).contains(&at(300.0)));
        assert!((at(60.0) / at(64.0) - 1.0).abs() < 1e-9 && (at(9018.0) / at(1518.0) - 1.0).abs() < 1e-9);
    }

    /// If the number of interrupts is unknown, they cost nothing in an upper bound.
    #[test]
    fn without_an_answer_of_the_model_interrupts_cost_nothing_at_the_highest() {
        let host = Host { xoff: Some(90), xon: Some(10), ring: 128, ..Host::pentium4_2530mhz() };
        let found = Interrupts::of(&host, &[64]);
        let highest = found.highest(&system(&host), 64.0, &[]);
        assert_eq!((highest.frames_per_interrupt, highest.cliff_pps), (None, None));
        assert!(
            !highest.bounds_pps.contains_key("interrupts") && highest.bounds_pps.contains_key("CPU"),
            "{highest:?}"
        );
    }
}
