//! Measures the cost of tracing drops for the ledger: pairs of trials with and without the tracer, in alternating
//! order.
//!
//! `cargo run --release -p netcliff-trial --example ledger_cost -- PAIRS SECONDS LOAD_PPS...` prints one CSV line per
//! trial, then one line per load: the mean relative difference of throughput and of CPU time per packet (interrupt,
//! protocol, application) with its 95 % interval. As in `find`, a loop keeps the host's CPU from halting: a halted
//! virtual CPU may resume late, which causes loss and delays for which the host is not responsible. Used by
//! `bench/drops/run.sh`.

use std::io::{Write, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::finding::Settings;
use netcliff_host::cpu::Preference;
use netcliff_host::drops::ledger::Collector;
use netcliff_host::idle::Awake;
use netcliff_host::testbed::netns::Side;
use netcliff_packets::schedule::Arrivals;
use netcliff_trial::bench::Bench;
use netcliff_trial::rig::{Place, Rig, RigOptions};
use netcliff_trial::trial::TrialShape;
use netcliff_trial::wire_bench::WireBench;

/// 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.96;

struct Seen {
    throughput_pps: f64,
    packet_s: f64,
    loss: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mut number = |what: &str| {
        words.next().ok_or(format!("{what} is missing"))?.parse::<f64>().map_err(|e| format!("{what}: {e}"))
    };
    let (pairs, seconds) = (number("PAIRS")? as u32, number("SECONDS")?);
    let loads: Vec<f64> = std::env::args().skip(3).filter_map(|word| word.parse().ok()).collect();
    let rig =
        Rig::build(&RigOptions { place: Place::Netns, ..RigOptions::default() }, Arc::new(AtomicBool::new(false)))?;
    let spaces: Vec<_> = [Side::Sender, Side::HostUnderTest].into_iter().filter_map(|side| rig.netns(side)).collect();
    let (_, host) = rig.addresses();
    let filter: netcliff_core::filter::Filter =
        format!("udp dst port {} and dst host {}", host.port(), host.ip()).parse()?;
    let mut bench = WireBench::new(&rig, Preference::Best, Box::new(|_, _, _| {}));
    let _awake = Awake::hold(rig.host_cpu, bench.host_heartbeat())?;
    let mut out = stdout().lock();
    writeln!(out, "load_pps,pair,traced,throughput_pps,packet_us,loss")?;
    for load_pps in loads {
        let mut differences = [Vec::new(), Vec::new()];
        let mut losses = Vec::new();
        for pair in 0..pairs {
            let mut seen = [None, None];
            for turn in 0..2 {
                let traced = (turn + pair) % 2 == 1;
                let collector = traced.then(|| Collector::new(filter.clone(), &spaces));
                let (arrivals, seed) = (Arrivals::Constant, u64::from(pair));
                let settings = Settings { arrivals, seed, ..Settings::default() };
                let observation = bench.observe(&TrialShape::of(&settings, seconds).at(load_pps), true)?;
                drop(collector);
                let counts = observation.counts.clone().unwrap_or_default();
                let one = Seen {
                    throughput_pps: observation.outcome.throughput_pps.map_or(0.0, |figure| figure.value),
                    packet_s: counts.demand_s().unwrap_or(f64::NAN),
                    loss: observation.loss(),
                };
                writeln!(
                    out,
                    "{load_pps},{pair},{traced},{:.0},{:.4},{:.4}",
                    one.throughput_pps,
                    1e6 * one.packet_s,
                    one.loss
                )?;
                seen[usize::from(traced)] = Some(one);
            }
            if let [Some(without), Some(with)] = seen {
                differences[0].push(with.throughput_pps / without.throughput_pps - 1.0);
                differences[1].push(with.packet_s / without.packet_s - 1.0);
                losses.push(without.loss);
            }
        }
        let loss = losses.iter().sum::<f64>() / losses.len().max(1) as f64;
        for (name, of) in ["throughput", "CPU time a packet"].iter().zip(&differences) {
            let n = of.len() as f64;
            let mean = of.iter().sum::<f64>() / n;
            let variance = of.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
            let half = Z * (variance / n).sqrt();
            writeln!(
                out,
                "# {load_pps} pps, loss {:.1} %: {name} {:+.2} % +/- {:.2} %",
                100.0 * loss,
                100.0 * mean,
                100.0 * half
            )?;
        }
    }
    Ok(())
}
