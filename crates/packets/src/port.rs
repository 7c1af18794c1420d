//! Rings that send and receive frames, behind two traits.

use serde::{Deserialize, Serialize};

use crate::error::WireError;

mod packet;
mod ring;
#[cfg_attr(not(target_os = "linux"), path = "port/bsd.rs")]
mod xdp;

pub use packet::PacketReceiver;
pub(crate) use ring::RawRing;
use xdp::SharedUmem;
pub use xdp::{XdpReceiver, XdpSender};

/// Sends frames through a port: stage some frames, then kick.
pub trait Sender: Send {
    /// Stages a frame of `length` bytes. `write` builds it in a slot that contains the filler or an older frame.
    /// Returns false and changes nothing if there is no room.
    fn stage(&mut self, length: usize, write: &mut dyn FnMut(&mut [u8])) -> bool;

    /// Sends the staged frames. Every staged frame is accounted for when this returns.
    ///
    /// # Errors
    /// The port cannot be used (it is down or removed).
    fn kick(&mut self) -> Result<SendOutcome, WireError>;

    /// The send method in use.
    fn sending(&self) -> Sending;

    /// Checks whether the port can send at this moment.
    ///
    /// # Errors
    /// The port has no carrier.
    fn check(&self) -> Result<(), WireError> {
        Ok(())
    }
}

/// What happened to the frames of one kick (one handover to the kernel), or of several kicks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendOutcome {
    /// Frames accepted by the next hop.
    pub accepted: u64,
    /// Frames refused by the next hop's queue (ENOBUFS, or the message after which `sendmmsg` stopped): a loss at the
    /// *receiver's* backlog, also counted in its `/proc/net/softnet_stat`.
    pub refused: u64,
    /// Frames not sent because the sending socket's buffer was full (EAGAIN): a *sender* limit.
    pub sender_full: u64,
    /// Frames not sent because an earlier one was answered by "port unreachable" (only
    /// [`Method::Socket`](crate::transmit::Method::Socket)).
    pub unreachable: u64,
}

impl SendOutcome {
    /// Adds the counts of another kick.
    pub fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.sender_full += other.sender_full;
        self.unreachable += other.unreachable;
    }

    /// Number of all frames, sent or not.
    pub fn total(&self) -> u64 {
        self.accepted + self.refused + self.sender_full + self.unreachable
    }

    /// Counts one frame that was not sent, by the kernel's error. Returns errors for which there is no counter;
    /// `sender` is ` on interface NAME` or empty.
    pub fn book(&mut self, error: std::io::Error, sender: &str) -> Result<(), WireError> {
        match error.raw_os_error() {
            Some(libc::ENOBUFS) => self.refused += 1,
            Some(libc::EAGAIN) => self.sender_full += 1,
            Some(libc::ECONNREFUSED) => self.unreachable += 1,
            _ => return Err(WireError::system(format!("send frames{sender}"), error)),
        }
        Ok(())
    }
}

/// Reads the frames that arrive at a port.
pub trait Receiver: Send {
    /// Reads up to `most` frames that have arrived, and passes each to `take` with its arrival time, if known. Returns
    /// their number.
    ///
    /// # Errors
    /// The port cannot be used.
    fn poll(&mut self, most: usize, take: &mut dyn FnMut(&[u8], Option<Stamp>)) -> Result<usize, WireError>;

    /// Number of frames since the last call that arrived while the ring was full.
    ///
    /// # Errors
    /// The port went down or away since the last call, or the kernel does not report the number.
    fn missed(&mut self) -> Result<u64, WireError>;

    /// The receive method in use.
    fn receiving(&self) -> Receiving;

    /// Checks whether frames can arrive at this moment.
    ///
    /// # Errors
    /// The port has no carrier.
    fn check(&self) -> Result<(), WireError> {
        Ok(())
    }
}

/// Timestamp of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// Timestamp by the kernel's receive path [ns of `CLOCK_REALTIME`].
    Realtime(u64),
    /// Timestamp by an XDP program [ns of `CLOCK_MONOTONIC`].
    Monotonic(u64),
}

/// The requested method of sending frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SendBy {
    /// AF_XDP if it is available, otherwise AF_PACKET.
    #[default]
    Auto,
    /// An AF_PACKET transmit ring.
    Packet,
    /// An AF_XDP socket. Fails if it is not available.
    Xdp,
    /// Live XDP frames: programs in the kernel make the frames and count them at the receiving port. Falls back to
    /// AF_XDP or AF_PACKET if that is not possible. A sender without the receiving port treats this as [`Self::Auto`].
    Live,
}

impl netcliff_core::Choice for SendBy {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Auto, "auto", "AF_XDP where it is available (zero-copy where the driver can), else AF_PACKET"),
        (Self::Packet, "packet", "AF_PACKET transmit ring"),
        (Self::Xdp, "xdp", "AF_XDP only"),
        (
            Self::Live,
            "live",
            "Live XDP frames: programs in the kernel make the frames, in batches of 20 us, and count them where they arrive; IPv4 \
             of one size, one way; else auto, with the reason",
        ),
    ];
}

/// The method of sending frames in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// An AF_PACKET transmit ring.
    PacketRing,
    /// AF_XDP; the kernel copies each frame.
    XdpCopy,
    /// AF_XDP; the driver reads each frame in place.
    XdpZeroCopy,
    /// Live XDP frames, which a program in the kernel makes.
    Live,
}

impl std::fmt::Display for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PacketRing => "AF_PACKET ring",
            Self::XdpCopy => "AF_XDP (copy)",
            Self::XdpZeroCopy => "AF_XDP (zero-copy)",
            Self::Live => "live XDP frames",
        })
    }
}

/// The requested method of receiving frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveBy {
    /// AF_XDP on a device whose driver runs XDP programs, otherwise AF_PACKET.
    #[default]
    Auto,
    /// An AF_PACKET receive ring.
    Packet,
    /// AF_XDP sockets; fails if they are not available. The XDP program runs in the driver of a physical device that
    /// supports it, otherwise in the kernel's receive path.
    Xdp,
    /// AF_XDP sockets with the XDP program in the driver, also in that of a virtual link; fails if this is not
    /// available.
    XdpNative,
    /// AF_XDP sockets with the XDP program in the kernel's receive path; fails if this is not available.
    XdpGeneric,
}

impl netcliff_core::Choice for ReceiveBy {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Auto, "auto", "AF_XDP where the port's driver runs XDP programs, else AF_PACKET"),
        (Self::Packet, "packet", "AF_PACKET receive ring"),
        (
            Self::Xdp,
            "xdp",
            "AF_XDP only; an XDP program takes the UDP frames that arrive at the port for as long as it runs",
        ),
        (
            Self::XdpNative,
            "xdp-native",
            "The same with the program in the port's driver only; at a veth it then runs on the CPU of the sender",
        ),
        (Self::XdpGeneric, "xdp-generic", "The same with the program in the kernel's receive path only"),
    ];
}

impl ReceiveBy {
    /// Whether to try AF_XDP at an interface of the calling thread's network namespace.
    pub fn tries_xdp(self, interface: &str) -> bool {
        match self {
            Self::Packet => false,
            Self::Auto => XdpReceiver::is_better(interface),
            Self::Xdp | Self::XdpNative | Self::XdpGeneric => true,
        }
    }
}

/// The method of receiving frames in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Receiving {
    /// An AF_PACKET receive ring.
    PacketRing,
    /// AF_XDP with a program in the kernel's receive path, which copies each frame.
    XdpGeneric,
    /// AF_XDP with a program in the driver, which copies each frame.
    XdpCopy,
    /// AF_XDP; the driver writes each frame in place.
    XdpZeroCopy,
    /// An XDP program counts and drops each frame.
    Counted,
}

impl Receiving {
    /// Describes where and by which clock arriving frames are stamped.
    pub fn stamped(self) -> &'static str {
        match self {
            Self::PacketRing => {
                "in the kernel's receive path, before the sink's socket, CLOCK_REALTIME set to CLOCK_MONOTONIC"
            }
            Self::XdpGeneric => "in an XDP program in the kernel's receive path, CLOCK_MONOTONIC",
            Self::XdpCopy | Self::XdpZeroCopy => {
                "in an XDP program in the driver, or as the sink reads them where the driver has no room for stamps, \
                 CLOCK_MONOTONIC"
            }
            Self::Counted => "in the XDP program that counts, CLOCK_MONOTONIC, in the latency test only",
        }
    }
}

impl std::fmt::Display for Receiving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PacketRing => "AF_PACKET ring",
            Self::XdpGeneric => "AF_XDP (generic)",
            Self::XdpCopy => "AF_XDP (native, copy)",
            Self::XdpZeroCopy => "AF_XDP (zero-copy)",
            Self::Counted => "an XDP program that counts",
        })
    }
}

/// A receiver, and the reason if AF_XDP was tried but is not used.
pub struct OpenReceiver {
    /// The receiver.
    pub receiver: Box<dyn Receiver>,
    /// Why AF_XDP was not available. `None` if it is in use or was not tried.
    pub not_xdp: Option<WireError>,
}

impl std::fmt::Debug for OpenReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("OpenReceiver");
        debug.field("receiving", &self.receiver.receiving()).field("not_xdp", &self.not_xdp).finish()
    }
}

/// Opens a receiver in the calling thread's network namespace for frames of up to `longest` bytes without FCS.
///
/// # Errors
/// There is no such interface, or the kernel refuses. With [`ReceiveBy::Xdp`] also an error of [`XdpReceiver::open`].
pub fn open_receiver(by: ReceiveBy, interface: &str, longest: usize) -> Result<OpenReceiver, WireError> {
    open_receiver_beside(by, interface, longest, None)
}

/// Like [`open_receiver`], at a port whose sender may share its memory (`lent`).
pub fn open_receiver_beside(
    by: ReceiveBy,
    interface: &str,
    longest: usize,
    lent: Option<SharedUmem>,
) -> Result<OpenReceiver, WireError> {
    let packet = |not_xdp| Ok(OpenReceiver { receiver: Box::new(PacketReceiver::open(interface)?), not_xdp });
    match by {
        _ if !by.tries_xdp(interface) => packet(None),
        _ => match XdpReceiver::open_beside(by, interface, longest, lent) {
            Ok(receiver) => Ok(OpenReceiver { receiver: Box::new(receiver), not_xdp: None }),
            Err(error) if by == ReceiveBy::Auto => packet(Some(error)),
            Err(error) => Err(error),
        },
    }
}

/// A sender, and the reason if AF_XDP was tried but is not used.
pub struct OpenSender {
    /// The sender.
    pub sender: Box<dyn Sender>,
    /// Why AF_XDP was not available. `None` if it is in use or was not tried.
    pub not_xdp: Option<WireError>,
    /// Memory to share with a receiver at the same port, if requested.
    pub lent: Option<SharedUmem>,
}

impl std::fmt::Debug for OpenSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSender").field("sending", &self.sender.sending()).field("not_xdp", &self.not_xdp).finish()
    }
}

/// Opens a sender in the calling thread's network namespace. `filler`: initial content of every slot, with the length
/// of the longest frame.
///
/// # Errors
/// There is no such interface, it has no carrier, or the kernel refuses. With [`SendBy::Xdp`] also an error of
/// [`XdpSender::open`].
pub fn open_sender(by: SendBy, interface: &str, filler: &[u8], max_burst: usize) -> Result<OpenSender, WireError> {
    open_sender_beside(by, interface, filler, max_burst, None)
}

/// Like [`open_sender`], at a port that also receives by AF_XDP: frames of up to `received` bytes without FCS.
pub fn open_sender_beside(
    by: SendBy,
    interface: &str,
    filler: &[u8],
    max_burst: usize,
    received: Option<usize>,
) -> Result<OpenSender, WireError> {
    let packet = |not_xdp| {
        let ring = RawRing::open(interface, filler, max_burst, slots(filler.len()))?;
        Ok(OpenSender { sender: Box::new(ring), not_xdp, lent: None })
    };
    match by {
        SendBy::Packet => packet(None),
        SendBy::Xdp | SendBy::Auto | SendBy::Live => {
            match XdpSender::open_beside(interface, filler, max_burst, received) {
                Ok(mut sender) => {
                    let lent = sender.lend();
                    Ok(OpenSender { sender: Box::new(sender), not_xdp: None, lent })
                }
                Err(error) if by != SendBy::Xdp => packet(Some(error)),
                Err(error) => Err(error),
            }
        }
    }
}

/// Number of slots of a transmit ring: 8192, four times the number of frames in two backlogs of 1000 on the path (see
/// [`crate::transmit::Method`]); fewer for jumbo frames, whose ring would exceed the memory that may be locked.
fn slots(longest: usize) -> u32 {
    if longest > 4000 { 2048 } else { 8192 }
}

impl Sender for RawRing {
    #[inline]
    fn stage(&mut self, length: usize, write: &mut dyn FnMut(&mut [u8])) -> bool {
        RawRing::stage(self, length, write)
    }

    #[inline]
    fn kick(&mut self) -> Result<SendOutcome, WireError> {
        RawRing::kick(self)
    }

    fn check(&self) -> Result<(), WireError> {
        RawRing::check(self)
    }

    fn sending(&self) -> Sending {
        Sending::PacketRing
    }
}
