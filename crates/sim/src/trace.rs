//! [`Trace`]: a short run in detail: what the CPU did, how many packets waited, and where packets were lost.

use netcliff_core::{EngineFailure, Point};

use crate::clock::Clock;
use crate::engine::SimEngine;
use crate::machine::{Machine, PacketOutcome, Watch};
use crate::schemes;
use crate::tally::Account;

/// The activity of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Interrupt handling.
    Interrupt,
    /// Poll overhead.
    Poll,
    /// Protocol processing.
    Protocol,
    /// The application and switches to it.
    Application,
    /// No activity: other programs have taken the CPU away.
    Paused,
}

/// A time span in which the CPU did one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The activity.
    pub activity: Activity,
    /// Start (s).
    pub from_s: f64,
    /// End (s).
    pub to_s: f64,
}

/// Numbers of waiting and lost packets, from one instant on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    /// Packets in the ring or in protocol processing.
    pub ring: u64,
    /// Packets in the application's socket.
    pub socket: u64,
    /// Packets lost at the ring so far.
    pub dropped_ring: u64,
    /// Packets lost at the socket so far.
    pub dropped_socket: u64,
}

/// A run in detail. The CPU is idle between the spans.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// The spans of the CPU, in order. Neighbouring spans differ in activity or have a gap between them.
    pub cpu: Vec<Span>,
    /// Pairs of a time (s) and the packets from then on, one for each change.
    pub levels: Vec<(f64, Level)>,
    /// Times at which a timer of the scheme fired (s): polls, coalescing timers, deferred interrupts.
    pub timers_s: Vec<f64>,
    /// End of the run (s).
    pub end_s: f64,
}

struct Recorder {
    clock: Clock,
    level: Level,
    trace: Trace,
    /// The latest span, which may still be extended: activity, start, end [ticks].
    open: Option<(Activity, u64, u64)>,
}

impl Recorder {
    fn change(&mut self, at: u64, change: impl FnOnce(&mut Level)) {
        change(&mut self.level);
        self.trace.levels.push((self.clock.seconds(at as f64), self.level));
    }

    fn close(&mut self) {
        if let Some((activity, from, to)) = self.open.take() {
            let seconds = |ticks: u64| self.clock.seconds(ticks as f64);
            self.trace.cpu.push(Span { activity, from_s: seconds(from), to_s: seconds(to) });
        }
    }
}

impl Watch for Recorder {
    fn accepted(&mut self, at: u64) {
        self.change(at, |level| level.ring += 1);
    }

    fn outcome(&mut self, _number: u32, outcome: PacketOutcome, at: u64) {
        self.change(at, |level| match outcome {
            PacketOutcome::Processed => {
                level.ring -= 1;
                level.socket += 1;
            }
            PacketOutcome::Taken => level.socket -= 1,
            PacketOutcome::DroppedRing => level.dropped_ring += 1,
            // The packet never reached the host.
            PacketOutcome::DroppedSender => {}
            PacketOutcome::DroppedSocket => {
                level.ring -= 1;
                level.dropped_socket += 1;
            }
        });
    }

    fn timer(&mut self, at: u64) {
        self.trace.timers_s.push(self.clock.seconds(at as f64));
    }

    fn spent(&mut self, account: Account, from: u64, to: u64) {
        let activity = match account {
            Account::Interrupt => Activity::Interrupt,
            Account::Poll => Activity::Poll,
            Account::Protocol => Activity::Protocol,
            Account::Application => Activity::Application,
            Account::Paused => Activity::Paused,
            Account::Available => return,
        };
        if from == to {
            return;
        }
        match &mut self.open {
            Some((open, _, end)) if *open == activity && *end == from => *end = to,
            _ => {
                self.close();
                self.open = Some((activity, from, to));
            }
        }
    }
}

impl SimEngine {
    /// Traces the first `packets` arrivals (at least 100) of the first replication. Memory grows with the number of
    /// packets, so use it for short runs. Errors: see [`SimEngine::simulate`].
    pub fn trace(&self, point: &Point, packets: u64) -> Result<Trace, EngineFailure> {
        point.validate()?;
        self.one_queue(point)?;
        let clock = Clock::of(point, packets);
        let recorder = Recorder { clock, level: Level::default(), trace: Trace::default(), open: None };
        let mut machine = Machine::new(point, clock, self.seed, 0, packets, recorder);
        schemes::run(point, clock, &mut machine);
        let (records, mut recorder) = machine.finish();
        recorder.close();
        let mut trace = recorder.trace;
        trace.end_s = records.marks.last().map_or(0.0, |counts| clock.seconds(counts.at as f64));
        let end_s = trace.end_s;
        trace.levels.retain(|(at_s, _)| *at_s <= end_s);
        trace.cpu.retain(|span| span.from_s < end_s);
        trace.timers_s.retain(|at_s| *at_s <= end_s);
        if point.host.application_s.is_none() {
            // Without an application, a processed packet is delivered: nothing waits in a socket.
            trace.levels.iter_mut().for_each(|(_, level)| level.socket = 0);
        }
        Ok(trace)
    }
}

impl Activity {
    /// Name of the activity in the trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::Poll => "poll",
            Self::Protocol => "protocol",
            Self::Application => "application",
            Self::Paused => "paused",
        }
    }
}

impl Trace {
    /// The trace in Chrome's trace event format (JSON). Perfetto shows CPU and timers as tracks, and the packets in
    /// ring and socket and the losses as counters.
    pub fn chrome_json(&self) -> String {
        let mut events: Vec<String> = [(CPU, "CPU"), (TIMERS, "timers")]
            .map(|(track, name)| {
                format!(r#"{{"ph":"M","pid":1,"tid":{track},"name":"thread_name","args":{{"name":"{name}"}}}}"#)
            })
            .into();
        events.extend(self.cpu.iter().map(Span::chrome_json));
        events.extend(self.timers_s.iter().map(|at_s| {
            let at_us = at_s * 1e6;
            format!(r#"{{"ph":"i","pid":1,"tid":{TIMERS},"name":"timer","s":"t","ts":{at_us:.6}}}"#)
        }));
        for (at_s, level) in &self.levels {
            let counter = |name: &str, parts: [(&str, u64); 2]| {
                let [(a, first), (b, second)] = parts;
                let at_us = at_s * 1e6;
                format!(
                    r#"{{"ph":"C","pid":1,"name":"{name}","ts":{at_us:.6},"args":{{"{a}":{first},"{b}":{second}}}}}"#
                )
            };
            events.push(counter("packets", [("ring", level.ring), ("socket", level.socket)]));
            events.push(counter("lost", [("at ring", level.dropped_ring), ("at socket", level.dropped_socket)]));
        }
        format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
    }
}

impl Span {
    fn chrome_json(&self) -> String {
        let (from_us, length_us) = (self.from_s * 1e6, (self.to_s - self.from_s) * 1e6);
        let name = self.activity.name();
        format!(r#"{{"ph":"X","pid":1,"tid":{CPU},"name":"{name}","ts":{from_us:.6},"dur":{length_us:.6}}}"#)
    }
}

/// Track numbers in the trace.
const CPU: u32 = 1;
const TIMERS: u32 = 2;
