//! Any bytes, read as a host, a scheme and a load, give a refusal or a sound outcome: no panic, no NaN, nothing
//! negative, no loss above 1, CPU shares that sum to 1, throughput that is the load less its loss.
//!
//! `cargo +nightly fuzz run model -- -max_total_time=60`

#![no_main]

use libfuzzer_sys::fuzz_target;
use netcliff_core::{Engine, Host, Load, Outcome, Point, Scheme, Traffic};
use netcliff_fuzz::Bytes;
use netcliff_model::{Fidelity, ModelEngine};

/// Rings above this, and weights above the next, only take longer.
const LARGEST_RING: u64 = 512;
const LARGEST_WEIGHT: u64 = 24;

/// A time around a microsecond, or none at all.
fn time_s(bytes: &mut Bytes<'_>) -> f64 {
    bytes.time_s(-12.0, -3.0)
}

/// A text with up to three numbers of the input in it.
fn scheme(bytes: &mut Bytes<'_>) -> String {
    let (few, some) = (u64::from(bytes.byte()) % LARGEST_WEIGHT, u64::from(bytes.byte()));
    let (short, long) = (bytes.decade(-8.0, -3.0), bytes.decade(-7.0, -2.0));
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
        "hybrid:period=SHORT,quota=FEW",
    ]);
    form.replace("FEW", &few.to_string())
        .replace("SOME", &some.to_string())
        .replace("SHORT", &format!("{short}s"))
        .replace("LONG", &format!("{long}s"))
}

fn point(bytes: &mut Bytes<'_>) -> Option<Point> {
    let scheme: Scheme = scheme(bytes).parse().ok()?;
    let host = Host {
        interrupt_s: time_s(bytes),
        interrupt_latency_s: time_s(bytes),
        protocol_s: time_s(bytes),
        per_byte_s: time_s(bytes) * 1e-3,
        mask_s: time_s(bytes),
        poll_s: time_s(bytes),
        application_s: if bytes.byte() < 64 { Some(time_s(bytes)) } else { None },
        ring: 1 + u64::from(u16::from_le_bytes([bytes.byte(), bytes.byte()])) % LARGEST_RING,
        service: bytes
            .pick(&["exponential", "deterministic", "erlang:stages=3", "lognormal:cv=0.7", "hyperexponential:cv=2"])
            .parse()
            .ok()?,
        ..Host::pentium4_2530mhz()
    };
    let pps = bytes.decade(-3.0, 12.0);
    let arrivals = bytes.pick(&["poisson", "poisson", "mmpp:peak=4,busy=10%,stay=1ms", "mmpp:peak=4,busy=25%,stay=3us"]);
    let size = bytes.pick(&["64", "imix"]);
    let traffic = Traffic {
        arrivals: arrivals.parse().ok()?,
        size: size.parse().ok()?,
        rate: Load::Pps(pps),
        ..Traffic::poisson(pps)
    };
    Some(Point { host, scheme, traffic })
}

fn sound(outcome: &Outcome, point: &Point) {
    let cpu = outcome.cpu.expect("CPU shares");
    let shares = [cpu.interrupt, cpu.poll, cpu.protocol, cpu.application, cpu.available];
    let total: f64 = shares.iter().flatten().map(|share| share.value).sum();
    assert!((total - 1.0).abs() < 1e-12, "shares sum to {total}: {point:?} {outcome:?}");
    let latency = outcome.latency_s.expect("latency");
    let quantiles = [latency.p50, latency.p90, latency.p99, latency.p999];
    let figures = shares.into_iter().chain(quantiles).chain([
        outcome.throughput_pps,
        outcome.goodput_bps,
        outcome.loss_fraction,
        outcome.interrupts_per_s,
        outcome.polls_per_s,
        outcome.packets_per_poll,
        outcome.packets_in_system,
        latency.mean,
    ]);
    for figure in figures.flatten() {
        assert!(figure.value.is_finite() && figure.value >= 0.0, "{figure:?}: {point:?} {outcome:?}");
    }
    let loss = outcome.loss_fraction.expect("loss").value;
    assert!(loss <= 1.0 + 1e-12, "loss {loss}: {point:?}");
    let known: Vec<f64> = quantiles.iter().flatten().map(|figure| figure.value).collect();
    assert!(known.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-6)), "quantiles {known:?}: {point:?}");
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let fidelity = if bytes.byte() < 64 { Fidelity::Paper } else { Fidelity::Exact };
    let engine = ModelEngine { fidelity, quantiles: bytes.byte() < 32 };
    let Some(point) = point(&mut bytes) else { return };
    // A refusal is an answer; a panic is not.
    if let Ok(outcome) = engine.evaluate(&point) {
        sound(&outcome, &point);
    }
});
