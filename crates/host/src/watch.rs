//! The host between two readings, for `netcliff watch`: [`Look`].

mod losses;
mod programs;

use crate::{
    cpu::{MeterError, system::SystemStamp},
    inspect::{Irq, Port, Reading},
    nic::{netdev, own_counts},
    softnet::{PerCpu, interrupts, softirqs},
    spaces::{Counted, Spaces},
};
use netcliff_core::watch::{CpuMoment, InterfaceMoment, InterruptMoment, Moment, QueueMoment};
use std::{path::Path, time::Instant};

pub use crate::spaces::refusal as namespaces_refused;

/// All counters at one time, in the network namespace of the calling thread.
#[derive(Debug, Clone)]
pub struct Look {
    at: Instant,
    system: SystemStamp,
    softirqs: PerCpu,
    interrupts: PerCpu,
    reading: Reading,
    queues: Vec<(String, Vec<netdev::QueueCounts>)>,
    threads: programs::Threads,
    losses: losses::Losses,
    spaces: Spaces,
    /// Devices of other namespaces, with these.
    elsewhere: Vec<(String, Counted)>,
}

/// By the kernel's own family, else by the driver's names; empty if neither reports them.
fn queue_counts(port: &Port) -> Vec<netdev::QueueCounts> {
    let known = netdev::queue_counts(port.nic.index).ok().filter(|queues| !queues.is_empty());
    known.or_else(|| own_counts::queue_counts(&port.nic.name).ok()).unwrap_or_default()
}

impl Look {
    /// Reads the counters of these ports and of all CPUs.
    ///
    /// # Errors
    /// When /proc/stat cannot be read or has another form; other counters that are not there are omitted.
    pub fn now(ports: &[&Port]) -> Result<Look, MeterError> {
        Self::read(ports, None)
    }

    /// A later look, which reads only what has changed of tables of threads and sockets.
    ///
    /// # Errors
    /// As [`Look::now`].
    pub fn next(&self, ports: &[&Port]) -> Result<Look, MeterError> {
        Self::read(ports, Some(self))
    }

    fn read(ports: &[&Port], before: Option<&Look>) -> Result<Look, MeterError> {
        let mut spaces = before.map(|look| look.spaces.clone()).unwrap_or_default();
        let names: Vec<String> = ports.iter().map(|port| port.nic.name.clone()).collect();
        let queues = ports.iter().map(|port| (port.nic.name.clone(), queue_counts(port)));
        Ok(Look {
            queues: queues.collect(),
            interrupts: interrupts().unwrap_or_default(),
            softirqs: softirqs().unwrap_or_default(),
            threads: programs::Threads::now(before.map(|look| &look.threads)),
            losses: losses::Losses::now(&mut spaces, before.map(|look| &look.losses)),
            spaces,
            elsewhere: Vec::new(),
            reading: Reading::read(Path::new("/"), &names),
            system: SystemStamp::now()?,
            at: Instant::now(),
        })
    }

    /// With the devices of all other network namespaces that this process may look into.
    #[must_use]
    pub fn and_elsewhere(mut self) -> Look {
        Look { elsewhere: self.spaces.devices(), ..self }
    }

    /// Ports that had counters at this look and have none at a later one: removed, renamed or moved away.
    pub fn gone<'a>(&self, later: &Look, ports: &[&'a Port]) -> Vec<&'a str> {
        let had = |look: &Look, name: &str| look.reading.interfaces.contains_key(name);
        let names = ports.iter().map(|port| port.nic.name.as_str());
        names.filter(|name| had(self, name) && !had(later, name)).collect()
    }

    /// What happened until a later look.
    pub fn until(&self, later: &Look, ports: &[&Port]) -> Moment {
        let seconds = later.at.duration_since(self.at).as_secs_f64().max(1e-9);
        Moment {
            seconds,
            cpus: self.cpus(later, seconds),
            interrupts: self.interrupts(later, ports, seconds),
            interfaces: {
                let here = ports.iter().map(|port| self.interface(later, port, seconds));
                here.chain(self.elsewhere(later, seconds)).collect()
            },
            programs: self.threads.until(&later.threads, seconds),
            losses: self.losses.until(&later.losses, seconds),
        }
    }

    fn cpus(&self, later: &Look, seconds: f64) -> Vec<CpuMoment> {
        let grown = self.reading.until(&later.reading);
        let moment = |split: crate::cpu::system::SystemShares| {
            let cpu = u32::try_from(split.cpu).unwrap_or(u32::MAX);
            let softnet = grown.softnet.iter().find(|stat| stat.cpu == cpu).copied().unwrap_or_default();
            let raised = later.softirqs.count_since(&self.softirqs, "NET_RX", cpu).filter(|raised| *raised > 0);
            CpuMoment {
                cpu,
                user: split.user + split.nice,
                niced: split.nice,
                system: split.system,
                irq: split.irq,
                softirq: split.softirq,
                steal: split.steal,
                idle: split.idle,
                packets_per_s: f64::from(softnet.processed) / seconds,
                packets_per_softirq: raised.map(|raised| f64::from(softnet.processed) / raised as f64),
                dropped_per_s: f64::from(softnet.dropped) / seconds,
                squeezed_per_s: f64::from(softnet.time_squeeze) / seconds,
            }
        };
        self.system.until(&later.system).into_iter().map(moment).collect()
    }

    fn interrupts(&self, later: &Look, ports: &[&Port], seconds: f64) -> Vec<InterruptMoment> {
        let irqs = ports.iter().flat_map(|port| port.queue_irqs().map(|irq| (&port.nic.name, irq)));
        let moment = |(interface, irq): (&String, &Irq)| {
            let row = irq.number.to_string();
            let by_cpu: Vec<(u32, u64)> = later
                .interrupts
                .cpus
                .iter()
                .filter_map(|cpu| Some((*cpu, later.interrupts.count_since(&self.interrupts, &row, *cpu)?)))
                .collect();
            let total: u64 = by_cpu.iter().map(|(_, count)| count).sum();
            let most = by_cpu.iter().filter(|(_, count)| *count > 0).max_by_key(|(_, count)| *count);
            InterruptMoment {
                interface: interface.clone(),
                number: irq.number,
                name: irq.name.clone(),
                per_s: total as f64 / seconds,
                cpu: most.map(|(cpu, _)| *cpu),
            }
        };
        irqs.map(moment).collect()
    }

    fn interface(&self, later: &Look, port: &Port, seconds: f64) -> InterfaceMoment {
        let name = &port.nic.name;
        let grown = self.reading.until(&later.reading);
        let rate = |counter: &str| grown.of(name, counter) as f64 / seconds;
        let queues = self.queues(later, name, seconds);
        let by_driver: f64 = queues.iter().filter(|queue| queue.receive).filter_map(|queue| queue.dropped_per_s).sum();
        InterfaceMoment {
            name: name.clone(),
            namespace: None,
            rx_pps: rate("rx_packets"),
            rx_bps: 8.0 * rate("rx_bytes"),
            tx_pps: rate("tx_packets"),
            tx_bps: 8.0 * rate("tx_bytes"),
            // Drivers show one loss under several names.
            ring_lost_per_s: counters::RING.iter().map(|counter| rate(counter)).fold(0.0, f64::max),
            dropped_per_s: rate("rx_dropped") + rate("tx_dropped"),
            unclaimed_per_s: (rate("rx_dropped") - by_driver).max(0.0),
            link_bps: port.link_bps(),
            queues,
        }
    }

    /// Devices that were in another namespace at both readings.
    fn elsewhere(&self, later: &Look, seconds: f64) -> impl Iterator<Item = InterfaceMoment> {
        later.elsewhere.iter().filter_map(move |(space, now)| {
            let (_, then) = self.elsewhere.iter().find(|(of, then)| of == space && then.name == now.name)?;
            let rate = |count: fn(&Counted) -> u64| count(now).saturating_sub(count(then)) as f64 / seconds;
            Some(InterfaceMoment {
                name: now.name.clone(),
                namespace: Some(space.clone()),
                rx_pps: rate(|device| device.rx_packets),
                rx_bps: 8.0 * rate(|device| device.rx_bytes),
                tx_pps: rate(|device| device.tx_packets),
                tx_bps: 8.0 * rate(|device| device.tx_bytes),
                ring_lost_per_s: rate(|device| device.rx_fifo),
                dropped_per_s: rate(|device| device.rx_dropped + device.tx_dropped),
                unclaimed_per_s: rate(|device| device.rx_dropped),
                ..InterfaceMoment::default()
            })
        })
    }

    fn queues(&self, later: &Look, name: &str, seconds: f64) -> Vec<QueueMoment> {
        let of = |look: &Look| look.queues.iter().find(|(port, _)| port == name).map(|(_, queues)| queues.clone());
        let (Some(before), Some(after)) = (of(self), of(later)) else { return Vec::new() };
        let moment = |now: &netdev::QueueCounts| {
            let then = before.iter().find(|then| then.id == now.id && then.receive == now.receive)?;
            let grown = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
            Some(QueueMoment {
                queue: now.id,
                receive: now.receive,
                packets_per_s: grown(now.packets, then.packets),
                dropped_per_s: now.drops.zip(then.drops).map(|(now, then)| grown(now, then)),
            })
        };
        after.iter().filter_map(moment).collect()
    }
}

mod counters {
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
}
