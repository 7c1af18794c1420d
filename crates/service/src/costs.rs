//! Cost of a request on the service's CPUs, by least squares over trials at several loads; and the cliff computed from
//! it.

use std::collections::BTreeMap;

use netcliff_core::service::{PredictedResponse, Promise, QuantileLimit, ServiceCost, ServicePrediction};
use netcliff_core::units::{print_share, print_time_s};
use netcliff_core::{Engine, Figure, Host, Napi, Outcome, Point, Scheme, Service};
use netcliff_host::cpu::{Counters, CpuSplit, PollTable, Shares};
use netcliff_model::ModelEngine;
use netcliff_model::cliff::CliffSearch;
use netcliff_sim::SimEngine;
use netcliff_stats::{self as stats, fit_non_negative_robust, quantile_at};

use crate::bench::Metered;
use crate::latency::{ResponseModel, Times, traffic};
use crate::pauses::{NO_LIMIT, Pauses};

/// Loads of the calibration, as shares of the rough cliff: different enough to separate time that grows with the load
/// from constant time, and close enough to the cliff that little is extrapolated. With loads up to 0.8 only, five
/// predictions of nsd's cliff of 70 k requests/s were between 67 and 110 k/s. The last load overloads the service: a
/// request that waited in a full socket has left the CPU's caches, and costs more than at any load that is carried.
pub const LOADS: [f64; 6] = [0.25, 0.5, 0.7, 0.85, 0.95, HIGHEST];
/// The last of these loads.
pub const HIGHEST: f64 = 1.2;
/// What every computed cliff assumes, a note.
pub const ASSUMED: &str = "predictions assume that one CPU serves packets and requests, in exponentially distributed times with the \
                           measured means";
/// Packets per simulated load.
const PACKETS: u64 = 200_000;
/// Relative width of the search for computed cliffs.
const WIDTH: f64 = 2e-3;
/// Assumed size of the receive backlog: the kernel's default of net.core.netdev_max_backlog.
const BACKLOG: u64 = 1000;
/// Slots of the queue of a veth that polls (VETH_RING_SIZE, drivers/net/veth.c).
const VETH_RING: u64 = 256;

/// Share of lost requests above which a trial's socket was full all the time.
const FULL: f64 = 0.02;
/// Share of the work of all metered CPUs below which a CPU counts as doing none of the service's work, only timers and
/// packets of other programs.
const WORKS: f64 = 0.02;

/// Part of the CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Interrupt,
    Softirq,
    Application,
    Other,
}

impl Part {
    const ALL: [Self; 4] = [Self::Interrupt, Self::Softirq, Self::Application, Self::Other];

    fn share(self, shares: &Shares) -> f64 {
        let sum = |parts: &[Option<f64>]| parts.iter().flatten().sum();
        match self {
            Self::Interrupt => sum(&[shares.interrupt]),
            Self::Softirq => sum(&[shares.protocol, shares.transmit, shares.softirq_other, shares.ksoftirqd]),
            Self::Application => sum(&[shares.application]),
            Self::Other => sum(&[shares.other]),
        }
    }
}

/// Costs of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Costs by part, summed over all CPUs of the service.
    pub parts: Vec<ServiceCost>,
    /// CPU time of a request on the busiest CPU (s) at loads that it carries.
    busiest_s: Figure,
    /// The same while the service's socket is full (s); `None`: connections, or no trial with a full socket.
    full_s: Option<Figure>,
    /// Share of the busiest CPU used by other tasks.
    constant: f64,
    /// Host for the model, without other tasks and pauses; `None`: more than one CPU does the work, which the model
    /// does not have.
    host: Option<Host>,
}

/// CPUs that do the service's work in these trials, in ascending order.
pub fn working(metered: &[Metered]) -> Vec<usize> {
    let mut seconds: BTreeMap<usize, f64> = BTreeMap::new();
    for cpu in metered.iter().flat_map(|one| &one.cpus) {
        let own = [Part::Interrupt, Part::Softirq, Part::Application].map(|part| seconds_of(cpu, part));
        *seconds.entry(cpu.cpu).or_default() += own.iter().sum::<f64>();
    }
    let all: f64 = seconds.values().sum();
    seconds.into_iter().filter(|(_, own)| *own >= WORKS * all).map(|(cpu, _)| cpu).collect()
}

/// Definition of the cliff to predict: the promise that it keeps, and how trials decide it.
#[derive(Debug, Clone, Copy)]
pub struct Goal<'a> {
    /// The promise.
    pub promise: &'a Promise,
    /// Share of trials that may break the promise.
    pub exceed: f64,
    /// Pauses of the service.
    pub pauses: &'a Pauses,
    /// True: requests travel over connections, whose peer waits where a buffer is full.
    pub streams: bool,
    /// Seed of the simulations.
    pub seed: u64,
}

/// Differences of a set-up from the calibrated one that the model can express. `None`: no difference.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Altered {
    /// Datagrams that the service's socket holds.
    pub socket_packets: Option<u64>,
    /// Packets that the receive backlog holds.
    pub backlog: Option<u64>,
    /// Packets of a softirq round.
    pub budget: Option<u64>,
    /// True: a kernel thread polls the device, and packets wait in the device's ring instead of the backlog.
    pub threaded: bool,
    /// Time to switch between this thread and the service (s). `None`: as long as a wake-up of the service, which
    /// includes a turn of its event loop.
    pub switch_s: Option<f64>,
}

/// Fits the costs of a request to metered trials; the error is the reason why they cannot be separated.
pub fn fit(metered: &[Metered], socket_packets: u64, streams: bool) -> Result<Costs, String> {
    let cpus = metered.first().map_or(0, |first| first.cpus.len());
    if cpus == 0 || metered.len() < 3 {
        return Err("CPU time was measured in fewer than three trials".to_owned());
    }
    if metered.iter().flat_map(|one| &one.cpus).any(|cpu| cpu.shares.application.is_none()) {
        return Err(
            "the meter cannot tell which CPU the service used: give --service-cpus, or use the eBPF meter".to_owned()
        );
    }
    // A connection's buffer does not overflow: its peer waits.
    let is_full = |one: &Metered| !streams && one.network.full_sockets as f64 > FULL * one.answers as f64;
    let (full, carried): (Vec<Metered>, Vec<Metered>) = metered.iter().cloned().partition(is_full);
    // If nearly all trials had a full socket, the two states cannot be distinguished.
    let (full, metered) = if carried.len() < 3 { (&[][..], metered) } else { (&full[..], &carried[..]) };
    let answers: f64 = metered.iter().map(|one| one.answers as f64).sum();
    let rows: Vec<Vec<f64>> = metered.iter().map(|one| vec![one.answers as f64, one.elapsed_s]).collect();
    let weights: Vec<f64> = metered.iter().map(|one| 1.0 / (one.answers as f64).max(1.0)).collect();
    let line = |seconds: Vec<f64>| {
        if seconds.iter().all(|of| *of <= 0.0) {
            return (Figure::exact(0.0), 0.0);
        }
        match fit_non_negative_robust(&rows, &seconds, &weights) {
            Some(fit) => (fit.coefficients[0].not_negative(), fit.coefficients[1].value),
            None => (Figure::exact(seconds.iter().sum::<f64>() / answers.max(1.0)), 0.0),
        }
    };
    let seconds = |part: Part| -> Vec<f64> {
        let of = |one: &Metered| one.cpus.iter().map(|cpu| seconds_of(cpu, part)).sum();
        metered.iter().map(of).collect()
    };
    let mut parts = Vec::new();
    for part in Part::ALL {
        let (request_s, constant) = line(seconds(part));
        let named = |name: &str, share: f64| ServiceCost {
            part: name.to_owned(),
            request_s: request_s.scaled(share.max(1e-9)),
            constant: constant * share,
        };
        match part {
            Part::Interrupt => parts.push(named("interrupt", 1.0)),
            Part::Softirq => parts.push(named("softirq", 1.0)),
            Part::Other => parts.push(named("other", 1.0)),
            Part::Application => {
                let (user, system) = metered.iter().fold((0, 0), |sum, one| (sum.0 + one.ticks.0, sum.1 + one.ticks.1));
                let of_user = if user + system == 0 { 0.0 } else { user as f64 / (user + system) as f64 };
                parts.push(named("system", 1.0 - of_user));
                parts.push(named("user", of_user));
            }
        }
    }
    let lines: Option<Vec<_>> = (0..cpus).map(|place| per_cpu(metered, place)).collect();
    let lines =
        lines.ok_or_else(|| "the CPU time of the trials does not determine the cost of a request".to_owned())?;
    let capacity = |(request_s, constant): &(Figure, f64)| (1.0 - constant) / request_s.value.max(1e-12);
    let busiest = lines.into_iter().enumerate().min_by(|a, b| capacity(&a.1).total_cmp(&capacity(&b.1)));
    let (place, (busiest_s, constant)) = busiest.ok_or_else(|| "no CPU was metered".to_owned())?;
    let all_s = |times: &FullTimes| times.protocol_s + times.application_s + times.interrupt_s;
    let full_s = stats::median(&full_times(full, place).iter().map(all_s).collect::<Vec<f64>>());
    let socket = if streams { NO_LIMIT } else { socket_packets };
    let host = (cpus == 1).then(|| host(metered, full, socket)).flatten();
    Ok(Costs { parts, busiest_s, full_s, constant, host })
}

/// Times of a trial with a full socket, in which the service does not sleep (s).
struct FullTimes {
    /// Softirq time per received datagram.
    protocol_s: f64,
    /// Time of the service per answer.
    application_s: f64,
    /// Time of interrupts per answer.
    interrupt_s: f64,
}

/// Times on the CPU at `place` in each of the trials with a full socket.
fn full_times(full: &[Metered], place: usize) -> Vec<FullTimes> {
    let of = |one: &Metered| {
        let cpu = one.cpus.get(place)?;
        let answers = (one.answers as f64).max(1.0);
        let polls_s = received_s(cpu);
        let sent_s = seconds_of(cpu, Part::Softirq) - polls_s;
        Some(FullTimes {
            protocol_s: polls_s / (answers + one.network.full_sockets as f64),
            application_s: (seconds_of(cpu, Part::Application) + sent_s) / answers,
            interrupt_s: seconds_of(cpu, Part::Interrupt) / answers,
        })
    };
    full.iter().filter_map(of).collect()
}

/// CPU time of a part (s), without the meter's own time.
fn seconds_of(cpu: &CpuSplit, part: Part) -> f64 {
    let busy: f64 = Part::ALL.iter().map(|part| part.share(&cpu.shares)).sum();
    let own = cpu.overhead_share.unwrap_or(0.0).min(0.5 * busy);
    let rest = if busy > 0.0 { 1.0 - own / busy } else { 1.0 };
    part.share(&cpu.shares) * cpu.elapsed_s * rest
}

/// Softirq time in polls (s), without the meter's own time: reception of requests, which has priority over the service.
/// The rest of the softirq time belongs to the service's own sends, whose packets pass the softirq of the sending CPU.
/// Returns all softirq time if poll times are unknown: the method does not measure them, or an older agent does not
/// send them.
fn received_s(cpu: &CpuSplit) -> f64 {
    let softirq_s = seconds_of(cpu, Part::Softirq);
    let all_s = Part::Softirq.share(&cpu.shares) * cpu.elapsed_s;
    let polls_s = |table: &PollTable| table.cells.iter().map(|cell| cell.total_s).sum::<f64>();
    let share = cpu.polls.as_ref().map_or(1.0, |table| polls_s(table) / all_s.max(1e-12));
    softirq_s * share.min(1.0)
}

/// (answers, wake-ups of the service) in each trial. Requests close together share a wake-up and an interrupt, so that
/// the two numbers separate the cost of a wake-up and its interrupt from the cost of a request. At the cliff the
/// service does not sleep, but programs of a service that share the CPU still take turns: only wake-ups of an idle CPU
/// count. An older agent reports all switches to the service.
fn by_wakes(metered: &[Metered], place: usize) -> Vec<Vec<f64>> {
    let of = |counters: &Counters| counters.application_wakes.or(counters.application_switches);
    let wakes = |one: &Metered| one.cpus.get(place).and_then(|cpu| of(&cpu.counters)).unwrap_or(0);
    metered.iter().map(|one| vec![one.answers as f64, wakes(one) as f64]).collect()
}

/// Time (s) on the CPU at `place` in which datagrams were received that then found the socket full, in each trial.
fn dropped_s(metered: &[Metered], place: usize) -> Vec<f64> {
    let of = |one: &Metered| {
        let dropped = one.network.full_sockets as f64;
        let received_s = one.cpus.get(place).map_or(0.0, received_s);
        received_s * dropped / (dropped + one.answers as f64).max(1.0)
    };
    metered.iter().map(of).collect()
}

/// Fits (time per answer, time per wake-up) (s); the second is 0 if the two cannot be separated.
fn fitted(rows: &[Vec<f64>], seconds: &[f64]) -> Option<(Figure, f64)> {
    let weights: Vec<f64> = rows.iter().map(|row| 1.0 / row[0].max(1.0)).collect();
    let both = fit_non_negative_robust(rows, seconds, &weights).filter(|fit| fit.coefficients[0].value > 0.0);
    let alone = || {
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| vec![row[0]]).collect();
        Some((fit_non_negative_robust(&rows, seconds, &weights)?.coefficients[0], 0.0))
    };
    both.map(|fit| (fit.coefficients[0].not_negative(), fit.coefficients[1].value)).or_else(alone)
}

/// CPU time of a request on the CPU at `place` when the service does not sleep (s), and the share of this CPU used by
/// other tasks.
fn per_cpu(metered: &[Metered], place: usize) -> Option<(Figure, f64)> {
    let of = |part: Part| -> Vec<f64> {
        metered.iter().map(|one| one.cpus.get(place).map_or(0.0, |cpu| seconds_of(cpu, part))).collect()
    };
    let own = [Part::Interrupt, Part::Softirq, Part::Application].map(of);
    let dropped_s = dropped_s(metered, place);
    let busy: Vec<f64> =
        (0..metered.len()).map(|at| own.iter().map(|part| part[at]).sum::<f64>() - dropped_s[at]).collect();
    let (request_s, _) = fitted(&by_wakes(metered, place), &busy)?;
    let elapsed: f64 = metered.iter().map(|one| one.elapsed_s).sum();
    let others = of(Part::Other).iter().sum::<f64>() / elapsed.max(1e-9);
    (request_s.value > 0.0).then_some((request_s, others.clamp(0.0, 0.9)))
}

/// Host for the model with one CPU: costs of a request, of a wake-up of the service and of an interrupt, and what a
/// request costs more while the socket is full. `full`: trials with a full socket.
fn host(metered: &[Metered], full: &[Metered], socket_buffer: u64) -> Option<Host> {
    let cpus = || metered.iter().filter_map(|one| one.cpus.first());
    let seconds = |part: Part| -> Vec<f64> { cpus().map(|cpu| seconds_of(cpu, part)).collect() };
    let rows = by_wakes(metered, 0);
    let received: Vec<f64> = cpus().map(received_s).collect();
    let sent = seconds(Part::Softirq).into_iter().zip(&received).map(|(softirq_s, received_s)| softirq_s - received_s);
    let own: Vec<f64> =
        seconds(Part::Application).into_iter().zip(sent).map(|(own_s, sent_s)| own_s + sent_s).collect();
    let answered: Vec<f64> = received.iter().zip(dropped_s(metered, 0)).map(|(all_s, lost_s)| all_s - lost_s).collect();
    let (protocol_s, wakeup_s) = fitted(&rows, &answered)?;
    let (application_s, context_switch_s) = fitted(&rows, &own)?;
    let interrupts: f64 = cpus().filter_map(|cpu| Some(cpu.counters.reception()?.interrupts as f64)).sum();
    let interrupt_s = if interrupts > 0.0 { seconds(Part::Interrupt).iter().sum::<f64>() / interrupts } else { 0.0 };
    let full_times = full_times(full, 0);
    let more_s = |of: fn(&FullTimes) -> f64, carried_s: f64| {
        let all_s: Vec<f64> = full_times.iter().map(of).collect();
        stats::median(&all_s).map_or(0.0, |median| (median.value - carried_s).max(0.0))
    };
    let host = Host {
        name: "calibrated".to_owned(),
        interrupt_s,
        protocol_s: protocol_s.value.max(1e-9),
        wakeup_s,
        application_s: Some(application_s.value),
        context_switch_s,
        cold_protocol_s: more_s(|full| full.protocol_s, protocol_s.value),
        cold_application_s: more_s(|full| full.application_s, application_s.value),
        ring: BACKLOG,
        socket_buffer,
        service: Service::Exponential,
        ..Host::default()
    };
    host.validate().ok().map(|()| host)
}

impl Costs {
    /// Share of the busiest CPU that other tasks used in the trials.
    pub fn others(&self) -> f64 {
        self.constant
    }

    /// CPU time of a request on the busiest CPU (s).
    pub fn request_s(&self) -> f64 {
        self.busiest_s.value
    }

    /// The load at which the busiest CPU has no idle time (requests/s): the number of answers per second of an overloaded
    /// service.
    pub fn capacity_rps(&self) -> Figure {
        self.load_of(&self.full_s.unwrap_or(self.busiest_s))
    }

    /// The load that uses the busiest CPU completely if a request costs `request_s` (requests/s).
    fn load_of(&self, request_s: &Figure) -> Figure {
        let at = |request_s: f64| (1.0 - self.constant) / request_s;
        let value = at(request_s.value);
        match request_s.interval {
            Some(ends) if ends.low > 0.0 => Figure::between(value, at(ends.high), at(ends.low), ends.confidence),
            _ => Figure::exact(value),
        }
    }

    /// The host without pauses in such a set-up, its scheme, and the factor by which other programs lengthen all times.
    /// An error says why neither the model nor the simulator has it.
    fn altered(&self, altered: &Altered, goal: &Goal<'_>) -> Result<(Host, Scheme, f64), String> {
        let calibrated = self.host.as_ref().ok_or(
            "the model has one CPU for packets and service; this service uses several, so only their capacity is computed",
        )?;
        let ring = if altered.threaded { VETH_RING } else { altered.backlog.unwrap_or(calibrated.ring) };
        let socket_buffer = altered.socket_packets.filter(|_| !goal.streams).unwrap_or(calibrated.socket_buffer);
        let context_switch_s = calibrated.context_switch_s.min(altered.switch_s.unwrap_or(f64::INFINITY));
        let mut host = Host { ring, socket_buffer, context_switch_s, ..calibrated.clone() };
        // Other programs lengthen all times; their long turns are already counted as pauses.
        let slower = 1.0 / (1.0 - (self.constant - goal.pauses.share_of_service_alone()).max(0.0));
        host.scale_times(|role| role.part.map(|_| slower));
        let usual = Napi::default();
        let budget = altered.budget.unwrap_or(usual.budget);
        let scheme = Scheme::Napi(Napi { backlog: !altered.threaded, threaded: altered.threaded, budget, ..usual });
        Ok((host, scheme, slower))
    }

    /// Computes the cliff; the error is the reason why it cannot be computed.
    pub fn predict(&self, goal: &Goal<'_>) -> Result<ServicePrediction, String> {
        self.predict_altered(&Altered::default(), goal)
    }

    /// Computed response times at the loads of `measured` that the busiest CPU can carry. `measured`: times without pauses,
    /// by load in ascending order. Empty if they cannot be computed.
    pub fn responses(&self, goal: &Goal<'_>, measured: &[Times]) -> Vec<PredictedResponse> {
        let capacity_rps = self.load_of(&self.busiest_s).value;
        let model = || {
            let (host, scheme, _) = self.altered(&Altered::default(), goal).ok()?;
            ResponseModel::fit(&host, &scheme, measured, capacity_rps, goal.seed)
        };
        let Some(model) = model() else { return Vec::new() };
        let carried = measured.iter().filter(|times| times.rate_rps < capacity_rps);
        let computed = carried.filter_map(|times| model.at(times.rate_rps));
        computed.map(|Times { rate_rps, p50_s, p99_s, .. }| PredictedResponse { rate_rps, p50_s, p99_s }).collect()
    }

    /// The computed cliff of a set-up that differs from the calibrated one; otherwise the reason why it cannot be
    /// computed. A request costs what it cost in the calibrated set-up.
    pub fn predict_altered(&self, altered: &Altered, goal: &Goal<'_>) -> Result<ServicePrediction, String> {
        let (host, scheme, slower) = self.altered(altered, goal)?;
        let set_up = SetUp { host: &host, scheme: &scheme, unpaused_rps: 1.0 / (slower * self.request_s()) };
        let unpaused = (!goal.streams).then(|| set_up.unpaused(goal)).transpose()?;
        let (cliff_rps, how) = set_up.cliff(goal, unpaused, &goal.pauses.without_outside())?;
        let cost = self.load_of(&self.busiest_s);
        let with_pauses = goal.pauses.has_outside().then(|| set_up.cliff(goal, unpaused, goal.pauses)).transpose()?;
        Ok(ServicePrediction {
            cliff_rps: widened(cliff_rps, &cost),
            with_pauses_rps: with_pauses.map(|(cliff_rps, _)| widened(cliff_rps, &cost)),
            capacity_rps: self.capacity_rps(),
            response_times: Vec::new(),
            how,
        })
    }
}

/// A set-up whose cliff is computed.
struct SetUp<'a> {
    host: &'a Host,
    scheme: &'a Scheme,
    /// The load that uses the CPU completely (requests/s).
    unpaused_rps: f64,
}

/// The computed cliff without pauses (requests/s), and by what it was computed.
type Unpaused = (f64, &'static str);

impl SetUp<'_> {
    /// The cliff of loss without pauses.
    fn unpaused(&self, goal: &Goal<'_>) -> Result<Unpaused, String> {
        let loss = goal.promise.loss;
        // The model has no threads that poll.
        if matches!(self.scheme, Scheme::Napi(napi) if napi.threaded) {
            let rps = highest_kept(self.host, self.scheme, self.unpaused_rps, Broken::Loss(loss), goal.seed)?;
            return Ok((rps, "simulation"));
        }
        let search = CliffSearch { width: WIDTH, ..CliffSearch::default() };
        let cliff = search.cliff(&ModelEngine::default(), self.host, self.scheme, &traffic(), loss);
        Ok((cliff.map_err(|error| format!("the model: {error}"))?.pps, "the model"))
    }

    /// The cliff with these pauses, and how it was computed: the lowest of the loads at which a part of the promise is
    /// broken. `unpaused`: the cliff of loss without pauses; `None`: no requests are lost.
    fn cliff(&self, goal: &Goal<'_>, unpaused: Option<Unpaused>, pauses: &Pauses) -> Result<(Figure, String), String> {
        let mut parts: Vec<(Figure, String)> = Vec::new();
        if let Some((own_rps, by)) = unpaused {
            let loss = goal.promise.loss;
            let point_at = |host: &Host, rps: f64| Point::of(host, self.scheme, &traffic(), rps);
            let highest = pauses.highest(self.host, point_at, (own_rps, loss), goal.seed);
            let highest = highest.map_err(|error| format!("the simulator: {error}"))?;
            let method = match (pauses.is_empty(), by) {
                (true, _) => format!("by {by}"),
                (false, "simulation") => "by simulation, with the times in which the service itself waited".to_owned(),
                (false, _) => format!("by {by}; a simulation adds the times in which the service itself waited"),
            };
            let how = format!("above it more than {} of the requests are lost, {method}", print_share(loss));
            parts.push((quantile_at(&highest, goal.exceed).unwrap_or(Figure::exact(own_rps)), how));
        }
        for limit in &goal.promise.quantiles {
            let host = pauses.on(self.host);
            let within_rps = highest_kept(&host, self.scheme, self.unpaused_rps, Broken::Late(*limit), goal.seed)?;
            let how = format!(
                "above it fewer than {} are answered within {}, by simulation",
                print_share(limit.quantile),
                print_time_s(limit.within_s)
            );
            parts.push((Figure::exact(within_rps), how));
        }
        let lowest = parts.into_iter().min_by(|a, b| a.0.value.total_cmp(&b.0.value));
        lowest.ok_or_else(|| "no limit of loss or response times is set".to_owned())
    }
}

/// Returns the cliff with its interval widened by the relative uncertainty of a request's cost, as if the two were
/// independent. The confidence is the lower of the two.
fn widened(cliff_rps: Figure, capacity_rps: &Figure) -> Figure {
    let Some(cost) = capacity_rps.interval else { return cliff_rps };
    let value = cliff_rps.value;
    let (low, high) = cliff_rps.interval.map_or((value, value), |own| (own.low, own.high));
    let (below, above) = (1.0 - cost.low / capacity_rps.value, cost.high / capacity_rps.value - 1.0);
    let confidence = cliff_rps.interval.map_or(cost.confidence, |own| own.confidence.min(cost.confidence));
    let (below, above) = ((value - low).hypot(value * below), (high - value).hypot(value * above));
    Figure::between(value, (value - below).max(0.0), value + above, confidence)
}

/// The part of a promise that a simulated load may break.
#[derive(Debug, Clone, Copy)]
enum Broken {
    /// A larger share of the requests than this is lost.
    Loss(f64),
    /// A quantile of response times is above its limit.
    Late(QuantileLimit),
}

impl Broken {
    /// True if a simulated outcome breaks this part of the promise.
    fn is_by(self, host: &Host, outcome: &Outcome) -> Result<bool, String> {
        match self {
            Self::Loss(most) => Ok(outcome.loss_fraction.ok_or("the simulator has no loss")?.value > most),
            Self::Late(limit) => Ok(response_s(host, outcome, limit.quantile)? > limit.within_s),
        }
    }
}

/// A quantile of the simulated response times (s); of the quantiles that the simulator reports, the lowest that is not
/// below it. The simulator's latency ends when the service takes a request, whose mean work is added.
fn response_s(host: &Host, outcome: &Outcome, quantile: f64) -> Result<f64, String> {
    let latency = outcome.latency_s.unwrap_or_default();
    let known = [(0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99), (0.999, latency.p999)];
    let above = known.into_iter().find(|(of, _)| *of >= quantile - 1e-9);
    let figure = above.and_then(|(_, figure)| figure).ok_or("the simulator has no such quantile of response times")?;
    Ok(figure.value + host.application_s.unwrap_or(0.0))
}

/// Bisects for the highest load (requests/s) at which a simulation does not break `part` of the promise.
fn highest_kept(host: &Host, scheme: &Scheme, capacity_rps: f64, part: Broken, seed: u64) -> Result<f64, String> {
    let engine = SimEngine::with_packets(seed, PACKETS);
    let broken = |rps: f64| -> Result<bool, String> {
        let point = Point::of(host, scheme, &traffic(), rps);
        part.is_by(host, &engine.evaluate(&point).map_err(|error| format!("the simulator: {error}"))?)
    };
    let (mut low, mut high) = (0.05 * capacity_rps, 1.3 * capacity_rps);
    if broken(low)? {
        return Err(match part {
            Broken::Loss(_) => "the simulator loses requests at every load",
            Broken::Late(_) => "response times exceed the limit at every load",
        }
        .to_owned());
    }
    while high > low * (1.0 + 5.0 * WIDTH) {
        let middle = f64::midpoint(low, high);
        if broken(middle)? { high = middle } else { low = middle }
    }
    Ok(low)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::pauses::Silences;
    use netcliff_core::service::QuantileLimit;
    use netcliff_host::cpu::Method;

    /// 2 us in softirqs and 6 us in the service per request, 1 us per wake-up, 3 % of the CPU for others.
    pub(crate) fn metered(rps: f64, wakes: f64) -> Metered {
        let busy = |each_s: f64| Some(rps * each_s);
        let shares = Shares {
            interrupt: busy(0.5e-6 * wakes),
            protocol: busy(2e-6),
            application: busy(6e-6 + 1e-6 * wakes),
            other: Some(0.03),
            idle: Some(1.0 - rps * (8e-6 + 1.5e-6 * wakes) - 0.03),
            ..Shares::default()
        };
        let count = |share: f64| Some((rps * share) as u64);
        let counters = Counters {
            application_wakes: count(wakes),
            // Programs of the service that take turns.
            application_switches: count(wakes + 2.0),
            ipis: count(wakes),
            backlog_polls: count(wakes),
            backlog_packets: count(1.0),
            packets: count(1.0),
            polls: count(wakes),
            ..Counters::default()
        };
        let cpu = CpuSplit {
            cpu: 1,
            method: Method::Ebpf,
            elapsed_s: 1.0,
            shares,
            available: None,
            counters,
            resolution_share: 0.0,
            overhead_share: None,
            polls: None,
            notes: Vec::new(),
        };
        Metered {
            elapsed_s: 1.0,
            loaded_s: 1.0,
            answers: rps as u64,
            cpus: vec![cpu],
            ticks: (20, 60),
            ..Metered::default()
        }
    }

    fn goal<'a>(promise: &'a Promise, pauses: &'a Pauses, streams: bool) -> Goal<'a> {
        Goal { promise, exceed: 0.5, pauses, streams, seed: 1 }
    }

    fn costs() -> Costs {
        let all: Vec<Metered> =
            [(20e3, 0.9), (40e3, 0.7), (60e3, 0.5), (80e3, 0.3)].map(|(rps, wakes)| metered(rps, wakes)).to_vec();
        fit(&all, 250, false).unwrap()
    }

    #[test]
    fn known_costs_are_found_by_part() {
        let costs = costs();
        let of = |name: &str| costs.parts.iter().find(|part| part.part == name).unwrap().clone();
        assert!((of("softirq").request_s.value / 2e-6 - 1.0).abs() < 0.01);
        assert!((of("other").constant - 0.03).abs() < 1e-3);
        let (user, system) = (of("user").request_s.value, of("system").request_s.value);
        assert!((system / user - 3.0).abs() < 1e-6, "by ticks");
        let host = costs.host.clone().unwrap();
        assert!((host.application_s.unwrap() / 6e-6 - 1.0).abs() < 0.02, "{host:?}");
        assert!((host.context_switch_s / 1e-6 - 1.0).abs() < 0.05, "{host:?}");
        assert!((host.interrupt_s / 0.5e-6 - 1.0).abs() < 0.02, "{host:?}");
    }

    /// With a full socket a datagram costs 3 us in softirqs, and an answer 9 us: 10 % of the 90 k/s datagrams are dropped.
    #[test]
    fn a_full_socket_has_costs_of_its_own() {
        let mut all: Vec<Metered> =
            [(20e3, 0.9), (40e3, 0.7), (60e3, 0.5), (80e3, 0.3)].map(|(rps, wakes)| metered(rps, wakes)).to_vec();
        let mut full = metered(81e3, 0.0);
        full.network.full_sockets = 9000;
        let shares = &mut full.cpus[0].shares;
        (shares.protocol, shares.application) = (Some(90e3 * 3e-6), Some(81e3 * 9e-6));
        all.push(full);
        let (costs, warm) = (fit(&all, 250, false).unwrap(), costs());
        assert_eq!(costs.busiest_s, warm.busiest_s, "the trials with a full socket are apart");
        assert!((costs.capacity_rps().value / (0.97 / 12e-6) - 1.0).abs() < 1e-3, "{:?}", costs.capacity_rps());
        let host = costs.host.clone().unwrap();
        assert!((host.cold_protocol_s / 1e-6 - 1.0).abs() < 0.1, "{host:?}");
        assert!((host.cold_application_s / 3e-6 - 1.0).abs() < 0.1, "{host:?}");
        // A pause of 3 ms fills the socket: at a load between the two capacities it then stays full.
        let promise = Promise { loss: 1e-3, timeout_s: 0.2, quantiles: Vec::new() };
        let silences = Silences { service: vec![(0.1, 3e-3)], ..Silences::default() };
        let pauses = Pauses::of(vec![silences; 9], 0.5);
        let cliff = |costs: &Costs| costs.predict(&goal(&promise, &pauses, false)).unwrap().cliff_rps.value;
        assert!(cliff(&costs) < 0.95 * cliff(&warm), "{} {}", cliff(&costs), cliff(&warm));
        // Connections have no socket that is full.
        assert!(fit(&all, 250, true).unwrap().full_s.is_none());
    }

    #[test]
    fn the_cliff_is_near_the_capacity() {
        let costs = costs();
        // A request takes 8 us if wake-ups are shared, and 97 % of the CPU are available.
        let (promise, none) = (Promise { loss: 1e-3, timeout_s: 0.2, quantiles: Vec::new() }, Pauses::default());
        let predicted = costs.predict(&goal(&promise, &none, false)).unwrap();
        let cliff = predicted.cliff_rps.value;
        assert!((100e3..123e3).contains(&cliff), "{predicted:?}");
        let within = QuantileLimit { quantile: 0.99, within_s: 1e-3 };
        let streams = costs.predict(&goal(&Promise { quantiles: vec![within], ..promise }, &none, true)).unwrap();
        assert!((90e3..123e3).contains(&streams.cliff_rps.value), "{streams:?}");
    }

    /// A large socket carries loads closer to the capacity; a thread that polls is simulated.
    #[test]
    fn altered_set_ups_are_predicted_with_the_same_costs() {
        let costs = costs();
        let (promise, none) = (Promise { loss: 1e-3, timeout_s: 0.2, quantiles: Vec::new() }, Pauses::default());
        let cliff =
            |altered: Altered| costs.predict_altered(&altered, &goal(&promise, &none, false)).unwrap().cliff_rps.value;
        let of_socket = |packets| cliff(Altered { socket_packets: Some(packets), ..Altered::default() });
        let calibrated = cliff(Altered::default());
        assert!(of_socket(8) < 0.9 * of_socket(250) && of_socket(250) <= of_socket(4000), "{}", of_socket(8));
        assert!((of_socket(250) / calibrated - 1.0).abs() < 1e-6, "as calibrated");
        let small_backlog = cliff(Altered { backlog: Some(4), ..Altered::default() });
        assert!(small_backlog < 0.97 * calibrated, "{small_backlog}");
        let threaded = Altered { threaded: true, ..Altered::default() };
        let predicted = costs.predict_altered(&threaded, &goal(&promise, &none, false)).unwrap();
        assert!(predicted.how.contains("simulation"), "{predicted:?}");
        assert!((0.8..1.05).contains(&(predicted.cliff_rps.value / calibrated)), "{predicted:?} {calibrated}");
        let quick = cliff(Altered { switch_s: Some(1e-7), ..threaded });
        assert!(quick > 1.02 * predicted.cliff_rps.value, "a switch of 0.1 us instead of 1 us: {quick} {predicted:?}");
    }

    /// A host has CPUs that the service does not use.
    #[test]
    fn cpus_without_work_are_left_out() {
        let idle = Shares { interrupt: Some(1e-3), other: Some(0.9), idle: Some(0.099), ..Shares::default() };
        let mut all: Vec<Metered> =
            [(20e3, 0.9), (40e3, 0.7), (60e3, 0.5)].map(|(rps, wakes)| metered(rps, wakes)).to_vec();
        for one in &mut all {
            let other = CpuSplit { cpu: 0, shares: idle, ..one.cpus[0].clone() };
            one.cpus.insert(0, other);
        }
        assert_eq!(working(&all), [1]);
        all.iter_mut().for_each(|one| one.keep(&[1]));
        assert!(fit(&all, 250, false).unwrap().host.is_some());
    }

    #[test]
    fn too_few_trials_tell_nothing() {
        assert!(fit(&[metered(1e4, 1.0)], 250, false).unwrap_err().contains("fewer than three"));
        let several: Vec<Metered> = [1e4, 2e4, 3e4]
            .map(|rps| {
                let one = metered(rps, 0.5);
                Metered { cpus: [one.cpus.clone(), one.cpus.clone()].concat(), ..one }
            })
            .to_vec();
        let (promise, none) = (Promise { loss: 1e-3, timeout_s: 0.2, quantiles: Vec::new() }, Pauses::default());
        let costs = fit(&several, 250, false).unwrap();
        assert!(costs.predict(&goal(&promise, &none, false)).unwrap_err().contains("several"));
    }
}
