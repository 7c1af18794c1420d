//! The two ends of a flow: their loops and their results.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nix::sys::socket;
use serde::{Deserialize, Serialize};

use super::aligned::Aligned;
use super::datagram::Datagrams;
use super::meter::{Common, Meter, Phase, Window};
use super::options::{self, InForce};
use super::{Settings, Spans};
use netcliff_packets::error::WireError;

/// The results of one end of a flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// All bytes, including warm-up and the data under way at the end. On a stream, both ends count the same.
    pub total_bytes: u64,
    /// The measured windows. Fewer than requested if the transfer ended early.
    pub windows: Vec<Window>,
    /// Why this end failed. `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Counts of MSG_ZEROCOPY completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_copy: Option<Completions>,
    /// Bytes that TCP_ZEROCOPY_RECEIVE mapped and bytes that it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Mapped>,
    /// How precisely a paced sender kept its rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// Counts of datagrams (UDP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
    /// Time of the first step (ns of this end's monotonic clock). `None` from an older agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Where the thread was placed, if it followed the CPU of its flow's packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
    /// Times at which the receiver had each burst complete (ns of this end's monotonic clock).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts_ns: Vec<u64>,
}

/// Result of an end, and the options in force (`None` for a pipe).
pub(super) type Done = (End, Option<InForce>);

impl End {
    /// All windows of this end as one: sums of bytes, calls and times. `None` without a window.
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

/// Where a worker that follows its flow's packets was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The CPU that handled the flow's latest packets (SO_INCOMING_CPU): the one that the NIC's receive queue
    /// interrupts, or the one that RPS chose.
    pub incoming_cpu: usize,
    /// NAPI id of the receive queue (SO_INCOMING_NAPI_ID). `None` on loopback and on a veth without NAPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub napi_id: Option<u32>,
    /// The CPU that the worker was pinned to.
    pub cpu: usize,
}

/// Received bytes by how they reached the program, with warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapped {
    /// Bytes whose pages were mapped.
    pub mapped_bytes: u64,
    /// Bytes that were copied because they did not fill whole pages.
    pub copied_bytes: u64,
}

/// How precisely a paced sender kept its rate, with warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pacing {
    /// Payload rate requested (bit/s).
    pub asked_bps: f64,
    /// Payload rate sent (bit/s), from the first to the last datagram.
    pub sent_bps: f64,
    /// Mean time from the due time of a send to its call (s).
    pub late_mean_s: f64,
    /// Longest time from the due time of a send to its call (s).
    pub late_max_s: f64,
    /// Time that was skipped, because making up for it would need a burst (s).
    pub given_up_s: f64,
}

/// Counts of MSG_ZEROCOPY sends, with warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completions {
    /// Number of calls with MSG_ZEROCOPY.
    pub asked: u64,
    /// Number of calls whose completion has arrived.
    pub completed: u64,
    /// Number of completed calls that the kernel turned back into copies.
    pub copied: u64,
    /// Number of calls that were refused for lack of locked or option memory. They were repeated after completions had
    /// arrived.
    pub refused: u64,
}

/// Moves the bytes of one end, in one direction.
pub(super) trait DataPath {
    /// Moves some bytes. Returns their number and the number of calls. Zero bytes means the end of the data.
    fn step(&mut self) -> io::Result<(usize, u64)>;

    /// The first step of a transfer whose senders start together. It moves few bytes if the path supports this: if few
    /// CPUs run the senders one after the other, the last sender would otherwise start late.
    fn first(&mut self) -> io::Result<(usize, u64)> {
        self.step()
    }

    /// Time at which the next step is due (ns of the monotonic clock). `None` if it is due at once. An earlier step
    /// waits until then.
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// Signals the end of the data, if the channel does not. Returns the time after which to signal it again (ns).
    fn say_end(&mut self) -> Option<u64> {
        None
    }

    /// Waits for the data under way, and adds the path's own counts.
    fn finish(&mut self, _end: &mut End) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a sending end until the windows are over.
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
                failure = Some(describe_failure(step(true, settings), e, spans));
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
            Err(e) => failure = Some(describe_failure("read the acknowledgement".to_owned(), e.into(), spans)),
        }
    }
    meter.close()?;
    while let Some(ns) = mover.say_end() {
        std::thread::sleep(Duration::from_nanos(ns));
    }
    let end = counted(meter, failure, &mut *mover, "sending", spans)?;
    drop(mover);
    // The sampling thread holds the socket open, so shut it down to signal the end of the stream. A pipe has no
    // shutdown.
    let _ = socket::shutdown(channel.as_raw_fd(), socket::Shutdown::Write);
    Ok(end)
}

/// Runs a receiving end until the other end has finished.
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
                failure = Some(describe_failure(step(false, settings), e, spans));
                break;
            }
        }
        if !answered && meter.complete() {
            answered = true;
            if let Err(e) = nix::unistd::write(channel, &[1]) {
                failure = Some(describe_failure("send the acknowledgement".to_owned(), e.into(), spans));
            }
            meter.close()?;
        }
        if (spans.receiver_ends && meter.done()) || phase.is_cut() {
            // Other threads hold the socket open, so shut it down to signal that nothing more will be read.
            let _ = socket::shutdown(channel.as_raw_fd(), socket::Shutdown::Both);
            break;
        }
    }
    counted(meter, failure, &mut *mover, "receiving", spans)
}

/// The results of an end that has finished.
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
        end.failure.get_or_insert_with(|| describe_failure(format!("finish {what}"), e, spans));
    }
    Ok(end)
}

/// Whether the error means that the other end has closed.
pub(super) fn has_left(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Whether the error is expected once the windows are over: the other end has closed, or a wait timed out.
pub(super) fn is_cut_off(error: &io::Error) -> bool {
    has_left(error) || error.kind() == ErrorKind::WouldBlock
}

/// Describes a step of an end, for error messages.
pub(super) fn step(sender: bool, settings: &Settings) -> String {
    match sender {
        true => format!("send a block of {} bytes", settings.block_bytes),
        false => format!("read up to {} bytes", settings.read_bytes),
    }
}

/// Describes a failure in a sentence; a time-out with its length.
pub(super) fn describe_failure(action: String, error: io::Error, spans: &Spans) -> String {
    if error.kind() == ErrorKind::WouldBlock {
        return format!("could not {action}: nothing moved for {} s", spans.stall_ns as f64 * 1e-9);
    }
    WireError::system(action, error).to_string()
}

/// Reads a stream by read(2).
pub(super) struct Reader<'a> {
    channel: BorrowedFd<'a>,
    buffer: Aligned,
    /// Low-water mark, set at the first read only: the messages before the transfer are shorter. `None`: not set or
    /// already in force.
    low_water_bytes: Option<u32>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(channel: BorrowedFd<'a>, buffer: Aligned, low_water_bytes: Option<u32>) -> Self {
        Self { channel, buffer, low_water_bytes }
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

/// Discards a stream's bytes without copying them: recv(2) with MSG_TRUNC.
pub(super) struct Truncating<'a> {
    channel: BorrowedFd<'a>,
    /// Receives the bytes on kernels that copy them all the same.
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
