//! The netdev generic netlink family: NAPI instances and queues.

use super::Nic;
use crate::rtnl::explained;
use crate::system::NetlinkSocket;
use netlink_bindings::netdev::{QstatsScope, Request};
use serde::{Deserialize, Serialize};
use std::io;

/// A NAPI instance.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// A setting of one NAPI instance, by the kernel's name (Documentation/netlink/specs/netdev.yaml).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NapiKey {
    /// Empty polls before interrupts are enabled again.
    DeferHardIrqs,
    /// Time until the timer polls again (ns).
    GroFlushTimeout,
    /// Longest time that interrupts stay off while an application that prefers to busy poll is at work (ns).
    IrqSuspendTimeout,
    /// 0: polled in softirqs, 1: by a kernel thread, 2: by a kernel thread that never sleeps.
    Threaded,
}

impl NapiKey {
    /// All keys.
    pub const ALL: [NapiKey; 4] =
        [NapiKey::DeferHardIrqs, NapiKey::GroFlushTimeout, NapiKey::IrqSuspendTimeout, NapiKey::Threaded];

    /// The interface's file in sysfs that sets all instances; `None` if the key has no file.
    pub fn file(self) -> Option<&'static str> {
        match self {
            NapiKey::DeferHardIrqs => Some("napi_defer_hard_irqs"),
            NapiKey::GroFlushTimeout => Some("gro_flush_timeout"),
            NapiKey::Threaded => Some("threaded"),
            NapiKey::IrqSuspendTimeout => None,
        }
    }

    /// The key that a file of an interface sets, by the file's name; `None` if it sets another value.
    pub fn of_file(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.file() == Some(name))
    }

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            NapiKey::DeferHardIrqs => "defer-hard-irqs",
            NapiKey::GroFlushTimeout => "gro-flush-timeout",
            NapiKey::IrqSuspendTimeout => "irq-suspend-timeout",
            NapiKey::Threaded => "threaded",
        }
    }
}

impl Napi {
    /// Returns the value of a setting; `None` if this kernel does not report it.
    pub fn figure(&self, key: NapiKey) -> Option<u32> {
        match key {
            NapiKey::DeferHardIrqs => self.defer_hard_irqs,
            NapiKey::GroFlushTimeout => self.gro_flush_timeout_ns,
            NapiKey::IrqSuspendTimeout => self.irq_suspend_timeout_ns,
            NapiKey::Threaded => self.threaded,
        }
    }

    /// Stores a value in this snapshot, if this kernel reports the setting.
    pub(crate) fn set_figure(&mut self, key: NapiKey, value: u32) {
        let held = match key {
            NapiKey::DeferHardIrqs => &mut self.defer_hard_irqs,
            NapiKey::GroFlushTimeout => &mut self.gro_flush_timeout_ns,
            NapiKey::IrqSuspendTimeout => &mut self.irq_suspend_timeout_ns,
            NapiKey::Threaded => &mut self.threaded,
        };
        if let Some(held) = held {
            *held = value;
        }
    }
}

/// Sets a NAPI instance of the thread's namespace, by its present id.
///
/// # Errors
/// The kernel (before 6.13; `threaded` before 6.17) does not know the setting, or refuses the value.
pub fn set_napi(id: u32, key: NapiKey, value: u32) -> io::Result<()> {
    let mut socket = NetlinkSocket::new();
    let mut request = Request::new().op_napi_set_do();
    let attributes = request.encode().push_id(id);
    match key {
        NapiKey::DeferHardIrqs => attributes.push_defer_hard_irqs(value),
        NapiKey::GroFlushTimeout => attributes.push_gro_flush_timeout(value),
        NapiKey::IrqSuspendTimeout => attributes.push_irq_suspend_timeout(value),
        NapiKey::Threaded => attributes.push_threaded(value),
    };
    socket.request(&request)?.recv_ack().map_err(explained)
}

/// A receive or transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
/// The kernel has no netdev family (before 6.7) or refuses.
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
    // The kernel never reuses an id; order by id makes snapshots comparable.
    napis.sort_by_key(|napi| napi.id);
    Ok(napis)
}

/// Queues of an interface of the thread's namespace.
///
/// # Errors
/// See [`napis`].
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

/// Fills in the NAPI instances and queues of an interface.
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

/// Counters of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Number within its kind.
    pub id: u32,
    /// True for a receive queue.
    pub receive: bool,
    /// Packets.
    pub packets: u64,
    /// Packets that the device dropped; `None` if it does not count them.
    pub drops: Option<u64>,
}

/// NETDEV_A_QSTATS_*, linux/netdev.h. The counters have type `uint`: four bytes, or eight if needed. The bindings do
/// not read that type; this module parses it.
mod qstats {
    pub(super) const QUEUE_TYPE: u16 = 2;
    pub(super) const QUEUE_ID: u16 = 3;
    pub(super) const RX_PACKETS: u16 = 8;
    pub(super) const TX_PACKETS: u16 = 10;
    pub(super) const RX_HW_DROPS: u16 = 13;
    pub(super) const TX_HW_DROPS: u16 = 24;
}

/// Counters of each queue of an interface of the thread's namespace.
///
/// # Errors
/// The kernel (before 6.9) or the driver does not support them.
pub fn queue_counts(ifindex: u32) -> io::Result<Vec<QueueCounts>> {
    let mut socket = NetlinkSocket::new();
    let mut request = Request::new().op_qstats_get_dump();
    request.encode().push_ifindex(ifindex).push_scope(QstatsScope::Queue as u64 as u32);
    let mut replies = socket.request(&request)?;
    let mut queues = Vec::new();
    while let Some(reply) = replies.recv() {
        queues.extend(counts(reply.map_err(explained)?.get_buf()));
    }
    queues.sort_by_key(|queue| (!queue.receive, queue.id));
    Ok(queues)
}

/// Counters of one queue from its attributes; `None` if id or type is missing.
fn counts(buffer: &[u8]) -> Option<QueueCounts> {
    let all: std::collections::BTreeMap<u16, u64> = attributes(buffer).collect();
    let receive = *all.get(&qstats::QUEUE_TYPE)? == 0;
    let (packets, drops) =
        if receive { (qstats::RX_PACKETS, qstats::RX_HW_DROPS) } else { (qstats::TX_PACKETS, qstats::TX_HW_DROPS) };
    let id = u32::try_from(*all.get(&qstats::QUEUE_ID)?).ok()?;
    Some(QueueCounts { id, receive, packets: *all.get(&packets)?, drops: all.get(&drops).copied() })
}

/// Type and value of each attribute of four or eight bytes (`struct nlattr`, aligned to four).
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, u64)> + '_ {
    std::iter::from_fn(move || {
        loop {
            let header = rest.get(..4)?;
            let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
            let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
            let payload = rest.get(4..length)?;
            let value = match payload {
                [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([*a, *b, *c, *d]))),
                _ => payload.try_into().ok().map(u64::from_ne_bytes),
            };
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if let Some(value) = value {
                return Some((kind, value));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u16 + 4).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn counters_of_both_widths() {
        let mut buffer = attribute(1, &7_u32.to_ne_bytes());
        buffer.extend(attribute(qstats::QUEUE_TYPE, &0_u32.to_ne_bytes()));
        buffer.extend(attribute(qstats::QUEUE_ID, &3_u32.to_ne_bytes()));
        buffer.extend(attribute(99, b"odd"));
        buffer.extend(attribute(qstats::RX_PACKETS, &(1_u64 << 40).to_ne_bytes()));
        buffer.extend(attribute(qstats::RX_HW_DROPS, &5_u32.to_ne_bytes()));
        let expected = QueueCounts { id: 3, receive: true, packets: 1 << 40, drops: Some(5) };
        assert_eq!(counts(&buffer), Some(expected));
        assert_eq!(counts(&buffer[..10]), None);
        assert_eq!(counts(&[255, 255, 0, 0]), None);
    }
}
