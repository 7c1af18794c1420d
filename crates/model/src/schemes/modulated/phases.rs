//! Times that are not exponential, as exponential phases: a stage becomes a sum of phases (Erlang) or a choice of two
//! (hyperexponential), so that the chain still has exponential times only.

use netcliff_core::note::Note;

use super::chain::{Chain, Role};
use crate::queue::arrivals::TimeShape;
use crate::queue::qbd::Jump;

/// Maximum number of phases in a sum, also used for a constant time: each phase costs as much computation as a stage. A
/// coefficient of variation of 0.35 instead of 0 changes the cliff by less than a simulation resolves
/// (docs/theory/application.md, "Times that vary more or less").
const MOST_PHASES: u32 = 8;

/// The exponential phases that a stage's time consists of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phases {
    /// A single exponential time.
    One,
    /// This number of phases in sequence.
    Sum(usize),
    /// One of two phases: (probability, mean / mean of the whole).
    Mixture([(f64, f64); 2]),
}

impl Phases {
    /// Returns the phases of a distribution; `None` if exponential phases cannot express it.
    pub fn of(shape: &TimeShape) -> Option<Self> {
        match shape {
            TimeShape::Exponential | TimeShape::Erlang(1) => Some(Self::One),
            TimeShape::Deterministic => Some(Self::Sum(MOST_PHASES as usize)),
            TimeShape::Erlang(stages) => Some(Self::Sum((*stages).min(MOST_PHASES) as usize)),
            TimeShape::Hyperexponential(phases) => Some(Self::Mixture(*phases)),
            TimeShape::Lognormal(_) | TimeShape::Parts(_) => None,
        }
    }

    /// Returns a note on the approximation by phases; `None` if the phases are exact.
    pub fn note(shape: &TimeShape) -> Option<Note> {
        match (Self::of(shape)?, shape) {
            (Self::One, _) => None,
            (Self::Sum(_), TimeShape::Erlang(stages)) if *stages <= MOST_PHASES => Some(Note::ExponentialRest),
            (Self::Sum(_), _) => Some(Note::FewerPhases(MOST_PHASES)),
            (Self::Mixture(_), _) => Some(Note::ExponentialInterrupts),
        }
    }

    /// Divides each stage's time into phases. Interrupt latency and register writes stay exponential, and so do
    /// interrupts if times are a mixture: an arrival or an excursion begins in their first phase. Only for chains whose
    /// stages do not change with arrivals.
    pub fn expand(self, chain: &Chain) -> Chain {
        if self == Self::One {
            return chain.clone();
        }
        let layout = Layout::new(self, &chain.roles);
        let spread = |jumps: &[Jump]| -> Vec<Jump> { jumps.iter().flat_map(|jump| layout.between(*jump)).collect() };
        let (mut nothing, mut local) = (spread(&chain.nothing), spread(&chain.local));
        nothing.extend(layout.within(&[&chain.nothing]));
        local.extend(layout.within(&[&chain.local, &chain.down]));
        let roles = chain.roles.iter().zip(&layout.counts).flat_map(|(role, count)| vec![*role; *count]).collect();
        Chain { roles, nothing, local, down: spread(&chain.down), last: spread(&chain.last), ..chain.clone() }
    }

    /// For each phase of the expanded chain, returns the phases with which its stage begins: (phase, probability).
    pub fn beginnings(self, roles: &[Role]) -> Vec<Vec<(usize, f64)>> {
        let layout = Layout::new(self, roles);
        (0..roles.len()).flat_map(|stage| vec![layout.entries(stage); layout.counts[stage]]).collect()
    }

    /// Number of phases of a stage.
    fn count(self, role: Role) -> usize {
        match (self, role) {
            (Self::Sum(phases), Role::Interrupt | Role::First | Role::Poll | Role::Serving) => phases,
            (Self::Mixture(both), Role::Poll | Role::Serving) => both.len(),
            _ => 1,
        }
    }
}

/// First phase and number of phases of each stage.
struct Layout {
    phases: Phases,
    firsts: Vec<usize>,
    counts: Vec<usize>,
}

impl Layout {
    fn new(phases: Phases, roles: &[Role]) -> Self {
        let counts: Vec<usize> = roles.iter().map(|role| phases.count(*role)).collect();
        let before = |stage: usize| counts[..stage].iter().sum();
        Self { phases, firsts: (0..roles.len()).map(before).collect(), counts }
    }

    /// Phases with which a stage begins, and their probabilities.
    fn entries(&self, stage: usize) -> Vec<(usize, f64)> {
        let first = self.firsts[stage];
        match self.phases {
            Phases::Mixture(both) if self.counts[stage] > 1 => {
                both.iter().enumerate().map(|(place, (share, _))| (first + place, *share)).collect()
            }
            _ => vec![(first, 1.0)],
        }
    }

    /// Phases with which a stage may end, and their rates as multiples of the stage's rate.
    fn ends(&self, stage: usize) -> Vec<(usize, f64)> {
        let (first, count) = (self.firsts[stage], self.counts[stage]);
        match self.phases {
            Phases::Mixture(both) if count > 1 => {
                both.iter().enumerate().map(|(place, (_, mean))| (first + place, 1.0 / mean)).collect()
            }
            _ => vec![(first + count - 1, count as f64)],
        }
    }

    /// Replaces a jump between two stages by jumps between their phases.
    fn between(&self, (from, to, rate): Jump) -> Vec<Jump> {
        let entries = self.entries(to);
        let each = |(end, faster): (usize, f64)| {
            entries.iter().map(move |(entry, share)| (end, *entry, rate * faster * share)).collect::<Vec<_>>()
        };
        self.ends(from).into_iter().flat_map(each).collect()
    }

    /// Jumps from each phase of a sum to the next, in the stages from which these jumps start.
    fn within(&self, jumps: &[&[Jump]]) -> Vec<Jump> {
        let Phases::Sum(_) = self.phases else { return Vec::new() };
        let mut rates = vec![0.0; self.counts.len()];
        jumps.iter().copied().flatten().for_each(|(from, _, rate)| rates[*from] += rate);
        let stages = self.firsts.iter().zip(&self.counts).zip(rates);
        let each = |((first, count), rate): ((&usize, &usize), f64)| {
            let (first, count) = (*first, *count);
            (first..first + count - 1).map(move |phase| (phase, phase + 1, rate * count as f64)).collect::<Vec<_>>()
        };
        stages.filter(|(_, rate)| *rate > 0.0).flat_map(each).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Chain {
        Chain {
            local: vec![(0, 1, 1e6), (1, 2, 2e6)],
            down: vec![(2, 2, 3e6), (2, 1, 1e6)],
            last: vec![(2, 0, 4e6)],
            ..Chain::new(vec![Role::Waiting, Role::Poll, Role::Serving])
        }
    }

    /// Mean time from entering a stage until leaving it, over its phases.
    fn mean_s(chain: &Chain, entries: &[(usize, f64)]) -> f64 {
        let all = || chain.local.iter().chain(&chain.down);
        let out = |phase: usize| all().filter(|(from, ..)| *from == phase).map(|(.., rate)| rate).sum::<f64>();
        let role = chain.roles[entries[0].0];
        entries
            .iter()
            .map(|(entry, share)| {
                let (mut phase, mut sum) = (*entry, 0.0);
                loop {
                    sum += 1.0 / out(phase);
                    let inner = chain.local.iter().find(|(from, to, _)| *from == phase && chain.roles[*to] == role);
                    match inner {
                        Some((_, next, _)) => phase = *next,
                        None => return share * sum,
                    }
                }
            })
            .sum()
    }

    #[test]
    fn a_stage_in_phases_keeps_its_mean_and_where_it_leads() {
        let mixture = TimeShape::Hyperexponential([(0.8, 0.5), (0.2, 3.0)]);
        for shape in [TimeShape::Erlang(3), TimeShape::Deterministic, mixture] {
            let phases = Phases::of(&shape).unwrap();
            let (plain, found) = (chain(), phases.expand(&chain()));
            let beginnings = phases.beginnings(&plain.roles);
            assert_eq!(beginnings.len(), found.roles.len(), "{shape:?}");
            for (role, wanted_s) in [(Role::Poll, 0.5e-6), (Role::Serving, 0.25e-6)] {
                let at = found.roles.iter().position(|at| *at == role).unwrap();
                assert!((mean_s(&found, &beginnings[at]) / wanted_s - 1.0).abs() < 1e-12, "{shape:?} {role:?}");
            }
            // A quarter of the services leads to a poll.
            let leads = |role: Role| -> f64 {
                found.down.iter().filter(|(_, to, _)| found.roles[*to] == role).map(|(.., rate)| rate).sum()
            };
            assert!((leads(Role::Serving) / leads(Role::Poll) - 3.0).abs() < 1e-12, "{shape:?}");
        }
        assert_eq!(Phases::of(&TimeShape::Lognormal(0.5)), None);
    }
}
