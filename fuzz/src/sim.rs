//! Any bytes, read as an experiment file or as a point, lead to a refusal or a sound simulation: no panic (the
//! simulator itself asserts that no packet appears or disappears), no NaN, no negative figure, CPU shares that sum to
//! 1, losses at the ring, socket and sender that sum to the total loss, quantiles in ascending order.

use netcliff_core::{Engine, Experiment, Outcome, Point};
use netcliff_sim::SimEngine;

use super::bytes::Bytes;
use super::points::Numbers;

/// Arrivals per point.
const PACKETS: u64 = 1000;
/// The first points of an experiment, which are simulated.
const POINTS: usize = 3;
/// Longer texts (bytes) are not read: they would only take time.
const LONGEST_TEXT: usize = 4096;

const NUMBERS: Numbers = Numbers {
    cost_s: |bytes| bytes.time_s(-10.0, -4.0),
    time_s: |bytes| bytes.decade(-6.0, -2.0),
    count: |bytes| u64::from(bytes.byte()),
    few: |bytes| u64::from(bytes.byte()),
    ring: |bytes| u64::from(u16::from_le_bytes([bytes.byte(), bytes.byte()])),
    load_pps: |bytes| bytes.decade(3.0, 8.0),
};
const SCHEMES: &[&str] = &[
    "ideal",
    "interrupt:drops_interrupt=FLAG",
    "disable-enable:merged=FLAG",
    "polling:period=TIME,quota=COUNT",
    "napi-2007:period=TIME,quota=COUNT",
    "napi-2007:period=TIME,quota=COUNT,remember=FLAG",
    "freebsd-polling:period=TIME,burst_max=COUNT,user_frac=20%",
    "soft-timers:period=TIME,quota=COUNT,trigger=TIME,backup=TIME",
    "coalesce:usecs=TIME,free_timer=FLAG,masked=FLAG",
    "napi:weight=COUNT,budget=COUNT,budget_time=TIME,backlog=FLAG,threaded=FLAG",
    "napi:weight=COUNT,defer_hard_irqs=COUNT,gro_flush_timeout=TIME,busy_poll=FLAG,irq_suspend_timeout=TIME",
    "napi:weight=COUNT,rx_usecs=TIME,rx_frames=COUNT,packet_timer=TIME,min_gap=TIME,threaded=FLAG",
    "coalesce:frames=COUNT,masked=FLAG,drops_interrupt=FLAG",
    "coalesce:usecs=TIME,masked=FLAG,drops_interrupt=FLAG",
    "coalesce:frames=COUNT,usecs=TIME,packet_timer=TIME,min_gap=TIME,masked=FLAG,drops_interrupt=FLAG",
    "hybrid:period=TIME,quota=COUNT,merged=FLAG",
    "hybrid:period=TIME,quota=COUNT,up=RATE,down=RATE",
    "dim:profile=eqe,start=COUNT",
    "dim:profile=cqe,start=COUNT",
];
const ARRIVALS: &[&str] = &[
    "poisson",
    "constant",
    "batch:size=COUNT",
    "mmpp:peak=4,busy=10%,stay=TIME",
    "onoff:sources=COUNT,rule=superpose",
    "onoff:sources=COUNT,rule=serialise,cutoff=TIME",
    "thinned:30%:batch:size=COUNT",
];
/// Pauses, flow control and transmission of a host; none in three of eleven groups. Some groups do not fit some
/// schemes. Refusing them is correct too.
const SIDES: &[&[&str]] = &[
    &[],
    &[],
    &[],
    &["xoff=COUNT", "xon=COUNT", "sender_queue=COUNT"],
    &["transmit=COST", "transmit_priority=before", "transmit_ring=COUNT"],
    &["transmit=COST", "transmit_load=RATE", "transmit_priority=after"],
    &["transmit=COST", "transmit_load=150%", "transmit_priority=interrupt", "transmit_ring=COUNT"],
    &["xoff=COUNT", "transmit=COST", "transmit_load=RATE", "transmit_priority=interrupt"],
    &["pause=TIME", "pause_every=TIME"],
    &["pause=COST", "pause_every=TIME", "pause_times=erlang:COUNT"],
    &["pause=TIME", "pause_every=TIME", "pause_times=constant", "transmit=COST", "transmit_load=RATE"],
];
const APPLICATIONS: &[&str] =
    &["", "", "applications=COUNT", "applications=2:shares=90%/10%,times=COST/COST,buffers=COUNT/COUNT"];

fn point(bytes: &mut Bytes<'_>) -> Option<Point> {
    let scheme = NUMBERS.filled(bytes, SCHEMES).parse().ok()?;
    let mut host = NUMBERS.host(bytes, SIDES)?;
    let applications = NUMBERS.filled(bytes, APPLICATIONS);
    if !applications.is_empty() {
        host.set(&applications).ok()?;
    }
    let (traffic, load) = NUMBERS.traffic(bytes, ARRIVALS)?;
    Some(Point { host, scheme, traffic, load })
}

/// Whether the simulation would take too long, for example because timers fire, or sources switch, more than 1000 times
/// per packet.
fn is_slow(point: &Point) -> bool {
    let pps = point.rate_pps().unwrap_or(0.0);
    let text = format!("{} {}", point.scheme, point.traffic.arrivals);
    let shortest_s = text
        .split([',', ':', ' '])
        .filter_map(|item| netcliff_core::units::parse_time_s(item.rsplit('=').next()?).ok())
        .filter(|seconds| *seconds > 0.0)
        .fold(point.host.tick_s, f64::min);
    // Assigning a million flows to queues takes a second.
    let queues = point.host.queues.is_some();
    queues || !(1e3..=1e9).contains(&pps) || 1.0 / (pps * shortest_s) > 1000.0 || point.host.ring > 1 << 16
}

fn sound(outcome: &Outcome, point: &Point) {
    let say = || format!("{point:?} {outcome:?}");
    let cpu = outcome.cpu.expect("CPU shares");
    let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.paused, cpu.available];
    let total: f64 = shares.iter().flatten().map(|share| share.value).sum();
    // A replication that consists of one batch takes no time, so it has no CPU shares and no rates.
    let timeless = shares.iter().all(Option::is_none);
    assert!(timeless || (total - 1.0).abs() < 1e-9, "shares sum to {total}: {}", say());
    let latency = outcome.latency_s.unwrap_or_default();
    let quantiles = [latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
    let figures = shares.into_iter().chain(quantiles).chain([
        outcome.offered_pps,
        outcome.throughput_pps,
        outcome.goodput_bps,
        outcome.loss_fraction,
        outcome.interrupts_per_s,
        outcome.polls_per_s,
        outcome.packets_per_poll,
        outcome.packets_in_system,
        latency.mean,
    ]);
    let sent = outcome.transmitted.unwrap_or_default();
    let figures = figures.chain([sent.completed_pps, sent.refused_fraction, sent.waiting_s]);
    let figures = figures.chain(outcome.applications.iter().flat_map(|one| {
        let lost = one.loss.unwrap_or_default();
        let got = [one.offered_pps, one.throughput_pps, one.goodput_bps, one.mean_latency_s, one.cpu];
        got.into_iter().chain([lost.ring, lost.socket, lost.sender])
    }));
    for figure in figures.flatten() {
        assert!(figure.value.is_finite() && figure.value >= 0.0, "{figure:?}: {}", say());
    }
    let known: Vec<f64> = quantiles.iter().flatten().map(|figure| figure.value).collect();
    // Quantiles come from a histogram and are averaged over replications, so they can be slightly out of order.
    assert!(known.windows(2).all(|pair| pair[0] <= pair[1] * 1.01 + 1e-12), "quantiles {known:?}: {}", say());
    let loss = outcome.loss.expect("losses by place");
    let by_place: f64 = [loss.ring, loss.socket, loss.sender].into_iter().flatten().map(|f| f.value).sum();
    // In a short window, possibly no packet is delivered or lost, because all packets are still in the host.
    let Some(lost) = outcome.loss_fraction.map(|loss| loss.value) else {
        let delivered = outcome.throughput_pps.map_or(0.0, |pps| pps.value);
        assert!(delivered == 0.0 && by_place == 0.0, "no loss fraction, {delivered} delivered/s: {}", say());
        return;
    };
    assert!(lost <= 1.0 && (lost - by_place).abs() < 1e-9, "loss {lost}, by place {by_place}: {}", say());
}

fn simulate(point: &Point, seed: u64) {
    if is_slow(point) {
        return;
    }
    // A refusal is a correct answer, a panic is not.
    if let Ok(outcome) = SimEngine::with_packets(seed, PACKETS).evaluate(point) {
        sound(&outcome, point);
    }
}

fn experiment(text: &str) {
    if text.len() > LONGEST_TEXT {
        return;
    }
    let Ok(Experiment::Grid(grid)) = Experiment::from_toml("fuzzed.toml", text) else { return };
    let tasks = grid.tasks().expect("what was read has tasks");
    tasks.iter().take(POINTS).for_each(|task| simulate(&task.point, 1));
}

/// Reads the input as an experiment file, or as the numbers of a point, and simulates it.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    match bytes.byte() {
        // An input that begins with one of these characters is the text of an experiment file, so that
        // experiments/*.toml can serve as a corpus.
        b'#' | b'['..=b'z' => {
            if let Ok(text) = std::str::from_utf8(data) {
                experiment(text);
            }
        }
        seed => {
            if let Some(point) = point(&mut bytes) {
                simulate(&point, u64::from(seed));
            }
        }
    }
}
