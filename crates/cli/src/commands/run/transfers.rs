//! Experiments of real transfers.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::Provenance;
use netcliff_core::experiment::{Experiment, Setting, Transfers};
use netcliff_host::testbed::vm::{Model, VmOptions};
use netcliff_lab::inputs;
use netcliff_lab::store::Store;
use netcliff_report as report;
use netcliff_report::drawing::Drawing;
use netcliff_transfer::bulk::LONGEST_TIME_S;
use netcliff_transfer::experiments::{self, Place, TransferReport, TransfersError};
use netcliff_transfer::guest::GuestLink;
use netcliff_trial::rig::{self, LinkOptions, Rig, RigOptions};

use super::kept::{Kept, Known};
use super::show::files;
use crate::args::{RunArgs, StoreArgs, Testbed};
use crate::commands::far::FarSession;
use crate::commands::profile::{Profiles, Sampled};
use crate::commands::refused;
use crate::commands::{enter_user_namespace, open_store, stop_on_signal, write};
use crate::live;
use crate::output;

/// Measures the experiment, prints the results and stores them.
pub fn run(
    args: &RunArgs,
    store_args: &StoreArgs,
    experiment: &Transfers,
    text: &str,
    provenance: &Provenance,
) -> anyhow::Result<ExitCode> {
    args.far.check_one()?;
    refuse(args)?;
    refuse_numbers(args, experiment)?;
    let experiment = changed(args, experiment);
    experiment.check().map_err(output::usage)?;
    refuse_figure(args, &experiment)?;
    if !args.far.is_asked() && args.testbed != Testbed::Here(rig::Place::Loopback) {
        // Before any thread is started: a process with threads cannot enter a user namespace.
        enter_user_namespace().into_iter().for_each(|limit| output::say(format!("netcliff: {limit}")));
    }
    let stop = stop_on_signal()?;
    let store = open_store(store_args)?.naming(inputs::experiment_name(args.file()));
    let profiles = Profiles::new(args.profile, Sampled::default())?;
    let mut kept = take_up(args, &store, &experiment, text, provenance)?;
    kept.profiles = profiles;
    let found = measured(args, &experiment, text, stop, provenance, &mut kept).inspect_err(|_| kept.failed())?;
    kept.finish(&found, found.partial, &found.fingerprint)?;
    show(args, experiment, &found, text)?;
    kept.show_profiles(args.json)?;
    let whole = kept.release() && !found.partial;
    Ok(ExitCode::from(u8::from(!whole)))
}

fn measured(
    args: &RunArgs,
    experiment: &Transfers,
    text: &str,
    stop: Arc<AtomicBool>,
    provenance: &Provenance,
    kept: &mut Kept<'_, TransferReport>,
) -> anyhow::Result<TransferReport> {
    let path = args.file().display().to_string();
    let file = (path.as_str(), text);
    let (here, far) = (args.testbed.here(), args.far.is_asked());
    if let (Some(place), false) = (here, far) {
        let rig = rig(place, experiment, stop)?;
        return experiments::run(experiment, file, &mut Place::Testbed(&rig), provenance, kept).map_err(explain);
    }
    let mut lock = None;
    let mut agent = match args.testbed {
        Testbed::Vm(model) if !far => {
            let (held, beside) = args.wait.hold()?;
            lock = held;
            beside.into_iter().for_each(|note| output::say(format!("netcliff: {note}")));
            FarSession::in_guest(&guest_of(args, model), GuestLink::default())?
        }
        _ => FarSession::open_changing(&args.far, &args.devices)?,
    };
    let (device, address) = (args.devices.first().cloned(), agent.address);
    let (session, guest) = agent.parts();
    let mut place = Place::Agent { session, address, device, guest, stop };
    let found = experiments::run(experiment, file, &mut place, provenance, kept);
    let found = found.map_err(explain).map_err(|error| agent.of_run(error));
    agent.close()?;
    drop(lock);
    found
}

/// Options of a guest whose link carries unsegmented packets if its driver can: LRO has an effect only then.
fn guest_of(args: &RunArgs, model: Model) -> VmOptions {
    VmOptions { whole_segments: matches!(model, Model::VirtioNet | Model::Vmxnet3), ..args.guest.of(model) }
}

fn rig(place: rig::Place, experiment: &Transfers, stop: Arc<AtomicBool>) -> anyhow::Result<Rig> {
    // Enable IPv6 only if requested, because it sends a few packets by itself.
    let mut varied = experiment.factors().map_err(output::usage)?.into_iter().flat_map(|factor| factor.levels);
    let ipv6 = Setting::Ipv6(true);
    let ipv6 = experiment.fixed().map_err(output::usage)?.contains(&ipv6) || varied.any(|level| level == ipv6);
    let link = LinkOptions { mtu_bytes: Some(1500), steer_sender: true, ipv6, ..LinkOptions::default() };
    Ok(Rig::build(&RigOptions { place, link, ..RigOptions::default() }, stop)?)
}

/// The newest unfinished run of this experiment, with `--resume`, or a new one.
fn take_up<'a>(
    args: &RunArgs,
    store: &'a Store,
    experiment: &Transfers,
    text: &str,
    provenance: &Provenance,
) -> anyhow::Result<Kept<'a, TransferReport>> {
    let far = &args.far;
    // Runs of versions without guests have this form and can be continued.
    let testbed = match args.testbed {
        Testbed::Here(place) => format!("{place:?}"),
        Testbed::Vm(model) => format!("vm:{model} {:?} {:?}", args.guest.vm_kernel, args.guest.vm_qemu),
    };
    let mut place = format!("{testbed} {:?} {:?} {:?}", far.to.first(), far.ssh, far.data_to);
    if !args.devices.is_empty() {
        place += &format!(" {:?}", args.devices);
    }
    let id = experiments::identifier(experiment, text, &place);
    Kept::take_up(store, args.resume, &Known { kind: "transfer", id: &id }, provenance, |before| {
        let rows = before.iter().flat_map(|report: &&TransferReport| &report.rows);
        format!("{} repeats", rows.map(|row| row.samples.len()).sum::<usize>())
    })
}

impl experiments::Watch for Kept<'_, TransferReport> {
    fn said(&mut self, stage: &str) {
        output::say(format!("netcliff: {stage}"));
    }

    fn begins(&mut self, configuration: &str) {
        self.profiles.begin(configuration);
    }

    fn ends(&mut self) {
        self.profiles.end();
    }

    fn had(&mut self, so_far: &TransferReport) {
        self.keep(so_far);
    }

    fn resumed(&mut self) -> Option<TransferReport> {
        self.before()
    }
}

/// Refuses options of experiments with predicted or simulated points, then devices that do not fit the far end.
fn refuse(args: &RunArgs) -> anyhow::Result<()> {
    let flags = [
        ("--engine", !args.engine.is_empty()),
        ("--packets", args.packets.is_some()),
        ("--threads", args.threads.is_some()),
    ];
    let why = "is of real transfers, one at a time; leave it out, or give an experiment of kind \"grid\"";
    super::refuse(args, &flags, why)?;
    refuse_devices(args)
}

/// Why there is no figure to draw.
const NO_FIGURE: &str = "--svg: the file puts nothing along x that still varies (`x` under [figure]), so that there is no figure; --html has the tables";

/// Refuses an empty picture before anything is measured.
fn refuse_figure(args: &RunArgs, experiment: &Transfers) -> anyhow::Result<()> {
    let factors = experiment.factors().map_err(output::usage)?;
    if args.svg.is_some() && experiment.along_x(&factors).is_none() {
        return Err(output::usage(NO_FIGURE));
    }
    Ok(())
}

/// Refuses invalid numbers on the command line. The file's own were checked when it was read.
fn refuse_numbers(args: &RunArgs, experiment: &Transfers) -> anyhow::Result<()> {
    if let Some(time_s) = args.time.filter(|time_s| !(1e-3..=LONGEST_TIME_S).contains(time_s)) {
        let given = netcliff_core::units::print_time_s(time_s);
        return Err(output::usage(format!("--time {given}: expected 0.001 up to {LONGEST_TIME_S} seconds")));
    }
    let options = [
        ("--max-repeats", args.max_repeats.is_some()),
        ("--repeats", args.repeats.is_some()),
        ("--precision", args.precision.is_some()),
    ];
    match (changed(args, experiment).repeats(), options.into_iter().find(|(_, given)| *given)) {
        (Err(said), Some((option, _))) => Err(output::usage(format!("{option}: {said}"))),
        _ => Ok(()),
    }
}

/// Refuses devices that do not fit the far end: one with --to, two with --ssh, none for the testbed, which has its own.
fn refuse_devices(args: &RunArgs) -> anyhow::Result<()> {
    let given = args.devices.join(",");
    match (args.devices.len(), args.far.to.first(), &args.far.ssh) {
        (0, ..) | (1, Some(_), _) | (2, _, Some(_)) => Ok(()),
        (_, None, None) => Err(output::usage(format!(
            "--devices {given}: needs --to or --ssh; in the testbed the devices are its own, and varied anyway"
        ))),
        (_, Some(_), _) => Err(output::usage(format!(
            "--devices {given}: with --to expected this host's device alone; the agent's is its --allow-settings"
        ))),
        (_, _, Some(_)) => Err(output::usage(format!(
            "--devices {given}: with --ssh expected this host's and the far host's device, such as eth0,eth1"
        ))),
    }
}

/// The experiment with the user's changes.
fn changed(args: &RunArgs, experiment: &Transfers) -> Transfers {
    let mut experiment = experiment.clone();
    experiment.repeats = args.repeats.unwrap_or(experiment.repeats);
    experiment.precision = args.precision.or(experiment.precision);
    experiment.max_repeats = args.max_repeats.or(experiment.max_repeats);
    experiment.seed = args.seed.unwrap_or(experiment.seed);
    if let Some(time_s) = args.time {
        experiment.time = netcliff_core::units::print_time_s(time_s);
    }
    experiment
}

fn explain(error: TransfersError) -> anyhow::Error {
    match error {
        TransfersError::File(_) | TransfersError::Name { .. } | TransfersError::NothingLeft(_) => output::usage(error),
        TransfersError::Wire(error) => refused::explained(error, refused::EXPERIMENT),
        TransfersError::Far(error) => refused::by_agent(error, refused::EXPERIMENT).into(),
        other => other.into(),
    }
}

fn show(args: &RunArgs, experiment: Transfers, found: &TransferReport, text: &str) -> anyhow::Result<()> {
    let experiment = Experiment::Transfers(Box::new(experiment));
    let drawing = Drawing::of(&experiment, found.curves(), text.to_owned(), found.provenance.clone());
    let drawing = drawing.map_err(output::usage)?.judged_by(|key| match key {
        "" => found.x.is_none().then(|| found.judged(found.y)),
        key => Some(found.judged(key.parse().ok()?)),
    });
    let missing = found.not_had.clone();
    let drawing = Drawing { asked: found.asked.clone(), partial: found.partial, missing, ..drawing };
    match (args.json, output::to_stdout(&args.csv)) {
        _ if args.live && !args.json => live::result(found, found.partial)?,
        (true, _) => output::json_line(found)?,
        (_, true) => output::data(&report::csv::transfers(found))?,
        _ => {
            if drawing.curves.is_empty() {
                output::page(&report::terminal::transfers(found, output::style()))?;
            } else {
                // The table of configurations has the drawn figure, not those that are drawn together with it.
                let intervals = match found.also.is_empty() {
                    true => "under CONFIGURATIONS below".to_owned(),
                    false => format!("--html or --csv; of {}: under CONFIGURATIONS below", found.y.label()),
                };
                output::page(&report::terminal::experiment_with(&drawing, output::style(), &intervals))?;
                // The page above already has the configuration.
                let rest = TransferReport { asked: Vec::new(), ..found.clone() };
                output::page(&report::terminal::transfers(&rest, output::style()))?;
            }
        }
    }
    output::csv(&args.csv, || Ok(report::csv::transfers(found)))?;
    if args.svg.is_some() && drawing.curves.is_empty() {
        if let Some(path) = &args.html {
            write(path, &report::html::transfers(found, &drawing))?;
        }
        return Err(output::usage(NO_FIGURE));
    }
    files(args, &drawing, "the page", |drawing| report::html::transfers(found, drawing))
}
