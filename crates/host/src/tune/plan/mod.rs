//! Which settings serve an objective on an inspected host: [`plan`], a pure function.
//!
//! Steps are in the order in which they have to be made. A change of channels resets the RSS table and creates other
//! queues and interrupts: settings of queues are planned after it (`Wish::channels_as_they_are`).

mod file;
mod interface;
pub(super) mod napi;
mod placing;
pub mod scheme;
mod system;

use super::affinity::Design;
use crate::{
    inspect::{Inspection, Port},
    setting::{self, Setting},
};
use netcliff_core::{
    inspection::Objective,
    tuning::{PlanSheet, Proposal},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Request for a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// The objective.
    pub objective: Objective,
    /// Names of the interfaces; empty: those on the page of `inspect`.
    pub interfaces: Vec<String>,
    /// How receive and transmit interrupts are placed on CPUs; `None`: pairing, or siblings if the interrupts are
    /// separate and SMT is on.
    pub design: Option<Design>,
    /// Round-trip time of the paths on which TCP is to reach full throughput (s).
    pub rtt_s: f64,
    /// MTU to be set (bytes). The far ends need it, too, so it is only set on request.
    pub mtu_bytes: Option<u32>,
    /// CPUs reserved for other programs: no work of the interfaces is placed on them.
    pub spared: Vec<u32>,
    /// Whether the number of channels is left unchanged, because it has just been set.
    pub channels_as_they_are: bool,
}

impl Wish {
    /// A request for an objective with defaults.
    pub fn new(objective: Objective) -> Wish {
        Wish {
            objective,
            interfaces: Vec::new(),
            design: None,
            rtt_s: 1e-3,
            mtu_bytes: None,
            spared: Vec::new(),
            channels_as_they_are: false,
        }
    }
}

/// Why a request cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An interface that does not exist.
    #[error("there is no interface {0:?}")]
    NoInterface(String),
    /// A spared CPU that does not exist.
    #[error("CPU {cpu} is not online: {online} are")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// List of the online CPUs.
        online: String,
    },
    /// An MTU at which the kernel removes the interface's IPv6 addresses.
    #[error(
        "{interface} has IPv6, and the kernel takes its IPv6 addresses and routes away for good below {IPV6_MTU_BYTES} bytes: \
         {IPV6_MTU_BYTES} and more are accepted, less only with net.ipv6.conf.{interface}.disable_ipv6=1"
    )]
    TakesAddresses {
        /// Name of the interface.
        interface: String,
    },
}

/// The smallest MTU that IPv6 works with (bytes; RFC 8200, section 5).
const IPV6_MTU_BYTES: u32 = 1280;

/// One change of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// What is set.
    pub setting: Setting,
    /// Old and new value, and reason.
    #[serde(flatten)]
    pub proposal: Proposal,
}

impl Step {
    /// A step; its name and command are derived from the setting.
    pub fn new(setting: Setting, old: &str, new: &str, reason: &str, source: &str) -> Step {
        let proposal = Proposal {
            name: setting.to_string(),
            old: old.to_owned(),
            new: new.to_owned(),
            reason: reason.to_owned(),
            source: source.to_owned(),
            command: setting.command(new),
            effect: None,
        };
        Step { setting, proposal }
    }
}

/// Machine for which a plan was made; on another machine it is not applied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Online CPUs.
    pub online: Vec<u32>,
    /// By name of each interface that the plan changes: its driver, bus address, number of queues in use and possible
    /// number of queues.
    pub interfaces: BTreeMap<String, String>,
}

/// Settings for an objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The objective that it serves.
    pub objective: Objective,
    /// Machine for which it was made.
    pub machine: Machine,
    /// In the order in which they are made.
    pub steps: Vec<Step>,
    /// Settings that it omits, with the reasons.
    pub notes: Vec<String>,
}

impl Plan {
    /// The plan for display, without parts that only programs need.
    pub fn sheet(&self) -> PlanSheet {
        let proposals = self.steps.iter().map(|step| step.proposal.clone()).collect();
        PlanSheet { objective: self.objective, proposals, notes: self.notes.clone() }
    }

    /// Whether a step changes the number of queues, after which interrupts have to be read again.
    pub fn changes_channels(&self) -> bool {
        let channels = |step: &Step| matches!(step.setting, Setting::Ethtool { group: setting::Group::Channels, .. });
        self.steps.iter().any(channels)
    }
}

impl Machine {
    /// Properties on which a plan for these ports depends.
    pub fn of(inspection: &Inspection, ports: &[&Port]) -> Machine {
        let describe = |port: &&Port| {
            let nic = &port.nic;
            let words = [nic.driver.clone(), nic.bus.clone(), queues(port)];
            (nic.name.clone(), words.into_iter().flatten().collect::<Vec<_>>().join(" "))
        };
        Machine { online: inspection.host.cpu.online.clone(), interfaces: ports.iter().map(describe).collect() }
    }

    /// Describes how this host differs from the plan's machine; `None` if it does not.
    pub fn differs(&self, inspection: &Inspection) -> Option<String> {
        if self.online != inspection.host.cpu.online {
            let list = crate::procfs::list_of_cpus;
            return Some(format!(
                "the plan is for CPUs {}, online are {}",
                list(&self.online),
                list(&inspection.host.cpu.online)
            ));
        }
        let ports: Vec<&Port> =
            inspection.ports.iter().filter(|port| self.interfaces.contains_key(&port.nic.name)).collect();
        let now = Machine::of(inspection, &ports);
        self.interfaces.iter().find_map(|(name, was)| match now.interfaces.get(name) {
            Some(is) if is == was => None,
            Some(is) => Some(format!("{name} was {was:?} when the plan was made and is {is:?}")),
            None => Some(format!("the plan is for {name}, which is not there")),
        })
    }
}

/// Number of queues in use and possible number of queues, as text: a plan's steps fit only these numbers. `None` if the
/// driver does not report them.
fn queues(port: &Port) -> Option<String> {
    let channel = |name| port.nic.channels.get(name).copied();
    let most = channel("combined-max").filter(|most| *most > 0).or(channel("rx-max")).or(port.nic.rx_queues);
    let transmit = match (channel("combined"), channel("tx")) {
        (None, None) => port.nic.tx_queues,
        (combined, tx) => Some(combined.unwrap_or(0) + tx.unwrap_or(0)),
    };
    let (receive, most) = (port.receive_queues()?, most?);
    let transmit = transmit.map(|queues| format!(", {queues} transmit queues")).unwrap_or_default();
    Some(format!("{receive} of {most} receive queues{transmit}"))
}

/// Steps being collected.
struct Draft<'a> {
    inspection: &'a Inspection,
    wish: &'a Wish,
    /// The plan's ports, in its order.
    ports: &'a [&'a Port],
    steps: Vec<Step>,
    notes: Vec<String>,
}

impl Draft<'_> {
    /// Adds a step, unless the value is already in force.
    fn propose(&mut self, setting: Setting, old: &str, new: &str, reason: &str, source: &str) {
        if !setting::same(old, new) {
            self.steps.push(Step::new(setting, old, new, reason, source));
        }
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Number of cores of the port's node assigned to the ports before it, one core per queue. On a host that forwards
    /// all ports use the same cores, so that a packet is received and sent on one core (Gasparakis and Waskiewicz 2010,
    /// figure 6).
    fn cores_before(&self, port: &Port) -> u32 {
        if self.inspection.routes() {
            return 0;
        }
        let before = self.ports.iter().take_while(|other| other.nic.name != port.nic.name);
        let near = before.filter(|other| other.nic.numa_node == port.nic.numa_node && other.queue_irqs().count() > 0);
        near.map(|other| other.receive_queues().unwrap_or(0)).sum()
    }

    fn wants(&self, objective: Objective) -> bool {
        self.wish.objective == objective
    }
}

/// The host with these CPUs treated as isolated.
fn sparing(inspection: &Inspection, spared: &[u32]) -> Inspection {
    let mut seen = inspection.clone();
    let taken: BTreeSet<u32> = inspection.isolated_cpus().into_iter().chain(spared.iter().copied()).collect();
    let taken: Vec<u32> = taken.into_iter().collect();
    seen.host.kernel.isolated_cpus = Some(crate::procfs::list_of_cpus(&taken));
    seen
}

/// Adds the settings of queue interrupts, steering and NAPI instances.
fn of_queues(draft: &mut Draft<'_>, port: &Port) {
    placing::interrupts(draft, port);
    placing::transmit_steering(draft, port);
    placing::receive_steering(draft, port);
    napi::deferral(draft, port);
    napi::suspension(draft, port);
    napi::threads(draft, port);
}

/// Refuses a request that cannot be met, or whose effects could not be undone.
fn refuse(inspection: &Inspection, wish: &Wish, ports: &[&Port]) -> Result<(), PlanError> {
    let online = &inspection.host.cpu.online;
    if let Some(cpu) = wish.spared.iter().copied().find(|cpu| !online.contains(cpu)) {
        return Err(PlanError::NoCpu { cpu, online: crate::procfs::list_of_cpus(online) });
    }
    if wish.mtu_bytes.is_some_and(|mtu| mtu < IPV6_MTU_BYTES) {
        let has_ipv6 = |port: &&&Port| inspection.network.ipv6.contains(&port.nic.name);
        if let Some(port) = ports.iter().find(has_ipv6) {
            return Err(PlanError::TakesAddresses { interface: port.nic.name.clone() });
        }
    }
    Ok(())
}

/// Proposes settings. A setting that the host lacks, or that already has the right value, is omitted.
///
/// # Errors
/// An interface or a CPU does not exist, or an MTU would remove addresses.
pub fn plan(inspection: &Inspection, wish: &Wish) -> Result<Plan, PlanError> {
    let ports: Vec<&Port> = if wish.interfaces.is_empty() {
        inspection.main_ports()
    } else {
        let find = |name: &String| inspection.port(name).ok_or_else(|| PlanError::NoInterface(name.clone()));
        wish.interfaces.iter().map(find).collect::<Result<_, _>>()?
    };
    refuse(inspection, wish, &ports)?;
    // The planner treats a spared CPU as isolated.
    let sparing = (!wish.spared.is_empty()).then(|| sparing(inspection, &wish.spared));
    let seen = sparing.as_ref().unwrap_or(inspection);
    let mut draft = Draft { inspection: seen, wish, ports: &ports, steps: Vec::new(), notes: Vec::new() };
    if seen.usable_cpus().is_empty() {
        draft.note("every CPU is offline, isolated or spared: no work is placed");
    }
    for port in &ports {
        let other_queues = interface::channels(&mut draft, port);
        interface::rings(&mut draft, port);
        interface::coalescing(&mut draft, port);
        if !other_queues {
            interface::rss_table(&mut draft, port);
        }
        interface::hash_fields(&mut draft, port);
        interface::offloads(&mut draft, port);
        interface::mtu(&mut draft, port);
        if !other_queues {
            of_queues(&mut draft, port);
        }
        if !port.nic.is_physical() && port.irqs.is_empty() {
            let name = &port.nic.name;
            draft.note(format!("{name}: not hardware: no interrupts to place or to delay, no rings, no NAPI to defer"));
        }
    }
    system::sysctls(&mut draft, &ports);
    system::frequency(&mut draft);
    system::idle(&mut draft);
    let Draft { steps, notes, .. } = draft;
    Ok(Plan { objective: wish.objective, machine: Machine::of(inspection, &ports), steps, notes })
}
