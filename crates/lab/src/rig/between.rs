//! The link between this host, which is under test, and another that sends: an interface of this one, and a generator in an agent there.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netcliff_core::Fingerprint;
use netcliff_host::nic::neighbour::{self, NoNeighbour, OwnEnd, Received};
use netcliff_host::nic::{self, Nic};
use netcliff_host::softnet::softnet_stats;
use netcliff_wire::generator::DEFAULT_MAX_BURST;
use netcliff_wire::load::{Carrier, FarSource, Load, LoadRequest};
use netcliff_wire::run::{Timing, WireFailure, run_from};
use netcliff_wire::schedule::Arrivals;
use netcliff_wire::sink::{SinkConfig, Work};

use super::{PORT, SOURCE_PORT};

/// Load and length of the trial that shows whether packets arrive, and on which CPU.
const PROBE_PPS: f64 = 2000.0;
const PROBE_S: f64 = 0.3;
/// Marks its frames.
const PROBE_RUN: u32 = 0x7072_6f62;
/// Fewest of its packets that must arrive.
const ARRIVED_SHARE: f64 = 0.5;
/// Smallest frame (bytes).
const SMALLEST_BYTES: usize = 64;

/// A generator in an agent, used by one trial after the other.
pub type SharedCarrier = Arc<Mutex<Box<dyn Carrier>>>;

/// What to build a link with.
#[derive(Debug, Clone)]
pub struct BetweenOptions {
    /// Interface of this host.
    pub interface: String,
    /// The generator.
    pub carrier: SharedCarrier,
    /// Interface there; None: by the routes there.
    pub their_interface: Option<String>,
    /// The interface may carry the control connection, too.
    pub by_control_link: bool,
}

/// Why a link cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BetweenError {
    /// The interface is not usable.
    #[error(transparent)]
    Interface(#[from] NoNeighbour),
    /// The generator cannot send.
    #[error("the generator at {peer}: {reason}")]
    Generator {
        /// Where it is.
        peer: String,
        /// Why.
        reason: String,
    },
    /// Its packets do not come.
    #[error("{arrived} of {sent} packets from {peer} to {address}, UDP port {PORT}, came to the application: {why}")]
    Lost {
        /// Where they come from.
        peer: String,
        /// Where they go.
        address: Ipv4Addr,
        /// Packets read.
        arrived: u64,
        /// Packets sent.
        sent: u64,
        /// Where they were last seen.
        why: String,
    },
    /// It was stopped meanwhile.
    #[error("stopped")]
    Stopped,
}

/// A link that works.
#[derive(Debug)]
pub struct Between {
    options: BetweenOptions,
    own: OwnEnd,
    nic: Nic,
    peer: String,
    sender: Fingerprint,
    /// Whether packets go through the per-CPU backlog.
    backlog: bool,
}

impl Between {
    /// Makes sure that packets arrive; also returns the CPU that does most of their protocol work.
    ///
    /// # Errors
    /// See [`BetweenError`].
    pub fn open(
        options: &BetweenOptions,
        sender_cpu: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, Option<u32>), BetweenError> {
        let own = neighbour::own_end(&options.interface)?;
        let nic = nic::read(&options.interface, Path::new("/sys")).map_err(|source| {
            let interface = own.address;
            NoNeighbour::Unknown { address: interface, source }
        })?;
        let (peer, sender) = {
            let mut carrier = lock(&options.carrier);
            (carrier.peer(), carrier.fingerprint().unwrap_or_default())
        };
        let backlog = through_backlog(&nic);
        let link = Self { options: options.clone(), own, nic, peer, sender, backlog };
        let cpu = link.probe(sender_cpu, stop)?;
        Ok((link, cpu))
    }

    /// The CPU that packets of the test's flow land on.
    fn probe(&self, sender_cpu: Option<u32>, stop: &Arc<AtomicBool>) -> Result<Option<u32>, BetweenError> {
        let timing = Timing::measured(PROBE_S);
        let load = Load::Paced { arrivals: Arrivals::Constant, rate_pps: PROBE_PPS, seed: 1, timing };
        let request = self.request(SMALLEST_BYTES, PROBE_RUN, sender_cpu, load);
        let before = (softnet_stats().unwrap_or_default(), self.received());
        let mut carrier = self.carrier();
        let mut source = FarSource::new(&mut **carrier, request);
        let sink = SinkConfig::new(self.address(), PROBE_RUN);
        let application = Work::None.application(&sink.heartbeat).map_err(|error| self.failed(error))?;
        let run = run_from(&mut source, sink, application, timing, stop, |_, _| ());
        let run = run.map_err(|WireFailure { reason, .. }| self.failed(reason))?;
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(BetweenError::Stopped);
        }
        let (sent, arrived) = (run.sender.frames.total(), run.sink.delivered);
        if (arrived as f64) < ARRIVED_SHARE * sent as f64 {
            let seen =
                self.received().zip(before.1).map(|(after, before)| after.packets.saturating_sub(before.packets));
            let (peer, address) = (self.peer.clone(), self.own.address);
            return Err(BetweenError::Lost { peer, address, arrived, sent, why: self.where_lost(seen, sent) });
        }
        let after = softnet_stats().unwrap_or_default();
        let processed = after.iter().filter_map(|after| {
            let earlier = before.0.iter().find(|before| before.cpu == after.cpu)?;
            Some((after.since(earlier).processed, after.cpu))
        });
        Ok(processed.max().map(|(_, cpu)| cpu))
    }

    /// Where packets that did not come were last seen.
    fn where_lost(&self, seen: Option<u64>, sent: u64) -> String {
        let interface = &self.options.interface;
        match seen {
            Some(seen) if (seen as f64) < ARRIVED_SHARE * sent as f64 => {
                format!(
                    "{interface} received {seen} packets meanwhile, so they were lost before it: is it the right link?"
                )
            }
            Some(seen) => format!(
                "{interface} received {seen} packets meanwhile, so this host drops them: look for a rule (`nft list ruleset`), \
                 an XDP program (`ip link show {interface}`), or reverse path filtering (net.ipv4.conf.{interface}.rp_filter)"
            ),
            None => "the kernel does not report what the interface received".to_owned(),
        }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> BetweenError {
        BetweenError::Generator { peer: self.peer.clone(), reason: reason.to_string() }
    }

    /// The generator.
    pub fn carrier(&self) -> MutexGuard<'_, Box<dyn Carrier>> {
        lock(&self.options.carrier)
    }

    /// What the generator is asked for.
    pub fn request(&self, frame_bytes: usize, run_id: u32, cpu: Option<u32>, load: Load) -> LoadRequest {
        LoadRequest {
            destination: self.address(),
            destination_mac: Some(self.own.mac),
            interface: self.options.their_interface.clone(),
            source_port: SOURCE_PORT,
            frame_bytes,
            run_id,
            max_burst: DEFAULT_MAX_BURST,
            cpu: cpu.map(|cpu| cpu as usize),
            by_control_link: self.options.by_control_link,
            load,
        }
    }

    /// Where the application is bound.
    pub fn address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.own.address, PORT)
    }

    /// Refuses frames that the interface does not take.
    ///
    /// # Errors
    /// They are longer than its MTU allows.
    pub fn fits(&self, frame_bytes: u32) -> Result<(), BetweenError> {
        Ok(neighbour::fits(frame_bytes, self.own.mtu_bytes, &self.options.interface)?)
    }

    /// Interface of this host.
    pub fn interface(&self) -> &str {
        &self.options.interface
    }

    /// The interface as it was found.
    pub fn nic(&self) -> &Nic {
        &self.nic
    }

    /// Adds the facts of the host that sends to those of this one.
    pub fn add_sender(&self, fingerprint: &mut Fingerprint) {
        let facts = self.sender.facts.iter().map(|(name, fact)| (format!("sender.{name}"), fact.clone()));
        fingerprint.facts.extend(facts);
    }

    /// What the interface has received so far.
    pub fn received(&self) -> Option<Received> {
        neighbour::received(&self.options.interface)
    }

    /// Whether packets go through the per-CPU backlog: RPS, or a virtual link without NAPI.
    pub fn is_backlog(&self) -> bool {
        self.backlog
    }

    /// One line on where packets travel.
    pub fn describe(&self, host_cpu: u32) -> String {
        let (interface, peer) = (&self.options.interface, &self.peer);
        format!("{interface} of this host, load from {peer}; protocol and application on CPU {host_cpu}")
    }

    /// One line on driver and reception.
    pub fn driver(&self, host_cpu: u32) -> String {
        let driver = self.nic.driver.as_deref().or(self.nic.kind.as_deref()).unwrap_or("unknown driver");
        let how = if self.backlog { "process_backlog" } else { "its own NAPI" };
        format!("{driver}, {how} on CPU {host_cpu}")
    }
}

fn lock(carrier: &SharedCarrier) -> MutexGuard<'_, Box<dyn Carrier>> {
    // A trial that panicked leaves a session that says so itself.
    carrier.lock().unwrap_or_else(PoisonError::into_inner)
}

/// RPS steers some of its queues, or it is a veth whose peer hands packets to the backlog.
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
