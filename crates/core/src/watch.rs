//! What `netcliff watch` shows of a moment: [`Moment`], and the bottleneck, in words: [`Moment::bottleneck`].

use serde::{Deserialize, Serialize};

/// Share of a CPU from which it is called full. The rest goes to timers and to the granularity of the kernel's ticks.
const FULL: f64 = 0.9;
/// Share of the link from which it is called full.
const LINK_FULL: f64 = 0.95;
/// Share that the hypervisor may take before it is told.
const STOLEN: f64 = 0.1;

/// A host between two readings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moment {
    /// Time between the readings (s).
    pub seconds: f64,
    /// By CPU.
    pub cpus: Vec<CpuMoment>,
    /// By interrupt of an interface.
    pub interrupts: Vec<InterruptMoment>,
    /// By interface.
    pub interfaces: Vec<InterfaceMoment>,
}

/// A CPU; times as shares of what was counted on it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuMoment {
    /// Number.
    pub cpu: u32,
    /// User mode, niced included.
    pub user: f64,
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
    /// Packets processed (packets/s).
    pub packets_per_s: f64,
    /// Packets in a receive softirq, mean; None: there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_per_softirq: Option<f64>,
    /// Packets dropped at the backlog (packets/s).
    pub dropped_per_s: f64,
    /// Softirq rounds cut short (rounds/s).
    pub squeezed_per_s: f64,
}

impl CpuMoment {
    /// All but idle and steal.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }
}

/// An interrupt.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptMoment {
    /// Whose it is.
    pub interface: String,
    /// Number.
    pub number: u32,
    /// As the driver named it.
    pub name: String,
    /// Times it was taken (interrupts/s).
    pub per_s: f64,
    /// The CPU that took it most; None: it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceMoment {
    /// Name.
    pub name: String,
    /// The network namespace that it is in, where that is not the one of who watches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Received (packets/s).
    pub rx_pps: f64,
    /// Received (bit/s of frames as the driver counts them).
    pub rx_bps: f64,
    /// Sent (packets/s).
    pub tx_pps: f64,
    /// Sent (bit/s).
    pub tx_bps: f64,
    /// Lost at the ring (packets/s).
    pub ring_lost_per_s: f64,
    /// Dropped by the stack or the driver, both directions (packets/s).
    pub dropped_per_s: f64,
    /// Link speed (bit/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// By queue, where the driver counts so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueMoment>,
}

impl InterfaceMoment {
    /// The name, behind that of its namespace where it is in another: `nc-17-snd/veth0`.
    pub fn whole_name(&self) -> String {
        self.namespace.as_ref().map_or_else(|| self.name.clone(), |space| format!("{space}/{}", self.name))
    }

    /// Its receive queues, where the driver counts by queue.
    pub fn receive_queues(&self) -> impl Iterator<Item = &QueueMoment> {
        self.queues.iter().filter(|queue| queue.receive)
    }
}

/// A queue.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueMoment {
    /// Number within its kind.
    pub queue: u32,
    /// Receives.
    pub receive: bool,
    /// Packets/s.
    pub packets_per_s: f64,
    /// Lost at the queue (packets/s); None: not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_per_s: Option<f64>,
}

impl Moment {
    /// Packets lost at rings and backlogs (packets/s).
    pub fn lost_per_s(&self) -> f64 {
        let rings: f64 = self.interfaces.iter().map(|one| one.ring_lost_per_s).sum();
        rings + self.cpus.iter().map(|cpu| cpu.dropped_per_s).sum::<f64>()
    }

    /// The bottleneck, as a sentence: losses first, then what is full.
    pub fn bottleneck(&self) -> String {
        self.losses().or_else(|| self.full()).unwrap_or_else(|| match self.busiest() {
            Some(cpu) => format!(
                "nothing is at its limit; the busiest CPU is {} at {:.0} %, {:.0} % of it for packets",
                cpu.cpu,
                100.0 * cpu.busy(),
                if cpu.busy() > 0.0 { 100.0 * (cpu.irq + cpu.softirq) / cpu.busy() } else { 0.0 }
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
        let cpu = cpu.max_by(|a, b| a.dropped_per_s.total_cmp(&b.dropped_per_s))?;
        Some(format!(
            "the backlog of CPU {} loses {:.0} packets/s: protocol work gets too little of it ({:.0} % softirq)",
            cpu.cpu,
            cpu.dropped_per_s,
            100.0 * cpu.softirq
        ))
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
        let filled =
            |bps: f64, interface: &InterfaceMoment| interface.link_bps.is_some_and(|link| bps >= LINK_FULL * link);
        if let Some(one) = self.interfaces.iter().find(|one| filled(one.rx_bps.max(one.tx_bps), one)) {
            return Some(format!("the link of {} is full", one.name));
        }
        if let Some(cpu) = self.cpus.iter().find(|cpu| cpu.steal >= STOLEN) {
            return Some(format!("the hypervisor takes {:.0} % of CPU {}", 100.0 * cpu.steal, cpu.cpu));
        }
        if let Some(cpu) = self.cpus.iter().find(|cpu| cpu.squeezed_per_s > 0.0) {
            return Some(format!(
                "softirq rounds of CPU {} are cut short ({:.0} a second): budget or time of a round is used up",
                cpu.cpu, cpu.squeezed_per_s
            ));
        }
        let cpu = self.cpus.iter().find(|cpu| cpu.busy() >= FULL)?;
        Some(format!(
            "CPU {} is full, mostly with programs ({:.0} % user, {:.0} % kernel)",
            cpu.cpu,
            100.0 * cpu.user,
            100.0 * cpu.system
        ))
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
        Moment { seconds: 1.0, cpus: vec![cpu(0), cpu(1)], interrupts: vec![irq], interfaces: vec![interface] }
    }

    #[test]
    fn each_bottleneck_in_words() {
        type Change = fn(&mut Moment);
        let cases: [(Change, &str); 8] = [
            (|_| (), "nothing is at its limit; the busiest CPU is"),
            (
                |m| m.interfaces[0].ring_lost_per_s = 5.0,
                "ring of eth0 loses 5 packets/s; CPU 1 takes its interrupts and is 20 %",
            ),
            (|m| m.cpus[1].dropped_per_s = 7.0, "backlog of CPU 1 loses 7"),
            (|m| m.cpus[0].softirq = 0.95, "CPU 0 spends 95 % on interrupts"),
            (|m| m.interfaces[0].tx_bps = 0.97e9, "link of eth0 is full"),
            (|m| m.cpus[1].steal = 0.3, "hypervisor takes 30 % of CPU 1"),
            (|m| m.cpus[1].squeezed_per_s = 3.0, "CPU 1 are cut short (3 a second)"),
            (|m| m.cpus[0].user = 0.9, "CPU 0 is full, mostly with programs"),
        ];
        for (change, words) in cases {
            let mut moment = moment();
            change(&mut moment);
            assert!(moment.bottleneck().contains(words), "{}", moment.bottleneck());
        }
        assert_eq!(Moment::default().bottleneck(), "nothing was counted");
    }

    #[test]
    fn losses_come_before_what_is_full() {
        let mut moment = moment();
        moment.cpus[0].softirq = 0.95;
        moment.cpus[0].dropped_per_s = 1.0;
        assert!(moment.bottleneck().contains("backlog"));
    }
}
