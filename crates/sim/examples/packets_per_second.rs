//! One contender of bench/sim: `packets_per_second CASE PACKETS` prints a line of JSON. A case is `lindley`, the
//! scalar recursion with the simulator's generator and the library's logarithm, or `SCHEME@KPPS` on the paper's host, `SCHEME@KPPS+US` with an
//! application that takes so long a packet (us).
#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::time::Instant;

use netcliff_core::{Host, Point, Traffic};
use netcliff_sim::{Effort, SimEngine};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

fn lindley(packets: u64) -> f64 {
    let mut generator = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut exponential = |mean: f64| {
        let unit = 2.0 - f64::from_bits(0x3ff0_0000_0000_0000 | (generator.next_u64() >> 12));
        -mean * unit.ln()
    };
    let (mut wait, mut sum) = (0.0_f64, 0.0);
    for _ in 0..packets {
        sum += wait;
        wait = (wait + exponential(0.8) - exponential(1.0)).max(0.0);
    }
    sum / packets as f64
}

fn simulate(case: &str, packets: u64) -> f64 {
    let (scheme, load) = case.split_once('@').expect("a case such as interrupt@100");
    let scheme = scheme.parse().expect("a scheme");
    let (kpps, application_us) = load.split_once('+').map_or((load, None), |(kpps, us)| (kpps, Some(us)));
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let application_s = application_us.map(|us| 1e-6 * number(us));
    let host = Host { application_s, ..Host::pentium4_2530mhz() };
    let point = Point { host, scheme, traffic: Traffic::poisson(1e3 * number(kpps)) };
    let engine = SimEngine { effort: Effort::Exactly(packets), ..SimEngine::default() };
    let outcome = engine.simulate(&point).expect("a supported point").outcome;
    outcome.latency_s.and_then(|latency| latency.mean).map_or(f64::NAN, |mean| mean.value)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let case = args.next().expect("a case");
    let packets: u64 = args.next().map_or(10_000_000, |count| count.parse().expect("a number of packets"));
    let start = Instant::now();
    let mean = if case == "lindley" { lindley(packets) } else { simulate(&case, packets) };
    let seconds = start.elapsed().as_secs_f64();
    println!("{{\"packets\": {packets}, \"seconds\": {seconds:.6}, \"mean_s\": {mean:e}}}");
}
