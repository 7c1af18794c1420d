//! The link between this host, which is under test, and sending hosts: an interface of this host, and generators in
//! agents on the others.

mod lost;
mod probe;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netcliff_core::Fingerprint;
use netcliff_host::nic::landing::Place;
use netcliff_host::nic::losses::{Cause, Losses};
use netcliff_host::nic::neighbour::{self, NoNeighbour, OwnEnd, Received};
use netcliff_host::nic::{self, Nic};
use netcliff_packets::frame::Ports;
use netcliff_packets::generator::DEFAULT_MAX_BURST;
use netcliff_packets::transmit::Method;
use netcliff_remote::load::{Carrier, FarSource, Load, LoadRequest, Several};
use serde::{Deserialize, Serialize};

use super::{PORT, SOURCE_PORT};

pub use probe::PROBE_PPS as LEAST_MOST_PPS;

/// A generator in an agent, shared by successive trials.
pub type SharedCarrier = Arc<Mutex<Box<dyn Carrier>>>;

/// Options of a link.
#[derive(Debug, Clone)]
pub struct BetweenOptions {
    /// Interface of this host.
    pub interface: String,
    /// The generators, each of which sends a share of the load.
    pub carriers: Vec<SharedCarrier>,
    /// Interface of the sending host; `None`: the interface that its routes choose.
    pub their_interface: Option<String>,
    /// Whether the interface may carry the control connection, too.
    pub by_control_link: bool,
    /// How the load is sent.
    pub sending: Sending,
}

/// How a load is sent; a part of a request to an agent. Requests omit the defaults, so that agents of older versions
/// accept them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Sending {
    /// Number of receive queues that the flows reach; 0 and 1: one flow.
    #[serde(default, skip_serializing_if = "is_one")]
    pub queues: u32,
    /// Highest rate of all generators together (pps); `None` if there is no limit. An agent may set a lower limit for
    /// its generators.
    #[serde(rename = "max_rate_pps", default, skip_serializing_if = "Option::is_none")]
    pub most_pps: Option<f64>,
    /// Send method; `None`: an AF_PACKET ring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// VLAN id of the frames, added by the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
}

fn is_one(queues: &u32) -> bool {
    *queues <= 1
}

/// Largest number of receive queues that flows are searched for.
pub const MOST_QUEUES: u32 = 64;

/// Why a link cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BetweenError {
    /// The interface is not usable.
    #[error(transparent)]
    Interface(#[from] NoNeighbour),
    /// The generator cannot send.
    #[error("the generator at {peer}: {reason}")]
    Generator {
        /// The agent.
        peer: String,
        /// The reason.
        reason: String,
    },
    /// Packets of the generator do not arrive.
    #[error("{arrived} of {sent} packets from {peer} to {address}, UDP port {port}, came to the application: {why}")]
    Lost {
        /// The sending agent.
        peer: String,
        /// Destination address.
        address: IpAddr,
        /// Destination port.
        port: u16,
        /// Packets read.
        arrived: u64,
        /// Packets sent.
        sent: u64,
        /// Phrase on where the lost packets were last counted.
        why: String,
    },
    /// Flows cannot be directed to queues.
    #[error("{0}")]
    Queues(String),
    /// The user stopped the run.
    #[error("stopped")]
    Stopped,
}

/// A generator and its flows.
#[derive(Debug)]
struct Lane {
    peer: String,
    facts: Fingerprint,
    /// One flow per queue.
    flows: Vec<Ports>,
}

/// A receive queue that the load reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The queue; `None` if it could not be determined, which is accepted only if the load goes to a single queue.
    pub place: Option<Place>,
    /// CPU of its protocol work; `None` if it could not be determined.
    pub cpu: Option<u32>,
    /// UDP port of the queue's flows; a separate application reads on it.
    pub port: u16,
}

/// A link on which packets arrive.
#[derive(Debug)]
pub struct Between {
    options: BetweenOptions,
    own: OwnEnd,
    /// The device whose queues receive the packets: the one below the interface if that is a VLAN.
    nic: Nic,
    lanes: Vec<Lane>,
    queues: Vec<Reached>,
    /// Whether packets go through the per-CPU backlog.
    backlog: bool,
    /// Highest load of all generators together (pps); `None` if there is no limit.
    most_pps: Option<f64>,
}

impl Between {
    /// Checks that packets arrive, and searches for flows that reach the requested number of queues. Also returns the
    /// CPU that does most of the protocol work of the first queue; `None` if unknown. `ipv6`: the family of the packets.
    ///
    /// # Errors
    /// See [`BetweenError`].
    pub fn open(
        options: &BetweenOptions,
        ipv6: bool,
        sender_cpu: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, Option<u32>), BetweenError> {
        let own = neighbour::own_end(&options.interface, ipv6)?;
        let nic = device(&options.interface).map_err(|source| NoNeighbour::Unknown { address: own.address, source })?;
        let lane = |carrier: &SharedCarrier| {
            let mut carrier = lock(carrier);
            Lane { peer: carrier.peer(), facts: carrier.fingerprint().unwrap_or_default(), flows: Vec::new() }
        };
        let lanes: Vec<Lane> = options.carriers.iter().map(lane).collect();
        let backlog = through_backlog(&nic);
        let options = options.clone();
        let mut link = Self { options, own, nic, lanes, queues: Vec::new(), backlog, most_pps: None };
        link.most_pps = link.options.sending.most_pps;
        link.find_flows(sender_cpu, stop)?;
        let cpu = link.queues.first().and_then(|queue| queue.cpu);
        Ok((link, cpu))
    }

    fn failed(&self, lane: usize, reason: impl std::fmt::Display) -> BetweenError {
        let peer = self.lanes.get(lane).map_or_else(String::new, |lane| lane.peer.clone());
        BetweenError::Generator { peer, reason: reason.to_string() }
    }

    /// All generators, locked.
    pub fn carriers(&self) -> Vec<MutexGuard<'_, Box<dyn Carrier>>> {
        self.options.carriers.iter().map(lock).collect()
    }

    /// Combines the generators into one source of frames.
    pub fn source<'a>(carriers: &'a mut [MutexGuard<'_, Box<dyn Carrier>>], requests: Vec<LoadRequest>) -> Several<'a> {
        let each = carriers.iter_mut().zip(requests);
        Several::new(each.map(|(carrier, request)| FarSource::new(&mut ***carrier, request)).collect())
    }

    /// Requests to the generators: equal shares of the load, each with its own run id and seed.
    pub fn requests(&self, frame_bytes: usize, run_id: u32, cpu: Option<u32>, load: Load) -> Vec<LoadRequest> {
        let share = |place: usize| match load {
            Load::Paced { arrivals, rate_pps, seed, timing } => Load::Paced {
                arrivals,
                rate_pps: rate_pps / self.lanes.len() as f64,
                seed: seed + LANE_SEED * place as u64,
                timing,
            },
            flat_out @ Load::FlatOut { .. } => flat_out,
        };
        let each = self.lanes.iter().enumerate();
        each.map(|(place, lane)| self.request(frame_bytes, run_of(run_id, place), cpu, share(place), &lane.flows))
            .collect()
    }

    /// The request to one generator.
    fn request(&self, frame_bytes: usize, run_id: u32, cpu: Option<u32>, load: Load, flows: &[Ports]) -> LoadRequest {
        let usual = Ports { source: SOURCE_PORT, destination: PORT };
        let first = flows.first().copied().unwrap_or(usual);
        let sending = self.options.sending;
        LoadRequest {
            destination: SocketAddr::new(self.own.address, first.destination),
            destination_mac: Some(self.own.mac),
            interface: self.options.their_interface.clone(),
            source_port: first.source,
            more_flows: flows.get(1..).unwrap_or_default().to_vec(),
            vlan: sending.vlan,
            method: sending.method,
            // Learned when the link was opened: if one agent allows less than its share, every generator is limited to
            // the rate that this agent allows.
            most_pps: self.most_pps.map(|most_pps| most_pps / self.lanes.len() as f64),
            frame_bytes,
            run_id,
            max_burst: DEFAULT_MAX_BURST,
            cpu: cpu.map(|cpu| cpu as usize),
            by_control_link: self.options.by_control_link,
            round_trips: false,
            load,
        }
    }

    /// Run ids of the second and further generators; `run_id`: the id of the first.
    pub fn more_runs(&self, run_id: u32) -> Vec<u32> {
        (1..self.lanes.len()).map(|place| run_of(run_id, place)).collect()
    }

    /// The queues that the load reaches, each with the port that its application reads from.
    pub fn queues(&self) -> &[Reached] {
        &self.queues
    }

    /// Highest load that may be offered (pps), by `--max-rate` here or at an agent; `None` if only the generators limit
    /// it.
    pub fn most_pps(&self) -> Option<f64> {
        self.most_pps
    }

    /// Address on which the application reads.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.own.address, PORT)
    }

    /// Checks that the interface accepts frames of this length.
    ///
    /// # Errors
    /// The frames are longer than the interface's MTU allows.
    pub fn fits(&self, frame_bytes: u32) -> Result<(), BetweenError> {
        Ok(neighbour::fits(frame_bytes, self.own.mtu_bytes, &self.options.interface)?)
    }

    /// Interface of this host.
    pub fn interface(&self) -> &str {
        &self.options.interface
    }

    /// The device whose queues receive the packets, as it was when the link was opened: the one below the interface if
    /// that is a VLAN.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// Adds the sending hosts' properties to `fingerprint`, the properties of this host.
    pub fn add_senders(&self, fingerprint: &mut Fingerprint) {
        for (place, lane) in (1..).zip(&self.lanes) {
            let prefix = if place == 1 { "sender".to_owned() } else { format!("sender{place}") };
            let facts = lane.facts.facts.iter().map(|(name, fact)| (format!("{prefix}.{name}"), fact.clone()));
            fingerprint.facts.extend(facts);
        }
    }

    /// Packets that the device ([`Self::nic`]) has received and missed since its creation; `None` if the kernel does not
    /// report them.
    pub fn received(&self) -> Option<Received> {
        neighbour::received(&self.nic.name)
    }

    /// Losses that the device's driver has counted so far; empty if the driver has no such counters.
    pub fn losses(&self) -> Losses {
        Losses::read(&self.nic.name).unwrap_or_default()
    }

    /// Whether packets go through the per-CPU backlog: by RPS, or on a virtual link without NAPI.
    pub fn is_backlog(&self) -> bool {
        self.backlog
    }

    /// Describes the packets' path in one line.
    pub fn describe(&self, host_cpu: u32) -> String {
        let interface = &self.options.interface;
        let peers: Vec<&str> = self.lanes.iter().map(|lane| lane.peer.as_str()).collect();
        let tag = self.options.sending.vlan.map_or_else(String::new, |id| format!(", VLAN {id}"));
        let (peers, at) = (peers.join(" and "), self.at(host_cpu));
        format!("{interface} of this host, load from {peers}{tag}; {at}")
    }

    /// Describes where the load is received and read.
    fn at(&self, host_cpu: u32) -> String {
        match &self.queues[..] {
            [] | [_] => format!("protocol and application on CPU {host_cpu}"),
            queues => {
                let each: Vec<String> = queues
                    .iter()
                    .map(|queue| match (queue.place, queue.cpu) {
                        (Some(Place::Backlog(cpu)), _) => format!("CPU {cpu}"),
                        (Some(place), Some(cpu)) => format!("{place} on CPU {cpu}"),
                        (Some(place), None) => place.to_string(),
                        (None, _) => "an unknown one".to_owned(),
                    })
                    .collect();
                format!("{} queues, an application each: {}", queues.len(), each.join(", "))
            }
        }
    }

    /// Describes flows and queues of the load in one line; empty if no queue is known.
    pub fn flows(&self) -> String {
        match &self.queues[..] {
            [] => String::new(),
            [one] => {
                let place = one.place.map_or_else(String::new, |place| format!(", {place} (counted)"));
                let flows = self.lanes.len();
                format!("{flows} flow{} to one queue{place}", if flows == 1 { "" } else { "s" })
            }
            queues => format!("{} flows to {} queues (counted)", queues.len() * self.lanes.len(), queues.len()),
        }
    }

    /// Describes driver and reception in one line.
    pub fn driver(&self, host_cpu: u32) -> String {
        let driver = self.nic.driver.as_deref().or(self.nic.kind.as_deref()).unwrap_or("unknown driver");
        let how = if self.backlog { "process_backlog" } else { "its own NAPI" };
        format!("{driver}, {how} on CPU {host_cpu}")
    }
}

/// Difference between the seeds of two generators' schedules.
const LANE_SEED: u64 = 7_919_000_017;

/// Run id of the generator at this position; `run_id`: the id of the first generator.
fn run_of(run_id: u32, place: usize) -> u32 {
    run_id.wrapping_add(place as u32)
}

/// The device below an interface if that is a VLAN, otherwise the interface itself.
fn device(interface: &str) -> std::io::Result<Nic> {
    let sys = Path::new("/sys");
    let nic = nic::read(interface, sys)?;
    let Some(below) = nic.lower.filter(|_| nic.kind.as_deref() == Some("vlan")) else { return Ok(nic) };
    let below = nic::read_all(sys)?.into_iter().find(|other| other.index == below);
    Ok(below.unwrap_or(nic))
}

/// Packets that a device lost for lack of space, or that an XDP program dropped: before any queue of the kernel.
pub fn before_the_stack(losses: &Losses) -> u64 {
    losses.packets(Cause::NoRoom) + losses.packets(Cause::Xdp)
}

fn lock(carrier: &SharedCarrier) -> MutexGuard<'_, Box<dyn Carrier>> {
    // After a trial that panicked, the session itself reports the failure.
    carrier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether packets of this device go through a CPU's backlog: RPS steers some of its queues, or it is a veth without
/// GRO, whose peer puts packets into the backlog.
fn through_backlog(nic: &Nic) -> bool {
    let steered = nic.rps_cpus.iter().any(|mask| mask.chars().any(|c| c.is_ascii_hexdigit() && c != '0'));
    let veth = nic.kind.as_deref() == Some("veth") && nic.feature("rx-gro") != Some(true);
    steered || veth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_through_the_backlog_is_known() {
        let nic = |kind: Option<&str>, gro: bool, masks: &[&str]| Nic {
            kind: kind.map(Into::into),
            features: [("rx-gro".to_owned(), gro)].into(),
            rps_cpus: masks.iter().map(|mask| (*mask).to_owned()).collect(),
            ..Nic::default()
        };
        assert!(!through_backlog(&nic(None, true, &["00000000,00000000"])));
        assert!(through_backlog(&nic(None, true, &["0", "2"])));
        assert!(through_backlog(&nic(Some("veth"), false, &["0"])));
        assert!(!through_backlog(&nic(Some("veth"), true, &["0"])));
    }
}
