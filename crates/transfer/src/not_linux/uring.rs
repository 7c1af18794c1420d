//! Stands in for io_uring, which only Linux has.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use super::end::DataPath;
use netcliff_packets::error::WireError;

fn refused<T>() -> Result<T, WireError> {
    Err(WireError::system("set up io_uring", netcliff_bsd::refused("io_uring")))
}

/// Always 0: no buffers are needed.
pub(super) fn receive_bytes(_: usize) -> usize {
    0
}

/// Sends a stream. It cannot be made on this system.
pub(super) struct Sender(Infallible);

impl Sender {
    pub(super) fn new(_: BorrowedFd<'_>, _: Vec<u8>, _: bool, _: u64) -> Result<Self, WireError> {
        refused()
    }
}

impl DataPath for Sender {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        match self.0 {}
    }
}

/// A receive request that stays active. It cannot be made on this system.
pub(super) struct Multishot<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Multishot<'a> {
    pub(super) fn new(_: BorrowedFd<'a>, _: usize, _: u64) -> Result<Self, WireError> {
        refused()
    }

    pub(super) fn wait(&mut self, _: impl FnMut(&[u8])) -> io::Result<()> {
        match self.0 {}
    }
}

/// Receives a stream. It cannot be made on this system.
pub(super) struct Receiver(Infallible);

impl Receiver {
    pub(super) fn new(_: BorrowedFd<'_>, _: usize, _: u64) -> Result<Self, WireError> {
        refused()
    }
}

impl DataPath for Receiver {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        match self.0 {}
    }
}
