//! Replaces `lane.rs` on FreeBSD and OpenBSD, whose kernels have no packet sockets: no frame is tagged.

use std::convert::Infallible;

use netcliff_host::system::unsupported;

use super::{Stamped, Stamps};
use crate::tester::frame::Templates;
use crate::tester::stamps::PortStamps;
use netcliff_packets::error::WireError;
use netcliff_packets::port::SendOutcome;

fn refused<T>() -> Result<T, WireError> {
    Err(WireError::system("stamp frames", unsupported("SO_TIMESTAMPING")))
}

/// Sends one frame at a time. On these systems no value of this type exists.
#[derive(Debug)]
pub(in crate::tester) struct Tagger(Infallible);

impl Tagger {
    pub(in crate::tester) fn open(_: &str, _: &[u8], _: Stamps) -> Result<Self, WireError> {
        refused()
    }
}

/// Receives one frame. On these systems no value of this type exists.
#[derive(Debug)]
pub(in crate::tester) struct Tap(Infallible);

impl Tap {
    pub(in crate::tester) fn open(_: &str, _: Stamps) -> Result<Self, WireError> {
        refused()
    }
}

/// The sockets for the tagged frames of a direction. On these systems no value of this type exists.
#[derive(Debug)]
pub(in crate::tester) struct Tags(Infallible);

impl Tags {
    pub(in crate::tester) fn new(
        _: Stamps,
        (tagger, _): (Tagger, &PortStamps),
        _: (Tap, &PortStamps),
    ) -> Result<Self, WireError> {
        match tagger.0 {}
    }

    pub(in crate::tester) fn begin(&mut self, _: &Templates, _: u16, _: u64) -> Result<(), WireError> {
        match self.0 {}
    }

    pub(in crate::tester) fn send(&mut self, _: usize, _: impl FnOnce(&mut [u8])) -> Result<SendOutcome, WireError> {
        match self.0 {}
    }

    pub(in crate::tester) fn end(&mut self) -> Result<Option<Stamped>, WireError> {
        match self.0 {}
    }
}
