//! [`Moment`]: result of `netcliff watch` for one interval, and its bottleneck as a sentence ([`Moment::bottleneck`]).

use serde::{Deserialize, Serialize};

use crate::outcome::CpuShares;
use crate::traffic::{FCS_BYTES, WIRE_OVERHEAD_BYTES};

/// Busy share from which a CPU counts as full. It is below 1 because of timers and of the coarse ticks of the kernel.
const FULL: f64 = 0.9;
/// Share of the link from which it counts as full.
const LINK_FULL: f64 = 0.95;
/// Share of a CPU's time taken by the hypervisor (steal) from which [`Moment::bottleneck`] reports it.
const STOLEN: f64 = 0.1;

/// Activity of a host between two readings of its counters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// Time between the readings (s).
    pub seconds: f64,
    /// One entry per CPU.
    pub cpus: Vec<CpuMoment>,
    /// One entry per interrupt of an interface.
    pub interrupts: Vec<InterruptMoment>,
    /// One entry per interface.
    pub interfaces: Vec<InterfaceMoment>,
    /// Programs with the most CPU time, at most three per CPU: by CPU, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramMoment>,
    /// Losses of sockets and protocols in the network namespace. Losses of rings and backlogs are in `interfaces` and
    /// `cpus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<LossMoment>,
    /// Cgroups with a CPU quota whose programs ran, the largest share of the quota first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaMoment>,
    /// Connection tracking of the network namespace; absent: the kernel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conntrack: Option<ConntrackMoment>,
}

/// The connection tracking table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConntrackMoment {
    /// Number of tracked connections.
    pub entries: u64,
    /// Size of the table (`net.netfilter.nf_conntrack_max`).
    pub most: u64,
}

impl ConntrackMoment {
    /// Connections divided by the size; 0 without a limit.
    pub fn share(&self) -> f64 {
        if self.most == 0 { 0.0 } else { self.entries as f64 / self.most as f64 }
    }

    /// For instance `connection tracking has 900 of 1000 entries`.
    pub fn sentence(&self) -> String {
        format!("connection tracking has {} of {} entries", self.entries, self.most)
    }
}

/// A cgroup with a CPU quota (`cpu.max`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuotaMoment {
    /// Its path below the cgroup mount.
    pub group: String,
    /// CPU time it may use (CPUs).
    pub cpus: f64,
    /// CPU time its programs used (CPUs).
    pub used: f64,
    /// Share of the quota's periods in which the group's programs had to wait for the next period.
    pub throttled: f64,
}

impl QuotaMoment {
    /// Load relative to the quota: the larger of time used / time allowed and `throttled`, at most 1.
    pub fn share(&self) -> f64 {
        (self.used / self.cpus).max(self.throttled).min(1.0)
    }

    /// Returns a sentence such as `cgroup /box: 0.48 of 0.50 CPUs used, its programs wait in 90 % of the periods`.
    pub fn sentence(&self) -> String {
        let Self { group, cpus, used, throttled } = self;
        let waits = match throttled {
            0.0 => String::new(),
            share => format!(", its programs wait in {:.0} % of the periods", (100.0 * share).max(1.0)),
        };
        format!("cgroup {group}: {used:.2} of {cpus:.2} CPUs used{waits}")
    }
}

/// A program on a CPU. A thread counts on the CPU where it ran last.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramMoment {
    /// The CPU.
    pub cpu: u32,
    /// Process ID.
    pub pid: u32,
    /// The process's name in the kernel.
    pub name: String,
    /// CPU time of its threads on this CPU, as a share of one CPU.
    pub share: f64,
    /// CPU time of its busiest thread on this CPU; at most 1.
    pub busiest_thread: f64,
    /// TCP and UDP sockets of the program, listening sockets first, at most three: `udp 0.0.0.0:53`. Absent: not looked
    /// up, or not permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<Vec<String>>,
    /// Number of further sockets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_sockets: u64,
    /// True: the program is not in the watched network namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ProgramMoment {
    /// True if it has TCP or UDP sockets in the network namespace that is watched.
    pub fn serves(&self) -> bool {
        !self.elsewhere && self.sockets.as_ref().is_some_and(|sockets| !sockets.is_empty())
    }

    /// Returns a sentence such as `dnsmasq (pid 123, udp 0.0.0.0:53): 94 % of CPU 1`.
    pub fn sentence(&self) -> String {
        format!("{}: {:.0} % of CPU {}", self.title(), 100.0 * self.share, self.cpu)
    }

    /// Returns name, process ID and sockets, such as `dnsmasq (pid 123, udp 0.0.0.0:53)`.
    pub fn title(&self) -> String {
        let sockets = match &self.sockets {
            _ if self.elsewhere => ", in another network namespace".to_owned(),
            None => String::new(),
            Some(sockets) if sockets.is_empty() => ", no socket of TCP or UDP".to_owned(),
            Some(sockets) => format!(", {}", sockets.join(", ")),
        };
        let more = if self.more_sockets > 0 { format!(" and {} more", self.more_sockets) } else { String::new() };
        format!("{} (pid {}{sockets}{more})", self.name, self.pid)
    }
}

/// Packets or connections that sockets or a protocol lost because a queue was full.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LossMoment {
    /// The reason, as in the metrics: `udp_receive_buffer`, `udp_memory`, `listen_queue`, `tcp_backlog`,
    /// `tcp_receive_buffer`, `ip_discards` or `device`.
    pub reason: String,
    /// The reason in words.
    pub words: String,
    /// The network namespace; absent: the watched one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Losses per second.
    pub per_s: f64,
    /// The sockets with the largest losses, at most three; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<SocketLoss>,
}

impl LossMoment {
    /// Returns a sentence such as
    /// `receive buffers of UDP sockets: 31000/s (udp 0.0.0.0:53 of dnsmasq (pid 123), 31000)`.
    pub fn sentence(&self) -> String {
        let each: Vec<String> = self.sockets.iter().map(SocketLoss::title).collect();
        let who = if each.is_empty() { String::new() } else { format!(" ({})", each.join("; ")) };
        let namespace = self.namespace.as_ref().map_or_else(String::new, |name| format!(" in {name}"));
        format!("{}{namespace}: {}/s{who}", self.words, rounded(self.per_s))
    }
}

/// A socket that lost packets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketLoss {
    /// Protocol and address: `udp 0.0.0.0:53`.
    pub socket: String,
    /// Losses per second.
    pub per_s: f64,
    /// ID of the socket's process; absent: not found, or not permitted to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Name of its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl SocketLoss {
    fn title(&self) -> String {
        let of = match (&self.program, self.pid) {
            (Some(program), Some(pid)) => format!(" of {program} (pid {pid})"),
            _ => String::new(),
        };
        format!("{}{of}: {}", self.socket, rounded(self.per_s))
    }
}

/// A rate for a sentence: a whole number, or with one decimal below 10.
fn rounded(per_s: f64) -> String {
    if per_s < 10.0 { format!("{:.1}", per_s.max(0.1)) } else { format!("{per_s:.0}") }
}

/// Activity of a CPU; times are shares of the time counted on it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuMoment {
    /// Number of the CPU.
    pub cpu: u32,
    /// User mode, niced programs included.
    pub user: f64,
    /// Part of `user` of niced programs, which yield to others.
    #[serde(default)]
    pub niced: f64,
    /// Kernel mode.
    pub system: f64,
    /// Hard interrupts.
    pub irq: f64,
    /// Softirqs.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle, waiting for disks included.
    pub idle: f64,
    /// Packets processed (packets/s): a packet counts once for each device of this host that receives it (bridge, bond,
    /// VLAN, veth); packets that GRO merges count as one.
    pub packets_per_s: f64,
    /// Mean number of packets per receive softirq; None: there was no softirq.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_softirq: Option<f64>,
    /// Packets dropped at the backlog (packets/s).
    pub dropped_per_s: f64,
    /// Softirq rounds that ended with work left (rounds/s).
    pub squeezed_per_s: f64,
}

impl CpuMoment {
    /// Share of the time that it was busy: all but idle and steal.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// Activity of an interrupt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptMoment {
    /// The interface it belongs to.
    pub interface: String,
    /// Number of the interrupt.
    pub number: u32,
    /// Its name, given by the driver.
    pub name: String,
    /// Interrupts per second.
    pub per_s: f64,
    /// The CPU that handled most of these interrupts; None: there were no interrupts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

/// Activity of an interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceMoment {
    /// Name of the interface.
    pub name: String,
    /// Its network namespace; absent: the namespace of the watching process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Packets received (packets/s).
    pub rx_pps: f64,
    /// Bits received (bit/s), of frames as the driver counts them.
    pub rx_bps: f64,
    /// Packets sent (packets/s).
    pub tx_pps: f64,
    /// Bits sent (bit/s), of frames as the driver counts them.
    pub tx_bps: f64,
    /// Packets lost at the receive ring (packets/s).
    pub ring_lost_per_s: f64,
    /// Packets dropped by stack or driver, both directions (packets/s).
    pub dropped_per_s: f64,
    /// Part of `dropped_per_s` that was received and that the driver did not drop (packets/s): frames of protocols
    /// without a receiver on this host, such as LLDP. Includes frames dropped at a full backlog, which
    /// [`CpuMoment::dropped_per_s`] also counts.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub unclaimed_per_s: f64,
    /// Packets dropped at the device's queueing disciplines when sending (packets/s).
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub qdisc_lost_per_s: f64,
    /// Link speed (bit/s); absent: not reported, or a virtual link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// Rate limit of a token bucket (tc-tbf) when sending (bit/s); absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bps: Option<f64>,
    /// Activity of each queue, if the driver counts by queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueMoment>,
}

fn is_nothing(rate: &f64) -> bool {
    *rate == 0.0
}

impl InterfaceMoment {
    /// Packets lost by the driver, or when sending (packets/s).
    fn lost_per_s(&self) -> f64 {
        (self.dropped_per_s - self.unclaimed_per_s).max(0.0)
    }

    /// Load relative to capacity: received and sent rate relative to the link speed, and sent rate relative to the rate
    /// limit.
    pub fn fillings(&self) -> impl Iterator<Item = LinkFilling> + '_ {
        let of_link = |sent, bytes_bps: f64, pps: f64| {
            let bps = bytes_bps + 8.0 * (FCS_BYTES + WIRE_OVERHEAD_BYTES) * pps;
            let limit_bps = self.link_bps.filter(|limit| *limit > 0.0)?;
            Some(LinkFilling { interface: self.whole_name(), sent, held: false, bps, limit_bps })
        };
        let held = self.held_bps.filter(|limit| *limit > 0.0).map(|limit_bps| LinkFilling {
            interface: self.whole_name(),
            sent: true,
            held: true,
            bps: self.tx_bps,
            limit_bps,
        });
        let link = [of_link(false, self.rx_bps, self.rx_pps), of_link(true, self.tx_bps, self.tx_pps)];
        link.into_iter().flatten().chain(held)
    }

    /// The interface's name; in another network namespace, preceded by the namespace's name: `nc-17-snd/veth0`.
    pub fn whole_name(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.name.clone(), |space| format!("{space}/{}", self.name))
    }

    /// Returns the device's receive queues; empty if the driver does not count by queue.
    pub fn receive_queues(&self) -> impl Iterator<Item = &QueueMoment> {
        self.queues.iter().filter(|queue| queue.receive)
    }
}

/// Load and capacity of an interface in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkFilling {
    /// Name of the interface.
    pub interface: String,
    /// True: load and capacity of sending; false: of receiving.
    pub sent: bool,
    /// True: the limit is the rate of a token bucket (tc-tbf); false: the link speed.
    pub held: bool,
    /// Load (bit/s); if the limit is the link speed, with check sequence, preamble and gap.
    pub bps: f64,
    /// Capacity (bit/s).
    pub limit_bps: f64,
}

impl LinkFilling {
    /// Load divided by capacity.
    pub fn share(&self) -> f64 {
        self.bps / self.limit_bps
    }
}

/// Activity of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueMoment {
    /// Number of the queue; receive and transmit queues are numbered separately.
    pub queue: u32,
    /// True: a receive queue; false: a transmit queue.
    pub receive: bool,
    /// Packets per second.
    pub packets_per_s: f64,
    /// Packets lost at the queue (packets/s); None: not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_per_s: Option<f64>,
}

impl Moment {
    /// Losses at rings, backlogs, devices, sockets and protocols (packets/s), each counted once. A connection that a
    /// full accept queue refuses counts as one loss.
    pub fn lost_per_s(&self) -> f64 {
        let rings: f64 = self.interfaces.iter().map(|one| one.ring_lost_per_s + one.qdisc_lost_per_s).sum();
        let sockets: f64 = self.losses.iter().map(|loss| loss.per_s).sum();
        rings + self.backlogs_lost_per_s() + self.devices_lost_per_s() + sockets
    }

    fn backlogs_lost_per_s(&self) -> f64 {
        self.cpus.iter().map(|cpu| cpu.dropped_per_s).sum()
    }

    /// Packets lost at devices (packets/s), without the packets lost at backlogs, which a veth pair also counts at its
    /// sending end.
    fn devices_lost_per_s(&self) -> f64 {
        let devices: f64 = self.interfaces.iter().map(InterfaceMoment::lost_per_s).sum();
        (devices - self.backlogs_lost_per_s()).max(0.0)
    }

    /// Returns one sentence for each place where packets are lost; empty if nothing is lost.
    pub fn lost(&self) -> Vec<String> {
        let rings = self.interfaces.iter().filter(|one| one.ring_lost_per_s > 0.0);
        let rings = rings.map(|one| format!("ring of {}: {}/s", one.whole_name(), rounded(one.ring_lost_per_s)));
        let qdiscs = self.interfaces.iter().filter(|one| one.qdisc_lost_per_s > 0.0);
        let qdiscs = qdiscs
            .map(|one| format!("queueing discipline of {}: {}/s", one.whole_name(), rounded(one.qdisc_lost_per_s)));
        let backlogs = self.cpus.iter().filter(|cpu| cpu.dropped_per_s > 0.0);
        let backlogs = backlogs.map(|cpu| format!("backlog of CPU {}: {}/s", cpu.cpu, rounded(cpu.dropped_per_s)));
        let at_devices = self.devices_lost_per_s() > 0.0;
        let devices = self.interfaces.iter().filter(|one| at_devices && one.lost_per_s() > 0.0);
        let devices = devices.map(|one| format!("device {}: {}/s", one.whole_name(), rounded(one.lost_per_s())));
        let sockets = self.losses.iter().map(LossMoment::sentence);
        sockets.chain(rings).chain(qdiscs).chain(backlogs).chain(devices).collect()
    }

    /// Frames that devices dropped without a loss to any service, one sentence each.
    pub fn unclaimed(&self) -> Vec<String> {
        let all: f64 = self.interfaces.iter().map(|one| one.unclaimed_per_s).sum();
        // Packets dropped at backlogs are included in the devices' counts.
        let of_protocols = all > self.backlogs_lost_per_s();
        let devices = self.interfaces.iter().filter(|one| of_protocols && one.unclaimed_per_s > 0.0);
        let sentence = |one: &InterfaceMoment| {
            format!(
                "device {}: {} frames/s of protocols that nothing here takes, such as LLDP (`netcliff drops` names them)",
                one.whole_name(),
                rounded(one.unclaimed_per_s)
            )
        };
        devices.map(sentence).collect()
    }

    /// The programs on a CPU, largest share first.
    pub fn programs_of(&self, cpu: u32) -> impl Iterator<Item = &ProgramMoment> {
        self.programs.iter().filter(move |program| program.cpu == cpu)
    }

    /// The bottleneck as a sentence: a loss if there is one, otherwise a part at its limit.
    pub fn bottleneck(&self) -> String {
        self.losses().or_else(|| self.full()).unwrap_or_else(|| match self.busiest() {
            Some(cpu) if cpu.busy() < CpuShares::LEAST_PRINTED => {
                "nothing is at its limit; all CPUs are idle".to_owned()
            }
            Some(cpu) => format!(
                "nothing is at its limit; CPU {} is the busiest: {:.0} %, of which packets take {:.0} %",
                cpu.cpu,
                100.0 * cpu.busy(),
                100.0 * (cpu.irq + cpu.softirq)
            ),
            None => "nothing was counted".to_owned(),
        })
    }

    fn busiest(&self) -> Option<&CpuMoment> {
        self.cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()))
    }

    fn losses(&self) -> Option<String> {
        if let Some(interface) = self.interfaces.iter().find(|interface| interface.ring_lost_per_s > 0.0) {
            let of = self.interrupts.iter().filter(|irq| irq.interface == interface.name && irq.cpu.is_some());
            let of = of.filter(|_| interface.namespace.is_none());
            let taker = of.max_by(|a, b| a.per_s.total_cmp(&b.per_s)).and_then(|irq| irq.cpu);
            let taker = taker.and_then(|cpu| self.cpus.iter().find(|one| one.cpu == cpu));
            let who = taker
                .map(|cpu| format!("; CPU {} takes its interrupts and is {:.0} % busy", cpu.cpu, 100.0 * cpu.busy()));
            return Some(format!(
                "the ring of {} loses {:.0} packets/s{}",
                interface.whole_name(),
                interface.ring_lost_per_s,
                who.unwrap_or_default()
            ));
        }
        let cpu = self.cpus.iter().filter(|cpu| cpu.dropped_per_s > 0.0);
        if let Some(cpu) = cpu.max_by(|a, b| a.dropped_per_s.total_cmp(&b.dropped_per_s)) {
            return Some(format!(
                "the backlog of CPU {} loses {:.0} packets/s: protocol work gets too little CPU time ({:.0} % in softirqs)",
                cpu.cpu,
                cpu.dropped_per_s,
                100.0 * cpu.softirq
            ));
        }
        let qdisc = self.interfaces.iter().max_by(|a, b| a.qdisc_lost_per_s.total_cmp(&b.qdisc_lost_per_s));
        if let Some(one) = qdisc.filter(|one| one.qdisc_lost_per_s > 0.0) {
            let lost = rounded(one.qdisc_lost_per_s);
            let held = one.held_bps.map_or("", |_| ", which a token bucket (tc) holds to a rate,");
            return Some(format!("the queueing discipline of {}{held} loses {lost} packets/s", one.whole_name()));
        }
        let most = self.losses.iter().max_by(|a, b| a.per_s.total_cmp(&b.per_s));
        if let Some(loss) = most {
            let reader = loss.sockets.first().and_then(|socket| socket.pid);
            let reader = reader.and_then(|pid| self.programs.iter().find(|program| program.pid == pid));
            let reader = reader.map(|it| format!("; {} has {:.0} % of CPU {}", it.name, 100.0 * it.share, it.cpu));
            return Some(format!("packets are lost at {}{}", loss.sentence(), reader.unwrap_or_default()));
        }
        let device = self.interfaces.iter().max_by(|a, b| a.lost_per_s().total_cmp(&b.lost_per_s()));
        let device = device.filter(|_| self.devices_lost_per_s() > 0.0)?;
        let name = device.whole_name();
        Some(format!("the device {name} drops {} packets/s: `netcliff drops` says why", rounded(device.lost_per_s())))
    }

    fn full(&self) -> Option<String> {
        let packets = |cpu: &&CpuMoment| cpu.irq + cpu.softirq >= FULL;
        if let Some(cpu) = self.cpus.iter().find(packets) {
            return Some(format!(
                "CPU {} spends {:.0} % on interrupts and softirqs: reception is at its limit there",
                cpu.cpu,
                100.0 * (cpu.irq + cpu.softirq)
            ));
        }
        let links = self.interfaces.iter().flat_map(InterfaceMoment::fillings);
        if let Some(one) = links.max_by(|a, b| a.share().total_cmp(&b.share())).filter(|one| one.share() >= LINK_FULL) {
            let of = if one.held { "rate that a token bucket (tc) leaves to" } else { "link of" };
            return Some(format!("the {of} {} is full", one.interface));
        }
        if let Some(table) = self.conntrack.filter(|table| table.share() >= FULL) {
            return Some(format!("{}: a new connection is refused when it is full", table.sentence()));
        }
        if let Some(quota) = self.quotas.iter().find(|quota| quota.share() >= FULL) {
            return Some(format!("the CPU quota (cpu.max) is used up of {}", quota.sentence()));
        }
        if let Some(cpu) = self.cpus.iter().find(|cpu| cpu.steal >= STOLEN) {
            return Some(format!("the hypervisor takes {:.0} % of CPU {}", 100.0 * cpu.steal, cpu.cpu));
        }
        if let Some(cpu) = self.cpus.iter().find(|cpu| cpu.squeezed_per_s > 0.0) {
            return Some(format!(
                "softirq rounds of CPU {} are cut short ({:.0}/s): budget or time of a round is used up",
                cpu.cpu, cpu.squeezed_per_s
            ));
        }
        let thread = self.programs.iter().filter(|program| program.serves() && program.busiest_thread >= FULL);
        let thread = thread.max_by(|a, b| a.busiest_thread.total_cmp(&b.busiest_thread));
        // If several CPUs are full, the sentence names a CPU that runs a program with sockets: it explains more.
        let serves = |cpu: &&&CpuMoment| self.programs_of(cpu.cpu).next().is_some_and(ProgramMoment::serves);
        let full: Vec<&CpuMoment> = self.cpus.iter().filter(|cpu| cpu.busy() >= FULL).collect();
        match full.iter().find(serves).or(full.first()) {
            Some(cpu) => {
                let programs: Vec<String> = self.programs_of(cpu.cpu).map(ProgramMoment::sentence).collect();
                let programs = if programs.is_empty() { String::new() } else { format!(": {}", programs.join("; ")) };
                Some(format!(
                    "CPU {} is full, mostly with programs ({:.0} % user, {:.0} % kernel){programs}",
                    cpu.cpu,
                    100.0 * cpu.user,
                    100.0 * cpu.system
                ))
            }
            None => thread.map(|program| {
                format!("a thread of {} has all that one thread can have ({})", program.name, program.sentence())
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Moment {
        let cpu = |cpu| CpuMoment { cpu, user: 0.1, softirq: 0.1, idle: 0.8, ..CpuMoment::default() };
        let interface = InterfaceMoment { name: "eth0".into(), link_bps: Some(1e9), ..InterfaceMoment::default() };
        let irq =
            InterruptMoment { interface: "eth0".into(), number: 40, per_s: 9.0, cpu: Some(1), ..Default::default() };
        let (cpus, interrupts, interfaces) = (vec![cpu(0), cpu(1)], vec![irq], vec![interface]);
        Moment { seconds: 1.0, cpus, interrupts, interfaces, ..Moment::default() }
    }

    fn dnsmasq(cpu: u32, share: f64) -> ProgramMoment {
        let sockets = Some(vec!["udp 0.0.0.0:53".to_owned()]);
        ProgramMoment {
            cpu,
            pid: 7,
            name: "dnsmasq".into(),
            share,
            busiest_thread: share,
            sockets,
            ..Default::default()
        }
    }

    /// dnsmasq's socket lost 31 000 packets per second.
    fn at_the_socket() -> LossMoment {
        let socket =
            SocketLoss { socket: "udp 0.0.0.0:53".into(), per_s: 31e3, pid: Some(7), program: Some("dnsmasq".into()) };
        let words = "receive buffers of UDP sockets".to_owned();
        LossMoment { reason: "udp_receive_buffer".into(), words, per_s: 31e3, sockets: vec![socket], namespace: None }
    }

    #[test]
    fn losses_at_sockets_are_named_and_counted_once() {
        let mut moment = moment();
        moment.losses = vec![at_the_socket()];
        moment.programs = vec![dnsmasq(1, 0.97)];
        let said = moment.bottleneck();
        for word in ["receive buffers of UDP sockets: 31000/s", "udp 0.0.0.0:53 of dnsmasq (pid 7)", "97 % of CPU 1"] {
            assert!(said.contains(word), "{said}");
        }
        // The kernel counts a packet that the backlog drops also as dropped by the device.
        moment.cpus[0].dropped_per_s = 40.0;
        moment.interfaces[0].dropped_per_s = 50.0;
        assert!((moment.lost_per_s() - 31_050.0).abs() < 1e-6, "{}", moment.lost_per_s());
        assert_eq!(moment.lost().len(), 3, "{:?}", moment.lost());
        moment.interfaces[0].dropped_per_s = 40.0;
        assert_eq!(moment.lost().len(), 2, "{:?}", moment.lost());
    }

    /// LLDP and spanning tree frames reach every port; no service loses anything if they are dropped. Packets dropped
    /// by the driver or when sending are losses.
    #[test]
    fn frames_that_nobody_takes_are_no_loss() {
        let mut moment = moment();
        (moment.interfaces[0].dropped_per_s, moment.interfaces[0].unclaimed_per_s) = (20.0, 20.0);
        assert_eq!((moment.lost_per_s(), moment.lost()), (0.0, Vec::new()));
        assert!(moment.bottleneck().starts_with("nothing is at its limit"), "{}", moment.bottleneck());
        assert!(moment.unclaimed()[0].starts_with("device eth0: 20 frames/s"), "{:?}", moment.unclaimed());
        moment.interfaces[0].dropped_per_s = 25.0;
        assert_eq!((moment.lost_per_s(), moment.lost()[0].as_str()), (5.0, "device eth0: 5.0/s"));
        // The device's count of dropped packets includes the packets dropped at the backlog.
        moment.cpus[0].dropped_per_s = 20.0;
        assert!(moment.unclaimed().is_empty(), "{:?}", moment.unclaimed());
    }

    #[test]
    fn full_cpus_and_threads_have_a_name() {
        let mut moment = moment();
        (moment.cpus[0].user, moment.cpus[1].user) = (0.9, 0.85);
        moment.programs =
            vec![ProgramMoment { cpu: 0, name: "gen".into(), elsewhere: true, ..dnsmasq(0, 0.98) }, dnsmasq(1, 0.94)];
        let said = moment.bottleneck();
        assert!(
            said.contains("CPU 1 is full") && said.contains("dnsmasq (pid 7, udp 0.0.0.0:53): 94 % of CPU 1"),
            "{said}"
        );
        // One thread that moves between two half-idle CPUs.
        let cpu = |cpu| CpuMoment { cpu, user: 0.5, idle: 0.5, ..CpuMoment::default() };
        moment.cpus = vec![cpu(0), cpu(1)];
        let said = moment.bottleneck();
        assert!(said.contains("a thread of dnsmasq has all"), "{said}");
    }

    #[test]
    fn each_bottleneck_in_words() {
        type Change = fn(&mut Moment);
        let cases: [(Change, &str); 13] = [
            (|_| (), "nothing is at its limit; CPU 1 is the busiest"),
            (
                |m| m.interfaces[0].ring_lost_per_s = 5.0,
                "ring of eth0 loses 5 packets/s; CPU 1 takes its interrupts and is 20 %",
            ),
            (|m| m.cpus[1].dropped_per_s = 7.0, "backlog of CPU 1 loses 7"),
            (|m| m.cpus[0].softirq = 0.95, "CPU 0 spends 95 % on interrupts"),
            (|m| m.interfaces[0].tx_bps = 0.97e9, "link of eth0 is full"),
            // A frame has 60 bytes, and 84 on the wire.
            (|m| (m.interfaces[0].rx_bps, m.interfaces[0].rx_pps) = (0.69e9, 1.44e6), "link of eth0 is full"),
            (
                |m| (m.interfaces[0].held_bps, m.interfaces[0].tx_bps) = (Some(2e7), 1.99e7),
                "the rate that a token bucket (tc) leaves to eth0 is full",
            ),
            (|m| m.interfaces[0].qdisc_lost_per_s = 9.0, "queueing discipline of eth0 loses 9.0 packets/s"),
            (
                |m| m.conntrack = Some(ConntrackMoment { entries: 950, most: 1000 }),
                "connection tracking has 950 of 1000 entries: a new",
            ),
            (
                |m| m.quotas = vec![QuotaMoment { group: "/box".into(), cpus: 0.5, used: 0.3, throttled: 0.95 }],
                "used up of cgroup /box: 0.30 of 0.50 CPUs used, its programs wait in 95 % of the periods",
            ),
            (|m| m.cpus[1].steal = 0.3, "hypervisor takes 30 % of CPU 1"),
            (|m| m.cpus[1].squeezed_per_s = 3.0, "CPU 1 are cut short (3/s)"),
            (|m| m.cpus[0].user = 0.9, "CPU 0 is full, mostly with programs"),
        ];
        for (change, words) in cases {
            let mut moment = moment();
            change(&mut moment);
            assert!(moment.bottleneck().contains(words), "{}", moment.bottleneck());
        }
        assert_eq!(Moment::default().bottleneck(), "nothing was counted");
        let idle = Moment { cpus: vec![CpuMoment { idle: 1.0, ..CpuMoment::default() }], ..moment() };
        assert_eq!(idle.bottleneck(), "nothing is at its limit; all CPUs are idle");
    }

    #[test]
    fn losses_come_before_what_is_full() {
        let mut moment = moment();
        moment.cpus[0].softirq = 0.95;
        moment.cpus[0].dropped_per_s = 1.0;
        assert!(moment.bottleneck().contains("backlog"));
    }
}
