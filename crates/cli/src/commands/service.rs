//! `netcliff find --service` and `find --to`.

use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use netcliff_core::ServiceFinding;
use netcliff_core::service::ServiceTrial;
use netcliff_find::Idle;
use netcliff_report as report;
use netcliff_report::Style;
use netcliff_report::drawing::Drawing;
use netcliff_service::bench::Observer;
use netcliff_service::check::Check;
use netcliff_service::error::FindError;
use netcliff_service::find::{Options, Target, find};
use serde_json::json;

use super::far::{FarSession, LOADED_S};
use super::results::show::PAGE_COLUMNS;
use super::{enter_user_namespace, now_unix_s, open_store, refuse_name, refuse_unwritable_files};
use super::{stop_on_signal, warn_of_load, write};
use crate::args::{FindArgs, StoreArgs, Testbed};
use crate::live;
use crate::output;

/// Measures the service and prints the result.
pub fn run(args: &FindArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    live::start(args.live, args.json, "find")?;
    args.wait.begin();
    refuse_name(store_args, !args.no_store, "leave --no-store out")?;
    refuse_unwritable_files([args.html.as_deref(), args.svg.as_deref()])?;
    let mut options = options(args)?;
    options.check().map_err(explain)?;
    // Before any thread is started: a process with threads cannot enter a user namespace.
    let own_namespace = if args.service.service.is_some() { enter_user_namespace() } else { None };
    let store = if args.no_store { None } else { Some(open_store(store_args)?) };
    let stop = stop_on_signal()?;
    let mut far = agent(args)?;
    warn_of_load();
    let begun = &options.settings;
    let run_id = store.as_ref().map(|s| s.begin("service", &begun.command, begun.started_unix_s)).transpose()?;
    let kept = store.as_ref().zip(run_id);
    let mut progress = Progress::new();
    let found = find(&options, far.as_mut().map(|far| &mut far.session), stop, &mut progress);
    progress.bar.finish_and_clear();
    if let (Err(_), Some((store, run))) = (&found, kept) {
        // Nothing was measured. An error here is ignored, because the run's own error is more important.
        let _ = store.remove(&[run]);
    }
    let mut finding = found.map_err(explain)?;
    // Results are stored even if ssh fails at its end.
    finding.limits.extend(far.and_then(|far| far.close().err()).map(|error| error.to_string()));
    finding.limits.extend(own_namespace);
    finding.provenance.elapsed_s = Some(now_unix_s() - begun.started_unix_s);
    // A failure of one must not lose the other.
    let kept = kept.map_or(Ok(()), |(store, run)| -> anyhow::Result<()> {
        store.set_fingerprint(run, &finding.fingerprint)?;
        store.finish_document(run, finding.partial.is_some(), &finding)?;
        Ok(())
    });
    show(args, &finding)?;
    kept?;
    for why in finding.missing.iter().chain(&finding.partial).filter(|_| finding.cliff_rps.is_none()) {
        output::say(format!("netcliff: {why}"));
    }
    Ok(ExitCode::from(u8::from(finding.partial.is_some() || finding.cliff_rps.is_none())))
}

fn show(args: &FindArgs, finding: &ServiceFinding) -> anyhow::Result<()> {
    if args.json {
        output::json_line(finding)?;
    } else if args.live {
        live::result(finding, finding.partial.is_some())?;
    } else {
        output::page(&report::terminal::service(finding, output::style()))?;
    }
    let drawing = || Drawing::of_service("response times over the load", finding);
    if let Some(path) = &args.html {
        let text = report::terminal::service(finding, Style { width: PAGE_COLUMNS, ..Style::default() });
        write(path, &report::html::text("find --service", &text, Some(&drawing()), &finding.provenance))?;
    }
    if let Some(path) = &args.svg {
        write(path, &report::svg::experiment(&drawing()))?;
    }
    Ok(())
}

/// Connects to the agent on the service's host. `None` if the user requested no agent.
fn agent(args: &FindArgs) -> anyhow::Result<Option<FarSession>> {
    let (service, with_agent) = (&args.service, args.ssh || args.key.is_some());
    let (Some(to), true) = (service.to, with_agent || service.agent.is_some()) else { return Ok(None) };
    if to.ip().is_loopback() {
        return Err(output::usage(format!(
            "--to {to} is on this host, which needs no agent: leave --agent, --key and --ssh out, or give the address that the other \
             host has"
        )));
    }
    let host = service.agent.clone().unwrap_or_else(|| to.ip().to_string());
    FarSession::of_host(&host, args.ssh, args.key.as_deref(), LOADED_S).map(Some)
}

fn options(args: &FindArgs) -> anyhow::Result<Options> {
    refuse_others(args)?;
    let service = &args.service;
    let target = match (&service.service, service.to) {
        (Some(command), _) => Target::Start(command.clone()),
        (None, Some(to)) => Target::Running(to, service.pid),
        (None, None) => return Err(output::usage("give --service COMMAND or --to ADDRESS:PORT")),
    };
    let request = service.request.clone().ok_or_else(|| output::usage("--request says what the service is asked"))?;
    let Testbed::Here(place) = args.testbed else {
        return Err(output::usage("--testbed vm: a service of your own runs on this host: give netns or loopback"));
    };
    let host_cpu = args.host_cpu.into_iter().collect();
    let checks: Result<Vec<Check>, _> = args.check.iter().map(|text| text.parse()).collect();
    let checks = checks.map_err(output::usage)?;
    Ok(Options {
        settings: args.settings(),
        target,
        request,
        transport: service.transport,
        by: service.by,
        port: service.port,
        connections: service.connections,
        depth: service.depth,
        new_connections: service.new_connections,
        tls: service.tls(),
        quantiles: service.quantiles(),
        timeout_s: service.timeout,
        arrivals: args.arrivals,
        checks,
        cpu: args.cpu_meter.preference(),
        place,
        ipv6: args.ipv6,
        requester_cpu: args.sender_cpu,
        service_cpus: if service.service_cpus.is_empty() { host_cpu } else { service.service_cpus.clone() },
        awake: args.idle == Idle::Awake,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Refuses options of `find` that would be ignored.
fn refuse_others(args: &FindArgs) -> anyhow::Result<()> {
    match args.of_own_receiver() {
        Some(option) => Err(output::usage(format!(
            "{option}: it belongs to netcliff's own receiver, and --service and --to measure another program; leave it out"
        ))),
        None => Ok(()),
    }
}

/// An error that the user can correct on the command line is one of usage. Others are failed measurements.
fn explain(error: FindError) -> anyhow::Error {
    if error.is_usage() { output::usage(error) } else { error.into() }
}

/// Prints stages and trials on stderr. The duration of a search is not known before.
struct Progress {
    bar: ProgressBar,
    stage: String,
}

impl Progress {
    fn new() -> Self {
        let bar = output::bar(1);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar, stage: String::new() }
    }
}

impl Observer for Progress {
    fn stage(&mut self, name: &str) {
        name.clone_into(&mut self.stage);
        live::tell("stage", || json!({"stage": name}));
        self.bar.set_message(name.to_owned());
        if !output::has_bars() {
            output::say_plainly(&format!("netcliff: {name}"));
        }
    }

    fn trial(&mut self, trial: &ServiceTrial) {
        live::tell("trial", || json!({"rate_rps": trial.rate_rps, "trial": trial}));
        let kept = if trial.kept { "kept" } else { "not kept" };
        self.bar.set_message(format!("{}: {:.0} requests/s, {kept}", self.stage, trial.rate_rps));
    }
}
