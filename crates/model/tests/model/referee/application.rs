//! Referee: ring, scheme, socket and application as one Markov chain with all its states, independent of the tested
//! code.

use super::gap::Gap;

/// State of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Thread {
    Asleep,
    Switching,
    Working,
}

/// (packets in the ring, stage, whether the first packet's service has ended and wakes the application, thread, packets
/// waiting).
pub type State = (u64, Stage, bool, Thread, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The application may run: the ring is idle, or packets wait for their interrupt.
    Free,
    Interrupt,
    /// Interrupt and first packet together.
    First,
    Overhead,
    /// Number of packets served by this poll.
    Serving(u64),
    Unmask,
}

/// The scheme.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    Ideal,
    Interrupt {
        drops_interrupt: bool,
    },
    DisableEnable {
        merged: bool,
    },
    Frames(u64),
    /// A constant time from the last packet (us), which a number of packets may end earlier; `drops_restart`: lost
    /// packets also restart the time.
    PacketTimer {
        timer: f64,
        frames: Option<u64>,
        drops_restart: bool,
    },
    Napi {
        weight: u64,
    },
}

#[derive(Debug, Clone)]
pub struct Case {
    pub rule: Rule,
    pub lambda: f64,
    /// Rates per microsecond: protocol, interrupt, mask, poll, delivery, application, switch, wake-up; infinite: takes
    /// no time.
    pub protocol: f64,
    pub interrupt: f64,
    pub mask: f64,
    pub poll: f64,
    pub delivery: f64,
    pub application: f64,
    pub switch: f64,
    pub wakeup: f64,
    pub drop_cost: f64,
    pub ring: u64,
    pub socket: u64,
}

/// (target, rate, fate) of jumps; `fate` at the end of a service: whether the socket takes the packet.
pub type Jumps = Vec<(State, f64, Option<bool>)>;

/// One way in which a run of the timer ends.
pub struct Run {
    pub leads_to: State,
    /// Its probability.
    pub share: f64,
    /// Mean length of the run; 0 if it ends otherwise.
    pub time: f64,
    /// Time spent in a state during the run, whatever its end.
    pub spent: Option<(State, f64)>,
}

impl Case {
    pub fn masking(&self) -> f64 {
        1.0 / (1.0 / self.interrupt + 1.0 / self.mask)
    }

    /// The stage after an accepted arrival, from `stage` with `packets` present before it.
    fn arrival(&self, stage: Stage, packets: u64) -> Stage {
        match (self.rule, stage) {
            (Rule::Ideal, Stage::Free) => Stage::Serving(0),
            (Rule::Interrupt { .. }, _) => Stage::Interrupt,
            (Rule::DisableEnable { merged: true }, Stage::Free) => Stage::First,
            (Rule::DisableEnable { merged: false }, Stage::Free) => Stage::Interrupt,
            (Rule::Frames(frames), Stage::Free) if packets + 1 >= frames => Stage::Interrupt,
            (Rule::PacketTimer { frames: Some(frames), .. }, Stage::Free) if packets + 1 >= frames => Stage::Interrupt,
            (Rule::Napi { .. }, Stage::Free) if self.delivery.is_infinite() => Stage::Interrupt,
            (_, stage) => stage,
        }
    }

    /// The stage after a service that leaves `packets`.
    fn served(&self, stage: Stage, packets: u64) -> Stage {
        match (self.rule, stage) {
            (Rule::Napi { weight }, Stage::Serving(served)) if served + 1 == weight => Stage::Overhead,
            (Rule::Napi { .. }, _) if packets == 0 && self.mask.is_infinite() => Stage::Free,
            (Rule::Napi { .. }, _) if packets == 0 => Stage::Unmask,
            (Rule::Napi { .. }, Stage::Serving(served)) => Stage::Serving(served + 1),
            _ if packets == 0 => Stage::Free,
            _ => Stage::Serving(0),
        }
    }

    /// Jumps from a state; a context switch that takes no time ends as soon as the application may run.
    pub fn jumps(&self, state: &State) -> Jumps {
        let at_once = self.switch.is_infinite();
        let settled = |(packets, stage, waking, thread, waiting): State| match (stage, thread) {
            (Stage::Free, Thread::Switching) if at_once => (packets, stage, waking, Thread::Working, waiting - 1),
            _ => (packets, stage, waking, thread, waiting),
        };
        self.own_jumps(state).into_iter().map(|(next, rate, fate)| (settled(next), rate, fate)).collect()
    }

    fn own_jumps(&self, state: &State) -> Jumps {
        if self.waits_for_timer(state) {
            // A timer that begins again in the same state is not a jump.
            let runs = self.timed(state).into_iter().filter(|run| run.leads_to != *state);
            return runs.map(|run| (run.leads_to, run.share, None)).collect();
        }
        let (packets, stage, waking, thread, waiting) = *state;
        let mut jumps: Jumps = Vec::new();
        if packets < self.ring {
            jumps.push(((packets + 1, self.arrival(stage, packets), waking, thread, waiting), self.lambda, None));
        } else if self.rule == (Rule::Interrupt { drops_interrupt: true }) {
            jumps.push(((packets, Stage::Interrupt, waking, thread, waiting), self.lambda, None));
        }
        let to = |stage| (packets, stage, waking, thread, waiting);
        let work = |rate: f64, after: Stage, jumps: &mut Jumps| {
            if rate.is_finite() {
                jumps.push((to(after), rate, None));
            }
        };
        let after_interrupt = if matches!(self.rule, Rule::Napi { .. }) { Stage::Overhead } else { Stage::Serving(0) };
        match stage {
            Stage::Free => {
                if packets > 0 && matches!(self.rule, Rule::Napi { .. }) {
                    work(self.delivery, Stage::Interrupt, &mut jumps);
                }
                if let Some((thread, waiting, rate)) = self.progress(thread, waiting) {
                    jumps.push(((packets, stage, waking, thread, waiting), rate, None));
                }
            }
            Stage::Interrupt => {
                let mean = if matches!(self.rule, Rule::Interrupt { .. }) { self.interrupt } else { self.masking() };
                work(mean, after_interrupt, &mut jumps);
            }
            Stage::Overhead => {
                let after = if packets > 0 {
                    Stage::Serving(0)
                } else if self.mask.is_infinite() {
                    Stage::Free
                } else {
                    Stage::Unmask
                };
                work(self.poll, after, &mut jumps);
            }
            Stage::Unmask => work(self.mask, if packets > 0 { Stage::Interrupt } else { Stage::Free }, &mut jumps),
            Stage::First | Stage::Serving(_) => self.service(state, &mut jumps),
        }
        jumps
    }

    /// What the application does next when it may run, with the rate.
    fn progress(&self, thread: Thread, waiting: u64) -> Option<(Thread, u64, f64)> {
        match thread {
            Thread::Asleep => None,
            Thread::Switching => Some((Thread::Working, waiting - 1, self.switch)),
            Thread::Working if waiting > 0 => Some((Thread::Working, waiting - 1, self.application)),
            Thread::Working => Some((Thread::Asleep, 0, self.application)),
        }
    }

    /// Returns true if packets wait for a timer that has just begun. The chain has no other states while a timer runs:
    /// these are left at a rate of 1, to the states at the ends of a run of the timer.
    pub fn waits_for_timer(&self, (packets, stage, ..): &State) -> bool {
        matches!(self.rule, Rule::PacketTimer { .. }) && *stage == Stage::Free && *packets > 0
    }

    /// Ways in which a run of the timer may end, from a state in which it begins.
    pub fn timed(&self, (packets, stage, waking, thread, waiting): &State) -> Vec<Run> {
        let Rule::PacketTimer { timer, drops_restart, .. } = self.rule else { return Vec::new() };
        let mut threads = vec![(*thread, *waiting)];
        let mut moves = Vec::new();
        while let Some((next, left, rate)) = threads.last().and_then(|(thread, left)| self.progress(*thread, *left)) {
            threads.push((next, left));
            moves.push(rate);
        }
        let mut rates = vec![vec![0.0; threads.len()]; threads.len()];
        moves.iter().enumerate().for_each(|(from, rate)| rates[from][from + 1] = *rate);
        let is_full = *packets == self.ring;
        let restarts = if is_full && !drops_restart { 0.0 } else { self.lambda };
        let gap = Gap::new(&rates, restarts, timer);
        let more = if is_full { *packets } else { packets + 1 };
        let after = if is_full { Stage::Free } else { self.arrival(*stage, *packets) };
        let mut runs = Vec::new();
        for (to, &(thread, left)) in threads.iter().enumerate() {
            let spent = ((*packets, Stage::Free, *waking, thread, left), gap.spent[0][to]);
            let (comes, ends) = (gap.event[0][to], gap.deadline[0][to]);
            let leads_to = (more, after, *waking, thread, left);
            runs.push(Run { leads_to, share: comes, time: gap.event_time[0][to], spent: Some(spent) });
            let leads_to = (*packets, Stage::Interrupt, *waking, thread, left);
            runs.push(Run { leads_to, share: ends, time: ends * timer, spent: None });
        }
        runs
    }

    /// Converts the chain, in which each run of a timer takes the time 1, to shares of real time; also returns the mean
    /// length of one unit.
    pub fn times(&self, chain: &[(State, f64)]) -> (Vec<(State, f64)>, f64) {
        let (timers, others): (Vec<_>, Vec<_>) =
            chain.iter().copied().partition(|(state, _)| self.waits_for_timer(state));
        let mut times = others;
        for (state, begun) in timers {
            let spent = self.timed(&state).into_iter().filter_map(|run| run.spent);
            times.extend(spent.map(|(state, time)| (state, begun * time)));
        }
        let unit: f64 = times.iter().map(|(_, time)| time).sum();
        times.iter_mut().for_each(|(_, time)| *time /= unit);
        (times, unit)
    }

    /// Adds the rest of a service, or the wake-up after it.
    fn service(&self, state: &State, jumps: &mut Jumps) {
        let (packets, stage, waking, thread, waiting) = *state;
        let first = 1.0 / (1.0 / self.masking() + 1.0 / self.protocol);
        let full = waiting == self.socket;
        let own = match stage {
            Stage::First => first,
            _ if full => self.protocol / self.drop_cost,
            _ => self.protocol,
        };
        if thread == Thread::Asleep && !waking && self.wakeup.is_finite() {
            jumps.push(((packets, stage, true, thread, waiting), own, None));
            return;
        }
        let rate = if waking { self.wakeup } else { own };
        let after = self.served(stage, packets - 1);
        let (thread, waiting) = match thread {
            _ if full => (thread, waiting),
            Thread::Asleep => (Thread::Switching, 1),
            other => (other, waiting + 1),
        };
        jumps.push(((packets - 1, after, false, thread, waiting), rate, Some(!full)));
    }
}
