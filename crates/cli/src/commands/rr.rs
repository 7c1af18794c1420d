//! `netcliff rr`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::Context;
use netcliff_core::Provenance;
use netcliff_host::inventory::Inventory;
use netcliff_packets::schedule::Arrivals;
use netcliff_report as report;
use netcliff_report::terminal::live::RrLines;
use netcliff_transfer::companion::Companion;
use netcliff_transfer::exchange::Transport;
use netcliff_transfer::hosts::Fingerprints;
use netcliff_transfer::rr::{self, Interval, Intervals, Receive, Report, RrError, RrRun, Settings, Sweep};
use netcliff_transfer::stream::Agent;
use netcliff_trial::rig::{Place, Rig, RigOptions};
use serde_json::json;

use super::far::FarSession;
use super::live::Lines;
use super::{
    command_line, enter_user_namespace, first_cpu, now_unix_s, open_store, refuse_name, refused, several,
    stop_on_signal,
};
use crate::args::{BusyPoll, FarArgs, RrArgs, StoreArgs, Testbed};
use crate::live;
use crate::output;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Interval of lines of --live without --interval (s).
const LIVE_S: f64 = 1.0;
/// The shortest interval of lines (s).
const LEAST_INTERVAL_S: f64 = 0.001;
/// Path of the running program, valid also if its file has been replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Measures and prints the results.
pub fn run(args: &RrArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    if args.server {
        return super::agent::serve(&args.far, store_args);
    }
    live::start(args.live, args.json, "rr")?;
    args.wait.begin();
    refuse_name(store_args, args.save, "add --save")?;
    args.far.check()?;
    refuse(args)?;
    let sweep = Sweep {
        template: settings(args),
        flows: args.flows.clone(),
        depths: args.depth.clone(),
        repeats: args.repeats.repeats()?,
    };
    sweep.configurations().map_err(|error| refused::explained(error, refused::RR))?;
    let local = !args.between_hosts();
    // Check all CPUs of the lists, including unused ones, and those of a server on this host, which would be refused
    // only later. An agent checks its own CPUs.
    let cpus = args.cpu.clone().unwrap_or_default();
    let own = if local { [cpus.0, cpus.1].concat() } else { cpus.0 };
    netcliff_packets::thread::check_cpus(own).map_err(|error| refused::explained(error, refused::RR))?;
    // Before any thread is started: a process with threads cannot enter a user namespace.
    let namespaces = !args.far.is_asked() && args.testbed != Testbed::Here(Place::Loopback);
    let own_namespace = if namespaces { enter_user_namespace() } else { None };
    let stop = stop_on_signal()?;
    let store = if args.save { Some(open_store(store_args)?) } else { None };
    let provenance = provenance(&sweep.template);
    let run_id = store.as_ref().map(|s| s.begin("rr", &provenance.command, provenance.started_unix_s)).transpose()?;
    let kept = store.as_ref().zip(run_id);
    let live = Live::start(args)?;
    let mut profiles = super::profile::Profiles::new(args.profile, super::profile::Sampled::default())?;
    profiles.begin("the whole rr");
    let measured = if local {
        here(args, &sweep, provenance, &stop, live.as_ref())
    } else {
        there(args, &sweep, provenance, &stop, live.as_ref())
    };
    profiles.end();
    live.into_iter().for_each(Live::end);
    if let (Err(_), Some((store, run))) = (&measured, kept) {
        // Nothing was measured. An error here is ignored, because the run's own error is more important.
        let _ = store.remove(&[run]);
    }
    let mut found = measured?;
    for row in &mut found.rows {
        row.report.notes.extend(own_namespace.clone());
        row.provenance.elapsed_s = Some(now_unix_s() - row.provenance.started_unix_s);
    }
    // An error of the store must not prevent the output, and an error of the output must not prevent the storing.
    let kept = kept.map_or(Ok(()), |(store, run)| -> anyhow::Result<()> {
        if let Some(fingerprint) = found.rows.first().and_then(|row| row.fingerprint.as_ref()) {
            store.set_fingerprint(run, fingerprint)?;
        }
        store.finish_document(run, found.partial, &found)?;
        output::say(format!("netcliff: stored as run {run}"));
        Ok(())
    });
    show(args, &found)?;
    profiles.show(args.json, store.as_ref())?;
    kept?;
    Ok(ExitCode::from(u8::from(found.partial)))
}

/// A report of a running test.
enum LiveEvent {
    /// A repeat with these settings begins.
    Repeat(Box<Settings>),
    /// An interval of the repeat has ended; with its figures.
    Passed(Interval),
}

/// Prints the lines of a running test.
struct Live {
    every: Duration,
    to: mpsc::Sender<LiveEvent>,
    lines: Lines,
}

impl Live {
    /// Starts the lines if the options request them. `None` otherwise.
    fn start(args: &RrArgs) -> anyhow::Result<Option<Self>> {
        let asked_s = args.interval.and_then(|interval| interval.0);
        if args.live {
            let (to, lines) = Lines::start(args.json, |event: &LiveEvent| {
                live_line(event);
                String::new()
            })?;
            return Ok(Some(Self { every: Duration::from_secs_f64(asked_s.unwrap_or(LIVE_S)), to, lines }));
        }
        let Some(interval_s) = asked_s else { return Ok(None) };
        let mut text = RrLines::default();
        let (to, lines) = Lines::start(args.json, move |event: &LiveEvent| match event {
            LiveEvent::Repeat(settings) => {
                text.repeat(settings);
                String::new()
            }
            LiveEvent::Passed(interval) => text.line(interval),
        })?;
        Ok(Some(Self { every: Duration::from_secs_f64(interval_s), to, lines }))
    }

    fn tell(&self, event: LiveEvent) {
        // If the reader of the lines is gone, reports are dropped.
        let _ = self.to.send(event);
    }

    /// Reports that a repeat begins; returns its intervals.
    fn intervals<'a>(&self, settings: &Settings, passed: &'a (dyn Fn(Interval) + Sync)) -> Intervals<'a> {
        self.tell(LiveEvent::Repeat(Box::new(settings.clone())));
        Intervals { every: self.every, passed }
    }

    fn end(self) {
        drop(self.to);
        self.lines.end();
    }
}

/// Refuses options that would be ignored.
fn refuse(args: &RrArgs) -> anyhow::Result<()> {
    if args.model().is_some() {
        args.bed.refuse_of_guest(args.ipv6)?;
        if args.profile {
            return Err(output::usage(
                "--profile samples this host's kernel, and the guest's is another: leave it out, or give --testbed netns",
            ));
        }
    } else {
        let loopback = args.testbed == Testbed::Here(Place::Loopback);
        args.bed.refuse_without(args.carrier() == Transport::Unix || args.far.is_asked() || loopback)?;
    }
    if args.ipv6 {
        args.bed.refuse_with_ipv6()?;
        if args.carrier() == Transport::Unix {
            return Err(output::usage("--ipv6 is for TCP and UDP: --transport unix does not have it; leave it out"));
        }
    }
    if let Some(interval_s) =
        args.interval.and_then(|interval| interval.0).filter(|interval_s| *interval_s < LEAST_INTERVAL_S)
    {
        return Err(output::usage(format!("--interval {interval_s}s: expected at least 1ms, such as 1")));
    }
    if args.far.to.len() > 1 && args.interval.and_then(|interval| interval.0).is_some() {
        return Err(output::usage(
            "--interval: several agents are reported at the end only; leave it out, or give one --to",
        ));
    }
    if args.rate.is_none() && args.arrivals.is_some() {
        return Err(output::usage("--arrivals is for the gaps of an open loop: add --rate"));
    }
    Ok(())
}

fn provenance(settings: &Settings) -> Provenance {
    Provenance {
        version: VERSION.to_owned(),
        command: command_line(),
        seed: settings.rate_per_s.map(|_| settings.seed),
        started_unix_s: now_unix_s(),
        ..Provenance::default()
    }
}

/// Prints a report of a running test as an event of `--live`.
fn live_line(event: &LiveEvent) {
    match event {
        LiveEvent::Repeat(settings) => {
            live::tell(
                "repeat",
                || json!({"flows": settings.flows, "depth": settings.depth, "rate_per_s": settings.rate_per_s}),
            );
        }
        LiveEvent::Passed(passed) => live::tell("interval", || {
            json!({
                "from_s": passed.from_s, "to_s": passed.to_s, "transactions": passed.transactions,
                "rate_per_s": passed.rate_per_s(), "mean_s": passed.mean_s, "max_s": passed.max_s,
                "timeouts": passed.timeouts,
            })
        }),
    }
}

fn show(args: &RrArgs, found: &RrRun) -> anyhow::Result<()> {
    if args.live && !args.json {
        return live::result(found, found.partial);
    }
    if args.json {
        found.not_had.iter().for_each(|why| output::say(format!("netcliff: not measured: {why}")));
        return found.rows.iter().try_for_each(output::json_line);
    }
    let page = if args.verbose { report::terminal::rr } else { report::terminal::rr_brief };
    output::page(&page(found, output::style()))
}

fn settings(args: &RrArgs) -> Settings {
    let cpus = args.cpu.clone().unwrap_or_default();
    Settings {
        transport: args.carrier(),
        connect_each: args.crr,
        request_bytes: args.request,
        response_bytes: args.response,
        flows: args.flows.first().copied().unwrap_or(1),
        depth: args.depth.first().copied().unwrap_or(1),
        rate_per_s: args.rate,
        arrivals: args.arrivals.unwrap_or(Arrivals::Poisson),
        seed: args.seed,
        warm_up_s: args.warm_up,
        time_s: args.time,
        timeout_s: args.timeout_s(),
        receive: match args.busy_poll {
            None => Receive::Block,
            Some(BusyPoll::Spin) => Receive::Spin,
            Some(BusyPoll::Kernel(us)) => Receive::KernelPoll(us),
        },
        client_cpu: cpus.0.first().copied(),
        server_cpu: cpus.1.first().copied(),
        client_cpus: several(&cpus.0),
        server_cpus: several(&cpus.1),
        far_meter: false,
    }
}

fn here(
    args: &RrArgs,
    sweep: &Sweep,
    provenance: Provenance,
    stop: &Arc<AtomicBool>,
    live: Option<&Live>,
) -> anyhow::Result<RrRun> {
    let options = RigOptions {
        place: match args.testbed.here() {
            // Unix sockets need no network.
            _ if args.carrier() == Transport::Unix => Place::Loopback,
            place => place.unwrap_or_default(),
        },
        sender_cpu: args.cpu.as_ref().and_then(|(client, _)| first_cpu(client)),
        host_cpu: args.cpu.as_ref().and_then(|(_, server)| first_cpu(server)),
        link: args.bed.options(None, args.ipv6),
        ..RigOptions::default()
    };
    let rig = Rig::build(&options, Arc::clone(stop)).map_err(RrError::from)?;
    let meter = args.cpu_meter.preference();
    let fingerprint = rig.fingerprint(&Inventory::of_this_host())?;
    let fingerprints = Fingerprints::here(fingerprint);
    let companion = rr::apart(&sweep.template).then(|| Companion::start(OWN_PROGRAM.as_ref(), VERSION, &rig));
    let mut companion = companion.transpose().map_err(RrError::from)?;
    let passed = |interval| live.iter().for_each(|live| live.tell(LiveEvent::Passed(interval)));
    measured(sweep, provenance, &fingerprints, stop, &mut |settings| {
        let intervals = live.map(|live| live.intervals(settings, &passed));
        rr::here(settings, &rig, meter, companion.as_mut(), intervals)
    })
}

/// Runs the sweep, each repeat by `measure`.
fn measured(
    sweep: &Sweep,
    provenance: Provenance,
    fingerprints: &Fingerprints,
    stop: &AtomicBool,
    measure: &mut dyn FnMut(&Settings) -> Result<Report, RrError>,
) -> anyhow::Result<RrRun> {
    let provenance = Provenance { fingerprint_id: Some(fingerprints.near.id()), ..provenance };
    let mut said = |stage: &str| output::say(format!("netcliff: {stage}"));
    sweep.run(stop, &mut said, measure, &provenance, fingerprints).map_err(explain)
}

fn there(
    args: &RrArgs,
    sweep: &Sweep,
    provenance: Provenance,
    stop: &AtomicBool,
    live: Option<&Live>,
) -> anyhow::Result<RrRun> {
    if args.carrier() == Transport::Unix {
        let out = if args.model().is_some() { "--testbed vm" } else { "--to and --ssh" };
        return Err(output::usage(format!("--transport unix has both ends on this host: leave out {out}")));
    }
    let (_lock, beside) = args.wait.hold()?;
    let agents = args.far.several();
    if !agents.is_empty() {
        return of_several(args, sweep, (provenance, beside), stop, agents);
    }
    let mut far = match args.model() {
        Some(model) => FarSession::in_guest(&args.guest.of(model), args.bed.of_guest())?,
        None => FarSession::open(&args.far)?,
    };
    let (meter, address) = (args.cpu_meter.preference(), far.address);
    let near_cpu = far.guest().and_then(|guest| guest.vm.near_cpu());
    let guest = far.guest().map(|guest| guest.vm.describe()).into_iter();
    let of_guest: Vec<String> = guest.chain(far.guest().iter().flat_map(|guest| guest.limits).cloned()).collect();
    let fingerprints = Fingerprints::with_agent(&mut far.session, address);
    let passed = |interval| live.iter().for_each(|live| live.tell(LiveEvent::Passed(interval)));
    let measured = measured(sweep, provenance, &fingerprints, stop, &mut |settings| {
        let intervals = live.map(|live| live.intervals(settings, &passed));
        let settings = Settings { client_cpu: settings.client_cpu.or(near_cpu), ..settings.clone() };
        rr::there(&settings, (&mut far.session, address), meter, stop, intervals)
    });
    let measured = measured.map_err(|error| far.of_run(error));
    far.close()?;
    let mut found = measured?;
    // In the testbed, the rig reports the limits.
    let limits: Vec<String> =
        Inventory::of_this_host().limits().iter().map(ToString::to_string).chain(beside).chain(of_guest).collect();
    found.rows.iter_mut().for_each(|row| row.report.notes.extend(limits.iter().cloned()));
    Ok(found)
}

/// Measures with several agents, which all start at the same time.
fn of_several(
    args: &RrArgs,
    sweep: &Sweep,
    (provenance, beside): (Provenance, Vec<String>),
    stop: &AtomicBool,
    agents: Vec<FarArgs>,
) -> anyhow::Result<RrRun> {
    let open = |far: FarArgs| {
        let name = far.to.concat();
        let opened = FarSession::open(&far).with_context(|| format!("--to {name}"))?;
        let address = opened.address;
        let (session, _) = opened.split();
        Ok(Agent { name, session, address })
    };
    let mut agents: Vec<Agent> = agents.into_iter().map(open).collect::<anyhow::Result<_>>()?;
    let fingerprints = Fingerprints::with_agents(&agents);
    let meter = args.cpu_meter.preference();
    let mut found = measured(sweep, provenance, &fingerprints, stop, &mut |settings| {
        rr::several(settings, &mut agents, meter, stop)
    })?;
    let limits: Vec<String> =
        Inventory::of_this_host().limits().iter().map(ToString::to_string).chain(beside).collect();
    found.rows.iter_mut().for_each(|row| row.report.notes.extend(limits.iter().cloned()));
    Ok(found)
}

/// An error that the user can fix is wrong usage.
fn explain(error: RrError) -> anyhow::Error {
    match error {
        RrError::Wire(error) => refused::explained(error, refused::RR),
        RrError::Control(error) => refused::by_agent(error, refused::RR).into(),
        other => other.into(),
    }
}
