//! Rates on the wire: TCP by its own counts, datagrams as frames.

use crate::bulk::{Channel, End, Flow, TcpSample};
use netcliff_core::stream::{
    DatagramFrames, Spread, TcpFlow, TcpFlows, TcpInterval, TcpRow, UdpRow, datagram_frames, payload_share, wire_bytes,
};

use super::Repeat;
use crate::stream::StreamOptions;

/// A rate for each direction (bit/s): from the near end to the far end, and back.
type Ways = [f64; 2];

/// Sum of the flows' rates by direction. `None` if the rate of a flow is unknown, because the sum would be incomplete.
fn ways(repeat: &Repeat, bps: impl Fn(&Flow) -> Option<f64>) -> Option<Ways> {
    repeat.transfer.flows.iter().try_fold([0.0; 2], |mut ways, flow| {
        ways[usize::from(!flow.forward)] += bps(flow)?;
        Some(ways)
    })
}

/// Sum of both directions, over the repeats.
fn together(ways: &[Ways]) -> Option<Spread> {
    Spread::of(ways.iter().map(|ways| ways.iter().sum()))
}

/// Share of the link's rate that the busier direction used. Each direction has the whole rate.
fn line_share(link_bps: Option<f64>, ways: &[Ways]) -> Option<f64> {
    let median = |way: usize| Some(Spread::of(ways.iter().map(|ways| ways[way]))?.median);
    Some(median(0)?.max(median(1)?) / link_bps?)
}

fn is_ipv6(options: &StreamOptions) -> bool {
    match options.template.channel {
        Channel::Tcp { address, .. } | Channel::Udp { address, .. } => address.is_ipv6(),
        Channel::Unix | Channel::Pipe => false,
    }
}

/// IP and TCP headers of a full segment (bytes).
fn header_bytes(options: &StreamOptions, sample: &TcpSample) -> f64 {
    let ip = if is_ipv6(options) { 40.0 } else { 20.0 };
    ip + 20.0 + if sample.timestamps { 12.0 } else { 0.0 }
}

/// TCP_INFO when the windows opened and when they closed.
fn ends(flow: &Flow) -> Option<(TcpSample, TcpSample)> {
    Some((*flow.tcp.first()?, *flow.tcp.last()?)).filter(|(a, b)| b.at_s > a.at_s)
}

/// Payload rate that a flow sent between two samples (bit/s), with retransmissions.
fn sent_bps((a, b): &(TcpSample, TcpSample)) -> f64 {
    b.bytes_sent.saturating_sub(a.bytes_sent) as f64 * 8.0 / (b.at_s - a.at_s)
}

fn tcp_ways(options: &StreamOptions, repeat: &Repeat) -> Option<Ways> {
    let bps = |flow: &Flow| {
        let (a, b) = ends(flow)?;
        let segments = b.data_segments.saturating_sub(a.data_segments) as f64;
        let payload = b.bytes_sent.saturating_sub(a.bytes_sent) as f64;
        Some(wire_bytes(payload, segments, header_bytes(options, &b)) * 8.0 / (b.at_s - a.at_s))
    };
    // Multipath TCP may report a subflow that carried nothing.
    ways(repeat, bps).filter(|ways| ways.iter().sum::<f64>() > 0.0)
}

pub(super) fn tcp(options: &StreamOptions, repeats: &[Repeat]) -> Option<TcpRow> {
    let pairs = || repeats.iter().flat_map(move |repeat| repeat.transfer.flows.iter().filter_map(ends));
    let last = pairs().next_back()?.1;
    let header = header_bytes(options, &last);
    let bytes_per_segment = |(a, b): (TcpSample, TcpSample)| {
        let segments = b.data_segments.saturating_sub(a.data_segments) as f64;
        b.bytes_sent.saturating_sub(a.bytes_sent) as f64 / segments
    };
    let ways: Vec<Ways> = repeats.iter().filter_map(|repeat| tcp_ways(options, repeat)).collect();
    let flows: Vec<TcpFlow> = repeats.last().map_or_else(Vec::new, |repeat| {
        repeat.transfer.flows.iter().filter_map(|flow| Some(of_flow(flow, &ends(flow)?))).collect()
    });
    let several = flows.len() > 1;
    let share = |limited_s: fn(&TcpSample) -> f64| {
        Spread::of(pairs().map(|(a, b)| ((limited_s(&b) - limited_s(&a)) / (b.at_s - a.at_s)).clamp(0.0, 1.0)))
    };
    Some(TcpRow {
        retransmissions: pairs().map(|(a, b)| b.retransmissions.saturating_sub(a.retransmissions)).sum(),
        rtt_s: Spread::of(pairs().map(|(_, b)| b.rtt_s)),
        cwnd_segments: Spread::of(pairs().map(|(_, b)| f64::from(b.cwnd_segments))),
        pacing_bps: Spread::of(pairs().filter_map(|(_, b)| b.pacing_bps)),
        flow_bps: Spread::of(pairs().map(|pair| sent_bps(&pair))),
        bytes_per_segment: Spread::of(pairs().map(bytes_per_segment)),
        wire_bps: together(&ways),
        payload_share: (last.mss_bytes > 0).then(|| payload_share(f64::from(last.mss_bytes), header)),
        line_share: line_share(options.link_bps, &ways),
        receiver_limited: share(|sample| sample.receiver_limited_s),
        buffer_limited: share(|sample| sample.buffer_limited_s),
        intervals: flows.first().map_or_else(Vec::new, |flow| flow.intervals.clone()),
        flow_intervals: if several { by_interval(&flows) } else { Vec::new() },
        flows: if several { flows } else { Vec::new() },
    })
}

fn of_flow(flow: &Flow, pair: &(TcpSample, TcpSample)) -> TcpFlow {
    TcpFlow {
        forward: flow.forward,
        retransmissions: pair.1.retransmissions.saturating_sub(pair.0.retransmissions),
        sent_bps: sent_bps(pair),
        intervals: intervals(&flow.tcp),
    }
}

fn intervals(samples: &[TcpSample]) -> Vec<TcpInterval> {
    let pairs = samples.windows(2).map(|pair| (pair[0], pair[1]));
    pairs
        .filter(|(a, b)| b.at_s > a.at_s)
        .map(|(a, b)| TcpInterval {
            at_s: b.at_s,
            sent_bps: sent_bps(&(a, b)),
            retransmissions: b.retransmissions.saturating_sub(a.retransmissions),
            rtt_s: b.rtt_s,
            cwnd_segments: b.cwnd_segments,
            pacing_bps: b.pacing_bps,
        })
        .collect()
}

/// Combines the flows' intervals. All senders of one end are sampled in one pass, so intervals with the same index
/// belong together; the last pass may have ended before it sampled all flows. If both ends send, or a flow missed more
/// than one sample, an interval is assigned by the time at which it ends.
fn by_interval(flows: &[TcpFlow]) -> Vec<TcpFlows> {
    let Some(most) = flows.iter().max_by_key(|flow| flow.intervals.len()) else { return Vec::new() };
    let of_same_passes =
        flows.iter().all(|flow| flow.forward == most.forward && flow.intervals.len() + 1 >= most.intervals.len());
    let ends_s: Vec<f64> = most.intervals.iter().map(|interval| interval.at_s).collect();
    let mut groups: Vec<Vec<&TcpInterval>> = vec![Vec::new(); ends_s.len()];
    for flow in flows {
        for (pass, interval) in flow.intervals.iter().enumerate() {
            groups[if of_same_passes { pass } else { nearest(&ends_s, interval.at_s) }].push(interval);
        }
    }
    groups.iter().filter_map(|group| of_interval(group)).collect()
}

/// Index of the nearest of ascending times, the later one if two are equally near. There is at least one time.
fn nearest(times_s: &[f64], at_s: f64) -> usize {
    let after = times_s.partition_point(|time_s| *time_s < at_s);
    let apart = |place: usize| times_s.get(place).map_or(f64::INFINITY, |time_s| (time_s - at_s).abs());
    if apart(after) <= apart(after.wrapping_sub(1)) { after } else { after - 1 }
}

fn of_interval(group: &[&TcpInterval]) -> Option<TcpFlows> {
    let spread = |figure: fn(&TcpInterval) -> f64| Spread::of(group.iter().map(|interval| figure(interval)));
    Some(TcpFlows {
        at_s: spread(|interval| interval.at_s)?.min,
        flows: group.len() as u32,
        sent_bps: group.iter().map(|interval| interval.sent_bps).sum(),
        retransmissions: group.iter().map(|interval| interval.retransmissions).sum(),
        flow_bps: spread(|interval| interval.sent_bps),
        rtt_s: spread(|interval| interval.rtt_s),
        cwnd_segments: spread(|interval| f64::from(interval.cwnd_segments)),
        pacing_bps: Spread::of(group.iter().filter_map(|interval| interval.pacing_bps)),
    })
}

/// The MTU of a flow's path as its sender sees it, and the frames of a datagram on that path.
fn datagram(options: &StreamOptions, block_bytes: usize, flow: &Flow) -> Option<(u64, DatagramFrames)> {
    let mtu_bytes = u64::from(flow.in_force.as_ref()?.mtu_bytes?);
    Some((mtu_bytes, datagram_frames(block_bytes as u64, is_ipv6(options), mtu_bytes)?))
}

/// Rate on the wire of the datagrams that one end of each flow counted (bit/s).
fn udp_ways(options: &StreamOptions, block_bytes: usize, repeat: &Repeat, end: fn(&Flow) -> &End) -> Option<Ways> {
    ways(repeat, |flow| {
        let (_, frames) = datagram(options, block_bytes, flow)?;
        Some(end(flow).whole()?.goodput_bps()? * frames.wire_bytes as f64 / block_bytes as f64)
    })
}

pub(super) fn udp(options: &StreamOptions, block_bytes: usize, repeats: &[Repeat]) -> Option<UdpRow> {
    let flows = repeats.iter().flat_map(|repeat| &repeat.transfer.flows);
    // If the flows' paths differ, use the smallest MTU, which splits a datagram into most frames.
    let (mtu_bytes, frames) =
        flows.filter_map(|flow| datagram(options, block_bytes, flow)).min_by_key(|path| path.0)?;
    let of = |end| -> Vec<Ways> {
        repeats.iter().filter_map(|repeat| udp_ways(options, block_bytes, repeat, end)).collect()
    };
    let (sent, delivered) = (of(|flow| &flow.sender), of(|flow| &flow.receiver));
    Some(UdpRow {
        mtu_bytes,
        frames_per_datagram: frames.frames,
        wire_bps: together(&sent),
        delivered_wire_bps: together(&delivered),
        payload_share: block_bytes as f64 / frames.wire_bytes as f64,
        line_share: line_share(options.link_bps, &sent),
        delivered_line_share: line_share(options.link_bps, &delivered),
    })
}

/// Rates on the wire in one repeat (bit/s): sent, and (datagrams only) delivered.
pub(super) fn wire_bps_of(options: &StreamOptions, block_bytes: usize, repeat: &Repeat) -> (Option<f64>, Option<f64>) {
    let sum = |ways: Option<Ways>| ways.map(|ways| ways.iter().sum());
    match options.template.channel {
        Channel::Tcp { .. } => (sum(tcp_ways(options, repeat)), None),
        Channel::Udp { .. } => {
            let of = |end| sum(udp_ways(options, block_bytes, repeat, end));
            (of(|flow| &flow.sender), of(|flow| &flow.receiver))
        }
        Channel::Unix | Channel::Pipe => (None, None),
    }
}
