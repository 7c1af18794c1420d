//! A flow of the near end, in a closed or open loop: its window, its counts, and how it parses an answer.

use std::time::Duration;

use super::STAMPED_BYTES;
use super::live::Cell;
use super::settings::Settings;
use crate::bulk::hardware::{Counters, Hardware};
use netcliff_packets::clock;
use netcliff_packets::latency::Latency;

/// The measured window (ns of `CLOCK_MONOTONIC`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) begins_ns: u64,
    pub(super) opens_ns: u64,
    pub(super) closes_ns: u64,
}

impl Window {
    pub(super) fn holds(&self, ns: u64) -> bool {
        (self.opens_ns..self.closes_ns).contains(&ns)
    }
}

/// The counts of a flow.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) transactions: u64,
    pub(super) latency: Latency,
    pub(super) forth: Latency,
    pub(super) back: Latency,
    pub(super) lateness: Latency,
    pub(super) timeouts: u64,
    /// Number of requests due in the window that never left.
    pub(super) unsent: u64,
    pub(super) late_answers: u64,
    /// CPU time of the thread within the window (ns).
    pub(super) cpu_ns: u64,
    /// Cycles and instructions of the thread within the window. `None` if the CPU does not count them.
    pub(super) hardware: Option<Hardware>,
    /// Time of the flow's first request (ns).
    pub(super) began_ns: Option<u64>,
    /// Why the flow ended early. `None` if it did not.
    pub(super) ended: Option<String>,
}

/// A running flow.
#[derive(Debug)]
pub(super) struct Flow<'a> {
    pub(super) settings: &'a Settings,
    pub(super) window: Window,
    pub(super) counts: Counts,
    counters: Option<Counters>,
    opened: Option<Used>,
    closed: Option<Used>,
    /// Cell that exposes the counts so far to other threads.
    shown: Option<&'a Cell>,
}

/// CPU use of the thread so far.
#[derive(Debug, Clone, Copy)]
struct Used {
    cpu_ns: u64,
    hardware: Option<Hardware>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(settings: &'a Settings, window: Window, shown: Option<&'a Cell>) -> Self {
        let counters = Counters::open().ok();
        Self { settings, window, counts: Counts::default(), counters, opened: None, closed: None, shown }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.settings.timeout_s)
    }

    /// Reads the thread's CPU clock and counters when the window opens and when it closes.
    #[inline]
    pub(super) fn pass(&mut self, now_ns: u64) {
        if let Some(shown) = self.shown {
            shown.gave_up(self.counts.timeouts);
        }
        match (&self.opened, &self.closed) {
            (None, _) if now_ns >= self.window.opens_ns => self.opened = Some(self.used()),
            (Some(_), None) if now_ns >= self.window.closes_ns => self.closed = Some(self.used()),
            _ => {}
        }
    }

    #[cold]
    fn used(&self) -> Used {
        let cpu_ns = clock::thread_cpu_ns(netcliff_host::system::thread_id()).unwrap_or(0);
        Used { cpu_ns, hardware: self.counters.as_ref().and_then(|counters| counters.read().ok()) }
    }

    /// Counts a transaction that started (or was due) at `began_ns` and ended at `ended_ns`.
    #[inline]
    pub(super) fn count(&mut self, began_ns: u64, ended_ns: u64) {
        self.counts.transactions += 1;
        let latency_ns = ended_ns.saturating_sub(began_ns);
        self.counts.latency.record_ns(latency_ns);
        if let Some(shown) = self.shown {
            shown.count(latency_ns);
        }
    }

    /// Counts the one-way delays of an answer with timestamps.
    #[inline]
    pub(super) fn one_way(&mut self, answer: &[u8], sent_ns: u64, received_ns: u64) {
        if answer.len() >= STAMPED_BYTES {
            // If the two ends have different clocks, these values mean nothing, and the near end omits them.
            self.counts.forth.record_ns(number(&answer[8..16]).saturating_sub(sent_ns));
            self.counts.back.record_ns(received_ns.saturating_sub(number(&answer[16..24])));
        }
    }

    pub(super) fn finish(mut self, ended: Option<String>) -> Counts {
        if let Some(opened) = self.opened {
            let closed = self.closed.unwrap_or_else(|| self.used());
            self.counts.cpu_ns = closed.cpu_ns - opened.cpu_ns;
            self.counts.hardware = closed.hardware.zip(opened.hardware).map(|(to, from)| to.since(from));
        }
        self.counts.ended = ended;
        self.counts
    }
}

/// Reads a little-endian number of eight bytes.
#[inline]
pub(super) fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(eight)
}
