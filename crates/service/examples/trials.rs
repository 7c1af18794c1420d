//! Makes trials of the requester at given loads and prints one line for each: `trials ADDRESS:PORT REQUEST CPU SECONDS
//! RATE...`, in the current network namespace. A rate such as `60000:constant` has equal gaps. Used to compare the
//! requester with other generators at equal loads (`bench/service`).
#![cfg(target_os = "linux")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use netcliff_packets::schedule::Arrivals;
use netcliff_service::protocol::Transport;
use netcliff_service::request::Workload;
use netcliff_service::requester::{Load, Requester};

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [to, request, cpu, seconds, rates @ ..] = &args[..] else {
        return Err("usage: trials ADDRESS:PORT REQUEST CPU SECONDS RATE...".into());
    };
    let to: SocketAddr = to.parse()?;
    let workload = Workload::read(&request.parse()?, None, None, to.port(), &to.to_string())?;
    let requester = Requester {
        to,
        connections: if workload.transport == Transport::Udp { 16 } else { 32 },
        workload: Arc::new(workload),
        depth: 1,
        new_connections: false,
        tls: None,
        timeout_ns: 200_000_000,
        netns: None,
        cpu: cpu.parse()?,
        stop: Arc::default(),
    };
    requester.ask_once(true)?;
    for (seed, rate) in rates.iter().enumerate() {
        let (rate, arrivals) = match rate.strip_suffix(":constant") {
            Some(rate) => (rate, Some(Arrivals::Constant)),
            None => (rate.as_str(), None),
        };
        let load =
            Load { rate_rps: rate.parse()?, arrivals, warm_up_s: 0.1, window_s: seconds.parse()?, seed: seed as u64 };
        let report = requester.trial(&load)?;
        let ms = |quantile: f64| report.counts.times.quantile_s(quantile).unwrap_or_default() * 1e3;
        println!(
            "{rate} due {} answered {} late {} loss {:.5} p50 {:.3} ms p99 {:.3} ms, requester busy {:.3}, late by p99 {:.3} ms",
            report.counts.requests,
            report.counts.answers,
            report.counts.late_answers,
            1.0 - report.counts.answers as f64 / report.counts.requests.max(1) as f64,
            ms(0.5),
            ms(0.99),
            report.busy,
            report.lateness.quantile_s(0.99).unwrap_or_default() * 1e3,
        );
    }
    Ok(())
}
