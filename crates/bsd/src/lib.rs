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

mod netlink;
mod numbers;
pub mod sched;
pub mod sys;

pub use errno::Errno as Error;
pub use netlink::{NetlinkReply, NetlinkReplyChained, NetlinkSocket, ReplyError};
pub use numbers::*;
// BSD has others of these names: another number, another structure.
pub use numbers::{RTM_DELADDR, TCP_INFO};

/// The error of something that Linux alone has.
pub fn refused(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{what} is Linux's: this system does not have it"))
}

pub mod fcntl {
    //! Pipes of pages, and advice about files.

    use crate::{Error, c_uint};
    use std::{io::IoSlice, os::fd::AsFd};

    pub use ::nix::fcntl::*;

    bitflags::bitflags! {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct SpliceFFlags: c_uint {
            const SPLICE_F_MOVE = 1;
            const SPLICE_F_NONBLOCK = 2;
        }
    }

    /// # Errors
    /// Always.
    pub fn splice<In: AsFd, Out: AsFd>(
        _: In,
        _: Option<&mut i64>,
        _: Out,
        _: Option<&mut i64>,
        _: usize,
        _: SpliceFFlags,
    ) -> Result<usize, Error> {
        Err(Error::ENOSYS)
    }

    /// # Errors
    /// Always.
    pub fn vmsplice<F: AsFd>(_: F, _: &[IoSlice<'_>], _: SpliceFFlags) -> Result<usize, Error> {
        Err(Error::ENOSYS)
    }

    #[cfg(target_os = "openbsd")]
    pub use advice::*;

    #[cfg(target_os = "openbsd")]
    mod advice {
        use crate::Error;
        use std::os::fd::AsFd;

        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum PosixFadviseAdvice {
            POSIX_FADV_DONTNEED,
        }

        /// # Errors
        /// Always.
        pub fn posix_fadvise<F: AsFd>(_: F, _: i64, _: i64, _: PosixFadviseAdvice) -> Result<(), Error> {
            Err(Error::ENOSYS)
        }
    }
}

pub mod kmod {
    //! Modules of Linux's kernel.

    use crate::{Error, c_uint};
    use std::{ffi::CStr, os::fd::AsFd};

    bitflags::bitflags! {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct ModuleInitFlags: c_uint {}
    }

    /// # Errors
    /// Always.
    pub fn finit_module<F: AsFd>(_: F, _: &CStr, _: ModuleInitFlags) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }
}

pub mod mount {
    //! Linux's mount(2).

    use crate::{Error, NixPath, c_int, c_ulong};

    bitflags::bitflags! {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct MsFlags: c_ulong {
            const MS_BIND = 1;
            const MS_REC = 2;
            const MS_SLAVE = 4;
        }
    }

    bitflags::bitflags! {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct MntFlags: c_int {
            const MNT_DETACH = 1;
        }
    }

    /// # Errors
    /// Always.
    pub fn mount<A: ?Sized + NixPath, B: ?Sized + NixPath, C: ?Sized + NixPath, D: ?Sized + NixPath>(
        _: Option<&A>,
        _: &B,
        _: Option<&C>,
        _: MsFlags,
        _: Option<&D>,
    ) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }

    /// # Errors
    /// Always.
    pub fn umount2<P: ?Sized + NixPath>(_: &P, _: MntFlags) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }
}

pub mod poll {
    //! ppoll(2), which nix leaves out on OpenBSD.

    pub use ::nix::poll::*;

    #[cfg(target_os = "openbsd")]
    use crate::{
        Error,
        sys::{signal::SigSet, time::TimeSpec},
    };

    /// # Errors
    /// The kernel's.
    #[cfg(target_os = "openbsd")]
    pub fn ppoll(
        fds: &mut [PollFd<'_>],
        timeout: Option<TimeSpec>,
        mask: Option<SigSet>,
    ) -> Result<::libc::c_int, Error> {
        let timeout = timeout.as_ref().map_or(std::ptr::null(), |time| std::ptr::from_ref(time.as_ref()));
        let mask = mask.as_ref().map_or(std::ptr::null(), |mask| std::ptr::from_ref(mask.as_ref()));
        // SAFETY: a PollFd is a pollfd (repr(transparent)), and all pointers are null or to values that outlive the call.
        Error::result(unsafe { ::libc::ppoll(fds.as_mut_ptr().cast(), fds.len() as ::libc::nfds_t, timeout, mask) })
    }
}

pub mod unistd {
    //! The number of a thread.

    pub use ::nix::unistd::*;

    /// The calling thread.
    #[cfg(target_os = "freebsd")]
    pub fn gettid() -> Pid {
        // SAFETY: the call takes nothing and cannot fail.
        Pid::from_raw(unsafe { ::libc::pthread_getthreadid_np() })
    }

    /// The calling thread.
    #[cfg(not(target_os = "freebsd"))]
    pub fn gettid() -> Pid {
        // SAFETY: the call takes nothing and cannot fail.
        Pid::from_raw(unsafe { ::libc::getthrid() })
    }
}
