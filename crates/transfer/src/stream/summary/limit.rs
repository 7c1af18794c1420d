//! What limited a configuration: the first of several limits that was reached.

use crate::bulk::Direction;
use netcliff_core::stream::{OTHER_PROGRAMS, StreamRow};

use super::warned::{HELD_BACK, threads_of_a_role};
use crate::hosts::BUSY;
use crate::stream::StreamOptions;

/// Pacing limits the rate if it reaches this share of the requested one.
const PACED: f64 = 0.97;
/// Losses limit the rate if they exceed this share of the datagrams.
const LOST: f64 = 0.01;
/// Other programs are named if they use more than this share of a full CPU. Ticks and getrusage differ by a few
/// percent.
const OTHERS: f64 = 0.2;
/// The link limits the rate if this share of the link's rate is used.
const LINE_FULL: f64 = 0.95;

/// What limited the rate, as a noun with the value that shows it. `None` if nothing that is checked was at its limit.
///
/// Checks in this order: losses at a requested rate, pacing, the link, threads that are fully busy, a window or a
/// buffer, CPUs that are fully busy.
pub(super) fn limited_by(options: &StreamOptions, row: &StreamRow) -> Option<String> {
    lost(options, row)
        .or_else(|| paced(options, row))
        .or_else(|| line(row))
        .or_else(|| threads(options, row))
        .or_else(|| window(row))
        .or_else(|| cpus(row))
}

/// If datagrams are lost at a requested rate, the limit is the place with most losses, not the requested rate.
fn lost(options: &StreamOptions, row: &StreamRow) -> Option<String> {
    options.template.options.pacing_bps?;
    let counts = row.datagrams.filter(|counts| counts.lost as f64 > LOST * counts.sent as f64)?;
    let (place, count) = counts.places().into_iter().max_by_key(|(_, count)| *count)?;
    Some(format!("losses ({:.1} % of the datagrams {place})", 100.0 * count as f64 / counts.sent as f64))
}

fn paced(options: &StreamOptions, row: &StreamRow) -> Option<String> {
    let settings = &options.template;
    let asked_bps = settings.options.pacing_bps? as f64
        * f64::from(settings.flows)
        * if settings.direction == Direction::Both { 2.0 } else { 1.0 };
    let reached = row.sender_bps?.median >= PACED * asked_bps;
    reached.then(|| "pacing, as requested".to_owned())
}

fn line(row: &StreamRow) -> Option<String> {
    let tcp = row.tcp.as_ref().and_then(|tcp| tcp.line_share);
    let udp = row.udp.as_ref().and_then(|udp| udp.line_share);
    let share = tcp.or(udp).filter(|share| *share >= LINE_FULL)?;
    Some(format!("the link ({:.0} % of its rate)", share * 100.0))
}

/// The busier end, if its threads have no time left.
fn threads(options: &StreamOptions, row: &StreamRow) -> Option<String> {
    let threads = threads_of_a_role(options)?;
    let share = |cpu: netcliff_core::stream::EndCpu| Some(cpu.busy?.median / f64::from(threads));
    let ends = [("receiver", share(row.receiver_cpu)?), ("sender", share(row.sender_cpu)?)];
    let (end, busy) = ends.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, busy)| *busy > BUSY)?;
    let (what, its) = if threads > 1 { ("threads", "their CPUs") } else { ("thread", "its CPU") };
    // The CPU time of a thread covers slightly more than its window, so the share may exceed 1.
    Some(format!("the {end}'s {what} ({:.0} % of {its})", busy.min(1.0) * 100.0))
}

fn window(row: &StreamRow) -> Option<String> {
    let tcp = row.tcp.as_ref()?;
    let limits = [("the receiver's window", tcp.receiver_limited), ("the send buffer", tcp.buffer_limited)];
    let shares = limits.into_iter().filter_map(|(what, share)| Some((what, share?.median)));
    let (what, share) = shares.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, share)| *share > HELD_BACK)?;
    Some(format!("{what} ({:.0} % of the time)", share * 100.0))
}

/// CPUs without idle time, used by this transfer and its softirqs or by other programs.
fn cpus(row: &StreamRow) -> Option<String> {
    let full: Vec<_> = row.system.iter().filter(|cpu| cpu.idle < 1.0 - BUSY).collect();
    if full.is_empty() {
        return None;
    }
    let names: Vec<String> = full.iter().map(|cpu| cpu.cpu.to_string()).collect();
    let which = format!("CPU{} {}", if full.len() > 1 { "s" } else { "" }, names.join(", "));
    let programs: f64 = full.iter().map(|cpu| cpu.user + cpu.nice + cpu.system).sum();
    let own = [row.sender_cpu, row.receiver_cpu].iter().filter_map(|cpu| Some(cpu.busy?.median)).sum::<f64>();
    let others = (programs - own).max(0.0) / full.len() as f64;
    Some(if others > OTHERS {
        format!("{OTHER_PROGRAMS} on {which} (about {:.0} %)", others * 100.0)
    } else {
        format!("{which} (no idle time, softirqs included)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Method;
    use crate::stream::tests::options;
    use netcliff_core::cpus::CpuRow;
    use netcliff_core::stream::{DatagramRow, EndCpu, Spread, TcpRow};

    fn row() -> StreamRow {
        let text = r#"{"path": "write", "block_bytes": 65536, "repeats": 5, "goodput_bps": null, "sends_per_s": null,
            "sender_bps": {"median": 1e9, "min": 1e9, "max": 1e9}, "receiver_bps": null, "bytes_per_receive": null,
            "sender_cpu": {"busy": null, "us_per_kib": null, "kernel_share": null},
            "receiver_cpu": {"busy": null, "us_per_kib": null, "kernel_share": null},
            "system": [], "system_us_per_kib": null}"#;
        serde_json::from_str(text).expect("a row")
    }

    /// Each limit is named; if several limits are reached, the first in the order of the checks.
    #[test]
    fn what_is_at_its_limit_is_named() {
        let spread = |value| Some(Spread { median: value, min: value, max: value });
        let end = |busy| EndCpu { busy: spread(busy), ..EndCpu::default() };
        let plain = options(Method::Default);
        let mut found = row();
        assert_eq!(limited_by(&plain, &found), None);
        found.system = vec![CpuRow { cpu: 3, idle: 0.01, ..CpuRow::default() }];
        assert_eq!(limited_by(&plain, &found).as_deref(), Some("CPU 3 (no idle time, softirqs included)"));
        found.system[0].user = 0.6;
        (found.sender_cpu, found.receiver_cpu) = (end(0.06), end(0.04));
        assert_eq!(limited_by(&plain, &found).as_deref(), Some("other programs on CPU 3 (about 50 %)"));
        found.tcp = Some(TcpRow { receiver_limited: spread(0.3), buffer_limited: spread(0.6), ..TcpRow::default() });
        assert_eq!(limited_by(&plain, &found).as_deref(), Some("the send buffer (60 % of the time)"));
        (found.sender_cpu, found.receiver_cpu) = (end(0.5), end(1.004));
        assert_eq!(limited_by(&plain, &found).as_deref(), Some("the receiver's thread (100 % of its CPU)"));
        found.tcp = Some(TcpRow { line_share: Some(0.97), ..TcpRow::default() });
        assert_eq!(limited_by(&plain, &found).as_deref(), Some("the link (97 % of its rate)"));
        let mut lossy = options(Method::Default);
        lossy.template.options.pacing_bps = Some(1_010_000_000);
        let counts = DatagramRow { sent: 1000, received: 650, lost: 350, refused: 340, ..DatagramRow::default() };
        let told = limited_by(&lossy, &StreamRow { datagrams: Some(counts), ..row() });
        assert_eq!(told.as_deref(), Some("losses (34.0 % of the datagrams refused by this end's queue or device)"));
        let mut paced = options(Method::Default);
        paced.template.options.pacing_bps = Some(1_010_000_000);
        assert_eq!(limited_by(&paced, &found).as_deref(), Some("pacing, as requested"));
        paced.template.options.pacing_bps = Some(2_000_000_000);
        assert_ne!(limited_by(&paced, &found).as_deref(), Some("pacing, as requested"));
    }
}
