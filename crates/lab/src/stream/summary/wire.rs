//! What went over the wire: TCP's own account, the devices', datagrams, zero copy, pacing.

use netcliff_core::stream::{
    DatagramRow, DeviceRow, MappedRow, PacingRow, Spread, TcpInterval, TcpRow, ZeroCopyRow, payload_share, wire_bytes,
};
use netcliff_host::cpu::Counters;
use netcliff_host::nic::counts::DeviceCounts;
use netcliff_wire::transfer::{Channel, Flow, TcpSample};

use super::Repeat;
use crate::stream::StreamOptions;
use crate::stream::devices::Sides;

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

/// Rate on the wire of all flows of a repeat (bit/s); None where TCP said nothing of one of them: the others are not the wire.
pub(in crate::stream) fn wire_bps_of(options: &StreamOptions, repeat: &Repeat) -> Option<f64> {
    let pairs: Vec<_> = repeat.transfer.flows.iter().map(ends).collect::<Option<_>>()?;
    let header = header_bytes(options, &pairs.last()?.1);
    let bps = |(a, b): &(TcpSample, TcpSample)| {
        let segments = b.data_segments.saturating_sub(a.data_segments) as f64;
        let payload = b.bytes_sent.saturating_sub(a.bytes_sent) as f64;
        wire_bytes(payload, segments, header) * 8.0 / (b.at_s - a.at_s)
    };
    // Multipath TCP may tell of a subflow that nothing went over.
    Some(pairs.iter().map(bps).sum()).filter(|bps| *bps > 0.0)
}

pub(super) fn tcp(options: &StreamOptions, repeats: &[Repeat]) -> Option<TcpRow> {
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

pub(super) fn device(repeats: &[Repeat]) -> Option<DeviceRow> {
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
    let packets_per = |count: fn(&DeviceCounts) -> Option<u64>| {
        Spread::of(counted().filter_map(|(_, sides, _)| {
            let received = sides.receiving?;
            Some(received.rx_packets as f64 / count(&received).filter(|count| *count > 0)? as f64)
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
        packets_per_softirq: packets_per(|counts| counts.softirqs),
        packets_per_interrupt: packets_per(|counts| counts.interrupts),
        dropped: counted().filter_map(|(_, sides, _)| Some(sides.receiving?.dropped)).sum(),
    })
}

fn elapsed_s(repeat: &Repeat) -> Option<f64> {
    let window = repeat.transfer.flows.iter().find_map(|flow| flow.sender.whole())?;
    Some(window.length_s()).filter(|length_s| *length_s > 0.0)
}

pub(super) fn datagrams(repeats: &[Repeat]) -> Option<DatagramRow> {
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

pub(super) fn zero_copy(repeats: &[Repeat]) -> Option<ZeroCopyRow> {
    let flows = repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    flows.filter_map(|flow| flow.sender.zero_copy).fold(None, |sum, done| {
        let mut sum: ZeroCopyRow = sum.unwrap_or_default();
        sum.asked += done.asked;
        sum.completed += done.completed;
        sum.copied += done.copied;
        Some(sum)
    })
}

pub(super) fn mapped(repeats: &[Repeat]) -> Option<MappedRow> {
    let flows = repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    flows.filter_map(|flow| flow.receiver.mapped).fold(None, |sum, done| {
        let mut sum: MappedRow = sum.unwrap_or_default();
        sum.mapped_bytes += done.mapped_bytes;
        sum.copied_bytes += done.copied_bytes;
        Some(sum)
    })
}

pub(super) fn pacing(repeats: &[Repeat]) -> Option<PacingRow> {
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
