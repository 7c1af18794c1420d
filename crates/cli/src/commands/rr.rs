//! `netcliff rr`.

use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use netcliff_core::Provenance;
use netcliff_lab::rig::{Place, RigOptions};
use netcliff_lab::rr::{self, Receive, Report, RrError, RrRecord, Settings};
use netcliff_report as report;
use netcliff_wire::WireError;
use netcliff_wire::control::Limits;
use netcliff_wire::control::client::Session;
use netcliff_wire::control::key::Key;
use netcliff_wire::control::stream::Stream;

use super::{command_line, enter_user_namespace, now_unix_s, stop_on_signal};
use crate::args::{Arrivals, BusyPoll, RrArgs, Testbed, Transport};
use crate::output;

/// ssh itself decides how long it tries; once connected, the agent answers at once.
const SSH_HANDSHAKE_S: f64 = 60.0;

/// Measures and shows.
pub fn run(args: &RrArgs) -> anyhow::Result<ExitCode> {
    let settings = settings(args);
    settings.check().map_err(output::usage)?;
    let local = args.to.is_none() && args.ssh.is_none();
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
        ..RigOptions::default()
    };
    rr::here(settings, &options, args.cpu_meter.preference(), stop).map_err(explain)
}

fn there(args: &RrArgs, settings: &Settings, stop: &AtomicBool) -> anyhow::Result<Report> {
    if args.transport == Transport::Unix {
        return Err(output::usage("--transport unix has both ends on this host: leave out --to and --ssh"));
    }
    let version = env!("CARGO_PKG_VERSION");
    let (mut session, mut ssh) = match (&args.to, &args.ssh) {
        (Some(target), _) => {
            let key = args.key.as_deref().map(Key::read).transpose().map_err(output::usage)?;
            (Session::connect(target, key.as_ref(), version, Limits::default())?, None)
        }
        (None, host) => {
            let (stream, child) = ssh(host.as_deref().unwrap_or_default())?;
            let limits = Limits { handshake_s: SSH_HANDSHAKE_S, ..Limits::default() };
            (Session::over(stream, None, None, version, limits)?, Some(child))
        }
    };
    let address = data_address(args, &session)?;
    let measured = rr::there(settings, &mut session, address, args.cpu_meter.preference(), stop).map_err(explain);
    // The far end leaves when its pipes close.
    drop(session);
    if let Some(child) = &mut ssh {
        child.wait().context("cannot wait for ssh")?;
    }
    measured
}

/// Starts an agent by ssh, its pipes as the control channel.
fn ssh(host: &str) -> anyhow::Result<(Stream, Child)> {
    if host.starts_with('-') || host.is_empty() {
        return Err(output::usage(format!("--ssh {host:?}: expected a host as ssh takes it, such as root@db1")));
    }
    let mut command = std::process::Command::new("ssh");
    command.args(["-T", "-o", "BatchMode=yes", host, "netcliff", "agent", "--stdio"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot run ssh; is it installed?")?;
    let pipes = child.stdout.take().zip(child.stdin.take()).context("ssh has no pipes")?;
    let stream = Stream::of(pipes.0.into(), pipes.1.into(), format!("netcliff on {host}"))?;
    Ok((stream, child))
}

fn data_address(args: &RrArgs, session: &Session) -> anyhow::Result<IpAddr> {
    let named = args.data_to.as_deref().or(args.ssh.as_deref().map(|host| host.rsplit('@').next().unwrap_or(host)));
    match (named, session.address) {
        (None, Some(address)) => Ok(address),
        (named, _) => {
            let name = named.unwrap_or_default();
            let found = (name, 0).to_socket_addrs().ok().and_then(|mut found| found.next());
            let hint = "give the address the data shall go to by --data-to";
            Ok(found.with_context(|| format!("{name} has no address here; {hint}"))?.ip())
        }
    }
}

/// What is the user's to change is wrong usage.
fn explain(error: RrError) -> anyhow::Error {
    match error {
        RrError::Wire(WireError::Setting { .. }) => output::usage(error),
        other => other.into(),
    }
}
