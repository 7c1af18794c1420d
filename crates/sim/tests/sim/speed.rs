//! Speed of the simulator. Run with `cargo test --release -p netcliff-sim --test sim speed:: -- --ignored --nocapture
//! --test-threads 1`.

use std::time::Instant;

use netcliff_core::{Host, Point, Service, Traffic};
use netcliff_sim::{Effort, SimEngine, cliff_sim};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn point(scheme: &str, kpps: f64) -> Point {
    Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), kpps * 1e3)
}

/// Number of packets per measurement.
const PACKETS: u64 = 5_000_000;
/// Number of rounds, each of which measures all points.
const ROUNDS: usize = 7;

/// Million packets per second on one thread.
fn speed(point: &Point) -> f64 {
    let start = Instant::now();
    let effort = Effort::Exactly(PACKETS);
    SimEngine { effort, ..SimEngine::default() }.simulate(point).unwrap();
    PACKETS as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Median, smallest and largest value.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    format!("{:6.2} ({:.2}..{:.2})", values[values.len() / 2], values[0], values[values.len() - 1])
}

/// Lower bound of the possible time per packet: waiting times by Lindley's recursion, with the same kind of generator
/// and the library's logarithm, without recording anything.
fn lindley() -> f64 {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut exponential = |mean: f64| {
        let unit = 2.0 - f64::from_bits(0x3ff0_0000_0000_0000 | (generator.next_u64() >> 12));
        -mean * unit.ln()
    };
    let packets = PACKETS as f64;
    let (mut wait, mut sum) = (0.0_f64, 0.0);
    let start = Instant::now();
    for _ in 0..PACKETS {
        sum += wait;
        wait = (wait + exponential(0.8) - exponential(1.0)).max(0.0);
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!((sum / packets - 3.2).abs() < 0.2);
    packets / seconds / 1e6
}

/// Every round measures all points, so that other activity on the machine does not distort the ratios.
#[test]
#[ignore = "measures; set RAYON_NUM_THREADS=1"]
fn packets_a_second() {
    let schemes = [
        ("ideal", 149.9),
        ("interrupt", 100.0),
        ("disable-enable", 100.0),
        ("polling", 100.0),
        ("napi-2007", 100.0),
        ("coalesce:frames=8", 100.0),
        ("coalesce:usecs=50us", 100.0),
        ("coalesce:frames=8,usecs=50us", 100.0),
        ("coalesce:frames=8,usecs=50us,masked=true", 100.0),
        ("napi", 100.0),
        ("napi:backlog", 300.0),
    ];
    let mut cases: Vec<(String, Point)> =
        schemes.iter().map(|(scheme, kpps)| (format!("{scheme} at {kpps} kpps"), point(scheme, *kpps))).collect();
    for scheme in ["ideal", "disable-enable", "napi"] {
        let mut paused = point(scheme, 100.0);
        (paused.host.pause_s, paused.host.pause_every_s) = (Some(100e-6), Some(5e-3));
        cases.push((format!("{scheme} at 100 kpps, away for 100 us each 5 ms"), paused));
    }
    let mut with_application = point("napi:backlog", 90.0);
    with_application.host.application_s = Some(2e-6);
    cases.push(("napi:backlog with an application at 90 kpps".to_owned(), with_application));
    let rounds: Vec<(f64, Vec<f64>)> =
        (0..ROUNDS).map(|_| (lindley(), cases.iter().map(|(_, point)| speed(point)).collect())).collect();
    println!("median (smallest..largest) of {ROUNDS} rounds: million packets/s; the same over the round's Lindley");
    println!("{:50} {}", "Lindley recursion", spread(rounds.iter().map(|(floor, _)| *floor)));
    for (number, (name, _)) in cases.iter().enumerate() {
        let speeds = spread(rounds.iter().map(|(_, speeds)| speeds[number]));
        println!("{name:50} {speeds}; {}", spread(rounds.iter().map(|(floor, speeds)| speeds[number] / floor)));
    }
}

/// All of the paper's figure 7: 7 schemes x 30 loads with 1 % on throughput, mean latency and CPU. It must take less
/// than 10 s on two cores.
#[test]
#[ignore = "measures"]
fn figure_7() {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    let schemes = [
        "ideal",
        "interrupt",
        "disable-enable:merged=true",
        "polling:period=20us,quota=3",
        "napi-2007:period=20us,quota=3",
        "coalesce:frames=8,drops_interrupt=true",
        "coalesce:usecs=50us,drops_interrupt=true",
    ];
    let effort = Effort::Precision {
        relative: 0.01,
        packets_at_most: 100_000_000,
        figures: netcliff_core::outcome::Aims::default(),
    };
    let engine = SimEngine { effort, ..SimEngine::default() };
    let start = Instant::now();
    let points: Vec<(&str, u32)> = schemes.iter().flat_map(|scheme| (1..=30).map(move |n| (*scheme, 10 * n))).collect();
    let answers: Vec<_> = points
        .into_par_iter()
        .map(|(scheme, kpps)| {
            let begun = Instant::now();
            let simulation = engine.simulate(&point(scheme, f64::from(kpps))).unwrap();
            (scheme, kpps, simulation.packets, simulation.precise, begun.elapsed().as_secs_f64())
        })
        .collect();
    let seconds = start.elapsed().as_secs_f64();
    for (scheme, kpps, packets, precise, seconds) in &answers {
        if !precise || *seconds > 0.2 {
            println!(
                "{scheme} at {kpps} kpps: {packets} packets, {seconds:.2} s{}",
                if *precise { "" } else { ", not reached" }
            );
        }
    }
    let packets: u64 = answers.iter().map(|answer| answer.2).sum();
    println!("{} points in {seconds:.2} s; {:.1} million packets", answers.len(), packets as f64 / 1e6);
}

/// The search for the cliff of a calibrated host: less than 8 s on one core, without the build.
#[test]
#[ignore = "measures; set RAYON_NUM_THREADS=1"]
fn a_cliff() {
    let host = Host {
        interrupt_s: 1.5e-6,
        protocol_s: 0.9e-6,
        per_byte_s: 0.0,
        mask_s: 0.0,
        poll_s: 0.5e-6,
        application_s: Some(1e-6),
        context_switch_s: 2e-6,
        wakeup_s: 1e-6,
        ring: 1000,
        socket_buffer: 5000,
        service: Service::Erlang { stages: 4 },
        ..Host::pentium4_2530mhz()
    };
    let scheme = "napi:backlog".parse().unwrap();
    let start = Instant::now();
    let cliff = cliff_sim(&SimEngine::default(), &host, &scheme, &Traffic::default(), 1e-4).unwrap();
    println!("cliff {:?} from {} loads in {:.2} s", cliff.load_pps, cliff.sweep.len(), start.elapsed().as_secs_f64());
}
