//! `netcliff advise`.

mod trial;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use netcliff_core::advice::Verdict;
use netcliff_core::traffic::USUAL_LINK_BPS;
use netcliff_core::{Advice, EngineFailure, Load, Provenance, Scheme};
use netcliff_host::inspect::Inspection;
use netcliff_host::tune::plan::scheme::{Device, without_coalescing};
use netcliff_lab::advise::{AdviseError, Question, Settings, advise, candidates, offered, overall, with_commands};
use netcliff_lab::costs::{Costs, Found};
use netcliff_lab::inputs;
use netcliff_model::ModelEngine;
use netcliff_report as report;
use netcliff_sim::SimEngine;

use super::{command_line, costs, now_unix_s, preset_caution, warn_of_captures};
use crate::args::{AdviseArgs, StoreArgs};
use crate::output;
use crate::progress::Search;

/// Advises for every load in turn; as JSON each is printed as soon as it is known.
pub fn run(args: &AdviseArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let inspection = inspected(args)?;
    let device = device(args, inspection.as_ref())?;
    if let Some(why) = without_coalescing(device) {
        output::say(format!("netcliff: {why}"));
    }
    let (questions, from) = questions(args, store, device)?;
    warn_of_captures(questions.iter().map(|question| &question.traffic));
    let sim = SimEngine { seed: args.seed, confidence: args.confidence.0, ..SimEngine::default() };
    let mut all = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let started = std::time::Instant::now();
        let mut progress = Search::new((questions.len() > 1).then(|| (index + 1, questions.len())));
        let found = advise(question, &ModelEngine::default(), &sim, &mut progress);
        progress.finish();
        let mut advice = found.map_err(explain)?;
        with_commands(&mut advice, device);
        advice.provenance = provenance(args, started.elapsed().as_secs_f64());
        if args.json && args.try_in.is_none() {
            output::json_line(&advice)?;
        }
        all.push(advice);
    }
    if let Some(model) = args.try_in {
        let tried = all.iter().map(|advice| trial::of(advice, args, model)).collect::<anyhow::Result<Vec<_>>>()?;
        if args.json {
            let each = all.iter().zip(&tried);
            return each
                .clone()
                .try_for_each(|(advice, tried)| output::json_line(&trial::WithTrial { advice, tried }))
                .map(|()| said(&all));
        }
        output::page(&report::terminal::settings_brief(&all, &overall(&all), from.as_deref(), output::style()))?;
        tried.iter().try_for_each(|tried| output::data(&tried.page()))?;
    } else if !args.json {
        let page = if args.verbose { report::terminal::settings } else { report::terminal::settings_brief };
        output::data(&preset_caution(args.host.as_deref(), store))?;
        output::page(&page(&all, &overall(&all), from.as_deref(), output::style()))?;
    }
    Ok(said(&all))
}

/// Returns the exit code. Prints a line to stderr for every load without an advised setting.
fn said(all: &[Advice]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for advice in all {
        let names: Vec<String> = advice.advised.iter().map(Scheme::to_string).collect();
        let load = advice.traffic.rate;
        let said = match advice.verdict {
            Verdict::Picked => continue,
            Verdict::NotDecided => {
                let packets = advice.packets;
                format!("at {load}: not decided between {} after {packets} packets", names.join(" and "))
            }
            Verdict::NoneFeasible => format!("at {load}: no candidate meets the constraints{}", closest(advice)),
        };
        output::say(format!("netcliff: {said}"));
        code = ExitCode::from(1);
    }
    code
}

fn closest(advice: &Advice) -> String {
    let Some(candidate) = advice.advised.first().and_then(|scheme| advice.candidate(scheme)) else {
        return String::new();
    };
    let each = candidate.constraints.iter().map(|judged| {
        let value = candidate.figure(judged.constraint.measure).map_or(f64::NAN, |figure| figure.value);
        let unit = report::format::Unit::of(judged.constraint.measure.dimension);
        format!("{} for {}", report::format::quantity(value, unit), judged.constraint)
    });
    format!("; closest comes {} with {}", candidate.scheme, each.collect::<Vec<_>>().join(" and "))
}

/// Inspects this host. `None` if the options name no device of it.
fn inspected(args: &AdviseArgs) -> anyhow::Result<Option<Inspection>> {
    let look = |_| Inspection::of_this_host(Duration::ZERO).context("cannot ask the kernel for its interfaces");
    args.interface.as_ref().map(look).transpose()
}

/// The device whose settings the advised commands change.
fn device<'a>(args: &AdviseArgs, inspection: Option<&'a Inspection>) -> anyhow::Result<Device<'a>> {
    let Some((name, inspection)) = args.interface.as_ref().zip(inspection) else {
        return Ok(Device::Any(Advice::PLACEHOLDER));
    };
    let port = inspection.port(name);
    port.map(|port| Device::Port(inspection, port))
        .ok_or_else(|| output::usage(format!("--if: there is no interface {name:?}; `ip link` lists them")))
}

/// The question of each load, and the name of the costs if they were measured: `find run 3`.
fn questions(
    args: &AdviseArgs,
    store: &StoreArgs,
    device: Device<'_>,
) -> anyhow::Result<(Vec<Question>, Option<String>)> {
    let loads: Vec<Load> = args.rate.into_iter().chain(args.rates.iter().flat_map(|rates| rates.0.clone())).collect();
    if loads.is_empty() {
        return Err(output::usage("no offered load: give --rate 100kpps or --rates 20kpps..160kpps:8"));
    }
    let costs = costs(args.host.as_deref(), &args.set, store, !args.json, |_| true)?;
    let Costs { host, origin } = costs;
    host.validate().map_err(output::usage)?;
    let (goal, constraints) = args.objective()?;
    let settings = Settings {
        confidence: args.confidence.0,
        indifference: args.zone(&goal).map_err(output::usage)?,
        margin: args.margin,
        first_stage: args.first_stage,
        packets_each: args.packets_each,
        packets_at_most: args.packets_at_most,
    };
    let question = |rate| -> anyhow::Result<Question> {
        let traffic =
            inputs::traffic(&args.arrivals, &args.size, args.link.unwrap_or(USUAL_LINK_BPS)).map_err(output::usage)?;
        let load = inputs::load(&traffic, Some(rate)).map_err(output::usage)?;
        traffic.validate().map_err(output::usage)?;
        traffic.admits(load, args.link.is_some()).map_err(output::usage)?;
        let mut grid = candidates(&host, &traffic);
        if args.try_in.is_some() {
            grid.extend(trial::gaps());
        }
        let candidates = chosen(args, &grid, device)?;
        let constraints = constraints.clone();
        Ok(Question { host: host.clone(), traffic, load, goal, constraints, candidates, settings })
    };
    let questions: Vec<Question> = loads.into_iter().map(question).collect::<anyhow::Result<_>>()?;
    for scheme in &args.scheme {
        scheme.validate(&host).map_err(output::usage)?;
    }
    let from = origin.run().map(|found| measured_costs(found, &args.set, &questions));
    Ok((questions, from))
}

/// Name of a run's costs, with `--set`, and how its data path differs from those of the candidates.
fn measured_costs(found: &Found, set: &[String], questions: &[Question]) -> String {
    let mut text = found.name.to_string();
    if !set.is_empty() {
        text.push_str(&format!(", with {}", set.join(", ")));
    }
    let own = &found.finding.setup.scheme;
    if !questions.iter().any(|question| question.candidates.contains(own)) {
        text.push_str(&format!("; its own scheme, {own}, is not among the candidates"));
    }
    if matches!(own, Scheme::Napi(napi) if napi.backlog) {
        text.push_str("; its frames came through a backlog (veth, RPS): a NIC's driver has other costs");
    }
    text
}

/// The given settings, then the grid's settings of the requested schemes. Settings that the device does not offer are
/// included only with --all-schemes.
fn chosen(args: &AdviseArgs, grid: &[Scheme], device: Device<'_>) -> anyhow::Result<Vec<Scheme>> {
    let whole =
        args.candidates.iter().any(|name| name == "all") || args.candidates.is_empty() && args.scheme.is_empty();
    let mut names: Vec<&str> = grid.iter().map(Scheme::name).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(unknown) = args.candidates.iter().find(|name| *name != "all" && !names.contains(&name.as_str())) {
        let accepted = names.join(", ");
        return Err(output::usage(format!("--candidates {unknown:?}: expected all, or names of {accepted}")));
    }
    let can_be = |scheme: &&Scheme| match args.try_in {
        Some(model) => trial::setting(scheme, model).is_ok(),
        None => args.all_schemes || offered(scheme, device).is_ok(),
    };
    for name in args.candidates.iter().filter(|name| *name != "all") {
        let mut own = grid.iter().filter(|scheme| scheme.name() == name).peekable();
        let why = own.peek().and_then(|scheme| offered(scheme, device).err()).unwrap_or_default();
        if !own.any(|scheme| can_be(&scheme)) {
            return Err(output::usage(format!("--candidates {name}: {why}; --all-schemes looks at it all the same")));
        }
    }
    let named = |scheme: &&Scheme| whole || args.candidates.iter().any(|name| name == scheme.name());
    let mut chosen: Vec<Scheme> = Vec::new();
    for scheme in args.scheme.iter().chain(grid.iter().filter(named).filter(can_be)) {
        if !chosen.contains(scheme) {
            chosen.push(scheme.clone());
        }
    }
    Ok(chosen)
}

fn provenance(args: &AdviseArgs, elapsed_s: f64) -> Provenance {
    Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: Some(args.seed),
        command: command_line(),
        started_unix_s: now_unix_s() - elapsed_s,
        elapsed_s: Some(elapsed_s),
        ..Provenance::default()
    }
}

/// Every error except a failure of an engine is wrong usage.
fn explain(error: AdviseError) -> anyhow::Error {
    match error {
        AdviseError::Engine(
            failure @ (EngineFailure::Interrupted | EngineFailure::Unsound { .. } | EngineFailure::Failed(_)),
        ) => failure.into(),
        other => output::usage(other),
    }
}
