//! Collects the data of a trial's [`Ledger`], the account of where each of its packets ended: [`Collector`].
//!
//! With eBPF the rows are the kernel's drop reasons, for the trial's flow only. Counters add losses of packets that
//! never became an skb (in a NIC's ring, or by an XDP program in the driver); all other counters are shown next to the
//! sum as a check. Without eBPF, counters are the rows, and include losses of other traffic.

use super::{
    Ask, Reading, Site, Tally, Tracer, TracerError,
    counters::{BEFORE_TAP, Counters},
    symbols::Symbols,
    witness::Witness,
};
use crate::rtnl::RING_COUNTERS;
use netcliff_core::filter::Filter;
use netcliff_core::ledger::{Ledger, LedgerRow, Place};
use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

/// Functions that free the packets that are still in a queue when the queue is destroyed. Sources: net/ipv4/udp.c,
/// udp_destruct_common; net/core/skbuff.c.
pub(super) const EMPTIED: &[&str] =
    &["udp_destruct_common", "inet_sock_destruct", "skb_queue_purge", "skb_queue_purge_reason"];
/// Functions that free copies for captures, while the packet itself continues.
const COPIES: &[&str] = &["packet_rcv", "tpacket_rcv", "packet_rcv_spkt", "deliver_clone"];

/// Most attempts to read the tracers' and perf's counts without a drop in between: an attempt takes about 0.1 ms, and a
/// host rarely drops packets more often than that.
const STILL_TRIES: u32 = 10;

/// Network namespaces in which packets are traced.
#[derive(Debug, Clone, Default)]
pub struct Spaces {
    /// Paths of at most four namespaces; empty: all namespaces.
    pub paths: Vec<PathBuf>,
    /// Whether drops count only up to the device's tap, where a tester's sink takes the packet.
    pub up_to_tap: bool,
}

/// Traces the packets of trials.
#[derive(Debug)]
pub struct Collector {
    /// One per group of namespaces.
    tracers: Result<Vec<Watcher>, TracerError>,
    /// Counts drops that the tracers are known not to see; `Err` with the reason if it cannot.
    witness: Result<Witness, String>,
    symbols: Symbols,
}

#[derive(Debug)]
struct Watcher {
    tracer: Tracer,
    up_to_tap: bool,
}

/// All counts at the start of a trial.
#[derive(Debug)]
pub struct Opened {
    /// One per tracer; `None` if a tracer could not be read.
    traced: Option<Vec<Reading>>,
    /// Drops while process 1 was running on a CPU, counted by perf; `None` if they could not be read.
    counted: Option<u64>,
    counters: Vec<Counters>,
}

/// Counts of the two ends of a trial.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// Packets offered.
    pub sent: u64,
    /// Packets that the receiving program read.
    pub delivered: u64,
    /// Packets lost at an end before the kernel had a packet, as at a full send buffer.
    pub rows: Vec<LedgerRow>,
    /// Packets refused by the receiver's backlog, if the sender is informed; `None` if unknown.
    pub refused: Option<u64>,
}

impl Collector {
    /// Traces packets accepted by a filter in the network namespaces with these paths (empty: all). Uses only counters
    /// if tracing is not possible.
    pub fn new(filter: Filter, spaces: &[PathBuf]) -> Collector {
        Self::of(&filter, &[Spaces { paths: spaces.to_vec(), up_to_tap: false }])
    }

    /// As [`Collector::new`], for several groups of namespaces, which must not overlap.
    pub fn of(filter: &Filter, groups: &[Spaces]) -> Collector {
        let watcher = |Spaces { paths, up_to_tap }: &Spaces| {
            let spaces = paths.iter().filter_map(|path| Some(fs::metadata(path).ok()?.ino())).collect();
            let ask = Ask { filter: Some(filter.clone()), spaces, segments: true, ..Ask::default() };
            Ok(Watcher { tracer: Tracer::start(&ask)?, up_to_tap: *up_to_tap })
        };
        let tracers: Result<Vec<Watcher>, TracerError> = groups.iter().map(watcher).collect();
        let symbols = if tracers.is_ok() { Symbols::read().unwrap_or_default() } else { Symbols::default() };
        let witness = if tracers.is_ok() { Witness::start() } else { Err("nothing is traced".to_owned()) };
        Collector { tracers, witness, symbols }
    }

    /// Returns a collector that uses counters only; `reason` says why nothing is traced.
    pub fn by_counters(reason: impl Into<String>) -> Collector {
        let witness = Err("nothing is traced".to_owned());
        Collector { tracers: Err(TracerError { reason: reason.into() }), witness, symbols: Symbols::default() }
    }

    /// True if the kernel's drop reasons are traced.
    pub fn is_traced(&self) -> bool {
        self.tracers.is_ok()
    }

    fn read(&self) -> Option<Vec<Reading>> {
        self.tracers.as_ref().ok()?.iter().map(|watcher| watcher.tracer.read().ok()).collect()
    }

    /// Reads the tracers' counts, and perf's count just before and just after them. The two counts of perf are equal
    /// unless the host drops packets all the time.
    fn read_still(&self) -> (Option<Vec<Reading>>, Option<[u64; 2]>) {
        let counted = || self.witness.as_ref().ok()?.read();
        let (mut before, mut tries) = (counted(), 0);
        loop {
            let (traced, after) = (self.read(), counted());
            tries += 1;
            if before == after || tries == STILL_TRIES {
                return (traced, before.zip(after).map(|(before, after)| [before, after]));
            }
            before = after;
        }
    }

    /// Begins a trial. `counters`: the counters of each network namespace on the path, in any order.
    pub fn open(&self, counters: Vec<Counters>) -> Opened {
        // Perf's later count is used here and its earlier count at the end, so that other traffic's drops during a
        // reading do not count as missed by the tracers.
        let (traced, counted) = self.read_still();
        let counted = counted.map(|[_, after]| after);
        Opened { traced, counted, counters }
    }

    /// The ledger of a trial that has ended, with its sockets closed. `counters`: in the order of [`Collector::open`].
    pub fn close(&self, opened: &Opened, counters: &[Counters], ends: Ends) -> Ledger {
        let grown = opened.counters.iter().zip(counters).flat_map(|(before, after)| before.until(after));
        let grown = once(grown.collect());
        let (after, counted) = self.read_still();
        let counted = opened.counted.zip(counted).map(|(before, [now, _])| now.saturating_sub(before));
        let (Ok(watchers), Some(before), Some(after)) = (&self.tracers, &opened.traced, after) else {
            return self.counted(grown, ends);
        };
        let read: Vec<Reading> = before.iter().zip(&after).map(|(before, after)| before.until(after)).collect();
        // Each tracer's program runs at every drop, so their times add up.
        let tracing_ns = read.iter().map(|one| one.timed_ns.checked_div(one.timed)).sum();
        let shown = read.first().map_or(0, |one| one.in_first);
        let ledger = Ledger { tracing_ns, ..self.traced(watchers, &read, grown, ends) };
        match (counted, &self.witness) {
            (Some(counted), _) => {
                let hidden = counted.saturating_sub(shown);
                ledger.with_not_shown(hidden, most_packets_of_a_drop(&read), "perf, at skb:kfree_skb")
            }
            (None, Err(why)) if ledger.unexplained > 0 => unchecked(ledger, why),
            (None, _) => ledger,
        }
    }

    fn traced(&self, watchers: &[Watcher], grown: &[Reading], counters: Vec<LedgerRow>, ends: Ends) -> Ledger {
        let mut inside = 0;
        let mut rows = ends.rows;
        let mut limits = Vec::new();
        for (watcher, grown) in watchers.iter().zip(grown) {
            inside += self.rows_of(watcher, grown, &mut rows);
            let own = grown.limits().into_iter().chain(watcher.tracer.limits().iter().cloned());
            limits.extend(own.filter(|limit| !limits.contains(limit)).collect::<Vec<_>>());
        }
        limits.extend(self.symbols.limit());
        let mut beside = Vec::new();
        for row in counters {
            let known = |row: &&LedgerRow| row.place == Place::Xdp;
            let seen: u64 = rows.iter().filter(known).map(|row| row.packets).sum();
            match row.place {
                Place::Xdp if row.packets > seen => rows.push(LedgerRow { packets: row.packets - seen, ..row }),
                Place::Nic if RING_COUNTERS.contains(&row.reason.as_str()) => rows.push(row),
                _ => beside.push(row),
            }
        }
        Ledger {
            counters: beside,
            method: "eBPF (skb:kfree_skb), the trial's packets only".to_owned(),
            limits,
            ..Ledger::balance(ends.sent, ends.delivered, inside, rows)
        }
    }

    /// Adds the drops of a tracer to `rows`; returns the number of packets that were still in a queue when it was
    /// destroyed.
    fn rows_of(&self, watcher: &Watcher, grown: &Reading, rows: &mut Vec<LedgerRow>) -> u64 {
        let mut inside = 0;
        for (Site { location, reason }, Tally { packets, .. }) in &grown.sites {
            let function = self.symbols.function(*location).unwrap_or_default();
            // For a function split by the compiler: `udp_destruct_common.part.0`.
            let function = function.split('.').next().unwrap_or_default();
            let reason = watcher.tracer.reason_at(*reason, function);
            let place = Place::of(&reason, function);
            if COPIES.contains(&function) || watcher.up_to_tap && !BEFORE_TAP.contains(&place) {
                continue;
            }
            if EMPTIED.contains(&function) {
                inside += packets;
                continue;
            }
            rows.push(LedgerRow { place, reason, packets: *packets, source: self.symbols.at(*location) });
        }
        inside
    }

    fn counted(&self, counters: Vec<LedgerRow>, ends: Ends) -> Ledger {
        let mut rows = ends.rows;
        let mut beside = Vec::new();
        for row in counters {
            let counts = match row.place {
                // The sender's count of refused packets is exact, while the backlog's counter is of the whole host.
                Place::Backlog => ends.refused.is_none(),
                // Drops of a virtual device also count at the next place.
                Place::Nic => RING_COUNTERS.contains(&row.reason.as_str()),
                Place::Transport | Place::Socket => !row.reason.starts_with("Tcp"),
                _ => true,
            };
            if counts { rows.push(row) } else { beside.push(row) }
        }
        if let Some(refused) = ends.refused {
            let source = "the sender's send() returned an error".to_owned();
            rows.push(LedgerRow { place: Place::Backlog, reason: "refused".to_owned(), packets: refused, source });
        }
        let why =
            self.tracers.as_ref().err().map(|error| format!("by counters, which include what others lost: {error}"));
        Ledger {
            counters: beside,
            method: "counters".to_owned(),
            limits: why.into_iter().collect(),
            ..Ledger::balance(ends.sent, ends.delivered, 0, rows)
        }
    }
}

/// Largest mean number of packets (segments) per drop over all sites.
fn most_packets_of_a_drop(read: &[Reading]) -> u64 {
    let tallies = read.iter().flat_map(|one| one.sites.values());
    tallies.map(|tally| tally.packets.div_ceil(tally.drops.max(1))).max().unwrap_or(1).max(1)
}

/// Adds to the ledger's limits that nothing shows whether the tracer saw each drop.
fn unchecked(mut ledger: Ledger, why: &str) -> Ledger {
    ledger.limits.push(format!("whether the kernel ran the tracer's program at each drop is not known: {why}"));
    ledger
}

/// Counts each loss once: uses the largest of several counters of one loss at a device's ring, and one of several
/// readings of a counter of the whole host.
fn once(rows: Vec<LedgerRow>) -> Vec<LedgerRow> {
    let mut kept: Vec<LedgerRow> = Vec::new();
    for row in rows {
        let ring = |row: &LedgerRow| RING_COUNTERS.contains(&row.reason.as_str());
        let same = |known: &&mut LedgerRow| {
            let both = known.source == row.source && known.place == row.place;
            both && (ring(known) && ring(&row) || row.place == Place::Backlog && known.reason == row.reason)
        };
        match kept.iter_mut().find(same) {
            Some(known) if row.packets > known.packets => *known = row,
            Some(_) => {}
            None => kept.push(row),
        }
    }
    kept
}
