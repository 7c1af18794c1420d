//! [`Counters`]: what a host has counted since it was booted, as monitoring reads it.

use std::collections::BTreeMap;

/// A CPU since boot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuCounters {
    /// Number.
    pub cpu: u32,
    /// Time by mode (s): `user`, `system`, `irq`, `softirq`, `steal`, `idle`.
    pub seconds: Vec<(&'static str, f64)>,
    /// Packets processed.
    pub packets: u64,
    /// Receive softirqs; None: not counted.
    pub receive_softirqs: Option<u64>,
    /// Packets dropped at the full backlog.
    pub dropped_backlog: u64,
    /// Packets dropped by the flow limit.
    pub dropped_flow_limit: u64,
    /// Softirq rounds that ended with work left.
    pub squeezed: u64,
    /// Packets in the backlog now; None: the kernel (before 5.14) does not tell.
    pub backlog: Option<u64>,
}

/// An interface since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceCounters {
    /// Name.
    pub name: String,
    /// Packets received, sent.
    pub packets: [u64; 2],
    /// Bytes received, sent.
    pub bytes: [u64; 2],
    /// Lost at the receive ring.
    pub dropped_ring: u64,
    /// Dropped by the stack or the driver after or before the ring: received, sent.
    pub dropped: [u64; 2],
    /// Dropped at its queueing disciplines, on the way out.
    pub dropped_qdisc: u64,
    /// Receive queues: number, packets, drops where the driver counts them.
    pub queues: Vec<(u32, u64, Option<u64>)>,
}

/// An agent since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentCounters {
    /// Clients now.
    pub clients: u64,
    /// The most at once.
    pub most_clients: u64,
    /// Tests that began, by kind.
    pub started: BTreeMap<String, u64>,
    /// Tests that ended.
    pub ended: u64,
    /// Connections that were refused or ended by an error.
    pub refused: u64,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counters {
    /// By CPU.
    pub cpus: Vec<CpuCounters>,
    /// By interface.
    pub interfaces: Vec<InterfaceCounters>,
    /// What sockets and protocols lost for want of room, by reason: `udp_receive_buffer`, `listen_queue`, ..
    pub sockets_lost: Vec<(&'static str, u64)>,
    /// Datagrams of IPv4 dropped for a bad checksum; None: not counted.
    pub udp_checksum: Option<u64>,
}
