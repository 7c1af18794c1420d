//! Turns the phases and samples the sockets.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use nix::sys::socket;

use super::conduct::Shared;
use super::meter::Phase;
use super::tcp_info::{self, TcpSample};
use super::{Span, Watch};
use crate::clock;
use crate::thread::Punctual;

/// How often the conductor looks whether it was asked to stop (ns).
const LOOK_NS: u64 = 50_000_000;

/// What an end tells the conductor.
pub(super) enum Event {
    /// An end's TCP socket: a sender's is asked for TCP_INFO.
    Socket { flow: usize, sender: bool, socket: OwnedFd },
    /// An end is through; `leads` if the transfer lasts as long as such ends are at work.
    Through { leads: bool, failed: bool },
}

/// Tells the conductor on drop that an end is through, also when it panicked.
pub(super) struct Farewell<'a> {
    pub events: &'a mpsc::Sender<Event>,
    pub leads: bool,
    pub failed: bool,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        // Nobody hears it once the conductor is through.
        let _ = self.events.send(Event::Through { leads: self.leads, failed: self.failed });
    }
}

pub(super) struct Conductor<'a> {
    shared: &'a Shared<'a>,
    heard: mpsc::Receiver<Event>,
    sampled: Vec<Option<OwnedFd>>,
    others: Vec<OwnedFd>,
    samples: Vec<Vec<TcpSample>>,
    leaders_left: usize,
    failed: bool,
    opened_ns: u64,
}

impl<'a> Conductor<'a> {
    /// For so many flows, as long as `leaders` of the ends are at work.
    pub(super) fn new(shared: &'a Shared<'a>, flows: usize, leaders: usize, heard: mpsc::Receiver<Event>) -> Self {
        let sampled = std::iter::repeat_with(|| None).take(flows).collect();
        let (samples, others) = (vec![Vec::new(); flows], Vec::new());
        Self { shared, heard, sampled, others, samples, leaders_left: leaders, failed: false, opened_ns: 0 }
    }

    /// Conducts from the first byte to the last window; a reason where it was stopped before.
    pub(super) fn conduct(&mut self, watch: &mut dyn Watch) -> Option<String> {
        // Behind hundreds of busy flows it would be seconds late, and the transfer as much longer.
        let _punctual = Punctual::begin();
        let spans = self.shared.spans;
        let mut stopped = self.wait(Some(clock::monotonic_ns() + spans.warm_up_ns), None);
        watch.opened();
        self.opened_ns = clock::monotonic_ns();
        self.sample();
        for window in 1..=spans.windows {
            if stopped.is_some() || self.failed {
                break;
            }
            self.shared.phase.set(window);
            let until = match spans.window {
                Span::Time(ns) => Some(self.opened_ns + u64::from(window) * ns),
                Span::Bytes(_) => None,
            };
            stopped = self.wait(until, spans.interval_ns);
            if until.is_none() {
                // All windows of a sender have passed when it is through.
                break;
            }
        }
        self.sample();
        watch.closed();
        let early = stopped.is_some() || self.failed;
        // A number of bytes ends by itself; receivers are not to be stopped while they empty buffers.
        if matches!(spans.window, Span::Time(_)) || early {
            self.shared.phase.set(Phase::OVER);
        }
        if early && self.shared.other_half.is_some() {
            self.disconnect();
        }
        stopped
    }

    /// The other half may never answer: what waits for it is woken.
    fn disconnect(&self) {
        for socket in self.sampled.iter().flatten().chain(&self.others) {
            // A connection that has ended already needs no end.
            let _ = socket::shutdown(socket.as_raw_fd(), socket::Shutdown::Both);
        }
        self.shared.over.iter().for_each(|over| over.store(true, Ordering::Release));
    }

    /// Waits until a time, or until all leaders are through; a reason when it was asked to stop.
    fn wait(&mut self, until_ns: Option<u64>, every_ns: Option<u64>) -> Option<String> {
        let mut next_ns = every_ns.map(|every| clock::monotonic_ns() + every);
        loop {
            let now_ns = clock::monotonic_ns();
            if self.failed || self.leaders_left == 0 || until_ns.is_some_and(|until| now_ns >= until) {
                return None;
            }
            if let Some(why) = self.asked_to_stop() {
                return Some(why.to_owned());
            }
            if let (Some(due), Some(every)) = (next_ns, every_ns)
                && now_ns >= due
            {
                self.sample();
                next_ns = Some(due + every);
            }
            let wake_ns = [until_ns, next_ns].into_iter().flatten().fold(now_ns + LOOK_NS, u64::min);
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
            Event::Socket { flow, sender: true, socket } => self.sampled[flow] = Some(socket),
            Event::Socket { socket, .. } => self.others.push(socket),
            Event::Through { leads, failed } => {
                self.failed |= failed;
                self.leaders_left -= usize::from(leads);
            }
        }
    }

    fn sample(&mut self) {
        while let Ok(event) = self.heard.try_recv() {
            self.note(event);
        }
        let at_s = (clock::monotonic_ns() - self.opened_ns) as f64 * 1e-9;
        for (socket, samples) in self.sampled.iter().zip(&mut self.samples) {
            samples.extend(socket.as_ref().and_then(|socket| tcp_info::sample(socket.as_fd(), at_s)));
        }
    }

    /// Lets go of the sockets, so that their connections can end.
    pub(super) fn release(self) -> Vec<Vec<TcpSample>> {
        self.samples
    }
}
