//! `netcliff simulate`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use netcliff_core::Unsupported;
use netcliff_core::{Detail, Difference, Engine, EngineFailure, EngineKind, Outcome, Point, Provenance, Record};
use netcliff_lab::traffic::OfferedTraffic;
use netcliff_report as report;
use netcliff_sim::{Effort, SimEngine, Wanted};

use super::compute::{answer, explain, point, provenance, recorded};
use super::{preset_caution, write};
use crate::args::{SimulateArgs, StoreArgs};
use crate::output;
use crate::progress::ShownSimulation;

/// Runs `netcliff simulate`.
pub fn simulate(args: &SimulateArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let (effort, settings) = effort(args);
    let engine = SimEngine { seed: args.seed, effort, confidence: args.confidence.0, ..SimEngine::default() };
    let provenance = provenance(Some(args.seed), settings);
    if let Some(path) = &args.trace {
        let trace = engine.trace(&one_point(args, store)?, args.trace_packets).map_err(explain)?;
        write(path, &trace.chrome_json())?;
        output::say(format!(
            "{} arrivals, {}, in {}: open it at https://ui.perfetto.dev",
            args.trace_packets,
            report::format::quantity(trace.end_s, report::format::Unit::Seconds),
            path.display()
        ));
    }
    if let Some(dir) = &args.traffic {
        draw_traffic(dir, args, &one_point(args, store)?)?;
    }
    if args.against.is_some() {
        return compare(&engine, args, &provenance, store);
    }
    if args.distributions || args.histogram || args.series.is_some() {
        return in_detail(engine, args, &provenance, store);
    }
    let shown = shown(args);
    answer(&engine.at(&shown), "simulate", &args.compute, &provenance, store)
}

/// Writes the plots of the offered traffic, and prints its Hurst parameter.
fn draw_traffic(dir: &Path, args: &SimulateArgs, point: &Point) -> anyhow::Result<()> {
    point.validate().map_err(output::usage)?;
    let slice_s = args.traffic_slice.unwrap_or_else(|| OfferedTraffic::usual_slice_s(point));
    let offered = OfferedTraffic::of(point, args.seed, slice_s, args.confidence.0).map_err(output::usage)?;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
    let traffic = &point.traffic;
    let origin = format!("{} · {} · {} · seed {}", traffic.arrivals, traffic.size, point.load, args.seed);
    for file in report::svg::traffic(&offered, &origin) {
        write(&dir.join(format!("{}.svg", file.name)), &file.svg)?;
        write(&dir.join(format!("{}.csv", file.name)), &file.csv)?;
    }
    write(&dir.join("traffic.json"), &(serde_json::to_string(&offered)? + "\n"))?;
    output::say(format!("{}; drawn in {}", report::svg::burstiness(&offered), dir.display()));
    Ok(())
}

/// Effort of the simulation, for the engine and for the provenance.
fn effort(args: &SimulateArgs) -> (Effort, BTreeMap<String, String>) {
    let Some(share) = args.precision else {
        return (Effort::Packets(args.packets), [("packets".to_owned(), args.packets.to_string())].into());
    };
    let (figures, packets_at_most) = (args.aims, args.packets_at_most);
    let settings = [
        ("precision", share.to_string()),
        ("precision_for", figures.to_string()),
        ("packets_at_most", packets_at_most.to_string()),
    ];
    let effort = Effort::Precision { relative: share.0, packets_at_most, figures };
    (effort, settings.map(|(key, value)| (key.to_owned(), value)).into())
}

/// The progress display of a simulation.
fn shown(args: &SimulateArgs) -> ShownSimulation {
    match args.precision {
        Some(_) => ShownSimulation::of_at_most(args.packets_at_most),
        None => ShownSimulation::of(args.packets),
    }
}

/// The point of an option that takes a single load.
fn one_point(args: &SimulateArgs, store: &StoreArgs) -> anyhow::Result<Point> {
    point(&args.compute, args.compute.rate, store, EngineKind::Sim)
}

/// The simulator, which also stores details of the outcome.
struct Watched {
    engine: SimEngine,
    wanted: Wanted,
    shown: ShownSimulation,
    seen: Mutex<Detail>,
}

impl Engine for Watched {
    fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.engine.supports(point)
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        let (simulation, detail) = self.engine.simulate_in_detail_at(point, self.wanted, &self.shown)?;
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = detail;
        Ok(simulation.outcome)
    }
}

/// A record with its details, as one object.
#[derive(serde::Serialize)]
struct Detailed<'a> {
    #[serde(flatten)]
    record: &'a Record,
    detail: &'a Detail,
}

/// Prints the outcome with distributions or a series over time.
fn in_detail(
    engine: SimEngine,
    args: &SimulateArgs,
    provenance: &Provenance,
    store: &StoreArgs,
) -> anyhow::Result<ExitCode> {
    let wanted = Wanted { distributions: args.distributions, histogram: args.histogram, slice_s: args.series };
    let engine = Watched { engine, wanted, shown: shown(args), seen: Mutex::default() };
    let records =
        recorded(&engine, "simulate", vec![one_point(args, store)?], &args.compute, provenance, store, false)?;
    let detail = engine.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    output::csv(&args.compute.csv, || Ok(report::csv::series(&detail.series)))?;
    if output::to_stdout(&args.compute.csv) {
        output::data(&report::csv::series(&detail.series))?;
        return Ok(ExitCode::SUCCESS);
    }
    for record in records.iter().filter(|_| args.compute.json) {
        output::json_line(&Detailed { record, detail: &detail })?;
    }
    if !args.compute.json {
        output::data(&preset_caution(args.compute.host.as_deref(), store))?;
        output::page(&report::table::outcomes(&records, output::style()))?;
        output::page(&report::detail::detail(&detail, output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The outcomes of two schemes for the same sequence of packets.
#[derive(serde::Serialize)]
struct Compared<'a> {
    first: &'a Point,
    second: &'a Point,
    differences: &'a [Difference],
    provenance: &'a Provenance,
}

fn compare(
    engine: &SimEngine,
    args: &SimulateArgs,
    provenance: &Provenance,
    store: &StoreArgs,
) -> anyhow::Result<ExitCode> {
    let first = one_point(args, store)?;
    let scheme = args.against.clone().unwrap_or(first.scheme.clone());
    let second = Point { scheme, ..first.clone() };
    second.validate().map_err(output::usage)?;
    let shown = ShownSimulation::of(args.packets.saturating_mul(2));
    let differences = engine.compare(&first, &second, |packets| shown.add(packets)).map_err(explain)?;
    drop(shown);
    if args.compute.json {
        let compared = Compared { first: &first, second: &second, differences: &differences, provenance };
        output::json_line(&compared)?;
    } else {
        output::data(&preset_caution(args.compute.host.as_deref(), store))?;
        output::page(&report::detail::differences(&differences, [&first, &second], output::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}
