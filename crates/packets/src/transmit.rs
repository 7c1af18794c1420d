//! Hands frames to the kernel: four methods behind one trait.
//!
//! | method | how | use |
//! | --- | --- | --- |
//! | [`Method::PacketRing`] | AF_PACKET transmit ring (TPACKET_V2), PACKET_QDISC_BYPASS | the default into a veth |
//! | [`Method::PacketBatch`] | `sendmmsg` on AF_PACKET, PACKET_QDISC_BYPASS | comparison; lightest for the receiver |
//! | [`Method::Xdp`] | AF_XDP, zero-copy if the driver can | a NIC's full rate; opening it resets the driver's queue |
//! | [`Method::Socket`] | `sendmmsg` on a connected UDP socket | loopback, no privileges |
//!
//! The ring is the default because it reaches higher rates. Measured next to each other (64-byte frames, veth, RPS to
//! the other CPU, 2-CPU virtual machine, Linux 6.18, other programs running, both threads SCHED_FIFO, two runs, medians
//! of 7 interleaved rounds): without a schedule, the batch reaches 0.78 to 0.88 of the ring's rate in bursts of 8 or 32
//! (1.17 against 1.38 Mpps at best) and 0.96 to 1.02 of it with single frames; of 900 kpps offered at Poisson times the
//! batch achieved 866 kpps, the ring 900. The cost seems to fall on the receiver, which completes each frame in the
//! ring: with single frames 3 to 13 % more softirq time per packet (measured with 10 ms ticks; in bursts less, not
//! more), and past the cliff the sink read 464 kpps (batch: 489) of 500, and 209 kpps (batch: 274) of 700. So compare
//! only measurements made with one method. Repeat with `cargo test --release -p netcliff-lab --test lab
//! wire::ceilings:: -- --ignored --nocapture --test-threads=1`.
//!
//! Two problems, both avoided in `port/ring.rs`:
//! - On this kernel a veth reports a frame that the peer's backlog refused (ENOBUFS), and a plain ring offers *this*
//!   frame again with the next kick: a closed loop, in which a prototype stalled at the cliff. Here such a frame is
//!   taken out of the ring and counted as refused.
//! - Without a virtio-net header all but 14 bytes of a frame lie in a page fragment, which the veth has to copy into a
//!   new page. A prototype without RPS reached 0.58 Mpps without the header and 0.73 Mpps with it (one run).

use serde::{Deserialize, Serialize};

use crate::error::WireError;
use crate::frame::{FrameSpec, Header};
use crate::port::SendOutcome;

mod batch;

pub use batch::Batch;
pub use ring::Ring;
pub use xdp::Xdp;

/// How frames are handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `sendmmsg` on an AF_PACKET socket.
    PacketBatch,
    /// AF_PACKET transmit ring.
    PacketRing {
        /// Number of slots. A slot is in use until the receiver starts to process its frame, so the ring needs more
        /// slots than the number of frames in all backlogs on the path (twice netdev_max_backlog, i.e. 2000).
        slots: u32,
    },
    /// AF_XDP socket on the interface's first queue.
    Xdp {
        /// Whether the driver reads the frames in place. `None` in a request, where this is not known yet.
        zero_copy: Option<bool>,
    },
    /// `sendmmsg` on a connected UDP socket.
    Socket,
}

impl Method {
    /// Describes the method for a user.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::PacketBatch => "AF_PACKET sendmmsg with PACKET_QDISC_BYPASS",
            Self::PacketRing { .. } => "AF_PACKET transmit ring with PACKET_QDISC_BYPASS",
            Self::Xdp { zero_copy: Some(true) } => "AF_XDP (zero-copy)",
            Self::Xdp { zero_copy: Some(false) } => "AF_XDP (copy)",
            Self::Xdp { zero_copy: None } => "AF_XDP",
            Self::Socket => "UDP socket, sendmmsg",
        }
    }
}

impl Default for Method {
    /// The ring with 8192 slots: four times the number of packets in the two backlogs of 1000 on the path.
    fn default() -> Self {
        Self::PacketRing { slots: 8192 }
    }
}

/// A method of handing frames to the kernel: stage some frames, then kick.
pub trait Transmit: Send {
    /// Largest number of frames in one kick.
    fn capacity(&self) -> usize;

    /// Stages a frame. Returns false and changes nothing if the ring is full.
    fn stage(&mut self, header: &Header) -> bool;

    /// Hands the staged frames to the kernel. Every staged frame is accounted for when this returns. A frame that the
    /// kernel did not take is dropped, never sent again (open loop).
    ///
    /// # Errors
    /// The interface or socket is unusable (down, removed); staged frames are lost.
    fn kick(&mut self) -> Result<SendOutcome, WireError>;

    /// Returns the method in effect for the requested method `asked`. The two differ if the kernel decides a detail,
    /// such as zero-copy.
    fn method(&self, asked: Method) -> Method {
        asked
    }
}

/// Opens a transmitter in the calling thread's network namespace.
///
/// # Errors
/// The frame or `max_burst` is out of range, the interface does not exist or has no carrier, or the
/// kernel refuses.
pub fn open(
    method: Method,
    interface: &str,
    frame: &FrameSpec,
    max_burst: usize,
) -> Result<Box<dyn Transmit>, WireError> {
    if !(1..=1024).contains(&max_burst) {
        return Err(WireError::setting("max_burst", max_burst, "1 to 1024 frames"));
    }
    Ok(match method {
        Method::PacketBatch => Box::new(Batch::packet(interface, frame, max_burst)?),
        Method::PacketRing { slots } => Box::new(Ring::open(interface, frame, max_burst, slots)?),
        Method::Xdp { .. } => Box::new(Xdp::open(interface, frame, max_burst)?),
        Method::Socket => Box::new(Batch::udp(frame, max_burst)?),
    })
}

mod ring {
    //! An AF_PACKET transmit ring whose frames are made from templates.

    use super::Transmit;
    use crate::error::WireError;
    use crate::frame::{FrameSpec, Header, Templates};
    use crate::port::{RawRing, SendOutcome};

    /// The ring with the frames of a run.
    #[derive(Debug)]
    pub struct Ring {
        templates: Templates,
        ring: RawRing,
        max_burst: usize,
    }

    impl Ring {
        /// Makes a ring with the frames of `spec`.
        ///
        /// # Errors
        /// See [`super::open`]; also a number of slots that is not a power of two from 256 to 65536.
        pub fn open(interface: &str, spec: &FrameSpec, max_burst: usize, slots: u32) -> Result<Self, WireError> {
            let templates = Templates::new(spec)?;
            let ring = RawRing::open(interface, templates.longest().bytes(), max_burst, slots)?;
            Ok(Self { templates, ring, max_burst })
        }
    }

    impl Transmit for Ring {
        fn capacity(&self) -> usize {
            self.max_burst
        }

        #[inline]
        fn stage(&mut self, header: &Header) -> bool {
            let (template, differs) = self.templates.at(header.sequence);
            let bytes = template.bytes();
            self.ring.stage(bytes.len(), |frame| {
                if differs {
                    frame.copy_from_slice(bytes);
                }
                template.stamp(frame, header);
            })
        }

        fn kick(&mut self) -> Result<SendOutcome, WireError> {
            self.ring.kick()
        }
    }
}

mod xdp {
    //! An AF_XDP socket whose frames are made from one template.

    use super::{Method, Transmit};
    use crate::error::WireError;
    use crate::frame::{FrameSpec, Header, Template};
    use crate::port::{SendOutcome, Sender, Sending, XdpSender};

    /// Frames in memory shared with the kernel, on the first queue of an interface.
    #[derive(Debug)]
    pub struct Xdp {
        template: Template,
        sender: XdpSender,
        max_burst: usize,
    }

    impl Xdp {
        /// Opens the socket: zero-copy if the driver supports it, otherwise the kernel copies each frame.
        ///
        /// # Errors
        /// See [`super::open`] and [`XdpSender::open`].
        pub fn open(interface: &str, spec: &FrameSpec, max_burst: usize) -> Result<Self, WireError> {
            let template = Template::new(spec)?;
            let sender = XdpSender::open(interface, template.bytes(), max_burst)?;
            Ok(Self { template, sender, max_burst })
        }
    }

    impl Transmit for Xdp {
        fn capacity(&self) -> usize {
            self.max_burst
        }

        #[inline]
        fn stage(&mut self, header: &Header) -> bool {
            let Self { template, sender, .. } = self;
            sender.stage(template.bytes().len(), &mut |frame| template.stamp(frame, header))
        }

        fn kick(&mut self) -> Result<SendOutcome, WireError> {
            self.sender.kick()
        }

        fn method(&self, _asked: Method) -> Method {
            Method::Xdp { zero_copy: Some(self.sender.sending() == Sending::XdpZeroCopy) }
        }
    }
}
