//! How far the approximate answers with an application may be off: largest errors against the simulator over seeded hosts, one table for
//! notes and test.

use netcliff_core::{Host, Scheme};

/// Loss beyond which no bound of the mean latency is claimed: few packets get through, by what the chains leave out.
pub const MOST_LOSS: f64 = 0.9;

/// The hosts and loads that the bounds were held against.
pub const REGION: &str =
    "40 random hosts each with rings of 8 to 1024 and sockets of 8 to 512 packets, at 0.1 to 3 times saturation";

/// Largest errors of one kind of answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Packets read: difference, as a share of the offered packets (1).
    pub read: f64,
    /// Mean latency up to [`MOST_LOSS`]: factor, either way (1).
    pub latency: f64,
}

/// Largest errors seen, and about a fifth more: `cargo test -p netcliff-lab --test application_bounds` repeats a part of the points.
const POLLING: Bound = Bound { read: 0.03, latency: 1.7 };
const NAPI_2007: Bound = Bound { read: 0.07, latency: 1.5 };
const HYBRID: Bound = Bound { read: 0.25, latency: 8.0 };
const DIM: Bound = Bound { read: 0.27, latency: 3.5 };
const UNMASKED: Bound = Bound { read: 0.15, latency: 1.8 };
const MASKED: Bound = Bound { read: 0.18, latency: 1.9 };
/// Ideal, interrupt, disable-enable and napi: times that are not exponential, or too large for the chain.
const OTHERS: Bound = Bound { read: 0.05, latency: 1.5 };
/// Cold caches, and napi with polls that use up their weight at random, by the chain.
const CHAIN: Bound = Bound { read: 0.07, latency: 2.9 };

/// The bound of a two-moment answer.
pub fn two_moment(scheme: &Scheme) -> Bound {
    match scheme {
        Scheme::Polling { .. } => POLLING,
        Scheme::Napi2007 { .. } => NAPI_2007,
        Scheme::Hybrid(_) => HYBRID,
        Scheme::Dim(_) => DIM,
        Scheme::Coalesce(coalesce) if coalesce.masked => MASKED,
        Scheme::Coalesce(_) => UNMASKED,
        _ => OTHERS,
    }
}

/// The bound of an answer by a chain that is not exact.
pub fn chain() -> Bound {
    CHAIN
}

/// The bound of the answer to a scheme on a host whose `cpu_method` is approximate and whose notes are these: by the chain where these
/// say so.
pub fn of(scheme: &Scheme, host: &Host, notes: &[String]) -> Option<Bound> {
    host.application_s?;
    Some(if notes.iter().any(|note| note.contains(TWO_MOMENT)) { two_moment(scheme) } else { chain() })
}

/// By this the note of a two-moment answer is known.
pub const TWO_MOMENT: &str = "two-moment approximation";

impl Bound {
    /// The sentence of the notes.
    pub fn sentence(&self) -> String {
        format!(
            "held against the simulator ({REGION}) packets read were within {:.0} % of the offered ones, the mean latency within a factor \
             of {:.1} up to a loss of {:.0} %",
            100.0 * self.read,
            self.latency,
            100.0 * MOST_LOSS
        )
    }
}
