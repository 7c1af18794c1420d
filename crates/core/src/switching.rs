//! The decision of the hybrid scheme: a measured rate and frame size in, a switch out. The simulator's `hybrid` and `netcliff tune adapt` on a real
//! device decide by the same functions; each has its own windows.
//!
//! Rates are in any unit of packets per time, if the times have the same one.

/// The part of the hybrid that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Packets interrupt.
    Interrupt,
    /// Packets are polled.
    Poll,
}

/// Rate at which interrupt-per-packet saturates, eq. (13) of Salah, El-Badawi and Khalid (2007): (r/2)(sqrt(1 + 4 mu/r) - 1) for packets that take
/// `service` = 1/mu and interrupts that take `interrupt` = 1/r, in a form that also holds for interrupts that take no time.
pub fn saturation(service: f64, interrupt: f64) -> f64 {
    2.0 / (service * (1.0 + (1.0 + 4.0 * interrupt / service).sqrt()))
}

/// Moving averages of rate and frame size.
#[derive(Debug, Clone, Copy)]
pub struct Averages {
    weight: f64,
    /// Rate and size; `None` before the first window.
    values: Option<(f64, f64)>,
}

impl Averages {
    /// Nothing measured; a new window counts `weight`, above 0 and at most 1.
    pub fn new(weight: f64) -> Self {
        Self { weight, values: None }
    }

    /// Takes a window of `packets` in `time` with frames of `bytes` on average; returns rate and size as they are then.
    pub fn window(&mut self, rate: f64, bytes: f64) -> (f64, f64) {
        let (old_rate, old_bytes) = self.values.unwrap_or((rate, bytes));
        let blend = |old: f64, new: f64| old + self.weight * (new - old);
        *self.values.insert((blend(old_rate, rate), blend(old_bytes, bytes)))
    }

    /// Rate and size; `None` before the first window.
    pub fn values(&self) -> Option<(f64, f64)> {
        self.values
    }
}

/// The part that a rate asks for; `None` between the two thresholds, where the present part stays.
pub fn verdict(rate: f64, up: f64, down: f64) -> Option<Part> {
    if rate > up {
        Some(Part::Poll)
    } else if rate < down {
        Some(Part::Interrupt)
    } else {
        None
    }
}

/// The lower threshold where only the upper one is given: a tenth below it.
pub fn down_of(up: f64) -> f64 {
    0.9 * up
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's cliffs: 127 kpps of 64-byte frames, 116 kpps of 557 bytes on average; the service rate where interrupts take no time.
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
