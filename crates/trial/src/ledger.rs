//! The ledger of a trial with real packets, which says what happened to each packet: [`of_trial`].

use std::path::Path;
use std::time::{Duration, Instant};

use netcliff_core::ledger::{Ledger, LedgerRow, Place};
use netcliff_host::drops::counters::Counters;
use netcliff_host::drops::ledger::{Collector, Ends, Spaces};
use netcliff_packets::thread::in_netns;

/// Longest time to wait until packets that are not yet accounted for are counted: they may still be in a backlog, or in
/// counters that the kernel updates by a timer.
const SETTLES: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Path of a trial's packets through this host.
#[derive(Debug, Clone)]
pub struct Way {
    /// Filter that selects the packets, in tcpdump's language.
    pub filter: String,
    /// Where packets are counted: groups of network namespaces.
    pub groups: Vec<Spaces>,
}

/// Makes a trial and accounts for all its packets, warm-up included. `trial` makes the trial, closes its sockets, and
/// returns the counts of sender and receiver. Its argument says whether drops are traced.
///
/// # Errors
/// The error of the trial.
pub fn of_trial<E>(way: &Way, trial: impl FnOnce(bool) -> Result<Ends, E>) -> Result<Ledger, E> {
    let collector = match way.filter.parse() {
        Ok(filter) => Collector::of(&filter, &way.groups),
        Err(error) => Collector::by_counters(format!("{error}")),
    };
    let opened = collector.open(counters(&way.groups));
    let ends = trial(collector.is_traced())?;
    let until = Instant::now() + SETTLES;
    loop {
        let ledger = collector.close(&opened, &counters(&way.groups), ends.clone());
        // Packets that seem to be lost without a trace may still be on their way.
        let is_sure = ledger.unexplained == 0 && ledger.not_shown_packets() == 0;
        if is_sure || Instant::now() > until {
            return Ok(ledger);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Counters of each namespace of each group; a group without namespaces stands for the namespace of this thread. A
/// namespace that cannot be entered has no counters.
fn counters(groups: &[Spaces]) -> Vec<Counters> {
    let read = |group: &Spaces, netns: Option<&Path>| {
        let now = in_netns(netns, Counters::now).unwrap_or_default();
        if group.up_to_tap { now.up_to_tap() } else { now }
    };
    let all = groups.iter().flat_map(|group| {
        let none = group.paths.is_empty().then_some(None);
        let paths = group.paths.iter().map(|path| Some(path.as_path()));
        none.into_iter().chain(paths).map(|netns| read(group, netns)).collect::<Vec<_>>()
    });
    all.collect()
}

/// Makes a ledger row for packets whose loss the sender or receiver counted.
pub fn row(place: Place, reason: &str, packets: u64, source: &str) -> LedgerRow {
    LedgerRow { place, reason: reason.to_owned(), packets, source: source.to_owned() }
}
