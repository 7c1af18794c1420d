//! `netcliff advise`.

use std::process::ExitCode;

use netcliff_core::advice::Verdict;
use netcliff_core::{Advice, EngineFailure, Load, Provenance, Scheme};
use netcliff_lab::advise::{AdviseError, Question, Settings, advise, candidates, overall};
use netcliff_lab::inputs;
use netcliff_model::ModelEngine;
use netcliff_report as report;
use netcliff_sim::SimEngine;

use super::{command_line, costs, now_unix_s};
use crate::args::{AdviseArgs, StoreArgs};
use crate::output;
use crate::progress::Search;

/// Every load in turn; as JSON each is printed as it is known.
pub fn run(args: &AdviseArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let questions = questions(args, store)?;
    let sim = SimEngine { seed: args.seed, confidence: args.confidence.0, ..SimEngine::default() };
    let mut all = Vec::new();
    for (index, question) in questions.iter().enumerate() {
        let started = std::time::Instant::now();
        let mut progress = Search::new((questions.len() > 1).then(|| (index + 1, questions.len())));
        let found = advise(question, &ModelEngine::default(), &sim, &mut progress);
        progress.finish();
        let mut advice = found.map_err(explain)?;
        advice.provenance = provenance(args, started.elapsed().as_secs_f64());
        if args.json {
            output::json_line(&advice)?;
        }
        all.push(advice);
    }
    if !args.json {
        output::data(&report::terminal::settings(&all, &overall(&all), output::style()))?;
    }
    Ok(said(&all))
}

/// The exit code, with a line for every load without a pick.
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
            Verdict::NoneFeasible => format!("at {load}: no candidate keeps the constraints{}", closest(advice)),
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
        let unit = report::drawing::unit_of(judged.constraint.measure.dimension);
        format!("{} for {}", report::format::quantity(value, unit), judged.constraint)
    });
    format!("; closest comes {} with {}", candidate.scheme, each.collect::<Vec<_>>().join(" and "))
}

fn questions(args: &AdviseArgs, store: &StoreArgs) -> anyhow::Result<Vec<Question>> {
    let loads: Vec<Load> = args.rate.into_iter().chain(args.rates.iter().flat_map(|rates| rates.0.clone())).collect();
    if loads.is_empty() {
        return Err(output::usage("no offered load: give --rate 100kpps or --rates 20kpps..160kpps:8"));
    }
    let host = costs(args.host.as_deref(), &args.set, store, !args.json)?;
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
        let traffic = inputs::traffic(&args.arrivals, &args.size, Some(rate), args.link).map_err(output::usage)?;
        traffic.validate().map_err(output::usage)?;
        let candidates = chosen(args, &candidates(&host, &traffic))?;
        let constraints = constraints.clone();
        Ok(Question { host: host.clone(), traffic, goal, constraints, candidates, settings })
    };
    let questions: Vec<Question> = loads.into_iter().map(question).collect::<anyhow::Result<_>>()?;
    for scheme in &args.scheme {
        scheme.validate(&host).map_err(output::usage)?;
    }
    Ok(questions)
}

/// The grid's settings of the schemes asked for, then those that were given.
fn chosen(args: &AdviseArgs, grid: &[Scheme]) -> anyhow::Result<Vec<Scheme>> {
    let whole =
        args.candidates.iter().any(|name| name == "all") || args.candidates.is_empty() && args.scheme.is_empty();
    let mut names: Vec<&str> = grid.iter().map(Scheme::name).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(unknown) = args.candidates.iter().find(|name| *name != "all" && !names.contains(&name.as_str())) {
        let accepted = names.join(", ");
        return Err(output::usage(format!("--candidates {unknown:?}: expected all, or names of {accepted}")));
    }
    let kept = grid.iter().filter(|scheme| whole || args.candidates.iter().any(|name| name == scheme.name()));
    let mut chosen: Vec<Scheme> = Vec::new();
    for scheme in args.scheme.iter().chain(kept) {
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

/// All but a failure of an engine is wrong usage.
fn explain(error: AdviseError) -> anyhow::Error {
    match error {
        AdviseError::Engine(
            failure @ (EngineFailure::Interrupted | EngineFailure::Unsound { .. } | EngineFailure::Failed(_)),
        ) => failure.into(),
        other => output::usage(other),
    }
}
