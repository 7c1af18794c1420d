//! A bulk transfer between two threads of this process: what a byte costs at either end.
//!
//! [`run`] opens a channel, sends blocks over it for a warm-up and a measured time, and counts every
//! byte at both ends. Each end has its own window on the clock both share, so that a sender's figure
//! (which includes what only reached a buffer) and a receiver's can be told apart.

mod end;
mod open;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use crate::clock;
use crate::error::WireError;
use crate::thread::Placement;

pub use end::{End, Window};

/// The largest block (bytes).
pub const LARGEST_BLOCK_BYTES: usize = 16 << 20;

/// The longest warm-up or measured time (s).
pub const LONGEST_TIME_S: f64 = 86_400.0;

/// What carries the bytes. Unix sockets and pipes are controls: copies and wake-ups without a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// A TCP connection to the receiver's address; the port is the kernel's choice.
    Tcp {
        /// An address of the receiver's network namespace.
        address: IpAddr,
        /// TCP_NODELAY at the sender.
        no_delay: bool,
    },
    /// A pair of connected stream sockets.
    Unix,
    /// A pipe.
    Pipe,
}

/// A transfer to be made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What carries the bytes.
    pub channel: Channel,
    /// Bytes of one write (1 to [`LARGEST_BLOCK_BYTES`]).
    pub block_bytes: usize,
    /// Bytes asked for by one read (1 to [`LARGEST_BLOCK_BYTES`]).
    pub read_bytes: usize,
    /// Time sent before the windows open (s).
    pub warm_up_s: f64,
    /// Length of the windows (s).
    pub time_s: f64,
    /// Where the sender runs.
    pub sender: Placement,
    /// Where the receiver runs.
    pub receiver: Placement,
}

/// What both ends saw.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// The sender's counts: bytes the kernel accepted.
    pub sender: End,
    /// The receiver's counts: bytes the application has read.
    pub receiver: End,
}

/// Makes one transfer, in `warm_up_s` + `time_s` and the time to empty the buffers.
///
/// # Errors
/// A setting is out of its range, a thread can not be placed, or the kernel refuses a call.
pub fn run(settings: &Settings) -> Result<Transfer, WireError> {
    let spans = settings.spans()?;
    match settings.channel {
        Channel::Tcp { address, no_delay } => {
            let (listener, dialler) = open::tcp(address, no_delay);
            end::between(settings, spans, dialler, listener)
        }
        Channel::Unix => {
            let (sender, receiver) = open::unix()?;
            end::between(settings, spans, || Ok(Some(sender)), || Ok(Some(receiver)))
        }
        Channel::Pipe => {
            let (sender, receiver) = open::pipe()?;
            end::between(settings, spans, || Ok(Some(sender)), || Ok(Some(receiver)))
        }
    }
}

/// Warm-up and measured time, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Spans {
    warm_up_ns: u64,
    time_ns: u64,
}

impl Settings {
    fn spans(&self) -> Result<Spans, WireError> {
        for (what, bytes) in [("block_bytes", self.block_bytes), ("read_bytes", self.read_bytes)] {
            if !(1..=LARGEST_BLOCK_BYTES).contains(&bytes) {
                return Err(WireError::setting(what, bytes, format!("1 to {LARGEST_BLOCK_BYTES} bytes")));
            }
        }
        let accepted = |least: &str| format!("{least} up to {LONGEST_TIME_S} seconds");
        let bounded = |s: f64| clock::ns_from_s(s).filter(|_| s <= LONGEST_TIME_S);
        let warm_up_ns =
            bounded(self.warm_up_s).ok_or_else(|| WireError::setting("warm_up_s", self.warm_up_s, accepted("0")))?;
        let time_ns = bounded(self.time_s)
            .filter(|ns| *ns > 0)
            .ok_or_else(|| WireError::setting("time_s", self.time_s, accepted("more than 0,")))?;
        Ok(Spans { warm_up_ns, time_ns })
    }
}
