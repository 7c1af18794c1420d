//! Both halves of a transfer in this process.

use std::net::IpAddr;
use std::thread;

use netcliff_host::nic::path::source_towards;

use super::conduct::{self, EndResult, Go, Part};
use super::open::{self, Opener, Recipe};
use super::options::InForce;
use super::{Channel, Direction, Flow, Settings, Spans, Transfer, Watch};
use netcliff_packets::error::WireError;
use netcliff_packets::thread::Placement;

pub(super) fn run(settings: &Settings, spans: Spans, watch: &mut dyn Watch) -> Result<Transfer, WireError> {
    let flows = settings.flow_directions();
    let near = near_address(settings)?;
    let mut parts = Vec::new();
    for (flow, forward) in flows.iter().enumerate() {
        parts.extend(pair(settings, near, spans, flow, *forward)?);
    }
    let played = conduct::run_flows(settings, spans, parts, None, watch)?;
    let cut_short = played.cut_short(|place| place % 2 == 1);
    let mut sides = played.sides.into_iter();
    let mut made = Vec::new();
    for forward in flows {
        // `pair` returns the receiver first, then the sender.
        if let (Some(receiver), Some(sender)) = (sides.next(), sides.next()) {
            made.push(flow(forward, sender, receiver));
        }
    }
    Ok(Transfer { flows: made, cut_short, far: None, many: None })
}

/// Combines the two ends of a flow.
pub(super) fn flow(forward: bool, sender: EndResult, receiver: EndResult) -> Flow {
    let receive_buffer_bytes = receiver.in_force.and_then(|theirs| theirs.receive_buffer_bytes);
    let in_force = sender.in_force.map(|own| InForce { receive_buffer_bytes, ..own });
    Flow { forward, sender: sender.end, receiver: receiver.end, tcp: sender.tcp, in_force }
}

/// Address of datagrams to the near end. If the near end has its own network namespace, this is the source address that
/// it would use. `None`: the channel's address.
fn near_address(settings: &Settings) -> Result<Option<IpAddr>, WireError> {
    let Channel::Udp { address, .. } = settings.channel else { return Ok(None) };
    let both = settings.direction == Direction::Both && settings.near.netns != settings.far.netns;
    if settings.near_address.is_some() || !both {
        return Ok(settings.near_address);
    }
    let place = Placement { netns: settings.near.netns.clone(), ..Placement::default() };
    let ask = || {
        place.enter()?;
        let failed = |e| WireError::system(format!("find the near end's address towards {address}"), e);
        source_towards(address).map_err(failed)
    };
    // A thread cannot leave a namespace again, so a separate thread enters it.
    let answer = thread::scope(|scope| scope.spawn(ask).join());
    answer.map_err(|panic| WireError::died("transfer", &*panic))?.map(Some)
}

/// The receiver and the sender of a flow.
fn pair(
    settings: &Settings,
    near: Option<IpAddr>,
    spans: Spans,
    flow: usize,
    forward: bool,
) -> Result<[Part<'_>; 2], WireError> {
    let recipe =
        |address, multipath| Recipe { address, multipath, options: &settings.options, stall_ns: spans.stall_ns };
    // The first of the two is the far end of a connection, or the end that receives.
    let ((first, second), receives_first): ((Opener<'_>, Opener<'_>), bool) = match &settings.channel {
        Channel::Tcp { address, multipath } => (open::tcp(recipe(*address, *multipath)), forward),
        Channel::Unix => (open::unix(recipe([0; 4].into(), false))?, forward),
        Channel::Udp { address, .. } => {
            // Datagrams are sent to the receiver's address.
            let near = near.filter(|_| !forward);
            (open::udp(recipe(near.unwrap_or(*address), false)), true)
        }
        Channel::Pipe => (open::pipe()?, true),
    };
    let (receiving, sending) = if receives_first { (first, second) } else { (second, first) };
    let (near, far) = (settings.near_placement(flow), settings.far_placement(flow));
    let (sends, receives) = if forward { (near, far) } else { (far, near) };
    let part = |sender, placement, opener| {
        // In the forward direction, the near end sends.
        Part { flow, sender, near: sender == forward, placement, opener, go: Go::Gate }
    };
    Ok([part(false, receives, receiving), part(true, sends, sending)])
}
