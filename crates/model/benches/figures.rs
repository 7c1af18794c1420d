//! Speed targets: the whole of the paper's figure 7 (seven schemes, 200 loads, B = 1024) in less than 20 ms on one
//! core, M/D/1/B with a million places in less than 1 s. `cargo bench -p netcliff-model`.

use criterion::{Criterion, criterion_group, criterion_main};
use netcliff_core::{Engine, Host, Point};
use netcliff_model::queue::arrivals::{ArrivalCounts, TimeShape};
use netcliff_model::queue::mg1k::{Mg1k, Setup};
use netcliff_model::{Fidelity, ModelEngine};

/// Figure 7's curves by the paper's formulas. The hybrid scheme replaces NAPI polling, which the paper only simulated.
const PAPER: [&str; 7] = [
    "ideal",
    "interrupt",
    "disable-enable:merged=true",
    "polling:period=20us,quota=3",
    "coalesce:frames=8",
    "coalesce:usecs=50us",
    "hybrid",
];
/// Exact chains for exponential times that are quick; unmasked coalescing by count and polling take longer.
const EXACT: [&str; 6] = [
    "ideal",
    "interrupt",
    "disable-enable",
    "coalesce:frames=8,masked=true",
    "coalesce:usecs=50us,masked=true",
    "coalesce:frames=8,usecs=50us,masked=true",
];

fn points(scheme: &str) -> Vec<Point> {
    let scheme: netcliff_core::Scheme = scheme.parse().expect("a scheme");
    (1..=200).map(|step| Point::poisson(Host::pentium4_2530mhz(), scheme.clone(), 1.5e3 * f64::from(step))).collect()
}

fn curves(schemes: &[&str], fidelity: Fidelity) -> Vec<(ModelEngine, Vec<Point>)> {
    schemes.iter().map(|scheme| (ModelEngine::new(fidelity).without_quantiles(), points(scheme))).collect()
}

fn figure_7(criterion: &mut Criterion) {
    let draw = |(engine, points): &(ModelEngine, Vec<Point>)| -> f64 {
        points
            .iter()
            .map(|point| engine.evaluate(point).expect("an answer").throughput_pps.map_or(0.0, |f| f.value))
            .sum()
    };
    let (paper, exact) = (curves(&PAPER, Fidelity::Paper), curves(&EXACT, Fidelity::Exact));
    criterion.bench_function("figure 7: 7 schemes x 200 loads, B = 1024", |bench| {
        bench.iter(|| paper.iter().map(draw).sum::<f64>());
    });
    for (name, curve) in EXACT.iter().zip(&exact) {
        criterion.bench_function(&format!("exact, 200 loads, B = 1024: {name}"), |bench| bench.iter(|| draw(curve)));
    }
}

fn a_million_places(criterion: &mut Criterion) {
    let places = 1_000_000;
    let mut group = criterion.benchmark_group("M/D/1/B, B = 1e6");
    group.sample_size(10);
    for load in [0.9, 1.0, 1.5] {
        group.bench_function(format!("rho = {load}"), |bench| {
            bench.iter(|| {
                let counts = ArrivalCounts::new(&TimeShape::Deterministic, load, places);
                Mg1k::new(load, 1.0, &counts, places, &Setup::none(load)).loss
            });
        });
    }
    group.finish();
}

criterion_group!(benches, figure_7, a_million_places);
criterion_main!(benches);
