//! Behaviour of every scheme over load with a fixed seed: the snapshot shows the effects of a change. Statistical
//! correctness is tested elsewhere. Renew with `INSTA_UPDATE=always cargo test -p netcliff-sim --test sim snapshot::`.

use std::fmt::Write;

use netcliff_core::{Engine, Figure, Host, Point};
use netcliff_sim::{Effort, SimEngine};

const SCHEMES: [&str; 15] = [
    "ideal",
    "interrupt:drops_interrupt=true",
    "interrupt:drops_interrupt=false",
    "disable-enable:merged=true",
    "disable-enable:merged=false",
    "polling",
    "napi-2007",
    "napi",
    "napi:backlog",
    "napi:threaded",
    "napi:defer_hard_irqs=2,gro_flush_timeout=50us",
    "coalesce:frames=8",
    "coalesce:frames=8,usecs=50us,masked=true",
    "hybrid",
    "dim",
];

fn table(application_s: Option<f64>) -> String {
    let mut text = "scheme, kpps: delivered kpps, loss at ring and socket, mean and p99 us, cpu irq poll protocol application free, \
                    interrupts/s\n"
        .to_owned();
    for scheme in SCHEMES {
        for kpps in [10.0, 100.0, 150.0, 400.0] {
            let host = Host { application_s, context_switch_s: 2e-6, wakeup_s: 1e-6, ..Host::pentium4_2530mhz() };
            let point = Point::poisson(host, scheme.parse().unwrap(), kpps * 1e3);
            // A fixed number of arrivals, so that only changes of the schemes show, not changes of the run length.
            // Beyond the cliff, these latencies are too low.
            let effort = Effort::Exactly(100_000);
            let engine = SimEngine { seed: 2026, effort, ..SimEngine::default() };
            let outcome = engine.evaluate(&point).unwrap();
            let of = |figure: Option<Figure>| figure.map_or(0.0, |figure| figure.value);
            let (latency, cpu, loss) =
                (outcome.latency_s.unwrap_or_default(), outcome.cpu.unwrap(), outcome.loss.unwrap());
            writeln!(
                text,
                "{scheme}, {kpps}: {:.1}, {:.4} {:.4}, {:.1} {:.1}, {:.3} {:.3} {:.3} {:.3} {:.3}, {:.0}",
                of(outcome.throughput_pps) / 1e3,
                of(loss.ring),
                of(loss.socket),
                of(latency.mean) * 1e6,
                of(latency.p99) * 1e6,
                of(cpu.interrupt),
                of(cpu.poll),
                of(cpu.protocol),
                of(cpu.application),
                of(cpu.available),
                of(outcome.interrupts_per_s),
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn schemes_over_load() {
    insta::assert_snapshot!(table(None));
}

#[test]
fn schemes_over_load_with_an_application() {
    insta::assert_snapshot!(table(Some(2e-6)));
}
