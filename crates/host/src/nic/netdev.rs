//! The netdev generic netlink family: NAPI instances and queues.

use super::Nic;
use crate::rtnl::explained;
use netlink_bindings::netdev::Request;
use netlink_socket2::NetlinkSocket;
use serde::{Deserialize, Serialize};
use std::io;

/// A NAPI instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Napi {
    /// NAPI id.
    pub id: u32,
    /// Interrupt that schedules it.
    pub irq: Option<u32>,
    /// Its kernel thread, when threaded.
    pub thread_pid: Option<u32>,
    /// `napi_defer_hard_irqs`: empty polls before interrupts are enabled again.
    pub defer_hard_irqs: Option<u32>,
    /// `gro_flush_timeout` (ns).
    pub gro_flush_timeout_ns: Option<u32>,
    /// `irq_suspend_timeout` (ns).
    pub irq_suspend_timeout_ns: Option<u32>,
    /// Threaded mode (0 off, 1 on, 2 busy polling).
    pub threaded: Option<u32>,
}

/// A receive or transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Number within its kind.
    pub id: u32,
    /// True for a receive queue.
    pub receive: bool,
    /// The NAPI instance that serves it.
    pub napi_id: Option<u32>,
}

/// NAPI instances of an interface of the thread's namespace.
///
/// # Errors
/// When the kernel has no netdev family (before 6.7) or refuses.
pub fn napis(ifindex: u32) -> io::Result<Vec<Napi>> {
    let mut socket = NetlinkSocket::new();
    let mut request = Request::new().op_napi_get_dump();
    request.encode().push_ifindex(ifindex);
    let mut replies = socket.request(&request)?;
    let mut napis = Vec::new();
    while let Some(reply) = replies.recv() {
        let napi = reply.map_err(explained)?;
        napis.push(Napi {
            id: napi.get_id().map_err(io::Error::other)?,
            irq: napi.get_irq().ok(),
            thread_pid: napi.get_pid().ok(),
            defer_hard_irqs: napi.get_defer_hard_irqs().ok(),
            gro_flush_timeout_ns: napi.get_gro_flush_timeout().ok(),
            irq_suspend_timeout_ns: napi.get_irq_suspend_timeout().ok(),
            threaded: napi.get_threaded().ok(),
        });
    }
    // Ids count up with each instance ever made; order by id keeps comparisons stable.
    napis.sort_by_key(|napi| napi.id);
    Ok(napis)
}

/// Queues of an interface of the thread's namespace.
///
/// # Errors
/// As [`napis`].
pub fn queues(ifindex: u32) -> io::Result<Vec<Queue>> {
    let mut socket = NetlinkSocket::new();
    let mut request = Request::new().op_queue_get_dump();
    request.encode().push_ifindex(ifindex);
    let mut replies = socket.request(&request)?;
    let mut queues = Vec::new();
    while let Some(reply) = replies.recv() {
        let queue = reply.map_err(explained)?;
        queues.push(Queue {
            id: queue.get_id().map_err(io::Error::other)?,
            receive: queue.get_type().map_err(io::Error::other)? == 0,
            napi_id: queue.get_napi_id().ok(),
        });
    }
    Ok(queues)
}

/// Fills in what the family knows about an interface.
pub(super) fn fill(nic: &mut Nic) {
    match napis(nic.index) {
        Ok(napis) => nic.napis = napis,
        Err(error) => drop(nic.missing.insert("napi".into(), error.to_string())),
    }
    match queues(nic.index) {
        Ok(queues) => nic.queues = queues,
        Err(error) => drop(nic.missing.insert("queues".into(), error.to_string())),
    }
}
