//! `netcliff rr`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use netcliff_core::Provenance;
use netcliff_lab::rig::{Place, RigOptions};
use netcliff_lab::rr::{self, Receive, Report, RrError, RrRecord, Settings};
use netcliff_report as report;
use netcliff_wire::WireError;

use super::far::FarSession;
use super::{command_line, enter_user_namespace, now_unix_s, stop_on_signal};
use crate::args::{Arrivals, BusyPoll, RrArgs, Testbed, Transport};
use crate::output;

/// Measures and shows.
pub fn run(args: &RrArgs) -> anyhow::Result<ExitCode> {
    let settings = settings(args);
    settings.check().map_err(output::usage)?;
    let local = !args.far.is_asked();
    // Before any thread is started: a process with threads cannot enter a user namespace.
    let own_namespace = if local && !matches!(args.testbed, Testbed::Loopback) { enter_user_namespace() } else { None };
    let stop = stop_on_signal()?;
    let started_unix_s = now_unix_s();
    let mut measured = if local { here(args, &settings, &stop) } else { there(args, &settings, &stop) }?;
    measured.notes.extend(own_namespace);
    let record = RrRecord {
        kind: "rr".to_owned(),
        report: measured,
        provenance: Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            seed: settings.rate_per_s.map(|_| settings.seed),
            started_unix_s,
            elapsed_s: Some(now_unix_s() - started_unix_s),
            ..Provenance::default()
        },
    };
    if args.json {
        output::json_line(&record)?;
    } else {
        output::data(&report::terminal::rr(&record, output::style()))?;
    }
    Ok(ExitCode::from(u8::from(record.report.partial.is_some() || record.report.transactions == 0)))
}

fn settings(args: &RrArgs) -> Settings {
    Settings {
        transport: match args.transport {
            Transport::Tcp => rr::Transport::Tcp,
            Transport::Udp => rr::Transport::Udp,
            Transport::Unix => rr::Transport::Unix,
        },
        connect_each: args.crr,
        request_bytes: args.request,
        response_bytes: args.response,
        flows: args.flows,
        depth: args.depth,
        rate_per_s: args.rate,
        arrivals: match args.arrivals {
            Arrivals::Poisson => rr::Arrivals::Poisson,
            Arrivals::Constant => rr::Arrivals::Constant,
        },
        seed: args.seed,
        warm_up_s: args.warm_up,
        time_s: args.time,
        timeout_s: args.timeout,
        receive: match args.busy_poll {
            None => Receive::Block,
            Some(BusyPoll::Spin) => Receive::Spin,
            Some(BusyPoll::Kernel(us)) => Receive::KernelPoll(us),
        },
        client_cpu: args.cpu.map(|(client, _)| client as usize),
        server_cpu: args.cpu.map(|(_, server)| server as usize),
    }
}

fn here(args: &RrArgs, settings: &Settings, stop: &Arc<AtomicBool>) -> anyhow::Result<Report> {
    let options = RigOptions {
        place: match args.testbed {
            // Unix sockets need no network.
            _ if args.transport == Transport::Unix => Place::Loopback,
            Testbed::Best => Place::Best,
            Testbed::Netns => Place::Netns,
            Testbed::Loopback => Place::Loopback,
        },
        sender_cpu: args.cpu.map(|(client, _)| client),
        host_cpu: args.cpu.map(|(_, server)| server),
        link: args.bed.options(None),
        ..RigOptions::default()
    };
    rr::here(settings, &options, args.cpu_meter.preference(), stop).map_err(explain)
}

fn there(args: &RrArgs, settings: &Settings, stop: &AtomicBool) -> anyhow::Result<Report> {
    if args.transport == Transport::Unix {
        return Err(output::usage("--transport unix has both ends on this host: leave out --to and --ssh"));
    }
    let mut far = FarSession::open(&args.far)?;
    let meter = args.cpu_meter.preference();
    let measured = rr::there(settings, &mut far.session, far.address, meter, stop).map_err(explain);
    far.close()?;
    measured
}

/// What is the user's to change is wrong usage.
fn explain(error: RrError) -> anyhow::Error {
    match error {
        RrError::Wire(WireError::Setting { .. }) => output::usage(error),
        other => other.into(),
    }
}
