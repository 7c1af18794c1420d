//! Replaces `xdp.rs` on systems other than Linux, which have no AF_XDP: no socket can be opened, and no value of these
//! types exists.

use std::convert::Infallible;

use netcliff_host::system::unsupported;

use super::{ReceiveBy, Receiver, Receiving, Sender, Sending, Stamp};
use crate::error::WireError;
use crate::port::SendOutcome;

fn no_socket<T>() -> Result<T, WireError> {
    Err(WireError::system("open an AF_XDP socket", unsupported("AF_XDP")))
}

/// Memory that a sender shares with a receiver.
#[derive(Debug)]
pub struct SharedUmem(Infallible);

/// A sending AF_XDP socket.
#[derive(Debug)]
pub struct XdpSender(Infallible);

impl XdpSender {
    pub(crate) fn open(_: &str, _: &[u8], _: usize) -> Result<Self, WireError> {
        no_socket()
    }

    pub(super) fn open_beside(_: &str, _: &[u8], _: usize, _: Option<usize>) -> Result<Self, WireError> {
        no_socket()
    }

    pub(super) fn lend(&mut self) -> Option<SharedUmem> {
        match self.0 {}
    }
}

impl Sender for XdpSender {
    fn stage(&mut self, _: usize, _: &mut dyn FnMut(&mut [u8])) -> bool {
        match self.0 {}
    }

    fn kick(&mut self) -> Result<SendOutcome, WireError> {
        match self.0 {}
    }

    fn sending(&self) -> Sending {
        match self.0 {}
    }
}

/// A receiving AF_XDP socket.
#[derive(Debug)]
pub struct XdpReceiver(Infallible);

impl XdpReceiver {
    pub(crate) fn is_better(_: &str) -> bool {
        false
    }

    pub(super) fn open_beside(_: ReceiveBy, _: &str, _: usize, shared: Option<SharedUmem>) -> Result<Self, WireError> {
        match shared {
            Some(shared) => match shared.0 {},
            None => no_socket(),
        }
    }
}

impl Receiver for XdpReceiver {
    fn poll(&mut self, _: usize, _: &mut dyn FnMut(&[u8], Option<Stamp>)) -> Result<usize, WireError> {
        match self.0 {}
    }

    fn missed(&mut self) -> Result<u64, WireError> {
        match self.0 {}
    }

    fn receiving(&self) -> Receiving {
        match self.0 {}
    }
}
