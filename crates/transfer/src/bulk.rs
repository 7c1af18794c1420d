//! Bulk transfers: measure the CPU cost of a byte at each end.
//!
//! [`run`] has both ends in threads of this process, [`run_with`] has the far end in an agent: one thread per flow, or
//! [`Settings::threads`] at each end. It opens one channel per flow, sends blocks for a warm-up and a measured time,
//! and counts every byte at both ends. Each end has its own windows on a common clock, so that the sender's result
//! (which includes bytes that only reached a buffer) and the receiver's can be distinguished. A [`Watch`] is notified
//! when the windows open and close, so that other meters can measure the same time.
//!
//! | module | holds |
//! | --- | --- |
//! | `settings` | the settings of a transfer, and their checks |
//! | `open`, [`options`] | the channels and their socket options, requested and in force |
//! | `path`, `linux` | how a sender hands its bytes to the kernel |
//! | `follow` | a worker at a fixed distance from the CPU of its flow's packets |
//! | `ktls` | TLS by the kernel |
//! | `mapped`, `linux` | receiving without copies, or with fewer system calls |
//! | `pace` | datagrams at a rate, without bursts |
//! | `linux` | what only Linux has: io_uring, zero copies, sendfile, splice, epoll, the error queue (`bsd.rs` on BSD) |
//! | `datagram` | UDP: batches, segmentation offload, what was lost |
//! | `end`, `meter` | the two running ends, and their counts |
//! | [`hardware`] | cycles and instructions of a thread |
//! | `conduct`, `conductor`, `gate`, `sampler` | ends start and stop together; TCP_INFO in between |
//! | `turns`, `wake`, `ledger` | one thread for several flows: turns, epoll, cost of each flow |
//! | `local` | both ends in this process |
//! | `near`, `far`, `far_end_request`, `join`, `admit` | the far end in an agent: client, server, request |
//! | `many`, `start`, `burst` | several agents: a common start, and bursts that start together |
//! | `live` | interim reports: bytes moved in each interval |
//! | [`tcp_info`] | the kernel's information about a connection |

mod admit;
mod burst;
mod conduct;
mod conductor;
mod datagram;
mod end;
mod far;
mod far_end_request;
mod follow;
pub mod hardware;
mod join;
mod ktls;
mod ledger;
#[cfg_attr(not(target_os = "linux"), path = "bulk/bsd.rs")]
mod linux;
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
mod settings;
mod start;
pub mod tcp_info;
#[cfg(test)]
mod tests;
mod turns;
mod wake;

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use netcliff_packets::error::WireError;

pub use burst::{Burst, MOST_BURSTS};
pub use datagram::{DatagramPath, Datagrams, END_MARKS};
pub use end::{Completions, End};
pub use far::{Congestion, TransferKind};
pub use far_end_request::{LONGEST_FAR_STALL_S, MOST_FAR_BYTES, MOST_FAR_FILE_BYTES, MOST_FAR_FLOWS, MOST_FAR_WINDOWS};
pub use follow::Followed;
pub(crate) use linux::storage_bps;
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

use settings::{Span, Spans};

/// Largest block (bytes).
pub const LARGEST_BLOCK_BYTES: usize = 16 << 20;

/// Payload of a UDP datagram over IPv4 (bytes): the smallest one holds the sequence number.
pub const DATAGRAM_BYTES: std::ops::RangeInclusive<usize> = 8..=65_507;

/// Longest warm-up or measured time (s).
pub const LONGEST_TIME_S: f64 = 86_400.0;

/// Largest number of flows in one direction: each needs some descriptors, and two threads unless flows share them.
pub const MOST_FLOWS: u32 = 4096;

/// The transport of the bytes. Unix sockets and pipes are controls: copies and wake-ups without a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// A TCP connection to the far end's address; the kernel chooses the port.
    Tcp {
        /// An address of the far end's network namespace.
        address: IpAddr,
        /// Whether to use Multipath TCP (RFC 8684).
        multipath: bool,
    },
    /// UDP datagrams of one block each.
    Udp {
        /// An address of the receiver's network namespace.
        address: IpAddr,
        /// How datagrams are sent and received.
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
    /// write(2), one call per block.
    #[default]
    Write,
    /// writev(2), the block in up to 16 pieces.
    WriteV,
    /// sendfile(2) from a file, which is sent again from its start after its end.
    SendFile {
        /// The file, at least one byte long.
        file: PathBuf,
        /// Whether to drop the file from the page cache before each pass, so that it is read from the disk.
        cold: bool,
    },
    /// sendfile(2) from a temporary file that each sender makes for itself.
    SendOwnFile {
        /// Length of the file (bytes), at least 1.
        bytes: u64,
        /// Whether to drop the file from the page cache before each pass.
        cold: bool,
    },
    /// vmsplice(2) into a pipe and splice(2) out of it.
    Splice,
    /// write(2) to a socket that makes TLS records (kTLS, AES-128-GCM). The receiver uses [`ReceivePath::Ktls`].
    Ktls,
    /// send(2) with MSG_ZEROCOPY; completions are awaited and counted.
    ZeroCopy,
    /// io_uring: up to 64 blocks per system call, with or without a copy.
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
    /// TCP_ZEROCOPY_RECEIVE, and read(2) for data that do not fill whole pages.
    Mapped,
    /// recv(2) with MSG_TRUNC: discards the data without a copy; of datagrams, only the sequence number is copied.
    Truncate,
    /// read(2) from a socket that decrypts TLS records (kTLS).
    Ktls,
    /// One io_uring receive request that continues by itself, into buffers of the read size.
    Uring,
}

/// The end that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The near end sends; it is the one that connects.
    #[default]
    Send,
    /// The far end sends; it is the one that accepts.
    Receive,
    /// Both ends send at once, on separate flows.
    Both,
}

/// Length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Amount {
    /// A time (s).
    Seconds(f64),
    /// A number of bytes per flow, rounded up to whole blocks.
    Bytes(u64),
}

/// The results of both ends of one flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Whether the near end sends.
    pub forward: bool,
    /// The sender's results: bytes that the kernel accepted.
    pub sender: End,
    /// The receiver's results: bytes that the application has read.
    pub receiver: End,
    /// TCP_INFO of the sender: when the windows open, at intervals, and when they close. Empty for other channels.
    pub tcp: Vec<TcpSample>,
    /// Options in force at the sender's socket at the end. `None` for a pipe.
    pub in_force: Option<InForce>,
}

/// The results of all flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The flows, forward ones first.
    pub flows: Vec<Flow>,
    /// Why the transfer ended early. `None` if it did not. The results up to then are valid.
    pub cut_short: Option<String>,
    /// Report on the far end's host. `None` if the far end is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far: Option<FarHost>,
    /// How several agents started, and which flows belong to which agent. `None` with a single far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub many: Option<Many>,
}

/// Receives notifications when the windows open and close, on the thread that called [`run`].
pub trait Watch {
    /// Called when all ends have passed the warm-up.
    fn opened(&mut self) {}
    /// Called when the measured time is over. Receivers may still read data under way.
    fn closed(&mut self) {}
    /// Length of the intervals for [`Watch::passed`]. `None`: no interim reports.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// Called when all ends are ready and wait for a common start.
    fn gathered(&mut self) {}
    /// Whether to pass the sockets of this process's ends to [`Watch::sockets`].
    fn observes(&self) -> bool {
        false
    }
    /// Called once, before any bytes move, with duplicates of the sockets; the flag is true for a sender's socket.
    /// Close them in [`Watch::closed`], so that the connections can end.
    fn sockets(&mut self, _: Vec<(bool, OwnedFd)>) {}
    /// Called after each interval of the open windows with the bytes that moved in it; for the last one, after
    /// [`Watch::closed`].
    fn passed(&mut self, _: &Interval) {}
}

/// A watch that ignores all notifications.
impl Watch for () {}

/// Runs one transfer: warm-up, windows, and the time to read the data under way.
///
/// # Errors
/// A setting is out of its range, a thread cannot be placed, or the kernel refuses a call before anything was measured.
/// Later failures are in [`Transfer::cut_short`].
pub fn run(settings: &Settings, watch: &mut dyn Watch) -> Result<Transfer, WireError> {
    settings.check_ends()?;
    local::run(settings, settings.spans()?, watch)
}

mod gate {
    //! A gate that all ends pass together, or not at all.

    use std::sync::{Condvar, Mutex, PoisonError};

    /// The point where all ends wait for each other.
    pub(super) struct Gate {
        state: Mutex<GateState>,
        changed: Condvar,
    }

    struct GateState {
        missing: usize,
        given_up: bool,
    }

    impl Gate {
        pub(super) fn new(parties: usize) -> Self {
            Self { state: Mutex::new(GateState { missing: parties, given_up: false }), changed: Condvar::new() }
        }

        /// Waits for the other ends. Returns false if one of them gave up.
        pub(super) fn pass(&self) -> bool {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.missing = state.missing.saturating_sub(1);
            self.changed.notify_all();
            while state.missing > 0 && !state.given_up {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            !state.given_up
        }

        pub(super) fn give_up(&self) {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
            self.changed.notify_all();
        }
    }

    /// Gives up on drop, unless the gate was reached: the other ends must not wait for an end that failed.
    pub(super) struct Arrival<'a>(pub(super) Option<&'a Gate>);

    impl Drop for Arrival<'_> {
        fn drop(&mut self) {
            if let Some(gate) = self.0 {
                gate.give_up();
            }
        }
    }
}

mod aligned {
    //! Bytes that begin on a page: [`Aligned`].

    /// A block of data to send. It is not zeros, because a disk or a link might compress these.
    pub(super) fn block(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|i| (i as u8).wrapping_mul(151).wrapping_add(43)).collect()
    }

    /// Bytes that begin on a page, or where the allocator puts them.
    pub(super) struct Aligned {
        bytes: Vec<u8>,
        from: usize,
        length: usize,
    }

    impl Aligned {
        /// Makes `length` zeros. If `aligned`, they begin on a page.
        pub(super) fn zeroed(length: usize, aligned: bool) -> Self {
            if !aligned {
                return Self { bytes: vec![0; length], from: 0, length };
            }
            // SAFETY: sysconf takes no pointer.
            let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
            let bytes = vec![0; length + page];
            let from = bytes.as_ptr().addr().wrapping_neg() % page;
            Self { bytes, from, length }
        }
    }

    impl std::ops::Deref for Aligned {
        type Target = [u8];

        fn deref(&self) -> &[u8] {
            &self.bytes[self.from..self.from + self.length]
        }
    }

    impl std::ops::DerefMut for Aligned {
        fn deref_mut(&mut self) -> &mut [u8] {
            &mut self.bytes[self.from..self.from + self.length]
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn an_aligned_block_begins_on_a_page() {
            for length in [1, 1500, 65_536, 200_000] {
                let mut block = Aligned::zeroed(length, true);
                assert_eq!((block.as_ptr().addr() % 4096, block.len()), (0, length));
                block.fill(7);
                assert_eq!(Aligned::zeroed(length, false).len(), length);
            }
        }
    }
}
