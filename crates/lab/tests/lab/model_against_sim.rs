//! The exact models compared with the simulator at 392 points (a quarter of them each day, all in `make measure`:
//! `netcliff_testkit::Grid`), with fixed seeds: throughput, mean latency, CPU available and, if the model has them, the
//! quantiles of latency.
//!
//! A 99 % interval misses the truth once in a hundred times. A binomial bound limits the number of misses of all points
//! together.

use crate::against::{CONFIDENCE, bound};
use netcliff_core::{Engine, Figure, Host, Outcome, Point, Scheme, Service};
use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::{Effort, SimEngine};
use netcliff_testkit::Grid;

/// Schemes of the points with exponential service times.
const SCHEMES: [&str; 16] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=true",
    "disable-enable:merged=false",
    "napi:weight=8",
    "coalesce:frames=8,masked=true",
    "coalesce:usecs=50us,masked=true",
    "coalesce:packet_timer=20us,masked=true,drops_interrupt=false",
    "coalesce:frames=4,packet_timer=10us,masked=true",
    "coalesce:frames=8,usecs=50us,masked=true",
    "polling:period=20us,quota=3",
    "napi-2007:period=20us,quota=3",
    "coalesce:frames=8",
    "coalesce:frames=3,drops_interrupt=true",
    "napi-2007:period=20us,quota=3,remember=true",
];
const LOADS_PPS: [f64; 4] = [20e3, 70e3, 110e3, 220e3];
const RINGS: [u64; 3] = [10, 32, 256];
/// Schemes that the model solves as an M/G/1/K queue, for points with other service times and frame sizes.
const GENERAL: [&str; 4] = [
    "ideal",
    "disable-enable:merged=false",
    "coalesce:frames=8,masked=true",
    "coalesce:frames=8,usecs=50us,masked=true",
];
fn services() -> [Service; 5] {
    // Most packets take one of two paths. Some have a cache miss, and 1 in 100 takes long. The coefficient of variation
    // is 1.2.
    let measured = vec![(3e-6, 40.0), (4e-6, 45.0), (9e-6, 14.0), (60e-6, 1.0)];
    [
        Service::Deterministic,
        Service::Erlang { stages: 3 },
        Service::Lognormal { cv: 0.8 },
        Service::Hyperexponential { cv: 1.6 },
        Service::from_times("measured", measured).expect("times"),
    ]
}
const SIZES: [&str; 2] = ["imix", "mci1998-like"];

fn point(scheme: &str, load_pps: f64, ring: u64) -> Point {
    let host = Host { ring, ..Host::pentium4_2530mhz() };
    let scheme: Scheme = scheme.parse().expect("a scheme");
    Point::poisson(host, scheme, load_pps)
}

fn exponential_points() -> Vec<Point> {
    let mut points = Vec::new();
    for scheme in SCHEMES {
        for load_pps in LOADS_PPS {
            points.extend(RINGS.map(|ring| point(scheme, load_pps, ring)));
        }
    }
    points
}

fn general_points() -> Vec<Point> {
    let mut points = Vec::new();
    for scheme in GENERAL {
        for load_pps in [60e3, 150e3] {
            for ring in [8, 64] {
                for service in services() {
                    let mut point = point(scheme, load_pps, ring);
                    point.host.service = service;
                    points.push(point);
                }
            }
            for (size, service) in SIZES.iter().zip(services()) {
                let mut point = point(scheme, load_pps, 64);
                point.host.service = service;
                point.traffic.size = size.parse().expect("sizes");
                points.push(point);
            }
            for size in SIZES {
                let mut point = point(scheme, load_pps, 32);
                point.traffic.size = size.parse().expect("sizes");
                // Long frames cost more, so that the mix of sizes matters.
                point.host.per_byte_s = 5e-9;
                points.push(point);
            }
        }
    }
    points.into_iter().filter(|point| !is_slow(point)).collect()
}

/// Whether a point takes too long for a test. This is true if the model combines a thousand sizes with two hundred
/// nodes of a lognormal.
fn is_slow(point: &Point) -> bool {
    matches!(point.host.service, Service::Lognormal { .. })
        && point.traffic.size.mixture().is_some_and(|m| m.len() > 10)
}

/// The figures that model and simulator both have: name, value of the model, estimate of the simulator.
fn figures(model: &Outcome, sim: &Outcome) -> Vec<(&'static str, f64, Figure)> {
    let quantile = |outcome: &Outcome, pick: fn(&netcliff_core::outcome::Latency) -> Option<Figure>| {
        outcome.latency_s.as_ref().and_then(pick)
    };
    let available = |outcome: &Outcome| outcome.cpu.as_ref().and_then(|cpu| cpu.available);
    let must = [
        ("throughput", model.throughput_pps, sim.throughput_pps),
        ("mean latency", quantile(model, |l| l.mean), quantile(sim, |l| l.mean)),
        ("CPU available", available(model), available(sim)),
    ];
    let may = [
        ("p50", quantile(model, |l| l.p50), quantile(sim, |l| l.p50)),
        ("p90", quantile(model, |l| l.p90), quantile(sim, |l| l.p90)),
        ("p99", quantile(model, |l| l.p99), quantile(sim, |l| l.p99)),
    ];
    let of = |(name, model, sim): (_, Option<Figure>, Option<Figure>)| Some((name, model?.value, sim?));
    must.iter().for_each(|(name, model, sim)| assert!(model.is_some() && sim.is_some(), "{name} is missing"));
    must.into_iter().chain(may).filter_map(of).collect()
}

/// Compares today's points of the grid. Each point has at least three figures; some of all points have quantiles if
/// `has_quantiles`.
fn compare(points: &[Point], first_seed: u64, has_quantiles: bool) {
    let model = ModelEngine::new(Fidelity::Exact);
    let (mut compared, mut quantiles, mut missed) = (0, 0, Vec::new());
    let grid = Grid::of_today();
    let taken = grid.part(points);
    for (nth, point) in &taken {
        let seed = first_seed + *nth as u64;
        let sim = SimEngine { seed, effort: Effort::Packets(200_000), confidence: CONFIDENCE, ..SimEngine::default() };
        let truth = model.evaluate(point).expect("the model answers");
        let found = sim.evaluate(point).expect("the simulator answers");
        for (name, truth, found) in figures(&truth, &found) {
            compared += 1;
            quantiles += u32::from(name.starts_with('p'));
            // The simulator stores latencies in a histogram of three digits: half a unit of the third digit is
            // rounding.
            let rounded = name.starts_with('p') && (found.value / truth - 1.0).abs() < 5e-4;
            // What happens less than once in all packets is not seen.
            let unseen = truth < 1e-9 && found.value == 0.0;
            if !rounded && !unseen && !found.covers(truth) {
                missed.push(format!(
                    "{} {} B={} {} {} seed {seed} {name}: {truth:e} {found:?}",
                    point.scheme, point.load, point.host.ring, point.host.service, point.traffic.size
                ));
            }
        }
    }
    let bound = bound(compared);
    assert!(
        missed.len() as u32 <= bound,
        "{} of {compared} missed, bound {bound} ({grid}):\n{}",
        missed.len(),
        missed.join("\n")
    );
    assert!(compared as usize >= 3 * taken.len(), "{compared} comparisons at {} points ({grid})", taken.len());
    assert!(
        !has_quantiles || quantiles as usize > taken.len(),
        "{quantiles} quantiles at {} points ({grid})",
        taken.len()
    );
}

/// Points whose sources change their rate every ten to a hundred packets. The second source is silent at times.
fn modulated_points() -> Vec<Point> {
    let sources = ["mmpp:peak=3,busy=20%,stay=200us", "mmpp:peak=4,busy=25%,stay=100us"];
    let schemes =
        ["ideal", SCHEMES[1], SCHEMES[2], "disable-enable:merged=true", "disable-enable:merged=false", "napi:weight=8"];
    let mut points = Vec::new();
    for scheme in schemes {
        for source in sources {
            for (load_pps, ring) in [(30e3, 16), (80e3, 64), (110e3, 16)] {
                let mut point = point(scheme, load_pps, ring);
                point.traffic.arrivals = source.parse().expect("a source");
                points.push(point);
            }
        }
    }
    points
}

#[test]
fn modulated_arrivals() {
    let points = modulated_points();
    assert_eq!(points.len(), 36);
    compare(&points, 30_000, true);
}

#[test]
fn exponential_times() {
    let points = exponential_points();
    assert_eq!(points.len(), 192);
    compare(&points, 10_000, true);
}

#[test]
fn general_times_and_frame_sizes() {
    let points = general_points();
    assert!(points.len() >= 92, "{}", points.len());
    compare(&points, 20_000, false);
}

/// Points of napi behind a NIC's moderation: each condition alone and all together, with and without the costs of an
/// interrupt's delivery and a register write.
fn moderated_points() -> Vec<Point> {
    let schemes = [
        "napi:weight=8,rx_usecs=50us",
        "napi:weight=8,rx_usecs=80us,rx_frames=6",
        "napi:weight=64,packet_timer=9us",
        "napi:weight=64,packet_timer=9us,rx_usecs=40us,rx_frames=20",
        "napi:weight=8,min_gap=60us",
        "napi:weight=64,min_gap=200us",
        "napi:weight=8,min_gap=60us,rx_usecs=30us",
        "napi:weight=8,min_gap=60us,rx_usecs=90us,rx_frames=8",
    ];
    let mut points = Vec::new();
    for scheme in schemes {
        for (load_pps, ring) in [(20e3, 256), (110e3, 32), (150e3, 256), (220e3, 24)] {
            let mut point = point(scheme, load_pps, ring);
            if ring == 256 {
                point.host.mask_s = 0.0;
                point.host.interrupt_latency_s = 4e-6;
            }
            points.push(point);
        }
    }
    points
}

#[test]
fn moderated_napi() {
    let points = moderated_points();
    assert_eq!(points.len(), 32);
    compare(&points, 70_000, false);
}

/// Several queues: each layout at loads around its cliff, with skewed flows and SMT siblings among them.
#[test]
fn several_queues() {
    let layouts = [
        ("3", None),
        ("4:transmit=3us", Some("200:zipf=1.1")),
        ("2:map=spread,transmit=4us,cold=1.3", Some("50:zipf=1.2")),
        ("2:map=smt,transmit=2us,smt=1.4", None),
        ("4:map=smt,smt=1.5,nodes=2,remote=1.3", Some("1000")),
    ];
    let mut points = Vec::new();
    for (queues, flows) in layouts {
        for load_pps in [60e3, 150e3, 280e3] {
            for scheme in ["disable-enable:merged=false", "napi:weight=8"] {
                let mut point = point(scheme, load_pps, 32);
                point.host.queues = Some(queues.parse().expect("queues"));
                point.traffic.flows = flows.map(|flows| flows.parse().expect("flows"));
                points.push(point);
            }
        }
    }
    compare(&points, 60_000, false);
}

/// The model of dim is an approximation, so its results need not be within the intervals. The effects that it omits
/// change latency and interrupts by at most a sixth, and the CPU time by at most 2 %.
#[test]
fn dim_is_near() {
    for profile in ["eqe", "cqe"] {
        for load_pps in [20e3, 70e3, 110e3, 150e3] {
            let point = point(&format!("dim:profile={profile}"), load_pps, 1024);
            let model = ModelEngine::new(Fidelity::Exact).evaluate(&point).expect("an answer");
            let sim = SimEngine::with_packets(11, 400_000).evaluate(&point).expect("an answer");
            let apart = |pick: fn(&Outcome) -> Option<Figure>| {
                pick(&model).expect("a figure").value / pick(&sim).expect("a figure").value - 1.0
            };
            let (latency, interrupts) = (apart(|o| o.latency_s?.mean), apart(|o| o.interrupts_per_s));
            let available = apart(|o| o.cpu?.available);
            let near = latency.abs() < 0.17 && interrupts.abs() < 0.17 && available.abs() < 0.02;
            assert!(near, "{profile} at {load_pps}: {latency} {interrupts} {available}");
        }
    }
}

/// The model of hybrid is an approximation where both parts of the scheme run. From below to above its hysteresis (110
/// to 120 kpps) and beyond saturation, the mean latency is at most a tenth outside the simulator's interval, and
/// packets and CPU at most a fiftieth.
#[test]
fn hybrid_is_near() {
    for scheme in ["hybrid:quota=3,up=120kpps,down=110kpps", "hybrid:period=40us,quota=8"] {
        for load_pps in [40e3, 105e3, 112e3, 116e3, 125e3, 170e3, 250e3] {
            let point = point(scheme, load_pps, 256);
            let model = ModelEngine::new(Fidelity::Exact).without_quantiles().evaluate(&point).expect("an answer");
            let sim = SimEngine { confidence: CONFIDENCE, ..SimEngine::with_packets(12, 400_000) };
            let sim = sim.evaluate(&point).expect("an answer");
            let apart = |pick: fn(&Outcome) -> Option<Figure>| {
                let (model, sim) = (pick(&model).expect("a figure").value, pick(&sim).expect("a figure"));
                let (low, high) = sim.interval.map_or((sim.value, sim.value), |ends| (ends.low, ends.high));
                (model - high).max(low - model).max(0.0) / sim.value
            };
            let (read, latency) = (apart(|o| o.throughput_pps), apart(|o| o.latency_s?.mean));
            let available = apart(|o| o.cpu?.available);
            let near = read < 0.02 && latency < 0.1 && available < 0.02;
            assert!(near, "{scheme} at {load_pps}: {read} {latency} {available}");
        }
    }
}

#[test]
fn the_bound_is_the_binomials() {
    assert_eq!(bound(216), 9);
}
