//! Any bytes, read as a host, a scheme and a load anywhere in the range of the command line and beyond, give a refusal or a
//! sound outcome: no panic, no figure that cannot be (the door's own check must never fail), quantiles in order.

use netcliff_core::host::{KEYS, TEXT_KEYS};
use netcliff_core::{Engine, EngineFailure, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_model::{Fidelity, ModelEngine};

use super::bytes::Bytes;

/// Rings above this, and weights above the next, are rare: they take longer.
const LARGEST_RING: u64 = 512;
const LARGEST_WEIGHT: u64 = 24;

/// A time around a microsecond, anywhere, or none at all.
fn time_s(bytes: &mut Bytes<'_>) -> f64 {
    if bytes.byte() < 224 { bytes.time_s(-12.0, -3.0) } else { bytes.time_s(-320.0, 308.0) }
}

/// A count up to `most`, or any at all.
fn count(bytes: &mut Bytes<'_>, most: u64) -> u64 {
    if bytes.byte() < 240 {
        return u64::from(u16::from_le_bytes([bytes.byte(), bytes.byte()])) % most;
    }
    u64::from_le_bytes(std::array::from_fn(|_| bytes.byte())) >> (bytes.byte() % 64)
}

/// `KEY=VALUE` of `--set` with a value that is a number, large or small, with a unit or none.
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

/// A text with up to three numbers of the input in it.
fn scheme(bytes: &mut Bytes<'_>) -> String {
    let (few, some) = (count(bytes, LARGEST_WEIGHT), count(bytes, 256));
    let far = bytes.byte() >= 240;
    let mut time = |low: f64, high: f64| if far { bytes.decade(-320.0, 308.0) } else { bytes.decade(low, high) };
    let (short, long) = (time(-8.0, -3.0), time(-7.0, -2.0));
    let form = bytes.pick(&[
        "ideal",
        "interrupt:drops_interrupt=true",
        "interrupt:drops_interrupt=false",
        "disable-enable:merged=true",
        "disable-enable:merged=false",
        "napi:weight=FEW",
        "polling:period=SHORT,quota=FEW",
        "napi-2007:period=SHORT,quota=FEW",
        "coalesce:frames=SOME,masked=true",
        "coalesce:usecs=SHORT,masked=true",
        "coalesce:frames=SOME,usecs=SHORT,masked=true",
        "coalesce:frames=SOME",
        "coalesce:usecs=SHORT",
        "coalesce:frames=SOME,usecs=SHORT",
        "coalesce:packet_timer=SHORT,usecs=LONG",
        "coalesce:min_gap=LONG",
        "coalesce:packet_timer=SHORT,masked=true,drops_interrupt=true",
        "coalesce:packet_timer=SHORT,frames=SOME,masked=true",
        "coalesce:usecs=SHORT,drops_interrupt=true",
        "hybrid:period=SHORT,quota=FEW",
        "hybrid:period=SHORT,quota=FEW,ewma=0.5,merged=true",
        "dim:profile=eqe,start=1",
        "dim:profile=cqe,start=4",
    ]);
    form.replace("FEW", &few.to_string())
        .replace("SOME", &some.to_string())
        .replace("SHORT", &format!("{short:e}s"))
        .replace("LONG", &format!("{long:e}s"))
}

fn point(bytes: &mut Bytes<'_>) -> Option<Point> {
    let scheme: Scheme = scheme(bytes).parse().ok()?;
    let mut host = Host {
        interrupt_s: time_s(bytes),
        interrupt_latency_s: time_s(bytes),
        protocol_s: time_s(bytes),
        per_byte_s: time_s(bytes) * 1e-3,
        mask_s: time_s(bytes),
        poll_s: time_s(bytes),
        application_s: if bytes.byte() < 64 { Some(time_s(bytes)) } else { None },
        ring: count(bytes, LARGEST_RING),
        service: bytes
            .pick(&["exponential", "deterministic", "erlang:stages=3", "lognormal:cv=0.7", "hyperexponential:cv=2"])
            .parse()
            .ok()?,
        ..Host::pentium4_2530mhz()
    };
    if bytes.byte() >= 192 {
        // What cannot be read is refused with a sentence.
        let _refused = host.set(&assignment(bytes));
    }
    if bytes.byte() >= 208 {
        let (length_s, every_s) = (time_s(bytes), bytes.decade(-9.0, 6.0));
        let times = bytes.pick(&["exponential", "constant", "erlang:3", "erlang:40"]);
        let settings = [format!("pause={length_s:e}s"), format!("pause_every={every_s:e}s"), format!("pause_times={times}")];
        let _refused = settings.iter().try_for_each(|setting| host.set(setting));
    }
    let pps = if bytes.byte() < 240 { bytes.decade(-6.0, 13.0) } else { bytes.decade(-323.0, 308.0) };
    let arrivals =
        bytes.pick(&["poisson", "poisson", "mmpp:peak=4,busy=10%,stay=1ms", "mmpp:peak=4,busy=25%,stay=3us"]);
    let size = bytes.pick(&["64", "imix"]);
    let traffic = Traffic {
        arrivals: arrivals.parse().ok()?,
        size: size.parse().ok()?,
        rate: Load::Pps(pps),
        ..Traffic::poisson(pps)
    };
    Some(Point { host, scheme, traffic })
}

/// What the door does not ask.
fn sound(outcome: &Outcome, point: &Point) {
    let latency = outcome.latency_s.expect("latency");
    let quantiles = [latency.p50, latency.p90, latency.p99, latency.p999];
    let known: Vec<f64> = quantiles.iter().flatten().map(|figure| figure.value).collect();
    assert!(known.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-6)), "quantiles {known:?}: {point:?}");
}

/// The numbers of a point.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let fidelity = if bytes.byte() < 64 { Fidelity::Paper } else { Fidelity::Exact };
    let engine = ModelEngine { fidelity, quantiles: bytes.byte() < 32, ..ModelEngine::default() };
    let Some(point) = point(&mut bytes) else { return };
    // A refusal is an answer; a panic is not.
    match engine.evaluate(&point) {
        Ok(outcome) => sound(&outcome, &point),
        Err(EngineFailure::Unsound { unsound, .. }) => panic!("{unsound}: {point:?}"),
        Err(_) => {}
    }
}
