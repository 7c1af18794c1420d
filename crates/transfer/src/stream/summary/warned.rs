//! Warnings: what limited a transfer or its results.

use netcliff_core::repeats::Known;
use netcliff_core::stream::{FullCpus, FullThreads, StreamRow, StreamWarning};
use netcliff_core::units;

use super::Config;
use crate::hosts::{BUSY, STEAL};
use crate::stream::StreamOptions;

/// Share of the time for which a window or buffer may limit a sender without a warning.
pub(super) const HELD_BACK: f64 = 0.2;
/// Share of the datagrams that a receiver's socket may drop without a warning.
const DROPPED: f64 = 0.001;

pub(super) fn warnings(options: &StreamOptions, rows: &[StreamRow], configs: &[Config]) -> Vec<StreamWarning> {
    let threads = threads_of_a_role(options);
    let of_rows = rows.iter().flat_map(|row| {
        let name = format!("{} of {}", row.path, units::print_bytes(row.block_bytes));
        let named = |warnings: Vec<String>| {
            warnings.into_iter().map(|warning| StreamWarning::Other(format!("{name}: {warning}"))).collect::<Vec<_>>()
        };
        let mut found = full_threads(&name, row, threads);
        found.extend(named(surprises(row)));
        found.extend(full_cpus(&name, row));
        found.extend(named([stolen(row), held_back(row, threads), dropped(row)].concat()));
        found
    });
    of_rows.chain(smaller_buffers(options, configs).into_iter().map(StreamWarning::Other)).collect()
}

/// The storage limits a transfer whose goodput is within these shares of the storage's own rate. A faster transfer did
/// not read from the storage.
const STORAGE: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// Warnings for rows whose goodput equals the rate of the storage. `storage_bps` is the rate at which one thread reads
/// the storage without a network (bit/s).
pub(super) fn storage(rows: &[StreamRow], storage_bps: f64) -> Vec<StreamWarning> {
    let of_row = |row: &StreamRow| {
        let share = row.goodput_bps.as_ref()?.median / storage_bps;
        let name = format!("{} of {}", row.path, units::print_bytes(row.block_bytes));
        let percent = share * 100.0;
        STORAGE.contains(&share).then(|| {
            let sentence =
                format!("{name}: the storage limits the rate, which is {percent:.0} % of its own without a network");
            StreamWarning::Other(sentence)
        })
    };
    rows.iter().filter_map(of_row).collect()
}

/// Warnings for threads that were fully busy.
fn full_threads(name: &str, row: &StreamRow, threads: Option<u32>) -> Vec<StreamWarning> {
    let Some(threads) = threads else { return Vec::new() };
    let ends = [(true, row.sender_cpu), (false, row.receiver_cpu)];
    let full = ends.into_iter().filter(|(_, cpu)| cpu.busy.is_some_and(|busy| busy.median > BUSY * f64::from(threads)));
    let warning = |(sends, _)| FullThreads { row: name.to_owned(), sends, several: threads > 1 };
    full.map(warning).map(StreamWarning::FullThreads).collect()
}

/// Warnings for a missed precision, and for ICMP errors that the network returned.
fn surprises(row: &StreamRow) -> Vec<String> {
    let shortfall = row.known.as_ref().and_then(Known::shortfall);
    let shortfall = shortfall.map(|shortfall| format!("goodput is {shortfall}"));
    let messages = row.datagrams.map(|datagrams| datagrams.unreachable).filter(|messages| *messages > 0);
    let unreachable = messages.map(|messages| {
        format!("{messages} ICMP messages said that port or host was unreachable; the transfer went on")
    });
    shortfall.into_iter().chain(unreachable).collect()
}

fn full_cpus(name: &str, row: &StreamRow) -> Option<StreamWarning> {
    let cpus: Vec<usize> = row.system.iter().filter(|cpu| cpu.idle < 1.0 - BUSY).map(|cpu| cpu.cpu).collect();
    (!cpus.is_empty()).then(|| StreamWarning::FullCpus(FullCpus { row: name.to_owned(), cpus }))
}

/// Warnings for CPU time that the hypervisor gave to others.
fn stolen(row: &StreamRow) -> Vec<String> {
    let steal = row.system.iter().map(|cpu| cpu.steal).fold(0.0, f64::max);
    (steal > STEAL).then(|| format!("the hypervisor took {:.1} % of a CPU", steal * 100.0)).into_iter().collect()
}

/// Warnings for a window or a buffer that was the limit. If the sender's threads were fully busy, they were the limit.
/// A fully busy receiver has a full window whatever the window's size, so its window is then not named.
fn held_back(row: &StreamRow, threads: Option<u32>) -> Vec<String> {
    let Some(tcp) = &row.tcp else { return Vec::new() };
    let is_full = |threads: u32| row.sender_cpu.busy.is_some_and(|busy| busy.median > BUSY * f64::from(threads));
    if threads.is_some_and(is_full) {
        return Vec::new();
    }
    let has_time = row.receiver_cpu.busy.is_none_or(|busy| busy.median < BUSY);
    let limits = [
        (tcp.receiver_limited.filter(|_| has_time), "the receiver's window", "--receive-buffer", "tcp_rmem"),
        (tcp.buffer_limited, "the send buffer", "--send-buffer", "tcp_wmem"),
    ];
    let found = limits.into_iter().filter_map(|(share, what, option, sysctl)| {
        let share = share?.median;
        let larger = format!("try a larger one ({option}, net.ipv4.{sysctl})");
        (share > HELD_BACK).then(|| format!("{what} held the sender back {:.0} % of the time: {larger}", share * 100.0))
    });
    found.collect()
}

fn dropped(row: &StreamRow) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(dropped) = row.device.map(|device| device.dropped).filter(|dropped| *dropped > 0) {
        found.push(format!("devices dropped {dropped} packets"));
    }
    let of_socket = row.datagrams.and_then(|counts| Some((counts.dropped?, counts.sent)));
    if let Some((dropped, sent)) = of_socket.filter(|(dropped, sent)| *dropped as f64 > DROPPED * *sent as f64) {
        let share = 100.0 * dropped as f64 / sent as f64;
        found.push(format!(
            "{share:.1} % of the datagrams arrived but found no room in the receiver's socket buffer: use a faster receiver, or a larger --receive-buffer (net.core.rmem_max)"
        ));
    }
    found
}

/// Warnings for buffers that the kernel made smaller than requested.
fn smaller_buffers(options: &StreamOptions, configs: &[Config]) -> Vec<String> {
    let mut all = configs.iter().filter_map(|config| config.repeats.last()?.transfer.flows.first()?.in_force.as_ref());
    let Some(in_force) = all.next_back() else { return Vec::new() };
    let requested = &options.template.options;
    let pairs = [
        ("send", "wmem_max", requested.send_buffer_bytes, Some(in_force.send_buffer_bytes)),
        ("receive", "rmem_max", requested.receive_buffer_bytes, in_force.receive_buffer_bytes),
    ];
    let smaller = pairs.into_iter().filter_map(|(which, limit, requested, actual)| {
        let (requested, actual) = (requested?, actual?);
        // The kernel doubles the requested size.
        let actual = u64::from(actual) / 2;
        let sentence = || {
            let actual = units::print_bytes(actual);
            format!("the {which} buffer is {actual}, less than requested: net.core.{limit} limits it")
        };
        (actual < u64::from(requested)).then(sentence)
    });
    smaller.collect()
}

/// Number of threads that only send, which is also the number of threads that only receive. `None` if there are both
/// roles in one thread, or more threads than can be expected to have a CPU each.
pub(super) fn threads_of_a_role(options: &StreamOptions) -> Option<u32> {
    let settings = &options.template;
    match settings.shared_threads() {
        Some(threads) => (settings.direction != crate::bulk::Direction::Both).then_some(threads),
        None => (settings.flows <= 1).then_some(1),
    }
}
