//! The ledger of a trial with real packets, the same for every command that has one: [`of_trial`].

use std::path::Path;
use std::time::{Duration, Instant};

use netcliff_core::ledger::{Ledger, LedgerRow, Place};
use netcliff_host::drops::counters::Counters;
use netcliff_host::drops::ledger::{Collector, Ends, Spaces};
use netcliff_packets::thread::in_netns;

/// How long what is left unexplained may still come: packets in a backlog, counters that are brought up to date by timers.
const SETTLES: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The way of a trial's packets through this host.
#[derive(Debug, Clone)]
pub struct Way {
    /// Which packets, in the language of tcpdump.
    pub filter: String,
    /// Where they are looked at: groups of network namespaces.
    pub groups: Vec<Spaces>,
}

/// Makes a trial and accounts for all its packets, warm-up included. `trial` is told whether drops are traced, and returns what its ends
/// know; its sockets are closed by then.
///
/// # Errors
/// The trial's.
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
        // What is taken to be lost unseen may still be under way.
        let is_sure = ledger.unexplained == 0 && ledger.not_shown_packets() == 0;
        if is_sure || Instant::now() > until {
            return Ok(ledger);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The counters of each namespace on the way; of this thread's where none is named. Of one that cannot be entered there are none.
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

/// Packets that an end knows to be lost.
pub fn row(place: Place, reason: &str, packets: u64, source: &str) -> LedgerRow {
    LedgerRow { place, reason: reason.to_owned(), packets, source: source.to_owned() }
}
