//! Stands in for bpf(2), which only Linux has.

use super::Mode;
use std::{
    io,
    os::fd::{OwnedFd, RawFd},
};

fn none<T>() -> io::Result<T> {
    Err(netcliff_bsd::refused("XDP"))
}

pub(super) fn make_socket_map(_: u32) -> io::Result<OwnedFd> {
    none()
}

pub(super) fn put_socket(_: &OwnedFd, _: u32, _: RawFd) -> io::Result<()> {
    none()
}

pub(super) fn load(_: &[u64], _: &str) -> io::Result<OwnedFd> {
    none()
}

pub(super) fn load_for_pieces(_: &[u64], _: &str) -> io::Result<OwnedFd> {
    none()
}

pub(crate) fn attach(_: &OwnedFd, _: u32, _: Mode) -> io::Result<OwnedFd> {
    none()
}

/// None: there is no such program.
pub fn program_name(_: u32) -> Option<String> {
    None
}
