//! What monitoring reads of a [`Look`]: counters since boot, not rates.

use super::Look;
use crate::softnet::UdpCounters;
use netcliff_core::metrics::{Counters, CpuCounters, InterfaceCounters};

/// Names under which drivers show one loss at the ring.
pub(super) const RING: [&str; 3] = ["rx_missed_errors", "rx_fifo_errors", "rx_over_errors"];

impl Look {
    /// The counters of this moment.
    pub fn counters(&self) -> Counters {
        let cpus = self.system.seconds().into_iter().map(|(cpu, seconds)| {
            let softnet = self.reading.softnet.iter().find(|stat| stat.cpu == cpu).copied().unwrap_or_default();
            CpuCounters {
                cpu,
                seconds: seconds.to_vec(),
                packets: softnet.processed.into(),
                receive_softirqs: self.softirqs.count("NET_RX", cpu),
                dropped_backlog: softnet.dropped.into(),
                dropped_flow_limit: softnet.flow_limit.into(),
                squeezed: softnet.time_squeeze.into(),
                backlog: softnet.backlog_len.map(u64::from),
            }
        });
        let interfaces = self.reading.interfaces.keys().map(|name| {
            let of = |counter: &str| self.reading.of(name, counter);
            let queues = self.queues.iter().filter(|(port, _)| port == name).flat_map(|(_, queues)| queues);
            InterfaceCounters {
                name: name.clone(),
                packets: [of("rx_packets"), of("tx_packets")],
                bytes: [of("rx_bytes"), of("tx_bytes")],
                dropped_ring: RING.iter().map(|counter| of(counter)).max().unwrap_or_default(),
                dropped: [of("rx_dropped"), of("tx_dropped")],
                queues: queues
                    .filter(|queue| queue.receive)
                    .map(|queue| (queue.id, queue.packets, queue.drops))
                    .collect(),
            }
        });
        let udp = UdpCounters::read().ok();
        Counters {
            cpus: cpus.collect(),
            interfaces: interfaces.collect(),
            sockets_lost: self.losses.by_reason().collect(),
            udp_checksum: udp.map(|udp| udp.in_csum_errors),
        }
    }
}
