//! What a trial on the wire says, for the searches and the report.

use netcliff_wire::forward::run::{DirectionReport, TrialReport, Void};
use netcliff_wire::latency::Latency;

use crate::rfc2544::conduct::Measured;
use crate::rfc2544::report::{Pacing, Seen};
use crate::rfc2544::trial::{Answer, Trial};

pub(super) fn measured(report: &TrialReport, duration_s: f64, load_pps: f64) -> Measured {
    let answer = match report.void {
        Some(Void::SenderTooSlow { reached_pps }) => Answer::Void { reached_pps },
        // The load was reached, but what became of the frames is not the device's doing, or not known.
        Some(Void::SinkTooSlow { .. } | Void::SenderUneven { .. }) => Answer::Void { reached_pps: load_pps },
        None => Answer::Valid(Trial { load_pps, duration_s, sent: report.sent(), lost: report.lost() }),
    };
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
    let pacing = || {
        Some(Pacing {
            lateness_p99_s: lateness.quantile_s(0.99)?,
            gap_error_p50_s: gaps.quantile_s(0.5)?,
            gap_error_p99_s: gaps.quantile_s(0.99)?,
        })
    };
    let tagged: Vec<f64> = report.directions.iter().filter_map(|direction| direction.tagged_s).collect();
    let all_came = tagged.len() == report.directions.len();
    Measured {
        answer,
        seen,
        pacing: pacing(),
        latency: Some(merged(|direction| &direction.latency)),
        tagged_s: all_came.then(|| tagged.iter().sum::<f64>() / tagged.len() as f64),
    }
}
