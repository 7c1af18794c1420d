//! Whether the host's CPU halts between packets, and the result with the other mode.

use netcliff_core::Choice;
use netcliff_core::finding::{IdleModes, IdleTrial};
use netcliff_host::cpu::heartbeat::Heartbeat;
use netcliff_host::idle::Awake;

use netcliff_trial::bench::{Bench, Observation, value};
use netcliff_trial::trial::{TrialError, TrialSpec};

/// Idle mode of the host's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// The CPU never halts. This is the default, because a halted virtual CPU may continue milliseconds late: with
    /// halts, six runs found cliffs from 283 to 417 kpps, while with a loop that keeps the CPU awake three runs lost
    /// nothing up to 414, 399 and 408 kpps.
    #[default]
    Awake,
    /// As the host is configured.
    AsConfigured,
}

impl Choice for Idle {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (
            Self::Awake,
            "awake",
            "The CPU never halts: a loop of lowest priority runs on it until the end. A halted virtual CPU may come back milliseconds late",
        ),
        (Self::AsConfigured, "as-configured", "The CPU halts as the host is configured"),
    ];
}

impl Idle {
    /// The mode's name on the command line.
    pub fn name(self) -> &'static str {
        Choice::name(self)
    }

    fn other(self) -> Self {
        match self {
            Self::Awake => Self::AsConfigured,
            Self::AsConfigured => Self::Awake,
        }
    }
}

/// Sets whether a host's CPU may halt.
pub trait Switch {
    /// Changes the mode immediately.
    ///
    /// # Errors
    /// Why it is not possible, one sentence.
    fn set(&mut self, idle: Idle) -> Result<(), String>;
}

/// The CPU under test. Dropping it, or the end of the process, restores the configured mode.
#[derive(Debug)]
pub struct HostIdle {
    cpu: u32,
    heartbeat: Heartbeat,
    held: Option<Awake>,
}

impl HostIdle {
    /// The CPU in its configured mode. The loop that keeps it awake will send heartbeats to `heartbeat`.
    pub fn new(cpu: u32, heartbeat: Heartbeat) -> Self {
        Self { cpu, heartbeat, held: None }
    }

    /// Redirects the heartbeats of the loop, if it runs, to another bench.
    ///
    /// # Errors
    /// The CPU could not be kept awake again.
    pub fn follow(&mut self, heartbeat: Heartbeat) -> Result<(), String> {
        self.heartbeat = heartbeat;
        if self.held.take().is_some() { self.set(Idle::Awake) } else { Ok(()) }
    }
}

impl Switch for HostIdle {
    fn set(&mut self, idle: Idle) -> Result<(), String> {
        self.held = match idle {
            Idle::AsConfigured => None,
            Idle::Awake => Some(
                Awake::hold(self.cpu, self.heartbeat.clone())
                    .map_err(|error| format!("CPU {} could not be kept from halting: {error}", self.cpu))?,
            ),
        };
        Ok(())
    }
}

/// Makes a trial in each mode, the run's own mode first; the mode is restored afterwards.
///
/// # Errors
/// A trial failed or was stopped.
pub fn both_ways(
    bench: &mut dyn Bench,
    switch: &mut dyn Switch,
    idle: Idle,
    spec: &TrialSpec,
) -> Result<IdleModes, TrialError> {
    let this = trial_of(idle, &bench.observe(spec, true)?);
    let mut modes = IdleModes { mode: idle.name().to_owned(), this: Some(this), other: None };
    if switch.set(idle.other()).is_ok() {
        let other = bench.observe(spec, true);
        // The mode was set before, so that setting it again cannot fail.
        let _ = switch.set(idle);
        modes.other = Some(trial_of(idle.other(), &other?));
    }
    Ok(modes)
}

fn trial_of(idle: Idle, observation: &Observation) -> IdleTrial {
    let latency = observation.outcome.latency_s;
    IdleTrial {
        mode: idle.name().to_owned(),
        load_pps: observation.spec.rate_pps,
        loss: observation.loss(),
        p99_s: latency.and_then(|latency| value(latency.p99)),
        max_s: latency.and_then(|latency| value(latency.max)),
    }
}
