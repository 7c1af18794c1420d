//! Stands in for SO_TIMESTAMPING of packet sockets.

use std::convert::Infallible;

use super::Stamps;
use netcliff_packets::error::WireError;
use netcliff_packets::transmit::SendOutcome;

fn refused<T>() -> Result<T, WireError> {
    Err(WireError::system("stamp frames", netcliff_bsd::refused("SO_TIMESTAMPING")))
}

/// Timestamps of one frame at one port. `None`: not reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) software_ns: Option<i64>,
    pub(super) hardware_ns: Option<i64>,
}

impl Times {
    pub(super) fn by(self, _: Stamps) -> Option<i64> {
        None
    }
}

/// Sends one frame at a time. It cannot be opened on this system.
#[derive(Debug)]
pub(in crate::tester) struct Tagger(Infallible);

impl Tagger {
    pub(in crate::tester) fn open(_: &str, _: &[u8], _: Stamps) -> Result<Self, WireError> {
        refused()
    }

    pub(super) fn clear(&mut self) -> Result<(), WireError> {
        match self.0 {}
    }

    pub(super) fn send(&mut self, _: usize, _: impl FnOnce(&mut [u8])) -> Result<SendOutcome, WireError> {
        match self.0 {}
    }

    pub(super) fn times(&mut self) -> Result<Option<(i64, Times)>, WireError> {
        match self.0 {}
    }
}

/// Receives one frame. It cannot be opened on this system.
#[derive(Debug)]
pub(in crate::tester) struct Tap(Infallible);

impl Tap {
    pub(in crate::tester) fn open(_: &str, _: Stamps) -> Result<Self, WireError> {
        refused()
    }

    pub(super) fn wait_for(&self, _: u16, _: u64, _: usize) -> Result<(), WireError> {
        match self.0 {}
    }

    pub(super) fn times(&self) -> Result<Option<Times>, WireError> {
        match self.0 {}
    }
}
