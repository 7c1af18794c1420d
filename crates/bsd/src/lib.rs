//! What FreeBSD and OpenBSD lack of Linux's system interface: the names that `libc`, `nix` and `netlink-socket2` have on Linux only,
//! so that netcliff's code compiles there as it is. Functions answer ENOSYS ("Function not implemented"), numbers have all bits set, which
//! no call takes for anything. What a command can do without Linux it does with what all three systems have.
//!
//! Crates that need it say in their `lib.rs`, once: `extern crate netcliff_bsd as libc`, and the same `as nix`. Code of theirs that
//! rests on more than names (packet rings, AF_XDP, io_uring) is left out there as a module, with another of the same interface in its place.
//!
//! On Linux this crate is empty.
#![cfg(not(target_os = "linux"))]
// Names are Linux's.
#![allow(non_camel_case_types, missing_docs)]

pub use ::libc::*;
pub use ::nix::{NixPath, cmsg_space, errno, ifaddrs, net, time};

pub mod fcntl;
pub mod kmod;
pub mod mount;
mod netlink;
mod numbers;
pub mod poll;
pub mod sched;
pub mod sys;
pub mod unistd;

pub use errno::Errno as Error;
pub use netlink::{NetlinkReply, NetlinkReplyChained, NetlinkSocket, ReplyError};
pub use numbers::*;
// BSD has others of these names: another number, another structure.
pub use numbers::{RTM_DELADDR, TCP_INFO};

/// The error of something that Linux alone has.
pub fn refused(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{what} is Linux's: this system does not have it"))
}
