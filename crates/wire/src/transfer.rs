//! Bulk transfers: what a byte costs at either end.
//!
//! [`run`] has both ends in threads of this process, [`run_with`] the far end in an agent. It opens one channel a flow,
//! sends blocks for a warm-up and a measured span, and counts every byte at both
//! ends. Each end has its own windows on the clock both share, so that a sender's figure (which includes what only
//! reached a buffer) and a receiver's can be told apart. A [`Watch`] is told when the windows open and close, so that
//! others can meter the same time.
//!
//! | module | holds |
//! | --- | --- |
//! | `open`, [`options`] | the channels and their socket options, asked for and in force |
//! | `path`, `zero_copy`, `uring` | how a sender hands its bytes to the kernel |
//! | `mapped`, `uring` | receiving without copies, and without a call each time |
//! | `pace` | datagrams at a rate, without bursts |
//! | `datagram` | UDP: batches, segmentation offload, what was lost |
//! | `end`, `meter` | the two ends at work, and what they count |
//! | [`hardware`] | cycles and instructions of a thread |
//! | `conduct`, `conductor`, `gate` | ends begin and stop together; TCP_INFO in between |
//! | `local` | both halves here |
//! | `near`, `far`, `order`, `join`, `admit` | a half here and a half in an agent: who asks, who is asked, for what; data connections |
//! | [`tcp_info`] | what the kernel says of a connection |

mod admit;
mod conduct;
mod conductor;
mod datagram;
mod end;
mod far;
mod gate;
pub mod hardware;
mod join;
mod local;
mod mapped;
mod meter;
mod near;
mod open;
pub mod options;
mod order;
mod pace;
mod path;
#[cfg(test)]
mod remote_tests;
pub mod tcp_info;
#[cfg(test)]
mod tests;
mod uring;
mod zero_copy;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::error::WireError;
use crate::thread::Placement;

pub use datagram::{DatagramPath, Datagrams};
pub use end::End;
pub use far::TransferKind;
pub use mapped::Mapped;
pub use meter::Window;
pub use near::{FarHost, run_with};
pub use options::{InForce, SocketOptions};
pub use order::{LONGEST_FAR_STALL_S, MOST_FAR_BYTES, MOST_FAR_FILE_BYTES, MOST_FAR_FLOWS};
pub use pace::Pacing;
pub use tcp_info::TcpSample;
pub use zero_copy::Completions;

/// The largest block (bytes).
pub const LARGEST_BLOCK_BYTES: usize = 16 << 20;

/// The largest payload of a UDP datagram over IPv4 (bytes), and the least, which the sequence number needs.
pub const DATAGRAM_BYTES: std::ops::RangeInclusive<usize> = 8..=65_507;

/// The longest warm-up or measured time (s).
pub const LONGEST_TIME_S: f64 = 86_400.0;

/// The most flows of one direction: two threads and some descriptors each.
pub const MOST_FLOWS: u32 = 4096;

/// What carries the bytes. Unix sockets and pipes are controls: copies and wake-ups without a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// A TCP connection to the far end's address; the port is the kernel's choice.
    Tcp {
        /// An address of the far end's network namespace.
        address: IpAddr,
        /// Multipath TCP (RFC 8684) instead of plain.
        multipath: bool,
    },
    /// UDP datagrams of one block each.
    Udp {
        /// An address of the receiver's network namespace.
        address: IpAddr,
        /// How they are sent and received.
        path: DatagramPath,
    },
    /// A pair of connected stream sockets.
    Unix,
    /// A pipe.
    Pipe,
}

/// How a stream sender hands its bytes to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendPath {
    /// write(2), one call a block.
    #[default]
    Write,
    /// writev(2), the block in up to 16 pieces.
    WriteV,
    /// sendfile(2) from a file, again from its start when it ends.
    SendFile {
        /// The file, at least one byte long.
        file: PathBuf,
        /// Drops the file from the page cache before each pass, so that it comes from the disk.
        cold: bool,
    },
    /// sendfile(2) from a file that each sender makes for itself and that is gone with it.
    SendOwnFile {
        /// Its length (bytes), at least 1.
        bytes: u64,
        /// As above.
        cold: bool,
    },
    /// vmsplice(2) into a pipe and splice(2) out of it.
    Splice,
    /// send(2) with MSG_ZEROCOPY; completions are awaited and counted.
    ZeroCopy,
    /// io_uring: up to 64 blocks a system call, with or without a copy.
    Uring {
        /// IORING_OP_SEND_ZC instead of IORING_OP_SEND; notifications are awaited and counted.
        zero_copy: bool,
    },
}

/// How a stream receiver takes its bytes from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceivePath {
    /// read(2).
    #[default]
    Read,
    /// TCP_ZEROCOPY_RECEIVE, and read(2) for what does not fill pages of its own.
    Mapped,
    /// One io_uring receive that goes on by itself, into buffers of the read size.
    Uring,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The near end, which connects.
    #[default]
    Send,
    /// The far end, which accepts.
    Receive,
    /// Both at once, on flows of their own.
    Both,
}

/// How long a window lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// A time (s).
    Seconds(f64),
    /// So many bytes of each flow, rounded up to whole blocks.
    Bytes(u64),
}

/// A transfer to be made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What carries the bytes.
    pub channel: Channel,
    /// An address of the near end's network namespace, for datagrams to it; None: that of the channel. Between hosts it is
    /// not asked for.
    pub near_address: Option<IpAddr>,
    /// How a stream sender sends.
    pub path: SendPath,
    /// Socket options.
    pub options: SocketOptions,
    /// Who sends.
    pub direction: Direction,
    /// Flows of each direction (1 to [`MOST_FLOWS`]), each with a thread at either end.
    pub flows: u32,
    /// Bytes of one write or datagram (1 to [`LARGEST_BLOCK_BYTES`], or [`DATAGRAM_BYTES`]).
    pub block_bytes: usize,
    /// Bytes asked for by one read (1 to [`LARGEST_BLOCK_BYTES`]).
    pub read_bytes: usize,
    /// How a stream receiver receives.
    pub receive: ReceivePath,
    /// SO_RCVLOWAT (bytes): a receiver that waits is woken when so much is there, or the end. TCP read by
    /// [`ReceivePath::Read`], not `acknowledged`; the kernel takes at most half the receive buffer. None: any byte wakes it.
    pub low_water_bytes: Option<u32>,
    /// Time sent before the windows open (s).
    pub warm_up_s: f64,
    /// Length of a window.
    pub amount: Amount,
    /// Windows one after the other on the same connections, at least 1.
    pub windows: u32,
    /// The receiver answers the last byte of a window with one of its own, and the sender's window includes it.
    /// Needs [`Amount::Bytes`], one window, no warm-up, and TCP or Unix.
    pub acknowledged: bool,
    /// How often TCP_INFO is read within the windows (s); None: at their ends only.
    pub interval_s: Option<f64>,
    /// Nothing moving for so long ends the transfer (s). Does not hold for pipes.
    pub stall_s: f64,
    /// Where the near end runs.
    pub near: Placement,
    /// Where the far end runs.
    pub far: Placement,
    /// Set by others to end it early; what was counted so far is kept.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Settings {
    /// One flow of 64 KiB blocks from near to far: a second after a warm-up of a quarter.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel,
            near_address: None,
            path: SendPath::Write,
            options: SocketOptions::default(),
            direction: Direction::Send,
            flows: 1,
            block_bytes: 64 << 10,
            read_bytes: 128 << 10,
            receive: ReceivePath::Read,
            low_water_bytes: None,
            warm_up_s: 0.25,
            amount: Amount::Seconds(1.0),
            windows: 1,
            acknowledged: false,
            interval_s: None,
            stall_s: 5.0,
            near: Placement::default(),
            far: Placement::default(),
            stop: None,
        }
    }
}

/// What both ends of one flow saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// True where the near end sends.
    pub forward: bool,
    /// The sender's counts: bytes the kernel accepted.
    pub sender: End,
    /// The receiver's counts: bytes the application has read.
    pub receiver: End,
    /// TCP_INFO of the sender: as the windows open, in intervals, and as they close. Empty for other channels.
    pub tcp: Vec<TcpSample>,
    /// What held at the sender's socket in the end; None for a pipe.
    pub in_force: Option<InForce>,
}

/// What all flows saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The flows, forward ones first.
    pub flows: Vec<Flow>,
    /// Why it ended before its time; what was counted until then is kept.
    pub cut_short: Option<String>,
    /// The far end's host, where it is in an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarHost>,
}

/// Is told when the windows open and close, on the thread that called [`run`].
pub trait Watch {
    /// All ends have passed the warm-up.
    fn opened(&mut self) {}
    /// The measured time is over; receivers may still be emptying buffers.
    fn closed(&mut self) {}
}

/// Watches nothing.
impl Watch for () {}

/// Makes one transfer, in `warm_up_s`, the windows, and the time to empty the buffers.
///
/// # Errors
/// A setting is out of its range, a thread can not be placed, or the kernel refuses a call before anything was
/// measured. Later failures are in [`Transfer::cut_short`].
pub fn run(settings: &Settings, watch: &mut dyn Watch) -> Result<Transfer, WireError> {
    local::run(settings, settings.spans()?, watch)
}

/// Warm-up, windows and stall, in the units the ends count.
#[derive(Debug, Clone, Copy)]
struct Spans {
    warm_up_ns: u64,
    window: Span,
    windows: u32,
    acknowledged: bool,
    /// The sender goes on until the receiver has had all its windows and leaves: with two clocks and a warm-up nobody
    /// else knows where the receiver's windows are.
    receiver_ends: bool,
    interval_ns: Option<u64>,
    stall_ns: u64,
}

impl Spans {
    /// As they are where each end has a clock of its own.
    fn between_hosts(self) -> Self {
        let receiver_ends = self.warm_up_ns > 0 && matches!(self.window, Span::Bytes(_));
        Self { receiver_ends, ..self }
    }
}

#[derive(Debug, Clone, Copy)]
enum Span {
    Time(u64),
    Bytes(u64),
}

impl Settings {
    /// The flows by number: true where the near end sends.
    fn flow_directions(&self) -> Vec<bool> {
        let directions: &[bool] = match self.direction {
            Direction::Send => &[true],
            Direction::Receive => &[false],
            Direction::Both => &[true, false],
        };
        directions.iter().flat_map(|forward| std::iter::repeat_n(*forward, self.flows as usize)).collect()
    }

    fn spans(&self) -> Result<Spans, WireError> {
        self.check_sizes()?;
        let seconds = |what, s: f64, least: u64, accepted: &str| {
            clock::ns_from_s(s)
                .filter(|ns| s <= LONGEST_TIME_S && *ns >= least)
                .ok_or_else(|| WireError::setting(what, s, format!("{accepted} up to {LONGEST_TIME_S} seconds")))
        };
        let window = match self.amount {
            Amount::Seconds(s) => Span::Time(seconds("time_s", s, 1, "more than 0,")?),
            Amount::Bytes(0) => return Err(WireError::setting("bytes", 0, "at least 1 byte")),
            Amount::Bytes(bytes) => Span::Bytes(bytes.next_multiple_of(self.block_bytes as u64)),
        };
        if self.acknowledged {
            self.check_acknowledged()?;
        }
        self.check_low_water()?;
        Ok(Spans {
            warm_up_ns: seconds("warm_up_s", self.warm_up_s, 0, "0")?,
            window,
            windows: self.windows.max(1),
            acknowledged: self.acknowledged,
            receiver_ends: false,
            interval_ns: self.interval_s.map(|s| seconds("interval_s", s, 1_000_000, "0.001")).transpose()?,
            stall_ns: seconds("stall_s", self.stall_s, 1_000_000, "0.001")?,
        })
    }

    fn check_sizes(&self) -> Result<(), WireError> {
        let blocks = match self.channel {
            Channel::Udp { .. } => DATAGRAM_BYTES,
            _ => 1..=LARGEST_BLOCK_BYTES,
        };
        for (what, bytes, accepted) in
            [("block_bytes", self.block_bytes, blocks), ("read_bytes", self.read_bytes, 1..=LARGEST_BLOCK_BYTES)]
        {
            if !accepted.contains(&bytes) {
                let accepted = format!("{} to {} bytes", accepted.start(), accepted.end());
                return Err(WireError::setting(what, bytes, accepted));
            }
        }
        if !(1..=MOST_FLOWS).contains(&self.flows) {
            return Err(WireError::setting("flows", self.flows, format!("1 to {MOST_FLOWS} flows")));
        }
        Ok(())
    }

    /// A low-water mark where nothing would ever reach it is a receiver that waits for ever.
    fn check_low_water(&self) -> Result<(), WireError> {
        let Some(bytes) = self.low_water_bytes else { return Ok(()) };
        let fits =
            matches!(self.channel, Channel::Tcp { .. }) && self.receive == ReceivePath::Read && !self.acknowledged;
        if fits && (1..=LARGEST_BLOCK_BYTES).contains(&(bytes as usize)) {
            return Ok(());
        }
        let accepted = format!("1 to {LARGEST_BLOCK_BYTES} bytes, of TCP received by read(2) without acknowledgement");
        Err(WireError::setting("low_water_bytes", bytes, accepted))
    }

    fn check_acknowledged(&self) -> Result<(), WireError> {
        let fits = matches!(self.amount, Amount::Bytes(_)) && self.windows <= 1 && self.warm_up_s == 0.0;
        let duplex = matches!(self.channel, Channel::Tcp { .. } | Channel::Unix);
        if fits && duplex {
            return Ok(());
        }
        let accepted = "a number of bytes in one window without warm-up, over TCP or a Unix socket";
        Err(WireError::setting("acknowledged", true, accepted))
    }
}
