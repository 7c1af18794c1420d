//! Collects what a trial's [`Ledger`] needs: [`Collector`].
//!
//! With eBPF the kernel's own reasons for the trial's flow alone are the rows. Counters then add what never became an skb (a NIC's ring, an
//! XDP program in the driver), and else stand beside the sum as a second witness. Without eBPF counters are the rows; they include what others lost.

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

/// A queue that was emptied at its end: what was in it was still inside. Sources: net/ipv4/udp.c, udp_destruct_common; net/core/skbuff.c.
pub(super) const EMPTIED: &[&str] =
    &["udp_destruct_common", "inet_sock_destruct", "skb_queue_purge", "skb_queue_purge_reason"];
/// Where copies for captures end: the packet itself goes on.
const COPIES: &[&str] = &["packet_rcv", "tpacket_rcv", "packet_rcv_spkt", "deliver_clone"];

/// How often both counts are read until nothing is dropped between them: a reading takes some 0.1 ms, and a host rarely drops so often.
const STILL_TRIES: u32 = 10;

/// Network namespaces in which packets are watched.
#[derive(Debug, Clone, Default)]
pub struct Spaces {
    /// Paths of at most four; none: all.
    pub paths: Vec<PathBuf>,
    /// What is dropped there counts as far as the device's tap only: a tester's sink has taken the rest.
    pub up_to_tap: bool,
}

/// Watches the packets of trials.
#[derive(Debug)]
pub struct Collector {
    /// One a group of namespaces.
    tracers: Result<Vec<Watcher>, TracerError>,
    /// Counts where the tracers are known to be shown nothing; the reason where it cannot.
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
    /// One a watcher; None: they could not be read.
    traced: Option<Vec<Reading>>,
    /// Drops while process 1 had a CPU, as the kernel counts them; None: they could not be read.
    counted: Option<u64>,
    counters: Vec<Counters>,
}

/// What the ends of a trial know.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// Packets offered.
    pub sent: u64,
    /// Packets read by the receiving program.
    pub delivered: u64,
    /// Packets that an end knows to be lost where the kernel has no packet yet, such as by a full send buffer.
    pub rows: Vec<LedgerRow>,
    /// Packets that the receiver's backlog refused, where the sender is told.
    pub refused: Option<u64>,
}

impl Collector {
    /// Watches packets that a filter accepts, in the network namespaces at these paths (in all if there are none); with counters alone where
    /// they cannot be traced.
    pub fn new(filter: Filter, spaces: &[PathBuf]) -> Collector {
        Self::of(&filter, &[Spaces { paths: spaces.to_vec(), up_to_tap: false }])
    }

    /// The same in several groups of namespaces, which may not overlap.
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

    /// By counters alone.
    pub fn by_counters(reason: impl Into<String>) -> Collector {
        let witness = Err("nothing is traced".to_owned());
        Collector { tracers: Err(TracerError { reason: reason.into() }), witness, symbols: Symbols::default() }
    }

    /// Whether the kernel's reasons are traced.
    pub fn is_traced(&self) -> bool {
        self.tracers.is_ok()
    }

    fn read(&self) -> Option<Vec<Reading>> {
        self.tracers.as_ref().ok()?.iter().map(|watcher| watcher.tracer.read().ok()).collect()
    }

    /// Both counts at one moment, perf's just before and just after the tracers': they are the same unless the host drops all the time.
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

    /// A trial begins. `counters`: those of each network namespace on the way, in any order.
    pub fn open(&self, counters: Vec<Counters>) -> Opened {
        // The later one here and the earlier one in the end: what others drop in between is not taken as missed.
        let (traced, counted) = self.read_still();
        let counted = counted.map(|[_, after]| after);
        Opened { traced, counted, counters }
    }

    /// It has ended, and its sockets are closed: where its packets went. `counters`: in the order of [`Collector::open`].
    pub fn close(&self, opened: &Opened, counters: &[Counters], ends: Ends) -> Ledger {
        let grown = opened.counters.iter().zip(counters).flat_map(|(before, after)| before.until(after));
        let grown = once(grown.collect());
        let (after, counted) = self.read_still();
        let counted = opened.counted.zip(counted).map(|(before, [now, _])| now.saturating_sub(before));
        let (Ok(watchers), Some(before), Some(after)) = (&self.tracers, &opened.traced, after) else {
            return self.counted(grown, ends);
        };
        let read: Vec<Reading> = before.iter().zip(&after).map(|(before, after)| before.until(after)).collect();
        // Each program runs at every drop.
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
            let told = grown.limits().into_iter().chain(watcher.tracer.limits().iter().cloned());
            limits.extend(told.filter(|told| !limits.contains(told)).collect::<Vec<_>>());
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

    /// Adds what a watcher saw dropped; returns how many were in a queue that was emptied at its end.
    fn rows_of(&self, watcher: &Watcher, grown: &Reading, rows: &mut Vec<LedgerRow>) -> u64 {
        let mut inside = 0;
        for (Site { location, reason }, Tally { packets, .. }) in &grown.sites {
            let function = self.symbols.function(*location).unwrap_or_default();
            // Of a function that the compiler split: `udp_destruct_common.part.0`.
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
                // What the sender was told is exact; the counter is the whole host's.
                Place::Backlog => ends.refused.is_none(),
                // A virtual device's own drops are the next place's once more.
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

/// The largest of the drops' means over the sites: how many segments a drop stands for.
fn most_packets_of_a_drop(read: &[Reading]) -> u64 {
    let tallies = read.iter().flat_map(|one| one.sites.values());
    tallies.map(|tally| tally.packets.div_ceil(tally.drops.max(1))).max().unwrap_or(1).max(1)
}

/// Nothing tells whether the tracer was shown each drop.
fn unchecked(mut ledger: Ledger, why: &str) -> Ledger {
    ledger.limits.push(format!("whether the kernel ran the tracer's program at each drop is not known: {why}"));
    ledger
}

/// Of one loss at the ring that a device shows under several names the largest, and of counters that are the whole host's one.
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
