//! `netcliff run`.

mod claims;
mod device;
mod formulas;
mod forwarding;
mod kept;
mod show;
mod transfers;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use netcliff_core::experiment::Experiment;
use netcliff_core::{EngineKind, Provenance, Record, units};
use netcliff_host::cpu::Preference;
use netcliff_host::inventory::Inventory;
use netcliff_lab::inputs::{self, experiments};
use netcliff_lab::run::{Answer, Changes, Plan, compute, measure};
use netcliff_lab::store::{Held, RunState, Store};
use netcliff_trial::rig::{Rig, RigOptions};
use netcliff_trial::wire_bench::WireBench;
use serde_json::json;

use super::profile::{Profiles, Sampled};
use super::{
    command_line, enter_user_namespace, now_unix_s, open_store, refuse_unwritable_files, stop_on_signal,
    warn_of_captures,
};
use crate::args::{RunArgs, StoreArgs, Testbed};
use crate::live;
use crate::output;
use crate::progress::Points;

/// Runs an experiment and prints the results.
pub fn run(args: &RunArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        return list(args.json);
    }
    if args.files.len() > 1 {
        return claims::several(args);
    }
    live::start(args.live, args.json, "run")?;
    args.wait.begin();
    let path = args.file().display().to_string();
    let text = inputs::experiment(&path).map_err(output::usage)?;
    let experiment = Experiment::from_toml(&path, &text).map_err(output::usage)?;
    let written = [args.svg.as_deref(), args.html.as_deref(), args.claims.as_deref(), output::csv_file(&args.csv)];
    refuse_unwritable_files(written)?;
    claims::refuse_unreadable(args)?;
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command_line(),
        started_unix_s: now_unix_s(),
        ..Provenance::default()
    };
    if !args.sizes.is_empty() && !matches!(experiment, Experiment::Forwarding(_)) {
        return Err(output::usage(format!(
            "--sizes: {path} is not of forwarding; leave it out, or give an experiment of kind \"forwarding\""
        )));
    }
    if let (Testbed::Vm(model), false) = (args.testbed, matches!(experiment, Experiment::Transfers(_))) {
        return Err(output::usage(format!(
            "--testbed vm:{model}: {path} makes no transfers; leave it out, or give an experiment of kind \"transfer\""
        )));
    }
    if matches!(experiment, Experiment::Mlfrr(_) | Experiment::Roofline(_)) {
        refuse(args, &[("--profile", args.profile)], "is of formulas, which have no load to profile; leave it out")?;
    }
    if !matches!(&experiment, Experiment::Grid(grid) if grid.devices.is_empty()) {
        refuse(args, &[("--points", !args.points.is_empty())], "is no experiment of points; leave it out")?;
    }
    match &experiment {
        Experiment::Transfers(experiment) => transfers::run(args, store_args, experiment, &text, &provenance),
        Experiment::Forwarding(experiment) => forwarding::run(args, store_args, experiment, &text, &provenance),
        _ if args.repeats.is_some() || args.max_repeats.is_some() || args.time.is_some() => {
            Err(output::usage(format!(
                "--repeats, --max-repeats, --time: {path} is of points or formulas; leave it out, or give an experiment of kind \"transfer\""
            )))
        }
        _ if args.far.is_asked() || !args.devices.is_empty() => Err(output::usage(format!(
            "--to, --ssh, --devices: {path} has no second host; leave them out, or give an experiment of kind \"transfer\""
        ))),
        Experiment::Grid(grid) => {
            let changes = Changes {
                engines: args.engine.clone(),
                seed: args.seed,
                precision: args.precision,
                packets: args.packets,
            };
            let plan = Plan::new(&path, &text, grid, &changes).map_err(output::usage)?;
            warn_of_captures(plan.tasks.iter().map(|task| &task.point.traffic));
            points(args, store_args, &text, plan, provenance)
        }
        Experiment::Mlfrr(mlfrr) => {
            let curves = netcliff_lab::run::mlfrr(mlfrr).map_err(output::usage)?;
            formulas::show(args, &experiment, curves, text, provenance)
        }
        Experiment::Roofline(roofline) => {
            let curves = netcliff_lab::run::roofline(roofline).map_err(output::usage)?;
            formulas::show(args, &experiment, curves, text, provenance)
        }
    }
}

/// Lists the experiments that are built into the program: name and title.
fn list(json: bool) -> anyhow::Result<ExitCode> {
    let widest = experiments::KNOWN.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, text) in experiments::KNOWN {
        let experiment = Experiment::from_toml(name, text)?;
        let (title, paper) = (experiment.title(), experiment.paper());
        if json {
            output::json_line(&json!({"name": name, "title": title, "paper": (!paper.is_empty()).then_some(paper)}))?;
        } else {
            output::data(&format!("{name:widest$}  {title}\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses the first flag of `flags` that the user gave. `why` says which kind of experiment the file is.
fn refuse(args: &RunArgs, flags: &[(&str, bool)], why: &str) -> anyhow::Result<()> {
    match flags.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(output::usage(format!("{flag}: {} {why}", args.file().display()))),
    }
}

/// A run in progress.
struct Run<'a> {
    plan: Arc<Plan>,
    /// Tasks to answer.
    chosen: BTreeSet<usize>,
    store: &'a Store,
    held: &'a Held,
    provenance: Provenance,
    stop: Arc<AtomicBool>,
    points: Points,
    /// Records by task: those of the continued run, and new ones.
    records: BTreeMap<usize, Record>,
    /// Tasks without a record, with the reason; the flag is true for a failure.
    passed_over: BTreeMap<usize, (String, bool)>,
    store_failure: Option<String>,
    profiles: Profiles,
}

fn points(
    args: &RunArgs,
    store_args: &StoreArgs,
    text: &str,
    plan: Plan,
    provenance: Provenance,
) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&args.points, plan.tasks.len())?;
    let wanted = |task: &netcliff_core::experiment::Task| {
        task.answerer.engine == EngineKind::Wire && chosen.contains(&task.index)
    };
    let guests = device::guests(args, &plan.grid)?;
    let measures = plan.tasks.iter().any(wanted);
    if args.profile && !(measures && plan.grid.devices.is_empty()) {
        let why = if guests.is_empty() {
            "has no point that is measured here; leave it out, or add `wire` to its engines"
        } else {
            "measures in guests, whose kernels are not sampled; leave it out"
        };
        refuse(args, &[("--profile", true)], why)?;
    }
    if measures || !guests.is_empty() {
        // Before any thread is started: a process with threads cannot enter a user namespace.
        enter_user_namespace().into_iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    }
    let profiles = Profiles::new(args.profile, Sampled::default())?;
    let store = open_store(store_args)?.naming(inputs::experiment_name(args.file()));
    let (held, records) = take_up(args, &store, &plan, &provenance)?;
    let stop = stop_on_signal()?;
    let points = Points::new(plan.tasks.len(), records.len());
    let mut run = Run {
        plan: Arc::new(plan),
        chosen,
        store: &store,
        held: &held,
        provenance,
        stop,
        points,
        records,
        passed_over: BTreeMap::new(),
        store_failure: None,
        profiles,
    };
    if run.plan.grid.devices.is_empty() {
        run.computed(args.threads);
        run.measured();
    } else {
        device::measured(&mut run, &guests);
    }
    run.points.finish();
    let state = run.state();
    let kept = store.set_state(held.run, state);
    let lost = run.store_failure.take().or_else(|| kept.err().map(|error| error.to_string()));
    show::show(args, text, &run, state == RunState::Interrupted)?;
    std::mem::take(&mut run.profiles).show(args.json, Some(&store))?;
    if let Some(why) = &lost {
        output::say(format!("netcliff: {why}"));
    }
    Ok(ExitCode::from(u8::from(lost.is_some() || run.failed() || !run.answered())))
}

/// The tasks to evaluate: those of `--points`, otherwise all `count` tasks.
fn chosen(points: &[u32], count: usize) -> anyhow::Result<BTreeSet<usize>> {
    let asked: BTreeSet<usize> = points.iter().map(|index| *index as usize).collect();
    match asked.last().filter(|index| **index >= count) {
        Some(index) => Err(output::usage(format!(
            "--points {index}: the experiment has {count} points; expected numbers from 0 to {}",
            count.saturating_sub(1)
        ))),
        None if asked.is_empty() => Ok((0..count).collect()),
        None => Ok(asked),
    }
}

/// The run to work on, with the records it has.
fn take_up(
    args: &RunArgs,
    store: &Store,
    plan: &Plan,
    provenance: &Provenance,
) -> anyhow::Result<(Held, BTreeMap<usize, Record>)> {
    if args.resume
        && let Some(held) = kept::unfinished(store, &plan.id)?
    {
        let records = store.task_records(held.run)?;
        kept::goes_on(store, &held, &format!("{} of {} points", records.len(), plan.tasks.len()))?;
        return Ok((held, records));
    }
    let held = store.begin_experiment(&plan.id, &provenance.command, provenance.started_unix_s)?;
    Ok((held, BTreeMap::new()))
}

impl Run<'_> {
    fn open(&self, wire: bool) -> Vec<usize> {
        let open = self.plan.tasks.iter().filter(|task| (task.answerer.engine == EngineKind::Wire) == wire);
        let open = open.map(|task| task.index).filter(|index| !self.records.contains_key(index));
        open.filter(|index| self.chosen.contains(index)).collect()
    }

    /// Whether each requested task has a record or a reason.
    fn answered(&self) -> bool {
        self.chosen.iter().all(|index| self.records.contains_key(index) || self.passed_over.contains_key(index))
    }

    /// Computes the open tasks of model and simulation.
    fn computed(&mut self, threads: Option<u16>) {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = threads.map_or_else(cores, usize::from);
        let (plan, stop, provenance) = (Arc::clone(&self.plan), Arc::clone(&self.stop), self.provenance.clone());
        compute(&plan, self.open(false), threads, &provenance, &stop, |index, answer| self.keep(index, answer));
    }

    /// Measures the open tasks with real packets, one point after the other. Called after the computation, which would
    /// disturb the measurement.
    fn measured(&mut self) {
        let open = self.open(true);
        if open.is_empty() || self.stop.load(Ordering::Relaxed) {
            return;
        }
        let rig = match Rig::build(&RigOptions::default(), Arc::clone(&self.stop)) {
            Ok(rig) => rig,
            Err(error) => {
                let why = format!("there is no testbed: {error}");
                return open.into_iter().for_each(|index| self.keep(index, Answer::Declined(why.clone())));
            }
        };
        rig.limits.iter().for_each(|limit| self.points.say(limit));
        let mut bench = WireBench::new(&rig, Preference::Best, Box::new(|_, _, _| ()));
        let (plan, mut provenance) = (Arc::clone(&self.plan), self.provenance.clone());
        // Points without a fingerprint are still worth keeping.
        if let Ok(fingerprint) = rig.fingerprint(&Inventory::of_this_host()) {
            provenance.fingerprint_id = Some(fingerprint.id());
            if let Err(error) = self.store.set_fingerprint(self.held.run, &fingerprint) {
                self.points.say(&error.to_string());
            }
        }
        for index in &open {
            let task = &plan.tasks[*index];
            let rate = task.point.rate_pps().map(|rate_pps| format!(" at {}", units::print_pps(rate_pps)));
            self.profiles.begin(&format!("{}{}", task.curve, rate.unwrap_or_default()));
            let goes_on = measure(&plan, &[*index], &mut bench, &provenance, |index, answer| {
                self.profiles.end();
                self.keep(index, answer);
            });
            if !goes_on {
                break;
            }
        }
    }

    fn keep(&mut self, index: usize, answer: Answer) {
        live::tell("point", || {
            let (state, record, why) = match &answer {
                Answer::Had(record) => ("done", Some(record), None),
                Answer::Declined(why) => ("declined", None, Some(why)),
                Answer::Failed(why) => ("failed", None, Some(why)),
            };
            json!({"point": index, "points": self.plan.tasks.len(), "state": state, "record": record, "why": why})
        });
        match answer {
            Answer::Had(record) => {
                if let Err(error) = self.store.add_task(self.held.run, index, &record)
                    && self.store_failure.is_none()
                {
                    self.points.say(&format!("{error}; the run goes on; `--resume` works out again what is missing"));
                    self.store_failure = Some(error.to_string());
                }
                self.records.insert(index, *record);
            }
            Answer::Declined(why) => {
                self.passed_over.insert(index, (why, false));
            }
            Answer::Failed(why) => {
                self.passed_over.insert(index, (why, true));
            }
        }
        self.points.one_more();
    }

    fn failed(&self) -> bool {
        self.passed_over.values().any(|(_, failed)| *failed)
    }

    fn state(&self) -> RunState {
        let answered = self.records.len() + self.passed_over.len();
        // Points that the store did not take must be computed again: the run is not done.
        match (answered < self.plan.tasks.len() || self.store_failure.is_some(), self.failed()) {
            (true, _) => RunState::Interrupted,
            (false, true) => RunState::Failed,
            (false, false) => RunState::Done,
        }
    }
}
