//! Rings that carry frames, behind two traits.

use crate::error::WireError;
use crate::transmit::{Kicked, RawRing};

mod packet;
mod xdp;

pub use packet::PacketReceiver;
pub use xdp::XdpSender;

/// Hands frames to a port: stage some, then kick.
pub trait Sender: Send {
    /// Stages a frame of `length` bytes that `write` makes in a slot that holds the filler or an older frame; false
    /// where there is no room, and then nothing happened.
    fn stage(&mut self, length: usize, write: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Hands over what is staged; every staged frame is accounted for when it returns.
    ///
    /// # Errors
    /// The port is unusable (down, removed).
    fn kick(&mut self) -> Result<Kicked, WireError>;

    /// What sends.
    fn sending(&self) -> Sending;
}

/// Reads what arrives at a port.
pub trait Receiver: Send {
    /// Reads up to `most` frames that are there, each with the kernel's stamp [ns of `CLOCK_REALTIME`] if it has one.
    ///
    /// # Errors
    /// The port is unusable.
    fn poll(&mut self, most: usize, take: &mut dyn FnMut(&[u8], Option<u64>)) -> Result<usize, WireError>;

    /// Frames that arrived and found the ring full, since the last call.
    ///
    /// # Errors
    /// The kernel does not tell.
    fn missed(&mut self) -> Result<u64, WireError>;
}

/// How frames are to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendBy {
    /// AF_XDP where it can be had, else AF_PACKET.
    #[default]
    Auto,
    /// An AF_PACKET transmit ring.
    Packet,
    /// An AF_XDP socket, or an error.
    Xdp,
}

/// What sends frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// An AF_PACKET transmit ring.
    PacketRing,
    /// AF_XDP, the kernel copies each frame.
    XdpCopy,
    /// AF_XDP, the driver reads each frame in place.
    XdpZeroCopy,
}

impl std::fmt::Display for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PacketRing => "AF_PACKET ring",
            Self::XdpCopy => "AF_XDP (copy)",
            Self::XdpZeroCopy => "AF_XDP (zero-copy)",
        })
    }
}

/// A sender, and why it is not AF_XDP where that was to be tried.
pub struct OpenSender {
    /// The sender.
    pub sender: Box<dyn Sender>,
    /// Why AF_XDP was not to be had.
    pub not_xdp: Option<WireError>,
}

impl std::fmt::Debug for OpenSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSender").field("sending", &self.sender.sending()).field("not_xdp", &self.not_xdp).finish()
    }
}

/// Opens a sender in the calling thread's network namespace; `filler` is as long as the longest frame.
///
/// # Errors
/// There is no such interface, it has no carrier, or the kernel refuses.
pub fn open_sender(by: SendBy, interface: &str, filler: &[u8], max_burst: usize) -> Result<OpenSender, WireError> {
    let packet = |not_xdp| {
        let ring = RawRing::open(interface, filler, max_burst, slots(filler.len()))?;
        Ok(OpenSender { sender: Box::new(ring), not_xdp })
    };
    match by {
        SendBy::Packet => packet(None),
        SendBy::Xdp | SendBy::Auto => match XdpSender::open(interface, filler, max_burst) {
            Ok(sender) => Ok(OpenSender { sender: Box::new(sender), not_xdp: None }),
            Err(error) if by == SendBy::Auto => packet(Some(error)),
            Err(error) => Err(error),
        },
    }
}

/// Slots of a transmit ring: 8192 small ones, four times what two backlogs of 1000 on the way hold (as
/// [`crate::transmit::Method`]), fewer of jumbo frames, whose ring would not fit the memory that may be locked.
fn slots(longest: usize) -> u32 {
    if longest > 4000 { 2048 } else { 8192 }
}

impl Sender for RawRing {
    #[inline]
    fn stage(&mut self, length: usize, write: &mut dyn FnMut(&mut [u8])) -> bool {
        RawRing::stage(self, length, write)
    }

    #[inline]
    fn kick(&mut self) -> Result<Kicked, WireError> {
        RawRing::kick(self)
    }

    fn sending(&self) -> Sending {
        Sending::PacketRing
    }
}
