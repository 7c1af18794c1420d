//! A sweep in a testbed: bytes go from its sender to its host under test.

use netcliff_core::stream::StreamReport;
use netcliff_host::testbed::netns::Side;
use netcliff_wire::WireError;
use netcliff_wire::thread::Placement;
use netcliff_wire::transfer::{Channel, Direction};

use super::{Far, StreamOptions, measured};
use crate::hosts::Fingerprints;
use crate::rig::Rig;

/// Measures the sweep in a testbed. Whichever end of the connection sends is in the testbed's sender, on its CPU; with
/// both directions the near end is.
///
/// # Errors
/// As [`super::run`].
pub fn in_testbed(options: &StreamOptions, rig: &Rig, said: &mut dyn FnMut(&str)) -> Result<StreamReport, WireError> {
    let placed = placed(options, rig);
    let mut report = measured(&placed, &mut Far::Here, Fingerprints::of_rig(rig), &rig.limits, said)?;
    report.asked.push(("testbed".to_owned(), rig.describe()));
    report.asked.extend(rig.link().map(|link| ("link".to_owned(), link)));
    Ok(report)
}

/// The same sweep with its ends in the testbed.
pub fn placed(options: &StreamOptions, rig: &Rig) -> StreamOptions {
    let mut placed = options.clone();
    let place = |side, cpu: u32| Placement {
        netns: rig.netns(side),
        cpu: Some(cpu as usize),
        priority: options.template.near.priority,
    };
    let asked = match &options.template.channel {
        Channel::Tcp { address, .. } | Channel::Udp { address, .. } => address.is_ipv6(),
        Channel::Unix | Channel::Pipe => false,
    };
    let (from, to) = rig.ends(asked).unwrap_or_else(|| (rig.host_address(), rig.host_address()));
    let (sender, receiver) = (place(Side::Sender, rig.sender_cpu), place(Side::HostUnderTest, rig.host_cpu));
    let direction = options.method.direction().unwrap_or(options.template.direction);
    let far_address = match direction {
        Direction::Receive => {
            (placed.template.near, placed.template.far) = (receiver, sender);
            from
        }
        Direction::Send | Direction::Both => {
            (placed.template.near, placed.template.far) = (sender, receiver);
            to
        }
    };
    if let Channel::Tcp { address, .. } | Channel::Udp { address, .. } = &mut placed.template.channel {
        // A datagram goes to its receiver, whichever end that is.
        let datagrams = direction == Direction::Receive && matches!(options.template.channel, Channel::Udp { .. });
        *address = if datagrams { to } else { far_address };
    }
    placed.template.near_address = (direction == Direction::Both).then_some(from);
    placed
}
