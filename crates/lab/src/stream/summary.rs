//! Repeats into rows.

use netcliff_core::repeats::Known;
use netcliff_core::stream::{
    CpuRow, CpuTimes, DatagramRow, DeviceRow, EndCpu, ExactRow, MappedRow, PacingRow, Spread, StreamReport, StreamRow,
    TcpInterval, TcpRow, ZeroCopyRow, kernel_share, payload_share, wire_bytes,
};
use netcliff_core::{Fingerprint, units};
use netcliff_host::cpu::system::SystemShares;
use netcliff_host::cpu::{Counters, Method as CpuMethod};
use netcliff_wire::transfer::hardware::{self, Hardware};
use netcliff_wire::transfer::{Channel, End, Flow, ReceivePath, TcpSample, Window};

use crate::repeats::known;

use super::devices::{DeviceCounts, Sides};
use super::meters::by_cpu;
use super::samples::samples;
use super::{Config, Far, MOST_READ_BYTES, Meters, Repeat, StreamOptions, provenance};

/// An end this busy is what limits the rate.
const BUSY: f64 = 0.97;
/// Steal above this share makes figures mean less.
const STEAL: f64 = 0.01;

/// All configurations as a report.
pub(super) fn report(
    options: &StreamOptions,
    far: &Far<'_>,
    configs: &[Config],
    meters: &Meters,
    fingerprint: Fingerprint,
) -> StreamReport {
    let mut not_had = meters.not_had.clone();
    not_had.extend(hardware::refusal());
    let measured = configs.iter().filter(|config| !config.repeats.is_empty());
    let rows: Vec<StreamRow> = measured.map(|config| row(options, far, config, meters)).collect();
    for config in configs.iter().filter(|config| config.repeats.is_empty()) {
        let why = config.ended.as_deref().unwrap_or("the run was stopped before");
        not_had.push(format!("{} of {}: {why}", config.path.name(), units::print_bytes(config.block_bytes as u64)));
    }
    StreamReport {
        asked: asked(options, far),
        in_force: in_force(configs),
        clock: options.method.clock().to_owned(),
        warnings: warnings(options, &rows, configs),
        partial: configs.iter().any(|config| config.ended.is_some() || config.repeats.is_empty()),
        rows,
        not_had,
        cpu_methods: cpu_methods(far, meters),
        provenance: provenance(options, &fingerprint),
        fingerprint,
        far_fingerprint: if far.is_this_host() { None } else { far_fingerprint(configs) },
    }
}

fn far_fingerprint(configs: &[Config]) -> Option<Fingerprint> {
    let repeats = configs.iter().flat_map(|config| &config.repeats);
    repeats.filter_map(|repeat| repeat.transfer.far.as_ref()?.fingerprint.clone()).next_back()
}

fn asked(options: &StreamOptions, far: &Far<'_>) -> Vec<(String, String)> {
    let settings = &options.template;
    let channel = match &settings.channel {
        Channel::Tcp { address, multipath: false } => format!("TCP to {address}"),
        Channel::Tcp { address, multipath: true } => format!("Multipath TCP to {address}"),
        Channel::Udp { address, .. } => format!("UDP to {address}"),
        Channel::Unix => "Unix socket".to_owned(),
        Channel::Pipe => "pipe".to_owned(),
    };
    let direction = match options.method.direction().unwrap_or(settings.direction) {
        netcliff_wire::transfer::Direction::Send => "near end sends",
        netcliff_wire::transfer::Direction::Receive => "far end sends",
        netcliff_wire::transfer::Direction::Both => "both ends send",
    };
    let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    let flows = match settings.flows {
        1 => "1 flow".to_owned(),
        flows => format!("{flows} flows, a thread each at either end"),
    };
    let there = match far {
        Far::Here => None,
        Far::Agent { session, address } => {
            let host = if far.is_this_host() { "on this host" } else { "on another host" };
            Some(format!("an agent {host}, data to {address} (netcliff {})", session.hello.version))
        }
    };
    let far_end = there.map(|there| ("far end".to_owned(), there));
    let facts = [
        ("channel".to_owned(), format!("{channel}, {flows}, {direction}")),
        ("method".to_owned(), format!("{}, {}'s clock", options.method, options.method.clock())),
        ("CPUs".to_owned(), format!("near {}, far {}", cpu(settings.near.cpu), cpu(settings.far.cpu))),
        ("reads".to_owned(), reads(options)),
        ("repeats".to_owned(), format!("{}, interleaved", options.repeats)),
    ];
    facts.into_iter().chain(far_end).collect()
}

/// What held in the last repeat that was made.
fn in_force(configs: &[Config]) -> Vec<(String, String)> {
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

fn cpu_methods(far: &Far<'_>, meters: &Meters) -> Vec<(String, String)> {
    let mut methods = vec![
        ("ends".to_owned(), "getrusage of each end's threads: softirqs that ran elsewhere are not in it".to_owned()),
        ("system".to_owned(), "/proc/stat: sampled by the timer tick".to_owned()),
    ];
    if !far.is_this_host() {
        let own = "the far host's /proc/stat over its own windows, a round trip apart";
        methods.push(("far system".to_owned(), own.to_owned()));
    }
    if meters.method() == Some(CpuMethod::Ebpf) {
        methods.push(("exact".to_owned(), "eBPF at the kernel's transitions: exclusive of each other".to_owned()));
    }
    methods
}

fn warnings(options: &StreamOptions, rows: &[StreamRow], configs: &[Config]) -> Vec<String> {
    let mut warnings = Vec::new();
    let flows = f64::from(options.template.flows);
    for row in rows {
        let name = format!("{} of {}", row.path, units::print_bytes(row.block_bytes));
        for (end, cpu) in [("sender", row.sender_cpu), ("receiver", row.receiver_cpu)] {
            if flows <= 1.0 && cpu.busy.is_some_and(|busy| busy.median > BUSY) {
                warnings
                    .push(format!("{name}: the {end}'s thread used its CPU to the full: it is what limits the rate"));
            }
        }
        let shortfall = row.known.as_ref().and_then(Known::shortfall);
        warnings.extend(shortfall.map(|shortfall| format!("{name}: goodput is {shortfall}")));
        if let Some(told) = row.datagrams.map(|datagrams| datagrams.unreachable).filter(|told| *told > 0) {
            warnings.push(format!("{name}: {told} ICMP messages said that port or host was unreachable: it went on"));
        }
        let steal = row.system.iter().map(|cpu| cpu.steal).fold(0.0, f64::max);
        if steal > STEAL {
            warnings.push(format!("{name}: the hypervisor took {:.1} % of a CPU", steal * 100.0));
        }
        if let Some(dropped) = row.device.map(|device| device.dropped).filter(|dropped| *dropped > 0) {
            warnings.push(format!("{name}: devices dropped {dropped} packets"));
        }
    }
    let mut held = configs.iter().filter_map(|config| config.repeats.last()?.transfer.flows.first()?.in_force.as_ref());
    let Some(in_force) = held.next_back() else { return warnings };
    let asked = &options.template.options;
    let pairs = [
        ("send", "wmem_max", asked.send_buffer_bytes, Some(in_force.send_buffer_bytes)),
        ("receive", "rmem_max", asked.receive_buffer_bytes, in_force.receive_buffer_bytes),
    ];
    for (which, limit, asked, held) in pairs {
        if let (Some(asked), Some(held)) = (asked, held)
            && u64::from(held) < 2 * u64::from(asked)
        {
            let held = units::print_bytes(u64::from(held) / 2);
            warnings.push(format!("the {which} buffer is {held}, less than asked for: net.core.{limit} limits it"));
        }
    }
    warnings
}

fn row(options: &StreamOptions, far: &Far<'_>, config: &Config, meters: &Meters) -> StreamRow {
    let repeats = &config.repeats;
    let elsewhere = !far.is_this_host();
    let sender_bps = goodput(repeats, |flow| &flow.sender);
    let receiver_bps = goodput(repeats, |flow| &flow.receiver);
    let by_clock = if options.method.clock() == "sender" { &sender_bps } else { &receiver_bps };
    let mean = || (!by_clock.is_empty()).then(|| by_clock.iter().sum::<f64>() / by_clock.len() as f64);
    let whole = repeats.iter().filter(|repeat| repeat.transfer.cut_short.is_none());
    StreamRow {
        path: config.path.name().to_owned(),
        block_bytes: config.block_bytes as u64,
        repeats: whole
            .map(|repeat| repeat.transfer.flows.first().map_or(0, |flow| flow.sender.windows.len()))
            .sum::<usize>() as u32,
        samples: samples(options, repeats),
        known: Some(known("goodput_bps", &config.goodputs_bps(options), &options.repeats)),
        cut_short: config.ended.clone(),
        goodput_bps: Spread::of(by_clock.iter().copied()),
        mean_bps: if options.method.is_mean() { mean() } else { None },
        sends_per_s: Spread::of(summed(repeats, |flow| &flow.sender, |window| window.calls as f64 / window.cpu.wall_s)),
        bytes_per_receive: Spread::of(
            windows(repeats, |flow| &flow.receiver).map(|window| window.bytes as f64 / window.calls as f64),
        ),
        sender_cpu: end_cpu(repeats, |flow| &flow.sender),
        receiver_cpu: end_cpu(repeats, |flow| &flow.receiver),
        system: system(repeats, near_ticks),
        system_us_per_kib: system_us_per_kib(repeats, near_ticks),
        far_system: if elsewhere { system(repeats, far_ticks) } else { Vec::new() },
        far_us_per_kib: if elsewhere { system_us_per_kib(repeats, far_ticks) } else { None },
        exact: if meters.method() == Some(CpuMethod::Ebpf) { exact(repeats) } else { Vec::new() },
        tcp: tcp(options, repeats),
        device: device(repeats),
        datagrams: datagrams(repeats),
        zero_copy: zero_copy(repeats),
        mapped: mapped(repeats),
        pacing: pacing(repeats),
        sender_bps: Spread::of(sender_bps),
        receiver_bps: Spread::of(receiver_bps),
    }
}

fn windows(repeats: &[Repeat], end: fn(&Flow) -> &End) -> impl Iterator<Item = &Window> {
    repeats.iter().flat_map(move |repeat| repeat.transfer.flows.iter().flat_map(move |flow| end(flow).windows.iter()))
}

/// A figure of each window, the flows of a repeat added up.
fn summed(repeats: &[Repeat], end: fn(&Flow) -> &End, figure: impl Fn(&Window) -> f64) -> Vec<f64> {
    let of = |repeat: &Repeat| {
        let ends: Vec<&End> = repeat.transfer.flows.iter().map(end).collect();
        let count = ends.iter().map(|end| end.windows.len()).max().unwrap_or(0);
        let at = |place: usize| ends.iter().filter_map(|end| end.windows.get(place)).map(&figure).sum::<f64>();
        (0..count).map(at).collect::<Vec<f64>>()
    };
    repeats.iter().flat_map(of).collect()
}

fn goodput(repeats: &[Repeat], end: fn(&Flow) -> &End) -> Vec<f64> {
    summed(repeats, end, |window| window.goodput_bps().unwrap_or(f64::NAN))
}

fn end_cpu(repeats: &[Repeat], end: fn(&Flow) -> &End) -> EndCpu {
    let used_s = |window: &Window| window.cpu.user_s + window.cpu.system_s;
    let bytes = summed(repeats, end, |window| window.bytes as f64);
    let us = summed(repeats, end, |window| used_s(window) * 1e6);
    let times: Vec<CpuTimes> = windows(repeats, end)
        .map(|window| CpuTimes { user_s: window.cpu.user_s, system_s: window.cpu.system_s, wall_s: window.cpu.wall_s })
        .collect();
    EndCpu {
        busy: Spread::of(summed(repeats, end, |window| used_s(window) / window.cpu.wall_s)),
        us_per_kib: Spread::of(us.iter().zip(bytes).map(|(us, bytes)| us * 1024.0 / bytes)),
        kernel_share: kernel_share(&times),
        cycles_per_byte: counted(repeats, end, |hardware| hardware.cycles),
        instructions_per_byte: counted(repeats, end, |hardware| hardware.instructions),
    }
}

/// A count of the CPU a byte; None where a window has none.
fn counted(repeats: &[Repeat], end: fn(&Flow) -> &End, count: fn(&Hardware) -> u64) -> Option<Spread> {
    let of = |window: &Window| window.hardware.as_ref().map_or(f64::NAN, |hardware| count(hardware) as f64);
    let bytes = summed(repeats, end, |window| window.bytes as f64);
    Spread::of(summed(repeats, end, of).iter().zip(bytes).map(|(count, bytes)| count / bytes))
}

fn received_bytes(repeat: &Repeat) -> f64 {
    repeat.transfer.flows.iter().filter_map(|flow| flow.receiver.whole()).map(|window| window.bytes as f64).sum()
}

/// The ticks of a host in one repeat.
type Ticks = fn(&Repeat) -> &[SystemShares];

fn near_ticks(repeat: &Repeat) -> &[SystemShares] {
    &repeat.ticks
}

fn far_ticks(repeat: &Repeat) -> &[SystemShares] {
    repeat.transfer.far.as_ref().map_or(&[], |far| &far.ticks)
}

fn system_us_per_kib(repeats: &[Repeat], ticks: Ticks) -> Option<Spread> {
    Spread::of(repeats.iter().filter_map(|repeat| us_per_kib_of(repeat, ticks)))
}

/// CPU time of this end's host a KiB received in one repeat (us), by ticks.
pub(super) fn near_us_per_kib(repeat: &Repeat) -> Option<f64> {
    us_per_kib_of(repeat, near_ticks)
}

fn us_per_kib_of(repeat: &Repeat, ticks: Ticks) -> Option<f64> {
    let used_s: f64 = ticks(repeat).iter().map(SystemShares::used_s).sum();
    (!ticks(repeat).is_empty()).then(|| used_s * 1e6 * 1024.0 / received_bytes(repeat))
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(0.0, |spread| spread.median)
}

fn system(repeats: &[Repeat], ticks: Ticks) -> Vec<CpuRow> {
    let rows = by_cpu(repeats.iter().flat_map(|repeat| ticks(repeat).iter().map(|cpu| (cpu.cpu, *cpu))));
    rows.into_iter()
        .map(|(cpu, shares)| CpuRow {
            cpu,
            user: median(shares.iter().map(|s| s.user)),
            nice: median(shares.iter().map(|s| s.nice)),
            system: median(shares.iter().map(|s| s.system)),
            irq: median(shares.iter().map(|s| s.irq)),
            softirq: median(shares.iter().map(|s| s.softirq)),
            steal: median(shares.iter().map(|s| s.steal)),
            idle: median(shares.iter().map(|s| s.idle)),
        })
        .collect()
}

fn exact(repeats: &[Repeat]) -> Vec<ExactRow> {
    let rows = by_cpu(repeats.iter().flat_map(|repeat| repeat.exact.iter().map(|split| (split.cpu, split))));
    let known = |share: Option<f64>| share.unwrap_or(0.0);
    rows.into_iter()
        .map(|(cpu, splits)| {
            let shares = || splits.iter().map(|split| &split.shares);
            ExactRow {
                cpu,
                application: median(shares().map(|s| known(s.application))),
                softirq: median(shares().map(|s| known(s.protocol) + known(s.transmit) + known(s.softirq_other))),
                interrupt: median(shares().map(|s| known(s.interrupt))),
                other: median(shares().map(|s| known(s.other) + known(s.ksoftirqd) + known(s.unaccounted))),
                idle: median(shares().map(|s| known(s.idle))),
                overhead: median(splits.iter().map(|split| known(split.overhead_share))),
            }
        })
        .collect()
}

/// IP and TCP headers of a full segment (bytes).
fn header_bytes(options: &StreamOptions, sample: &TcpSample) -> f64 {
    let ip = match options.template.channel {
        Channel::Tcp { address, .. } if address.is_ipv6() => 40.0,
        _ => 20.0,
    };
    ip + 20.0 + if sample.timestamps { 12.0 } else { 0.0 }
}

/// TCP_INFO as the windows opened and closed.
fn ends(flow: &Flow) -> Option<(TcpSample, TcpSample)> {
    Some((*flow.tcp.first()?, *flow.tcp.last()?)).filter(|(a, b)| b.at_s > a.at_s)
}

/// Rate on the wire of all flows of a repeat (bit/s); None where TCP said nothing.
pub(super) fn wire_bps_of(options: &StreamOptions, repeat: &Repeat) -> Option<f64> {
    let pairs: Vec<_> = repeat.transfer.flows.iter().filter_map(ends).collect();
    let header = header_bytes(options, &pairs.last()?.1);
    let bps = |(a, b): &(TcpSample, TcpSample)| {
        let segments = b.data_segments.saturating_sub(a.data_segments) as f64;
        let payload = b.bytes_sent.saturating_sub(a.bytes_sent) as f64;
        wire_bytes(payload, segments, header) * 8.0 / (b.at_s - a.at_s)
    };
    Some(pairs.iter().map(bps).sum())
}

fn tcp(options: &StreamOptions, repeats: &[Repeat]) -> Option<TcpRow> {
    let pairs = || repeats.iter().flat_map(move |repeat| repeat.transfer.flows.iter().filter_map(ends));
    let last = pairs().next_back()?.1;
    let header = header_bytes(options, &last);
    let segments = |(a, b): &(TcpSample, TcpSample)| b.data_segments.saturating_sub(a.data_segments) as f64;
    let payload = |(a, b): &(TcpSample, TcpSample)| b.bytes_sent.saturating_sub(a.bytes_sent) as f64;
    let wire_bps = Spread::of(repeats.iter().filter_map(|repeat| wire_bps_of(options, repeat)));
    Some(TcpRow {
        retransmissions: pairs().map(|(a, b)| b.retransmissions.saturating_sub(a.retransmissions)).sum(),
        rtt_s: Spread::of(pairs().map(|(_, b)| b.rtt_s)),
        cwnd_segments: Spread::of(pairs().map(|(_, b)| f64::from(b.cwnd_segments))),
        pacing_bps: Spread::of(pairs().filter_map(|(_, b)| b.pacing_bps)),
        bytes_per_segment: Spread::of(pairs().map(|p| payload(&p) / segments(&p))),
        wire_bps,
        payload_share: (last.mss_bytes > 0).then(|| payload_share(f64::from(last.mss_bytes), header)),
        line_share: options.link_bps.and_then(|link_bps| Some(wire_bps?.median / link_bps)),
        intervals: repeats.last().and_then(|r| r.transfer.flows.first()).map_or_else(Vec::new, |f| intervals(&f.tcp)),
    })
}

fn intervals(samples: &[TcpSample]) -> Vec<TcpInterval> {
    samples
        .windows(2)
        .filter(|pair| pair[1].at_s > pair[0].at_s)
        .map(|pair| TcpInterval {
            at_s: pair[1].at_s,
            sent_bps: pair[1].bytes_sent.saturating_sub(pair[0].bytes_sent) as f64 * 8.0
                / (pair[1].at_s - pair[0].at_s),
            retransmissions: pair[1].retransmissions.saturating_sub(pair[0].retransmissions),
            rtt_s: pair[1].rtt_s,
            cwnd_segments: pair[1].cwnd_segments,
            pacing_bps: pair[1].pacing_bps,
        })
        .collect()
}

fn device(repeats: &[Repeat]) -> Option<DeviceRow> {
    let counted = || repeats.iter().filter_map(|repeat| Some((repeat, repeat.devices?, elapsed_s(repeat)?)));
    counted().next()?;
    // Of one side: a count over another, or over the time.
    let of = |side: fn(&Sides) -> Option<DeviceCounts>, figure: fn(&DeviceCounts, f64) -> f64| {
        Spread::of(counted().filter_map(|(_, sides, s)| Some(figure(&side(&sides)?, s))))
    };
    let of_cpus = |repeat: &Repeat, count: fn(&Counters) -> Option<u64>| {
        let counts: Option<Vec<u64>> = repeat.exact.iter().map(|split| count(&split.counters)).collect();
        Some(counts.filter(|counts| !counts.is_empty())?.iter().sum::<u64>() as f64)
    };
    let rate = |count: fn(&Counters) -> Option<u64>| {
        Spread::of(counted().filter_map(|(repeat, _, s)| Some(of_cpus(repeat, count)? / s)))
    };
    let packets_per = |count: fn(&Counters) -> Option<u64>| {
        Spread::of(counted().filter_map(|(repeat, sides, _)| {
            Some(sides.receiving?.rx_packets as f64 / of_cpus(repeat, count).filter(|count| *count > 0.0)?)
        }))
    };
    Some(DeviceRow {
        packets_per_s: of(|sides| sides.sending, |counts, s| counts.tx_packets as f64 / s),
        bytes_per_packet: of(|sides| sides.sending, |counts, _| counts.tx_bytes as f64 / counts.tx_packets as f64),
        received_per_s: of(|sides| sides.receiving, |counts, s| counts.rx_packets as f64 / s),
        bytes_per_received: of(|sides| sides.receiving, |counts, _| counts.rx_bytes as f64 / counts.rx_packets as f64),
        bytes_per_ip_packet: of(|sides| sides.receiving, |counts, _| counts.ip_bytes as f64 / counts.ip_packets as f64),
        softirqs_per_s: rate(|counters| counters.softirqs),
        interrupts_per_s: rate(|counters| counters.device_interrupts),
        packets_per_softirq: packets_per(|counters| counters.softirqs),
        packets_per_interrupt: counted()
            .all(|(_, sides, _)| sides.interrupts)
            .then(|| packets_per(|counters| counters.device_interrupts))
            .flatten(),
        dropped: counted().filter_map(|(_, sides, _)| Some(sides.receiving?.dropped)).sum(),
    })
}

fn elapsed_s(repeat: &Repeat) -> Option<f64> {
    let flow = repeat.transfer.flows.first()?;
    flow.sender.whole().map(|window| window.cpu.wall_s).filter(|wall_s| *wall_s > 0.0)
}

fn datagrams(repeats: &[Repeat]) -> Option<DatagramRow> {
    let flows = repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    let counted = flows.filter_map(|flow| Some((flow.sender.datagrams?, flow.receiver.datagrams?)));
    counted.fold(None, |sum, (sent, received)| {
        let mut sum: DatagramRow = sum.unwrap_or_default();
        let distinct = received.moved - received.duplicates;
        sum.sent += sent.moved;
        sum.received += distinct;
        sum.lost += sent.moved.saturating_sub(distinct);
        sum.duplicates += received.duplicates;
        sum.reordered += received.reordered;
        sum.refused += sent.refused;
        sum.unreachable += sent.unreachable + received.unreachable;
        Some(sum)
    })
}

fn zero_copy(repeats: &[Repeat]) -> Option<ZeroCopyRow> {
    let flows = repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    flows.filter_map(|flow| flow.sender.zero_copy).fold(None, |sum, done| {
        let mut sum: ZeroCopyRow = sum.unwrap_or_default();
        sum.asked += done.asked;
        sum.completed += done.completed;
        sum.copied += done.copied;
        Some(sum)
    })
}

fn mapped(repeats: &[Repeat]) -> Option<MappedRow> {
    let flows = repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    flows.filter_map(|flow| flow.receiver.mapped).fold(None, |sum, done| {
        let mut sum: MappedRow = sum.unwrap_or_default();
        sum.mapped_bytes += done.mapped_bytes;
        sum.copied_bytes += done.copied_bytes;
        Some(sum)
    })
}

fn pacing(repeats: &[Repeat]) -> Option<PacingRow> {
    let paced = || repeats.iter().flat_map(|repeat| &repeat.transfer.flows).filter_map(|flow| flow.sender.pacing);
    let asked_bps = paced().next()?.asked_bps;
    Some(PacingRow {
        asked_bps,
        rate_error: Spread::of(paced().map(|pacing| pacing.sent_bps / pacing.asked_bps - 1.0)),
        late_mean_s: Spread::of(paced().map(|pacing| pacing.late_mean_s)),
        late_max_s: Spread::of(paced().map(|pacing| pacing.late_max_s)),
        given_up_s: paced().map(|pacing| pacing.given_up_s).sum(),
    })
}

/// How the receiver reads, and how much.
fn reads(options: &StreamOptions) -> String {
    let receive = options.template.receive;
    let bytes = |bytes: usize| units::print_bytes(bytes as u64);
    let most = options.read_bytes.unwrap_or(MOST_READ_BYTES);
    if let Some(low_water) = options.template.low_water_bytes {
        return format!("up to {}, woken when {} are there (SO_RCVLOWAT)", bytes(most), bytes(low_water as usize));
    }
    match (receive, options.read_bytes) {
        (ReceivePath::Read, None) => format!("a block, at most {}", bytes(most)),
        (ReceivePath::Read, Some(_)) => format!("up to {}", bytes(most)),
        (ReceivePath::Mapped, _) => format!("TCP_ZEROCOPY_RECEIVE, up to {}", bytes(most)),
        (ReceivePath::Uring, _) => format!("io_uring, into buffers of {}", bytes(most)),
    }
}
