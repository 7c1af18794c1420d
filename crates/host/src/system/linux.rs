//! Linux.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, ppoll};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::mman::MapFlags;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, sendto, setsockopt,
    socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal, TimeValLike as _};

use super::SocketOption;

pub(crate) use netlink_socket2::{NetlinkSocket, ReplyError};

/// Flag that populates a mapping's pages at once.
pub const POPULATED: MapFlags = MapFlags::MAP_POPULATE;
/// Type of the control message (level SOL_SOCKET) requested by [`receive_timestamps`]: a timespec of CLOCK_REALTIME.
pub const RECEIVE_TIMESTAMP: Option<libc::c_int> = Some(libc::SCM_TIMESTAMPNS);

macro_rules! options {
    ($($level:ident: $($name:ident),*;)*) => {$($(
        #[doc = stringify!($name)]
        pub const $name: SocketOption = SocketOption::of_linux(libc::$level, libc::$name);
    )*)*};
}

options! {
    SOL_SOCKET: SO_BUSY_POLL, SO_MAX_PACING_RATE, SO_MEMINFO;
    IPPROTO_IP: IP_MTU, IP_RECVERR;
    IPPROTO_IPV6: IPV6_MTU, IPV6_RECVERR;
    IPPROTO_TCP: TCP_CONGESTION, TCP_INFO, TCP_USER_TIMEOUT;
    SOL_UDP: UDP_GRO, UDP_SEGMENT;
}

#[cfg(not(target_endian = "little"))]
compile_error!(
    "lengths in messages are read by the kernel with 64 bits, of which musl's headers have the lower 32 first"
);

/// sendmmsg(2), by the system call itself: musl's function calls sendmsg once per message, because its headers declare
/// some lengths as 32 bits plus padding where the kernel reads 64 bits. The callers zero the messages before they fill
/// them in, so on little-endian machines both layouts read the same. The types differ between C libraries in nothing
/// else. Returns the number sent, or -1 with errno.
///
/// # Safety
/// `messages` points at `count` messages that were zeroed before they were filled in. Their pointers are valid for
/// their lengths.
#[inline]
pub unsafe fn send_messages(fd: RawFd, messages: *mut libc::mmsghdr, count: u32, flags: libc::c_int) -> libc::c_int {
    // SAFETY: the caller promises valid pointers, see above.
    unsafe { libc::syscall(libc::SYS_sendmmsg, fd, messages, count, flags) as libc::c_int }
}

/// recvmmsg(2) without a time limit. Returns the number received, or -1 with errno.
///
/// # Safety
/// `messages` fulfils the conditions of [`send_messages`]; its buffers are writable.
#[inline]
pub unsafe fn receive_messages(fd: RawFd, messages: *mut libc::mmsghdr, count: u32, flags: libc::c_int) -> libc::c_int {
    let no_limit = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: the caller promises valid pointers, see above; a null timeout is allowed.
    unsafe { libc::syscall(libc::SYS_recvmmsg, fd, messages, count, flags, no_limit) as libc::c_int }
}

/// Waits until a descriptor is ready, at most for `at_most`, with a resolution of 1 ns: ppoll(2).
///
/// # Errors
/// The kernel refuses the call.
pub fn poll_for(fds: &mut [PollFd<'_>], at_most: Duration) -> nix::Result<libc::c_int> {
    ppoll(fds, Some(TimeSpec::from_duration(at_most)), None)
}

/// Requests kernel time stamps of received packets.
///
/// # Errors
/// The kernel refuses the call.
pub fn receive_timestamps(socket: impl AsFd) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?)
}

/// Sets a receive buffer (bytes), above the host's limit if the right is present.
///
/// # Errors
/// The kernel refuses the call.
pub fn set_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::RcvBufForce, &bytes).or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &bytes))?)
}

/// Sets a send buffer (bytes), above the host's limit if the right is present.
///
/// # Errors
/// The kernel refuses the call.
pub fn set_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::SndBufForce, &bytes).or_else(|_| setsockopt(&socket, sockopt::SndBuf, &bytes))?)
}

/// Opens an unbound AF_PACKET socket, which receives nothing.
///
/// # Errors
/// The right is missing.
pub fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call without pointers, whose descriptor is new. Protocol 0: the socket receives nothing.
    unsafe { owned(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0).into()) }
}

/// Binds an AF_PACKET socket to an interface: from now on it receives frames of this protocol (0: none).
///
/// # Errors
/// There is no such interface.
pub fn bind_packet_socket(socket: impl AsFd, index: u32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `address`, which outlives the call.
    let bound = unsafe { libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast(), length) };
    checked(bound.into()).map(drop)
}

/// Sets an option of level SOL_PACKET (PACKET_*, linux/if_packet.h).
///
/// # Errors
/// The kernel refuses the call.
pub fn set_packet_option<T>(socket: impl AsFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let (fd, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, std::ptr::from_ref(value).cast(), length) };
    checked(done.into()).map(drop)
}

/// Reads an option of level SOL_PACKET as 32-bit numbers.
///
/// # Errors
/// The kernel refuses the call.
pub fn packet_option<const N: usize>(socket: impl AsFd, option: libc::c_int) -> io::Result<[u32; N]> {
    let (mut value, mut length) = ([0; N], size_of::<[u32; N]>() as libc::socklen_t);
    let to = value.as_mut_ptr().cast();
    // SAFETY: both pointers are to values that outlive the call; `length` is the size of `value`.
    let done = unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_PACKET, option, to, &raw mut length) };
    checked(done.into()).map(|_| value)
}

/// Returns a call's result, or the error in errno.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes ownership of a new descriptor.
///
/// # Safety
/// Nobody else owns the descriptor.
unsafe fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The calling thread's id.
pub fn thread_id() -> libc::pid_t {
    nix::unistd::gettid().as_raw()
}

/// Gives a thread (0: the calling one) a policy and a real-time priority, by the system call itself: musl's function of
/// this name only returns ENOSYS, because in POSIX it acts on whole processes, which Linux cannot do.
pub(crate) fn set_policy(thread: libc::pid_t, policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: struct sched_param of the kernel is the priority alone (include/uapi/linux/sched/types.h); the call only
    // reads it.
    checked(unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const priority) }).map(drop)
}

/// The policy of the calling thread.
pub(crate) fn policy() -> io::Result<libc::c_int> {
    // SAFETY: the call takes no pointer; 0 is the calling thread.
    checked(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }).map(|policy| policy as libc::c_int)
}

/// Makes the kernel send a signal to the calling process when the thread that started it ends. Async-signal-safe.
pub(crate) fn end_with_parent(signal: Signal) -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(signal)?)
}

/// Signals a process by a pidfd, which never refers to a later process with the same pid. A process that has ended is
/// no error. `is_it` returns whether the pid still belongs to the intended process.
pub(crate) fn signal_process(pid: u32, is_it: impl FnOnce() -> bool, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = match Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }) {
        Err(Errno::ESRCH) => return Ok(()),
        // SAFETY: the descriptor was just returned by the kernel and nobody else owns it.
        other => unsafe { owned(other?) }?,
    };
    // Checked after the pidfd is open: from here on it cannot refer to another process.
    if !is_it() {
        return Ok(());
    }
    // SAFETY: a valid pidfd, a signal number, no siginfo, no flags.
    let sent = unsafe {
        let siginfo = std::ptr::null::<libc::siginfo_t>();
        libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, siginfo, 0)
    };
    match Errno::result(sent) {
        Ok(_) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Claims a name that only one process at a time can have in the thread's network namespace: an abstract socket.
pub(crate) fn claim(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Restricts a socket to an interface.
///
/// # Errors
/// The kernel refuses the call.
pub fn bind_to_device(socket: impl AsFd, interface: &str) -> io::Result<()> {
    Ok(setsockopt(&socket, sockopt::BindToDevice, &interface.into())?)
}

/// Moves the calling thread into a network namespace.
///
/// # Errors
/// The kernel refuses the call.
pub fn enter_network_namespace(namespace: impl AsFd) -> io::Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

/// Moves the calling thread into a mount namespace; the thread must not share its working directory with another
/// thread.
pub(crate) fn enter_mount_namespace(namespace: impl AsFd) -> io::Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNS)?)
}

/// Moves the calling thread into a new network namespace.
pub(crate) fn new_network_namespace() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWNET)?)
}

/// Moves the calling thread into a new mount namespace. Unmounts elsewhere propagate to it; its own mounts do not
/// propagate.
pub(crate) fn new_mount_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Slave, not private: an unmount of /run/netns/NAME elsewhere must reach this copy, too.
    Ok(mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_SLAVE, None::<&str>)?)
}

/// Moves the process, which has no other thread, into new user, network and mount namespaces.
pub(crate) fn new_user_namespace() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?)
}

/// Gives the calling thread a root and a working directory that it no longer shares with other threads.
pub(crate) fn own_working_directory() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_FS)?)
}

/// Mounts a kernel file system (`proc`).
pub(crate) fn mount_kind(kind: &str, place: &str) -> nix::Result<()> {
    mount(Some(kind), place, Some(kind), MsFlags::empty(), None::<&str>)
}

/// Bind-mounts a file at another path.
pub(crate) fn bind_mount(file: &str, place: &Path) -> io::Result<()> {
    Ok(mount(Some(file), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

/// Unmounts a file system that may still be in use (lazily).
pub(crate) fn detach_mount(place: &Path) -> io::Result<()> {
    Ok(umount2(place, MntFlags::MNT_DETACH)?)
}

/// Opens tracefs without mounting it: no other process sees it, and it disappears with the descriptor.
pub(crate) fn unseen_tracefs() -> io::Result<OwnedFd> {
    /// include/uapi/linux/mount.h
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: the name is a NUL-terminated string that outlives the call; the descriptor is new.
    let context = unsafe { owned(libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1 as libc::c_uint)) }?;
    // SAFETY: the only pointers are null, as FSCONFIG_CMD_CREATE requires.
    checked(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0 as libc::c_int)
    })?;
    // SAFETY: the call takes no pointer. The first 1 is FSMOUNT_CLOEXEC. The descriptor is new.
    unsafe { owned(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1 as libc::c_uint, 0 as libc::c_uint)) }
}

/// Loads a module of the kernel.
pub(crate) fn load_module(file: &File, parameters: &CStr) -> io::Result<()> {
    Ok(finit_module(file, parameters, ModuleInitFlags::empty())?)
}

/// Reboots the machine.
pub(crate) fn reboot() {
    let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_AUTOBOOT);
}

/// Sends a request to sock_diag(7) and receives the answer, within a second.
///
/// # Errors
/// The kernel has no sock_diag, or this process may not use netlink.
pub fn diagnose_socket(request: &[u8], answer: &mut [u8]) -> io::Result<usize> {
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
    sendto(fd.as_raw_fd(), request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    Ok(recv(fd.as_raw_fd(), answer, MsgFlags::empty())?)
}

/// Opens a socket that receives rtnetlink's notices of changes of links and addresses in the calling thread's network
/// namespace.
pub(crate) fn link_reports() -> io::Result<OwnedFd> {
    /// Groups of rtnetlink: links, and addresses of both versions (linux/rtnetlink.h).
    const GROUPS: u32 = libc::RTMGRP_LINK as u32 | libc::RTMGRP_IPV4_IFADDR as u32 | libc::RTMGRP_IPV6_IFADDR as u32;
    reports(SockProtocol::NetlinkRoute, GROUPS)
}

/// Opens a socket that receives device events.
pub(crate) fn device_events() -> io::Result<OwnedFd> {
    /// The kernel's own group.
    const KERNEL_EVENTS: u32 = 1;
    reports(SockProtocol::NetlinkKObjectUEvent, KERNEL_EVENTS)
}

pub(crate) fn reports(protocol: SockProtocol, groups: u32) -> io::Result<OwnedFd> {
    /// Size of the receive buffer (bytes): enough for a thousand changes.
    const ROOM_BYTES: usize = 1 << 20;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let own = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    // The kernel reduces the size to the host's limit, net.core.rmem_max.
    let _ = setsockopt(&own, sockopt::RcvBuf, &ROOM_BYTES);
    bind(own.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(own)
}

/// The number by which the calling thread's network namespace refers to another namespace (nsid); `None` if it has
/// assigned none. Source: net/core/net_namespace.c, rtnl_net_getid.
pub(crate) fn namespace_number(other: &Path) -> Option<i32> {
    /// linux/rtnetlink.h, linux/net_namespace.h.
    const RTM_GETNSID: u16 = 90;
    const NETNSA_NSID: u16 = 1;
    const NETNSA_FD: u16 = 3;
    /// Length of the message header and `struct rtgenmsg`, padded.
    const HEAD: usize = 16 + 4;

    let file = File::open(other).ok()?;
    let netlink = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, netlink).ok()?;
    let mut request = Vec::new();
    request.extend((HEAD as u32 + 8).to_ne_bytes());
    request.extend(RTM_GETNSID.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number, port and family.
    request.extend([0; 12]);
    request.extend(8u16.to_ne_bytes());
    request.extend(NETNSA_FD.to_ne_bytes());
    request.extend(file.as_raw_fd().to_ne_bytes());
    send(socket.as_raw_fd(), &request, MsgFlags::empty()).ok()?;
    let mut reply = [0; 512];
    let length = recv(socket.as_raw_fd(), &mut reply, MsgFlags::empty()).ok()?;
    let mut attributes = reply.get(..length)?.get(HEAD..)?;
    let is_answer = reply.get(4..6)? != (libc::NLMSG_ERROR as u16).to_ne_bytes();
    while let (true, [a, b, c, d, rest @ ..]) = (is_answer, attributes) {
        let (length, kind) = (usize::from(u16::from_ne_bytes([*a, *b])), u16::from_ne_bytes([*c, *d]));
        if kind == NETNSA_NSID {
            return Some(i32::from_ne_bytes(*rest.first_chunk()?)).filter(|number| *number >= 0);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..)?;
    }
    None
}

/// Makes an ioctl on an interface in the network namespace of the socket. The argument is a structure.
///
/// # Errors
/// The kernel refuses the call, or the name is too long.
///
/// # Safety
/// `data` is of the size that the kernel reads and writes for the request, and for the command in it.
pub unsafe fn interface_ioctl<T>(socket: impl AsFd, name: &str, request: u16, data: &mut T) -> io::Result<()> {
    // SAFETY: plain integers and bytes, for which all-zero is a valid value.
    let mut of: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= of.ifr_name.len() {
        return Err(io::Error::other(format!("{name} is too long for an interface name")));
    }
    for (to, from) in of.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    of.ifr_ifru.ifru_data = std::ptr::from_mut(data).cast();
    // SAFETY: a valid ifreq whose data points to a structure that outlives the call and is of the size that the caller
    // promises.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::Ioctl::from(request), &mut of) };
    checked(result.into()).map(drop)
}

/// Creates a tap in the calling thread's namespace (Documentation/networking/tuntap.rst). With `whole_segments`, each
/// frame has a virtio-net header (IFF_VNET_HDR), so that it can be a segment larger than the MTU.
pub(crate) fn open_tap(name: &str, whole_segments: bool) -> io::Result<OwnedFd> {
    let file: File = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let header = if whole_segments { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } {
        0 => Ok(file.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a counter or sampler of perf_event_open(2), closed on exec.
///
/// # Safety
/// `attributes` has the layout of `perf_event_attr` of the size that it contains.
pub(crate) unsafe fn open_perf_event<T>(attributes: &T, thread: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    let (event, group): (_, libc::c_int) = (libc::SYS_perf_event_open, -1);
    // SAFETY: the attributes are of the size they state and outlive the call; the descriptor is new.
    unsafe { owned(libc::syscall(event, std::ptr::from_ref(attributes), thread, cpu, group, PERF_FLAG_FD_CLOEXEC)) }
}

/// bpf(2).
///
/// # Safety
/// The attributes are laid out as the kernel reads them for this command, and their pointers are to values that outlive
/// the call.
pub(crate) unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: as the caller promises.
    checked(unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) })
}
