//! The simulated part: judges the constraints in a few looks, then picks the best of the feasible candidates by KN.

use netcliff_core::advice::{Candidate, CandidateStatus, Judged, Standing, Verdict};
use netcliff_core::{Advice, EngineKind, Scheme};

use super::kn::{Rule, Selection};
use super::samples::Samples;
use super::{AdviseError, Question, judge, screen};

/// Largest number of looks at the constraints. Each uses twice the replications of the previous one.
const LOOKS: u32 = 7;
/// The first look uses the first stage's replications divided by this. Candidates that are clearly worse get no more.
const FIRST_LOOK: u64 = 4;

/// State of a simulated candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Feasible,
    Open,
    Out,
}

/// A simulated candidate.
struct Entry {
    /// Index of the candidate in the advice.
    place: usize,
    state: State,
    judged: Vec<Judged>,
    why: String,
}

/// Number of replications of each candidate at the first look.
fn first_look(question: &Question) -> u64 {
    question.settings.first_stage.div_ceil(FIRST_LOOK).max(2)
}

/// The simulated candidates, numbered as in `samples`.
pub(super) struct Race<'a> {
    question: &'a Question,
    advice: &'a mut Advice,
    samples: Samples<'a>,
    entries: Vec<Entry>,
}

impl<'a> Race<'a> {
    /// Simulates the candidates at `places` for the first look.
    pub fn new(
        question: &'a Question,
        advice: &'a mut Advice,
        places: Vec<usize>,
        mut samples: Samples<'a>,
    ) -> Result<Self, AdviseError> {
        let settings = &question.settings;
        let needed = settings.first_stage * settings.packets_each * places.len() as u64;
        if needed > settings.packets_at_most {
            let count = places.len();
            return Err(AdviseError::TooFewPackets { given: settings.packets_at_most, needed, count });
        }
        let mut entries = Vec::new();
        for place in places {
            let number = samples.add(&advice.candidates[place].scheme);
            samples.fill(number, first_look(question))?;
            let asked = question.constraints.iter().map(|one| one.measure).chain([question.goal.measure]);
            let absent = asked.into_iter().find(|measure| samples.values(number, *measure).is_none());
            let why = absent.map(|measure| format!("a replication without {measure}: nothing was delivered"));
            let state = if why.is_some() { State::Out } else { State::Open };
            entries.push(Entry { place, state, judged: Vec::new(), why: why.unwrap_or_default() });
        }
        Ok(Self { question, advice, samples, entries })
    }

    /// Judges the constraints, selects the best, and writes the results into the advice.
    pub fn run(mut self) -> Result<(), AdviseError> {
        self.judge_all()?;
        let feasible = self.numbers(State::Feasible);
        if feasible.is_empty() {
            let open = self.by_goal(State::Open);
            self.advice.verdict = if open.is_empty() { Verdict::NoneFeasible } else { Verdict::NotDecided };
            self.advice.advised = self.schemes(&open);
        } else {
            let zone = self.indifference();
            self.advice.indifference = Some(zone);
            let selection = self.select(&feasible, zone)?;
            self.conclude(&feasible, &selection, zone);
        }
        self.write();
        Ok(())
    }

    fn numbers(&self, state: State) -> Vec<usize> {
        (0..self.entries.len()).filter(|number| self.entries[*number].state == state).collect()
    }

    fn schemes(&self, numbers: &[usize]) -> Vec<Scheme> {
        numbers.iter().map(|number| self.advice.candidates[self.entries[*number].place].scheme.clone()).collect()
    }

    /// Mean of the goal's figure; NaN if a replication lacks it.
    fn mean(&self, number: usize) -> f64 {
        self.samples.figure(number, self.question.goal.measure).map_or(f64::NAN, |figure| figure.value)
    }

    /// Numbers of the candidates in a state, best first.
    fn by_goal(&self, state: State) -> Vec<usize> {
        let mut numbers = self.numbers(state);
        let sign = if self.question.goal.maximise { -1.0 } else { 1.0 };
        numbers.sort_by(|a, b| (sign * self.mean(*a)).total_cmp(&(sign * self.mean(*b))));
        numbers
    }

    /// Paired interval (low, high) of how much worse `one` is than `other`; negative if better. `None` if they have no
    /// figure in common.
    fn worse_by(&self, one: usize, other: usize, confidence: f64) -> Option<(f64, f64)> {
        let ends = self.samples.difference(one, other, self.question.goal.measure, confidence)?;
        let ends = ends.interval.map_or((ends.value, ends.value), |ends| (ends.low, ends.high));
        Some(if self.question.goal.maximise { (-ends.1, -ends.0) } else { ends })
    }

    /// Permitted error of judging, over all candidates, constraints and looks. 0 without constraints.
    fn judging_error(&self) -> f64 {
        let all = 1.0 - self.question.settings.confidence;
        if self.question.constraints.is_empty() { 0.0 } else { all / 2.0 }
    }

    /// Looks until every candidate is judged or dropped, or until half of the permitted packets are used.
    fn judge_all(&mut self) -> Result<(), AdviseError> {
        let settings = self.question.settings;
        let questions = (self.entries.len() * (self.question.constraints.len() + 1)) as f64;
        for look in 0..LOOKS {
            let confidence = 1.0 - self.judging_error() / questions / f64::from(2u32 << look);
            let count = first_look(self.question) << look;
            let open = self.numbers(State::Open);
            let more = (count - count / 2) * settings.packets_each * open.len() as u64;
            if open.is_empty() || (look > 0 && self.samples.packets + more > settings.packets_at_most / 2) {
                break;
            }
            for number in &open {
                self.samples.fill(*number, count)?;
                self.judge_one(*number, confidence);
            }
            self.drop_worse(confidence);
        }
        Ok(())
    }

    fn judge_one(&mut self, number: usize, confidence: f64) {
        let values = |measure| self.samples.values(number, measure).unwrap_or_default();
        let judged = self.question.constraints.iter().map(|constraint| {
            let (values, each) = (values(constraint.measure), self.question.settings.packets_each);
            judge::judge(*constraint, &values, each, confidence)
        });
        let judged: Vec<Judged> = judged.collect();
        let entry = &mut self.entries[number];
        if let Some(missed) = judged.iter().find(|judged| judged.standing == Standing::Missed) {
            entry.state = State::Out;
            entry.why = format!("breaks {}", missed.constraint);
        } else if judged.iter().all(|judged| judged.standing == Standing::Met) {
            entry.state = State::Feasible;
        }
        entry.judged = judged;
    }

    /// Drops undecided candidates that are worse than a feasible one, and feasible ones that are worse than the best by
    /// more than the indifference zone. They need neither more looks nor the selection.
    fn drop_worse(&mut self, confidence: f64) {
        let feasible = self.by_goal(State::Feasible);
        let Some(best) = feasible.first().copied() else { return };
        let zone = self.indifference();
        let open = self.numbers(State::Open).into_iter().map(|number| (number, 0.0));
        let feasible = feasible.into_iter().filter(|number| *number != best).map(|number| (number, zone));
        for (number, by) in open.chain(feasible).collect::<Vec<_>>() {
            if self.worse_by(number, best, confidence).is_some_and(|(low, _)| low > by) {
                self.entries[number].state = State::Out;
                self.entries[number].why = "worse than one that keeps the constraints".to_owned();
            }
        }
    }

    /// The indifference zone for the best feasible candidate.
    fn indifference(&self) -> f64 {
        let best = self.by_goal(State::Feasible).first().map_or(0.0, |number| self.mean(*number));
        // If the figure is 0 in all replications, the zone would be 0. Any zone above 0 decides then.
        self.question.settings.indifference.at(&self.question.goal, best).max(f64::MIN_POSITIVE)
    }

    /// Runs KN over the feasible candidates. The error is divided among all simulated candidates, because the same
    /// samples decided which are feasible.
    fn select(&mut self, feasible: &[usize], zone: f64) -> Result<Selection, AdviseError> {
        let settings = self.question.settings;
        let rule = Rule {
            systems: self.entries.len(),
            first: settings.first_stage.max(2) as usize,
            alpha: 1.0 - settings.confidence - self.judging_error(),
            delta: zone,
        };
        let (goal, samples) = (self.question.goal, &mut self.samples);
        let sign = if goal.maximise { -1.0 } else { 1.0 };
        let mut sample = |number: usize, replication: usize| {
            Ok::<_, AdviseError>(samples.value(number, replication, goal.measure)?.map(|value| sign * value))
        };
        rule.select(feasible, &mut sample)
    }

    fn conclude(&mut self, feasible: &[usize], selection: &Selection, zone: f64) {
        let [pick] = selection.left[..] else {
            let left = self.contenders(&selection.left);
            self.advice.verdict = Verdict::NotDecided;
            self.advice.advised = self.schemes(&left);
            return self.losers(feasible, &left);
        };
        self.advice.advised = self.schemes(&[pick]);
        self.advice.verdict = Verdict::Picked;
        let confidence = self.question.settings.confidence;
        let near = |number: &usize| {
            *number != pick && self.worse_by(*number, pick, confidence).is_some_and(|(_, high)| high <= zone)
        };
        let alike: Vec<usize> = feasible.iter().copied().filter(near).collect();
        self.advice.alike = self.schemes(&alike);
        let open = |number: &usize| self.worse_by(*number, pick, confidence).is_none_or(|(low, _)| low <= 0.0);
        let (open, worse): (Vec<usize>, Vec<usize>) = self.by_goal(State::Open).into_iter().partition(open);
        for number in worse {
            self.entries[number].state = State::Out;
            self.entries[number].why = "worse than the pick".to_owned();
        }
        for scheme in self.schemes(&open) {
            self.advice
                .notes
                .push(format!("{scheme} may be better, but whether it keeps the constraints is not decided"));
        }
        self.losers(feasible, &[pick]);
    }

    /// Of the systems left by the procedure, best first: the first two, and those that are not significantly worse than
    /// the first. With a narrow indifference zone, the procedure is slow to drop even candidates that are far behind.
    fn contenders(&self, left: &[usize]) -> Vec<usize> {
        let error = (1.0 - self.question.settings.confidence) / self.entries.len() as f64;
        let order: Vec<usize> =
            self.by_goal(State::Feasible).into_iter().filter(|number| left.contains(number)).collect();
        let Some(leading) = order.first().copied() else { return order };
        let behind = |number: &usize| self.worse_by(*number, leading, 1.0 - error).is_some_and(|(low, _)| low > 0.0);
        let near = |(place, number): &(usize, usize)| *place < 2 || !behind(number);
        order.into_iter().enumerate().filter(near).map(|(_, number)| number).collect()
    }

    fn losers(&mut self, feasible: &[usize], left: &[usize]) {
        for number in feasible.iter().filter(|number| !left.contains(number)) {
            self.entries[*number].state = State::Out;
            self.entries[*number].why = format!("eliminated by {} replications", self.samples.count(*number));
        }
    }

    fn write(&mut self) {
        let measures = screen::measures(self.question);
        let picked = self.advice.verdict == Verdict::Picked;
        let mut unsettled = 0;
        for (number, entry) in self.entries.iter_mut().enumerate() {
            let candidate: &mut Candidate = &mut self.advice.candidates[entry.place];
            let had = |measure: &netcliff_core::Measure| {
                self.samples.figure(number, *measure).map(|figure| (measure.key.to_owned(), figure))
            };
            candidate.engine = Some(EngineKind::Sim);
            candidate.figures = measures.iter().filter_map(had).collect();
            candidate.replications = self.samples.count(number) as u64;
            let missed = entry.judged.iter().any(|judged| judged.standing == Standing::Missed);
            (candidate.fate, candidate.why) = match entry.state {
                State::Feasible if picked => {
                    (CandidateStatus::Picked, "best of those that keep the constraints".to_owned())
                }
                State::Feasible => {
                    (CandidateStatus::Contends, "not distinguished from the best within the packets allowed".to_owned())
                }
                State::Open => (CandidateStatus::Contends, "not decided whether it keeps the constraints".to_owned()),
                // `judged` is empty if some replication delivered nothing; then no constraint is met.
                State::Out if missed || entry.judged.is_empty() && !self.question.constraints.is_empty() => {
                    (CandidateStatus::Infeasible, std::mem::take(&mut entry.why))
                }
                State::Out => (CandidateStatus::Worse, std::mem::take(&mut entry.why)),
            };
            candidate.constraints = std::mem::take(&mut entry.judged);
            unsettled += usize::from(self.samples.unsettled(number).0 > 0);
        }
        self.advice.packets = self.samples.packets;
        if unsettled > 0 {
            self.advice.notes.push(format!(
                "{unsettled} of the simulated have replications of {} packets without a steady state in their first half: ask \
                 for longer ones, or read their figures as of a host that falls behind",
                self.question.settings.packets_each
            ));
        }
    }
}
