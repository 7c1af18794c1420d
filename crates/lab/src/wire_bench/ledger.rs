//! The ledger of a trial of `find`.

use netcliff_core::ledger::{Ledger, Place};
use netcliff_host::drops::ledger::{Ends, Spaces};
use netcliff_host::testbed::netns::Side;
use netcliff_wire::run::WireRun;

use crate::ledger::{self, Way, row};
use crate::rig::Rig;
use crate::trial::{Trial, TrialError};

/// Makes a trial and accounts for all its packets, warm-up included.
///
/// # Errors
/// The trial's.
pub(super) fn of_trial(rig: &Rig, trial: impl FnOnce() -> Result<Trial, TrialError>) -> Result<Ledger, TrialError> {
    let (_, host) = rig.addresses();
    // An address that is not set yet, as with a generator elsewhere, would match nothing.
    let to = if host.ip().is_unspecified() { String::new() } else { format!(" and dst host {}", host.ip()) };
    let paths = [Side::Sender, Side::HostUnderTest].into_iter().filter_map(|side| rig.netns(side)).collect();
    let way =
        Way { filter: format!("udp dst port {}{to}", host.port()), groups: vec![Spaces { paths, up_to_tap: false }] };
    ledger::of_trial(&way, |traced| Ok(ends(&trial()?.wire, traced)))
}

/// What sender and sink know.
fn ends(run: &WireRun, traced: bool) -> Ends {
    let frames = &run.sender.frames;
    let sent = |reason: &str, packets: u64| row(Place::Sender, reason, packets, "the sender's send()");
    let sink = &run.sink;
    Ends {
        sent: frames.total(),
        delivered: sink.delivered + sink.duplicates + sink.too_old,
        rows: vec![sent("its send buffer was full", frames.sender_full), sent("port unreachable", frames.unreachable)],
        refused: (!traced).then_some(frames.refused),
    }
}
