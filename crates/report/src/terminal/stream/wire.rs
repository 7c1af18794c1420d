//! Traffic on the wire: segments, datagrams, and their losses.

use netcliff_core::stream::{DatagramRow, Spread, StreamReport, StreamRow, TcpRow, UdpRow};

use super::{median, name, number};
use crate::format::{self, Unit};
use crate::terminal::page::{Page, Tone};

pub(super) fn tcp(page: &mut Page, report: &StreamReport) {
    let of_tcp = |row: &&StreamRow| row.udp.is_none() && (row.tcp.is_some() || row.device.is_some());
    let rows: Vec<&StreamRow> = report.rows.iter().filter(of_tcp).collect();
    if rows.is_empty() {
        return;
    }
    page.heading("ON THE WIRE (headers, preamble and gap included; RTT and cwnd at the end)");
    let mut lines = vec![format!(
        "  {:<16}{:>12}{:>8}{:>7}{:>9}{:>7}{:>11}{:>8}",
        "block", "rate", "segment", "retr", "RTT", "cwnd", "packets", "bytes"
    )];
    for row in &rows {
        let tcp = row.tcp.clone().unwrap_or_default();
        let device = row.device.unwrap_or_default();
        lines.push(format!(
            "  {:<16}{:>12}{:>8}{:>7}{:>9}{:>7}{:>11}{:>8}",
            name(row),
            median(tcp.wire_bps, Unit::Bps),
            number(tcp.bytes_per_segment),
            tcp.retransmissions,
            median(tcp.rtt_s, Unit::Seconds),
            number(tcp.cwnd_segments),
            median(device.packets_per_s, Unit::PerSecond),
            number(device.bytes_per_packet),
        ));
    }
    page.block(&lines.join("\n"));
    for row in rows {
        if let Some(tcp) = row.tcp.as_ref().filter(|tcp| tcp.flows.len() > 1) {
            page.paragraph(2, Tone::Plain, &format!("{}: {}", name(row), over_flows(tcp)));
        }
        if let Some(share) = row.tcp.as_ref().and_then(|tcp| tcp.line_share) {
            page.fact(&name(row), &format!("{} of the link's rate", format::share(share)));
        }
        if let Some(limits) = row.tcp.as_ref().and_then(held_back) {
            page.fact(&name(row), &limits);
        }
        if let Some(done) = row.zero_copy {
            let (asked, copied) = (done.asked, done.copied);
            page.fact(&name(row), &format!("{copied} of {asked} zero-copy sends were turned back into copies"));
        }
        if let Some(done) = row.mapped {
            let (mapped, all) = (done.mapped_bytes, done.mapped_bytes + done.copied_bytes);
            page.fact(&name(row), &format!("{mapped} of {all} received bytes were mapped, the rest copied"));
        }
    }
}

/// Sentence on the limit of the sender: the receiver's window or the sender's buffer. `None` if neither limited it for
/// at least a hundredth of the time.
fn held_back(tcp: &TcpRow) -> Option<String> {
    let share = |limited: Option<Spread>| limited.map_or(0.0, |limited| limited.median);
    let (window, buffer) = (share(tcp.receiver_limited), share(tcp.buffer_limited));
    (window.max(buffer) >= 0.01).then(|| {
        let (window, buffer) = (format::share_short(window), format::share_short(buffer));
        format!("held back by the receiver's window {window} of the time, by its buffer {buffer}")
    })
}

/// Differences between flows: the smallest, the median and the largest value.
fn over_flows(tcp: &TcpRow) -> String {
    let of = |spread: Option<Spread>, unit: Unit| {
        let figure = |value: f64| format::quantity(value, unit);
        spread.map_or("-".to_owned(), |s| format!("{}, {}, {}", figure(s.min), figure(s.median), figure(s.max)))
    };
    format!(
        "least, median, greatest of its flows: {}; RTT {}; cwnd {}",
        of(tcp.flow_bps, Unit::Bps),
        of(tcp.rtt_s, Unit::Seconds),
        of(tcp.cwnd_segments, Unit::Number),
    )
}

pub(super) fn udp(page: &mut Page, report: &StreamReport) {
    let rows: Vec<(&StreamRow, UdpRow)> = report.rows.iter().filter_map(|row| Some((row, row.udp?))).collect();
    if rows.is_empty() {
        return;
    }
    page.heading("ON THE WIRE (headers, preamble and gap included; a frame has the MTU at most)");
    let mut lines = vec![format!(
        "  {:<16}{:>13}{:>13}{:>8}{:>8}{:>12}{:>8}",
        "block", "sent", "delivered", "frames", "MTU", "packets", "bytes"
    )];
    for (row, udp) in &rows {
        let device = row.device.unwrap_or_default();
        lines.push(format!(
            "  {:<16}{:>13}{:>13}{:>8}{:>8}{:>12}{:>8}",
            name(row),
            median(udp.wire_bps, Unit::Bps),
            median(udp.delivered_wire_bps, Unit::Bps),
            udp.frames_per_datagram,
            udp.mtu_bytes,
            median(device.packets_per_s, Unit::PerSecond),
            number(device.bytes_per_packet),
        ));
    }
    page.block(&lines.join("\n"));
    for (row, udp) in rows {
        if let Some((sent, delivered)) = udp.line_share.zip(udp.delivered_line_share) {
            let (sent, delivered) = (format::share(sent), format::share(delivered));
            page.fact(&name(row), &format!("{sent} of the link's rate sent, {delivered} delivered"));
        }
    }
}

pub(super) fn datagrams(page: &mut Page, report: &StreamReport) {
    let rows: Vec<_> = report.rows.iter().filter_map(|row| Some((row, row.datagrams?))).collect();
    if rows.is_empty() {
        return;
    }
    page.heading("DATAGRAMS (all repeats, warm-up included)");
    let mut lines = vec![format!(
        "  {:<16}{:>14}{:>14}{:>10}{:>12}{:>12}",
        "block", "sent", "received", "lost", "reordered", "duplicate"
    )];
    for (row, counts) in &rows {
        let lost = if counts.sent == 0 { 0.0 } else { counts.lost as f64 / counts.sent as f64 };
        lines.push(format!(
            "  {:<16}{:>14}{:>14}{:>10}{:>12}{:>12}",
            name(row),
            counts.sent,
            counts.received,
            format::loss(lost),
            counts.reordered,
            counts.duplicates,
        ));
    }
    page.block(&lines.join("\n"));
    for (row, counts) in rows.iter().filter(|(_, counts)| counts.lost > 0) {
        page.fact(&name(row), &format!("lost {}", lost_at(counts)));
    }
}

/// The losses by place: `12 on the way, 3 in the receiver's socket`.
pub(super) fn lost_at(counts: &DatagramRow) -> String {
    let places: Vec<String> = counts.places().iter().map(|(place, count)| format!("{count} {place}")).collect();
    places.join(", ")
}
