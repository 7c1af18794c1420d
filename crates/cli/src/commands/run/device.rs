//! Points of a real driver: a guest is calibrated, then loaded with each setting, and model and simulator compute the
//! same loads.

use netcliff_core::experiment::{DeviceSection, Grid, Task};
use netcliff_core::finding::{EngineFigure, FigurePath};
use netcliff_core::finding::{SetupCheck, SweepPoint};
use netcliff_core::note::Note;
use netcliff_core::{EngineKind, Finding, Host, Load, Point, Provenance, Record};
use netcliff_find::of::find_of;
use netcliff_find::{CheckSetup, Observer};
use netcliff_host::testbed::vm::VmOptions;
use netcliff_lab::run::Answer;

use super::Run;
use crate::args::RunArgs;
use crate::commands::far::{Guest, Loaded};
use crate::output;

/// The guests of an experiment, one for each device.
///
/// # Errors
/// A testbed or a setting does not exist.
pub fn guests(args: &RunArgs, grid: &Grid) -> anyhow::Result<Vec<VmOptions>> {
    let one = |device: &DeviceSection| {
        let named = |error: netcliff_core::ParseError| {
            output::usage(format!("{}: device {}: {error}", args.file().display(), device.name()))
        };
        let model = device.testbed.strip_prefix("vm:").unwrap_or_default().parse().map_err(named)?;
        device.settings.iter().try_for_each(|setting| setting.parse::<CheckSetup>().map(drop)).map_err(named)?;
        Ok(VmOptions { parameters: device.driver.clone(), ..args.guest.of(model) })
    };
    grid.devices.iter().map(one).collect()
}

/// Measures the devices one after the other: of each device, the settings that have a point without a record.
pub fn measured(run: &mut Run<'_>, guests: &[VmOptions]) {
    for (at, options) in guests.iter().enumerate() {
        let of_it = |task: &&Task| task.device.is_some_and(|(device, _)| device == at);
        let tasks: Vec<Task> = run.plan.tasks.iter().filter(of_it).cloned().collect();
        let open: Vec<Task> = tasks.into_iter().filter(|task| !run.records.contains_key(&task.index)).collect();
        if open.is_empty() || run.stop.load(std::sync::atomic::Ordering::Relaxed) {
            continue;
        }
        let device = run.plan.grid.devices[at].clone();
        run.points.say(&format!("{}: booting its guest", device.name()));
        match found(run, &device, options, &open) {
            Ok(finding) => keep(run, &device, &finding, &open),
            Err(why) => open.iter().for_each(|task| run.keep(task.index, Answer::Failed(format!("{why:#}")))),
        }
    }
}

fn found(run: &Run<'_>, device: &DeviceSection, options: &VmOptions, open: &[Task]) -> anyhow::Result<Finding> {
    let mut guest = Guest::boot(options)?;
    guest.limits.iter().for_each(|limit| run.points.say(limit));
    let near = guest.near_end();
    let options = asked(run, device, open)?.options()?;
    let found = find_of(&mut guest.session, &options, &near, &run.stop, &mut Stages(run));
    found.map_err(|error| guest.of_run(error))
}

fn asked<'a>(run: &'a Run<'_>, device: &DeviceSection, open: &'a [Task]) -> anyhow::Result<Loaded<'a>> {
    let is_open = |place: usize| open.iter().any(|task| task.device.is_some_and(|(_, setting)| setting == place));
    let wanted = device.settings.iter().enumerate().filter(|(place, _)| is_open(*place));
    let checks = wanted.map(|(_, setting)| setting.parse()).collect::<Result<Vec<CheckSetup>, _>>()?;
    let mut loads_pps: Vec<f64> = open.iter().filter_map(|task| task.point.rate_pps()).collect();
    loads_pps.sort_by(f64::total_cmp);
    loads_pps.dedup();
    let (traffic, seed, provenance) = (&open[0].point.traffic, run.plan.seed, &run.provenance);
    Ok(Loaded { checks, loads_pps, traffic, seed, provenance })
}

/// Prints the stages of the run.
struct Stages<'a, 'r>(&'a Run<'r>);

impl Observer for Stages<'_, '_> {
    fn stage(&mut self, name: &str) {
        self.0.points.say(name);
    }

    fn trial(&mut self, _load_pps: f64, _elapsed_s: f64, _planned_s: f64) {}

    fn record(&mut self, _record: &Record) {}
}

fn keep(run: &mut Run<'_>, device: &DeviceSection, finding: &Finding, open: &[Task]) {
    if let Err(error) = run.store.set_fingerprint(run.held.run, &finding.fingerprint) {
        run.points.say(&error.to_string());
    }
    for task in open {
        let setting = task.device.map_or("", |(_, place)| &device.settings[place]);
        let check = finding.checks.iter().find(|check| check.name == setting);
        let point = check.zip(task.point.rate_pps()).and_then(|(check, pps)| {
            Some((check, check.below.iter().find(|p| p.engine == task.answerer.engine && near(p.load_pps, pps))?))
        });
        match point {
            Some((check, point)) => {
                let record = record(run, device, finding, task, (check, point));
                run.keep(task.index, Answer::Had(Box::new(record)));
            }
            // Points that were not reached before a stop stay open.
            None if finding.partial => {}
            None => run.keep(task.index, Answer::Declined(why(finding, task, setting))),
        }
    }
}

fn near(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-9
}

fn record(
    run: &Run<'_>,
    device: &DeviceSection,
    finding: &Finding,
    task: &Task,
    (check, point): (&SetupCheck, &SweepPoint),
) -> Record {
    let mut settings = finding.provenance.settings.clone();
    settings.extend([
        ("experiment".to_owned(), run.plan.id.clone()),
        ("curve".to_owned(), task.curve.clone()),
        ("task".to_owned(), task.index.to_string()),
        ("device".to_owned(), device.name()),
    ]);
    let mut outcome = point.outcome.clone();
    if !point.sender_kept_up {
        outcome.notes.push(Note::BelowLoad);
    }
    outcome.notes.extend(check.notes.iter().cloned().map(Note::from));
    // Two set-ups of a driver can have the same scheme, so the host's name tells which set-up it is.
    let host = Host { name: format!("{}, {}", device.name(), check.name), ..check.host.clone() };
    Record {
        point: Point {
            host,
            scheme: check.scheme.clone(),
            traffic: task.point.traffic.clone(),
            load: Load::Pps(point.load_pps),
        },
        engine: task.answerer.engine,
        outcome,
        provenance: Provenance {
            seed: Some(run.plan.seed),
            fingerprint_id: finding.provenance.fingerprint_id.clone(),
            settings,
            ..run.provenance.clone()
        },
    }
}

/// Why a point is missing, as far as the finding reports it.
fn why(finding: &Finding, task: &Task, setting: &str) -> String {
    let engine = task.answerer.engine;
    let of = |figure| FigurePath::Check(setting.to_owned(), figure);
    let figures = [of(Some((EngineFigure::Cliff, engine))), of(None), FigurePath::Engine(EngineKind::Wire)];
    let said = figures.iter().find_map(|figure| finding.missing.iter().find(|missing| missing.figure == *figure));
    said.map_or_else(|| "the sender never kept up with this load".to_owned(), |missing| missing.why.clone())
}
