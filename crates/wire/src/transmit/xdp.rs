//! An AF_XDP socket with frames of one template.

use super::{Method, SendOutcome, Transmit};
use crate::error::WireError;
use crate::forward::port::{Sender, Sending, XdpSender};
use crate::frame::{FrameSpec, Header, Template};

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
