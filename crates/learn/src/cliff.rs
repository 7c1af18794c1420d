//! The load at which a part of the host overloads, and its uncertainty.

use netcliff_core::{Engine, EngineFailure, Figure, Host, Load, Point, Scheme, Service, Traffic};
use netcliff_model::sensitivity::{cliff_slopes, costs};
use netcliff_model::{CliffSearch, ModelEngine};

use crate::arrivals::bursts_overflow_pps;
use crate::costs::{Costs, Fitted};
use crate::slice::{Count, SocketLooks};

/// Confidence of all intervals here.
pub const CONFIDENCE: f64 = 0.9;
/// Relative width at which the search for the cliff by the model ends.
const WIDTH: f64 = 1e-3;
/// Smallest cost of a packet in a model (s).
const LEAST_S: f64 = 1e-9;
/// Largest share of a CPU that a program can use without losses.
const ALL: f64 = 0.99;
/// Minimum number of looks (readings of a socket's fill level) during pauses for the program to count as pausing.
const FEWEST_LOOKS: usize = 3;
/// Shortest pause of a program that is reported (s): shorter ones are caused by the scheduler.
const SHORTEST_PAUSE_S: f64 = 1e-3;
/// If the packet rate at a look exceeds this multiple of the median rate, the waiting packets are attributed to a
/// burst, not to a pause.
const BURST: f64 = 1.5;
/// A socket is usually read at once if the median fill level is at most this share of the room.
const MOSTLY_EMPTY: f64 = 0.05;

/// Sizes of the queues of a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// Maximum number of packets in the ring or backlog.
    pub ring: u64,
    /// Maximum number of packets in the program's socket.
    pub socket: u64,
    /// Period of the scheduler's tick (s).
    pub tick_s: f64,
}

/// Allowance for costs that differ at the cliff from those observed at `share` of the cliff, because caches are warmer,
/// the clock is faster, or packets arrive in larger batches. It widens a 90 % interval of ln(cliff) (below, above).
/// `ticks`: times are from the kernel's ticks. The cost of a packet then includes costs that packets share near the
/// cliff, so that the cliff is too low rather than too high.
///
/// Chosen to cover the measured cliffs, when `learn` had run at 20, 35 and 50 % of each: docs/accuracy.md, "Learning
/// from production"; repeat with bench/learn/run.sh.
pub fn allowance(share: f64, ticks: bool) -> (f64, f64) {
    let far = (1.0 / share.clamp(0.02, 1.0)).ln();
    if ticks { (0.12 + 0.12 * far, 0.15 + 0.4 * far) } else { (0.06 + 0.08 * far, 0.06 + 0.08 * far) }
}

/// Makes a host with these costs. Each is divided by 1 - (share of the CPU's time that does not grow with the load),
/// because only the rest of the time is available. If the program has no cost, the host has no application.
pub fn host(costs: &Costs, room: Room) -> Host {
    let longer = 1.0 / (1.0 - costs.fixed.clamp(0.0, 0.95));
    let time = |s: f64| (longer * s).max(0.0);
    Host {
        name: "learned".to_owned(),
        interrupt_s: time(costs.interrupt_s),
        mask_s: 0.0,
        poll_s: time(costs.poll_s),
        application_s: (costs.application_s > 0.0).then(|| time(costs.application_s)),
        context_switch_s: time(costs.switch_s),
        wakeup_s: time(costs.wakeup_s),
        ring: room.ring,
        socket_buffer: room.socket,
        tick_s: room.tick_s,
        service: Service::Exponential,
        ..Host::pentium4_2530mhz().with_fixed_protocol(time(costs.packet_s + costs.other_s).max(LEAST_S))
    }
}

/// The cliff of a CPU, and how it was computed.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuCliff {
    /// Highest load without overload (packets/s), with its interval at [`CONFIDENCE`].
    pub cliff_pps: Figure,
    /// The host used for the model.
    pub host: Host,
    /// What limits the load in addition to the costs, in one sentence; `None` if only the costs limit it.
    pub why: Option<String>,
}

/// Packets that arrive at a CPU.
#[derive(Debug, Clone, Copy)]
pub struct Comes<'a> {
    /// Present packet rate (packets/s).
    pub packets_per_s: f64,
    /// Runs of counts of all traffic, of which this CPU gets `share`.
    pub counts: &'a [&'a [Count]],
    /// Packets of this CPU divided by all packets.
    pub share: f64,
    /// False: the CPU only runs the program and receives no packets; its costs are per packet of the whole traffic.
    pub takes_packets: bool,
}

/// Computes the load at which a CPU with these costs loses more than `loss` of its packets.
///
/// # Errors
/// One sentence: the model does not support the host or scheme.
pub fn of_cpu(fitted: &Fitted, scheme: &Scheme, room: Room, comes: Comes<'_>, loss: f64) -> Result<CpuCliff, String> {
    let own = host(&fitted.costs, room);
    let (smooth_pps, mut ratios) =
        if comes.takes_packets { by_model(fitted, &own, scheme, room, loss)? } else { by_time(fitted)? };
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| netcliff_stats::at_share(&ratios, share).unwrap_or(0.0);
    let outside = (1.0 - CONFIDENCE) / 2.0;
    let (low, high) = (at(outside).min(0.0), at(1.0 - outside).max(0.0));
    let waits = if own.application_s.is_some() { room.socket } else { room.ring };
    // The counts are of all traffic, so that service rate and room are scaled to all traffic.
    let bursty_pps = bursts_overflow_pps(comes.counts, smooth_pps / comes.share, waits as f64 / comes.share, loss);
    let bursty_pps = bursty_pps.map_or(smooth_pps, |pps| (pps * comes.share).min(smooth_pps));
    let allowed = allowance(comes.packets_per_s / bursty_pps, !fitted.exact);
    // Bursts were observed only for a limited time: half of their effect may be chance.
    let by_bursts = 0.5 * (smooth_pps / bursty_pps).ln();
    let (below, above) = (low.hypot(allowed.0).hypot(by_bursts), high.hypot(allowed.1).hypot(by_bursts));
    let cliff_pps = Figure::between(bursty_pps, bursty_pps * (-below).exp(), bursty_pps * above.exp(), CONFIDENCE);
    let taken = 1.0 - bursty_pps / smooth_pps;
    let why = (taken > 0.05).then(|| {
        format!(
            "bursts overflow its queue of {waits} packets: without bursts its cliff would be {:.0} % higher",
            100.0 * (smooth_pps / bursty_pps - 1.0)
        )
    });
    Ok(CpuCliff { cliff_pps, host: own, why })
}

/// Returns the model's cliff for smooth arrivals, and ln(cliff / this cliff) for each draw of the costs.
fn by_model(fitted: &Fitted, own: &Host, scheme: &Scheme, room: Room, loss: f64) -> Result<(f64, Vec<f64>), String> {
    let engine = ModelEngine::default().without_quantiles();
    let traffic = Traffic::default();
    let search = CliffSearch { near_pps: None, width: WIDTH };
    let cliff = search
        .cliff(&engine, own, scheme, &traffic, loss)
        .map_err(|error| format!("the model has no cliff of it: {error}"))?;
    let point = Point { host: own.clone(), scheme: scheme.clone(), traffic, load: Load::Pps(cliff.pps) };
    let keys: Vec<&str> = costs().filter(|cost| cost.of(own).is_some()).map(|cost| cost.key()).collect();
    let losses = |points: &[Point]| -> Result<Vec<f64>, EngineFailure> {
        let loss = |point: &Point| Ok(engine.evaluate(point)?.loss_fraction.map_or(0.0, |figure| figure.value));
        points.iter().map(loss).collect()
    };
    // If the loss jumps at the cliff, there are no slopes: the cliff is then assumed to be proportional to 1 / (time of
    // a packet).
    let slopes =
        cliff_slopes(&point, &keys, losses).ok().filter(|slopes| slopes.iter().all(|(_, slope)| slope.is_finite()));
    let all_s = |host: &Host| host.packet_s() + host.application_s.unwrap_or(0.0) + host.poll_s + host.interrupt_s;
    let ratio = |draw: &Costs| {
        let drawn = host(draw, room);
        let by_slopes = slopes.as_ref().map(|slopes| {
            let moved = slopes.iter().filter_map(|(key, slope)| {
                let cost = costs().find(|cost| cost.key() == *key)?;
                Some(slope * (cost.of(&drawn).unwrap_or(0.0) - cost.of(own)?))
            });
            moved.sum::<f64>()
        });
        by_slopes.unwrap_or_else(|| (all_s(own) / all_s(&drawn)).ln())
    };
    Ok((cliff.pps, fitted.draws.iter().map(ratio).collect()))
}

/// Load at which a program or a thread uses 99 % of the CPU's time that is not constant, and ln(load / this load) for
/// each draw of the costs. Context switches cost nothing at this load, because the program never waits. An error if the
/// program's time does not grow with the packets.
fn by_time(fitted: &Fitted) -> Result<(f64, Vec<f64>), String> {
    let most =
        |costs: &Costs| ALL * (1.0 - costs.fixed) / (costs.application_s + costs.other_s + costs.packet_s).max(LEAST_S);
    let cliff_pps = most(&fitted.costs);
    if fitted.costs.application_s <= 0.0 {
        return Err("its time does not grow with the packets".to_owned());
    }
    Ok((cliff_pps, fitted.draws.iter().map(|draw| (most(draw) / cliff_pps).ln()).collect()))
}

/// A program that repeatedly stops reading its socket for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Pausing {
    /// Rate of the traffic at which the socket overflows (packets/s).
    pub cliff_pps: Figure,
    /// Longest pause (s).
    pub longest_s: f64,
    /// Time between pauses (s).
    pub every_s: f64,
    /// Number of looks during pauses, and number of all looks (readings of the socket's fill level).
    pub looks: (usize, usize),
}

/// Detects pauses of a program from looks at its socket (readings of its fill level). If the socket was filled to a
/// share of more than 1/k, packets would have been lost at k times the load. `packet_bytes`: memory of a packet in the
/// socket. `None` with fewer than 10 looks, if the socket is usually not empty, if too few looks show a pause, or if
/// the pauses are shorter than a millisecond.
pub fn pausing(socket: &SocketLooks, packet_bytes: f64, loss: f64) -> Option<Pausing> {
    let n = socket.looks.len();
    let mut rates: Vec<f64> = socket.looks.iter().map(|look| look.packets_per_s).collect();
    let usual_pps = crate::slice::middle(&mut rates);
    let mut shares: Vec<f64> = socket.looks.iter().map(|look| look.share).collect();
    if n < 10 || usual_pps <= 0.0 || crate::slice::middle(&mut shares) > MOSTLY_EMPTY {
        return None;
    }
    // For each look, the time in which the waiting packets arrived, per share of the room.
    let room = socket.room_bytes / packet_bytes.max(1.0);
    let waits = |look: &&crate::slice::SocketLook| look.packets_per_s > 0.0 && look.packets_per_s <= BURST * usual_pps;
    let mut filled: Vec<f64> = socket.looks.iter().filter(waits).map(|look| look.share / look.packets_per_s).collect();
    filled.sort_by(|a, b| b.total_cmp(a));
    let longest_s = filled.first()? * room;
    let long = filled.iter().filter(|filled| **filled * room >= (0.2 * longest_s).max(SHORTEST_PAUSE_S)).count();
    // Number of looks during pauses that are ignored, because the accepted loss allows losses at that time.
    let allowed = (loss * n as f64) as usize;
    if longest_s < SHORTEST_PAUSE_S || long < FEWEST_LOOKS.max(allowed + 1) {
        return None;
    }
    // The longest of several looks is slightly shorter than the whole pause.
    let whole = (long as f64 + 1.0) / long as f64;
    let value = 1.0 / (filled[allowed] * whole);
    let wide = 0.15 + 1.0 / long as f64;
    let longest_s = longest_s * whole;
    Some(Pausing {
        cliff_pps: Figure::between(value, value * (-wide).exp(), value * wide.exp(), CONFIDENCE),
        longest_s,
        every_s: 0.8 * longest_s * n as f64 / long as f64,
        looks: (long, n),
    })
}

/// Computes the traffic's load at which a thread uses a whole CPU.
///
/// # Errors
/// The thread's time does not grow with the packets.
pub fn of_thread(fitted: &Fitted, packets_per_s: f64) -> Result<Figure, String> {
    let (cliff_pps, mut ratios) = by_time(fitted)?;
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| netcliff_stats::at_share(&ratios, share).unwrap_or(0.0);
    let allowed = allowance(packets_per_s / cliff_pps, true);
    let (below, above) = (at(0.05).min(0.0).hypot(allowed.0), at(0.95).max(0.0).hypot(allowed.1));
    Ok(Figure::between(cliff_pps, cliff_pps * (-below).exp(), cliff_pps * above.exp(), CONFIDENCE))
}
