//! [`WireBench`]: the [`Bench`] with real packets.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use netcliff_core::finding::Settings;
use netcliff_core::ledger::Ledger;
use netcliff_host::cpu::heartbeat::Heartbeat;
use netcliff_host::cpu::{Method, Preference};
use netcliff_host::inventory::Inventory;
use netcliff_host::softnet::UdpCounters;
use netcliff_packets::WireError;
use netcliff_packets::generator::{self, Ceiling};
use netcliff_packets::run::WireFailure;
use netcliff_remote::load::{Carrier, Load, far_ceilings};

use crate::account::Account;
use crate::bench::{Bench, Observation, RoundTrips, SenderCeiling};
use crate::rig::{Between, Rig};
use crate::trial::{self, Heartbeats, Meter, Sending, TrialError, TrialShape, TrialSpec};

/// Called every few milliseconds of a trial: load (pps), packets offered, packets delivered.
pub type Watch<'a> = Box<dyn FnMut(f64, u64, u64) + 'a>;

/// Number of measurements of the sender's highest rate, and the length of each (s).
const CEILING_REPEATS: u32 = 3;
const CEILING_S: f64 = 0.4;
/// Load (pps) and length (s) of the measurement of a socket's capacity. They send more packets than any default socket
/// holds.
const CAPACITY_PPS: f64 = 100e3;
const CAPACITY_S: f64 = 0.5;
/// Work per packet that keeps the application from reading (s).
const NOT_READING_S: f64 = 0.05;

/// Makes trials with real packets on a [`Rig`] (a testbed with its CPUs), with a CPU meter if one works.
pub struct WireBench<'a> {
    rig: &'a Rig,
    meter: Option<Meter>,
    heartbeats: Heartbeats,
    /// Sentences on why better meters are not used.
    pub passed_over: Vec<String>,
    watch: Watch<'a>,
    account: Account,
}

impl std::fmt::Debug for WireBench<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("WireBench").field("rig", &self.rig.describe()).finish_non_exhaustive()
    }
}

impl<'a> WireBench<'a> {
    /// A bench on `rig` with the preferred meter, or without a meter if no method works.
    pub fn new(rig: &'a Rig, preference: Preference, watch: Watch<'a>) -> Self {
        let (meter, passed_over) = match trial::meter(rig, preference) {
            Ok(choice) => (Some(choice.meter), choice.passed_over.iter().map(ToString::to_string).collect()),
            Err(error) => (None, vec![error.to_string()]),
        };
        let heartbeats = Heartbeats::new(rig, meter.as_ref());
        Self { rig, meter, heartbeats, passed_over, watch, account: Account::default() }
    }

    /// Counters of generators and device under test over all trials so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Highest load allowed (pps); `None` if there is no limit.
    fn most_pps(&self) -> Option<f64> {
        self.rig.between().and_then(Between::most_pps)
    }

    /// Heartbeat that a loop which keeps the host's CPU awake has to update.
    pub fn host_heartbeat(&self) -> Heartbeat {
        self.heartbeats.host.clone()
    }

    /// Method of the meter; `None` without a meter.
    pub fn method(&self) -> Option<Method> {
        self.meter.as_ref().map(|meter| meter.method())
    }

    fn once(&mut self, spec: &TrialSpec, metered: bool) -> Result<trial::Trial, TrialError> {
        // No trial exceeds the limit, whatever its purpose.
        let rate_pps = self.most_pps().map_or(spec.rate_pps, |most_pps| spec.rate_pps.min(most_pps));
        let spec = &TrialSpec { rate_pps, ..spec.clone() };
        let Self { rig, meter, heartbeats, watch, .. } = self;
        let meter = if metered { meter.as_mut() } else { None };
        let trial =
            trial::trial(rig, spec, meter, heartbeats, |offered, delivered| watch(spec.rate_pps, offered, delivered))?;
        self.account.add(&trial);
        Ok(trial)
    }
}

impl WireBench<'_> {
    /// Measures the highest rate of the sender, or of each generator if there are several.
    fn flat_out(&self, sending: &Sending<'_>) -> Result<Vec<Ceiling>, TrialError> {
        let stop = || self.rig.stop.load(Ordering::Relaxed);
        let failed = |reason: WireError| {
            let source = Box::new(WireFailure::from(reason));
            TrialError::Wire { rate_pps: 0.0, source }
        };
        let ceilings = match sending {
            Sending::Here(config) => {
                let config = (**config).clone();
                let ceiling = generator::ceiling(config, CEILING_S, Arc::clone(&self.rig.stop));
                ceiling.map(|ceiling| vec![ceiling]).map_err(|failure| failure.reason)
            }
            Sending::There(between, requests) => {
                let mut carriers = between.carriers();
                let asked = carriers.iter_mut().zip(requests).map(|(carrier, request)| {
                    let carrier: &mut dyn Carrier = &mut ***carrier;
                    (carrier, request.clone())
                });
                far_ceilings(asked.collect(), &stop)
            }
        };
        trial::undisturbed(self.rig, 0.0)?;
        ceilings.map_err(failed)
    }
}

impl Bench for WireBench<'_> {
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        let observation = self.once(spec, metered)?.observation();
        // If nothing arrived, a probe at a low load shows the reason: an overloaded host then delivers packets, a host
        // with an unplugged cable does not.
        let nothing = observation.sent > 0 && observation.loss() >= 1.0;
        if let Some(between) = self.rig.between().filter(|_| nothing)
            && let Some(why) = between.lost(self.rig.far_sender_cpu, &self.rig.stop)
        {
            let what = format!("packets do not arrive any more: {why}");
            return Err(TrialError::Changed { rate_pps: spec.rate_pps, what });
        }
        Ok(observation)
    }

    fn ceiling(&mut self, frame_bytes: u32) -> Result<SenderCeiling, TrialError> {
        let arrivals = netcliff_packets::schedule::Arrivals::Constant;
        let settings =
            Settings { arrivals, frame_bytes, receive_buffer_bytes: 1 << 16, seed: 0, ..Settings::default() };
        let shape = TrialShape::of(&settings, CEILING_S);
        let (sending, _) = trial::ends(self.rig, &shape, Load::FlatOut { seconds: CEILING_S });
        let mut pps = Vec::new();
        let mut methods: Vec<&str> = Vec::new();
        for _ in 0..CEILING_REPEATS {
            let each = trial::until_started(|| self.flat_out(&sending))?;
            for ceiling in &each {
                let words = ceiling.method.in_words();
                if !methods.contains(&words) {
                    methods.push(words);
                }
            }
            pps.push(each.iter().map(|ceiling| ceiling.offered_pps).sum());
            self.account.add_ceilings(&each);
        }
        Ok(SenderCeiling { method: methods.join(" and "), pps, most_pps: self.most_pps() })
    }

    fn socket_capacity(&mut self, shape: &TrialShape) -> Result<Option<f64>, TrialError> {
        let spec = TrialShape { seconds: CAPACITY_S, work_s: NOT_READING_S, ..shape.clone() }.at(CAPACITY_PPS);
        let ipv6 = self.rig.is_ipv6();
        let counters = || UdpCounters::read_of(ipv6);
        let Ok(before) = self.rig.in_host(counters)? else { return Ok(None) };
        let trial = self.once(&spec, false)?;
        let Ok(after) = self.rig.in_host(counters)? else { return Ok(None) };
        let dropped = after.since(&before).rcvbuf_errors as f64;
        // Packets that were accepted and not dropped were read or remain. During the load only one packet in 50 ms was
        // read, which is the error of this count.
        let read_meanwhile = (CAPACITY_S / NOT_READING_S).ceil();
        let held = trial.wire.sender.frames.accepted as f64 - dropped - read_meanwhile;
        Ok((dropped > 0.0 && held >= 1.0).then_some(held))
    }

    fn ledger(&mut self, spec: &TrialSpec) -> Result<Option<Ledger>, TrialError> {
        let rig = self.rig;
        ledger::of_trial(rig, || self.once(spec, false)).map(Some)
    }

    fn round_trips(&mut self, spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
        round_trips::of_trial(self.rig, spec)
    }

    fn ring_slots(&self) -> Option<u64> {
        if let Some(between) = self.rig.between().filter(|between| !between.is_backlog()) {
            return between.nic().rings.get("rx").map(|slots| u64::from(*slots));
        }
        Inventory::read(std::path::Path::new("/")).sysctls.get("net.core.netdev_max_backlog")?.parse().ok()
    }

    fn cpu_method(&self) -> Result<String, String> {
        if self.rig.is_loopback() {
            return Err("on loopback the sender's CPU does the receiver's protocol work".to_owned());
        }
        match self.method() {
            Some(Method::Ebpf) => Ok(Method::Ebpf.to_string()),
            Some(other) => Err([format!("CPU time is accounted by {other}, which does not distinguish them")]
                .into_iter()
                .chain(self.passed_over.iter().cloned())
                .collect::<Vec<_>>()
                .join("; ")),
            None => Err(self.passed_over.join("; ")),
        }
    }
}

mod ledger {
    //! The ledger of a trial of `find`.

    use netcliff_core::ledger::{Ledger, Place};
    use netcliff_host::drops::ledger::{Ends, Spaces};
    use netcliff_host::testbed::netns::Side;
    use netcliff_packets::run::WireRun;

    use crate::ledger::{self, Way, row};
    use crate::rig::Rig;
    use crate::trial::{Trial, TrialError};

    /// Makes a trial and accounts for all its packets, warm-up included.
    ///
    /// # Errors
    /// The error of the trial.
    pub(super) fn of_trial(rig: &Rig, trial: impl FnOnce() -> Result<Trial, TrialError>) -> Result<Ledger, TrialError> {
        let (_, host) = rig.addresses();
        // An unset address, as with a generator on another host, would match nothing.
        let to = if host.ip().is_unspecified() { String::new() } else { format!(" and dst host {}", host.ip()) };
        let paths = [Side::Sender, Side::HostUnderTest].into_iter().filter_map(|side| rig.netns(side)).collect();
        let way = Way {
            filter: format!("udp dst port {}{to}", host.port()),
            groups: vec![Spaces { paths, up_to_tap: false }],
        };
        ledger::of_trial(&way, |traced| Ok(ends(&trial()?.wire, traced)))
    }

    /// Counts of sender and sink.
    fn ends(run: &WireRun, traced: bool) -> Ends {
        let frames = &run.sender.frames;
        let sent = |reason: &str, packets: u64| row(Place::Sender, reason, packets, "the sender's send()");
        let sink = &run.sink;
        Ends {
            sent: frames.total(),
            delivered: sink.delivered + sink.duplicates + sink.too_old,
            rows: vec![
                sent("its send buffer was full", frames.sender_full),
                sent("port unreachable", frames.unreachable),
            ],
            refused: (!traced).then_some(frames.refused),
        }
    }
}

mod round_trips {
    //! A trial in which the application answers some of the frames, to measure round trips.

    use std::num::NonZeroU64;

    use netcliff_packets::latency::Latency;
    use netcliff_packets::run::{SinkWith, WireFailure, run_to};
    use netcliff_packets::source::Timing;
    use netcliff_remote::load::LoadRequest;

    use crate::bench::RoundTrips;
    use crate::rig::{Between, Rig};
    use crate::trial::{Sending, TrialError, TrialSpec, ends, undisturbed, until_started};

    /// Answers per second: each costs CPU time of the host under test, some microseconds.
    const ANSWERS_PER_S: f64 = 200.0;

    /// Measures round trips at this load; `None` if the sender is on this host.
    ///
    /// # Errors
    /// See [`TrialError`].
    pub(super) fn of_trial(rig: &Rig, spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
        until_started(|| once(rig, spec))
    }

    fn once(rig: &Rig, spec: &TrialSpec) -> Result<Option<RoundTrips>, TrialError> {
        let timing = Timing::measured(spec.shape.seconds);
        let (Sending::There(between, requests), sinks) = ends(rig, &spec.shape, spec.paced(timing)) else {
            return Ok(None);
        };
        let failed = |source: WireFailure| TrialError::Wire { rate_pps: spec.rate_pps, source: Box::new(source) };
        let requests = requests.into_iter().map(|request| LoadRequest { round_trips: true, ..request }).collect();
        let mut with: Vec<SinkWith> = Vec::new();
        for mut sink in sinks {
            // Selects every n-th packet. A selection by time would prefer the first packet of a burst, whose wait is
            // not typical.
            sink.answer_each = NonZeroU64::new((spec.rate_pps / ANSWERS_PER_S).ceil() as u64);
            let application = sink.work.application(&sink.heartbeat).map_err(|reason| failed(reason.into()))?;
            with.push((sink, application));
        }
        let run = {
            let mut carriers = between.carriers();
            run_to(&mut Between::source(&mut carriers, requests), with, timing, &rig.stop, |_, _| {})
        };
        undisturbed(rig, spec.rate_pps)?;
        let run = run.map_err(failed)?;
        let times = run.sender.round_trips.as_ref().and_then(Latency::summary);
        Ok(Some(RoundTrips { answers: run.sink.answers, times }))
    }
}
