//! Short trials before any measurement: whether packets arrive, and which receive queue a flow reaches.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_host::nic::Nic;
use netcliff_host::nic::landing::{Counts, Landing, Place, steered_cpus};
use netcliff_packets::frame::{Ports, least_bytes};
use netcliff_packets::run::{WireFailure, run_from};
use netcliff_packets::schedule::Arrivals;
use netcliff_packets::sink::{SinkConfig, Work};
use netcliff_packets::source::Timing;
use netcliff_remote::load::{Load, Several};

use super::lost::Before;
use super::{Between, BetweenError, MOST_QUEUES, PORT, Reached, SOURCE_PORT, SharedCarrier};

/// Load of a probe trial (pps). `--max-rate` accepts no lower value.
pub const PROBE_PPS: f64 = 2000.0;
/// Length of the first probe trial, which checks that packets arrive, and length of the trials that search for queues
/// (s).
const FIRST_S: f64 = 0.3;
const NEXT_S: f64 = 0.06;
/// Run id of the frames of probe trials.
const PROBE_RUN: u32 = 0x7072_6f62;
/// Smallest share of a probe trial's packets that must arrive.
const ARRIVED_SHARE: f64 = 0.5;
/// Maximum number of flows tried per requested queue. If n queues are equally likely, 12 n flows miss a given queue
/// with a probability of 6e-6.
const TRIES_A_QUEUE: u32 = 12;

impl Between {
    /// Searches for flows of each generator. The flows of the first generator determine the queues; the flows of the
    /// other generators must reach the same queues.
    pub(super) fn find_flows(&mut self, cpu: Option<u32>, stop: &Arc<AtomicBool>) -> Result<(), BetweenError> {
        let wanted = self.options.sending.queues.clamp(1, MOST_QUEUES) as usize;
        for lane in 0..self.lanes.len() {
            let usual = Ports { source: SOURCE_PORT, destination: PORT };
            let first = self.probe(lane, usual, FIRST_S, cpu, stop)?;
            if lane == 0 {
                self.queues = vec![Reached { place: first.place, cpu: first.cpu, port: PORT }];
                self.lanes[0].flows = vec![usual];
                self.more_queues(wanted, cpu, stop)?;
            } else {
                self.same_queues(lane, (usual, first), cpu, stop)?;
            }
        }
        Ok(())
    }

    /// Finds flows of the first generator to further queues.
    fn more_queues(&mut self, wanted: usize, cpu: Option<u32>, stop: &Arc<AtomicBool>) -> Result<(), BetweenError> {
        let mut tried = 1;
        if let Some(there) = reachable(&self.nic, self.backlog).filter(|there| *there < wanted) {
            let first = self.queues.first().and_then(|queue| queue.place).unwrap_or(Place::Queue(0));
            let (name, what) = (&self.nic.name, if self.backlog { "CPU backlogs" } else { "receive queues" });
            return Err(BetweenError::Queues(format!(
                "--queues {wanted}: packets of {name} reach at most {there} ({what}); {}",
                self.how_to_spread(first)
            )));
        }
        while self.queues.len() < wanted {
            let Some(known) = self.queues.first().and_then(|queue| queue.place) else { return Err(self.uncounted()) };
            if tried >= TRIES_A_QUEUE * wanted as u32 {
                let places: Vec<String> =
                    self.queues.iter().filter_map(|queue| queue.place).map(|place| place.to_string()).collect();
                return Err(BetweenError::Queues(format!(
                    "--queues {wanted}: {tried} flows of different ports reached {}: {}; {}",
                    places.len(),
                    places.join(", "),
                    self.how_to_spread(known)
                )));
            }
            let port = PORT + self.queues.len() as u16;
            let ports = Ports { source: SOURCE_PORT + tried as u16, destination: port };
            tried += 1;
            let landing = self.probe(0, ports, NEXT_S, cpu, stop)?;
            let is_new = |place: &Place| self.queues.iter().all(|queue| queue.place != Some(*place));
            if let Some(place) = landing.place.filter(is_new) {
                self.queues.push(Reached { place: Some(place), cpu: landing.cpu, port });
                self.lanes[0].flows.push(ports);
            }
        }
        Ok(())
    }

    /// Finds flows of another generator that reach the same queues.
    fn same_queues(
        &mut self,
        lane: usize,
        first: (Ports, Landing),
        cpu: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), BetweenError> {
        let mut known = Some(first);
        for queue in self.queues.clone() {
            let mut tried = 0;
            loop {
                let (ports, landing) = match known.take() {
                    Some(known) => known,
                    None => {
                        let ports = Ports { source: SOURCE_PORT + 1 + tried as u16, destination: queue.port };
                        (ports, self.probe(lane, ports, NEXT_S, cpu, stop)?)
                    }
                };
                let Some(place) = queue.place else { return Err(self.uncounted()) };
                if landing.place == Some(place) && ports.destination == queue.port {
                    self.lanes[lane].flows.push(ports);
                    break;
                }
                tried += 1;
                if tried > TRIES_A_QUEUE * self.queues.len().max(4) as u32 {
                    let peer = &self.lanes[lane].peer;
                    return Err(BetweenError::Queues(format!(
                        "none of {tried} flows of {peer} reached {place}, which those of {} reach: generators have to share the queues \
                         that are measured",
                        self.lanes[0].peer
                    )));
                }
            }
        }
        Ok(())
    }

    /// Makes the error for a device without counters that show which queue a flow reaches.
    fn uncounted(&self) -> BetweenError {
        let (name, driver) = (&self.nic.name, self.nic.driver.as_deref().unwrap_or("its driver"));
        BetweenError::Queues(format!(
            "which receive queue of {name} a flow reaches is unknown: {driver} counts packets by queue neither for the kernel \
             (netdev) nor by a name that is known (`ethtool -S {name}`), and its interrupts do not tell; leave --queues out, and \
             give one generator"
        ))
    }

    /// Describes a setting that would spread flows over queues.
    fn how_to_spread(&self, known: Place) -> String {
        let name = &self.nic.name;
        match known {
            Place::Backlog(_) => {
                format!("RPS spreads them over CPUs: /sys/class/net/{name}/queues/rx-0/rps_cpus has the mask of these")
            }
            Place::Queue(_) | Place::Vector(_) => {
                let kind = if self.own.address.is_ipv6() { "udp6" } else { "udp4" };
                format!(
                    "`ethtool -l {name}` has the number of its queues, `ethtool -n {name} rx-flow-hash {kind}` whether it hashes UDP \
                     ports (sdfn), `ethtool -x {name}` where hashes lead"
                )
            }
        }
    }

    /// Sends one flow alone, and determines where it arrives.
    fn probe(
        &mut self,
        lane: usize,
        ports: Ports,
        seconds: f64,
        cpu: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Landing, BetweenError> {
        let (landing, own_most_pps) = self.probed(lane, ports, seconds, cpu, stop)?;
        let (lanes, share_pps) = (self.lanes.len() as f64, self.share_pps());
        // A limit below the requested share was set at the agent, and applies to all its generators together.
        if let Some(own_pps) = own_most_pps.filter(|own_pps| *own_pps < share_pps) {
            let peer = &self.lanes[lane].peer;
            let in_agent = self.lanes.iter().filter(|lane| lane.peer == *peer).count().max(1) as f64;
            self.most_pps = Some(own_pps / in_agent * lanes);
        }
        Ok(landing)
    }

    /// Highest load of one generator (pps): all have equal shares.
    fn share_pps(&self) -> f64 {
        self.most_pps.map_or(f64::INFINITY, |most_pps| most_pps / self.lanes.len() as f64)
    }

    /// Why flows that arrived when the link was opened no longer arrive; `None` if they arrive again, as on a host that
    /// was only overloaded for a while.
    pub fn lost(&self, cpu: Option<u32>, stop: &Arc<AtomicBool>) -> Option<String> {
        let flows = self.lanes.iter().enumerate().filter_map(|(lane, own)| Some((lane, *own.flows.first()?)));
        let lost = |(lane, ports)| match self.probed(lane, ports, NEXT_S, cpu, stop) {
            Err(error @ BetweenError::Lost { .. }) => Some(error.to_string()),
            _ => None,
        };
        flows.into_iter().find_map(lost)
    }

    /// Like [`Between::probe`]; also returns the generator's own limit (pps), if it has one.
    fn probed(
        &self,
        lane: usize,
        ports: Ports,
        seconds: f64,
        cpu: Option<u32>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Landing, Option<f64>), BetweenError> {
        let timing = Timing { drain_s: 0.2, ..Timing::measured(seconds) };
        let rate_pps = PROBE_PPS.min(self.share_pps());
        let load = Load::Paced { arrivals: Arrivals::Constant, rate_pps, seed: 1, timing };
        let request = self.request(least_bytes(self.own.address.is_ipv6()), PROBE_RUN, cpu, load, &[ports]);
        let address = SocketAddr::new(self.own.address, ports.destination);
        // The buffer holds all packets of the trial, so that a busy machine loses none.
        let sink = SinkConfig { receive_buffer_bytes: Some(1 << 20), ..SinkConfig::new(address, PROBE_RUN) };
        let application = Work::None.application(&sink.heartbeat).map_err(|error| self.failed(lane, error))?;
        let (earlier, before) = (Counts::read(&self.nic), Before::now(self));
        let carrier: SharedCarrier = Arc::clone(&self.options.carriers[lane]);
        let mut guards = [super::lock(&carrier)];
        let mut source: Several<'_> = Self::source(&mut guards, vec![request]);
        let run = run_from(&mut source, sink, application, timing, stop, |_, _| ());
        let own_most_pps = source.most_pps();
        let run = run.map_err(|WireFailure { reason, .. }| self.failed(lane, reason))?;
        if stop.load(Ordering::Relaxed) {
            return Err(BetweenError::Stopped);
        }
        let (sent, arrived) = (run.sender.frames.total(), run.sink.delivered);
        if (arrived as f64) < ARRIVED_SHARE * sent as f64 {
            let why = before.where_lost(self, (sent, arrived), ports);
            let (peer, address) = (self.lanes[lane].peer.clone(), self.own.address);
            return Err(BetweenError::Lost { peer, address, port: ports.destination, arrived, sent, why });
        }
        Ok((Counts::read(&self.nic).landing(&earlier, sent, self.backlog, &self.nic), own_most_pps))
    }
}

/// Number of queues that flows can reach, by the configuration; `None` if unknown.
fn reachable(nic: &Nic, backlog: bool) -> Option<usize> {
    if !backlog {
        let channels: u32 = ["rx", "combined"].iter().filter_map(|kind| nic.channels.get(*kind)).sum();
        return Some(channels).filter(|channels| *channels > 0).or(nic.rx_queues).map(|queues| queues as usize);
    }
    // A veth without RPS puts packets into the backlog of the sender's CPU.
    Some(steered_cpus(nic).len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_flows_can_reach_are_counted() {
        let steered = |masks: &[&str]| {
            let rps_cpus = masks.iter().map(|mask| (*mask).to_owned()).collect();
            reachable(&Nic { rps_cpus, ..Nic::default() }, true)
        };
        assert_eq!(
            [steered(&["3"]), steered(&["2"]), steered(&[]), steered(&["0"])],
            [Some(2), Some(1), Some(1), Some(1)]
        );
        assert_eq!(steered(&["00000001,00000000", "1", "3"]), Some(3));
        let nic =
            Nic { channels: [("combined".to_owned(), 4), ("combined-max".to_owned(), 8)].into(), ..Nic::default() };
        assert_eq!(reachable(&nic, false), Some(4));
        assert_eq!(reachable(&Nic { rx_queues: Some(1), ..Nic::default() }, false), Some(1));
        assert_eq!(reachable(&Nic::default(), false), None);
    }
}
