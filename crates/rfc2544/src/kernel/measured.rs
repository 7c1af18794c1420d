//! The result of a measured trial, for the searches and the report.

use crate::tester::run::{DirectionReport, TrialReport};
use crate::tester::stamps::{Absent, Stamps};
use netcliff_packets::latency::Latency;

use crate::conduct::{Measured, Tagged};
use crate::report::{Pacing, Seen};
use netcliff_mlrsearch::trial::{Answer, Trial};

pub(super) fn measured(report: &TrialReport, stamps: Stamps, load_pps: f64) -> Measured {
    let trial = Trial { load_pps, duration_s: report.duration_s, sent: report.sent(), lost: report.lost() };
    let answer = Answer::of(trial, report.void);
    let count = |get: fn(&DirectionReport) -> u64| report.directions.iter().map(get).sum();
    let seen = Seen {
        trials: 1,
        void_trials: u64::from(report.void.is_some()),
        sent: report.sent(),
        duplicates: count(|direction| direction.arrived.duplicates),
        reordered: count(|direction| direction.arrived.reordered),
        corrupt: count(|direction| direction.arrived.corrupt),
    };
    let merged = |get: fn(&DirectionReport) -> &Latency| {
        let mut all = Latency::new();
        report.directions.iter().for_each(|direction| all.merge(get(direction)));
        all
    };
    let (lateness, gaps) = (merged(|direction| &direction.lateness), merged(|direction| &direction.gap_error));
    let batch_frames = report.directions.iter().filter_map(|direction| direction.batch).max();
    let pacing = || {
        Some(Pacing {
            batch_frames,
            batch_s: batch_frames.map(|frames| f64::from(frames - 1) / load_pps),
            lateness_p99_s: lateness.quantile_s(0.99)?,
            gap_error_p50_s: gaps.quantile_s(0.5)?,
            gap_error_p99_s: gaps.quantile_s(0.99)?,
        })
    };
    Measured {
        answer,
        seen,
        pacing: pacing(),
        latency: Some(merged(|direction| &direction.latency)),
        tagged: tagged(&report.directions, stamps),
    }
}

/// Latency of the tagged frames by the requested clock, and by the other clocks that are known.
fn tagged(directions: &[DirectionReport], stamps: Stamps) -> Tagged {
    let mean = |of: &dyn Fn(&DirectionReport) -> Option<f64>| {
        let all: Option<Vec<f64>> = directions.iter().map(of).collect();
        all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    if stamps == Stamps::Application {
        let latency_s = mean(&|one| one.tagged_s);
        return Tagged { latency_s, uncertainty_s: mean(&|one| Some(one.uncertainty_s)), ..Tagged::default() };
    }
    let mut absent = Absent::default();
    directions.iter().filter_map(|one| one.stamped).for_each(|stamped| absent.add(stamped.absent));
    let (kernel_s, uncertainty_s) = match stamps {
        Stamps::Hardware => (mean(&|one| one.stamped?.kernel_s), mean(&|one| one.stamped?.uncertainty_s)),
        // The kernel's clock stamps both ends.
        _ => (None, Some(0.0)),
    };
    Tagged {
        latency_s: mean(&|one| one.stamped?.by(stamps)),
        uncertainty_s,
        application_s: mean(&|one| one.stamped?.application_s),
        kernel_s,
        absent,
    }
}

/// Rate of a sender whose requested load is beyond its reach (pps): `sent` frames by the time from the first to the
/// last, `sending_s`. If it did not send all intended frames, the time counts as at least the requested time `asked_s`,
/// however late the first frame left.
pub(super) fn reached_pps(sent: u64, intended: u64, sending_s: f64, asked_s: f64) -> f64 {
    let whole_s = if sent < intended { asked_s } else { 1e-6 };
    sent as f64 / sending_s.max(whole_s)
}

#[cfg(test)]
mod tests {
    use super::reached_pps;

    #[test]
    fn a_sender_that_was_held_up_has_not_reached_what_its_last_burst_suggests() {
        // A single kick of 32 frames has no duration, so the requested 0.3 s count.
        assert_eq!(reached_pps(32, 6_000_000, 0.0, 0.3), 32.0 / 0.3);
        assert_eq!(reached_pps(300_000, 6_000_000, 0.31, 0.3), 300_000.0 / 0.31);
        assert_eq!(reached_pps(6_000_000, 6_000_000, 0.25, 0.3), 24e6);
    }
}
