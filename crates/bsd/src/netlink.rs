//! Sockets of netlink, of which none can be opened.

use netlink_bindings::{
    traits::{NetlinkChained, NetlinkRequest},
    utils::ErrorContext,
};
use std::{convert::Infallible, fmt, io, marker::PhantomData};

fn refused<T>() -> io::Result<T> {
    Err(crate::refused("netlink"))
}

/// A socket that answers no request.
#[derive(Debug, Default)]
pub struct NetlinkSocket;

impl NetlinkSocket {
    pub fn new() -> Self {
        Self
    }

    pub fn reserve_seq(&mut self, _: u32) -> u32 {
        0
    }

    /// # Errors
    /// Always.
    pub fn request<'s, R: NetlinkRequest>(&'s mut self, _: &R) -> io::Result<NetlinkReply<'s, R>> {
        refused()
    }

    /// # Errors
    /// Always.
    pub fn request_chained<'s>(&'s mut self, _: &impl NetlinkChained) -> io::Result<NetlinkReplyChained<'s>> {
        refused()
    }
}

/// The answer to a request: there is none.
#[derive(Debug)]
pub struct NetlinkReply<'s, R>(Infallible, PhantomData<(&'s (), R)>);

impl<R: NetlinkRequest> NetlinkReply<'_, R> {
    /// # Errors
    /// Never called.
    pub fn recv_one(&mut self) -> Result<R::ReplyType<'_>, ReplyError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn recv_ack(&mut self) -> Result<(), ReplyError> {
        match self.0 {}
    }

    pub fn recv(&mut self) -> Option<Result<R::ReplyType<'_>, ReplyError>> {
        match self.0 {}
    }
}

/// The answers to several requests: there are none.
#[derive(Debug)]
pub struct NetlinkReplyChained<'s>(Infallible, PhantomData<&'s ()>);

impl NetlinkReplyChained<'_> {
    /// # Errors
    /// Never called.
    pub fn recv_all(&mut self) -> Result<(), ReplyError> {
        match self.0 {}
    }
}

/// Why a request was refused.
#[derive(Debug)]
pub struct ReplyError(io::Error);

impl ReplyError {
    pub fn as_io_error(&self) -> &io::Error {
        &self.0
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ReplyError {}

impl From<io::Error> for ReplyError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<ErrorContext> for ReplyError {
    fn from(error: ErrorContext) -> Self {
        Self(io::Error::other(error))
    }
}

impl From<ReplyError> for io::Error {
    fn from(error: ReplyError) -> Self {
        error.0
    }
}
