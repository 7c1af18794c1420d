//! [`Environment`]: states that change independently of the scheme, namely the states of a traffic source or of a CPU
//! with pauses.

use netcliff_core::Arrivals;
use netcliff_core::host::{PauseTimes, Pauses};

use crate::queue::qbd::Jump;

/// A traffic source with two states, quiet and busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Source {
    /// Arrival rate in each state / mean rate.
    relative_rates: [f64; 2],
    /// Rate at which each state is left (1/s).
    pub leaving: [f64; 2],
}

impl Source {
    /// Returns the source of MMPP arrivals; `None` for other arrivals. If the peak rate is 1 / (share of busy time),
    /// the quiet state sends nothing.
    pub fn of(arrivals: &Arrivals) -> Option<Self> {
        let Arrivals::Mmpp { peak, busy, stay_s } = arrivals else { return None };
        let quiet = ((1.0 - peak * busy) / (1.0 - busy)).max(0.0);
        Some(Self { relative_rates: [quiet, *peak], leaving: [busy / (1.0 - busy) / stay_s, 1.0 / stay_s] })
    }

    /// The source as an environment in which the CPU always works.
    pub fn environment(&self) -> Environment {
        let [quiet, busy] = self.leaving;
        let states = self.relative_rates.map(|relative_rate| State { relative_rate, works: true });
        Environment { states: states.to_vec(), switches: vec![(0, 1, quiet), (1, 0, busy)] }
    }
}

/// A state of an environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// Arrival rate / mean rate.
    pub relative_rate: f64,
    /// False: the CPU stands still.
    pub works: bool,
}

/// The states, and the jumps between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    pub states: Vec<State>,
    /// (from state, to state, rate (1/s)).
    pub switches: Vec<Jump>,
}

/// Number of exponential stages of these pause lengths; `None` if they do not consist of exponential stages.
pub fn stages(times: &PauseTimes) -> Option<u32> {
    match times {
        PauseTimes::Exponential => Some(1),
        PauseTimes::Erlang(stages) => Some(*stages),
        PauseTimes::Constant | PauseTimes::Empirical(_) | PauseTimes::Recorded(_) => None,
    }
}

impl Environment {
    /// An environment that never changes: Poisson arrivals, and a CPU that always works.
    pub fn constant() -> Self {
        Self { states: vec![State { relative_rate: 1.0, works: true }], switches: Vec::new() }
    }

    /// Environment of a CPU with pauses: it works in state 0, and the other states are the stages of a pause. `None` if
    /// the lengths do not consist of exponential stages.
    pub fn of_pauses(pauses: &Pauses) -> Option<Self> {
        let count = stages(&pauses.times)? as usize;
        let stage_rate = count as f64 / pauses.mean_s;
        let states = (0..=count).map(|state| State { relative_rate: 1.0, works: state == 0 }).collect();
        let through = (1..=count).map(|stage| (stage, (stage + 1) % (count + 1), stage_rate));
        Some(Self { states, switches: std::iter::once((0, 1, 1.0 / pauses.every_s)).chain(through).collect() })
    }
}
