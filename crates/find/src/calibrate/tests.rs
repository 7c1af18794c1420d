use super::*;
use crate::fake::Through;
use netcliff_core::Outcome;
use netcliff_core::finding::Settings;
use netcliff_core::verdict::TesterCounts;
use netcliff_trial::bench::{Handlers, PollTime, SenderCeiling, Slots};
use netcliff_trial::trial::{Outside, TrialSpec};

/// A host whose costs are known exactly: the counts of a trial follow from its load, without noise.
pub struct Exact {
    pub metered: bool,
    /// Durations of softirqs and handlers, interrupt latency, and time of the application, relative to the constants.
    pub softirq: f64,
    pub handler: f64,
    pub latency: f64,
    pub application: f64,
    /// Factor on the time of a packet in a poll's duration, but not in the total softirq time: models a host whose
    /// polls of many packets are the delayed ones.
    pub held_up: f64,
    /// Time from the start of a poll to its first packet (s), if the meter reports it.
    pub look_s: Option<f64>,
    /// Interrupts per poll that arrive while NAPI polls.
    pub echoes: f64,
    /// Share of the time in the timer's interrupts, if the meter distinguishes them from the device's.
    pub ticks: Option<f64>,
    /// Load (pps) from which ksoftirqd polls with full polls, and packets wait in the socket until they have left the
    /// caches: each then takes three times as long.
    pub cold_from_pps: f64,
    /// Loads of the trials so far (pps).
    pub asked_pps: Vec<f64>,
}

impl Default for Exact {
    fn default() -> Self {
        Self {
            metered: true,
            softirq: 1.0,
            handler: 1.0,
            latency: 1.0,
            application: 1.0,
            held_up: 1.0,
            look_s: None,
            echoes: 0.0,
            ticks: None,
            cold_from_pps: f64::INFINITY,
            asked_pps: Vec::new(),
        }
    }
}

const PROTOCOL_S: f64 = 0.8e-6;
const PER_BYTE_S: f64 = 0.1e-9;
const POLL_S: f64 = 0.5e-6;
const WAKEUP_S: f64 = 1.5e-6;
const APPLICATION_S: f64 = 1.0e-6;
const APPLICATION_PER_BYTE_S: f64 = 0.05e-9;
const SWITCH_S: f64 = 2.0e-6;
const HANDLER_S: f64 = 0.4e-6;
const HIDDEN_S: f64 = 0.3e-6;
/// Time that an interrupt takes from the poll that it interrupts.
const TAKEN_S: f64 = 0.2e-6;
const LATENCY_S: f64 = 3.5e-6;
const TAIL_S: f64 = 0.1e-6;
const DROP_SHARE: f64 = 0.6;
const COLD_PROTOCOL_S: f64 = 0.1e-6;
const COLD_APPLICATION_S: f64 = 0.4e-6;

/// The costs that calibration has to return.
pub const COSTS: Costs = Costs {
    protocol_s: PROTOCOL_S + 64.0 * PER_BYTE_S,
    poll_s: POLL_S,
    wakeup_s: WAKEUP_S,
    context_switch_s: SWITCH_S,
    application_s: APPLICATION_S,
    hidden_s: HIDDEN_S,
    hidden_polling_s: HIDDEN_S,
    socket_drop_cost: DROP_SHARE,
    cold_protocol_s: COLD_PROTOCOL_S,
    cold_application_s: COLD_APPLICATION_S,
    backlog: true,
};

impl Bench for Exact {
    fn observe(&mut self, spec: &TrialSpec, metered: bool) -> Result<Observation, TrialError> {
        self.asked_pps.push(spec.rate_pps);
        let packets = spec.rate_pps * spec.shape.seconds;
        let (blocked, full) = (spec.shape.work_s > 5e-4, spec.shape.work_s == 0.0 && spec.rate_pps > 480e3);
        let bytes = f64::from(spec.shape.frame_bytes);
        let service_s = PROTOCOL_S + PER_BYTE_S * bytes;
        let lambda = spec.rate_pps;
        let cold = lambda >= self.cold_from_pps && !blocked && !full;
        let service_s = if cold { 3.0 * service_s } else { service_s };
        let (service_s, poll_s, wakeup_s) = (self.softirq * service_s, self.softirq * POLL_S, self.softirq * WAKEUP_S);
        let handler_s = self.handler * HANDLER_S;
        let hidden_s = self.application * HIDDEN_S;
        let set_up = self.latency * LATENCY_S + handler_s + hidden_s + poll_s;
        let idle_share = if blocked || full { 0.0 } else { (1.0 - lambda / 500e3) / (1.0 + spec.shape.work_s * 1e5) };
        // The wake-up itself lengthens the service that follows it.
        let woken = |polls: f64| polls * idle_share;
        let mut polls = packets;
        for _ in 0..100 {
            let service_s = service_s + wakeup_s * woken(polls) / packets;
            polls = packets * (1.0 - lambda * service_s) / (1.0 + lambda * set_up);
        }
        if cold {
            polls = packets / 64.0;
        }
        let wakeups = if cold { 0.0 } else { woken(polls) };
        let (delivered, protocol_s, cold_s) = match (blocked, full) {
            (true, _) => (200.0, DROP_SHARE * (PROTOCOL_S + PER_BYTE_S * 64.0), 0.0),
            (_, true) => (packets / 2.0, 0.5 * (1.0 + DROP_SHARE) * (service_s + COLD_PROTOCOL_S), COLD_APPLICATION_S),
            _ => (packets, service_s, 0.0),
        };
        let busy = polls - wakeups;
        // If `ticks` is set, the meter also reports the uninterrupted time of the work, and the time to read a packet
        // comes in addition to it.
        let own_s = if blocked && self.ticks.is_none() { 0.0 } else { APPLICATION_S };
        let each_s = own_s + spec.shape.work_s + cold_s + APPLICATION_PER_BYTE_S * (bytes - 64.0);
        let cell = |packets: f64, from_idle: bool| PollTime {
            packets,
            polls: 1000.0,
            mean_s: poll_s - TAIL_S + self.held_up * service_s * packets + if from_idle { wakeup_s } else { 0.0 },
            variance_s2: 1e-16 * packets,
            from_idle,
        };
        let handled = (1.0 + self.echoes) * polls;
        let hits = self.look_s.map_or(0.0, |_| 0.1 * self.echoes * polls);
        let counts = Counts {
            elapsed_s: spec.shape.seconds,
            protocol_s: protocol_s * packets + poll_s * polls + wakeup_s * wakeups + TAKEN_S * self.echoes * polls,
            interrupt_s: handler_s * handled + self.ticks.unwrap_or(0.0) * spec.shape.seconds,
            devices: self.ticks.map(|_| Handlers { time_s: handler_s * handled, count: handled }),
            application_s: self.application * (each_s * delivered + SWITCH_S * wakeups) + hidden_s * busy,
            idle_s: 0.0,
            other_s: 0.0,
            meter_s: None,
            packets,
            polls,
            interrupts: handled,
            raised: None,
            delivered,
            undisturbed_work_s: self.ticks.map(|_| self.application * spec.shape.work_s),
            wakeups,
            busy_interrupts: busy,
            softirq_interrupts: self.echoes * polls,
            poll_times: (1..6).flat_map(|n| [cell(f64::from(n), true), cell(f64::from(n), false)]).collect(),
            tail_s: TAIL_S * polls,
            looks: self.look_s.map_or(0.0, |_| polls),
            look_s: self.softirq * self.look_s.unwrap_or(0.0) * polls + hits * TAKEN_S,
            hit_looks: hits,
            hit_look_s: hits * (self.softirq * self.look_s.unwrap_or(0.0) + TAKEN_S),
            look_hits: hits,
        };
        Ok(Observation {
            spec: spec.clone(),
            outcome: Outcome::default(),
            sides: TesterCounts {
                offered_share: 1.0,
                reached_pps: spec.rate_pps,
                lost: (packets - delivered).round() as u64,
                late: 0,
                missed: 0,
            },
            sent: packets.round() as u64,
            slots: Slots::default(),
            lateness_p99_s: None,
            steal_share: 0.0,
            outside: Outside::default(),
            counts: (metered && self.metered).then_some(counts),
        })
    }

    fn ceiling(&mut self, _: u32) -> Result<SenderCeiling, TrialError> {
        Ok(SenderCeiling { method: "fake".to_owned(), pps: vec![1e6], most_pps: None })
    }

    fn socket_capacity(&mut self, _: &TrialShape) -> Result<Option<f64>, TrialError> {
        Ok(Some(5041.0))
    }

    fn ring_slots(&self) -> Option<u64> {
        Some(1000)
    }

    fn cpu_method(&self) -> Result<String, String> {
        if self.metered { Ok("fake".to_owned()) } else { Err("no meter".to_owned()) }
    }
}

pub fn base() -> TrialShape {
    TrialShape::of(&Settings::default(), 0.5)
}

/// A cost as estimated, and its true value [s].
type Known = (&'static str, f64, f64);

/// Costs of a host whose packets are still in the CPU's caches when they are read.
fn warm_costs(host: &Host) -> [Known; 5] {
    [
        ("protocol", host.protocol_s, PROTOCOL_S),
        ("poll", host.poll_s, POLL_S),
        ("wakeup", host.wakeup_s, WAKEUP_S),
        ("application", host.application_s.unwrap(), APPLICATION_S),
        ("context_switch", host.context_switch_s, SWITCH_S),
    ]
}

fn interrupt_cost(host: &Host) -> Known {
    ("interrupt", host.interrupt_s, HANDLER_S + HIDDEN_S)
}

fn cold_costs(host: &Host) -> [Known; 2] {
    [
        ("cold_protocol", host.cold_protocol_s, COLD_PROTOCOL_S),
        ("cold_application", host.cold_application_s, COLD_APPLICATION_S),
    ]
}

#[test]
fn known_costs_are_found_again() {
    let calibrated =
        calibrate(&mut Exact::default(), &base(), Plan { rounds: 2, rough_pps: 400e3, backlog: true }).unwrap();
    let host = &calibrated.calibration.host;
    let further = [
        interrupt_cost(host),
        ("per_byte", host.per_byte_s, PER_BYTE_S),
        ("interrupt_latency", host.interrupt_latency_s, LATENCY_S),
        ("socket_drop_cost", host.socket_drop_cost, DROP_SHARE),
        ("application_per_byte", calibrated.application_per_byte_s, APPLICATION_PER_BYTE_S),
    ];
    for (name, found, truth) in warm_costs(host).into_iter().chain(cold_costs(host)).chain(further) {
        assert!((found - truth).abs() < 1e-5 * truth, "{name}: {found} instead of {truth}");
    }
    assert_eq!((host.ring, host.socket_buffer), (1000, 5041));
    let larger = calibrated.host_for(1518, 2e-6);
    let expected_s = APPLICATION_S + 2e-6 + APPLICATION_PER_BYTE_S * 1454.0;
    assert!((larger.application_s.unwrap() - expected_s).abs() < 1e-12);
    assert!(host.validate().is_ok());
}

/// If a delayed poll takes the packets that arrive during the delay, its time per packet is far longer than a packet
/// takes; then the trials' total softirq time is used. Interrupts during polls take their time from the polls, too.
#[test]
fn polls_that_were_held_up_do_not_decide() {
    let plan = Plan { rounds: 2, rough_pps: 400e3, backlog: false };
    let mut exact = Exact { held_up: 4.0, echoes: 0.7, look_s: Some(POLL_S), ..Exact::default() };
    let calibrated = calibrate(&mut exact, &base(), plan).unwrap();
    let host = &calibrated.calibration.host;
    for (name, found, truth) in warm_costs(host).into_iter().chain([interrupt_cost(host)]) {
        assert!((found - truth).abs() < 1e-3 * truth, "{name}: {found} instead of {truth}");
    }
    let polling_s = host.interrupt_polling_s.expect("a NIC has interrupts of its own");
    assert!((polling_s - HANDLER_S - TAKEN_S).abs() < 1e-3 * HANDLER_S, "{polling_s}");
    let counts = exact.observe(&base().at(250e3), true).unwrap().counts.unwrap();
    let slowness = calibrated.costs.slowness(&counts, 0.0).unwrap();
    assert!((slowness - 1.0).abs() < 1e-3, "{slowness}");
    assert_eq!(host.interrupt_latency_s, 0.0, "a NIC's moderation lets packets wait, too");
    let how = |key: &str| calibrated.calibration.costs.iter().find(|cost| cost.key == key).unwrap().how.clone();
    assert!(how("protocol").starts_with("regression of softirq time over trials"), "{}", how("protocol"));
    assert!(how("ring").contains("receive ring"), "{}", how("ring"));
}

/// Relative slowness of the host in each trial.
const SLOW: [f64; 7] = [1.0, 1.6, 0.8, 1.2, 1.0, 2.0, 0.9];

/// A host with a different speed in each trial.
fn unsteady(host: Exact) -> impl Bench {
    let mut speeds = SLOW.into_iter().cycle();
    let observe = move |host: &mut Exact, spec: &TrialSpec, metered| {
        let slow = speeds.next().expect("they have no end");
        (host.softirq, host.handler, host.application) = (slow, slow, slow);
        let mut seen = host.observe(spec, metered)?;
        if let Some(counts) = seen.counts.as_mut().filter(|_| spec.shape.work_s > 0.0) {
            counts.undisturbed_work_s = Some(slow * spec.shape.work_s);
        }
        Ok(seen)
    };
    Through { host, observe }
}

/// The time of interrupt handlers shows the speed of each trial, and all costs are scaled to one speed. The exception
/// is the cost of an interrupt beyond its handler: it follows from trials with long work per packet, in which a handler
/// takes another time because of the caches.
#[test]
fn behind_a_nic_costs_are_at_one_speed() {
    let plan = Plan { rounds: 4, rough_pps: 400e3, backlog: false };
    let mut host = unsteady(Exact { held_up: 4.0, ..Exact::default() });
    let host = calibrate(&mut host, &base(), plan).unwrap().calibration.host;
    let slow = host.protocol_s / PROTOCOL_S;
    assert!((0.8..2.0).contains(&slow), "{slow}");
    let interrupt_slow = host.interrupt_polling_s.expect("a NIC has interrupts of its own") / (HANDLER_S + HIDDEN_S);
    assert!((0.8..2.0).contains(&interrupt_slow), "{interrupt_slow}");
    for (name, found, truth) in warm_costs(&host) {
        assert!((found / truth / slow - 1.0).abs() < 0.03, "{name}: {found:e} at {slow}");
    }
}

#[test]
fn a_packet_that_is_little_of_a_poll_does_not_decide_how_polls_vary() {
    let varies = |packet, protocol_s, poll_s| variation::of_all(packet, false, (protocol_s, poll_s));
    // A poll of eight packets with a standard deviation of 10 us each, and an overhead of 40 us.
    assert!((varies(5.0, 2e-6, 40e-6) - 8.0_f64.sqrt() * 10.0 / 40.4).abs() < 0.01);
    assert!((varies(0.7, 2e-6, 0.0) - 0.7).abs() < 1e-12, "of packets alone it is theirs");
}

/// At the highest load of each round packets are cold, although none is lost.
#[test]
fn behind_a_nic_the_costs_are_those_of_warm_packets() {
    let plan = Plan { rounds: 3, rough_pps: 400e3, backlog: false };
    let mut exact = Exact { cold_from_pps: 290e3, ..Exact::default() };
    let host = calibrate(&mut exact, &base(), plan).unwrap().calibration.host;
    for (name, found, truth) in warm_costs(&host).into_iter().chain(cold_costs(&host)) {
        assert!((found - truth).abs() < 1e-3 * truth, "{name}: {found} instead of {truth}");
    }
    let mut counts = |rate_pps| exact.observe(&base().at(rate_pps), true).unwrap().counts.unwrap();
    assert!(is_warm(&counts(280e3)) && !is_warm(&counts(290e3)) && !is_warm(&counts(560e3)));
}

/// Interrupts of the timer do not count as interrupts of the device; their time lengthens everything that they
/// interrupt, also on a slower host.
#[test]
fn the_timer_lengthens_what_it_interrupts() {
    let plan = Plan { rounds: 2, rough_pps: 400e3, backlog: false };
    let by_the_clock = 1.0 / (1.0 - 0.04);
    let mut exact = Exact { ticks: Some(0.04), ..Exact::default() };
    let calibrated = calibrate(&mut exact, &base(), plan).unwrap();
    let near = |host: &Host, times: f64| {
        for (name, found, truth) in warm_costs(host).into_iter().chain(cold_costs(host)) {
            let truth = times * truth;
            assert!((found - truth).abs() < 1e-3 * truth, "{name}: {found} instead of {truth}");
        }
    };
    near(&calibrated.calibration.host, by_the_clock);
    let by_one = exact.observe(&base().at(250e3), true).unwrap().counts.unwrap();
    near(&calibrated.at_speed_of(&[by_one], 0.0).unwrap().calibration.host, by_the_clock);
    let mut slow = Exact { softirq: 1.5, handler: 1.5, application: 1.5, ticks: Some(0.08), ..exact };
    let by_one = slow.observe(&base().at(250e3), true).unwrap().counts.unwrap();
    near(&calibrated.at_speed_of(&[by_one], 0.0).unwrap().calibration.host, 1.5 / (1.0 - 0.08));
}

/// The time of a poll after its first packet is attributed to the NIC's masking, and so is an equal part of an
/// interrupt's time, at any speed of the parts. The sums of costs do not change.
#[test]
fn what_follows_the_first_packet_of_a_poll_is_masking() {
    let plan = Plan { rounds: 2, rough_pps: 400e3, backlog: false };
    let near = |found: f64, truth: f64| assert!((found - truth).abs() < 1e-3 * POLL_S, "{found:e}, not {truth:e}");
    let mut exact = Exact { look_s: Some(0.2e-6), ..Exact::default() };
    let calibrated = calibrate(&mut exact, &base(), plan).unwrap();
    let host = &calibrated.calibration.host;
    near(host.mask_s, POLL_S - 0.2e-6);
    near(host.poll_s, 0.2e-6);
    near(host.interrupt_s, HANDLER_S + HIDDEN_S - host.mask_s);
    near(calibrated.costs.poll_s, POLL_S);
    let rows = &calibrated.calibration.costs;
    let row = |key: &str| rows.iter().find(|cost| cost.key == key).unwrap().figure.value;
    assert_eq!((row("mask"), row("poll"), row("interrupt")), (host.mask_s, host.poll_s, host.interrupt_s));
    let mut slow = Exact { softirq: 2.0, ..exact };
    let trials = [200e3, 210e3, 220e3, 230e3, 240e3]
        .map(|rate_pps| slow.observe(&base().at(rate_pps), true).unwrap().counts.unwrap());
    let trials = Trials { empty: trials.to_vec(), full: Vec::new() };
    let present = calibrated.at_present(&trials, 0.0, 1).unwrap().calibration.host;
    near(present.mask_s + present.poll_s, 2.0 * POLL_S);
    near(present.mask_s, 0.6e-6);
    near(present.interrupt_s + present.mask_s, HANDLER_S + HIDDEN_S);
    // Masking takes at most as long as an interrupt.
    let short = Exact { look_s: Some(0.0), handler: 0.1, ..Exact::default() };
    let host = calibrate(&mut { short }, &base(), plan).unwrap().calibration.host;
    near(host.mask_s, 0.1 * HANDLER_S + HIDDEN_S);
    near(host.interrupt_s, 0.0);
    near(host.poll_s, POLL_S - host.mask_s);
}

/// If the rough cliff is half the cliff, the trial that should keep the socket full loses nothing, and the next round
/// uses twice the loads.
#[test]
fn loads_rise_where_the_rough_cliff_was_too_low() {
    let mut exact = Exact::default();
    let calibrated = calibrate(&mut exact, &base(), Plan { rounds: 3, rough_pps: 220e3, backlog: true }).unwrap();
    let highest = |round: usize| exact.asked_pps[8 * round..8 * (round + 1)].iter().copied().fold(0.0, f64::max);
    assert_eq!(exact.asked_pps.len(), 24);
    let risen = [308e3, 616e3, 616e3];
    for (round, expected) in risen.into_iter().enumerate() {
        assert!((highest(round) / expected - 1.0).abs() < 0.1, "round {round}: {}", highest(round));
    }
    let protocol_s = calibrated.calibration.host.protocol_s;
    assert!((protocol_s / PROTOCOL_S - 1.0).abs() < 1e-3, "{protocol_s}");
}

#[test]
fn a_trial_that_costs_what_was_calibrated_is_not_slow() {
    let mut exact = Exact::default();
    let calibrated = calibrate(&mut exact, &base(), Plan { rounds: 2, rough_pps: 400e3, backlog: true }).unwrap();
    let mut counts = exact.observe(&base().at(250e3), true).unwrap().counts.unwrap();
    let slowness = calibrated.costs.slowness(&counts, 0.0).unwrap();
    assert!((slowness - 1.0).abs() < 1e-5, "{slowness}");
    (counts.protocol_s, counts.application_s) = (1.3 * counts.protocol_s, 1.3 * counts.application_s);
    let slowness = calibrated.costs.slowness(&counts, 0.0).unwrap();
    assert!((slowness - 1.3).abs() < 1e-5, "{slowness}");
    assert_eq!(calibrated.costs.slowness(&Counts::default(), 0.0), None);
    // Half of the packets find the socket full.
    let full = base().at(560e3);
    let counts = exact.observe(&full, true).unwrap().counts.unwrap();
    let slowness = calibrated.costs.slowness(&counts, 0.5).unwrap();
    assert!((slowness - 1.0).abs() < 1e-5, "{slowness}");
}

#[test]
fn without_a_meter_there_is_no_calibration_and_no_guess() {
    let error = calibrate(
        &mut Exact { metered: false, ..Exact::default() },
        &base(),
        Plan { rounds: 1, rough_pps: 400e3, backlog: true },
    )
    .unwrap_err();
    assert!(matches!(error, CalibrationError::NoMeter(_)), "{error}");
}

#[test]
fn frames_that_were_late_are_no_excuse_of_a_host_without_time() {
    let sides = TesterCounts { offered_share: 1.0, reached_pps: 1e5, lost: 10, late: 20, missed: 0 };
    let busy = Counts { elapsed_s: 0.5, idle_s: 0.1, ..Counts::default() };
    let void_of = |sides, counts| {
        let spec = base().at(2e5);
        Observation { sides, counts, ..Exact::default().observe(&spec, true).unwrap() }.void().is_some()
    };
    assert!(void_of(sides, None) && void_of(sides, Some(busy.clone())), "they may have caused it");
    let saturated = Counts { idle_s: 0.004, ..busy };
    assert!(!void_of(sides, Some(saturated.clone())));
    assert!(void_of(TesterCounts { offered_share: 0.99, ..sides }, Some(saturated.clone())), "fewer were offered");
    assert!(void_of(TesterCounts { missed: 1, ..sides }, Some(saturated)));
}
