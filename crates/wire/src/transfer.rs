//! Bulk transfers: what a byte costs at either end.
//!
//! [`run`] has both ends in threads of this process, [`run_with`] the far end in an agent: a thread a flow, or
//! [`Settings::threads`] at each end. It opens one channel a flow,
//! sends blocks for a warm-up and a measured span, and counts every byte at both
//! ends. Each end has its own windows on the clock both share, so that a sender's figure (which includes what only
//! reached a buffer) and a receiver's can be distinguished. A [`Watch`] is notified when the windows open and close, so
//! that others can meter the same time.
//!
//! | module | holds |
//! | --- | --- |
//! | `settings` | the settings of a transfer, checked |
//! | `open`, [`options`] | the channels and their socket options, requested and in force |
//! | `path`, `zero_copy`, `uring` | how a sender hands its bytes to the kernel |
//! | `follow` | a worker so many CPUs from its flow's packets |
//! | `ktls` | TLS by the kernel |
//! | `mapped`, `uring` | receiving without copies, and without a call each time |
//! | `pace` | datagrams at a rate, without bursts |
//! | `error_queue` | the kernel's reports on earlier sends |
//! | `datagram` | UDP: batches, segmentation offload, what was lost |
//! | `end`, `meter` | the two ends at work, and what they count |
//! | [`hardware`] | cycles and instructions of a thread |
//! | `conduct`, `conductor`, `gate`, `sampler` | ends begin and stop together; TCP_INFO in between |
//! | `together`, `turns`, `wake`, `ledger` | a thread that serves several flows: by turns, by epoll, and what each costs |
//! | `local` | both halves here |
//! | `near`, `far`, `far_end_request`, `join`, `admit` | a half here and a half in an agent: client, server and request; data connections |
//! | `many`, `start`, `burst` | several agents at once: a common start, and bursts that begin together |
//! | `live` | what moved in each interval while it runs |
//! | [`tcp_info`] | what the kernel reports of a connection |

mod admit;
mod burst;
mod conduct;
mod conductor;
mod datagram;
mod end;
mod error_queue;
mod far;
mod far_end_request;
mod follow;
mod gate;
pub mod hardware;
mod join;
mod ktls;
mod ledger;
mod live;
mod local;
mod many;
mod mapped;
mod meter;
mod near;
mod open;
pub mod options;
mod pace;
mod path;
#[cfg(test)]
mod remote_tests;
mod sampler;
mod send_file;
mod settings;
mod start;
pub mod tcp_info;
#[cfg(test)]
mod tests;
mod together;
mod turns;
#[cfg_attr(not(target_os = "linux"), path = "not_linux/uring.rs")]
mod uring;
mod wake;
mod zero_copy;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::WireError;

pub use burst::{Burst, MOST_BURSTS};
pub use datagram::{DatagramPath, Datagrams, END_MARKS};
pub use end::End;
pub use far::{Congestion, TransferKind};
pub use far_end_request::{LONGEST_FAR_STALL_S, MOST_FAR_BYTES, MOST_FAR_FILE_BYTES, MOST_FAR_FLOWS, MOST_FAR_WINDOWS};
pub use follow::Followed;
pub use live::Interval;
pub use many::{Agent, AgentPart, Many, run_many};
pub use mapped::Mapped;
pub use meter::{Common, Window};
pub use near::{FarHost, run_with};
pub use options::{InForce, SocketOptions};
pub use pace::Pacing;
pub(crate) use pace::wait_until;
pub use settings::Settings;
pub use start::StartTime;
pub use tcp_info::TcpSample;
pub use zero_copy::Completions;

use settings::{Span, Spans};

/// The largest block (bytes).
pub const LARGEST_BLOCK_BYTES: usize = 16 << 20;

/// The largest payload of a UDP datagram over IPv4 (bytes), and the least, which the sequence number needs.
pub const DATAGRAM_BYTES: std::ops::RangeInclusive<usize> = 8..=65_507;

/// The longest warm-up or measured time (s).
pub const LONGEST_TIME_S: f64 = 86_400.0;

/// The most flows of one direction: some descriptors each, and two threads unless they share them.
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
    /// write(2) to a socket that makes TLS records of it (kTLS, AES-128-GCM); it is received by [`ReceivePath::Ktls`].
    Ktls,
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
    /// recv(2) with MSG_TRUNC: what has come is let go of without a copy, of datagrams all but their number.
    Truncate,
    /// read(2) from a socket that opens TLS records (kTLS).
    Ktls,
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
    /// With several agents: how they began, and whose flows are whose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub many: Option<Many>,
}

/// Is notified when the windows open and close, on the thread that called [`run`].
pub trait Watch {
    /// All ends have passed the warm-up.
    fn opened(&mut self) {}
    /// The measured time is over; receivers may still be emptying buffers.
    fn closed(&mut self) {}
    /// Length of the intervals for [`Watch::passed`]; None: no intervals.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// All ends have come and wait for a common start, where there is to be one.
    fn gathered(&mut self) {}
    /// True: it is given the sockets of the ends that are here.
    fn observes(&self) -> bool {
        false
    }
    /// Called once, before anything moves, with duplicates of these sockets: of a sender, or not. They have to be let go of in
    /// [`Watch::closed`], so that the connections can end.
    fn sockets(&mut self, _: Vec<(bool, OwnedFd)>) {}
    /// Called with what moved in an interval of the open windows, right after it; for the last one after [`Watch::closed`].
    fn passed(&mut self, _: &Interval) {}
}

/// Watches nothing.
impl Watch for () {}

/// Makes one transfer, in `warm_up_s`, the windows, and the time to empty the buffers.
///
/// # Errors
/// A setting is out of its range, a thread can not be placed, or the kernel refuses a call before anything was
/// measured. Later failures are in [`Transfer::cut_short`].
pub fn run(settings: &Settings, watch: &mut dyn Watch) -> Result<Transfer, WireError> {
    settings.check_ends()?;
    local::run(settings, settings.spans()?, watch)
}
