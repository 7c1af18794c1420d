//! XDP without a loader: programs of a few instructions assembled by hand, which need no compiler and no object file, and
//! the calls of bpf(2) that load and attach them.
//!
//! A program is attached by a link that a descriptor owns: it goes with the descriptor, also when the process is killed,
//! and the kernel refuses it where another program is attached instead of replacing that.

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
    /// In the driver, before the kernel makes a packet of the frame.
    Native,
    /// In the kernel's own receive path, for any driver.
    Generic,
}

impl Mode {
    /// Flag that asks the kernel for it: XDP_FLAGS_DRV_MODE or XDP_FLAGS_SKB_MODE, linux/if_link.h.
    pub(crate) fn flag(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// Takes the UDP frames that arrive at an interface away from the kernel and hands them to AF_XDP sockets, until it is
/// dropped. The program writes the time (ns of `CLOCK_MONOTONIC`, u64) into the 8 bytes before each frame, where the
/// driver lets it.
#[derive(Debug)]
pub struct ToSockets {
    sockets: OwnedFd,
    mode: Mode,
    /// Keeps the program attached.
    _link: OwnedFd,
}

impl ToSockets {
    /// Attaches the program for so many queues of the interface with this index, in the thread's network namespace.
    ///
    /// # Errors
    /// Another program is attached (EBUSY, EEXIST), the driver has no XDP ([`Mode::Native`]: EOPNOTSUPP, or EINVAL for an
    /// MTU that does not fit a page), or the right is missing (EPERM: it takes CAP_BPF and CAP_NET_ADMIN).
    pub fn attach(index: u32, queues: u32, mode: Mode) -> io::Result<Self> {
        let sockets = calls::make_socket_map(queues)?;
        let program = calls::load(&program::to_sockets(sockets.as_raw_fd()), "netcliff_sink")?;
        let link = calls::attach(&program, index, mode)?;
        Ok(Self { sockets, mode, _link: link })
    }

    /// Hands the frames of a queue to a socket, which may be bound later.
    ///
    /// # Errors
    /// The queue is beyond those it was attached for, or the socket has no receive ring.
    pub fn serve(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        calls::put_socket(&self.sockets, queue, socket)
    }

    /// Where the program runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }
}

/// The facts of a port that a receiver of its frames needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Index in its namespace.
    pub index: u32,
    /// Kind of a link made of software (`veth`), None for a device.
    pub kind: Option<String>,
    /// Queues that receive, or more.
    pub receive_queues: u32,
    /// Identifier of an XDP program that is attached.
    pub program: Option<u32>,
}

impl Facts {
    /// Of an interface in the thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, or the kernel does not say.
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
