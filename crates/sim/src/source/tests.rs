use std::sync::Arc;

use netcliff_core::capture::Captured;
use netcliff_core::{Capture, FrameSizes, Host, Load, Scheme, Traffic};

use super::*;

fn point(arrivals: &str, pps: f64) -> Point {
    at(arrivals, FrameSizes::Fixed(64), Load::Pps(pps))
}

fn at(arrivals: &str, size: FrameSizes, load: Load) -> Point {
    let traffic = Traffic { arrivals: arrivals.parse().unwrap(), size, ..Traffic::default() };
    Point { host: Host::pentium4_2530mhz(), scheme: Scheme::Ideal, traffic, load }
}

fn gaps(point: &Point, seed: u64, count: u64) -> Vec<f64> {
    let clock = Clock::new(point.rate_pps().unwrap(), count);
    let mut source = Source::new(point, clock, seed, 0);
    (0..count).map(|_| clock.seconds(source.next().arrived as f64)).collect()
}

fn rate(gaps: &[f64]) -> f64 {
    gaps.len() as f64 / gaps.iter().sum::<f64>()
}

/// Index of dispersion of the counts in windows of `window_s`.
fn dispersion(gaps: &[f64], window_s: f64) -> f64 {
    let total: f64 = gaps.iter().sum();
    let mut counts = vec![0.0; (total / window_s) as usize + 1];
    let mut at = 0.0;
    for gap in gaps {
        at += gap;
        counts[(at / window_s) as usize] += 1.0;
    }
    counts.pop();
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    counts.iter().map(|count| (count - mean) * (count - mean)).sum::<f64>() / counts.len() as f64 / mean
}

/// Seed 1: the mean rate of each process is the requested one. Tolerances: 4 standard errors for poisson and batches,
/// 5 % for mmpp (about 2 standard errors), 10 % for heavy tails, rounding for constant gaps.
#[test]
fn every_process_has_its_rate() {
    let count = 400_000;
    for (arrivals, tolerance) in [
        ("poisson", 4.0 / 632.0),
        ("constant", 1e-9),
        ("batch:size=8", 4.0 / 223.0),
        ("mmpp:peak=4,busy=20%,stay=1ms", 0.05),
        ("mmpp:peak=10,busy=10%,stay=100us", 0.05),
        ("onoff:cutoff=10ms", 0.1),
        ("onoff:rule=superpose,cutoff=10ms", 0.1),
    ] {
        let found = rate(&gaps(&point(arrivals, 100e3), 1, count));
        assert!((found / 100e3 - 1.0).abs() <= tolerance, "{arrivals}: {found}");
    }
}

/// Seed 8: the offered load is the requested one, in packets, bits and shares of line rate, for every process and
/// mixture of sizes. The 99.9 % interval of the mean over 20 replications (t with 19 degrees of freedom: 3.88) contains
/// the load; without randomness, the mean is the load within 1e-6. Heavy tails are cut at 1 ms; otherwise no mean would
/// converge.
#[test]
fn the_load_is_offered_in_every_unit() {
    let replications = 20;
    for arrivals in [
        "poisson",
        "constant",
        "batch:size=8",
        "mmpp:peak=4,busy=20%,stay=100us",
        "onoff:cutoff=1ms",
        "onoff:rule=superpose,cutoff=1ms",
        "thinned:30%:batch:size=3",
    ] {
        for (size, load) in [("64B", "100kpps"), ("imix", "300Mbit/s"), ("mci1998-like", "40%"), ("1518B", "25%")] {
            let point = at(arrivals, size.parse().unwrap(), load.parse().unwrap());
            let asked = point.rate_pps().unwrap();
            let clock = Clock::new(asked, 20_000);
            let rates: Vec<f64> = (0..replications)
                .map(|replication| {
                    let mut source = Source::new(&point, clock, 8, replication);
                    let ticks: u64 = (0..20_000).map(|_| source.next().arrived).sum();
                    // Average gaps, not rates: the mean of gaps has no bias.
                    clock.seconds(ticks as f64) / 20_000.0 * asked
                })
                .collect();
            let mean = rates.iter().sum::<f64>() / replications as f64;
            let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (replications - 1) as f64;
            let half = 3.88 * (variance / replications as f64).sqrt() + 1e-6;
            assert!((mean - 1.0).abs() <= half, "{arrivals} {size} {load}: {mean} +- {half}");
        }
    }
}

/// Seed 4: by the printed formula for b_OFF the sources offer N frames/(frames x slot + E[OFF]) of a link, E[OFF] =
/// E[ON] (1/rho_i - 1). This is more than the nominal load, because an ON period sends whole frames. The 99.9 %
/// interval of the mean gap over 20 replications (t with 19 degrees of freedom: 3.88) contains the expected gap. Shapes
/// of 2.5, which have a finite variance.
#[test]
fn the_printed_off_periods_offer_more_than_the_nominal_load() {
    let (slot_s, sources, shape) = (672e-9, 8.0, 2.5);
    for (load, excess) in [(0.02, 1.08), (0.2, 1.07)] {
        let arrivals = "onoff:rule=superpose,off=printed,alpha_on=2.5,alpha_off=2.5";
        let point = at(arrivals, FrameSizes::Fixed(64), Load::LineShare(load));
        // Mean frames of an ON period: one, plus one for each frame that ends within the period.
        let frames: f64 = 1.0 + (1..100_000).map(|k| (512e-9 / (slot_s * f64::from(k))).powf(shape)).sum::<f64>();
        let mean_on_s = 512e-9 * shape / (shape - 1.0);
        let cycle_s = frames * slot_s + mean_on_s * (sources / load - 1.0);
        let expected_s = cycle_s / frames / sources;
        assert!(expected_s * excess < slot_s / load, "{load}: {expected_s}");
        let clock = Clock::new(point.rate_pps().unwrap(), 20_000);
        let means: Vec<f64> = (0..20)
            .map(|replication| {
                let mut source = Source::new(&point, clock, 4, replication);
                let ticks: u64 = (0..20_000).map(|_| source.next().arrived).sum();
                clock.seconds(ticks as f64) / 20_000.0
            })
            .collect();
        let mean = means.iter().sum::<f64>() / 20.0;
        let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 19.0;
        let half = 3.88 * (variance / 20.0).sqrt();
        assert!((mean - expected_s).abs() <= half, "{load}: {mean} +- {half}, not {expected_s}");
    }
}

/// The printed OFF periods may offer more than the link carries: a shared link then sends frames back to back,
/// superposed sources send more.
#[test]
fn printed_off_periods_may_offer_more_than_the_link() {
    let found = |rule: &str| {
        let arrivals = format!("onoff:off=printed,rule={rule}");
        let point = at(&arrivals, FrameSizes::Mci1998Like, Load::LineShare(0.8));
        rate(&gaps(&point, 6, 200_000)) / point.traffic.line_rate_pps().unwrap()
    };
    let (one_link, added) = (found("serialise"), found("superpose"));
    assert!((one_link - 1.0).abs() < 0.01 && added > 1.3, "{one_link} {added}");
}

/// Seed 2: counts are Poisson, or over-dispersed as the process predicts.
#[test]
fn bursts_are_bursts() {
    let window_s = 10e-3;
    let of = |arrivals: &str| dispersion(&gaps(&point(arrivals, 100e3), 2, 1_000_000), window_s);
    assert!((of("poisson") - 1.0).abs() < 0.15);
    assert!((of("batch:size=8") - 8.0).abs() < 1.2);
    // Dispersion of MMPP-2 in long windows: 1 + 2 (l1 - l2)^2 s1 s2 / ((s1 + s2)^2 (l1 s2 + l2 s1)); s are the rates of
    // leaving a state.
    let (busy, quiet, leave_busy, leave_quiet) = (400e3, 25e3, 10e3, 10e3 * 0.2 / 0.8);
    let sum = leave_busy + leave_quiet;
    let limit = 1.0
        + 2.0 * (busy - quiet) * (busy - quiet) * leave_busy * leave_quiet
            / (sum * sum * (busy * leave_quiet + quiet * leave_busy));
    let found = of("mmpp:peak=4,busy=20%,stay=100us");
    assert!((found / limit - 1.0).abs() < 0.15, "{found} {limit}");
    assert!(of("onoff") > 3.0);
}

/// On a shared link, no two frames are closer than the wire allows; superposed sources have such frames.
#[test]
fn a_shared_link_is_never_faster_than_itself() {
    let nearest = |arrivals: &str| {
        let mut point = point(arrivals, 400e3);
        point.traffic.size = FrameSizes::Fixed(64);
        gaps(&point, 3, 200_000).into_iter().skip(1).fold(f64::INFINITY, f64::min)
    };
    assert!(nearest("onoff") >= 672e-9 - 2e-12);
    assert!(nearest("onoff:rule=superpose") < 600e-9);
}

#[test]
fn a_load_beyond_the_link_is_declined_with_its_reason() {
    let supports = |arrivals: &str, pps: f64| {
        let point = point(arrivals, pps);
        supports(&point.host, &point.traffic, Some(point.load))
    };
    let error = supports("onoff", 2e6).unwrap_err().to_string();
    assert!(error.contains("line rate"), "{error}");
    assert!(supports("onoff:rule=superpose", 2e6).is_ok());
    assert!(supports("trace:x.pcap", 1e3).unwrap_err().to_string().contains("trace"));
}

/// A capture of unequal gaps and sizes is replayed packet by packet at the requested load. Each replication starts at a
/// different position.
#[test]
fn a_capture_is_replayed_around_at_the_load_asked_for() {
    let packets: Vec<Captured> =
        (0..100).map(|n| Captured { gap_ns: 1000 * (1 + n % 7), bytes: 64 + n as u32, flow: None }).collect();
    let capture = Arc::new(Capture { file: "x.pcap".to_owned(), packets, flows: Vec::new(), ..Capture::default() });
    let rate_pps = 2.0 * capture.rate_pps();
    let traffic = Traffic {
        arrivals: Arrivals::Trace {
            file: "x.pcap".to_owned(),
            speed: None,
            once: false,
            capture: Some(Arc::clone(&capture)),
        },
        size: FrameSizes::Trace(Some(Arc::clone(&capture))),
        ..Traffic::default()
    };
    let point = Point { traffic, ..Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, rate_pps) };
    let clock = Clock::new(rate_pps, 1000);
    for replication in [0, 1] {
        let mut source = Source::new(&point, clock, 1, replication);
        let start = if replication == 0 { 0 } else { 61 };
        for n in 0..300 {
            let (packet, recorded) = (source.next(), capture.packets[(start + n) % 100]);
            assert_eq!(u32::from(packet.bytes), recorded.bytes);
            let gap_ns = clock.seconds(packet.arrived as f64) * 1e9;
            assert!((gap_ns - recorded.gap_ns as f64 / 2.0).abs() < 0.01, "{n}: {gap_ns} {recorded:?}");
        }
    }
}
