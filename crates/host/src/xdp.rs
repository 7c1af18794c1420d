//! XDP without a loader: programs of a few instructions assembled by hand, which need no compiler and no object file,
//! and the calls of bpf(2) that load and attach them.
//!
//! A program is attached by a link that a descriptor owns. It is detached with the descriptor, also when the process is
//! killed. If another program is attached, the kernel refuses and does not replace it.

mod assembler;
mod calls;
mod program;

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use crate::{nic::ethtool, rtnl::Rtnl};

#[cfg(any(test, have_bpf))]
pub(crate) use calls::attach;
pub use calls::program_name;
#[cfg(have_bpf)]
pub(crate) use calls::run_live;
#[cfg(test)]
pub(crate) use program::drop_all;
pub(crate) use program::redirect_to;

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a packet from the frame.
    Native,
    /// In the kernel's own receive path, for any driver.
    Generic,
}

impl Mode {
    /// Flag that requests the mode from the kernel: XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE, linux/if_link.h.
    pub(crate) fn flag(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// Diverts the UDP frames that arrive at an interface from the kernel to AF_XDP sockets, until this value is dropped.
/// The program writes the time (ns of `CLOCK_MONOTONIC`, u64) into the 8 bytes before each frame, if the driver
/// supports XDP metadata.
#[derive(Debug)]
pub struct ToSockets {
    sockets: OwnedFd,
    mode: Mode,
    /// Keeps the program attached.
    _link: OwnedFd,
}

impl ToSockets {
    /// Attaches the program for `queues` queues of the interface with this index, in the thread's network namespace.
    ///
    /// # Errors
    /// Another program is attached (EBUSY, EEXIST), the driver has no XDP ([`Mode::Native`]: EOPNOTSUPP, or EINVAL for
    /// an MTU that does not fit a page), or the right is missing (EPERM: CAP_BPF and CAP_NET_ADMIN are needed).
    pub fn attach(index: u32, queues: u32, mode: Mode) -> io::Result<Self> {
        let sockets = calls::make_socket_map(queues)?;
        let program = calls::load(&program::to_sockets(sockets.as_raw_fd()), "netcliff_sink")?;
        let link = calls::attach(&program, index, mode)?;
        Ok(Self { sockets, mode, _link: link })
    }

    /// Passes the frames of a queue to a socket, which may be bound later.
    ///
    /// # Errors
    /// The queue number is too large for the program, or the socket has no receive ring.
    pub fn serve(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        calls::put_socket(&self.sockets, queue, socket)
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// Properties of a port that a receiver of its frames needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Index in its namespace.
    pub index: u32,
    /// Kind of a software link (`veth`); `None` for a hardware device.
    pub kind: Option<String>,
    /// Number of receive queues. If the driver does not report it: the number for which the kernel has memory, which
    /// may be larger; 1 if that is not known either.
    pub receive_queues: u32,
    /// Identifier of an attached XDP program; `None` if no program is attached.
    pub program: Option<u32>,
}

impl Facts {
    /// Reads the properties of an interface in the thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or the kernel does not report them.
    pub fn of(interface: &str) -> io::Result<Self> {
        let link = Rtnl::new().link(interface)?;
        let queues = ethtool::receive_channels(interface).ok().flatten().or(link.rx_queues);
        Ok(Self {
            index: link.index,
            kind: link.kind,
            receive_queues: queues.unwrap_or(1).max(1),
            program: link.xdp_program,
        })
    }
}
