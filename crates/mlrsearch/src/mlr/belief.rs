//! Posterior distribution of the aim: the load at which half of the full trials lose nothing.
//!
//! Losses come at a rate that grows exponentially with the load, as the lower tail of any unimodal distribution of
//! capacities nearly does over a few widths. A trial of length `d` at load `x` expects
//! `ln 2 * d / full * (x / aim)^(1 / scale)` losses, and has none with probability `exp(-expected)`, which is 1/2 for a
//! full trial at the aim. The prior is a normal distribution with the aim and the standard error that follow from
//! centre and spread. Each trial multiplies the weights of the candidates by its likelihood.

use std::f64::consts::{LN_2, PI};

use crate::trial::Trial;

pub(super) struct Belief {
    /// Candidates for the aim: (logarithm of the load, logarithm of the weight).
    candidates: Vec<(f64, f64)>,
    /// Relative rise of the load that multiplies the rate of losses by e.
    scale: f64,
    full_s: f64,
    short_s: f64,
}

/// Number of candidates for the aim, evenly spaced in the logarithm of the load, up to [`REACH`] standard errors to
/// both sides of the prior's mean.
const CANDIDATES: u32 = 121;
const REACH: f64 = 5.0;

impl Belief {
    /// Makes a normal prior with mean `aim_pps` and the relative standard error `error`.
    pub(super) fn new(aim_pps: f64, error: f64, scale: f64, full_s: f64, short_s: f64) -> Self {
        let candidates = (0..CANDIDATES)
            .map(|at| {
                let errors = REACH * (2.0 * f64::from(at) / f64::from(CANDIDATES - 1) - 1.0);
                (aim_pps.ln() + errors * error, -0.5 * errors * errors)
            })
            .collect();
        Self { candidates, scale, full_s, short_s }
    }

    fn expected(&self, aim: f64, load: f64, duration_s: f64) -> f64 {
        LN_2 * duration_s / self.full_s * ((load - aim) / self.scale).clamp(-50.0, 50.0).exp()
    }

    /// Updates the posterior with a trial. For a trial that lost, the likelihood also depends on how much it lost.
    pub(super) fn hear(&mut self, trial: &Trial, loss_ratio: f64) {
        let (load, lost) = (trial.load_pps.ln(), trial.loss_ratio());
        let deficit = lost * trial.duration_s / self.short_s / self.scale;
        for at in 0..self.candidates.len() {
            let expected = self.expected(self.candidates[at].0, load, trial.duration_s);
            self.candidates[at].1 += if lost > loss_ratio { ln_of_loss(expected, deficit) } else { -expected };
        }
    }

    /// Updates the posterior with a trial that ended at its first loss.
    pub(super) fn hear_ended(&mut self, trial: &Trial) {
        let load = trial.load_pps.ln();
        for at in 0..self.candidates.len() {
            let expected = self.expected(self.candidates[at].0, load, trial.duration_s);
            self.candidates[at].1 += expected.max(1e-300).ln() - expected;
        }
    }

    /// Probability that a full trial at `load_pps` loses nothing.
    pub(super) fn upheld(&self, load_pps: f64) -> f64 {
        let most = self.candidates.iter().map(|(_, weight)| *weight).fold(f64::NEG_INFINITY, f64::max);
        let (mut upheld, mut all) = (0.0, 0.0);
        for (aim, weight) in &self.candidates {
            let weight = (weight - most).exp();
            all += weight;
            upheld += weight * (-self.expected(*aim, load_pps.ln(), self.full_s)).exp();
        }
        upheld / all
    }

    /// Bisects for the load (pps) at which a full trial loses nothing with this probability.
    pub(super) fn load(&self, probability: f64) -> f64 {
        let ends = [self.candidates.first(), self.candidates.last()].map(|end| end.map_or(0.0, |(aim, _)| *aim));
        let (mut low, mut high) = (ends[0] - 10.0 * self.scale, ends[1] + 5.0 * self.scale);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if self.upheld(middle.exp()) > probability { low = middle } else { high = middle }
        }
        low.exp()
    }
}

/// Logarithm of the likelihood, up to a constant, of a total loss of `deficit`, if `expected` losses come at random and
/// the size of each is exponential with mean 1:
/// `exp(-expected) * sum over k >= 1 of expected^k deficit^(k-1) / (k! (k-1)!)`.
fn ln_of_loss(expected: f64, deficit: f64) -> f64 {
    let product = expected * deficit;
    if product > 300.0 {
        // The sum is a Bessel function, for large arguments replaced by its asymptote.
        let asymptote = 2.0 * product.sqrt() + 0.25 * (expected.ln() - 3.0 * deficit.ln());
        return -expected + asymptote - 0.5 * (4.0 * PI).ln();
    }
    let (mut term, mut sum, mut count) = (expected, expected, 1.0);
    while count < 200.0 && term > 1e-12 * sum {
        term *= product / (count * (count + 1.0));
        sum += term;
        count += 1.0;
    }
    -expected + sum.max(1e-300).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(load_pps: f64, duration_s: f64, lost: u64) -> Trial {
        Trial { load_pps, duration_s, sent: (load_pps * duration_s) as u64, lost }
    }

    #[test]
    fn at_the_aim_every_other_full_trial_is_upheld() {
        let belief = Belief::new(1e5, 1e-6, 0.01, 60.0, 1.0);
        assert!((belief.upheld(1e5) - 0.5).abs() < 1e-4);
        assert!((belief.load(0.5) / 1e5 - 1.0).abs() < 1e-5);
        // At a load that is higher by one `scale` (in logarithm), losses are e times as frequent.
        assert!((belief.upheld(1e5 * 0.01f64.exp()) - 0.5f64.powf(1f64.exp())).abs() < 1e-4);
    }

    #[test]
    fn what_passes_raises_the_aim_and_what_loses_lowers_it_the_more_it_lost() {
        let aim_after = |one: Trial| {
            let mut belief = Belief::new(1e5, 0.02, 0.02, 60.0, 1.0);
            belief.hear(&one, 0.0);
            belief.load(0.5)
        };
        let before = Belief::new(1e5, 0.02, 0.02, 60.0, 1.0).load(0.5);
        let [passed, little, much] = [0, 1_000, 50_000].map(|lost| aim_after(trial(1e5, 60.0, lost)));
        assert!(passed > before && before > little && little > much, "{passed} {before} {little} {much}");
    }

    #[test]
    fn the_likelihood_of_a_loss_has_no_step_where_its_form_changes() {
        let by = |product: f64| ln_of_loss(20.0, product / 20.0);
        let slope = (by(299.9) - by(299.8)) / 0.1;
        let step = by(300.1) - by(299.9);
        assert!((step - 0.2 * slope).abs() < 0.02, "{step} {slope}");
    }
}
