//! Counts besides bytes: by devices, of datagrams, zero copy and pacing.

use netcliff_core::stream::{DatagramRow, DeviceRow, MappedRow, PacingRow, Spread, ZeroCopyRow};
use netcliff_host::cpu::Counters;
use netcliff_host::nic::counts::DeviceCounts;

use super::Repeat;
use crate::stream::devices::Sides;

pub(super) fn device(repeats: &[Repeat]) -> Option<DeviceRow> {
    let counted = || repeats.iter().filter_map(|repeat| Some((repeat, repeat.devices?, elapsed_s(repeat)?)));
    counted().next()?;
    // A value of one side: a ratio of two counts, or a count over the time.
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
        sum.buffer_full += sent.buffer_full;
        sum.too_long += sent.too_long;
        sum.no_route += sent.no_route;
        sum.denied += sent.denied;
        sum.unreachable += sent.unreachable + received.unreachable;
        sum.dropped = match (sum.dropped, received.dropped) {
            (Some(sum), Some(more)) => Some(sum + more),
            (sum, more) => sum.or(more),
        };
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
