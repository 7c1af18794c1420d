//! Uncertainty of the fits: the same fits to resampled trials (bootstrap, Efron 1979).

use netcliff_core::Host;
use netcliff_core::finding::Correlated;
use netcliff_model::sensitivity::costs;

use super::fit::Fits;
use super::{Resampled, Seen, describe};
use netcliff_stats::chance::Chance;
use netcliff_trial::trial::TrialShape;

/// Number of draws: at each end of a 95 % interval, 2.5 % of the draws (five) lie outside.
const RESAMPLES: usize = 200;
/// Smallest number of the [`RESAMPLES`] draws that must determine the costs: if fewer do, they are a biased sample.
const ENOUGH: usize = 180;
/// Correlation above which two costs can hardly be separated.
const HARDLY_APART: f64 = 0.9;

/// Bootstrap replicates of the host. All costs of a replicate come from one draw, so that their correlation is
/// preserved. Empty if too few draws determine the costs.
pub fn hosts(seen: &Seen, base: &TrialShape, calibrated: &Host) -> Vec<Resampled> {
    let mut chance = Chance::new(base.seed);
    let mut draw = || {
        let drawn = seen.drawn(&mut chance);
        let fits = Fits::of(&drawn, base).ok()?;
        Some(Resampled { host: describe::host(&fits, &drawn, base, calibrated.tick_s), costs: fits.costs() })
    };
    let hosts: Vec<Resampled> = (0..RESAMPLES).filter_map(|_| draw()).collect();
    if hosts.len() >= ENOUGH { hosts } else { Vec::new() }
}

impl Seen {
    /// Resamples the trials of each kind, with replacement.
    fn drawn(&self, chance: &mut Chance) -> Self {
        Self {
            plain: drawn(&self.plain, chance),
            quiet: Vec::new(),
            sizes: drawn(&self.sizes, chance),
            full: drawn(&self.full, chance),
            blocked: drawn(&self.blocked, chance),
            capacity: self.capacity,
            ring: self.ring,
            backlog: self.backlog,
        }
    }
}

pub fn drawn<T: Clone>(all: &[T], chance: &mut Chance) -> Vec<T> {
    all.iter().map(|_| all[((chance.uniform() * all.len() as f64) as usize).min(all.len() - 1)].clone()).collect()
}

/// Pairs of costs whose replicates are strongly correlated.
pub fn correlated(hosts: &[Resampled]) -> Vec<Correlated> {
    let values: Vec<(&str, Vec<f64>)> = costs()
        .filter_map(|cost| {
            Some((cost.key(), hosts.iter().map(|drawn| cost.of(&drawn.host)).collect::<Option<Vec<f64>>>()?))
        })
        .collect();
    let mut found = Vec::new();
    for (place, (a, of_a)) in values.iter().enumerate() {
        for (b, of_b) in &values[place + 1..] {
            let correlation = correlation(of_a, of_b).unwrap_or(0.0);
            if correlation.abs() >= HARDLY_APART {
                found.push(Correlated { a: (*a).to_owned(), b: (*b).to_owned(), correlation });
            }
        }
    }
    found
}

/// Correlation of two samples; `None` if a sample does not vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let moment = |x: &[f64], mean_x: f64, y: &[f64], mean_y: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum()
    };
    let (of_a, of_b) = (moment(a, mean_a, a, mean_a), moment(b, mean_b, b, mean_b));
    // Sums of equal numbers vary only by rounding.
    let varies = |moment: f64, mean: f64| moment > 1e-20 * mean * mean;
    (varies(of_a, mean_a) && varies(of_b, mean_b)).then(|| moment(a, mean_a, b, mean_b) / (of_a * of_b).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_that_come_out_one_for_the_other_are_named() {
        let host = |more: f64| Host {
            protocol_s: 1e-6 + more,
            poll_s: 5e-7 - 2.0 * more,
            interrupt_s: 1e-6 + 1e-8 * (more * 1e8).sin(),
            ..Host::pentium4_2530mhz()
        };
        let costs = crate::calibrate::tests::COSTS;
        let drawn = |n: i32| Resampled { host: host(1e-9 * f64::from(n)), costs };
        let hosts: Vec<Resampled> = (0..50).map(drawn).collect();
        let found = correlated(&hosts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].a.as_str(), found[0].b.as_str()), ("protocol", "poll"));
        assert!((found[0].correlation + 1.0).abs() < 1e-9);
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), None);
    }
}
