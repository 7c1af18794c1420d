//! Moves a transfer from phase to phase: warm-up, windows, end.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::socket;
use serde::{Deserialize, Serialize};

use super::gate::Gate;
use super::live::Cells;
use super::live::IntervalReader;
use super::meter::Phase;
use super::sampler::{Sampler, Sockets};
use super::{Settings, Spans};
use super::{Span, Watch};
use netcliff_packets::clock;

/// Why a transfer was stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stopped {
    /// The user stopped it.
    #[serde(rename = "stopped on request")]
    OnRequest,
    /// The control channel was lost.
    #[serde(rename = "the far end is gone")]
    FarEndGone,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The name in JSON.
        self.serialize(out)
    }
}

/// State that all ends share.
pub(super) struct Shared<'a> {
    pub settings: &'a Settings,
    pub spans: Spans,
    pub gate: Gate,
    pub phase: Phase,
    /// Bytes moved so far by each end. Empty if no interim reports are requested.
    pub live: Cells,
    /// By flow, for UDP: set when the flow's sender has finished, because UDP does not show it.
    pub over: Vec<AtomicBool>,
    /// Whether to pass all sockets to the watch.
    pub observed: bool,
    /// Flag that is set when the other host's ends are gone. `None` if all ends are in this process.
    pub other_half: Option<&'a AtomicBool>,
}

/// Time that the ends may send and read data under way after the windows (ns). A full send buffer of 4 MiB takes as
/// long at 17 Mbit/s.
const EMPTYING_NS: u64 = 2_000_000_000;
/// Time that ends with data to move may take to notice that the transfer is given up (ns).
const LEAVING_NS: u64 = 300_000_000;
/// Interval between the conductor's checks whether to stop (ns).
const LOOK_NS: u64 = 50_000_000;

/// A report of an end to the conductor.
pub(super) enum Event {
    /// A TCP socket of an end.
    Socket { flow: usize, sender: bool, socket: OwnedFd },
    /// A duplicate of an end's socket, for the watch.
    Observed { sender: bool, socket: OwnedFd },
    /// An end has finished. `leads`: the transfer lasts until all leading ends have finished.
    Through { leads: bool, failed: bool },
}

/// Reports to the conductor on drop that an end has finished, also after a panic.
pub(super) struct ExitNotifier<'a> {
    pub events: &'a mpsc::Sender<Event>,
    pub leads: bool,
    pub failed: bool,
}

impl Drop for ExitNotifier<'_> {
    fn drop(&mut self) {
        // Nobody receives this once the conductor has ended.
        let _ = self.events.send(Event::Through { leads: self.leads, failed: self.failed });
    }
}

pub(super) struct Conductor<'a> {
    shared: &'a Shared<'a>,
    heard: mpsc::Receiver<Event>,
    /// Senders' sockets, by flow.
    sampled: Vec<Option<OwnedFd>>,
    others: Vec<OwnedFd>,
    /// Sockets for the watch, until it takes them.
    observed: Vec<(bool, OwnedFd)>,
    leaders_left: usize,
    failed: bool,
    /// Cuts the open windows into intervals, if requested.
    intervals: Option<IntervalReader>,
}

impl<'a> Conductor<'a> {
    /// Conducts `flows` flows until `leaders` leading ends have finished.
    pub(super) fn new(shared: &'a Shared<'a>, flows: usize, leaders: usize, heard: mpsc::Receiver<Event>) -> Self {
        let sampled = std::iter::repeat_with(|| None).take(flows).collect();
        Self {
            shared,
            heard,
            sampled,
            others: Vec::new(),
            observed: Vec::new(),
            leaders_left: leaders,
            failed: false,
            intervals: None,
        }
    }

    /// Runs all phases from the first byte to the last window. Returns a reason if the transfer was stopped early.
    pub(super) fn run(&mut self, sampler: Option<&Sampler>, watch: &mut dyn Watch) -> Option<Stopped> {
        let spans = self.shared.spans;
        // All ends have passed the gate, and have sent their sockets before.
        while let Ok(event) = self.heard.try_recv() {
            self.note(event);
        }
        if self.shared.observed {
            watch.sockets(std::mem::take(&mut self.observed));
        }
        let sampled: Sockets = Arc::new(std::mem::take(&mut self.sampled));
        let mut stopped = self.wait(Some(clock::monotonic_ns() + spans.warm_up_ns), sampler, watch);
        watch.opened();
        let opened_ns = clock::monotonic_ns();
        if let Some(sampler) = sampler {
            sampler.begin(Arc::clone(&sampled), opened_ns, spans.interval_ns);
        }
        self.intervals = watch.interval().map(|every| IntervalReader::new(every, opened_ns, &self.shared.live));
        for window in 1..=spans.windows {
            if stopped.is_some() || self.failed {
                break;
            }
            self.shared.phase.set(window);
            let until = match spans.window {
                Span::Time(ns) => Some(opened_ns + u64::from(window) * ns),
                Span::Bytes(_) => None,
            };
            stopped = self.wait(until, sampler, watch);
            if until.is_none() {
                // When a sender has finished, all its windows have passed.
                break;
            }
        }
        let latest = sampler.map(Sampler::latest);
        let rest =
            self.intervals.take().and_then(|reader| reader.rest(clock::monotonic_ns(), &self.shared.live, latest));
        if let Some(sampler) = sampler {
            sampler.last();
        }
        watch.closed();
        if let Some(rest) = rest {
            watch.passed(&rest);
        }
        let early = stopped.is_some() || self.failed;
        // A transfer of a number of bytes ends by itself; do not stop receivers while they read the rest.
        if matches!(spans.window, Span::Time(_)) || early {
            if early {
                self.shared.phase.end_early();
            } else {
                self.shared.phase.set(Phase::OVER);
            }
            let lost = early && self.shared.other_half.is_some();
            // The windows of the other host may end later.
            let apart_ns = self.shared.other_half.map_or(0, |_| spans.stall_ns);
            if lost || !self.all_leave_within(EMPTYING_NS.max(apart_ns)) {
                self.shared.phase.cut();
                self.all_leave_within(LEAVING_NS);
                self.disconnect(&sampled);
            }
        }
        stopped
    }

    /// Waits until all ends have finished. Returns false if that takes longer than `ns`. Data still under way do not
    /// count, so the ends get only a short time to send and read them. If the kernel is short of memory for TCP,
    /// reading all of it would take minutes.
    fn all_leave_within(&mut self, ns: u64) -> bool {
        let until_ns = clock::monotonic_ns() + ns;
        loop {
            let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
            match self.heard.recv_timeout(Duration::from_nanos(left_ns)) {
                Err(RecvTimeoutError::Disconnected) => return true,
                Ok(_) if left_ns > 0 => {}
                Ok(_) | Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// Wakes ends that wait for a socket, which might wait for ever. The call itself blocks if the end is in a system
    /// call without a CPU, so it is the last resort.
    fn disconnect(&self, sampled: &Sockets) {
        for socket in sampled.iter().flatten().chain(&self.others) {
            // Ignore the error of a connection that has ended already.
            let _ = socket::shutdown(socket.as_raw_fd(), socket::Shutdown::Both);
        }
        self.shared.over.iter().for_each(|over| over.store(true, Ordering::Release));
    }

    /// Waits until a time, or until all leading ends have finished. Returns a reason if the transfer was stopped.
    fn wait(&mut self, until_ns: Option<u64>, sampler: Option<&Sampler>, watch: &mut dyn Watch) -> Option<Stopped> {
        loop {
            let now_ns = clock::monotonic_ns();
            self.shared.phase.look(now_ns);
            let latest = sampler.map(Sampler::latest);
            let passed = self.intervals.as_mut().and_then(|reader| reader.passed(now_ns, &self.shared.live, latest));
            if let Some(passed) = passed {
                watch.passed(&passed);
            }
            if self.failed || self.leaders_left == 0 || until_ns.is_some_and(|until| now_ns >= until) {
                return None;
            }
            let stopped = self.stopped();
            if stopped.is_some() {
                return stopped;
            }
            let due_ns = self.intervals.as_ref().map(IntervalReader::due_ns);
            let wake_ns = until_ns.into_iter().chain(due_ns).fold(now_ns + LOOK_NS, u64::min);
            match self.heard.recv_timeout(Duration::from_nanos(wake_ns.saturating_sub(now_ns))) {
                Ok(event) => self.note(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.leaders_left = 0,
            }
        }
    }

    fn stopped(&self) -> Option<Stopped> {
        let set = |flag: Option<&AtomicBool>| flag.is_some_and(|flag| flag.load(Ordering::Relaxed));
        if set(self.shared.settings.stop.as_deref()) {
            Some(Stopped::OnRequest)
        } else if set(self.shared.other_half) {
            Some(Stopped::FarEndGone)
        } else {
            None
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Socket { flow, sender, socket } => match self.sampled.get_mut(flow).filter(|_| sender) {
                Some(place) => *place = Some(socket),
                None => self.others.push(socket),
            },
            Event::Observed { sender, socket } => self.observed.push((sender, socket)),
            Event::Through { leads, failed } => {
                self.failed |= failed;
                self.leaders_left -= usize::from(leads);
            }
        }
    }
}
