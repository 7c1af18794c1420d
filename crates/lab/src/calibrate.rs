//! Calibration: what this host's packets cost, by regression of CPU time on what happened, at loads well below
//! the cliff.
//!
//! softirq time = protocol x packets + poll x polls + wakeup x wake-ups;
//! interrupt time = interrupt x interrupts;
//! application time = application x packets + context switch x wake-ups.
//!
//! The interrupt's latency follows from how many packets a poll finds: a poll that begins L + s + o after the packet
//! that caused it starts with 1 + lambda (L + s + o) packets and, serving until the queue is empty, takes
//! n = (1 + lambda (L + s + o)) / (1 - lambda t) of them, t being the protocol time of a packet.
//!
//! Rows are weighted by the inverse square of the time they explain, so that each load counts alike.

use netcliff_core::finding::{Calibration, Cost};
use netcliff_core::{Figure, Host, Service};

use crate::bench::{Bench, Counts, Observation};
use crate::stats::{self, Fit};
use crate::trial::{TrialError, TrialSpec};

/// Loads of the regression as shares of the rough cliff: from a wake-up for every packet to batches.
pub const SHARES: [f64; 6] = [0.04, 0.12, 0.25, 0.4, 0.55, 0.7];
/// Share of the rough cliff at which the larger frame is compared with the smaller.
const SIZE_SHARE: f64 = 0.4;
/// The larger frame [bytes, FCS included].
pub const LARGE_FRAME_BYTES: u32 = 1518;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Rounds over all loads, interleaved so that drift hits all alike.
    pub rounds: u32,
    /// Rough cliff, of which the loads are shares [pps].
    pub rough_pps: f64,
}

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// A trial failed or was stopped.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The meter does not tell protocol processing from the application.
    #[error("no meter here tells softirq time from application time ({0}); costs cannot be had")]
    NoMeter(String),
    /// The counts do not determine the costs.
    #[error("{what}: {trials} trials do not determine the costs; lengthen the run")]
    Undetermined {
        /// Which cost.
        what: &'static str,
        /// Trials that were usable.
        trials: usize,
    },
}

/// The raw observations with what was fitted to them.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// For the page.
    pub calibration: Calibration,
    /// Application time a byte of frame [s]: what a longer frame adds to reading it.
    pub application_per_byte_s: f64,
    /// Frame size of the regression [bytes].
    pub frame_bytes: u32,
    /// Every trial.
    pub observations: Vec<Observation>,
}

impl Calibrated {
    /// The host as frames of `frame_bytes` meet it, with `work_s` more application time a packet than calibrated.
    pub fn host_for(&self, frame_bytes: u32, extra_work_s: f64) -> Host {
        let mut host = self.calibration.host.clone();
        let more_bytes = f64::from(frame_bytes) - f64::from(self.frame_bytes);
        host.application_s =
            host.application_s.map(|own| own + extra_work_s + self.application_per_byte_s * more_bytes);
        host
    }
}

/// Calibrates with `base` as the trial (its frame size and work; the rate is set here).
///
/// # Errors
/// See [`CalibrationError`].
pub fn calibrate(bench: &mut dyn Bench, base: &TrialSpec, plan: Plan) -> Result<Calibrated, CalibrationError> {
    let method = bench.cpu_method().ok_or_else(|| CalibrationError::NoMeter("eBPF is not available".to_owned()))?;
    let mut observations = Vec::new();
    let mut large = Vec::new();
    for round in 0..plan.rounds {
        for (place, share) in SHARES.iter().enumerate() {
            let seed = base.seed + u64::from(round) * 101 + place as u64;
            let spec = TrialSpec { rate_pps: share * plan.rough_pps, seed, ..base.clone() };
            observations.push(bench.observe(&spec, true)?);
        }
        let rate_pps = SIZE_SHARE * plan.rough_pps;
        let spec = TrialSpec {
            rate_pps,
            frame_bytes: LARGE_FRAME_BYTES,
            seed: base.seed + 77 + u64::from(round),
            ..base.clone()
        };
        large.push(bench.observe(&spec, true)?);
    }
    let capacity = bench.socket_capacity(base)?;
    let blocked = blocked_protocol_s(bench, base, plan)?;
    let full = full_socket(bench, base, plan)?;
    let fits = Fits::of(&observations, &large)?;
    let found = Found { fits, capacity, blocked, full, ring: bench.ring_slots() };
    let calibration = describe(&found, base, &method);
    let application_per_byte_s = found.fits.application_per_byte_s(base.frame_bytes);
    observations.extend(large);
    Ok(Calibrated { calibration, application_per_byte_s, frame_bytes: base.frame_bytes, observations })
}

/// Work that keeps the application from reading: its socket stays full, and every packet is dropped there [s].
const BLOCKED_WORK_S: f64 = 0.05;

/// Protocol time of a packet that finds the socket full [s], with the polls it took.
fn blocked_protocol_s(bench: &mut dyn Bench, base: &TrialSpec, plan: Plan) -> Result<Option<Counts>, TrialError> {
    let spec = TrialSpec {
        rate_pps: SHARES[3] * plan.rough_pps,
        work_s: BLOCKED_WORK_S,
        // A buffer of a few packets is full from the start.
        receive_buffer_bytes: 4096,
        seed: base.seed + 999,
        ..base.clone()
    };
    Ok(bench.observe(&spec, true)?.counts)
}

/// Work that keeps the socket full while about half of the packets are read [s].
const FULL_WORK_S: f64 = 5e-6;

/// A socket that stays full because the application works longer: its packets have left the caches when read.
fn full_socket(bench: &mut dyn Bench, base: &TrialSpec, plan: Plan) -> Result<Vec<Counts>, TrialError> {
    let mut seen = Vec::new();
    for round in 0..plan.rounds {
        let spec = TrialSpec {
            rate_pps: SHARES[4] * plan.rough_pps,
            work_s: base.work_s + FULL_WORK_S,
            seed: base.seed + 1999 + u64::from(round),
            ..base.clone()
        };
        let observation = bench.observe(&spec, true)?;
        // Only a trial that overflowed its socket kept it full.
        seen.extend(observation.counts.filter(|_| observation.loss > FULL_LOSS));
    }
    Ok(seen)
}

/// Loss above which a trial is taken to have kept the socket full.
const FULL_LOSS: f64 = 0.1;

struct Fits {
    protocol: Fit,
    interrupt: Option<Figure>,
    latency: Option<Figure>,
    application: Fit,
    large: Vec<Counts>,
}

fn counts(observations: &[Observation]) -> Vec<Counts> {
    let usable = |counts: &Counts| counts.packets > 0.0 && counts.delivered > 0.0 && counts.protocol_s > 0.0;
    observations.iter().filter_map(|observation| observation.counts).filter(usable).collect()
}

fn fit(what: &'static str, rows: Vec<Vec<f64>>, y: Vec<f64>) -> Result<Fit, CalibrationError> {
    let weight: Vec<f64> = y.iter().map(|y| 1.0 / (y * y).max(1e-18)).collect();
    stats::fit_non_negative(&rows, &y, &weight).ok_or(CalibrationError::Undetermined { what, trials: y.len() })
}

impl Fits {
    fn of(observations: &[Observation], large: &[Observation]) -> Result<Self, CalibrationError> {
        let all = counts(observations);
        let protocol = fit(
            "protocol, poll and wake-up cost",
            all.iter().map(|c| vec![c.packets, c.polls, c.wakeups]).collect(),
            all.iter().map(|c| c.protocol_s).collect(),
        )?;
        let application = fit(
            "application and context switch cost",
            all.iter().map(|c| vec![c.delivered, c.wakeups]).collect(),
            all.iter().map(|c| c.application_s).collect(),
        )?;
        let each: Vec<f64> = all.iter().filter(|c| c.interrupts > 0.0).map(|c| c.interrupt_s / c.interrupts).collect();
        let interrupt = stats::median(&each);
        let latency = delivery_latency(&all, &protocol, interrupt);
        Ok(Self { protocol, interrupt, latency, application, large: counts(large) })
    }

    /// What the larger frame costs more a byte, by the residual of `spent` after the fitted costs [s/B].
    fn per_byte(&self, frame_bytes: u32, residual: impl Fn(&Counts) -> (f64, f64)) -> Option<Figure> {
        let more_bytes = f64::from(LARGE_FRAME_BYTES.checked_sub(frame_bytes).filter(|more| *more > 0)?);
        let slopes: Vec<f64> = self
            .large
            .iter()
            .map(|counts| {
                let (left_s, packets) = residual(counts);
                left_s / packets / more_bytes
            })
            .collect();
        let figure = stats::mean(&slopes)?;
        Some(if figure.value < 0.0 { Figure { value: 0.0, ..figure } } else { figure })
    }

    fn protocol_per_byte(&self, frame_bytes: u32) -> Option<Figure> {
        let cost: Vec<f64> = self.protocol.coefficients.iter().map(|figure| figure.value).collect();
        self.per_byte(frame_bytes, |c| {
            (c.protocol_s - cost[0] * c.packets - cost[1] * c.polls - cost[2] * c.wakeups, c.packets)
        })
    }

    fn application_per_byte_s(&self, frame_bytes: u32) -> f64 {
        let cost: Vec<f64> = self.application.coefficients.iter().map(|figure| figure.value).collect();
        let slope = self
            .per_byte(frame_bytes, |c| (c.application_s - cost[0] * c.delivered - cost[1] * c.wakeups, c.delivered));
        slope.map_or(0.0, |figure| figure.value)
    }
}

/// L from the packets a poll takes, median over the trials [s]; None where it is not above zero.
fn delivery_latency(all: &[Counts], protocol: &Fit, interrupt: Option<Figure>) -> Option<Figure> {
    let cost: Vec<f64> = protocol.coefficients.iter().map(|figure| figure.value).collect();
    let interrupt_s = interrupt.map_or(0.0, |figure| figure.value);
    let latencies: Vec<f64> = all
        .iter()
        .filter(|c| c.polls > 0.0 && c.elapsed_s > 0.0)
        .map(|c| {
            let lambda = c.packets / c.elapsed_s;
            let service_s = cost[0] + cost[2] * c.wakeups / c.packets;
            let started = c.packets / c.polls * (1.0 - lambda * service_s);
            (started - 1.0) / lambda - interrupt_s - cost[1]
        })
        .collect();
    stats::median(&latencies).filter(|figure| figure.value > 0.0)
}

struct Found {
    fits: Fits,
    capacity: Option<f64>,
    blocked: Option<Counts>,
    full: Vec<Counts>,
    ring: Option<u64>,
}

impl Found {
    /// What a full socket adds to a packet's protocol time and application time, medians over the trials [s].
    fn cold(&self) -> (Option<Figure>, Option<Figure>) {
        let protocol: Vec<f64> = self.fits.protocol.coefficients.iter().map(|figure| figure.value).collect();
        let application: Vec<f64> = self.fits.application.coefficients.iter().map(|figure| figure.value).collect();
        let drop_cost = self.socket_drop_cost().unwrap_or(1.0);
        let more_protocol = |c: &Counts| {
            let weighted = c.delivered + drop_cost * (c.packets - c.delivered).max(0.0);
            (c.protocol_s - protocol[1] * c.polls - protocol[2] * c.wakeups) / weighted - protocol[0]
        };
        let more_application =
            |c: &Counts| (c.application_s - application[1] * c.wakeups) / c.delivered - FULL_WORK_S - application[0];
        let figure = |more: &dyn Fn(&Counts) -> f64| {
            let values: Vec<f64> = self.full.iter().filter(|c| c.delivered > 0.0).map(more).collect();
            stats::median(&values).filter(|figure| figure.value > 0.0)
        };
        (figure(&more_protocol), figure(&more_application))
    }

    /// Protocol time of a dropped packet as a share of a delivered one's.
    fn socket_drop_cost(&self) -> Option<f64> {
        let costs = &self.fits.protocol.coefficients;
        let blocked = self.blocked.filter(|counts| counts.packets > 0.0)?;
        let each_s = (blocked.protocol_s - costs[1].value * blocked.polls) / blocked.packets;
        Some((each_s / costs[0].value).clamp(0.0, 1.0))
    }
}

fn describe(found: &Found, base: &TrialSpec, method: &str) -> Calibration {
    let fits = &found.fits;
    let protocol = &fits.protocol.coefficients;
    let application = &fits.application.coefficients;
    let per_byte = fits.protocol_per_byte(base.frame_bytes);
    let per_byte_s = per_byte.map_or(0.0, |figure| figure.value);
    let own = shifted(protocol[0], -per_byte_s * f64::from(base.frame_bytes));
    let softirq = format!("regression of NET_RX softirq time on packets, polls and wake-ups ({method})");
    let task = format!("regression of the application's time on packets and wake-ups ({method})");
    let mut costs = Vec::new();
    let mut add = |key: &str, figure: Option<Figure>, unit: &str, how: &str| {
        if let Some(figure) = figure {
            costs.push(Cost { key: key.to_owned(), figure, unit: unit.to_owned(), how: how.to_owned() });
        }
    };
    add("interrupt", fits.interrupt, "s", &format!("interrupt time over interrupts, median over trials ({method})"));
    add("interrupt_latency", fits.latency, "s", "from the packets a poll finds, median over trials");
    add("poll", Some(protocol[1]), "s", &softirq);
    add("protocol", Some(own), "s", &softirq);
    add(
        "per_byte",
        per_byte,
        "s/B",
        &format!("{LARGE_FRAME_BYTES}-byte frames against {}-byte frames", base.frame_bytes),
    );
    add("wakeup", Some(protocol[2]), "s", &softirq);
    add("application", Some(application[0]), "s", &task);
    add("context_switch", Some(application[1]), "s", &task);
    let drop_cost = found.socket_drop_cost();
    let (cold_protocol, cold_application) = found.cold();
    let cold = "with a socket kept full by a slow application, over the regression's, median over trials";
    add("cold_protocol", cold_protocol, "s", cold);
    add("cold_application", cold_application, "s", cold);
    add(
        "socket_drop_cost",
        drop_cost.map(Figure::exact),
        "",
        "protocol time with a full socket over that of a delivered packet",
    );
    add("ring", found.ring.map(|slots| Figure::exact(slots as f64)), "packets", "net.core.netdev_max_backlog");
    add("socket_buffer", found.capacity.map(Figure::exact), "packets", "packets taken by a socket that nobody reads");
    let host = Host {
        name: "calibrated".to_owned(),
        interrupt_s: fits.interrupt.map_or(0.0, |figure| figure.value.max(0.0)),
        interrupt_latency_s: fits.latency.map_or(0.0, |figure| figure.value),
        protocol_s: own.value.max(1e-9),
        per_byte_s,
        mask_s: 0.0,
        poll_s: protocol[1].value,
        application_s: Some(application[0].value),
        context_switch_s: application[1].value,
        wakeup_s: protocol[2].value,
        cold_protocol_s: cold_protocol.map_or(0.0, |figure| figure.value),
        cold_application_s: cold_application.map_or(0.0, |figure| figure.value),
        socket_drop_cost: drop_cost.unwrap_or(1.0),
        ring: found.ring.unwrap_or(1000).max(1),
        socket_buffer: found.capacity.map_or(256, |packets| packets.round().max(1.0) as u64),
        tick_s: tick_s(),
        service: Service::Exponential,
    };
    Calibration { costs, host, cpu_method: method.to_owned(), r_squared: Some(fits.protocol.r_squared) }
}

fn shifted(figure: Figure, by: f64) -> Figure {
    let value = figure.value + by;
    match figure.interval {
        Some(interval) => Figure::between(value, interval.low + by, interval.high + by, interval.confidence),
        None => Figure::exact(value),
    }
}

/// Period of the scheduler's tick [s]: CONFIG_HZ, 250 where the kernel does not tell.
fn tick_s() -> f64 {
    let inventory = netcliff_host::inventory::Inventory::read(std::path::Path::new("/"));
    inventory.kernel.hz.map_or(4e-3, |hz| 1.0 / f64::from(hz))
}

#[cfg(test)]
mod tests;
