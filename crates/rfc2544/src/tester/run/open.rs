//! Opens the rings at the two ports of each direction, and determines which timestamps the ports offer.

use super::super::frame::Templates;
use super::super::stamps::{End, PortStamps, Stamps, Tagger, Tap};
use super::{Direction, Methods, Port};
use netcliff_packets::error::WireError;
use netcliff_packets::port::{self, OpenReceiver, OpenSender};
use netcliff_packets::thread::Placement;

/// The port where frames leave, opened.
pub(super) struct Near {
    pub(super) opened: OpenSender,
    pub(super) stamps: PortStamps,
    pub(super) tagger: Option<Tagger>,
}

/// The port where frames arrive, opened.
pub(super) struct Far {
    pub(super) opened: OpenReceiver,
    pub(super) stamps: PortStamps,
    pub(super) tap: Option<Tap>,
}

/// Moves the thread into a port's namespace. Returns the timestamps that the port offers.
fn enter(port: &Port, by: Methods, end: End) -> Result<PortStamps, WireError> {
    Placement { netns: port.netns.clone(), ..Placement::default() }.enter()?;
    let stamps = PortStamps::of(&port.interface);
    stamps.check(by.stamps, end)?;
    Ok(stamps)
}

/// The timestamps for which the tagged frame needs separate sockets. `None` for the application's clock.
fn asked(by: Methods) -> Option<Stamps> {
    Some(by.stamps).filter(|stamps| *stamps != Stamps::Application)
}

/// Opens the sender of every direction. At a port that is also to receive by AF_XDP, a sender by AF_XDP gets memory to
/// share with the receiver.
pub(super) fn senders(
    directions: &[Direction],
    templates: &[Templates],
    by: Methods,
    max_burst: usize,
) -> Result<Vec<Near>, WireError> {
    let one = |(direction, own): (&Direction, &Templates)| {
        let port = &direction.from;
        let stamps = enter(port, by, End::Near)?;
        // Find the opposite direction, whose frames arrive at this port.
        let back = directions.iter().position(|other| other.to == *port && by.receive.tries_xdp(&port.interface));
        let received = back.map(|back| templates[back].longest());
        let opened = port::open_sender_beside(by.send, &port.interface, own.filler(), max_burst, received)?;
        let tagger = asked(by).map(|asked| Tagger::open(&port.interface, own.filler(), asked)).transpose()?;
        Ok(Near { opened, stamps, tagger })
    };
    directions.iter().zip(templates).map(one).collect()
}

/// Opens the receiver of every direction. It uses the memory that a sender at the same port shares.
pub(super) fn receivers(
    directions: &[Direction],
    templates: &[Templates],
    by: Methods,
    senders: &mut [Near],
) -> Result<Vec<Far>, WireError> {
    let mut one = |(direction, own): (&Direction, &Templates)| {
        let port = &direction.to;
        let stamps = enter(port, by, End::Far)?;
        let beside = directions.iter().position(|other| other.from == *port);
        let lent = beside.and_then(|beside| senders[beside].opened.lent.take());
        let opened = port::open_receiver_beside(by.receive, &port.interface, own.longest(), lent)?;
        let tap = asked(by).map(|asked| Tap::open(&port.interface, asked)).transpose()?;
        Ok(Far { opened, stamps, tap })
    };
    directions.iter().zip(templates).map(&mut one).collect()
}
