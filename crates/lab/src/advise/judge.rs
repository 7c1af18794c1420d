//! Judges constraints by the confidence intervals of the figures.

use netcliff_core::advice::{Candidate, CandidateStatus, Judged, Standing};
use netcliff_core::{Constraint, Interval, Measure, Scheme};

use netcliff_stats as stats;

/// Judges a constraint at `confidence` from the values of the replications, each of `packets_each` arrivals.
pub(super) fn judge(constraint: Constraint, values: &[f64], packets_each: u64, confidence: f64) -> Judged {
    let interval = stats::mean_at(values, confidence).and_then(|figure| figure.interval);
    let interval = interval.map(|found| ends(constraint.measure, found, values, packets_each));
    let standing = match interval {
        Some(ends) if constraint.met_by(ends.low) && constraint.met_by(ends.high) => Standing::Met,
        Some(ends) if !constraint.met_by(ends.low) && !constraint.met_by(ends.high) => Standing::Missed,
        _ => Standing::NotDecided,
    };
    Judged { constraint, standing, interval }
}

/// Clips the interval of a mean to the figure's range. Zero observed loss does not prove zero loss, so the upper end of
/// a loss is at least the loss that would have been observed with this confidence. Half of the simulated packets count
/// for this, as after the longest warm-up.
pub(super) fn ends(measure: Measure, ends: Interval, values: &[f64], packets_each: u64) -> Interval {
    if !measure.is_loss() {
        return Interval { low: ends.low.max(0.0), ..ends };
    }
    let counted = 0.5 * values.len() as f64 * packets_each as f64;
    let unseen = -((1.0 - ends.confidence) / 2.0).ln() / counted;
    Interval { low: ends.low.max(0.0), high: ends.high.max(unseen).min(1.0), ..ends }
}

/// The setting whose largest excess over a bound is smallest. `None` if no candidate has figures for all constraints.
pub(super) fn closest(candidates: &[Candidate]) -> Option<Scheme> {
    let excess = |candidate: &Candidate| {
        let each = candidate.constraints.iter().map(|judged| {
            let figure = candidate.figure(judged.constraint.measure)?;
            Some(judged.constraint.excess(figure.value))
        });
        each.collect::<Option<Vec<f64>>>().map(|all| all.into_iter().fold(0.0, f64::max))
    };
    let judged = candidates.iter().filter(|c| c.fate != CandidateStatus::Unanswered && !c.constraints.is_empty());
    let all = judged.filter_map(|candidate| Some((excess(candidate)?, candidate)));
    all.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, candidate)| candidate.scheme.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(constraint: &str, values: &[f64]) -> Standing {
        judge(constraint.parse().unwrap(), values, 10_000, 0.95).standing
    }

    #[test]
    fn a_constraint_stands_by_the_whole_interval() {
        assert_eq!(standing("available>=30%", &[0.35, 0.36, 0.34]), Standing::Met);
        assert_eq!(standing("available>=30%", &[0.25, 0.26, 0.24]), Standing::Missed);
        assert_eq!(standing("available>=30%", &[0.25, 0.36, 0.31]), Standing::NotDecided);
        assert_eq!(standing("p99<=20us", &[21e-6]), Standing::NotDecided, "one value has no interval");
    }

    /// -ln(0.025) = 3.7 losses would have shown among 3 x 10 000 / 2 packets with 97.5 %: 2.5e-4.
    #[test]
    fn no_loss_seen_bounds_the_loss_by_the_packets() {
        let zero = [0.0; 3];
        assert_eq!(standing("loss<=2e-4", &zero), Standing::NotDecided);
        assert_eq!(standing("loss<=3e-4", &zero), Standing::Met);
        assert_eq!(standing("loss<=1e-4", &[0.1, 0.11, 0.12]), Standing::Missed);
    }
}
