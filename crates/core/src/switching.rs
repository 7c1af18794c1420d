//! The decision of the hybrid scheme between interrupts and polling, by the measured packet rate and frame size. The
//! simulator's `hybrid`, and `netcliff tune adapt` on a real device, use these functions, each with its own measuring
//! windows.
//!
//! Rates may be in any unit of packets per time, if the times use the same unit.

/// The two modes of the hybrid scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Interrupts, by disable-enable.
    Interrupt,
    /// Polling.
    Poll,
}

/// Packet rate at which interrupt-per-packet saturates, eq. (13) of Salah, El-Badawi and Khalid (2007): (r/2)(sqrt(1 +
/// 4 mu/r) - 1), where packets take `service` = 1/mu and interrupts `interrupt` = 1/r. The form used here also holds
/// for interrupts that take no time.
pub fn saturation(service: f64, interrupt: f64) -> f64 {
    2.0 / (service * (1.0 + (1.0 + 4.0 * interrupt / service).sqrt()))
}

/// Moving averages of rate and frame size.
#[derive(Debug, Clone, Copy)]
pub struct Averages {
    weight: f64,
    /// (rate, frame size); `None` before the first window.
    values: Option<(f64, f64)>,
}

impl Averages {
    /// Makes averages without measurements. Each window counts with `weight`, above 0 and at most 1.
    pub fn new(weight: f64) -> Self {
        Self { weight, values: None }
    }

    /// Adds a window with a packet `rate` and mean frame size `bytes`; returns the new averages (rate, frame size).
    pub fn window(&mut self, rate: f64, bytes: f64) -> (f64, f64) {
        let (old_rate, old_bytes) = self.values.unwrap_or((rate, bytes));
        let blend = |old: f64, new: f64| old + self.weight * (new - old);
        *self.values.insert((blend(old_rate, rate), blend(old_bytes, bytes)))
    }

    /// (rate, frame size); `None` before the first window.
    pub fn values(&self) -> Option<(f64, f64)> {
        self.values
    }
}

/// The mode for a packet rate; `None` between the two thresholds, where the present mode continues.
pub fn verdict(rate: f64, up: f64, down: f64) -> Option<Part> {
    if rate > up {
        Some(Part::Poll)
    } else if rate < down {
        Some(Part::Interrupt)
    } else {
        None
    }
}

/// Default of the lower threshold: a tenth below the upper one.
pub fn down_of(up: f64) -> f64 {
    0.9 * up
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cliffs of Salah, El-Badawi and Khalid (2007): 127 kpps for 64-byte frames, 116 kpps for a mean of 557 bytes.
    /// If interrupts take no time: the service rate.
    #[test]
    fn the_papers_cliffs() {
        for (service_s, interrupt_s, kpps) in
            [(5.34e-6, 3.73e-6, 127.05), (5.99e-6, 3.73e-6, 116.4), (5e-6, 0.0, 200.0)]
        {
            let found = saturation(service_s, interrupt_s) / 1e3;
            assert!((found - kpps).abs() < 0.06, "{found} {kpps}");
        }
    }

    #[test]
    fn between_the_thresholds_nothing_changes() {
        let of = |rate| verdict(rate, 120e3, 110e3);
        assert_eq!([of(120.1e3), of(109.9e3)], [Some(Part::Poll), Some(Part::Interrupt)]);
        assert_eq!([of(120e3), of(115e3), of(110e3)], [None; 3]);
        assert_eq!(down_of(120e3), 108e3);
    }

    #[test]
    fn averages_begin_with_the_first_window() {
        let mut averages = Averages::new(0.25);
        assert_eq!(averages.values(), None);
        assert_eq!(averages.window(100.0, 64.0), (100.0, 64.0));
        assert_eq!(averages.window(200.0, 128.0), (125.0, 80.0));
        assert_eq!(averages.values(), Some((125.0, 80.0)));
    }
}
