//! What one flow of the near end has in common with all: its window, its counts, how an answer is read.

use std::time::Duration;

use super::STAMPED_BYTES;
use super::settings::Settings;
use crate::clock;
use crate::latency::Latency;

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

/// What a flow counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) transactions: u64,
    pub(super) latency: Latency,
    pub(super) forth: Latency,
    pub(super) back: Latency,
    pub(super) lateness: Latency,
    pub(super) timeouts: u64,
    pub(super) late_answers: u64,
    /// CPU time of the thread within the window (ns).
    pub(super) cpu_ns: u64,
    /// Why it ended before its time.
    pub(super) ended: Option<String>,
}

/// A flow at work.
#[derive(Debug)]
pub(super) struct Flow<'a> {
    pub(super) settings: &'a Settings,
    pub(super) window: Window,
    pub(super) counts: Counts,
    cpu: Option<(u64, Option<u64>)>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(settings: &'a Settings, window: Window) -> Self {
        Self { settings, window, counts: Counts::default(), cpu: None }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.settings.timeout_s)
    }

    /// Reads the thread's CPU clock as the window opens and closes.
    #[inline]
    pub(super) fn pass(&mut self, now_ns: u64) {
        match self.cpu {
            None if now_ns >= self.window.opens_ns => self.cpu = Some((thread_ns(), None)),
            Some((opened, None)) if now_ns >= self.window.closes_ns => self.cpu = Some((opened, Some(thread_ns()))),
            _ => {}
        }
    }

    /// Counts a transaction that began (or was due) and ended then.
    #[inline]
    pub(super) fn count(&mut self, began_ns: u64, ended_ns: u64) {
        self.counts.transactions += 1;
        self.counts.latency.record_ns(ended_ns.saturating_sub(began_ns));
    }

    /// Counts the one-way delays of an answer that tells them.
    #[inline]
    pub(super) fn one_way(&mut self, answer: &[u8], sent_ns: u64, received_ns: u64) {
        if answer.len() >= STAMPED_BYTES {
            // Between clocks that are not the same these mean nothing; the near end then leaves them out.
            self.counts.forth.record_ns(number(&answer[8..16]).saturating_sub(sent_ns));
            self.counts.back.record_ns(received_ns.saturating_sub(number(&answer[16..24])));
        }
    }

    pub(super) fn finish(mut self, ended: Option<String>) -> Counts {
        if let Some((opened, closed)) = self.cpu {
            self.counts.cpu_ns = closed.unwrap_or_else(thread_ns) - opened;
        }
        self.counts.ended = ended;
        self.counts
    }
}

/// A little-endian number of eight bytes.
#[inline]
pub(super) fn number(bytes: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(eight)
}

fn thread_ns() -> u64 {
    clock::thread_cpu_ns(nix::unistd::gettid().as_raw()).unwrap_or(0)
}
