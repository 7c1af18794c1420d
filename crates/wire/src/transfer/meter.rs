//! Counts calls and bytes, and cuts the windows out of them.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use super::hardware::Hardware;
use super::ledger::{Account, Ledger};
use super::{Span, Spans};
use crate::error::WireError;
use crate::thread::CpuUse;

/// One end's share of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Bytes moved in the window.
    pub bytes: u64,
    /// System calls that moved them.
    pub calls: u64,
    /// Length of the window and CPU time of this end's thread (`getrusage`, RUSAGE_THREAD): without
    /// the softirq time spent for it elsewhere. Where the thread serves several flows it is divided evenly among those that
    /// have a window open.
    pub cpu: CpuUse,
    /// Cycles and instructions of this end's thread, where the CPU counts them; divided likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// Flows that share this end's thread; None where it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_flows: Option<u32>,
}

impl Window {
    /// Bits a second at the application; `None` for a window without length.
    pub fn goodput_bps(&self) -> Option<f64> {
        (self.cpu.wall_s > 0.0).then(|| self.bytes as f64 * 8.0 / self.cpu.wall_s)
    }

    /// CPU microseconds of this end's thread per 1024 bytes; `None` when no byte moved.
    pub fn service_demand_us_per_kib(&self) -> Option<f64> {
        (self.bytes > 0).then(|| (self.cpu.user_s + self.cpu.system_s) * 1e6 * 1024.0 / self.bytes as f64)
    }

    /// User and system time of this end's thread as a whole (s), all flows that share it together.
    pub fn thread_s(&self) -> (f64, f64) {
        let flows = f64::from(self.thread_flows.unwrap_or(1));
        (self.cpu.user_s * flows, self.cpu.system_s * flows)
    }
}

/// Where the transfer stands: 0 is the warm-up, n the nth window, [`Phase::OVER`] the end. The ends look at it after
/// each call, which costs less than a clock; their windows are as long as their own clocks say.
#[derive(Debug, Default)]
pub(super) struct Phase(AtomicU32);

impl Phase {
    pub(super) const OVER: u32 = u32::MAX;

    pub(super) fn set(&self, phase: u32) {
        self.0.store(phase, Ordering::Release);
    }

    #[inline]
    pub(super) fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// Where everything stood as a window opened.
struct Opened {
    account: Account,
    bytes: u64,
    calls: u64,
}

/// Counts for one end.
pub(super) struct Meter<'a> {
    phase: &'a Phase,
    window_bytes: Option<u64>,
    windows: usize,
    /// A complete window stays open for what follows its last byte.
    held: bool,
    bytes: u64,
    calls: u64,
    ledger: Rc<Ledger>,
    open: Option<Opened>,
    closed: Vec<Window>,
}

impl<'a> Meter<'a> {
    /// For the only flow of the calling thread.
    pub(super) fn new(phase: &'a Phase, spans: &Spans) -> Result<Self, WireError> {
        Self::sharing(phase, spans, Ledger::new(1)?)
    }

    /// For one of the flows of a ledger's thread.
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
        };
        // Without a warm-up the first call counts.
        if phase.get() > 0 {
            meter.begin()?;
        }
        Ok(meter)
    }

    /// All windows are closed, or the transfer was called off.
    #[inline]
    pub(super) fn done(&self) -> bool {
        self.closed.len() >= self.windows || self.phase.get() == Phase::OVER || (self.held && self.complete())
    }

    /// All bytes of the open window have moved; never where time decides.
    #[inline]
    pub(super) fn complete(&self) -> bool {
        match (self.window_bytes, &self.open) {
            (Some(wanted), Some(opened)) => self.bytes - opened.bytes >= wanted,
            _ => false,
        }
    }

    /// Notes what calls have moved. A window lies between the first calls that end after it opens and after it
    /// closes, so that it holds whole calls.
    #[inline]
    pub(super) fn count(&mut self, bytes: usize, calls: u64) -> Result<(), WireError> {
        self.bytes += bytes as u64;
        self.calls += calls;
        let phase = self.phase.get();
        let due = match self.open {
            None => phase > 0 && phase != Phase::OVER && self.closed.is_empty(),
            Some(_) if self.window_bytes.is_some() => (self.complete() && !self.held) || phase == Phase::OVER,
            Some(_) => phase as usize > self.closed.len() + 1,
        };
        if due { self.turn() } else { Ok(()) }
    }

    fn turn(&mut self) -> Result<(), WireError> {
        self.close()?;
        if self.closed.len() < self.windows && self.phase.get() != Phase::OVER { self.begin() } else { Ok(()) }
    }

    fn begin(&mut self) -> Result<(), WireError> {
        self.open = Some(Opened { account: self.ledger.open()?, bytes: self.bytes, calls: self.calls });
        Ok(())
    }

    /// Closes the open window, if there is one.
    pub(super) fn close(&mut self) -> Result<(), WireError> {
        if let Some(opened) = self.open.take() {
            let (cpu, hardware) = self.ledger.close(&opened.account)?;
            let (bytes, calls) = (self.bytes - opened.bytes, self.calls - opened.calls);
            self.closed.push(Window { bytes, calls, cpu, hardware, thread_flows: self.ledger.sharers() });
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(u64, Vec<Window>), WireError> {
        self.close()?;
        Ok((self.bytes, self.closed))
    }
}
