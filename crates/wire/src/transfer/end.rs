//! The two ends of a flow at work.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nix::sys::socket;
use serde::{Deserialize, Serialize};

use super::datagram::Datagrams;
use super::meter::{Common, Meter, Phase, Window};
use super::{Settings, Spans, options};
use crate::error::WireError;

/// What one end counted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// All bytes, warm-up and emptying included; over a stream the same at both ends.
    pub total_bytes: u64,
    /// The measured windows; fewer than asked for when the transfer was cut short.
    pub windows: Vec<Window>,
    /// Why it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Completions of MSG_ZEROCOPY.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<Completions>,
    /// What TCP_ZEROCOPY_RECEIVE mapped and did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Mapped>,
    /// How well a paced sender of datagrams kept to its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// UDP's counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
    /// When it began (ns of its host's monotonic clock); an older agent does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Where the thread was placed, if it followed its flow's packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
    /// When each burst was whole at a receiver, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts_ns: Vec<u64>,
}

impl End {
    /// The windows of this end as one: bytes, calls and times added up. `None` without a window.
    pub fn whole(&self) -> Option<Window> {
        let mut windows = self.windows.iter().copied();
        let first = windows.next()?;
        Some(windows.fold(first, |mut sum, next| {
            sum.bytes += next.bytes;
            sum.calls += next.calls;
            sum.cpu.wall_s += next.cpu.wall_s;
            sum.cpu.user_s += next.cpu.user_s;
            sum.cpu.system_s += next.cpu.system_s;
            sum.cpu.voluntary_switches += next.cpu.voluntary_switches;
            sum.cpu.involuntary_switches += next.cpu.involuntary_switches;
            sum.hardware = sum.hardware.zip(next.hardware).map(|(a, b)| a.plus(b));
            sum.common = sum.common.zip(next.common).map(|(a, b)| Common {
                length_s: a.length_s + b.length_s,
                last_bytes: b.last_bytes,
                ..a
            });
            sum
        }))
    }
}

/// Where a worker was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The CPU that handled the flow's latest packets (SO_INCOMING_CPU): of a NIC, the one that its receive queue interrupts, or that
    /// RPS chose.
    pub incoming_cpu: usize,
    /// The receive queue's NAPI (SO_INCOMING_NAPI_ID); None over loopback and veth without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_id: Option<u32>,
    /// The CPU that the worker was pinned to.
    pub cpu: usize,
}

/// What became of received bytes, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// Bytes whose pages were mapped.
    pub mapped_bytes: u64,
    /// Bytes that were copied, because they did not fill pages of their own.
    pub copied_bytes: u64,
}

/// How well a sender kept to its rate, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pacing {
    /// Payload asked for (bit/s).
    pub asked_bps: f64,
    /// Payload sent (bit/s), from the first to the last datagram.
    pub sent_bps: f64,
    /// Mean time from when a send was due to its call (s).
    pub late_mean_s: f64,
    /// The longest (s).
    pub late_max_s: f64,
    /// Time given up because it could only have been made up for by a burst (s).
    pub given_up_s: f64,
}

/// What became of MSG_ZEROCOPY sends, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// Calls that asked for it.
    pub asked: u64,
    /// Calls whose completion has come.
    pub completed: u64,
    /// Of these, calls the kernel turned back into copies.
    pub copied: u64,
    /// Calls that were refused for want of locked or option memory and made again after completions came.
    pub refused: u64,
}

/// Moves bytes one way.
pub(super) trait DataPath {
    /// Moves some: bytes and the calls they took. Zero bytes is the end.
    fn step(&mut self) -> io::Result<(usize, u64)>;

    /// The first of a transfer whose senders begin at one time: a small one where the path can, since few CPUs take them one after the other.
    fn first(&mut self) -> io::Result<(usize, u64)> {
        self.step()
    }

    /// When the next step is due, where that is not at once (ns of the monotonic clock). A step before it waits until then.
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// Signals the end of the data, if the channel does not; returns after how long (ns) to signal it again.
    fn say_end(&mut self) -> Option<u64> {
        None
    }

    /// Waits for what is still under way, and adds its own counts.
    fn finish(&mut self, _end: &mut End) -> io::Result<()> {
        Ok(())
    }
}

/// Sends until the windows are over.
pub(super) fn send(
    mut mover: Box<dyn DataPath + '_>,
    channel: BorrowedFd<'_>,
    settings: &Settings,
    spans: &Spans,
    (phase, shown): (&Phase, Option<&AtomicU64>),
) -> Result<End, WireError> {
    let mut meter = Meter::new(phase, spans)?.shown_in(shown);
    let mut failure = None;
    while !meter.done() || spans.receiver_ends {
        match mover.step() {
            Ok((bytes, calls)) => meter.count(bytes, calls)?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock && phase.others_move(spans.stall_ns) => {}
            Err(e) if spans.receiver_ends && has_left(&e) => break,
            Err(e) if phase.is_over() && is_cut_off(&e) => break,
            Err(e) => {
                failure = Some(told(step(true, settings), e, spans));
                break;
            }
        }
        if phase.is_cut() {
            break;
        }
    }
    if spans.acknowledged && failure.is_none() {
        let mut answer = [0_u8; 1];
        match nix::unistd::read(channel, &mut answer) {
            Ok(1) => {}
            Ok(_) => failure = Some("the receiver left without its acknowledgement".to_owned()),
            Err(e) => failure = Some(told("read the acknowledgement".to_owned(), e.into(), spans)),
        }
    }
    meter.close()?;
    while let Some(ns) = mover.say_end() {
        std::thread::sleep(Duration::from_nanos(ns));
    }
    let end = counted(meter, failure, &mut *mover, "sending", spans)?;
    drop(mover);
    // Other threads hold the socket open to sample it: the end of the stream has to be signalled. A pipe has no shutdown.
    let _ = socket::shutdown(channel.as_raw_fd(), socket::Shutdown::Write);
    Ok(end)
}

/// Receives until the other end is through.
pub(super) fn receive(
    mut mover: Box<dyn DataPath + '_>,
    channel: BorrowedFd<'_>,
    settings: &Settings,
    spans: &Spans,
    (phase, shown): (&Phase, Option<&AtomicU64>),
) -> Result<End, WireError> {
    let mut meter = Meter::new(phase, spans)?.shown_in(shown);
    let mut failure = None;
    let mut answered = !spans.acknowledged;
    loop {
        match mover.step() {
            Ok((0, _)) => break,
            Ok((bytes, calls)) => meter.count(bytes, calls)?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock && phase.others_move(spans.stall_ns) => {}
            Err(e) if phase.is_over() && is_cut_off(&e) => break,
            Err(e) => {
                failure = Some(told(step(false, settings), e, spans));
                break;
            }
        }
        if !answered && meter.complete() {
            answered = true;
            if let Err(e) = nix::unistd::write(channel, &[1]) {
                failure = Some(told("send the acknowledgement".to_owned(), e.into(), spans));
            }
            meter.close()?;
        }
        if (spans.receiver_ends && meter.done()) || phase.is_cut() {
            // Other threads hold the socket open: that nothing more is read has to be signalled.
            let _ = socket::shutdown(channel.as_raw_fd(), socket::Shutdown::Both);
            break;
        }
    }
    counted(meter, failure, &mut *mover, "receiving", spans)
}

/// What an end has counted when it is through.
pub(super) fn counted(
    meter: Meter<'_>,
    failure: Option<String>,
    mover: &mut dyn DataPath,
    what: &str,
    spans: &Spans,
) -> Result<End, WireError> {
    let (total_bytes, windows) = meter.finish()?;
    let mut end = End { total_bytes, windows, failure, ..End::default() };
    if let Err(e) = mover.finish(&mut end) {
        end.failure.get_or_insert_with(|| told(format!("finish {what}"), e, spans));
    }
    Ok(end)
}

/// True if the error means that the other end has closed.
pub(super) fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// True for errors that are no failure once the windows are over: the other end has closed, or a wait timed out.
pub(super) fn is_cut_off(error: &io::Error) -> bool {
    has_left(error) || error.kind() == ErrorKind::WouldBlock
}

/// What a step of an end does.
pub(super) fn step(sender: bool, settings: &Settings) -> String {
    match sender {
        true => format!("send a block of {} bytes", settings.block_bytes),
        false => format!("read up to {} bytes", settings.read_bytes),
    }
}

/// A failure as a sentence; a time-out names its time.
pub(super) fn told(action: String, error: io::Error, spans: &Spans) -> String {
    if error.kind() == ErrorKind::WouldBlock {
        return format!("could not {action}: nothing moved for {} s", spans.stall_ns as f64 * 1e-9);
    }
    WireError::system(action, error).to_string()
}

/// Reads a stream with read(2).
pub(super) struct Reader<'a> {
    channel: BorrowedFd<'a>,
    buffer: Vec<u8>,
    /// Not in force before the first read: messages before the transfer are shorter.
    low_water_bytes: Option<u32>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(channel: BorrowedFd<'a>, read_bytes: usize, low_water_bytes: Option<u32>) -> Self {
        Self { channel, buffer: vec![0; read_bytes], low_water_bytes }
    }
}

impl DataPath for Reader<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        if let Some(bytes) = self.low_water_bytes.take() {
            options::low_water(self.channel, bytes)?;
        }
        Ok((nix::unistd::read(self.channel, &mut self.buffer)?, 1))
    }
}

/// Takes a stream's bytes without copying them: recv(2) with MSG_TRUNC.
pub(super) struct Truncating<'a> {
    channel: BorrowedFd<'a>,
    /// Of kernels that copy all the same.
    buffer: Vec<u8>,
}

impl<'a> Truncating<'a> {
    pub(super) fn new(channel: BorrowedFd<'a>, read_bytes: usize) -> Self {
        Self { channel, buffer: vec![0; read_bytes] }
    }
}

impl DataPath for Truncating<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        let bytes = socket::recv(self.channel.as_raw_fd(), &mut self.buffer, socket::MsgFlags::MSG_TRUNC)?;
        Ok((bytes, 1))
    }
}
