//! Whether intervals of the mean latency hold the truth, that of a run a hundred times as long, over random points from half to
//! five times saturation with small and large rings and sockets.
//!
//! `cargo test --release -p netcliff-sim --test coverage -- --ignored --nocapture` takes 200 points, in minutes.

#![allow(clippy::print_stdout, reason = "each point is shown, for whoever reads a long run")]

use netcliff_core::{Figure, Host, Outcome, Point, Service, Traffic};
use netcliff_sim::{Effort, SimEngine, Simulation};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const CONFIDENCE: f64 = 0.99;
/// Share of the intervals that must hold the truth.
const HELD: f64 = 0.97;
/// Arrivals of the truth at the most; its own interval then counts as well.
const LONGEST: u64 = 300_000_000;

const SCHEMES: [&str; 12] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable",
    "polling:period=20us,quota=3",
    "napi-2007:period=20us,quota=3",
    "napi",
    "napi:weight=8",
    "napi:threaded=true",
    "coalesce:frames=8",
    "coalesce:frames=8,usecs=50us,masked=true",
    "dim",
];

struct Dice(Xoshiro256PlusPlus);

impl Dice {
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// As likely in each octave.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[(self.unit() * of.len() as f64) as usize].clone()
    }

    fn point(&mut self) -> Point {
        let service = [Service::Exponential, Service::Deterministic, Service::Hyperexponential { cv: 1.6 }];
        let host = Host {
            ring: self.between(4.0, 1024.0) as u64,
            socket_buffer: self.between(2.0, 1024.0) as u64,
            application_s: (self.unit() < 0.6).then(|| self.between(0.5e-6, 20e-6)),
            context_switch_s: 1e-6,
            service: self.one_of(&service),
            ..Host::pentium4_2530mhz()
        };
        let saturation = 1.0 / (host.service_s(64.0) + host.application_s.unwrap_or(0.0));
        let traffic = Traffic::poisson(saturation * self.between(0.5, 5.0));
        Point { host, scheme: self.one_of(&SCHEMES).parse().expect("a scheme"), traffic }
    }
}

/// Points of seed `seed`.
fn points(seed: u64, count: usize) -> Vec<Point> {
    let mut dice = Dice(Xoshiro256PlusPlus::seed_from_u64(seed));
    (0..count).map(|_| dice.point()).collect()
}

fn mean(outcome: &Outcome) -> Option<Figure> {
    outcome.latency_s?.mean
}

fn half_width(figure: Figure) -> Option<f64> {
    figure.interval.map(|ends| (ends.high - ends.low) / 2.0)
}

fn simulate(seed: u64, effort: Effort, point: &Point) -> Simulation {
    SimEngine { seed, effort, confidence: CONFIDENCE, ..SimEngine::default() }
        .simulate(point)
        .expect("a supported point")
}

/// What became of the interval of a point: held the truth, missed it, or was not given.
fn held(number: usize, point: &Point, packets: u64) -> Option<bool> {
    let asked = simulate(1000 + number as u64, Effort::Packets(packets), point);
    let found = mean(&asked.outcome)?;
    let half = half_width(found);
    let label = format!(
        "{number}: {} at {:.0} pps, ring {}, socket {}, application {:?}, {}",
        point.scheme,
        point.traffic.rate_pps().unwrap_or(0.0),
        point.host.ring,
        point.host.socket_buffer,
        point.host.application_s,
        point.host.service
    );
    let Some(half) = half else {
        println!("{label}: {} packets, no interval: {:?}", asked.packets, asked.outcome.notes);
        return None;
    };
    let longer = (100 * asked.packets).min(LONGEST.max(asked.packets));
    let truth = simulate(7_000_000 + number as u64, Effort::Exactly(longer), point);
    let truth_mean = mean(&truth.outcome)?;
    // An interval a tenth as wide moves a miss by little, but is not nothing.
    let own = if longer < 100 * asked.packets { half_width(truth_mean).unwrap_or(f64::INFINITY) } else { 0.0 };
    // Constant times give intervals of no width: the start of a run is one packet in all of them.
    let near = 1e-6 * truth_mean.value;
    let held = (found.value - truth_mean.value).abs() <= half.hypot(own) + near;
    if !held {
        println!(
            "{label}: {:e} +- {half:e} of {} packets, truth {:e} +- {:?} of {}",
            found.value,
            asked.packets,
            truth_mean.value,
            half_width(truth_mean),
            truth.packets
        );
    }
    Some(held)
}

/// P(Binomial(trials, miss) >= misses).
fn chance(trials: usize, misses: usize, miss: f64) -> f64 {
    let mut term = (1.0 - miss).powi(trials as i32);
    let mut below = 0.0;
    for k in 0..misses {
        below += term;
        term *= (trials - k) as f64 / (k + 1) as f64 * miss / (1.0 - miss);
    }
    1.0 - below
}

/// (Held, missed, without an interval) of random points.
fn outcome(seed: u64, count: usize, packets: u64) -> (usize, usize, usize) {
    let each: Vec<Option<bool>> =
        points(seed, count).iter().enumerate().map(|(number, point)| held(number, point, packets)).collect();
    let of = |what: Option<bool>| each.iter().filter(|one| **one == what).count();
    (of(Some(true)), of(Some(false)), of(None))
}

/// Seed 16. With intervals that hold the truth in 97 % of all points more misses than asserted have a chance of 1 in 1000. No
/// more than one point in ten may go without an interval.
#[test]
#[ignore = "takes minutes"]
fn intervals_of_the_mean_latency_hold_the_truth() {
    let (held, missed, without) = outcome(16, 200, 200_000);
    println!("{held} held, {missed} missed, {without} without an interval");
    assert!(chance(held + missed, missed, 1.0 - HELD) > 1e-3, "{missed} of {} missed", held + missed);
    assert!(without <= 20, "{without} without an interval");
}

/// The same over few points and short runs: seed 17, 24 points of 20 000 arrivals or as many as they need. More than three misses have a
/// chance of 1 in 160 at 97 %, and of 1 in 10 000 at the 99 % that intervals claim.
#[test]
fn intervals_of_short_runs_hold_the_truth() {
    let (held, missed, without) = outcome(17, 24, 20_000);
    assert!(missed <= 3 && without <= 4, "{held} held, {missed} missed, {without} without an interval");
}

#[test]
fn the_chance_is_the_binomials() {
    assert!((chance(10, 1, 0.1) - (1.0 - 0.9_f64.powi(10))).abs() < 1e-12);
    assert!((chance(3, 3, 0.5) - 0.125).abs() < 1e-12);
}
