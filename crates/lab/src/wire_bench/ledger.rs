//! The ledger of a trial with real packets.

use std::time::{Duration, Instant};

use netcliff_core::ledger::{Ledger, LedgerRow, Place};
use netcliff_host::drops::counters::Counters;
use netcliff_host::drops::ledger::{Collector, Ends};
use netcliff_host::testbed::netns::Side;
use netcliff_wire::run::WireRun;

use crate::rig::Rig;
use crate::trial::{Trial, TrialError};

/// How long what is left unexplained may still come: packets in a backlog, counters that are brought up to date by timers.
const SETTLES: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Makes a trial and accounts for all its packets, warm-up included.
///
/// # Errors
/// The trial's.
pub(super) fn of_trial(rig: &Rig, trial: impl FnOnce() -> Result<Trial, TrialError>) -> Result<Ledger, TrialError> {
    let (_, host) = rig.addresses();
    // An address that is not set yet, as with a generator elsewhere, would match nothing.
    let to = if host.ip().is_unspecified() { String::new() } else { format!(" and dst host {}", host.ip()) };
    let filter = format!("udp dst port {}{to}", host.port());
    let spaces: Vec<_> = [Side::Sender, Side::HostUnderTest].into_iter().filter_map(|side| rig.netns(side)).collect();
    let collector = match filter.parse() {
        Ok(filter) => Collector::new(filter, &spaces),
        Err(error) => Collector::by_counters(error.to_string()),
    };
    let opened = collector.open(counters(rig)?);
    let ends = ends(&trial()?.wire, collector.is_traced());
    let until = Instant::now() + SETTLES;
    loop {
        let ledger = collector.close(&opened, &counters(rig)?, ends.clone());
        if ledger.unexplained == 0 || Instant::now() > until {
            return Ok(ledger);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Of the host under test, and of the sender where it is a namespace of its own.
fn counters(rig: &Rig) -> Result<Vec<Counters>, TrialError> {
    let sender = rig.testbed().map(|testbed| testbed.run_in_sender(Counters::now)).transpose()?;
    Ok(sender.into_iter().chain([rig.in_host(Counters::now)?]).collect())
}

/// What sender and sink know.
fn ends(run: &WireRun, traced: bool) -> Ends {
    let frames = &run.sender.frames;
    let row = |reason: &str, packets: u64| LedgerRow {
        place: Place::Sender,
        reason: reason.to_owned(),
        packets,
        source: "the sender's send()".to_owned(),
    };
    let sink = &run.sink;
    Ends {
        sent: frames.total(),
        delivered: sink.delivered + sink.duplicates + sink.too_old,
        rows: vec![row("its send buffer was full", frames.sender_full), row("port unreachable", frames.unreachable)],
        refused: (!traced).then_some(frames.refused),
    }
}
