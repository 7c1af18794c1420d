//! `netcliff agent`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use anyhow::Context;
use clap::Parser;
use netcliff_find::far::FindKind;
use netcliff_host::journal::StateDir;
use netcliff_packets::error::ControlError;
use netcliff_packets::generator::RateLimits;
use netcliff_packets::thread::Priority;
use netcliff_remote::common_clock::ClockService;
use netcliff_remote::control::Limits;
use netcliff_remote::control::PORT;
use netcliff_remote::control::activation;
use netcliff_remote::control::agent::{Agent, Event, Log, Settings, give_back_to_the_kernel, serve_pipes};
use netcliff_remote::control::far::{Kind, Service};
use netcliff_remote::control::key::Key;
use netcliff_remote::control::stream::Stream;
use netcliff_remote::device::DeviceService;
use netcliff_remote::fingerprint::FingerprintService;
use netcliff_remote::ground::GroundService;
use netcliff_remote::load::{LoadKind, Permission};
use netcliff_transfer::bulk::{Congestion, TransferKind};
use netcliff_transfer::exchange::RrKind;

use super::metrics::{self, Counts};
use super::{refuse_low_rate, stop_on_signal};
use crate::args::{AgentArgs, Cli, Command, FarArgs, StoreArgs};
use crate::output;

/// The tests an agent can run.
fn kinds(args: &AgentArgs) -> Vec<Arc<dyn Kind>> {
    let congestion = match args.stdio {
        true => Congestion::Any,
        false => Congestion::Also(args.allow_congestion.clone()),
    };
    let permission = match args.stdio {
        true => Permission::Any,
        false => Permission::Interfaces(args.allow_find.clone()),
    };
    let settings = match args.stdio {
        true => Permission::Any,
        false => Permission::Interfaces(args.allow_settings.iter().cloned().collect()),
    };
    let mut kinds: Vec<Arc<dyn Kind>> = vec![
        Arc::new(RrKind),
        Arc::new(TransferKind { congestion }),
        Arc::new(LoadKind {
            permission: permission.clone(),
            netns: None,
            limits: RateLimits::of(args.max_rate),
            priority: Priority::default(),
        }),
        Arc::new(FindKind { permission, settings, most_pps: args.max_rate }),
    ];
    #[cfg(target_os = "linux")]
    kinds.push(Arc::new(netcliff_service::far::MeterKind));
    kinds
}

/// Services that the agent offers its clients in addition to tests.
fn services(args: &AgentArgs) -> anyhow::Result<Vec<Arc<dyn Service>>> {
    if let Some(interface) = args.allow_find.first().filter(|_| args.key.is_none()) {
        return Err(output::usage(format!(
            "--allow-find {interface}: without --key every user of this host could send by it; give --key FILE"
        )));
    }
    let mut services: Vec<Arc<dyn Service>> =
        vec![Arc::new(ClockService), Arc::new(FingerprintService), Arc::new(GroundService)];
    let Some(device) = &args.allow_settings else { return Ok(services) };
    if args.key.is_none() && !args.stdio {
        return Err(output::usage(format!(
            "--allow-settings {device}: without --key every user of this host could change it; give --key FILE, or run by --stdio"
        )));
    }
    let service = DeviceService::new(device, StateDir::default_for_user()?)?;
    service.left_over().iter().for_each(|line| output::say(format!("netcliff: {line}")));
    services.push(Arc::new(service));
    Ok(services)
}

/// Serves clients until it is stopped, or writes a key.
pub fn run(args: &AgentArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.make_key {
        Key::make(path)?;
        output::say(format!(
            "netcliff: a new key is in {}; copy it to the other host over an encrypted channel, such as scp",
            path.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    if args.stdio && (std::io::stdin().is_terminal() || std::io::stdout().is_terminal()) {
        return Err(output::usage(
            "--stdio talks to a program, not a terminal: use `netcliff rr --ssh HOST` or `netcliff stream --ssh HOST`",
        ));
    }
    if args.stdio {
        serve_one(args, &std::io::stdin(), &std::io::stdout())?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = settings(args)?;
    let (counts, stop) = (Counts::default(), Arc::clone(&settings.stop));
    let agent = listen(args, settings, &counts)?;
    for address in agent.addresses()? {
        output::say(format!("netcliff: agent listens on {address}"));
    }
    let metrics = args.metrics.metrics;
    let scrapes = metrics.map(|address| metrics::scrapes(address, &[], None, store, Some(counts))).transpose()?;
    std::thread::scope(|scope| {
        if let Some(scrapes) = &scrapes {
            scope.spawn(|| scrapes.run(&stop));
        }
        let ended = agent.run();
        // If the server ended by itself, close the other port too.
        stop.store(true, Ordering::Relaxed);
        ended
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the agent for `stream -s` and `rr -s`: without a key on this host only, with a key on every address.
pub fn serve(far: &FarArgs, store: &StoreArgs) -> anyhow::Result<ExitCode> {
    let port = far.port.unwrap_or(PORT);
    let mut words = vec![OsString::from("netcliff"), "agent".into()];
    match &far.key {
        Some(key) => words.extend(["--key".into(), key.into(), "--listen".into(), format!("0.0.0.0:{port}").into()]),
        None => {
            if far.port.is_some() {
                words.extend(["--listen".into(), format!("127.0.0.1:{port}").into()]);
            }
            output::say(format!(
                "netcliff: without a key only clients of this user on this host are admitted. For other hosts paste:\n  \
                 netcliff agent --make-key netcliff.key   # once; copy it to the client by scp\n  \
                 netcliff agent --listen 0.0.0.0:{port} --key netcliff.key"
            ));
        }
    }
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Command::Agent(args)) => run(&args, store),
        Ok(_) => Err(anyhow::anyhow!("`agent` was not read as a command")),
        Err(error) => Err(output::usage(error)),
    }
}

fn settings(args: &AgentArgs) -> anyhow::Result<Settings> {
    refuse_low_rate(args.max_rate)?;
    give_back_to_the_kernel();
    let usual = Limits::default();
    Ok(Settings {
        key: args.key.as_deref().map(Key::read).transpose().map_err(output::usage)?,
        limits: Limits {
            connections: args.clients as usize,
            test_s: args.longest,
            silence_s: args.silence,
            memory_bytes: args.memory.unwrap_or(usual.memory_bytes),
            ..usual
        },
        kinds: kinds(args),
        services: services(args)?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        stop: stop_on_signal()?,
    })
}

/// Serves one client over two descriptors.
pub(super) fn serve_one(args: &AgentArgs, read: &impl AsFd, write: &impl AsFd) -> anyhow::Result<()> {
    let settings = settings(args)?;
    let taken = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().context("cannot use stdin and stdout");
    let (read, write) = (taken(read.as_fd())?, taken(write.as_fd())?);
    let stream = Stream::of(read, write, "the client").context("cannot use stdin and stdout")?;
    // ssh shows stderr to the client's user: only errors belong there.
    let silent: Log = Arc::new(|_: &Event<'_>| ());
    Ok(serve_pipes(stream, args.data_at, &settings, &silent)?)
}

/// Returns the log, which prints events and counts them. `most`: largest number of clients served at once.
fn log(counts: &Counts, most: u32) -> Log {
    let counts = Arc::clone(counts);
    Arc::new(move |event: &Event<'_>| {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Refused(_) => counts.refused += 1,
            // Count clients here, because two that come or leave at once may be reported in either order.
            Event::Came { .. } => {
                counts.clients += 1;
                counts.most_clients = counts.most_clients.max(counts.clients);
            }
            Event::Left => counts.clients = counts.clients.saturating_sub(1),
            Event::Started { kind, .. } => *counts.started.entry((*kind).to_owned()).or_default() += 1,
            Event::Ended { .. } => counts.ended += 1,
        }
        drop(counts);
        if let Some(line) = log_line(event, most) {
            output::say(format!("netcliff: {line}"));
        }
    })
}

/// Listens on the sockets that systemd passes, otherwise at the addresses of `--listen`.
fn listen(args: &AgentArgs, settings: Settings, counts: &Counts) -> anyhow::Result<Agent> {
    let log = log(counts, args.clients);
    let activated = activation::listeners().map_err(output::usage)?;
    let bound = if !activated.is_empty() {
        if let Some(address) = args.listen.first() {
            return Err(output::usage(format!(
                "--listen {address}: systemd has passed sockets; leave --listen out, and set ListenStream= of netcliff-agent.socket"
            )));
        }
        Agent::of(activated, settings, log)
    } else if args.listen.is_empty() {
        let usual = [SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), SocketAddr::from((Ipv6Addr::LOCALHOST, PORT))];
        match Agent::bind(&usual, settings.clone(), Arc::clone(&log)) {
            // A host may have no IPv6. If the error has another reason, IPv4 alone fails too.
            Err(_) => Agent::bind(&usual[..1], settings, log),
            bound => bound,
        }
    } else {
        Agent::bind(&args.listen, settings, log)
    };
    bound.map_err(|error| match error {
        ControlError::Unprotected { .. } => output::usage(error),
        other => other.into(),
    })
}

/// The log line of an event: with one client, about its tests; with several, about their number too. `None` if the
/// event is not logged.
fn log_line(event: &Event<'_>, most: u32) -> Option<String> {
    Some(match event {
        Event::Came { clients: 1, .. } | Event::Left => return None,
        Event::Came { peer, clients } => format!("{peer} is one of {clients} clients (--clients {most})"),
        Event::Refused(error) => format!("refused: {error}"),
        Event::Started { peer, kind } => format!("{peer} started {kind}"),
        Event::Ended { peer, kind, early: None, .. } => format!("{peer} ended {kind}"),
        Event::Ended { peer, kind, early: Some(why), counted } => {
            let counted = counted.map_or_else(String::new, |counted| format!("; until then {counted}"));
            format!("{kind} of {peer} ended early: {why}{counted}")
        }
    })
}
