//! Changes of the host's counters between two snapshots, for `netcliff watch`: [`Look`].

mod losses;
mod programs;

use crate::{
    cgroup::Quotas,
    cpu::{MeterError, system::SystemStamp},
    inspect::{Irq, Port, Reading},
    nic::{netdev, own_counts},
    procfs,
    rtnl::{RING_COUNTERS, Rtnl, qdisc::RawBacklog},
    softnet::{PerCpu, interrupts, softirqs},
    spaces::{Counted, Spaces},
};
use netcliff_core::watch::{ConntrackMoment, CpuMoment, InterfaceMoment, InterruptMoment, Moment, QueueMoment};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Instant,
};

pub use crate::spaces::refusal as namespaces_refused;

/// Snapshot of all counters, in the network namespace of the calling thread.
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
    /// Root qdiscs of the caller's namespace, and the link index of each port.
    qdiscs: Vec<RawBacklog>,
    indices: BTreeMap<String, u32>,
    quotas: Quotas,
    conntrack: Option<ConntrackMoment>,
    /// Devices of other namespaces, if [`Look::and_elsewhere`] read them.
    elsewhere: Vec<(String, Counted)>,
}

/// Counters of the port's queues, from the kernel's netdev netlink family, otherwise from the driver's own statistics;
/// empty if neither reports them.
fn queue_counts(port: &Port) -> Vec<netdev::QueueCounts> {
    let known = netdev::queue_counts(port.nic.index).ok().filter(|queues| !queues.is_empty());
    known.or_else(|| own_counts::queue_counts(&port.nic.name).ok()).unwrap_or_default()
}

/// Connection tracking of the network namespace of the calling thread; `None` if it is not in use.
fn conntrack() -> Option<ConntrackMoment> {
    let number = |name| procfs::number(format!("/proc/sys/net/netfilter/nf_conntrack_{name}"));
    Some(ConntrackMoment { entries: number("count")?, most: number("max")? })
}

impl Look {
    /// Reads the counters of these ports and of all CPUs.
    ///
    /// # Errors
    /// /proc/stat cannot be read or has another form. Other missing counters are omitted.
    pub fn now(ports: &[&Port]) -> Result<Look, MeterError> {
        Self::read(ports, None)
    }

    /// Takes a later snapshot. It reads threads and sockets again only where counters show that they changed.
    ///
    /// # Errors
    /// See [`Look::now`].
    pub fn next(&self, ports: &[&Port]) -> Result<Look, MeterError> {
        Self::read(ports, Some(self))
    }

    fn read(ports: &[&Port], before: Option<&Look>) -> Result<Look, MeterError> {
        let mut spaces = before.map(|look| look.spaces.clone()).unwrap_or_default();
        let names: Vec<String> = ports.iter().map(|port| port.nic.name.clone()).collect();
        let queues = ports.iter().map(|port| (port.nic.name.clone(), queue_counts(port)));
        let threads = programs::Threads::now(before.map(|look| &look.threads));
        let own = (!spaces.in_host()).then_some(spaces.own);
        let here = |pid: u32| own.is_none_or(|own| programs::namespace(&pid.to_string()) == Some(own));
        let processes = threads.processes().filter(|(pid, _)| here(*pid));
        Ok(Look {
            queues: queues.collect(),
            quotas: Quotas::now(Path::new("/"), processes, before.map(|look| &look.quotas)),
            conntrack: conntrack(),
            qdiscs: Rtnl::new().backlogs().unwrap_or_default(),
            indices: ports.iter().map(|port| (port.nic.name.clone(), port.nic.index)).collect(),
            interrupts: interrupts().unwrap_or_default(),
            softirqs: softirqs().unwrap_or_default(),
            threads,
            losses: losses::Losses::now(&mut spaces, before.map(|look| &look.losses)),
            spaces,
            elsewhere: Vec::new(),
            reading: Reading::read(Path::new("/"), &names),
            system: SystemStamp::now()?,
            at: Instant::now(),
        })
    }

    /// Adds the devices of all other network namespaces that this process may read.
    #[must_use]
    pub fn and_elsewhere(mut self) -> Look {
        Look { elsewhere: self.spaces.devices(), ..self }
    }

    /// Ports that have counters in this snapshot and none in a later one: removed, renamed or moved away.
    pub fn gone<'a>(&self, later: &Look, ports: &[&'a Port]) -> Vec<&'a str> {
        let had = |look: &Look, name: &str| look.reading.interfaces.contains_key(name);
        let names = ports.iter().map(|port| port.nic.name.as_str());
        names.filter(|name| had(self, name) && !had(later, name)).collect()
    }

    /// What happened between this snapshot and a later one.
    pub fn until(&self, later: &Look, ports: &[&Port]) -> Moment {
        let seconds = later.at.duration_since(self.at).as_secs_f64().max(1e-9);
        let here = ports.iter().map(|port| self.interface(later, port, seconds));
        Moment {
            seconds,
            cpus: self.cpus(later, seconds),
            interrupts: self.interrupts(later, ports, seconds),
            interfaces: here.chain(self.elsewhere(later, seconds)).collect(),
            programs: self.threads.until(&later.threads, seconds),
            losses: self.losses.until(&later.losses, self.all_qdiscs_lost(later), seconds),
            quotas: self.quotas.until(&later.quotas, seconds),
            conntrack: later.conntrack,
        }
    }

    fn qdiscs_of(&self, index: u32) -> impl Iterator<Item = &RawBacklog> {
        self.qdiscs.iter().filter(move |qdisc| qdisc.index == index)
    }

    /// Packets dropped at the root qdiscs of a link since their creation.
    fn qdisc_drops(&self, index: u32) -> u64 {
        self.qdiscs_of(index).map(|qdisc| u64::from(qdisc.drops)).sum()
    }

    /// Packets dropped at a link's root qdiscs between two snapshots; 0 if their kinds differ, because new qdiscs count
    /// from 0.
    fn qdisc_lost(&self, later: &Look, index: u32) -> u64 {
        let kinds = |look: &Look| look.qdiscs_of(index).map(|qdisc| qdisc.kind.clone()).collect::<Vec<_>>();
        let are_the_same = kinds(self) == kinds(later);
        if are_the_same { later.qdisc_drops(index).saturating_sub(self.qdisc_drops(index)) } else { 0 }
    }

    fn all_qdiscs_lost(&self, later: &Look) -> u64 {
        let indices: BTreeSet<u32> = later.qdiscs.iter().map(|qdisc| qdisc.index).collect();
        indices.into_iter().map(|index| self.qdisc_lost(later, index)).sum()
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
            ring_lost_per_s: RING_COUNTERS.iter().map(|counter| rate(counter)).fold(0.0, f64::max),
            dropped_per_s: rate("rx_dropped") + rate("tx_dropped"),
            unclaimed_per_s: (rate("rx_dropped") - by_driver).max(0.0),
            qdisc_lost_per_s: self.qdisc_lost(later, port.nic.index) as f64 / seconds,
            link_bps: port.carries_bps(),
            held_bps: {
                let rates = later.qdiscs_of(port.nic.index).filter_map(|qdisc| qdisc.rate);
                rates.max().map(|rate| 8.0 * rate as f64)
            },
            queues,
        }
    }

    /// Rates of devices of other namespaces that are in both snapshots.
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
    //! Values of a [`Look`] for monitoring: counters since boot, not rates.

    use super::Look;
    use crate::{rtnl::RING_COUNTERS, softnet::UdpCounters};
    use netcliff_core::metrics::{Counters, CpuCounters, InterfaceCounters};

    impl Look {
        /// The counters of this snapshot.
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
                    dropped_ring: RING_COUNTERS.iter().map(|counter| of(counter)).max().unwrap_or_default(),
                    dropped: [of("rx_dropped"), of("tx_dropped")],
                    dropped_qdisc: self.indices.get(name).map_or(0, |index| self.qdisc_drops(*index)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{nic::Nic, spaces::inside};
    use netcliff_testkit::{Need, has};
    use std::{net::UdpSocket, process::Command};

    /// Packets dropped by a token bucket count once, at the device, although IP counts them, too. The device's limit is
    /// the bucket's rate.
    #[test]
    fn a_token_bucket_loses_at_its_device_once() {
        if !has(Need::Netns) {
            return;
        }
        let space = format!("ncqdisc-{}", std::process::id());
        let run = |program: &str, args: &str| {
            let done = Command::new(program).args(["-n", &space]).args(args.split(' ')).status();
            assert!(done.is_ok_and(|status| status.success()), "{program} {args}");
        };
        assert!(Command::new("ip").args(["netns", "add", &space]).status().is_ok_and(|status| status.success()));
        run("ip", "link add d0 type veth peer name d1");
        run("ip", "addr add 10.83.0.1/24 dev d0");
        run("ip", "link set d0 up");
        run("ip", "link set d1 up");
        run("ip", "neigh add 10.83.0.2 lladdr 02:00:00:00:00:02 dev d0");
        run("tc", "qdisc add dev d0 root tbf rate 1mbit burst 3000 limit 5000");
        let watched = || {
            let index = Rtnl::new().links()?.into_iter().find(|link| link.name == "d0").map_or(0, |link| link.index);
            let port = Port { nic: Nic { name: "d0".into(), index, ..Nic::default() }, ..Port::default() };
            let before = Look::now(&[&port]).expect("counters");
            let socket = UdpSocket::bind("10.83.0.1:0")?;
            let sent = (0..200).filter(|_| socket.send_to(&[0; 1000], "10.83.0.2:9").is_ok()).count();
            let later = before.next(&[&port]).expect("counters");
            Ok::<_, std::io::Error>((sent, before.until(&later, &[&port]), later.qdisc_drops(index)))
        };
        let seen = inside(format!("/run/netns/{space}").as_ref(), watched);
        let _ = Command::new("ip").args(["netns", "delete", &space]).status();
        let (sent, moment, counted) = seen.expect("the namespace").expect("a device");
        let interface = &moment.interfaces[0];
        let lost = (interface.qdisc_lost_per_s * moment.seconds).round() as usize;
        assert!((150..=200).contains(&lost), "{lost} of {sent}: {moment:?}");
        assert!((moment.lost_per_s() - interface.qdisc_lost_per_s).abs() < 1e-6, "{:?}", moment.lost());
        assert_eq!((interface.held_bps, interface.link_bps), (Some(1e6), None));
        assert_eq!(counted, lost as u64);
        assert!(moment.lost()[0].starts_with("queueing discipline of d0: "), "{:?}", moment.lost());
    }
}
