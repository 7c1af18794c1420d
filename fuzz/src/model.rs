//! Any bytes, read as a host, a scheme and a load within and beyond the range of the command line, lead to a refusal or
//! a sound outcome: no panic, no impossible figure (the check in `Engine::evaluate` must never fail), quantiles in
//! ascending order.

use netcliff_core::host::{KEYS, TEXT_KEYS};
use netcliff_core::{Engine, EngineFailure, Outcome, Point, Scheme};
use netcliff_model::{Fidelity, ModelEngine};

use super::bytes::Bytes;
use super::points::Numbers;

/// Larger rings, and weights above [`LARGEST_WEIGHT`], are rare, because they take longer to evaluate.
const LARGEST_RING: u64 = 512;
const LARGEST_WEIGHT: u64 = 24;

/// Mostly zero or a time from 1 ps to 1 ms; otherwise a time of any magnitude.
fn time_s(bytes: &mut Bytes<'_>) -> f64 {
    if bytes.byte() < 224 { bytes.time_s(-12.0, -3.0) } else { bytes.time_s(-320.0, 308.0) }
}

/// Mostly a count below `most`; otherwise any count.
fn count(bytes: &mut Bytes<'_>, most: u64) -> u64 {
    if bytes.byte() < 240 {
        return u64::from(u16::from_le_bytes([bytes.byte(), bytes.byte()])) % most;
    }
    u64::from_le_bytes(std::array::from_fn(|_| bytes.byte())) >> (bytes.byte() % 64)
}

/// `KEY=VALUE` of `--set`. The value is mostly a number of any magnitude, with or without a unit.
fn assignment(bytes: &mut Bytes<'_>) -> String {
    let key = KEYS[usize::from(bytes.byte()) % KEYS.len()];
    if TEXT_KEYS.contains(&key) {
        return format!("{key}={}", bytes.pick(&["4", "deterministic", "2:shares=90%/10%", "1e308", "-1", "50kpps"]));
    }
    let unit = bytes.pick(&["", "s", "us", "ns", "%", "pps"]);
    match bytes.byte() % 3 {
        0 => format!("{key}={}{unit}", count(bytes, 2000)),
        1 => format!("{key}={:e}{unit}", bytes.decade(-320.0, 308.0)),
        _ => format!("{key}={}{unit}", bytes.pick(&["0", "18446744073709551615", "1e308", "1e-320", "-1", "none"])),
    }
}

/// Mostly a time from 10^low to 10^high s; otherwise a number of any magnitude.
fn near_s(bytes: &mut Bytes<'_>, low: f64, high: f64) -> f64 {
    if bytes.byte() < 240 { bytes.decade(low, high) } else { bytes.decade(-320.0, 308.0) }
}

const NUMBERS: Numbers = Numbers {
    cost_s: time_s,
    time_s: |bytes| near_s(bytes, -8.0, 0.0),
    count: |bytes| count(bytes, 256),
    few: |bytes| count(bytes, LARGEST_WEIGHT),
    ring: |bytes| count(bytes, LARGEST_RING),
    load_pps: |bytes| if bytes.byte() < 240 { bytes.decade(-6.0, 13.0) } else { bytes.decade(-323.0, 308.0) },
};
const SCHEMES: &[&str] = &[
    "ideal",
    "interrupt:drops_interrupt=FLAG",
    "disable-enable:merged=FLAG",
    "napi:weight=FEW",
    "polling:period=TIME,quota=FEW",
    "napi-2007:period=TIME,quota=FEW",
    "coalesce:frames=COUNT,masked=true",
    "coalesce:usecs=TIME,masked=true",
    "coalesce:frames=COUNT,usecs=TIME,masked=true",
    "coalesce:frames=COUNT",
    "coalesce:usecs=TIME",
    "coalesce:frames=COUNT,usecs=TIME",
    "coalesce:packet_timer=TIME,usecs=TIME",
    "coalesce:min_gap=TIME",
    "coalesce:packet_timer=TIME,masked=true,drops_interrupt=true",
    "coalesce:packet_timer=TIME,frames=COUNT,masked=true",
    "coalesce:usecs=TIME,drops_interrupt=true",
    "hybrid:period=TIME,quota=FEW",
    "hybrid:period=TIME,quota=FEW,ewma=0.5,merged=true",
    "dim:profile=eqe,start=1",
    "dim:profile=cqe,start=4",
];
/// Pauses of some hosts. The model refuses most other settings of a host.
const SIDES: &[&[&str]] = &[
    &[],
    &[],
    &[],
    &[],
    &["pause=COST", "pause_every=TIME"],
    &["pause=COST", "pause_every=TIME", "pause_times=constant"],
    &["pause=COST", "pause_every=TIME", "pause_times=erlang:FEW"],
];
const ARRIVALS: &[&str] = &["poisson", "poisson", "mmpp:peak=4,busy=10%,stay=1ms", "mmpp:peak=4,busy=25%,stay=3us"];

fn point(bytes: &mut Bytes<'_>) -> Option<Point> {
    let scheme: Scheme = NUMBERS.filled(bytes, SCHEMES).parse().ok()?;
    let mut host = NUMBERS.host(bytes, SIDES)?;
    if bytes.byte() >= 192 {
        // The host refuses an invalid setting with a message, which is correct too.
        let _refused = host.set(&assignment(bytes));
    }
    let (traffic, load) = NUMBERS.traffic(bytes, ARRIVALS)?;
    Some(Point { host, scheme, traffic, load })
}

/// Checks of an outcome that `Engine::evaluate` does not make.
fn sound(outcome: &Outcome, point: &Point) {
    let latency = outcome.latency_s.expect("latency");
    let quantiles = [latency.p50, latency.p90, latency.p99, latency.p999];
    let known: Vec<f64> = quantiles.iter().flatten().map(|figure| figure.value).collect();
    assert!(known.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-6)), "quantiles {known:?}: {point:?}");
}

/// Reads the input as the numbers of a point, and evaluates it.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let fidelity = if bytes.byte() < 64 { Fidelity::Paper } else { Fidelity::Exact };
    let engine = ModelEngine { fidelity, quantiles: bytes.byte() < 32, ..ModelEngine::default() };
    let Some(point) = point(&mut bytes) else { return };
    // A refusal is a correct answer, a panic is not.
    match engine.evaluate(&point) {
        Ok(outcome) => sound(&outcome, &point),
        Err(EngineFailure::Unsound { unsound, .. }) => panic!("{unsound}: {point:?}"),
        Err(_) => {}
    }
}
