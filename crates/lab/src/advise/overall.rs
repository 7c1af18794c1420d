//! One setting for several loads.

use netcliff_core::advice::{Candidate, CandidateStatus, Overall, Verdict};
use netcliff_core::{Advice, Dimension};

/// The penalty of one candidate for all loads: how often it breaks a constraint, and its largest shortfall from the
/// best of a load. The best candidate is first. Only candidates with a figure at every load are included. The figures
/// are the estimates of each load's advice, without a joint confidence over the loads.
pub fn overall(loads: &[Advice]) -> Vec<Overall> {
    let Some(first) = loads.first() else { return Vec::new() };
    let mut all: Vec<Overall> = first.candidates.iter().filter_map(|candidate| over(loads, candidate)).collect();
    all.sort_by(|a, b| a.infeasible.cmp(&b.infeasible).then(a.shortfall.total_cmp(&b.shortfall)));
    all
}

fn over(loads: &[Advice], candidate: &Candidate) -> Option<Overall> {
    let mut found = Overall { scheme: candidate.scheme.clone(), infeasible: 0, shortfall: 0.0, worst_pps: None };
    for advice in loads {
        let here = advice.candidate(&candidate.scheme)?;
        let value = here.figure(advice.goal.measure)?.value;
        found.infeasible += usize::from(here.fate == CandidateStatus::Infeasible);
        let Some(best) = best(advice) else { continue };
        let shortfall = shortfall(advice, value, best);
        if found.worst_pps.is_none() || shortfall > found.shortfall {
            (found.shortfall, found.worst_pps) = (shortfall, advice.traffic.rate_pps());
        }
    }
    Some(found)
}

/// Figure of the advised candidate. `None` if no candidate is feasible; then there is no shortfall.
fn best(advice: &Advice) -> Option<f64> {
    let leading = advice.advised.first().filter(|_| advice.verdict != Verdict::NoneFeasible)?;
    advice.candidate(leading)?.figure(advice.goal.measure).map(|figure| figure.value)
}

/// Shortfall from the best, 0 if the value is not worse: a share of one CPU for CPU shares, otherwise relative to the
/// best.
fn shortfall(advice: &Advice, value: f64, best: f64) -> f64 {
    let worse = if advice.goal.maximise { best - value } else { value - best };
    let scale = if advice.goal.measure.dimension == Dimension::Share { 1.0 } else { best.abs() };
    if worse <= 0.0 { 0.0 } else { worse / scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::fake::{Fake, Noted};
    use crate::advise::{Question, Settings, advise};
    use netcliff_core::{Host, Load, Traffic};

    /// `disable-enable` and `interrupt` are each best at one load. The third setting is slightly worse than the best at
    /// both.
    #[test]
    fn the_smallest_of_the_largest_shortfalls_comes_first() {
        let names = ["disable-enable:merged=false", "ideal", "interrupt:drops_interrupt=true"];
        let answer = |p99s: [f64; 3], pps: f64| {
            let rows: Vec<_> = names.iter().zip(p99s).map(|(name, p99_s)| (*name, p99_s, 0.5, 0.0)).collect();
            let fake = Fake::new(&rows);
            let question = Question {
                host: Host::preset("pentium4-2530mhz").unwrap(),
                traffic: Traffic::default(),
                load: Load::Pps(pps),
                goal: "minimise p99".parse().unwrap(),
                constraints: Vec::new(),
                candidates: names.iter().map(|name| name.parse().unwrap()).collect(),
                settings: Settings { margin: 10.0, ..Settings::default() },
            };
            advise(&question, &fake, &fake, &mut Noted::default()).unwrap()
        };
        let loads = [answer([10e-6, 30e-6, 12e-6], 10e3), answer([40e-6, 20e-6, 22e-6], 90e3)];
        let order = overall(&loads);
        let schemes: Vec<String> = order.iter().map(|one| one.scheme.to_string()).collect();
        assert_eq!(schemes, [names[2], names[0], names[1]]);
        assert!((order[0].shortfall - 0.2).abs() < 0.05, "{}", order[0].shortfall);
        assert_eq!((order[1].worst_pps, order[2].worst_pps), (Some(90e3), Some(10e3)));
        assert!(overall(&[]).is_empty());
    }
}
