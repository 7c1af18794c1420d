//! [`Counters`]: counters of a host, and of an agent ([`AgentCounters`]), as monitoring systems read them.

use std::collections::BTreeMap;

/// Counters of a CPU since boot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CpuCounters {
    /// Number of the CPU.
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
    /// Softirq rounds that ended with work left (time_squeeze).
    pub squeezed: u64,
    /// Packets now in the backlog; None: the kernel (before 5.14) does not report it.
    pub backlog: Option<u64>,
}

/// Counters of an interface since it was created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceCounters {
    /// Name.
    pub name: String,
    /// Packets: [received, sent].
    pub packets: [u64; 2],
    /// Bytes: [received, sent].
    pub bytes: [u64; 2],
    /// Packets lost at the receive ring.
    pub dropped_ring: u64,
    /// Packets dropped by stack or driver, without the packets lost at the receive ring: [received, sent].
    pub dropped: [u64; 2],
    /// Packets dropped at the device's queueing disciplines when sending.
    pub dropped_qdisc: u64,
    /// Receive queues: (number, packets, drops if the driver counts them).
    pub queues: Vec<(u32, u64, Option<u64>)>,
}

/// Counters of an agent since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentCounters {
    /// Clients connected now.
    pub clients: u64,
    /// Most clients that were connected at once.
    pub most_clients: u64,
    /// Tests started, by kind.
    pub started: BTreeMap<String, u64>,
    /// Tests ended.
    pub ended: u64,
    /// Connections that were refused, or ended by an error.
    pub refused: u64,
}

/// Counters of a host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counters {
    /// One entry per CPU.
    pub cpus: Vec<CpuCounters>,
    /// One entry per interface.
    pub interfaces: Vec<InterfaceCounters>,
    /// Packets or connections that sockets and protocols dropped because a queue was full, by reason:
    /// `udp_receive_buffer`, `listen_queue`, ..
    pub sockets_lost: Vec<(&'static str, u64)>,
    /// IPv4 UDP datagrams dropped for a wrong checksum; None: not counted.
    pub udp_checksum: Option<u64>,
}
