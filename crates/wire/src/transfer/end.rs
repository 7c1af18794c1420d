//! The two ends at work and what they count.

use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc;
use std::thread;

use serde::{Deserialize, Serialize};

use super::open::Opened;
use super::{Settings, Spans, Transfer};
use crate::clock;
use crate::error::WireError;
use crate::thread::{CpuStamp, CpuUse};

/// What one end counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// All bytes, warm-up and emptying included; the same at both ends.
    pub total_bytes: u64,
    /// The measured window; `None` when the channel ended before it opened.
    pub window: Option<Window>,
}

/// One end's share of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Bytes moved in the window.
    pub bytes: u64,
    /// System calls that moved them.
    pub calls: u64,
    /// Length of the window and CPU time of this end's thread (`getrusage`, RUSAGE_THREAD): without
    /// the softirq time spent for it elsewhere.
    pub cpu: CpuUse,
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
}

/// Runs both ends, each in its thread; the receiver's failure is told first, since it breaks the
/// sender too.
pub(super) fn between<W: Write, R: Read>(
    settings: &Settings,
    spans: Spans,
    open_sender: impl FnOnce() -> Opened<W> + Send,
    open_receiver: impl FnOnce() -> Opened<R> + Send,
) -> Result<Transfer, WireError> {
    let (beginning, begun) = mpsc::channel();
    let (sent, received) = thread::scope(|scope| {
        let sender = scope.spawn(move || {
            settings.sender.enter()?;
            let Some(channel) = open_sender()? else { return Ok(None) };
            send(channel, settings.block_bytes, spans, &beginning)
        });
        let receiver = scope.spawn(move || {
            settings.receiver.enter()?;
            let Some(channel) = open_receiver()? else { return Ok(None) };
            receive(channel, settings.read_bytes, spans, &begun)
        });
        (sender.join(), receiver.join())
    });
    let received = received.map_err(|panic| WireError::died("receiver", &*panic))??;
    let sent = sent.map_err(|panic| WireError::died("sender", &*panic))??;
    match (sent, received) {
        (Some(sender), Some(receiver)) => Ok(Transfer { sender, receiver }),
        _ => Err(WireError::system("open the channel", std::io::Error::from(ErrorKind::ConnectionAborted))),
    }
}

fn send(
    mut channel: impl Write,
    block_bytes: usize,
    spans: Spans,
    beginning: &mpsc::Sender<u64>,
) -> Result<Option<End>, WireError> {
    let block = vec![0x5a; block_bytes];
    let begin_ns = clock::monotonic_ns();
    if beginning.send(begin_ns).is_err() {
        return Ok(None);
    }
    let mut meter = Meter::new(begin_ns, spans);
    while !meter.closed() {
        match channel.write(&block) {
            Ok(bytes) => meter.count(bytes)?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(WireError::system(format!("send a block of {block_bytes} bytes"), e)),
        }
    }
    meter.finish().map(Some)
}

fn receive(
    mut channel: impl Read,
    read_bytes: usize,
    spans: Spans,
    begun: &mpsc::Receiver<u64>,
) -> Result<Option<End>, WireError> {
    let mut buffer = vec![0; read_bytes];
    let Ok(begin_ns) = begun.recv() else { return Ok(None) };
    let mut meter = Meter::new(begin_ns, spans);
    loop {
        match channel.read(&mut buffer) {
            Ok(0) => return meter.finish().map(Some),
            Ok(bytes) => meter.count(bytes)?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(WireError::system(format!("read up to {read_bytes} bytes"), e)),
        }
    }
}

/// Counts bytes and cuts the window out of them.
struct Meter {
    opens_ns: u64,
    closes_ns: u64,
    bytes: u64,
    calls: u64,
    opened: Option<(CpuStamp, u64, u64)>,
    window: Option<Window>,
}

impl Meter {
    fn new(begin_ns: u64, spans: Spans) -> Self {
        let opens_ns = begin_ns + spans.warm_up_ns;
        Self { opens_ns, closes_ns: opens_ns + spans.time_ns, bytes: 0, calls: 0, opened: None, window: None }
    }

    fn closed(&self) -> bool {
        self.window.is_some()
    }

    /// Notes one call. The window lies between the first call that ends after it opens and the first
    /// that ends after it closes, so that it holds whole calls.
    fn count(&mut self, bytes: usize) -> Result<(), WireError> {
        self.bytes += bytes as u64;
        self.calls += 1;
        let now_ns = clock::monotonic_ns();
        if self.opened.is_none() && now_ns >= self.opens_ns {
            self.opened = Some((CpuStamp::now()?, self.bytes, self.calls));
        } else if self.window.is_none() && now_ns >= self.closes_ns {
            self.close()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), WireError> {
        if let Some((stamp, bytes, calls)) = &self.opened {
            let cpu = stamp.until(&CpuStamp::now()?);
            self.window = Some(Window { bytes: self.bytes - bytes, calls: self.calls - calls, cpu });
        }
        Ok(())
    }

    fn finish(mut self) -> Result<End, WireError> {
        if self.window.is_none() {
            self.close()?;
        }
        Ok(End { total_bytes: self.bytes, window: self.window })
    }
}
