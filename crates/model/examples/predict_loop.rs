//! The loop with which `bench/python/predict.py` is compared: 1e5 loads by the model, figures stored in columns.

use std::time::Instant;

use netcliff_core::outcome::MEASURES;
use netcliff_core::{Engine, Fidelity, Host, Load, Point};
use netcliff_model::ModelEngine;

const LOADS: usize = 100_000;

#[expect(clippy::print_stdout, reason = "its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    for scheme in ["ideal", "interrupt"] {
        let mut point = Point::poisson(Host::pentium4_2530mhz(), scheme.parse()?, 1e3);
        let engine = ModelEngine::new(Fidelity::Paper);
        let mut took_s: Vec<f64> = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            let mut columns = vec![vec![f64::NAN; LOADS]; MEASURES.len()];
            for at in 0..LOADS {
                point.load = Load::Pps(1e3 + 2.0 * at as f64);
                let outcome = engine.evaluate(&point)?;
                for (column, measure) in columns.iter_mut().zip(MEASURES) {
                    if let Some(figure) = measure.of(&outcome) {
                        column[at] = figure.value;
                    }
                }
            }
            took_s.push(start.elapsed().as_secs_f64());
            std::hint::black_box(&columns);
        }
        let best_s = took_s.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{scheme}: best {best_s:.3} s, all {took_s:.3?}");
    }
    Ok(())
}
