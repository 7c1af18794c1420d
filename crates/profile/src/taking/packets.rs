//! Counts the packets by which CPU time is divided: packets of an interface, or packets that enter the stack
//! ([`Device`]).

use std::collections::BTreeMap;

use netcliff_core::profile::ProfilePackets;
use netcliff_host::inspect::{Inspection, Port};
use netcliff_host::serving::{Counted, Devices};
use netcliff_host::softnet::softnet_stats;

use super::{FEW_PACKETS, OTHERS, Taking};

/// If received / sent packets are below this ratio, time is divided by the sent packets.
const SENDS: f64 = 0.1;

/// Name of the counter of packets that entered the stack on a CPU, in any network namespace.
const SOFTNET: &str = "softnet_stat";

/// A counter of packets.
pub(super) struct Device {
    pub(super) name: String,
    /// Counters of an interface; `None`: softnet_stat of `cpus`.
    devices: Option<Devices>,
    cpus: Vec<usize>,
    before: Counted,
}

impl Device {
    fn read(&self) -> Option<Counted> {
        let Some(devices) = &self.devices else {
            let stats = softnet_stats().ok()?;
            let own = stats.iter().filter(|stat| self.cpus.contains(&(stat.cpu as usize)));
            return Some(Counted { rx_packets: own.map(|stat| u64::from(stat.processed)).sum(), ..Counted::default() });
        };
        devices.read().ok()
    }

    pub(super) fn mark(&mut self) {
        self.before = self.read().unwrap_or_default();
    }

    /// Returns the packets since the last call; zero if the interface no longer exists or a 32-bit counter wrapped.
    pub(super) fn grown(&mut self) -> Counted {
        let now = self.read().unwrap_or(self.before);
        now.since(&std::mem::replace(&mut self.before, now))
    }
}

/// Opens the counters of all interfaces of this network namespace, the named ones first, and of the stack.
pub(super) fn devices(host: &Inspection, named: &[String], cpus: &[usize], cautions: &mut Vec<String>) -> Vec<Device> {
    /// Maximum number of interfaces that are counted: a host of containers may have thousands.
    const MOST: usize = 64;
    let main = host.main_ports();
    let mut names: Vec<String> = named.to_vec();
    names.extend(main.iter().map(|port| port.nic.name.clone()));
    names.push("lo".to_owned());
    names.extend(host.ports.iter().map(|port| port.nic.name.clone()));
    let mut seen = BTreeMap::new();
    names.retain(|name| seen.insert(name.clone(), ()).is_none());
    let open = |name: String| {
        let devices = Devices::open(std::slice::from_ref(&name)).ok()?;
        devices.read().is_ok().then(|| Device {
            name,
            devices: Some(devices),
            cpus: Vec::new(),
            before: Counted::default(),
        })
    };
    let devices: Vec<Device> = names.into_iter().filter_map(open).collect();
    if devices.len() > MOST {
        cautions.push(format!("Packets of {MOST} of {} interfaces are counted; --if names others.", devices.len()));
    }
    let stack = Device { name: SOFTNET.to_owned(), devices: None, cpus: cpus.to_vec(), before: Counted::default() };
    devices.into_iter().take(MOST).chain([stack]).collect()
}

impl Taking<'_> {
    /// Selects the devices by whose packets time is divided. Returns their indices in the list, and the packets they
    /// counted.
    pub(super) fn packets(&mut self, host: &Inspection) -> (Vec<usize>, ProfilePackets) {
        let total = |at: usize| {
            self.counted
                .iter()
                .fold((0, 0), |(received, sent), slice| (received + slice[at].rx_packets, sent + slice[at].tx_packets))
        };
        let totals: Vec<(u64, u64)> = (0..self.devices.len()).map(total).collect();
        let at = |wanted: &dyn Fn(&str) -> bool| -> Vec<usize> {
            (0..self.devices.len()).filter(|at| wanted(&self.devices[*at].name)).collect()
        };
        let main: Vec<&str> = host.main_ports().iter().map(|port: &&Port| port.nic.name.as_str()).collect();
        let mut chosen = match &self.options.interfaces[..] {
            [] => at(&|name| main.contains(&name)),
            named => at(&|name| named.iter().any(|wanted| wanted == name)),
        };
        let all = |places: &[usize]| places.iter().map(|at| totals[*at].0 + totals[*at].1).sum::<u64>();
        let stack = at(&|name| name == SOFTNET);
        // Traffic of containers and of loopback does not pass the main interfaces.
        if self.options.interfaces.is_empty() && (all(&chosen) as f64) < OTHERS * all(&stack) as f64 {
            chosen = stack;
        }
        let received = chosen.iter().map(|at| totals[*at].0).sum::<u64>();
        let sent = chosen.iter().map(|at| totals[*at].1).sum::<u64>();
        let by_sent = (received as f64) < SENDS * sent as f64;
        let divided = if by_sent { sent } else { received };
        let packets = ProfilePackets {
            interfaces: chosen.iter().map(|at| self.devices[*at].name.clone()).collect(),
            received,
            sent,
            divisor: if by_sent { "sent" } else { "received" }.to_owned(),
            per_s: divided as f64 / self.seconds.max(1e-9),
        };
        let others: Vec<String> = (0..totals.len())
            .filter(|at| {
                !chosen.contains(at)
                    && self.devices[*at].name != SOFTNET
                    && chosen.iter().all(|at| self.devices[*at].name != SOFTNET)
            })
            .filter(|at| totals[*at].0 as f64 > OTHERS * divided as f64 && totals[*at].0 >= FEW_PACKETS)
            .map(|at| format!("{} ({})", self.devices[at].name, totals[at].0))
            .collect();
        if !others.is_empty() {
            self.cautions.push(format!(
                "Other interfaces received packets too, and their time is in the account: {}. --cpu limits it to CPUs that do not serve them.",
                others.join(", ")
            ));
        }
        (chosen, packets)
    }
}
