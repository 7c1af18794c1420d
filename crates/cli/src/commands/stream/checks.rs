//! Options that exclude each other: each refused with a sentence before anything is measured.

use std::os::unix::fs::FileTypeExt as _;

use netcliff_host::files;
use netcliff_packets::thread;
use netcliff_transfer::bulk::{Channel, Direction, LONGEST_FAR_STALL_S, Settings};
use netcliff_transfer::stream::{LMBENCH2_BLOCK_BYTES, Method, Path};

use netcliff_trial::rig::Place;

use crate::args::{Carrier, Meter, PacedBy, PathName, ReceiveName, StreamArgs, Testbed};
use crate::commands::refused;
use crate::output;

/// Makes all checks. `direction` is the direction of the data, if the user gave one.
pub(super) fn all(
    args: &StreamArgs,
    direction: Option<Direction>,
    template: &Settings,
    paths: &[Path],
) -> anyhow::Result<()> {
    of_channel(args)?;
    of_files(args, paths)?;
    of_link(args)?;
    of_cpus(args)?;
    of_method(args, direction)?;
    of_threads(args, template, paths)?;
    if args.model().is_some() {
        of_guest(args)?;
    }
    if args.between_hosts() { of_agent(args, template) } else { Ok(()) }
}

/// Refuses options that the channel does not have. They are not ignored, because the result would not be that of the
/// given options.
fn of_channel(args: &StreamArgs) -> anyhow::Result<()> {
    let (name, tcp) = match args.carrier() {
        Carrier::Tcp | Carrier::Mptcp => ("tcp", true),
        Carrier::Udp => ("udp", false),
        Carrier::Unix => ("unix", false),
        Carrier::Pipe => ("pipe", false),
    };
    let network = tcp || args.carrier() == Carrier::Udp;
    let socket = args.carrier() != Carrier::Pipe;
    let given = [
        ("--nodelay", args.nodelay && !tcp, "TCP"),
        ("--congestion", args.congestion.is_some() && !tcp, "TCP"),
        ("--mss", args.mss.is_some() && !tcp, "TCP"),
        ("--receive zerocopy", args.receive == ReceiveName::Zerocopy && !tcp, "TCP"),
        ("--receive uring", args.receive == ReceiveName::Uring && !socket, "sockets"),
        ("--paced-by kernel", args.paced_by == Some(PacedBy::Kernel) && !tcp, "TCP"),
        ("--tos", args.tos.is_some() && !network, "TCP and UDP"),
        ("--address", args.address.is_some() && !network, "TCP and UDP"),
        ("--ipv6", args.ipv6 && !network, "TCP and UDP"),
        ("--send-buffer", args.send_buffer.is_some() && !socket, "sockets"),
        ("--receive-buffer", args.receive_buffer.is_some() && !socket, "sockets"),
    ];
    if let Some((option, _, whose)) = given.into_iter().find(|(_, refused, _)| *refused) {
        return Err(output::usage(format!("{option} is for {whose}: --channel {name} does not have it; leave it out")));
    }
    if args.receive == ReceiveName::Uring && args.path.contains(&PathName::Gso) {
        return Err(output::usage(
            "--receive uring with --path gso: UDP_GRO is read by recvmmsg; leave one of them out",
        ));
    }
    if args.congestion.as_ref().is_some_and(String::is_empty) {
        return Err(output::usage("--congestion is empty: expected a name such as cubic or bbr"));
    }
    if args.cpu_meter == Meter::Soaker {
        let instead = "expected best, ebpf or procfs";
        return Err(output::usage(format!(
            "--cpu-meter soaker would compete with the transfer for its CPUs: {instead}"
        )));
    }
    Ok(())
}

/// Refuses a file if no path sends files, and a file that cannot be sent.
fn of_files(args: &StreamArgs, paths: &[Path]) -> anyhow::Result<()> {
    let sends = paths.iter().any(|path| path.name() == "sendfile");
    let given = [("--file", args.file.is_some()), ("--file-size", args.file_size.is_some()), ("--cold", args.cold)];
    if let Some((option, _)) = given.into_iter().find(|(_, given)| *given && !sends) {
        return Err(output::usage(format!("{option} is for what is sent by sendfile: add --path sendfile")));
    }
    let Some(file) = &args.file else { return Ok(()) };
    if std::fs::metadata(file).is_ok_and(|about| about.file_type().is_block_device()) {
        return Ok(());
    }
    let why = match files::open(file).and_then(|file| file.metadata()) {
        Err(error) => error.to_string(),
        Ok(about) if about.len() == 0 => "it is empty".to_owned(),
        Ok(_) => return Ok(()),
    };
    Err(output::usage(format!(
        "--file {}: {why}; expected a regular file that is not empty, or a block device",
        file.display()
    )))
}

/// Refuses settings of a link if there is no link.
fn of_link(args: &StreamArgs) -> anyhow::Result<()> {
    let has_none = match args.testbed {
        None | Some(Testbed::Here(Place::Loopback)) => true,
        Some(Testbed::Here(Place::Best | Place::Netns)) => matches!(args.carrier(), Carrier::Unix | Carrier::Pipe),
        Some(Testbed::Vm(_)) => return args.bed.refuse_of_guest(args.ipv6),
    };
    args.bed.refuse_without(has_none)?;
    if args.ipv6 { args.bed.refuse_with_ipv6() } else { Ok(()) }
}

/// Refuses CPUs that do not exist, also CPUs of a list that would not be used. An agent checks its own CPUs.
fn of_cpus(args: &StreamArgs) -> anyhow::Result<()> {
    let Some((sender, receiver)) = &args.cpu else { return Ok(()) };
    if matches!(args.carrier(), Carrier::Unix | Carrier::Pipe) && (sender.rx().is_some() || receiver.rx().is_some()) {
        return Err(output::usage(
            "--cpu rx: --channel unix and pipe have no packets to follow; give CPUs, such as 0,1",
        ));
    }
    let sends_here = args.method.direction() != Some(Direction::Receive) && !args.reverse;
    let lists = match (args.between_hosts(), sends_here) {
        (false, _) => [sender.list(), receiver.list()].concat(),
        (true, true) => sender.list().to_vec(),
        (true, false) => receiver.list().to_vec(),
    };
    thread::check_cpus(lists).map_err(|error| refused::explained(error, refused::STREAM))
}

/// The receiver's low-water mark, if it can have one.
pub(super) fn low_water(args: &StreamArgs) -> anyhow::Result<Option<u32>> {
    let Some(bytes) = args.low_water else { return Ok(None) };
    if !matches!(args.carrier(), Carrier::Tcp | Carrier::Mptcp) || args.receive != ReceiveName::Read {
        return Err(output::usage("--low-water is for TCP that is received by read: leave it out"));
    }
    if args.method == Method::Acked {
        return Err(output::usage("--low-water: with --method acked the last bytes would wake nobody; leave it out"));
    }
    Ok(Some(u32::try_from(bytes).unwrap_or(u32::MAX)))
}

/// Refuses options that a guest does not have.
fn of_guest(args: &StreamArgs) -> anyhow::Result<()> {
    if args.probe.is_some() {
        return Err(output::usage(
            "--probe sends its requests in a second session, and a guest serves one: leave it out, or give --testbed netns",
        ));
    }
    if args.profile {
        return Err(output::usage(
            "--profile samples this host's kernel, and the guest's is another: leave it out, or give --testbed netns",
        ));
    }
    Ok(())
}

/// Refuses options that need both ends on this host.
fn of_agent(args: &StreamArgs, template: &Settings) -> anyhow::Result<()> {
    if matches!(template.channel, Channel::Unix | Channel::Pipe) {
        let out = if args.model().is_some() { "--testbed vm" } else { "--to and --ssh" };
        return Err(output::usage(format!("--channel unix and pipe have both ends on this host: leave {out} out")));
    }
    if args.far.to.len() > 1 {
        of_several(args)?;
    }
    if args.burst.is_some() && template.direction != Direction::Receive {
        return Err(output::usage("--burst: agents send bursts and this host receives them: add --reverse"));
    }
    if args.file.is_some() && template.direction != Direction::Send {
        return Err(output::usage(
            "--file: an agent opens no files for others; leave it out, and each sender makes a temporary one of --file-size",
        ));
    }
    if args.stall > LONGEST_FAR_STALL_S {
        let given = args.stall;
        return Err(output::usage(format!("--stall {given}s: an agent waits at most {LONGEST_FAR_STALL_S} s")));
    }
    Ok(())
}

/// Refuses options that tests with several agents do not have.
fn of_several(args: &StreamArgs) -> anyhow::Result<()> {
    let names = args.far.to.join(", ");
    if args.method != Method::Default {
        return Err(output::usage(format!("--to {names}: --method {} has one far end; leave it out", args.method)));
    }
    if args.probe.is_some() {
        return Err(output::usage(format!("--to {names}: --probe sends its requests to one far end; give one --to")));
    }
    Ok(())
}

/// Refuses features that a thread with several flows does not have.
fn of_threads(args: &StreamArgs, template: &Settings, paths: &[Path]) -> anyhow::Result<()> {
    let direction = args.method.direction().unwrap_or(template.direction);
    let method = Settings { direction, acknowledged: args.method == Method::Acked, ..template.clone() };
    for path in paths {
        let mut asked = method.clone();
        if let Path::Stream(path) = path {
            asked.path = path.clone();
        }
        if let Some((threads, what)) = asked.cannot_share() {
            return Err(output::usage(format!(
                "--threads {threads}: a thread with --{what} waits for one flow only: leave --threads out, or give every flow its own"
            )));
        }
    }
    Ok(())
}

/// Refuses options that contradict the method of an older tool (`--method`).
fn of_method(args: &StreamArgs, direction: Option<Direction>) -> anyhow::Result<()> {
    let method = args.method;
    if method == Method::Default {
        return Ok(());
    }
    if !matches!(args.carrier(), Carrier::Tcp | Carrier::Mptcp | Carrier::Unix) {
        return Err(output::usage(format!("--method {method} measures TCP or a Unix socket")));
    }
    if direction.is_some() && method.direction() != direction {
        return Err(output::usage(format!(
            "--method {method} says itself who sends: leave --direction, --reverse and --bidir out"
        )));
    }
    if args.nodelay && method.forbids_no_delay() {
        return Err(output::usage(format!("--method {method} cannot set TCP_NODELAY: leave --nodelay out")));
    }
    if method == Method::Lmbench2 && args.block.as_ref().is_some_and(|blocks| blocks.0 != [LMBENCH2_BLOCK_BYTES]) {
        return Err(output::usage("--method lmbench2 has blocks of 64KiB: leave --block out"));
    }
    if args.repeats.precision.is_some() && method == Method::Lmbench3 {
        return Err(output::usage("--method lmbench3 makes all repeats on one connection: leave --precision out"));
    }
    if args.warmup.is_some() && matches!(method, Method::Ttcp | Method::Acked) {
        return Err(output::usage(format!("--method {method} has no warm-up: leave --warmup out")));
    }
    Ok(())
}
