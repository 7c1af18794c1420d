//! `netcliff predict` and `netcliff simulate`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use netcliff_core::{Engine, EngineFailure, Load, Point, Provenance, Record, Traffic};
use netcliff_lab::inputs;
use netcliff_lab::store::Store;
use netcliff_model::ModelEngine;
use netcliff_report as report;
use netcliff_sim::{Effort, SimEngine};

use super::{command_line, now_unix_s, open_store};
use crate::args::{ComputeArgs, PredictArgs, SimulateArgs, StoreArgs};
use crate::output;

/// Most arrivals a load when a precision is asked for.
const PACKETS_AT_MOST: u64 = 200_000_000;

/// On paper.
pub fn predict(args: &PredictArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let engine = ModelEngine::new(args.fidelity);
    let settings = [("fidelity".to_owned(), args.fidelity.to_string())];
    answer(&engine, "predict", &args.compute, None, settings.into(), store)
}

/// In simulation.
pub fn simulate(args: &SimulateArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let effort = match args.precision {
        Some(share) => Effort::Precision { relative: share.0, packets_at_most: PACKETS_AT_MOST },
        None => Effort::Packets(args.packets),
    };
    let engine = SimEngine { seed: args.seed, effort, confidence: args.confidence.0, ..SimEngine::default() };
    let effort = match args.precision {
        Some(share) => ("precision".to_owned(), share.to_string()),
        None => ("packets".to_owned(), args.packets.to_string()),
    };
    answer(&engine, "simulate", &args.compute, Some(args.seed), [effort].into(), store)
}

fn answer(
    engine: &dyn Engine,
    kind: &str,
    args: &ComputeArgs,
    seed: Option<u64>,
    settings: BTreeMap<String, String>,
    store_args: &StoreArgs,
) -> anyhow::Result<ExitCode> {
    let points = points(args)?;
    let store = if args.save || store_args.db.is_some() { Some(open_store(store_args)?) } else { None };
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        command: command_line(),
        started_unix_s: now_unix_s(),
        settings,
        ..Provenance::default()
    };
    let run = store.as_ref().map(|s| s.begin(kind, &provenance.command, provenance.started_unix_s)).transpose()?;
    let kept = store.as_ref().zip(run);
    let answered = evaluate(engine, points, &provenance, kept, args.json);
    if let Some((store, run)) = kept {
        // A run that failed is over as well; its failure is what must be told.
        let finished = store.finish(run, answered.is_err(), None);
        if answered.is_ok() {
            finished?;
        }
    }
    let records = answered?;
    match (args.json, args.csv) {
        (true, _) => {}
        (_, true) => output::data(&report::csv::records(&records))?,
        _ => output::data(&report::table::outcomes(&records, output::style()))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Every point in turn: kept as it is answered, and printed at once as JSON or else given back.
fn evaluate(
    engine: &dyn Engine,
    points: Vec<Point>,
    provenance: &Provenance,
    kept: Option<(&Store, i64)>,
    json: bool,
) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    for point in points {
        let started = std::time::Instant::now();
        let outcome = engine.evaluate(&point).map_err(explain)?;
        let elapsed_s = Some(started.elapsed().as_secs_f64());
        let provenance = Provenance { elapsed_s, ..provenance.clone() };
        let record = Record { point, engine: engine.kind(), outcome, provenance };
        if let Some((store, run)) = kept {
            store.add(run, &record)?;
        }
        if json {
            output::json_line(&record)?;
        } else {
            records.push(record);
        }
    }
    Ok(records)
}

/// A point that cannot be, or that the engine does not answer, is wrong usage.
fn explain(error: EngineFailure) -> anyhow::Error {
    match error {
        EngineFailure::Invalid(_) | EngineFailure::Unsupported(_) => output::usage(error),
        other => other.into(),
    }
}

fn points(args: &ComputeArgs) -> anyhow::Result<Vec<Point>> {
    let mut host = inputs::host(&args.host).map_err(output::usage)?;
    for assignment in &args.set {
        host.set(assignment).map_err(output::usage)?;
    }
    let size = inputs::frame_sizes(&args.size).map_err(output::usage)?;
    let loads: Vec<Load> = args.rate.into_iter().chain(args.rates.iter().flat_map(|rates| rates.0.clone())).collect();
    let point = |rate: Load| {
        let traffic = Traffic { arrivals: args.arrivals.clone(), size: size.clone(), rate, link_bps: args.link };
        let point = Point { host: host.clone(), scheme: args.scheme.clone(), traffic };
        point.validate().map(|()| point)
    };
    loads.into_iter().map(|load| point(load).map_err(output::usage)).collect()
}
