//! Moves a transfer from phase to phase.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::socket;

use super::gate::Gate;
use super::live::Cells;
use super::live::IntervalReader;
use super::meter::Phase;
use super::sampler::{Sampler, Sockets};
use super::{Settings, Spans};
use super::{Span, Watch};
use crate::clock;

/// What all ends share.
pub(super) struct Shared<'a> {
    pub settings: &'a Settings,
    pub spans: Spans,
    pub gate: Gate,
    pub phase: Phase,
    /// Bytes moved by each end so far, if intervals are requested.
    pub live: Cells,
    /// For UDP, where nothing else shows it: this flow's sender is through.
    pub over: Vec<AtomicBool>,
    /// The watch is given all sockets.
    pub observed: bool,
    /// The other ends are elsewhere; set when they are gone.
    pub other_half: Option<&'a AtomicBool>,
}

/// How long the ends may send and read what is under way when the windows are over (ns): a full send buffer of 4 MiB takes as long at
/// 17 Mbit/s.
const EMPTYING_NS: u64 = 2_000_000_000;
/// How long ends that have something to move may take to notice that it is given up (ns).
const LEAVING_NS: u64 = 300_000_000;
/// How often the conductor checks whether to stop (ns).
const LOOK_NS: u64 = 50_000_000;

/// What an end reports to the conductor.
pub(super) enum Event {
    /// An end's TCP socket.
    Socket { flow: usize, sender: bool, socket: OwnedFd },
    /// A duplicate for the watch.
    Observed { sender: bool, socket: OwnedFd },
    /// An end is through; `leads` if the transfer lasts as long as such ends are at work.
    Through { leads: bool, failed: bool },
}

/// Reports to the conductor on drop that an end is through, also when it panicked.
pub(super) struct Farewell<'a> {
    pub events: &'a mpsc::Sender<Event>,
    pub leads: bool,
    pub failed: bool,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        // Not received once the conductor has ended.
        let _ = self.events.send(Event::Through { leads: self.leads, failed: self.failed });
    }
}

pub(super) struct Conductor<'a> {
    shared: &'a Shared<'a>,
    heard: mpsc::Receiver<Event>,
    /// Senders' sockets, by flow.
    sampled: Vec<Option<OwnedFd>>,
    others: Vec<OwnedFd>,
    /// For the watch, until it has them.
    observed: Vec<(bool, OwnedFd)>,
    leaders_left: usize,
    failed: bool,
    /// Cuts the open windows into intervals, if requested.
    intervals: Option<IntervalReader>,
}

impl<'a> Conductor<'a> {
    /// For so many flows, as long as `leaders` of the ends are at work.
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

    /// Conducts from the first byte to the last window; a reason where it was stopped before.
    pub(super) fn conduct(&mut self, sampler: Option<&Sampler>, watch: &mut dyn Watch) -> Option<String> {
        let spans = self.shared.spans;
        // All ends have arrived: each that has a socket has sent it.
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
                // All windows of a sender have passed when it is through.
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
        // A number of bytes ends by itself; receivers are not to be stopped while they empty buffers.
        if matches!(spans.window, Span::Time(_)) || early {
            if early {
                self.shared.phase.end_early();
            } else {
                self.shared.phase.set(Phase::OVER);
            }
            let lost = early && self.shared.other_half.is_some();
            // The windows of the other half may be over later.
            let apart_ns = self.shared.other_half.map_or(0, |_| spans.stall_ns);
            if lost || !self.all_leave_within(EMPTYING_NS.max(apart_ns)) {
                self.shared.phase.cut();
                self.all_leave_within(LEAVING_NS);
                self.disconnect(&sampled);
            }
        }
        stopped
    }

    /// Waits until all ends are through; false where it takes longer. Nothing that is still under way counts: the ends get a while to
    /// send and read it, not more. Where the kernel is short of memory for TCP it would be minutes until all of it has come.
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

    /// Wakes ends that wait for a socket, which may never answer. It blocks itself on a socket whose end is in a call and without
    /// a CPU, hence is the last resort.
    fn disconnect(&self, sampled: &Sockets) {
        for socket in sampled.iter().flatten().chain(&self.others) {
            // A connection that has ended already needs no end.
            let _ = socket::shutdown(socket.as_raw_fd(), socket::Shutdown::Both);
        }
        self.shared.over.iter().for_each(|over| over.store(true, Ordering::Release));
    }

    /// Waits until a time, or until all leaders are through; a reason if it was stopped.
    fn wait(&mut self, until_ns: Option<u64>, sampler: Option<&Sampler>, watch: &mut dyn Watch) -> Option<String> {
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
            if let Some(why) = self.asked_to_stop() {
                return Some(why.to_owned());
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

    fn asked_to_stop(&self) -> Option<&'static str> {
        let set = |flag: Option<&AtomicBool>| flag.is_some_and(|flag| flag.load(Ordering::Relaxed));
        if set(self.shared.settings.stop.as_deref()) {
            Some("stopped on request")
        } else if set(self.shared.other_half) {
            Some("the far end is gone")
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
