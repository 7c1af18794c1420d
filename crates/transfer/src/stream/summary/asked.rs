//! The requested configuration, and the values that were in force in the kernel.

use crate::bulk::{Amount, Channel, ReceivePath, SendPath};
use netcliff_core::units;
use netcliff_packets::thread::print_cpus;

use super::super::{Config, Far, MOST_READ_BYTES, Path, StreamOptions};

pub(super) fn asked(options: &StreamOptions, far: &Far<'_>) -> Vec<(String, String)> {
    let settings = &options.template;
    let many =
        if let Far::Agents(agents) = far { format!(" with each of {} agents", agents.len()) } else { String::new() };
    let channel = match &settings.channel {
        Channel::Tcp { address, multipath: false } => format!("TCP to {address}"),
        Channel::Tcp { address, multipath: true } => format!("Multipath TCP to {address}"),
        Channel::Udp { address, .. } => format!("UDP to {address}"),
        Channel::Unix => "Unix socket".to_owned(),
        Channel::Pipe => "pipe".to_owned(),
    };
    let direction = match options.method.direction().unwrap_or(settings.direction) {
        crate::bulk::Direction::Send => "this end sends",
        crate::bulk::Direction::Receive => "far end sends",
        crate::bulk::Direction::Both => "both ends send",
    };
    let follows = |distance: Option<u32>| distance.map(|distance| format!("rx+{distance}"));
    let near = follows(settings.near_rx).unwrap_or_else(|| print_cpus(settings.near.cpu, &settings.near_cpus));
    let far_cpus = follows(settings.far_rx).unwrap_or_else(|| print_cpus(settings.far.cpu, &settings.far_cpus));
    let flows = match (settings.flows, settings.shared_threads()) {
        (flows, Some(threads)) => {
            let s = |number: u32| if number == 1 { "" } else { "s" };
            format!("{flows} flow{} over {threads} thread{} at either end", s(flows), s(threads))
        }
        (1, None) => "1 flow".to_owned(),
        (flows, None) => format!("{flows} flows, a thread each at either end"),
    };
    let there = match far {
        Far::Here => None,
        Far::Agent { session, address } => {
            let host = if far.is_this_host() { "on this host" } else { "on another host" };
            let host = options.guest.clone().unwrap_or_else(|| format!("an agent {host}"));
            Some(format!("{host}, data to {address} (netcliff {})", session.hello.version))
        }
        Far::Agents(agents) => {
            let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
            Some(format!("{} agents, which start together: {}", names.len(), names.join(", ")))
        }
    };
    let far_end = there.map(|there| ("far end".to_owned(), there));
    let facts = [
        ("channel".to_owned(), format!("{channel}, {flows}{many}, {direction}")),
        ("method".to_owned(), format!("{}, {}'s clock", options.method, options.method.clock())),
        ("CPUs".to_owned(), format!("near {near}, far {far_cpus}")),
        ("reads".to_owned(), reads(options)),
        ("repeats".to_owned(), format!("{}, interleaved", options.repeats)),
        ("window".to_owned(), window(options)),
    ];
    facts.into_iter().chain(set(options)).chain(far_end).collect()
}

/// Describes the length of a repeat and its warm-up.
fn window(options: &StreamOptions) -> String {
    let (before, settings) = options.method.settings(options, options.template.clone());
    let amount = match settings.amount {
        Amount::Seconds(seconds) => units::print_time_s(seconds),
        Amount::Bytes(bytes) => units::print_bytes(bytes),
    };
    let before_s = before.map_or(settings.warm_up_s, |before| match before.amount {
        Amount::Seconds(seconds) => seconds,
        Amount::Bytes(_) => 0.0,
    });
    let warm_up = if before_s > 0.0 {
        format!("a warm-up of {}", units::print_time_s(before_s))
    } else {
        "no warm-up".to_owned()
    };
    format!("{amount} after {warm_up}; ended when nothing moves for {}", units::print_time_s(settings.stall_s))
}

/// The options that the user set. `in_force` has the values in force.
fn set(options: &StreamOptions) -> Vec<(String, String)> {
    let requested = &options.template.options;
    let is_udp = matches!(options.template.channel, Channel::Udp { .. });
    let by = if requested.paced_by_sender || is_udp { "the sender" } else { "the kernel" };
    let file = options.paths.iter().find_map(|path| match path {
        Path::Stream(SendPath::SendFile { file, cold }) => Some((file.display().to_string(), *cold)),
        Path::Stream(SendPath::SendOwnFile { bytes, cold }) => {
            Some((format!("a temporary one of {} each sender", units::print_bytes(*bytes)), *cold))
        }
        _ => None,
    });
    let file = file.map(|(file, cold)| if cold { format!("{file}, dropped from the page cache") } else { file });
    let facts = [
        ("pacing", requested.pacing_bps.map(|bps| format!("{} a flow, by {by}", units::print_bps(bps as f64)))),
        (
            "bursts",
            options.template.burst.map(|burst| {
                let (bytes, every) =
                    (units::print_bytes(burst.bytes), units::print_time_s(burst.every_ns as f64 * 1e-9));
                format!("{bytes} a flow each {every}")
            }),
        ),
        ("tos", requested.tos.map(|tos| tos.to_string())),
        ("file", file),
        ("line", options.link_bps.map(units::print_bps)),
    ];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
}

/// The values in force in the last repeat.
pub(super) fn in_force(configs: &[Config]) -> Vec<(String, String)> {
    let flows = configs.iter().filter_map(|config| config.repeats.last()?.transfer.flows.first());
    let Some(in_force) = flows.filter_map(|flow| flow.in_force.as_ref()).next_back() else { return Vec::new() };
    let mut facts = Vec::new();
    let mut say = |name: &str, fact: Option<String>| facts.extend(fact.map(|fact| (name.to_owned(), fact)));
    say("congestion", in_force.congestion.clone());
    say("nodelay", in_force.no_delay.map(|on| if on { "on" } else { "off" }.to_owned()));
    say("send_buffer", Some(units::print_bytes(in_force.send_buffer_bytes.into())));
    say("receive_buffer", in_force.receive_buffer_bytes.map(|bytes| units::print_bytes(bytes.into())));
    say("mss", in_force.mss_bytes.map(|bytes| units::print_bytes(bytes.into())));
    facts
}

/// Describes how and how much the receiver reads.
fn reads(options: &StreamOptions) -> String {
    let receive = options.template.receive;
    let bytes = |bytes: usize| units::print_bytes(bytes as u64);
    let most = options.read_bytes.unwrap_or(MOST_READ_BYTES);
    let udp = matches!(options.template.channel, Channel::Udp { .. });
    if let Some(low_water) = options.template.low_water_bytes {
        return format!("up to {}, woken when {} are there (SO_RCVLOWAT)", bytes(most), bytes(low_water as usize));
    }
    match (receive, options.read_bytes) {
        (ReceivePath::Truncate, _) if udp => "recv with MSG_TRUNC: a datagram's number, no copy of the rest".to_owned(),
        (ReceivePath::Truncate, _) => format!("recv with MSG_TRUNC: no copy, up to {}", bytes(most)),
        (ReceivePath::Read | ReceivePath::Ktls, None) => format!("a block, at most {}", bytes(most)),
        (ReceivePath::Read | ReceivePath::Ktls, Some(_)) => format!("up to {}", bytes(most)),
        (ReceivePath::Mapped, _) => format!("TCP_ZEROCOPY_RECEIVE, up to {}", bytes(most)),
        (ReceivePath::Uring, _) if udp => "io_uring, a datagram a buffer".to_owned(),
        (ReceivePath::Uring, _) => format!("io_uring, into buffers of {}", bytes(most)),
    }
}
