//! Replaces `linux.rs` on FreeBSD and OpenBSD: refuses each data path of Linux by its name.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;

use netcliff_host::system::unsupported;

use super::SendPath;
use super::end::DataPath;
use netcliff_packets::error::WireError;

fn refused<T>(what: &str) -> Result<T, WireError> {
    Err(WireError::system(format!("use {what}"), unsupported(what)))
}

pub(super) fn sender<'a>(
    path: &SendPath,
    _: BorrowedFd<'a>,
    _: usize,
    _: u64,
) -> Result<Box<dyn DataPath + 'a>, WireError> {
    refused(match path {
        SendPath::SendFile { .. } | SendPath::SendOwnFile { .. } => "sendfile(2)",
        SendPath::Uring { .. } => "io_uring",
        SendPath::ZeroCopy => "MSG_ZEROCOPY",
        _ => "splice(2)",
    })
}

/// `None`: no path sends a file on these systems.
pub(crate) fn storage_bps(_: &SendPath) -> Option<Result<f64, WireError>> {
    None
}

pub(super) fn receiver<'a>(_: BorrowedFd<'a>, _: usize, _: u64) -> Result<Box<dyn DataPath + 'a>, WireError> {
    refused("io_uring")
}

/// 0: no receiver uses io_uring on these systems.
pub(super) fn receive_bytes(_: usize) -> usize {
    0
}

/// 0: sockets have no error queue on these systems.
pub(super) fn icmp(_: BorrowedFd<'_>, _: impl Fn(i32) -> bool) -> u64 {
    0
}

/// A receive request of io_uring. It has no values on these systems.
pub(super) struct Multishot<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Multishot<'a> {
    pub(super) fn new(_: BorrowedFd<'a>, _: usize, _: u64) -> Result<Self, WireError> {
        refused("io_uring")
    }

    pub(super) fn wait(&mut self, _: impl FnMut(&[u8])) -> io::Result<()> {
        match self.0 {}
    }
}

/// The channels that can move again. It has no values on these systems.
pub(super) struct Events(Infallible);

impl Events {
    pub(super) fn new(_: usize) -> Result<Self, WireError> {
        refused("epoll(7), by which a thread serves several flows,")
    }

    pub(super) fn add(&self, _: BorrowedFd<'_>, _: bool, _: usize) -> Result<(), WireError> {
        match self.0 {}
    }

    pub(super) fn wait(&mut self, _: u16, _: impl FnMut(usize)) -> Result<(), WireError> {
        match self.0 {}
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }
}
