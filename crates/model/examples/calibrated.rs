//! Measures the CPU time that the model needs to evaluate a calibrated host:
//! `calibrated HOST.toml SCHEME loads|sweep|guide|cliff|livelock [LOAD ...]`. `bench/model/run.sh` calls it.

use netcliff_core::note::Note;
use netcliff_core::{Engine, EngineFailure, EngineKind, Fidelity, Host, Outcome, Point, Scheme, Traffic, Unsupported};
use netcliff_model::{ModelEngine, cliff, livelock_index};

/// CPU time of this process so far (s).
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|nanoseconds| nanoseconds.parse::<f64>().ok())
        .map_or(f64::NAN, |all| all * 1e-9)
}

/// A model that prints the loads at which it is evaluated, and its guide (a faster engine that is searched first).
struct Traced(ModelEngine, Option<Box<Traced>>);

impl Traced {
    fn of(engine: ModelEngine) -> Self {
        Self(engine, Some(Box::new(Self(ModelEngine { roughly: true, ..engine }, None))))
    }
}

impl Engine for Traced {
    fn kind(&self) -> EngineKind {
        self.0.kind()
    }

    fn guide(&self, host: &Host) -> Option<&dyn Engine> {
        self.0.guide(host).and(self.1.as_deref()).map(|guide| guide as &dyn Engine)
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.0.supports(point)
    }

    #[expect(clippy::print_stdout, reason = "what a search takes")]
    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        let start = cpu_s();
        let outcome = self.0.answer(point)?;
        let value = |figure: Option<netcliff_core::Figure>| figure.map_or(f64::NAN, |figure| figure.value);
        let (pps, loss, read_pps) = (point.rate_pps(), value(outcome.loss_fraction), value(outcome.throughput_pps));
        let whose = if self.1.is_none() { "guide" } else { "exact" };
        println!("  {whose} {pps:.1?} pps: loss {loss:.9e} read {read_pps:.6} in {:.4} s", cpu_s() - start);
        Ok(outcome)
    }
}

#[expect(clippy::print_stdout, reason = "its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, scheme, what, loads @ ..] = arguments.as_slice() else {
        return Err("HOST.toml SCHEME WHAT [LOAD ...]".into());
    };
    let host = Host::from_toml(path, &std::fs::read_to_string(path)?)?;
    let scheme: Scheme = scheme.parse()?;
    let engine = ModelEngine::new(Fidelity::Exact);
    let traced = Traced::of(engine.without_quantiles());
    // Measure the engine that guides searches.
    let engine = if what == "guide" { ModelEngine { roughly: true, ..engine } } else { engine };
    let point = |pps: f64| Point::poisson(host.clone(), scheme.clone(), pps);
    let start = cpu_s();
    match what.as_str() {
        "cliff" => {
            let found = cliff(&traced, &host, &scheme, &Traffic::default(), 1e-4)?;
            println!("{found:?} {:.4} s", cpu_s() - start);
        }
        "livelock" => {
            let cliff_pps: f64 = loads[0].parse()?;
            let found = livelock_index(&traced, &host, &scheme, &Traffic::default(), cliff_pps)?;
            println!("{found} {:.4} s", cpu_s() - start);
        }
        _ => {
            for load in loads {
                let start = cpu_s();
                let outcome = engine.evaluate(&point(load.parse()?))?;
                let took_s = cpu_s() - start;
                let value = |figure: Option<netcliff_core::Figure>| figure.map_or(f64::NAN, |figure| figure.value);
                println!(
                    "{load} {took_s:.4} s: read {:.12e} loss {:.12e} latency {:.12e} available {:.12e} notes {}",
                    value(outcome.throughput_pps),
                    value(outcome.loss_fraction),
                    value(outcome.latency_s.and_then(|latency| latency.mean)),
                    value(outcome.cpu.and_then(|cpu| cpu.available)),
                    outcome.notes.iter().any(|note| matches!(note, Note::TwoMoments(_))),
                );
            }
        }
    }
    Ok(())
}
