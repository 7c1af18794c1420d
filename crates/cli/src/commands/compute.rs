//! `netcliff predict`, and the functions that it shares with `netcliff simulate`.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use netcliff_core::engine::validate;
use netcliff_core::finding::CliffReason;
use netcliff_core::note::Note;
use netcliff_core::traffic::USUAL_LINK_BPS;
use netcliff_core::{
    Analysis, Arrivals, Engine, EngineFailure, EngineKind, Finding, FrameSizes, Host, Load, Napi, Outcome, Point,
    Provenance, Record, Scheme, Traffic, Unsupported,
};
use netcliff_lab::costs::{Costs, Found, Origin};
use netcliff_lab::inputs;
use netcliff_lab::store::Store;
use netcliff_model::{Fidelity, ModelEngine, Question};
use netcliff_report as report;

use super::{command_line, costs, now_unix_s, open_store, preset_caution};
use crate::args::{ComputeArgs, PredictArgs, QueuesArg, StoreArgs};
use crate::output;
use crate::progress::Progressing;

/// Runs `netcliff predict`: computes the requested points by the model.
pub fn predict(args: &PredictArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    netcliff_remote::control::agent::hold_freed();
    let engine = ModelEngine::new(args.fidelity);
    let settings = [("fidelity".to_owned(), args.fidelity.to_string())].into();
    if args.cliff || args.sensitivities {
        return analyse(&engine, args, &provenance(None, settings), store);
    }
    answer(&engine, "predict", &args.compute, &provenance(None, settings), store)
}

/// An engine that shows the number of loads it has evaluated, including those of its guide.
struct Counted<'a> {
    engine: &'a dyn Engine,
    guide: Option<Box<Counted<'a>>>,
    loads: &'a Mutex<Progressing>,
}

impl Engine for Counted<'_> {
    fn kind(&self) -> EngineKind {
        self.engine.kind()
    }

    fn supports(&self, point: &Point) -> Result<(), Unsupported> {
        self.engine.supports(point)
    }

    fn guide(&self, host: &Host) -> Option<&dyn Engine> {
        self.engine.guide(host).and(self.guide.as_deref()).map(|guide| guide as &dyn Engine)
    }

    fn answer(&self, point: &Point) -> Result<Outcome, EngineFailure> {
        let outcome = self.engine.answer(point)?;
        self.loads.lock().unwrap_or_else(PoisonError::into_inner).add(1);
        Ok(outcome)
    }
}

/// Approximate number of loads that a search for a cliff and for the peak evaluates, including those of the guiding
/// engine; and the number that sensitivities add, four for each cost.
const OF_A_CLIFF: usize = 18;
const OF_SENSITIVITIES: usize = 50;

/// A record and its analysis, as one JSON object.
#[derive(serde::Serialize)]
struct Analysed<'a> {
    #[serde(flatten)]
    record: &'a Record,
    #[serde(flatten)]
    analysis: &'a Analysis,
}

/// Prints the cliff and, if requested, the sensitivities, together with the outcome at the point.
fn analyse(
    engine: &ModelEngine,
    args: &PredictArgs,
    provenance: &Provenance,
    store: &StoreArgs,
) -> anyhow::Result<ExitCode> {
    let question = Question { loss: args.loss, sensitivities: args.sensitivities };
    let (host, scheme, origin) = host_and_scheme(&args.compute, store, EngineKind::Model)?;
    let (traffic, rate) = (traffic(&args.compute)?, args.compute.rate);
    let load = rate.map(|rate| inputs::load(&traffic, Some(rate))).transpose().map_err(output::usage)?;
    validate(&host, &scheme, &traffic).map_err(output::usage)?;
    load.map_or(Ok(()), |load| traffic.admits(load, args.compute.link.is_some())).map_err(output::usage)?;
    let loads = OF_A_CLIFF + if args.sensitivities { OF_SENSITIVITIES } else { 0 };
    let loads = Mutex::new(Progressing::loads("searching the cliff", loads));
    let engine_alone = engine.without_quantiles();
    let guide = engine_alone.guide(&host).map(|engine| Box::new(Counted { engine, guide: None, loads: &loads }));
    let counted = Counted { engine: &engine_alone, guide, loads: &loads };
    let (point, analysis) =
        netcliff_model::analyse(&counted, &host, &scheme, &traffic, load, question).map_err(explain)?;
    drop(counted);
    drop(loads);
    let asked = origin.run().map(|found| otherwise(&point, &found.finding, args)).unwrap_or_default();
    let records = recorded(engine, "predict", vec![point], &args.compute, provenance, store, false)?;
    if args.compute.json {
        for record in &records {
            output::json_line(&Analysed { record, analysis: &analysis })?;
        }
    } else {
        let differs = |found: &Found| found.finding.why_cliffs_differ(asked)?.unless_model_has(analysis.cliff_pps);
        if let Some((found, why)) = origin.run().and_then(|found| Some((found, differs(found)?))) {
            output::say(format!("netcliff: {}: {why}", found.name));
        }
        output::data(&preset_caution(args.compute.host.as_deref(), store))?;
        // The cliff is printed first, because the user requested it.
        for record in &records {
            output::page(&report::table::analysed(&analysis, record, load.is_none(), output::style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The differences between the inputs of a prediction with the costs of a `find` and those of the `find` itself.
fn otherwise(point: &Point, finding: &Finding, args: &PredictArgs) -> Vec<CliffReason> {
    let text = |traffic: &Traffic| (traffic.arrivals.to_string(), traffic.size.to_string());
    let (arrivals, size) = text(&point.traffic);
    let other_traffic = text(&finding.setup.traffic) != (arrivals.clone(), size.clone());
    let parts = [
        (!args.compute.set.is_empty()).then(|| CliffReason::Set(args.compute.set.clone())),
        (point.scheme != finding.setup.scheme).then(|| CliffReason::Scheme(point.scheme.clone())),
        other_traffic.then_some(CliffReason::Traffic { arrivals, size }),
        (args.loss != finding.loss_target).then_some(CliffReason::Loss(args.loss)),
        (args.fidelity != Fidelity::Exact).then_some(CliffReason::Fidelity(args.fidelity)),
    ];
    parts.into_iter().flatten().collect()
}

/// Evaluates the points and prints their outcomes to stdout.
pub(super) fn answer(
    engine: &(dyn Engine + Sync),
    kind: &str,
    args: &ComputeArgs,
    provenance: &Provenance,
    store: &StoreArgs,
) -> anyhow::Result<ExitCode> {
    super::refuse_unwritable(output::csv_file(&args.csv))?;
    let records = recorded(engine, kind, points(args, store, engine.kind())?, args, provenance, store, args.json)?;
    output::csv(&args.csv, || Ok(report::csv::records(&records)))?;
    match (args.json, output::to_stdout(&args.csv)) {
        (true, _) => {}
        (_, true) => output::data(&report::csv::records(&records))?,
        _ => {
            output::data(&preset_caution(args.host.as_deref(), store))?;
            output::page(&report::table::outcomes(&records, output::style()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn provenance(seed: Option<u64>, settings: BTreeMap<String, String>) -> Provenance {
    Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        command: command_line(),
        started_unix_s: now_unix_s(),
        settings,
        ..Provenance::default()
    }
}

/// Evaluates the points. Stores their records if requested.
pub(super) fn recorded(
    engine: &(dyn Engine + Sync),
    kind: &str,
    points: Vec<Point>,
    args: &ComputeArgs,
    provenance: &Provenance,
    store_args: &StoreArgs,
    json: bool,
) -> anyhow::Result<Vec<Record>> {
    super::refuse_name(store_args, args.save || store_args.db.is_some(), "add --save")?;
    let store = if args.save || store_args.db.is_some() { Some(open_store(store_args)?) } else { None };
    let run = store.as_ref().map(|s| s.begin(kind, &provenance.command, provenance.started_unix_s)).transpose()?;
    let kept = store.as_ref().zip(run);
    // A page for people has the warnings itself.
    let warns = args.json || output::to_stdout(&args.csv);
    let answered = evaluate(engine, points, provenance, kept, Printed { json, warns });
    if let Some((store, run)) = kept {
        // A run that failed is over as well; its failure is the error to report.
        let finished = store.finish(run, answered.is_err(), None);
        if answered.is_ok() {
            finished?;
        }
    }
    answered
}

/// The answers of the next points, with the time that each took (s). The model answers one point on each CPU at once;
/// other engines use all CPUs for one point.
fn together(
    engine: &(dyn Engine + Sync),
    points: &mut impl Iterator<Item = Point>,
) -> Vec<(Point, Result<Outcome, EngineFailure>, f64)> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let several = if engine.kind() == EngineKind::Model { cpus } else { 1 };
    let answer = |point: Point| {
        let started = std::time::Instant::now();
        let outcome = engine.evaluate(&point);
        (point, outcome, started.elapsed().as_secs_f64())
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = points.by_ref().take(several).map(|point| scope.spawn(move || answer(point))).collect();
        // Pass on a panic of the thread, so that no load is missing without an error.
        let joined =
            |other: std::thread::ScopedJoinHandle<'_, _>| other.join().unwrap_or_else(|panic| resume_unwind(panic));
        others.into_iter().map(joined).collect()
    })
}

/// What is printed while the points are evaluated.
#[derive(Clone, Copy)]
struct Printed {
    /// Records, as JSON.
    json: bool,
    /// Warnings, each once.
    warns: bool,
}

/// Evaluates all points in order. Stores each record at once, and prints it as JSON or returns it.
fn evaluate(
    engine: &(dyn Engine + Sync),
    points: Vec<Point>,
    provenance: &Provenance,
    kept: Option<(&Store, i64)>,
    printed: Printed,
) -> anyhow::Result<Vec<Record>> {
    let (mut records, mut warned) = (Vec::new(), Vec::new());
    let mut loads = Progressing::loads("computing", points.len());
    let mut points = points.into_iter();
    let mut answered = Vec::new().into_iter();
    while let Some((point, outcome, elapsed_s)) = answered.next().or_else(|| {
        answered = together(engine, &mut points).into_iter();
        answered.next()
    }) {
        let outcome = outcome.map_err(explain)?;
        for note in outcome.notes.iter().filter(|note| printed.warns && matches!(note, Note::Warning(_))) {
            if !warned.contains(note) {
                output::say(note);
                warned.push(note.clone());
            }
        }
        let mut provenance = Provenance { elapsed_s: Some(elapsed_s), ..provenance.clone() };
        provenance.settings.extend(point.digests());
        let record = Record { point, engine: engine.kind(), outcome, provenance };
        if let Some((store, run)) = kept {
            store.add(run, &record)?;
        }
        if printed.json {
            output::json_line(&record)?;
        } else {
            records.push(record);
        }
        loads.add(1);
    }
    Ok(records)
}

/// An invalid point, or one that the engine does not support, is wrong usage.
pub(super) fn explain(error: EngineFailure) -> anyhow::Error {
    match error {
        EngineFailure::Invalid(_) | EngineFailure::Unsupported(_) => output::usage(error),
        other => other.into(),
    }
}

/// The point of the command line, or the points of a sweep (`--rates`).
pub fn points(args: &ComputeArgs, store: &StoreArgs, engine: EngineKind) -> anyhow::Result<Vec<Point>> {
    let Some(rates) = &args.rates else {
        return Ok(vec![point(args, args.rate, store, engine)?]);
    };
    // Files are read once.
    let first = point(args, rates.0.first().copied(), store, engine)?;
    let at = |rate: &Load| {
        let point = Point { load: *rate, ..first.clone() };
        checked(args, point)
    };
    rates.0.iter().map(at).collect()
}

/// The point at the load `rate`. If `rate` is `None`, the load of the trace is used.
pub(super) fn point(
    args: &ComputeArgs,
    rate: Option<Load>,
    store: &StoreArgs,
    engine: EngineKind,
) -> anyhow::Result<Point> {
    let (host, scheme, _) = host_and_scheme(args, store, engine)?;
    if rate.is_none() && !traced(args) {
        return Err(output::usage("no offered load: give --rate 100kpps or --rates 10kpps..300kpps:30"));
    }
    let traffic = traffic(args)?;
    let load = inputs::load(&traffic, rate).map_err(output::usage)?;
    checked(args, Point { host, scheme, traffic, load })
}

/// Host and scheme for this engine, with the origin of the host's costs. The simulator has the times of a `find` with
/// their measured variation, as that run's page; the chains of the model assume exponential times.
fn host_and_scheme(
    args: &ComputeArgs,
    store: &StoreArgs,
    engine: EngineKind,
) -> anyhow::Result<(Host, Scheme, Origin)> {
    let for_people = !(args.json || output::to_stdout(&args.csv));
    // The model computes no quantiles of the latency to an application.
    let has_p99 = |host: &Host| engine != EngineKind::Model || host.application_s.is_none();
    let Costs { mut host, origin } = costs(args.host.as_deref(), &args.set, store, for_people, has_p99)?;
    let is_set = args.set.iter().any(|assignment| assignment.split('=').next() == Some("service"));
    let measured = origin.run().filter(|_| !is_set).and_then(Found::times);
    if let Some(times) = measured.as_ref().filter(|times| engine == EngineKind::Model && **times != host.service)
        && for_people
    {
        output::say(format!(
            "netcliff: distribution of CPU times: {} in the model; `netcliff simulate` takes the one that the run measured \
             ({times})",
            host.service
        ));
    }
    if let Some(times) = measured.filter(|_| engine == EngineKind::Sim) {
        if for_people && times != host.service {
            output::say(format!(
                "netcliff: distribution of CPU times: as the run measured it, service={times}; --set service=... names another"
            ));
        }
        host.service = times;
    }
    let scheme = args.scheme.clone().unwrap_or_else(|| {
        let scheme = origin.run().map(|found| found.finding.setup.scheme.clone());
        if scheme.is_some() && for_people {
            output::say("netcliff: the scheme is that of the run; --scheme names another");
        }
        scheme.unwrap_or_else(|| Scheme::Napi(Napi::default()))
    });
    if let Some(QueuesArg(queues)) = &args.queues {
        host.queues = Some(queues.clone());
    }
    Ok((host, scheme, origin))
}

fn traced(args: &ComputeArgs) -> bool {
    matches!(args.arrivals, Arrivals::Trace { .. })
}

/// The traffic, without a load.
fn traffic(args: &ComputeArgs) -> anyhow::Result<Traffic> {
    let usual = if traced(args) { FrameSizes::Trace(None) } else { FrameSizes::Fixed(64) };
    let size = args.size.as_ref().unwrap_or(&usual);
    let link_bps = args.link.unwrap_or(USUAL_LINK_BPS);
    let traffic = inputs::traffic(&args.arrivals, size, link_bps).map_err(output::usage)?;
    let flows = args.flows.as_ref().map(inputs::flows).transpose().map_err(output::usage)?;
    Ok(Traffic { flows, ..traffic })
}

/// Refuses an invalid point, and a load above the link that the user named.
fn checked(args: &ComputeArgs, point: Point) -> anyhow::Result<Point> {
    point.validate().map_err(output::usage)?;
    point.traffic.fits_link(point.load, args.link.is_some()).map(|()| point).map_err(output::usage)
}
