//! Error bounds of approximate answers, in one table for the notes that state them and for the tests that check them
//! (`crates/lab/tests/lab/scan.rs`, `crates/lab/tests/lab/application_bounds.rs`).

pub use netcliff_core::note::Bounds;
use netcliff_core::note::Note;
use netcliff_core::{Host, Scheme};

/// Loss fraction above which no bound of the mean latency is stated.
pub const MOST_LOSS: f64 = Bounds::MOST_LOSS;

/// Largest ring and socket on which the bounds were checked (packets). The scans used random hosts with rings from 1
/// and sockets from 4 packets, at 0.05 to 3 times saturation.
const MOST_RING: u64 = 1024;
const MOST_SOCKET: u64 = 512;

/// Bounds for `dim`, whose moves between profiles are approximated. In a scan of random hosts, compared with the
/// simulator, the mean latency was 0.86 to 1.32 times as large and the interrupt rate 0.66 to 1.27 times; the
/// difference was -3.9 to +4.7 % for loss and -4.0 to +12.6 % for available CPU. Of some 160 points, 30 differed
/// significantly. The ranges here are about a quarter wider.
pub const DIM: Bounds = Bounds {
    name: "dim",
    loss: (-0.06, 0.06),
    mean_latency: (0.7, 1.5),
    interrupts: (0.5, 1.5),
    available: (-0.06, 0.16),
};

/// Bounds for `hybrid` if both interrupts and polling are in use. In a scan of random hosts, compared with the
/// simulator, the mean latency was 0.86 to 1.08 times as large and the interrupt rate 1.16 to 1.79 times; loss was 2.9
/// % lower and available CPU 1.2 to 3.5 % lower. Only 8 points differed significantly, so that the ranges here are
/// twice as wide.
pub const HYBRID: Bounds = Bounds {
    name: "hybrid",
    loss: (-0.06, 0.06),
    mean_latency: (0.7, 1.3),
    interrupts: (0.7, 2.6),
    available: (-0.07, 0.07),
};

/// Bounds for `napi` with the NIC's interrupt moderation, if times are not exponential or the chain of poll starts is
/// too large. In a scan of 1000 points, compared with the simulator, the mean latency was 1.00 to 1.63 times as large
/// and the interrupt rate 0.83 to 1.20 times; loss was 1.3 to 4.4 % and available CPU 0.3 to 11.0 % higher. Some 35
/// points differed significantly (`every_disagreement_of_moderated_napi`, SEED=5). The ranges here are about a quarter
/// wider.
pub const MODERATED: Bounds = Bounds {
    name: "moderated napi",
    loss: (-0.06, 0.06),
    mean_latency: (0.8, 2.1),
    interrupts: (0.7, 1.4),
    available: (-0.06, 0.14),
};

/// Bounds for `napi` with a NIC's minimum interrupt gap and exponential times: the remaining gap is discretised on a
/// grid. At 866 points of the scan no value differed significantly from the simulator's by more than 0.1 %.
pub const GAP: Bounds = Bounds {
    name: "napi behind a minimum gap",
    loss: (-0.01, 0.01),
    mean_latency: (0.99, 1.01),
    interrupts: (0.99, 1.01),
    available: (-0.01, 0.01),
};

// The bounds below, with an application, are about a fifth larger than the largest errors in the scan and at 40 hosts
// of each kind (test `application_bounds`).
const POLLING: Bounds = with_application("polling with an application", 0.08, 1.9, 1.1, 0.03);
const NAPI_2007: Bounds = with_application("napi-2007 with an application", 0.07, 1.5, 1.1, 0.02);
const HYBRID_READ: Bounds = with_application("hybrid with an application", 0.28, 8.0, 1.8, 0.17);
const DIM_READ: Bounds = with_application("dim with an application", 0.27, 3.5, 2.4, 0.18);
const UNMASKED: Bounds = with_application("unmasked coalescing with an application", 0.15, 1.8, 1.2, 0.05);
/// Bounds for `napi` with the NIC's moderation and an application, by the chain or by two moments.
pub const MODERATED_READ: Bounds = with_application("moderated napi with an application", 0.17, 2.4, 2.3, 0.15);
const MASKED: Bounds = with_application("masked coalescing with an application", 0.18, 2.4, 1.2, 0.05);
/// Bounds for ideal, interrupt, disable-enable and napi with an application by two moments, used if times are not
/// exponential or the chain would be too large.
const OTHERS: Bounds = with_application("two moments of an application", 0.05, 2.1, 1.2, 0.03);
/// Bounds for the chain with cold caches, and for napi with polls that reach their weight at random.
pub const CHAIN: Bounds = with_application("Markov chain with an application", 0.07, 2.9, 4.5, 0.03);

/// Makes symmetric bounds: `loss` and `available` (CPU) are differences, `latency` and `interrupts` factors.
const fn with_application(name: &'static str, loss: f64, latency: f64, interrupts: f64, available: f64) -> Bounds {
    Bounds {
        name,
        loss: (-loss, loss),
        mean_latency: (1.0 / latency, latency),
        interrupts: (1.0 / interrupts, interrupts),
        available: (-available, available),
    }
}

/// Returns the error bounds of a two-moment answer with an application.
pub fn two_moment(scheme: &Scheme) -> &'static Bounds {
    match scheme {
        Scheme::Polling { .. } => &POLLING,
        Scheme::Napi2007 { .. } => &NAPI_2007,
        Scheme::Hybrid(_) => &HYBRID_READ,
        Scheme::Dim(_) => &DIM_READ,
        Scheme::Coalesce(coalesce) if coalesce.masked => &MASKED,
        Scheme::Coalesce(_) => &UNMASKED,
        Scheme::Napi(napi) if napi.moderation.is_on() => &MODERATED_READ,
        _ => &OTHERS,
    }
}

/// Returns a note if the host's ring or socket is larger than on all hosts that the bounds were checked on; otherwise
/// `None`.
pub fn unchecked(bounds: &Bounds, host: &Host) -> Option<Note> {
    let sockets = host.each_application().into_iter().map(|one| one.buffer);
    let socket = sockets.max().filter(|packets| *packets > MOST_SOCKET);
    let ring = Some(host.ring).filter(|packets| *packets > MOST_RING);
    (ring.is_some() || socket.is_some()).then_some(Note::Unchecked(bounds.name, ring, socket))
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Engine, Point};

    use super::*;
    use crate::ModelEngine;

    #[test]
    fn hosts_larger_than_those_that_were_compared_are_told_so() {
        let notes = |ring, socket_buffer, cold_application_s| {
            let host =
                Host { ring, socket_buffer, cold_application_s, application_s: Some(2e-6), ..Host::pentium4_2530mhz() };
            let point = Point::poisson(host, "napi".parse().unwrap(), 50e3);
            let notes = ModelEngine::default().evaluate(&point).unwrap().notes;
            notes.into_iter().find_map(|note| match note {
                Note::Unchecked(_, ring, socket) => Some((ring, socket)),
                _ => None,
            })
        };
        assert_eq!(notes(256, 512, 1e-7), None);
        assert_eq!(notes(256, 513, 1e-7), Some((None, Some(513))));
        assert_eq!(notes(2000, 3000, 1e-7), Some((Some(2000), Some(3000))));
        // An exact answer has no bounds.
        assert_eq!(notes(256, 3000, 0.0), None);
    }
}
