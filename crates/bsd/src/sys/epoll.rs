//! epoll(7): none can be made.

use crate::{Error, c_int};
use std::os::fd::{AsFd, OwnedFd};

pub use ::nix::poll::PollTimeout as EpollTimeout;

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct EpollFlags: c_int {
        const EPOLLIN = 1;
        const EPOLLOUT = 4;
        const EPOLLET = 1 << 30;
    }
}

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct EpollCreateFlags: c_int {
        const EPOLL_CLOEXEC = 1;
    }
}

#[derive(Debug, Clone, Copy)]
pub struct EpollEvent(u64);

impl EpollEvent {
    pub fn new(_: EpollFlags, data: u64) -> Self {
        Self(data)
    }

    pub fn empty() -> Self {
        Self(0)
    }

    pub fn data(&self) -> u64 {
        self.0
    }
}

#[derive(Debug)]
pub struct Epoll(pub OwnedFd);

impl Epoll {
    /// # Errors
    /// Always.
    pub fn new(_: EpollCreateFlags) -> Result<Self, Error> {
        Err(Error::ENOSYS)
    }

    /// # Errors
    /// Always.
    pub fn add<F: AsFd>(&self, _: F, _: EpollEvent) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }

    /// # Errors
    /// Always.
    pub fn wait<T: Into<EpollTimeout>>(&self, _: &mut [EpollEvent], _: T) -> Result<usize, Error> {
        Err(Error::ENOSYS)
    }
}
