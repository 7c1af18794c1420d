//! `netcliff stream`.

mod checks;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use netcliff_core::stream::{StreamReport, StreamWarning};
use netcliff_packets::thread;
use netcliff_report as report;
use netcliff_report::terminal::live::StreamLines;
use netcliff_transfer::bulk::{Channel, DatagramPath, Direction, ReceivePath, SendPath, Settings, SocketOptions};
use netcliff_transfer::stream::{
    self, Agent, Burst, Far, Live, LiveEvent, Path, ProbeOptions, ProbeTransport, StreamOptions,
};
use netcliff_trial::rig::{Place, Rig, RigError, RigOptions};
use serde_json::json;

use super::far::{FarEnding, FarSession};
use super::live::Lines;
use super::{
    command_line, enter_user_namespace, first_cpu, now_unix_s, open_store, refuse_name, refused, several,
    stop_on_signal,
};
use crate::args::{
    Carrier, Cpus, FarArgs, PacedBy, PathName, ProbeBy, ReceiveName, StoreArgs, StreamArgs, Testbed, Way,
};
use crate::live;
use crate::output;

/// Longest interval between readings of TCP_INFO (s).
const TCP_INFO_S: f64 = 0.1;
/// Largest burst that is sent as a single block (bytes).
const BURST_BLOCK_BYTES: usize = 1 << 20;
/// Interval of lines of --live without --interval (s).
const LIVE_S: f64 = 1.0;
/// Gap between requests, during a transfer and around it (s). Requests and answers take some 0.4 % of a CPU
/// (`stream --probe`, /proc/PID/task/*/schedstat of its threads).
const PROBE_EVERY_S: f64 = 0.02;
/// Duration of the requests before each transfer, and again after it (s): fifty requests each time.
const PROBE_AROUND_S: f64 = 1.0;
/// Size of a temporary file if no size is given (bytes).
const FILE_BYTES: u64 = 64 << 20;
/// MTU of the testbed if none is given.
const ETHERNET_MTU_BYTES: u32 = 1500;

/// Measures a sweep of transfers and prints the results.
pub fn run(args: &StreamArgs, store_args: &StoreArgs) -> anyhow::Result<ExitCode> {
    if args.server {
        return super::agent::serve(&args.far, store_args);
    }
    live::start(args.live, args.json, "stream")?;
    args.wait.begin();
    refuse_name(store_args, args.save, "add --save")?;
    args.far.check()?;
    // Before any thread is started: a process with threads cannot enter a user namespace.
    let own_namespace = if args.testbed.is_some() { enter_user_namespace() } else { None };
    let stop = stop_on_signal()?;
    let mut options = options(args, Arc::clone(&stop))?;
    options.check().map_err(|error| refused::explained(error, refused::STREAM))?;
    // A testbed of this host has the lock itself.
    let has_lock = args.testbed.is_some_and(|testbed| testbed.here().is_some());
    let (lock, other_runs) = if has_lock { (None, Vec::new()) } else { args.wait.hold()? };
    let mut agents = agents(args)?;
    let one = args.far.is_asked() && agents.is_empty();
    let mut agent = match args.model() {
        Some(model) => Some(FarSession::in_guest(&args.guest.of(model), args.bed.of_guest())?),
        None if one => Some(FarSession::open(&args.far)?),
        None => None,
    };
    if let Some(guest) = agent.as_ref().and_then(FarSession::guest) {
        options.guest = Some(guest.vm.describe());
        options.template.near.netns = Some(guest.vm.netns());
        options.template.near.cpu = options.template.near.cpu.or(guest.vm.near_cpu());
        // The guest has one CPU.
        options.template.far.cpu = options.template.far.cpu.or(Some(0));
    }
    let there = agent.as_ref().map(|agent| agent.address).or(agents.first().map(|agent| agent.address));
    if let (Some(there), Channel::Tcp { address, .. } | Channel::Udp { address, .. }) =
        (there, &mut options.template.channel)
    {
        *address = there;
        if args.block.is_none() && args.burst.is_none() {
            // Datagrams to an IPv6 address have a smaller default size, so that each of them fits a frame.
            options.blocks_bytes = vec![args.method.default_block_bytes(&options.template.channel)];
        }
    }
    // The requests are a separate test, and a session runs one test at a time.
    let mut asker = None;
    if let Some(probe) = options.probe.as_mut().filter(|_| one) {
        let (session, ending) = FarSession::open(&args.far)?.split();
        probe.far = Some(Arc::new(Mutex::new(session)));
        asker = Some(ending);
    }
    let rig = rig(args, &stop)?;
    let store = if args.save { Some(open_store(store_args)?) } else { None };
    let run_id = store.as_ref().map(|s| s.begin("stream", &options.command, options.started_unix_s)).transpose()?;
    let kept = store.as_ref().zip(run_id);
    let mut far = match &mut agent {
        None if !agents.is_empty() => Far::Agents(&mut agents),
        None => Far::Here,
        Some(agent) => Far::Agent { session: &mut agent.session, address: agent.address },
    };
    let lines = lines(args, &mut options)?;
    let mut said = |stage: &str| output::say(format!("netcliff: {stage}"));
    let mut profiles = super::profile::Profiles::new(args.profile, super::profile::Sampled::default())?;
    profiles.begin("the whole stream");
    let found = match &rig {
        Some(rig) => stream::in_testbed(&options, rig, &mut said),
        None => stream::run_with(&options, &mut far, &mut said),
    };
    profiles.end();
    let limits = agent.as_ref().and_then(FarSession::guest).map_or_else(Vec::new, |guest| guest.limits.to_vec());
    let found = found.map_err(|error| {
        let error = refused::explained(error, refused::STREAM);
        match &mut agent {
            Some(agent) => agent.of_run(error),
            None => error,
        }
    });
    agent.map_or(Ok(()), FarSession::close)?;
    drop(agents);
    // The sender of reports must be dropped first.
    drop(options);
    asker.map_or(Ok(()), FarEnding::close)?;
    lines.into_iter().for_each(Lines::end);
    // Restore the host first, because the reader of the page may take any time.
    drop(rig);
    drop(lock);
    if let (Err(_), Some((store, run))) = (&found, kept) {
        // Nothing was measured. An error here is ignored, because the run's own error is more important.
        let _ = store.remove(&[run]);
    }
    let mut found = found?;
    found.warnings.extend(own_namespace.map(StreamWarning::Other));
    // Sentences of the host's lock: other runs are among them.
    found.warnings.extend(other_runs.into_iter().map(StreamWarning::from));
    found.warnings.extend(limits.into_iter().map(StreamWarning::Other));
    // An error of the store must not prevent the output, and an error of the output must not prevent the storing.
    let kept = kept.map_or(Ok(()), |(store, run)| -> anyhow::Result<()> {
        store.set_fingerprint(run, &found.fingerprint)?;
        store.finish_document(run, found.partial, &found)?;
        output::say(format!("netcliff: stored as run {run}"));
        Ok(())
    });
    show(args, &found)?;
    profiles.show(args.json, store.as_ref())?;
    kept?;
    Ok(ExitCode::from(u8::from(found.partial)))
}

/// Connects to each agent, if there are several. Empty if there is one far end.
fn agents(args: &StreamArgs) -> anyhow::Result<Vec<Agent>> {
    let open = |far: FarArgs| {
        let name = far.to.concat();
        let opened = FarSession::open(&far).with_context(|| format!("--to {name}"))?;
        let address = opened.address;
        let (session, _) = opened.split();
        Ok(Agent { name, session, address })
    };
    args.far.several().into_iter().map(open).collect()
}

/// The testbed that the options name.
fn rig(args: &StreamArgs, stop: &Arc<AtomicBool>) -> anyhow::Result<Option<Rig>> {
    let place = match args.testbed.and_then(Testbed::here) {
        None => return Ok(None),
        // A channel without a network needs no testbed.
        Some(_) if matches!(args.carrier(), Carrier::Unix | Carrier::Pipe) => Place::Loopback,
        Some(place) => place,
    };
    let options = RigOptions {
        place,
        sender_cpu: args.cpu.as_ref().and_then(|(sender, _)| first_cpu(sender.list())),
        host_cpu: args.cpu.as_ref().and_then(|(_, receiver)| first_cpu(receiver.list())),
        link: args.bed.options(Some(ETHERNET_MTU_BYTES), args.ipv6),
        ..RigOptions::default()
    };
    Rig::build(&options, Arc::clone(stop)).map(Some).map_err(|error| match error {
        RigError::NoSuchCpu { .. } => output::usage(format!("--cpu: {error}")),
        other => other.into(),
    })
}

/// Starts lines of intervals, if the options ask for them.
fn lines(args: &StreamArgs, options: &mut StreamOptions) -> anyhow::Result<Option<Lines>> {
    let asked_s = args.interval.and_then(|interval| interval.0);
    if args.live {
        let (to, lines) = Lines::start(args.json, |event| {
            live_line(event);
            String::new()
        })?;
        options.live = Some(Live { every: Duration::from_secs_f64(asked_s.unwrap_or(LIVE_S)), to });
        return Ok(Some(lines));
    }
    let Some(interval_s) = asked_s else { return Ok(None) };
    let mut text = StreamLines::new(args.carrier() == Carrier::Udp);
    let (to, lines) = Lines::start(args.json, move |event| text.lines(event))?;
    options.live = Some(Live { every: Duration::from_secs_f64(interval_s), to });
    Ok(Some(lines))
}

/// Prints a report of a running sweep as an event of `--live`.
fn live_line(event: &LiveEvent) {
    match event {
        LiveEvent::Repeat { path, block_bytes, repeat } => {
            live::tell("repeat", || json!({"path": path, "block_bytes": block_bytes, "repeat": repeat}));
        }
        LiveEvent::Passed(passed) => live::tell("interval", || {
            let rate = |bytes: Option<u64>| bytes.map(|bytes| passed.rate_bps(bytes));
            json!({
                "from_s": passed.from_s, "to_s": passed.to_s, "sent_bytes": passed.sent_bytes,
                "received_bytes": passed.received_bytes, "sent_bps": rate(passed.sent_bytes),
                "received_bps": rate(passed.received_bytes), "retransmissions": passed.retransmissions,
                "rtt_s": passed.rtt_s,
            })
        }),
    }
}

fn show(args: &StreamArgs, found: &StreamReport) -> anyhow::Result<()> {
    if args.live && !args.json {
        return live::result(found, found.partial);
    }
    if args.json {
        return output::json_line(found);
    }
    let page = if args.verbose { report::terminal::stream } else { report::terminal::stream_brief };
    output::page(&page(found, output::style()))
}

fn options(args: &StreamArgs, stop: Arc<AtomicBool>) -> anyhow::Result<StreamOptions> {
    let paths = paths(args)?;
    let address = args.address.unwrap_or(if args.ipv6 {
        IpAddr::V6(Ipv6Addr::LOCALHOST)
    } else {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    });
    let channel = match args.carrier() {
        Carrier::Tcp => Channel::Tcp { address, multipath: false },
        Carrier::Mptcp => Channel::Tcp { address, multipath: true },
        Carrier::Udp => Channel::Udp { address, path: DatagramPath::Single },
        Carrier::Unix => Channel::Unix,
        Carrier::Pipe => Channel::Pipe,
    };
    let mut template = Settings::new(channel);
    template.options = SocketOptions {
        no_delay: args.nodelay,
        congestion: args.congestion.clone(),
        send_buffer_bytes: args.send_buffer.or(args.window),
        receive_buffer_bytes: args.receive_buffer.or(args.window),
        mss_bytes: args.mss,
        tos: args.tos,
        pacing_bps: args.pace_bps(),
        paced_by_sender: args.paced_by == Some(PacedBy::Sender),
        page_aligned: false,
    };
    (template.flows, template.threads) = (args.flows, args.threads);
    template.receive = match args.receive {
        ReceiveName::Read => ReceivePath::Read,
        ReceiveName::Trunc => ReceivePath::Truncate,
        ReceiveName::Zerocopy => ReceivePath::Mapped,
        ReceiveName::Uring => ReceivePath::Uring,
    };
    template.low_water_bytes = checks::low_water(args)?;
    template.interval_s =
        Some(args.interval.and_then(|interval| interval.0).map_or(TCP_INFO_S, |interval_s| interval_s.min(TCP_INFO_S)));
    template.stall_s = args.stall;
    let direction = direction(args);
    template.direction = direction.unwrap_or_default();
    checks::all(args, direction, &template, &paths)?;
    place(args, &mut template)?;
    if let Some((bytes, every_s)) = args.burst.zip(args.every) {
        let every_ns = Duration::from_secs_f64(every_s).as_nanos().try_into().unwrap_or(u64::MAX);
        template.burst = Some(Burst { bytes, every_ns });
    }
    let given = args.block.as_ref().map(|blocks| blocks.0.clone());
    let burst = args.burst.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes <= BURST_BLOCK_BYTES);
    let usual = || burst.unwrap_or_else(|| args.method.default_block_bytes(&template.channel));
    let blocks_bytes = given.unwrap_or_else(|| vec![usual()]);
    Ok(StreamOptions {
        template,
        method: args.method,
        blocks_bytes,
        read_bytes: args.read.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        paths,
        repeats: args.repeats.repeats()?,
        warm_up_s: args.warmup,
        time_s: args.time,
        bytes: args.bytes,
        link_bps: args.link,
        cpu: args.cpu_meter.preference(),
        probe: args.probe.map(|by| ProbeOptions {
            transport: match by {
                ProbeBy::Udp => ProbeTransport::Udp,
                ProbeBy::Tcp => ProbeTransport::Tcp,
            },
            every_s: args.probe_every.unwrap_or(PROBE_EVERY_S),
            around_s: args.probe_around.unwrap_or(PROBE_AROUND_S),
            far: None,
        }),
        ledger: true,
        guest: None,
        live: None,
        stop,
        command: command_line(),
        started_unix_s: now_unix_s(),
    })
}

/// The direction of the data. `None` if the options do not give one.
fn direction(args: &StreamArgs) -> Option<Direction> {
    match (args.direction, args.reverse, args.bidir) {
        (Some(Way::Receive), ..) | (_, true, _) => Some(Direction::Receive),
        (Some(Way::Both), ..) | (.., true) => Some(Direction::Both),
        (Some(Way::Send), ..) => Some(Direction::Send),
        (None, ..) => None,
    }
}

fn paths(args: &StreamArgs) -> anyhow::Result<Vec<Path>> {
    let udp = args.carrier() == Carrier::Udp;
    let default = if udp { PathName::Single } else { PathName::Write };
    let names = if args.path.is_empty() { vec![default] } else { args.path.clone() };
    names.into_iter().map(|name| path(args, name, udp)).collect()
}

fn path(args: &StreamArgs, name: PathName, udp: bool) -> anyhow::Result<Path> {
    let path = match name {
        PathName::Write => Path::Stream(SendPath::Write),
        PathName::Writev => Path::Stream(SendPath::WriteV),
        PathName::Ktls => Path::Stream(SendPath::Ktls),
        PathName::Splice => Path::Stream(SendPath::Splice),
        PathName::Zerocopy => Path::Stream(SendPath::ZeroCopy),
        PathName::Uring => Path::Stream(SendPath::Uring { zero_copy: false }),
        PathName::UringZc => Path::Stream(SendPath::Uring { zero_copy: true }),
        PathName::Sendfile => Path::Stream(match args.file.clone() {
            Some(file) => SendPath::SendFile { file, cold: args.cold },
            None => SendPath::SendOwnFile { bytes: args.file_size.unwrap_or(FILE_BYTES), cold: args.cold },
        }),
        PathName::Single => Path::Datagram(DatagramPath::Single),
        PathName::Batch => Path::Datagram(DatagramPath::Batch),
        PathName::Gso => Path::Datagram(DatagramPath::Segmented),
        PathName::GsoTx => Path::Datagram(DatagramPath::SegmentedOut),
        PathName::GroRx => Path::Datagram(DatagramPath::SegmentedIn),
    };
    if matches!(path, Path::Datagram(_)) != udp {
        let accepted = if udp {
            "single, batch, gso, gso-tx or gro-rx"
        } else {
            "write, writev, sendfile, splice, ktls, zerocopy, uring or uring-zc"
        };
        return Err(output::usage(format!("--path {}: this channel has {accepted}", path.name())));
    }
    Ok(path)
}

/// Sets the CPUs and namespaces of both ends.
fn place(args: &StreamArgs, template: &mut Settings) -> anyhow::Result<()> {
    let direction = args.method.direction().unwrap_or(template.direction);
    let usual = || usual_cpus(args, direction).map(|(sender, receiver)| (Cpus::List(sender), Cpus::List(receiver)));
    if let Some((sender, receiver)) = &args.cpu.clone().or_else(usual) {
        let far_sends = direction == Direction::Receive;
        let (near, far) = if far_sends { (receiver, sender) } else { (sender, receiver) };
        (template.near_rx, template.far_rx) = (near.rx(), far.rx());
        let (near, far) = (near.list(), far.list());
        (template.near.cpu, template.far.cpu) = (near.first().copied(), far.first().copied());
        (template.near_cpus, template.far_cpus) = (several(near), several(far));
    }
    match &args.namespaces[..] {
        [] => Ok(()),
        [near, far] => {
            (template.near.netns, template.far.netns) = (Some(namespace(near)), Some(namespace(far)));
            Ok(())
        }
        names => Err(output::usage(format!("--namespaces has {} names: expected NEAR,FAR", names.len()))),
    }
}

/// Default CPUs if both ends are on this host, so that repeats do not differ by the scheduler's choices: sender and
/// receiver on the two CPUs that are farthest apart. `None` for the methods of other tools, which leave it to the
/// scheduler; for both directions, where each end has two threads that would share a CPU; and in a testbed, which has
/// its own CPUs.
fn usual_cpus(args: &StreamArgs, direction: Direction) -> Option<(Vec<usize>, Vec<usize>)> {
    let elsewhere = args.far.is_asked() || args.testbed.is_some();
    if elsewhere || args.method != stream::Method::Default || direction == Direction::Both {
        return None;
    }
    let cpus = thread::allowed_cpus();
    let (first, last) = cpus.split_at(cpus.len() / 2);
    match args.flows {
        _ if first.is_empty() => None,
        1 => Some((first[..1].to_vec(), last[last.len() - 1..].to_vec())),
        _ => Some((first.to_vec(), last.to_vec())),
    }
}

fn namespace(name: &str) -> PathBuf {
    if name.contains('/') { name.into() } else { PathBuf::from("/run/netns").join(name) }
}
