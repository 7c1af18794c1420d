//! Counts the calls and bytes of an end, and assigns them to the measured windows.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::hardware::Hardware;
use super::ledger::{Account, Ledger};
use super::{Span, Spans};
use netcliff_packets::clock;
use netcliff_packets::error::WireError;
use netcliff_packets::thread::CpuUse;

/// One end's results in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Bytes moved in the window.
    pub bytes: u64,
    /// Number of system calls that moved the bytes.
    pub calls: u64,
    /// Length of the window, and CPU time of this end's thread (`getrusage`, RUSAGE_THREAD), without softirq time on
    /// other CPUs. If the thread serves several flows, its time is divided evenly among those with an open window.
    pub cpu: CpuUse,
    /// Cycles and instructions of this end's thread, divided like its CPU time. `None` if the counters cannot be opened
    /// or read (the CPU has none, or the process lacks the permission), or from an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// Number of flows that share this end's thread. `None` if the flow has its own thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_flows: Option<u32>,
    /// The common window of all flows of this host. `None` if the window is bounded by bytes, or from an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<Common>,
}

/// The window that all flows of a host pass together. The window of a single end differs slightly, because it contains
/// whole calls; the common window usually starts and ends in the middle of a call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Common {
    /// Length of the window (s).
    pub length_s: f64,
    /// Bytes of the call during which the window started; not counted in the end's window.
    pub first_bytes: u64,
    /// Bytes of the call during which the window ended; counted in the end's window.
    pub last_bytes: u64,
}

impl Window {
    /// Bits per second at the application. `None` for a window of length 0.
    pub fn goodput_bps(&self) -> Option<f64> {
        let (first, last) = self.common.map_or((0, 0), |common| (common.first_bytes, common.last_bytes));
        self.rate(self.bytes, first, last).map(|bytes_per_s| bytes_per_s * 8.0)
    }

    /// System calls per second. `None` for a window of length 0.
    pub fn calls_per_s(&self) -> Option<f64> {
        self.rate(self.calls, 1, 1)
    }

    /// The rate of `count` items (1/s). First, the items of whole calls are divided by the time of these calls: this is
    /// exact for an end that calls steadily, even with few calls. But an end that waited for a CPU during most of the
    /// common window may have made all its calls within a short time, which says nothing about the flow's rate. The
    /// number of items in the common window is known except for the calls (`first`, `last`) during which the window
    /// started and ended. The rate is clamped to these bounds, so that the sum over flows respects them too.
    fn rate(&self, count: u64, first: u64, last: u64) -> Option<f64> {
        let own = (self.cpu.wall_s > 0.0).then(|| count as f64 / self.cpu.wall_s);
        let Some(length_s) = self.common.map(|common| common.length_s).filter(|length_s| *length_s > 0.0) else {
            return own;
        };
        let (low, high) = (count.saturating_sub(last) as f64 / length_s, (count + first) as f64 / length_s);
        Some(own.unwrap_or(0.0).clamp(low, high))
    }

    /// Length of the window (s): the length of the common window or, without one, of this end's own window.
    pub fn length_s(&self) -> f64 {
        self.common.map_or(self.cpu.wall_s, |common| common.length_s)
    }

    /// CPU time of this end over wall time.
    pub fn busy(&self) -> f64 {
        (self.cpu.user_s + self.cpu.system_s) / self.cpu_wall_s()
    }

    /// The wall time that the CPU time refers to (s). It includes the time before the first whole call, in which an end
    /// waits, mostly for a CPU.
    pub fn cpu_wall_s(&self) -> f64 {
        self.cpu.wall_s.max(self.length_s())
    }

    /// CPU time of this end's thread per 1024 bytes (us). `None` if no byte moved.
    pub fn service_demand_us_per_kib(&self) -> Option<f64> {
        (self.bytes > 0).then(|| (self.cpu.user_s + self.cpu.system_s) * 1e6 * 1024.0 / self.bytes as f64)
    }
}

/// The phase of the transfer: 0 is the warm-up, n the nth window, [`Phase::OVER`] the end. The ends check it after each
/// call, which costs less than reading a clock. Their own clocks give the lengths of their windows.
#[derive(Debug, Default)]
pub(super) struct Phase {
    now: AtomicU32,
    /// Start of each window, and the end of the last one (ns of the monotonic clock).
    turns_ns: Mutex<Vec<u64>>,
    /// Whether any end has moved bytes since the conductor's last check.
    moves: AtomicBool,
    /// Time at which the conductor last saw moved bytes (ns).
    moved_ns: AtomicU64,
    /// Whether the data under way are given up.
    cut: AtomicBool,
}

impl Phase {
    pub(super) const OVER: u32 = u32::MAX;

    pub(super) fn set(&self, phase: u32) {
        self.turn(phase, clock::monotonic_ns());
    }

    /// Ends the transfer early. The open window ends when bytes last moved: the wait after that is not part of the
    /// transfer.
    pub(super) fn end_early(&self) {
        self.turn(Self::OVER, self.last_moved_ns());
    }

    fn turn(&self, phase: u32, at_ns: u64) {
        let mut turns_ns = self.turns_ns.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a warm-up, the first window starts twice: before the ends start, and again when they do.
        turns_ns.truncate((phase.max(1) - 1) as usize);
        turns_ns.push(at_ns);
        self.now.store(phase, Ordering::Release);
    }

    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.now.load(Ordering::Acquire)
    }

    /// Records that an end has moved bytes. Writes the shared cache line only if the conductor has reset it.
    #[inline]
    fn moves(&self) {
        if !self.moves.load(Ordering::Relaxed) {
            self.moves.store(true, Ordering::Relaxed);
        }
    }

    /// Checks whether bytes have moved since the last check.
    pub(super) fn look(&self, now_ns: u64) {
        if self.moves.swap(false, Ordering::Relaxed) || self.moved_ns.load(Ordering::Relaxed) == 0 {
            self.moved_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Time at which bytes last moved (ns), at most one check of the conductor (50 ms) late.
    fn last_moved_ns(&self) -> u64 {
        let moved_ns = self.moved_ns.load(Ordering::Relaxed);
        if moved_ns == 0 || self.moves.load(Ordering::Relaxed) { clock::monotonic_ns() } else { moved_ns }
    }

    /// Whether other flows move bytes, so that a flow without progress just waits for its turn: among hundreds, some
    /// wait seconds for a CPU or for kernel memory. The limit is half the stall time, so that a flow's own last bytes
    /// do not count.
    pub(super) fn others_move(&self, stall_ns: u64) -> bool {
        let moved_ns = self.moved_ns.load(Ordering::Relaxed);
        !self.is_over() && moved_ns > 0 && clock::monotonic_ns().saturating_sub(moved_ns) < stall_ns / 2
    }

    /// Gives up the data under way: each end stops after its current call.
    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.get() == Self::OVER
    }

    /// Length of the window with the index `window` (s). If this end's own window (`own_s` long until now) started
    /// before the common window, the length counts from the own start. A window that is not over counts until bytes
    /// last moved.
    fn length_s(&self, window: usize, own_s: f64) -> Option<f64> {
        let turns_ns = self.turns_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = clock::monotonic_ns();
        let from_ns = turns_ns.get(window)?;
        let to_ns = turns_ns.get(window + 1).copied().unwrap_or_else(|| self.last_moved_ns());
        let own_from_ns = now_ns.saturating_sub((own_s * 1e9) as u64);
        Some(to_ns.saturating_sub(*from_ns.min(&own_from_ns)) as f64 * 1e-9)
    }
}

/// Counters of one end (sender or receiver) of a flow, as read when the end's window opened.
struct Opened {
    account: Account,
    bytes: u64,
    calls: u64,
    /// Bytes of the call during which the window opened.
    first_bytes: u64,
}

/// Counts the bytes and calls of one end.
pub(super) struct Meter<'a> {
    phase: &'a Phase,
    window_bytes: Option<u64>,
    windows: usize,
    /// Whether a complete window stays open for the acknowledgement of its last byte.
    held: bool,
    bytes: u64,
    calls: u64,
    ledger: Rc<Ledger>,
    open: Option<Opened>,
    closed: Vec<Window>,
    /// Cell that exposes the total bytes to other threads.
    shown: Option<&'a AtomicU64>,
}

impl<'a> Meter<'a> {
    /// A meter for the only flow of the calling thread.
    pub(super) fn new(phase: &'a Phase, spans: &Spans) -> Result<Self, WireError> {
        Self::sharing(phase, spans, Ledger::new(1)?)
    }

    /// A meter for one of several flows of a thread, which share a ledger.
    pub(super) fn sharing(phase: &'a Phase, spans: &Spans, ledger: Rc<Ledger>) -> Result<Self, WireError> {
        let window_bytes = match spans.window {
            Span::Bytes(bytes) => Some(bytes),
            Span::Time(_) => None,
        };
        let windows = spans.windows as usize;
        let mut meter = Self {
            phase,
            window_bytes,
            windows,
            held: spans.acknowledged,
            bytes: 0,
            calls: 0,
            ledger,
            open: None,
            closed: Vec::new(),
            shown: None,
        };
        // Without a warm-up, the first call counts.
        if phase.get() > 0 {
            meter.begin(0)?;
        }
        Ok(meter)
    }

    /// Exposes the total bytes in this cell.
    pub(super) fn shown_in(self, shown: Option<&'a AtomicU64>) -> Self {
        Self { shown, ..self }
    }

    /// Whether all windows are closed, or the transfer was ended early.
    #[inline]
    pub(super) fn done(&self) -> bool {
        self.closed.len() >= self.windows || self.phase.get() == Phase::OVER || (self.held && self.complete())
    }

    /// Whether all bytes of the open window have moved. Always false if time bounds the window.
    #[inline]
    pub(super) fn complete(&self) -> bool {
        match (self.window_bytes, &self.open) {
            (Some(wanted), Some(opened)) => self.bytes - opened.bytes >= wanted,
            _ => false,
        }
    }

    /// Records the bytes and calls of a step. A window lies between the first call that ends after the window opens and
    /// the first that ends after it closes, so that it contains whole calls.
    #[inline]
    pub(super) fn count(&mut self, bytes: usize, calls: u64) -> Result<(), WireError> {
        self.bytes += bytes as u64;
        self.calls += calls;
        if let Some(shown) = self.shown {
            shown.store(self.bytes, Ordering::Relaxed);
        }
        if bytes > 0 {
            self.phase.moves();
        }
        let phase = self.phase.get();
        let due = match self.open {
            None => phase > 0 && phase != Phase::OVER && self.closed.is_empty(),
            Some(_) if self.window_bytes.is_some() => (self.complete() && !self.held) || phase == Phase::OVER,
            Some(_) => phase as usize > self.closed.len() + 1,
        };
        if due { self.turn(bytes as u64) } else { Ok(()) }
    }

    /// Closes the open window and opens the next, at a call that moved `bytes` bytes.
    fn turn(&mut self, bytes: u64) -> Result<(), WireError> {
        self.close_at(bytes)?;
        if self.closed.len() < self.windows && self.phase.get() != Phase::OVER { self.begin(bytes) } else { Ok(()) }
    }

    fn begin(&mut self, first_bytes: u64) -> Result<(), WireError> {
        self.open = Some(Opened { account: self.ledger.open()?, bytes: self.bytes, calls: self.calls, first_bytes });
        Ok(())
    }

    /// Closes the open window, if any, between two calls.
    pub(super) fn close(&mut self) -> Result<(), WireError> {
        self.close_at(0)
    }

    fn close_at(&mut self, last_bytes: u64) -> Result<(), WireError> {
        let Some(opened) = self.open.take() else { return Ok(()) };
        let (cpu, hardware) = self.ledger.close(&opened.account)?;
        let (bytes, calls) = (self.bytes - opened.bytes, self.calls - opened.calls);
        let timed = self.window_bytes.is_none();
        let length_s = if timed { self.phase.length_s(self.closed.len(), cpu.wall_s) } else { None };
        let common = length_s.map(|length_s| Common { length_s, first_bytes: opened.first_bytes, last_bytes });
        self.closed.push(Window { bytes, calls, cpu, hardware, thread_flows: self.ledger.sharers(), common });
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(u64, Vec<Window>), WireError> {
        self.close()?;
        Ok((self.bytes, self.closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window that ends early lasts until bytes last moved.
    #[test]
    fn dead_time_is_not_in_a_window() {
        let phase = Phase::default();
        let before_ns = clock::monotonic_ns();
        phase.set(1);
        let set_for_ns = clock::monotonic_ns() - before_ns;
        phase.moves();
        // The conductor sees moved bytes half a second later, and none from then on.
        let moved_ns = before_ns + 500_000_000;
        phase.look(moved_ns);
        phase.look(moved_ns + 5_000_000_000);
        let is_half_a_second = |length_s: Option<f64>| {
            let length_s = length_s.expect("the window has begun");
            assert!((0.0..=set_for_ns as f64 * 1e-9 + 1e-9).contains(&(0.5 - length_s)), "{length_s}");
        };
        is_half_a_second(phase.length_s(0, 0.0));
        phase.end_early();
        is_half_a_second(phase.length_s(0, 0.0));
        assert!(phase.is_over());
        // A window that lasts its full time has its full length, whatever moved in it.
        let whole = Phase::default();
        whole.set(1);
        whole.look(moved_ns);
        whole.set(2);
        assert!(whole.length_s(0, 0.0).expect("it is over") < 0.5);
    }
}
