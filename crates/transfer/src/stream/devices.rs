//! Selects the devices whose packets are counted: the devices of both ends on this host, and the devices that a far end
//! counts itself.

use std::path::{Path, PathBuf};

use crate::bulk::{Channel, Direction};
use netcliff_host::nic::counts::DeviceCounts;
use netcliff_host::nic::path::is_own;
use netcliff_packets::thread::in_netns;

use super::{Far, StreamOptions};

/// A network namespace whose device counts are read.
#[derive(Debug, Clone)]
struct Place {
    netns: Option<PathBuf>,
    loopback: bool,
}

impl Place {
    fn read(&self) -> Option<DeviceCounts> {
        let counts = in_netns(self.netns.as_deref(), || DeviceCounts::read(self.loopback).ok()).ok().flatten()?;
        // Loopback and the links between namespaces have no interrupts.
        let has_interrupts = !self.loopback && self.netns.is_none();
        Some(if has_interrupts { counts.and_interrupts(Path::new("/sys")) } else { counts })
    }
}

/// The places where devices are counted.
#[derive(Debug, Clone)]
pub(super) struct Devices {
    sending: Option<Place>,
    receiving: Option<Place>,
}

/// The device counts of both sides. `None` for a side that is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sides {
    /// Counts of the sending side.
    pub sending: Option<DeviceCounts>,
    /// Counts of the receiving side.
    pub receiving: Option<DeviceCounts>,
}

impl Devices {
    /// The places for these options. `None` if no device is involved or traffic flows in both directions.
    pub(super) fn of(options: &StreamOptions, far: &Far<'_>) -> Option<Self> {
        let address = match (&options.template.channel, far) {
            (Channel::Unix | Channel::Pipe, _) => return None,
            (_, Far::Agent { address, .. }) => *address,
            (_, Far::Agents(agents)) => agents.first()?.address,
            (Channel::Tcp { address, .. } | Channel::Udp { address, .. }, Far::Here) => *address,
        };
        let (near, far_netns) = (&options.template.near.netns, &options.template.far.netns);
        // Packets from a namespace to its own address always go through lo.
        let loopback = match far {
            Far::Here => address.is_loopback() || near == far_netns,
            Far::Agent { .. } | Far::Agents(_) => is_own(address),
        };
        let place = |netns: &Option<PathBuf>| Place { netns: netns.clone(), loopback };
        let there = if far.counts_devices() { None } else { Some(place(far_netns)) };
        let here = Some(place(near));
        match options.method.direction().unwrap_or(options.template.direction) {
            Direction::Send => Some(Self { sending: here, receiving: there }),
            Direction::Receive => Some(Self { sending: there, receiving: here }),
            Direction::Both => None,
        }
    }

    pub(super) fn read(&self) -> Sides {
        let of = |place: &Option<Place>| place.as_ref().and_then(Place::read);
        Sides { sending: of(&self.sending), receiving: of(&self.receiving) }
    }
}

impl Sides {
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let of = |now: Option<DeviceCounts>, then: Option<DeviceCounts>| Some(now?.since(&then?));
        Self { sending: of(self.sending, earlier.sending), receiving: of(self.receiving, earlier.receiving) }
    }

    /// Adds the far end's counts for the side (sending or receiving) that was not read here.
    pub(super) fn with_far(self, far: Option<DeviceCounts>) -> Self {
        match (self.sending, self.receiving) {
            (Some(_), None) => Self { receiving: far, ..self },
            (None, Some(_)) => Self { sending: far, ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_counts_the_side_that_is_not_here() {
        let counts = |rx_packets| Some(DeviceCounts { rx_packets, ..DeviceCounts::default() });
        let sends = Sides { sending: counts(1), receiving: None };
        assert_eq!(sends.with_far(counts(2)).receiving, counts(2));
        let receives = Sides { sending: None, receiving: counts(1) };
        assert_eq!((receives.with_far(counts(2)).sending, receives.with_far(None)), (counts(2), receives));
        let both_here = Sides { sending: counts(1), receiving: counts(3) };
        assert_eq!(both_here.with_far(counts(2)), both_here);
    }
}
