//! Compares the highest rate of the generator between methods. It prints results and checks nothing, so it runs only on
//! request: `cargo test --release -p netcliff-lab --test lab wire::ceilings:: -- --ignored --nocapture`

use std::sync::Arc;

use crate::wire::common::{Pair, pair_or_skip};
use netcliff_packets::generator::{Ceiling, ceiling};
use netcliff_packets::run::run;
use netcliff_packets::schedule::{Arrivals, Schedule};
use netcliff_packets::sink::{Sink, SinkConfig};
use netcliff_packets::source::Timing;
use netcliff_packets::thread::Priority;
use netcliff_packets::transmit::Method;

const METHODS: [Method; 2] = [Method::PacketBatch, Method::PacketRing { slots: 8192 }];
const ROUNDS: usize = 7;

fn one(pair: &Pair, method: Method, max_burst: usize, foreign_mac: bool) -> Ceiling {
    let mut config = pair.generator(0, 64);
    config.placement.priority = Priority::RealTime(1);
    config.method = method;
    config.max_burst = max_burst;
    config.frame.run_id ^= 1;
    if foreign_mac {
        config.frame.destination_mac = [2, 0x99, 0, 0, 0, 0];
    }
    ceiling(config, 0.3, Arc::default()).expect("the pair works")
}

/// Clock ticks that CPU 1 has spent in softirqs. A tick in /proc/stat is 10 ms, whatever HZ is.
fn softirq_ticks() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").expect("procfs");
    let line = text.lines().find(|line| line.starts_with("cpu1 ")).expect("two CPUs");
    line.split_whitespace().nth(7).and_then(|ticks| ticks.parse().ok()).expect("a softirq column")
}

/// A sink with real-time priority: CPU time of other programs would hide the difference between the methods.
fn sink(pair: &Pair) -> SinkConfig {
    let mut config = pair.sink(1);
    config.placement.priority = Priority::RealTime(1);
    config
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures each method and burst size in turn, so that other activity of the machine affects all methods equally.
#[test]
#[ignore = "prints figures; minutes on a quiet machine"]
#[allow(clippy::print_stdout, reason = "figures are its purpose")]
fn ceilings() {
    let Some(pair) = pair_or_skip() else { return };
    let sink = Sink::spawn(sink(&pair), Arc::default()).expect("the pair works");
    for (receiver, foreign_mac) in [("drops at once (foreign MAC)", true), ("reads (sink on CPU 1)", false)] {
        for max_burst in [1, 8, 32] {
            let mut offered = METHODS.map(|_| Vec::new());
            let mut refused = METHODS.map(|_| Vec::new());
            let (mut ticks, mut packets) = ([0.0; METHODS.len()], [0.0; METHODS.len()]);
            for _ in 0..ROUNDS {
                for (index, method) in METHODS.into_iter().enumerate() {
                    let before = softirq_ticks();
                    let got = one(&pair, method, max_burst, foreign_mac);
                    ticks[index] += softirq_ticks() - before;
                    packets[index] += got.frames.accepted as f64;
                    offered[index].push(got.offered_pps / 1e6);
                    refused[index].push(got.frames.refused as f64 / got.frames.total() as f64);
                }
            }
            let [batch, ring] = offered.map(median);
            let [batch_refused, ring_refused] = refused.map(median);
            println!(
                "receiver {receiver}, burst {max_burst}: batch {batch:.3} M/s ({:.0} % refused), ring {ring:.3} M/s ({:.0} % refused), batch/ring {:.2}; receiver's softirq a packet: batch {:.2} us, ring {:.2} us",
                100.0 * batch_refused,
                100.0 * ring_refused,
                batch / ring,
                1e4 * ticks[0] / packets[0],
                1e4 * ticks[1] / packets[1],
            );
        }
    }
    sink.finish(0.1).expect("it lives");
}

/// Prints the delivered rate with each method of the sender. The sender's method must not load the receiver.
#[test]
#[ignore = "prints figures; minutes on a quiet machine"]
#[allow(clippy::print_stdout, reason = "figures are its purpose")]
fn paced_load_by_method() {
    let Some(pair) = pair_or_skip() else { return };
    for rate_pps in [50e3, 200e3, 300e3, 400e3, 500e3, 700e3, 900e3] {
        let mut by_method = METHODS.map(|_| Vec::new());
        for seed in 0..ROUNDS as u64 {
            for (runs, method) in by_method.iter_mut().zip(METHODS) {
                let mut generator = pair.generator(0, 64);
                generator.method = method;
                generator.placement.priority = Priority::RealTime(1);
                let schedule = Schedule::new(Arrivals::Poisson, rate_pps, seed, 0).expect("legal");
                let timing = Timing::measured(0.4);
                let run = run(generator, sink(&pair), schedule, timing, &Arc::default(), |_, _| ());
                runs.push(run.expect("the pair works"));
            }
        }
        for (runs, method) in by_method.iter().zip(METHODS) {
            let of = |figure: fn(&netcliff_packets::run::WireRun) -> f64| median(runs.iter().map(figure).collect());
            println!(
                "{:4.0} kpps {method:?}: achieved {:.1} kpps, delivered {:.1} kpps, refused {:.2} %, socket drops {:.0}, lateness p50 {:.2} us p99 {:.1} us, largest burst {:.0}, end to end p50 {:.1} us p99 {:.0} us, wakeups/packet {:.3}, kept up {}/{ROUNDS}",
                rate_pps / 1e3,
                of(|r| r.sender.achieved_pps.unwrap_or(0.0) / 1e3),
                of(|r| r.delivered_pps().unwrap_or(0.0) / 1e3),
                of(|r| 100.0 * r.accounting.refused as f64 / r.accounting.offered as f64),
                of(|r| r.accounting.run_socket_drops.unwrap_or(0) as f64),
                of(|r| 1e6 * r.sender.lateness.quantile_s(0.5).unwrap_or(0.0)),
                of(|r| 1e6 * r.sender.lateness.quantile_s(0.99).unwrap_or(0.0)),
                of(|r| r.sender.largest_burst as f64),
                of(|r| 1e6 * r.sink.end_to_end.quantile_s(0.5).unwrap_or(0.0)),
                of(|r| 1e6 * r.sink.end_to_end.quantile_s(0.99).unwrap_or(0.0)),
                of(|r| r.sink.wakeups().unwrap_or(0) as f64 / r.sink.window_delivered.max(1) as f64),
                runs.iter().filter(|r| r.sender.kept_up).count(),
            );
        }
    }
}
