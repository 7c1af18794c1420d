//! On which CPUs a port's received packets are processed ([`shares`]), at present and after a plan: a pure function.

use super::Step;
use crate::{
    inspect::{Direction, Port, QueuePath},
    procfs::{cpu_list, cpus_of_mask},
    setting::Setting,
};
use std::{collections::BTreeMap, path::Path};

/// Share of a port's packets by the CPU of their protocol work, after `steps` (empty: at present). Every receive queue
/// has an equal share of the packets. With RPS a queue's share is divided equally among the CPUs of its mask, which
/// hashes flows onto them (Documentation/networking/scaling.rst); otherwise it is processed by the CPU of the queue's
/// interrupt. `None` if a queue has neither RPS nor an interrupt (for a virtual device the CPU that sends does the
/// work), or if these are unknown.
pub fn shares(port: &Port, steps: &[Step]) -> Option<BTreeMap<u32, f64>> {
    let queues: Vec<u32> = receive_paths(port).map(|path| path.queue).collect();
    let queues = if queues.is_empty() { (0..port.nic.rps_cpus.len() as u32).collect() } else { queues };
    let mut shares = BTreeMap::new();
    for queue in &queues {
        let cpus = workers(port, *queue, steps)?;
        for cpu in &cpus {
            *shares.entry(*cpu).or_insert(0.0) += 1.0 / (queues.len() * cpus.len()) as f64;
        }
    }
    (!shares.is_empty()).then_some(shares)
}

/// Whether a step of a plan determines where a port's received packets are processed.
pub fn places(port: &Port, step: &Step) -> bool {
    irq_of(port, step).is_some_and(|irq| receive_paths(port).any(|path| path.irq == Some(irq)))
        || (0..port.nic.rps_cpus.len() as u32).any(|queue| is_mask(port, queue, step))
}

fn receive_paths(port: &Port) -> impl Iterator<Item = &QueuePath> {
    port.queues.iter().filter(|path| path.direction == Direction::Receive)
}

/// CPUs that process a queue's packets; `None` if unknown.
fn workers(port: &Port, queue: u32, steps: &[Step]) -> Option<Vec<u32>> {
    let planned = steps.iter().find(|step| is_mask(port, queue, step)).map(|step| step.proposal.new.as_str());
    let mask = planned.or_else(|| port.nic.rps_cpus.get(queue as usize).map(String::as_str));
    let steered = mask.and_then(cpus_of_mask).unwrap_or_default();
    if !steered.is_empty() {
        return Some(steered);
    }
    let path = receive_paths(port).find(|path| path.queue == queue)?;
    let moved = steps.iter().find(|step| path.irq.is_some() && irq_of(port, step) == path.irq);
    let cpus = match moved {
        Some(step) => cpu_list(&step.proposal.new)?,
        None => path.cpus.clone(),
    };
    // Of several CPUs that may handle an interrupt only one does at a time.
    Some(vec![*cpus.first()?])
}

/// The interrupt whose CPUs a step sets; `None` for other steps.
fn irq_of(port: &Port, step: &Step) -> Option<u32> {
    match &step.setting {
        Setting::Interrupt { interface, name } if *interface == port.nic.name => {
            port.irqs.iter().find(|irq| irq.name == *name).map(|irq| irq.number)
        }
        Setting::File { path } if path.ends_with("smp_affinity_list") => {
            let number = path.parent()?.file_name()?.to_str()?.parse().ok()?;
            port.irqs.iter().any(|irq| irq.number == number).then_some(number)
        }
        _ => None,
    }
}

fn is_mask(port: &Port, queue: u32, step: &Step) -> bool {
    let file = Path::new("/sys/class/net").join(&port.nic.name).join(format!("queues/rx-{queue}/rps_cpus"));
    step.setting == Setting::file(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{inspect::Irq, nic::Nic};
    use proptest::prelude::*;

    /// Queue n has interrupt 40 + n, named `eth0-n`, on a CPU of `cpus`.
    fn port(cpus: &[u32], masks: &[&str]) -> Port {
        let irq = |(number, cpu): (u32, &u32)| Irq {
            number,
            name: format!("eth0-{}", number - 40),
            direction: Some(Direction::Both),
            effective: vec![*cpu],
            ..Irq::default()
        };
        let path = |irq: &Irq| QueuePath {
            direction: Direction::Receive,
            queue: irq.number - 40,
            napi_id: None,
            irq: Some(irq.number),
            cpus: irq.effective.clone(),
        };
        let irqs: Vec<Irq> = (40..).zip(cpus).map(irq).collect();
        let rps_cpus = masks.iter().map(|mask| (*mask).to_owned()).collect();
        let nic = Nic { name: "eth0".into(), rps_cpus, ..Nic::default() };
        Port { nic, queues: irqs.iter().map(path).collect(), irqs, far_end: None }
    }

    fn pinned(name: &str, cpu: &str) -> Step {
        let setting = Setting::Interrupt { interface: "eth0".into(), name: name.into() };
        Step::new(setting, "0-7", cpu, "a test", "none")
    }

    fn steered(queue: u32, mask: &str) -> Step {
        Step::new(Setting::file(format!("/sys/class/net/eth0/queues/rx-{queue}/rps_cpus")), "0", mask, "a test", "none")
    }

    #[test]
    fn as_it_is_and_as_planned() {
        let port = port(&[0, 0], &["0", "00000000"]);
        assert_eq!(shares(&port, &[]), Some([(0, 1.0)].into()));
        let by_number = Step::new(Setting::file("/proc/irq/41/smp_affinity_list"), "0-7", "3", "a test", "none");
        for moved in [pinned("eth0-1", "3"), by_number] {
            assert!(places(&port, &moved));
            assert_eq!(shares(&port, &[moved]), Some([(0, 0.5), (3, 0.5)].into()));
        }
        // RPS takes precedence over the interrupt; an empty mask means no RPS.
        let plan = [pinned("eth0-0", "2"), steered(0, "0000000a"), steered(1, "0")];
        assert!(plan.iter().all(|step| places(&port, step)));
        assert_eq!(shares(&port, &plan), Some([(0, 0.5), (1, 0.25), (3, 0.25)].into()));
        let other = Setting::Interrupt { interface: "eth1".into(), name: "eth0-1".into() };
        assert!(!places(&port, &Step::new(other, "0", "1", "a test", "none")));
        assert!(!places(&port, &steered(2, "1")));
    }

    /// Packets without an interrupt are processed by the CPU that sends them, unless RPS moves them.
    #[test]
    fn virtual_devices() {
        let mut veth = port(&[], &["0", "0"]);
        assert_eq!(shares(&veth, &[]), None);
        assert_eq!(shares(&veth, &[steered(0, "3")]), None, "queue 1 still is");
        veth.nic.rps_cpus = vec!["1".into(), "2".into()];
        assert_eq!(shares(&veth, &[]), Some([(0, 0.5), (1, 0.5)].into()));
    }

    proptest! {
        /// The shares add up to 1.
        #[test]
        fn shares_are_the_whole(cpus in prop::collection::vec(0..16_u32, 1..9), mask in 0..65_536_u32, queue in 0..8_u32) {
            let port = port(&cpus, &vec!["0"; cpus.len()]);
            for plan in [vec![], vec![steered(queue, &format!("{mask:x}"))], vec![pinned("eth0-0", "15")]] {
                let whole: f64 = shares(&port, &plan).unwrap().values().sum();
                prop_assert!((whole - 1.0).abs() < 1e-9);
            }
        }
    }
}
