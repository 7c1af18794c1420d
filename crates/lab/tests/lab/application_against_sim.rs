//! The model with an application, compared with the simulator. All seeds are fixed (a quarter of the points each day,
//! all of them in `make measure`).
//!
//! Where the model is exact, throughput, loss at the socket, mean latency and the application's share of the CPU are
//! compared: a 99 % interval misses the truth once in a hundred times. The number of misses that all points together
//! may have is a binomial bound, which chance exceeds less than once in 10 000 runs. Elsewhere the model's error must
//! be below the bound in its note.

use crate::against::{CONFIDENCE, Dice, bound};
use netcliff_core::note::Note;
use netcliff_core::{Engine, Figure, Host, Outcome, Point};

use netcliff_model::{Fidelity, ModelEngine};
use netcliff_sim::{Effort, SimEngine};
use netcliff_testkit::Grid;

const EXACT: [&str; 9] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=true",
    "disable-enable:merged=false",
    "coalesce:frames=3,masked=true",
    "coalesce:frames=8,masked=true",
    "coalesce:usecs=50us,masked=true",
    "napi",
];

fn point(scheme: &str, kpps: f64, ring: u64, socket_buffer: u64) -> Point {
    let host = Host { ring, socket_buffer, application_s: Some(2e-6), ..Host::pentium4_2530mhz() };
    Point::poisson(host, scheme.parse().expect("a scheme"), kpps * 1e3)
}

/// Adds costs: a wake-up takes time, and a drop at a full socket takes less than a delivery.
fn with_costs(mut point: Point) -> Point {
    (point.host.context_switch_s, point.host.wakeup_s, point.host.socket_drop_cost) = (1.5e-6, 0.8e-6, 0.6);
    point.host.interrupt_latency_s = if point.scheme.name() == "napi" { 3e-6 } else { 0.0 };
    point
}

/// A point with costs such as `find` calibrates.
fn calibrated(kpps: f64) -> Point {
    let mut point = with_costs(point("napi", kpps, 1000, 256));
    let host = &mut point.host;
    (host.interrupt_s, host.protocol_s, host.per_byte_s, host.poll_s) = (2e-6, 0.9e-6, 0.0, 0.5e-6);
    (host.mask_s, host.interrupt_latency_s) = (0.0, 10e-6);
    (host.application_s, host.context_switch_s, host.wakeup_s) = (Some(1e-6), 2e-6, 1e-6);
    point
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for scheme in EXACT {
        for kpps in [40.0, 80.0] {
            points.push(point(scheme, kpps, 1024, 256));
            points.push(with_costs(point(scheme, kpps, 1024, 256)));
        }
        // Points such as `find` predicts: a late interrupt, wake-ups, and the ring and socket sizes of a real host.
        if scheme == "napi" {
            points.extend([250.0, 400.0].map(calibrated));
            // A drop costs more than a delivery, as when CPUs contend for the socket's queue.
            let mut contended = calibrated(400.0);
            contended.host.socket_drop_cost = 1.5;
            points.push(contended);
        }
        // Also points past saturation, where a small socket soon reaches its steady state.
        if scheme != "napi" {
            for kpps in [60.0, 110.0, 170.0] {
                points.push(point(scheme, kpps, 8, 4));
                points.push(with_costs(point(scheme, kpps, 24, 12)));
            }
        }
    }
    points
}

/// Each figure: its name, the model's value and the simulator's estimate.
fn figures(model: &Outcome, sim: &Outcome) -> [(&'static str, f64, Figure); 5] {
    let of = |name, pick: fn(&Outcome) -> Option<Figure>| {
        (name, pick(model).expect("a figure of the model").value, pick(sim).expect("a figure of the simulator"))
    };
    [
        of("throughput", |outcome| outcome.throughput_pps),
        of("socket loss", |outcome| outcome.loss?.socket),
        of("mean latency", |outcome| outcome.latency_s?.mean),
        of("application", |outcome| outcome.cpu?.application),
        of("available", |outcome| outcome.cpu?.available),
    ]
}

fn simulated(point: &Point, seed: u64, packets: u64) -> Outcome {
    let sim = SimEngine { seed, effort: Effort::Packets(packets), confidence: CONFIDENCE, ..SimEngine::default() };
    sim.evaluate(point).expect("the simulator answers")
}

/// Random hosts whose polls wait for ticks, with and without a context switch. Rings and sockets hold a few packets or,
/// below saturation, the usual number.
fn ticking(kind: &str, dice: &mut Dice) -> Point {
    let is_small = dice.flag();
    let mut host = if is_small { dice.host((2, 16), (2, 16)) } else { dice.host((1024, 1024), (256, 256)) };
    let application_s = dice.between(0.5e-6, 3e-6);
    host.application_s = Some(application_s);
    host.context_switch_s = if dice.flag() { dice.between(0.2e-6, 2e-6) } else { 0.0 };
    let saturation_pps = 1.0 / (host.service_s(64.0) + host.interrupt_s + application_s);
    let load = if is_small { dice.between(0.1, 2.0) } else { dice.between(0.1, 0.5) };
    let scheme = format!("{kind}:period={},quota={}", dice.time_us(10.0, 30.0), dice.whole(2, 4));
    Point::poisson(host, scheme.parse().expect("a scheme"), saturation_pps * load)
}

#[test]
fn exact_with_napi_2007() {
    let mut dice = Dice::new(61_000);
    holds(&(0..20).map(|_| ticking("napi-2007", &mut dice)).collect::<Vec<_>>(), 100_000);
}

#[test]
fn exact_with_polling() {
    let mut dice = Dice::new(62_000);
    holds(&(0..20).map(|_| ticking("polling", &mut dice)).collect::<Vec<_>>(), 100_000);
}

/// Random hosts with masked coalescing: a packet timer (0.2 to 3 mean gaps, restarted by drops or not) or a timer, with
/// or without a count.
fn gathering(dice: &mut Dice) -> Point {
    let is_small = dice.flag();
    let mut host = if is_small { dice.host((4, 16), (2, 16)) } else { dice.host((1024, 1024), (256, 256)) };
    let application_s = dice.between(0.5e-6, 3e-6);
    host.application_s = Some(application_s);
    if dice.flag() {
        (host.context_switch_s, host.wakeup_s) = (dice.between(0.2e-6, 4e-6), dice.between(0.2e-6, 2e-6));
    }
    let saturation_pps = 1.0 / (host.service_s(64.0) + host.interrupt_s + application_s);
    let rate_pps = saturation_pps * if is_small { dice.between(0.1, 2.0) } else { dice.between(0.1, 0.6) };
    let timer = format!("{:.2}us", dice.between(0.2, 3.0) / rate_pps * 1e6);
    let mut scheme = "coalesce:masked=true".to_owned();
    let has_count = if dice.unit() < 0.7 {
        scheme += &format!(",packet_timer={timer},drops_interrupt={}", dice.flag());
        dice.flag()
    } else {
        scheme += &format!(",usecs={timer}");
        true
    };
    if has_count {
        scheme += &format!(",frames={}", dice.whole(2, 4));
    }
    Point::poisson(host, scheme.parse().expect("a scheme"), rate_pps)
}

#[test]
fn exact_with_packet_timers_and_counts() {
    let mut dice = Dice::new(63_000);
    holds(&(0..24).map(|_| gathering(&mut dice)).collect::<Vec<_>>(), 100_000);
}

#[test]
fn exact_with_an_application() {
    let points = points();
    assert!(points.len() >= 60, "{}", points.len());
    holds(&points, 300_000);
}

/// Checks that the simulator's intervals over `packets` packets contain the model's exact values at these points.
fn holds(points: &[Point], packets: u64) {
    let model = ModelEngine::new(Fidelity::Exact).without_quantiles();
    let (mut compared, mut missed) = (0, Vec::new());
    let grid = Grid::of_today();
    for (nth, point) in grid.part(points) {
        let seed = 70_000 + nth as u64;
        let truth = model.evaluate(point).expect("the model answers");
        assert!(!truth.notes.iter().any(|note| matches!(note, Note::TwoMoments(_))), "{point:?}: {:?}", truth.notes);
        let found = simulated(point, seed, packets);
        for (name, truth, found) in figures(&truth, &found) {
            compared += 1;
            // What happens less than once in all packets is not seen.
            let unseen = truth < 1e-7 && found.value < 1e-5;
            if !unseen && !found.covers(truth) {
                missed.push(format!(
                    "{} {} B={} K={} seed {seed} {name}: {truth:e} {found:?}",
                    point.scheme, point.load, point.host.ring, point.host.socket_buffer
                ));
            }
        }
    }
    let bound = bound(compared);
    let all = missed.join("\n");
    assert!(missed.len() as u32 <= bound, "{} of {compared} missed, bound {bound} ({grid}):\n{all}", missed.len());
}

/// Latencies of two independent simulations of 2e6 packets. The model agrees with them within 1 %.
#[test]
fn latencies_of_a_referee() {
    let model = ModelEngine::new(Fidelity::Exact).without_quantiles();
    let right = [
        ("coalesce:frames=8,masked=true", 133e-6),
        ("coalesce:usecs=50us,masked=true", 117e-6),
        ("coalesce:packet_timer=20us,masked=true", 217e-6),
        ("napi-2007:period=20us,quota=3", 85.2e-6),
    ];
    for (scheme, right_s) in right {
        let found = model.evaluate(&point(scheme, 100.0, 1024, 256)).expect("an answer");
        let latency_s = found.latency_s.and_then(|latency| latency.mean).expect("a mean").value;
        assert!((latency_s / right_s - 1.0).abs() < 0.01, "{scheme}: {latency_s}");
        assert_eq!(found.cpu_method.as_deref(), Some("exact"), "{scheme}");
    }
}
