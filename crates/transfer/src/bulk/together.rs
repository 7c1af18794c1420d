//! Several ends in one thread, from start to end.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::{self, Builder};

use super::conduct::{Go, Part, Shared, ThreadResult, await_go, begin, mover, say_go, show};
use super::conductor::{Event, ExitNotifier};
use super::gate::Arrival;
use super::open::Opener;
use super::turns::{self, Ready};
use netcliff_packets::error::WireError;

/// Runs the ends of several flows in the calling thread. All of them belong to one end of the transfer.
pub(super) fn at_work(
    shared: &Shared<'_>,
    parts: Vec<Part<'_>>,
    leads: bool,
    events: &mpsc::Sender<Event>,
) -> ThreadResult {
    let mut arrival = Arrival(Some(&shared.gate));
    if let Some(part) = parts.first() {
        // A thread has one placement, which is that of all its flows.
        part.placement.enter()?;
    }
    let (ends, openers): (Vec<_>, Vec<_>) =
        parts.into_iter().map(|part| ((part.flow, part.sender, part.go), part.opener)).unzip();
    let Some(channels) = opened(openers)? else { return Ok(None) };
    let mut movers = Vec::new();
    for ((flow, sender, _), channel) in ends.iter().zip(&channels) {
        show(shared, *flow, *sender, channel, events)?;
        movers.push(mover(shared, *flow, *sender, channel, false)?);
    }
    let of =
        |wanted: Go| ends.iter().zip(&channels).filter(move |((.., go), _)| *go == wanted).map(|(_, channel)| channel);
    of(Go::Await).try_for_each(await_go)?;
    arrival.0 = None;
    if !shared.gate.pass() {
        return Ok(None);
    }
    let ready = ends.iter().zip(&channels).zip(movers).map(|(((flow, sender, _), channel), mover)| {
        let exit = ExitNotifier { events, leads: *sender == leads, failed: true };
        Ready { sender: *sender, channel, mover, exit, shown: shared.live.of(*flow, *sender) }
    });
    let ready: Vec<Ready<'_>> = ready.collect();
    of(Go::Say).try_for_each(say_go)?;
    let began_ns = begin(shared.settings);
    let mut done = turns::serve(shared, ready)?;
    done.iter_mut().for_each(|(end, _)| end.began_ns = began_ns);
    Ok(Some(done))
}

/// Opens all channels at once, each in a thread with the placement of the calling one. One after the other, each would
/// take its own round trips. `None` if another end gave up.
fn opened(openers: Vec<Opener<'_>>) -> Result<Option<Vec<OwnedFd>>, WireError> {
    let opened: Result<Vec<_>, WireError> = thread::scope(|scope| {
        let mut opening = Vec::new();
        for opener in openers {
            let thread = Builder::new().name("opener".into()).spawn_scoped(scope, opener);
            opening.push(thread.map_err(|e| WireError::system("start a thread that opens a flow's channel", e))?);
        }
        let opened = opening.into_iter().map(|thread| thread.join());
        opened.map(|opened| opened.map_err(|panic| WireError::died("transfer", &*panic))?).collect()
    });
    Ok(opened?.into_iter().collect())
}
