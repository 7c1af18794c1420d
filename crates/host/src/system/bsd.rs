//! FreeBSD and OpenBSD.

use std::convert::Infallible;
use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use netlink_bindings::traits::{NetlinkChained, NetlinkRequest};
use netlink_bindings::utils::ErrorContext;
use nix::poll::PollFd;
use nix::sys::mman::MapFlags;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};

use super::{SocketOption, unsupported};

pub use own::*;

/// No flag: BSD does not populate mappings in advance.
pub const POPULATED: MapFlags = MapFlags::empty();
/// `None`: BSD has no receive time stamps of this kind.
pub const RECEIVE_TIMESTAMP: Option<libc::c_int> = None;

macro_rules! options {
    ($($name:ident),*) => {$(
        #[doc = concat!(stringify!($name), " of Linux")]
        pub const $name: SocketOption = SocketOption::of_linux(0, 0);
    )*};
}

options!(
    SO_BUSY_POLL,
    SO_MAX_PACING_RATE,
    SO_MEMINFO,
    IP_MTU,
    IP_RECVERR,
    IPV6_MTU,
    IPV6_RECVERR,
    TCP_INFO,
    TCP_USER_TIMEOUT,
    UDP_GRO,
    UDP_SEGMENT
);

/// Waits until a descriptor is ready, at most for `at_most`, with a resolution of 1 ns: ppoll(2).
///
/// # Errors
/// The kernel refuses the call.
pub fn poll_for(fds: &mut [PollFd<'_>], at_most: Duration) -> nix::Result<libc::c_int> {
    let at_most = libc::timespec { tv_sec: at_most.as_secs() as _, tv_nsec: at_most.subsec_nanos() as _ };
    let count = fds.len() as libc::nfds_t;
    // SAFETY: a PollFd is a pollfd (repr(transparent)); all pointers are null or to values that outlive the call.
    nix::Error::result(unsafe { libc::ppoll(fds.as_mut_ptr().cast(), count, &raw const at_most, std::ptr::null()) })
}

/// sendmmsg(2). Returns the number sent, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages, whose pointers are valid for their lengths.
pub unsafe fn send_messages(fd: RawFd, messages: *mut libc::mmsghdr, count: u32, flags: libc::c_int) -> libc::c_int {
    // SAFETY: the caller promises valid pointers.
    unsafe { libc::sendmmsg(fd, messages, count as _, flags) as libc::c_int }
}

/// recvmmsg(2) without a time limit. Returns the number received, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages, whose pointers are valid for their lengths.
pub unsafe fn receive_messages(fd: RawFd, messages: *mut libc::mmsghdr, count: u32, flags: libc::c_int) -> libc::c_int {
    // SAFETY: the caller promises valid pointers; a null timeout is allowed.
    unsafe { libc::recvmmsg(fd, messages, count as _, flags, std::ptr::null_mut()) as libc::c_int }
}

/// Sets a receive buffer (bytes).
///
/// # Errors
/// The kernel refuses the call.
pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::RcvBuf, &bytes)?)
}

/// Sets a send buffer (bytes).
///
/// # Errors
/// The kernel refuses the call.
pub fn set_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::SndBuf, &bytes)?)
}

/// Does nothing: on BSD netcliff does not end a process when the process that started it ends.
pub(crate) fn end_with_parent(_: Signal) -> io::Result<()> {
    Ok(())
}

/// Mounts nothing.
pub(crate) fn mount_kind(_: &str, _: &str) -> nix::Result<()> {
    Err(nix::Error::ENOSYS)
}

/// Always `None`: BSD has no network namespaces.
pub(crate) fn namespace_number(_: &Path) -> Option<i32> {
    None
}

/// Defines functions that return the error of [`unsupported`].
macro_rules! unsupported {
    ($($(#[$of:meta])* $seen:vis fn $name:ident($($argument:ty),*) -> $answer:ty: $what:literal;)*) => {$(
        $(#[$of])*
        $seen fn $name($(_: $argument),*) -> io::Result<$answer> {
            Err(unsupported($what))
        }
    )*};
}

unsupported! {
    pub(crate) fn set_policy(libc::pid_t, libc::c_int, libc::c_int) -> (): "the scheduling policy of a thread";
    pub(crate) fn policy() -> libc::c_int: "the scheduling policy of a thread";
    pub(crate) fn signal_process(u32, impl FnOnce() -> bool, libc::c_int) -> (): "pidfd_open(2)";
    pub(crate) fn claim(&str) -> UnixListener: "an abstract socket";
    /// Moves the calling thread into a network namespace.
    ///
    /// # Errors
    /// Always.
    pub fn enter_network_namespace(impl AsFd) -> (): "a network namespace";
    /// Restricts a socket to an interface.
    ///
    /// # Errors
    /// Always.
    pub fn bind_to_device(impl AsFd, &str) -> (): "SO_BINDTODEVICE";
    /// Requests kernel time stamps of received packets.
    ///
    /// # Errors
    /// Always.
    pub fn receive_timestamps(impl AsFd) -> (): "SO_TIMESTAMPNS";
    /// Sends a request to sock_diag(7).
    ///
    /// # Errors
    /// Always.
    pub fn diagnose_socket(&[u8], &mut [u8]) -> usize: "sock_diag(7)";
    /// An AF_PACKET socket.
    ///
    /// # Errors
    /// Always.
    pub fn packet_socket() -> OwnedFd: "AF_PACKET";
    /// Binds an AF_PACKET socket.
    ///
    /// # Errors
    /// Always.
    pub fn bind_packet_socket(impl AsFd, u32, u16) -> (): "AF_PACKET";
    pub(crate) fn enter_mount_namespace(impl AsFd) -> (): "a mount namespace";
    pub(crate) fn new_network_namespace() -> (): "a network namespace";
    pub(crate) fn new_mount_namespace() -> (): "a mount namespace";
    pub(crate) fn new_user_namespace() -> (): "a user namespace";
    pub(crate) fn own_working_directory() -> (): "a thread's own working directory";
    pub(crate) fn bind_mount(&str, &Path) -> (): "mount(2)";
    pub(crate) fn detach_mount(&Path) -> (): "umount2(2)";
    pub(crate) fn unseen_tracefs() -> OwnedFd: "tracefs";
    pub(crate) fn load_module(&File, &CStr) -> (): "finit_module(2)";
    pub(crate) fn link_reports() -> OwnedFd: "netlink";
    pub(crate) fn device_events() -> OwnedFd: "netlink";
    pub(crate) fn open_tap(&str, bool) -> OwnedFd: "a tap device";
}

/// Does nothing: the guest that calls it runs Linux.
pub(crate) fn reboot() {}

/// On Linux: makes an ioctl on an interface.
///
/// # Errors
/// Always.
///
/// # Safety
/// It does nothing.
pub unsafe fn interface_ioctl<T>(_: impl AsFd, _: &str, _: u16, _: &mut T) -> io::Result<()> {
    Err(unsupported("ethtool"))
}

/// Sets an option of AF_PACKET.
///
/// # Errors
/// Always.
pub fn set_packet_option<T>(_: impl AsFd, _: libc::c_int, _: &T) -> io::Result<()> {
    Err(unsupported("AF_PACKET"))
}

/// Reads an option of AF_PACKET.
///
/// # Errors
/// Always.
pub fn packet_option<const N: usize>(_: impl AsFd, _: libc::c_int) -> io::Result<[u32; N]> {
    Err(unsupported("AF_PACKET"))
}

/// # Safety
/// It does nothing.
pub(crate) unsafe fn open_perf_event<T>(_: &T, _: libc::pid_t, _: libc::c_int) -> io::Result<OwnedFd> {
    Err(unsupported("perf_event_open(2)"))
}

/// # Safety
/// It does nothing.
pub(crate) unsafe fn bpf<T>(_: libc::c_int, _: &T) -> io::Result<libc::c_long> {
    Err(unsupported("bpf(2)"))
}

/// A netlink socket; it cannot send requests.
#[derive(Debug, Default)]
pub(crate) struct NetlinkSocket;

impl NetlinkSocket {
    pub(crate) fn new() -> Self {
        Self
    }

    pub(crate) fn reserve_seq(&mut self, _: u32) -> u32 {
        0
    }

    pub(crate) fn request<'s, R: NetlinkRequest>(&'s mut self, _: &R) -> io::Result<Replies<'s, R>> {
        Err(unsupported("netlink"))
    }

    pub(crate) fn request_chained<'s>(&'s mut self, _: &impl NetlinkChained) -> io::Result<Replies<'s, ()>> {
        Err(unsupported("netlink"))
    }
}

/// Replies to a request. The type has no values, because every request fails.
#[derive(Debug)]
pub(crate) struct Replies<'s, R>(Infallible, PhantomData<(&'s (), R)>);

impl<R: NetlinkRequest> Replies<'_, R> {
    pub(crate) fn recv_one(&mut self) -> Result<R::ReplyType<'_>, ReplyError> {
        match self.0 {}
    }

    pub(crate) fn recv_ack(&mut self) -> Result<(), ReplyError> {
        match self.0 {}
    }

    pub(crate) fn recv(&mut self) -> Option<Result<R::ReplyType<'_>, ReplyError>> {
        match self.0 {}
    }
}

impl Replies<'_, ()> {
    pub(crate) fn recv_all(&mut self) -> Result<(), ReplyError> {
        match self.0 {}
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct ReplyError(io::Error);

impl ReplyError {
    pub(crate) fn as_io_error(&self) -> &io::Error {
        &self.0
    }
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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

#[cfg(target_os = "freebsd")]
mod own {
    //! Parts specific to FreeBSD.

    use crate::system::SocketOption;

    /// Socket option with the name of the congestion control, netinet/tcp.h.
    pub const TCP_CONGESTION: SocketOption = SocketOption(Some((libc::IPPROTO_TCP, 64)));

    /// The calling thread's id.
    pub fn thread_id() -> libc::pid_t {
        // SAFETY: the call takes nothing and cannot fail.
        unsafe { libc::pthread_getthreadid_np() }
    }
}

#[cfg(target_os = "openbsd")]
mod own {
    //! Parts specific to OpenBSD.

    use std::ffi::CStr;
    use std::io;
    use std::os::fd::OwnedFd;

    use crate::system::{SocketOption, unsupported};

    /// Socket option with the name of the congestion control: `None`, because OpenBSD has only one.
    pub const TCP_CONGESTION: SocketOption = SocketOption(None);

    /// The calling thread's id.
    pub fn thread_id() -> libc::pid_t {
        // SAFETY: the call takes nothing and cannot fail.
        unsafe { libc::getthrid() }
    }

    /// The CPUs that a thread may run on; not reported.
    ///
    /// # Errors
    /// Always.
    pub fn cpus_of_thread(_: libc::pid_t) -> nix::Result<Vec<usize>> {
        Err(nix::Error::ENOSYS)
    }

    /// Binds a thread to CPUs.
    ///
    /// # Errors
    /// Always.
    pub fn bind_thread(_: libc::pid_t, _: &[usize]) -> nix::Result<()> {
        Err(nix::Error::ENOSYS)
    }

    /// Creates an unnamed file in memory.
    pub(crate) fn memory_file(_: &CStr) -> io::Result<OwnedFd> {
        Err(unsupported("a file in memory"))
    }
}
