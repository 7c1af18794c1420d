//! Sets real ports up for a measurement, and restores them afterwards.

use netcliff_host::journal::HostLock;
use netcliff_host::testbed::kept::{self, KeptOffloads};
use netcliff_host::testbed::stamping::StampedPorts;
use netcliff_wire::forward::port::{ReceiveBy, SendBy};
use netcliff_wire::forward::run::PortStamps;
use netcliff_wire::forward::stamps::{End, Stamps};

use super::{DeviceError, Place};
use crate::rfc2544::settings::Settings;

/// What is set, or switched off by the kernel, at real ports for the time of a measurement; set back when this is dropped.
#[derive(Debug, Default)]
pub(super) struct HeldPorts {
    _stamped: Option<StampedPorts>,
    _merging: Option<KeptOffloads>,
}

impl HeldPorts {
    /// Nothing for namespaces, whose ports go with them: what those can stamp is seen when they are opened.
    pub(super) fn hold(settings: &Settings, place: &Place, lock: &HostLock) -> Result<Self, DeviceError> {
        let Place::Ports { tx, rx, .. } = place else { return Ok(Self::default()) };
        let ports = [tx.as_str(), rx.as_str()];
        // An XDP program costs a port its merging of frames.
        let by_packet = settings.send_by == SendBy::Packet && settings.receive_by == ReceiveBy::Packet;
        let merging = (!by_packet).then(|| KeptOffloads::hold(lock, &ports, &kept::MERGING)).transpose()?;
        Ok(Self { _stamped: stamp(settings, ports, lock)?, _merging: merging })
    }
}

/// Enables time stamps of every frame, if they are requested and the ports can.
fn stamp(settings: &Settings, [tx, rx]: [&str; 2], lock: &HostLock) -> Result<Option<StampedPorts>, DeviceError> {
    if settings.stamps != Stamps::Hardware {
        return Ok(None);
    }
    let ends = [(tx, End::Near), (rx, End::Far), (rx, End::Near), (tx, End::Far)];
    for (port, end) in &ends[..if settings.both_ways { 4 } else { 2 }] {
        settings.stamps.check(&PortStamps::of(port), *end)?;
    }
    Ok(Some(StampedPorts::hold(lock, &[tx, rx])?))
}
