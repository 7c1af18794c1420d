//! How far off approximations without an application are, figure by figure: ranges that `scripts/nightly/scan.sh` holds every
//! disagreement with the simulator to. Notes tell them.

use netcliff_core::Outcome;

/// One approximation, and where its figures lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// What it is of, as its notes begin.
    pub name: &'static str,
    /// The model's throughput over the simulator's.
    pub throughput: (f64, f64),
    /// The same for the mean latency.
    pub mean_latency: (f64, f64),
    /// The same for interrupts a second.
    pub interrupts: (f64, f64),
    /// The model's loss less the simulator's, of all packets.
    pub loss: (f64, f64),
    /// The model's available CPU less the simulator's, of one CPU.
    pub available: (f64, f64),
}

/// `dim`: the walk between the profiles. In the scan throughput was 0.78 to 1.06 times as high, the mean latency 0.86 to 1.32, interrupts
/// 0.66 to 1.27, loss -3.9 to 4.7 % and available CPU -4.0 to 12.6 % higher, at 30 of some 160 points beyond chance; the ranges
/// here are about a quarter wider.
pub const DIM: Bounds = Bounds {
    name: "dim",
    throughput: (0.7, 1.1),
    mean_latency: (0.7, 1.5),
    interrupts: (0.5, 1.5),
    loss: (-0.06, 0.06),
    available: (-0.06, 0.16),
};

/// `hybrid` where both of its parts run. In the scan throughput was 1.0 to 1.12 times as high, the mean latency 0.86 to 1.08, interrupts
/// 1.16 to 1.79, loss -2.9 % and available CPU -1.2 to -3.5 % higher, at 8 points beyond chance; so few that the ranges are twice as wide.
pub const HYBRID: Bounds = Bounds {
    name: "hybrid",
    throughput: (0.8, 1.25),
    mean_latency: (0.7, 1.3),
    interrupts: (0.7, 2.6),
    loss: (-0.06, 0.06),
    available: (-0.07, 0.07),
};

const ALL: [&Bounds; 2] = [&HYBRID, &DIM];

impl Bounds {
    /// The bounds that the notes of an outcome tell; None: it is exact, or its notes tell none.
    pub fn told_by(outcome: &Outcome) -> Option<&'static Self> {
        ALL.into_iter().find(|bounds| outcome.notes.iter().any(|note| *note == bounds.note()))
    }

    /// The note that tells them.
    pub fn note(&self) -> String {
        let of = |(low, high): (f64, f64)| format!("{low} to {high}");
        let more = |(low, high): (f64, f64)| format!("{:+.0} to {:+.0} %", 100.0 * low, 100.0 * high);
        format!(
            "{}: held against the simulator at random points without an application (scripts/nightly/scan.sh), throughput is {} times as \
             high, the mean latency {}, interrupts {}; loss is {} of the packets higher, available CPU {} of one CPU",
            self.name,
            of(self.throughput),
            of(self.mean_latency),
            of(self.interrupts),
            more(self.loss),
            more(self.available)
        )
    }
}
