//! Whether a trial kept the promise (the user's limits of loss and response times), and the equivalent loss for the
//! search, which compares only losses.

use netcliff_core::service::Promise;

use crate::requester::Counts;

/// Result of comparing a trial with the promise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// True: no limit of the promise was exceeded.
    pub kept: bool,
    /// Number of requests that the search counts as lost. Divided by all requests, it exceeds [`smallest_share`]
    /// exactly if the promise was broken.
    pub lost: u64,
}

/// The smallest share of requests that the promise allows to miss a limit. A search uses it as its loss ratio.
pub fn smallest_share(promise: &Promise) -> f64 {
    promise.quantiles.iter().map(|limit| 1.0 - limit.quantile).fold(promise.loss, f64::min)
}

/// Compares the counts of a trial with the promise. A request misses a limit of response times if it was answered later
/// than the limit, wrongly, or not at all.
pub fn judge(promise: &Promise, counts: &Counts) -> Judged {
    let requests = counts.requests;
    if requests == 0 {
        return Judged { kept: true, lost: 0 };
    }
    let not_answered = requests.saturating_sub(counts.answers);
    let slow = promise.quantiles.iter().map(|limit| (counts.slower_than(limit.within_s), 1.0 - limit.quantile));
    let parts: Vec<(u64, f64)> = std::iter::once((not_answered, promise.loss))
        .chain(slow.map(|(slow, share)| (slow + not_answered, share)))
        .collect();
    let share = |missed: u64| missed as f64 / requests as f64;
    // Allowed shares are differences such as 1 - 0.99; rounding must not decide about a single request.
    let exceeds = |missed: u64, most: f64| share(missed) > most * (1.0 + 1e-9);
    let kept = !parts.iter().any(|(missed, most)| exceeds(*missed, *most));
    let worst = parts.iter().filter(|(missed, most)| exceeds(*missed, *most)).map(|(missed, _)| *missed).max();
    let allowed = (smallest_share(promise) * requests as f64).floor() as u64;
    Judged { kept, lost: worst.unwrap_or(not_answered.min(allowed)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::service::QuantileLimit;

    fn counts(answers: u64, slow: u64) -> Counts {
        let mut counts = Counts { requests: 10_000, answers, ..Counts::default() };
        counts.times.record_n_ns(1_000_000, answers - slow);
        counts.times.record_n_ns(9_000_000, slow);
        counts
    }

    fn promise(loss: f64, quantiles: &[(f64, f64)]) -> Promise {
        let limit = |(quantile, within_s): &(f64, f64)| QuantileLimit { quantile: *quantile, within_s: *within_s };
        Promise { loss, timeout_s: 0.2, quantiles: quantiles.iter().map(limit).collect() }
    }

    #[test]
    fn loss_alone_is_a_share() {
        let promise = promise(1e-3, &[]);
        assert_eq!(judge(&promise, &counts(9990, 0)), Judged { kept: true, lost: 10 });
        assert_eq!(judge(&promise, &counts(9989, 0)), Judged { kept: false, lost: 11 });
    }

    #[test]
    fn a_quantile_counts_what_is_slow_or_missing() {
        let promise = promise(1e-3, &[(0.99, 5e-3)]);
        assert!(judge(&promise, &counts(10_000, 100)).kept);
        assert_eq!(judge(&promise, &counts(10_000, 101)), Judged { kept: false, lost: 101 });
        assert!(!judge(&promise, &counts(9995, 96)).kept, "96 slow and 5 missing");
        // The promise was kept, so the equivalent loss must not exceed the search's loss ratio, 0.1 % of 10 000
        // requests.
        assert_eq!(judge(&promise, &counts(9995, 90)), Judged { kept: true, lost: 5 });
    }

    #[test]
    fn what_is_kept_never_exceeds_the_smallest_share() {
        let promise = promise(0.05, &[(0.999, 5e-3)]);
        let judged = judge(&promise, &counts(9992, 0));
        assert!(judged.kept && judged.lost as f64 <= smallest_share(&promise) * 10_000.0);
        assert!((smallest_share(&promise) - 1e-3).abs() < 1e-12);
    }
}
