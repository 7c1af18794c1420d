//! Detects changes during a measurement: of the devices and addresses of a network namespace, and of the CPUs.
//!
//! The kernel reports each change by netlink when it happens, so that a change which was reverted before the end is
//! found, too. No thread runs for this: the reports wait in a socket until they are read. At the end the devices' state
//! is also read directly, so that a lasting change is found even if its report was lost.

mod notice;

use crate::{
    inventory::online_cpus,
    rtnl::{RawLink, Rtnl},
    system,
};
use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, recv},
};
use notice::{Notice, notices, offline};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Number of the loopback device in each namespace (LOOPBACK_IFINDEX, net/core/dev.c).
const LOOPBACK: u32 = 1;
/// Most times that the devices' state is read in one call, because it changed during the reading.
const MOST_LOOKS: usize = 8;
/// Size of the largest kernel message (bytes).
const MESSAGE_BYTES: usize = 64 << 10;

/// The devices and addresses to watch in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Names of the devices; `None` means all devices that are up.
    pub interfaces: Option<Vec<String>>,
    /// Addresses of these devices; `None` means all their addresses.
    pub addresses: Option<Vec<IpAddr>>,
}

/// The state of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    name: String,
    up: bool,
    carrier: bool,
    mtu_bytes: Option<u32>,
}

/// Changes, each as the index of its device (0: no device) and a phrase.
type Said = Vec<(u32, String)>;

/// Watches the devices of a network namespace: their last known state, and their changes.
pub struct Ground {
    socket: OwnedFd,
    rtnl: Rtnl,
    scope: Scope,
    devices: BTreeMap<u32, Device>,
    /// The watched addresses, each with the number of its device.
    addresses: BTreeSet<(u32, IpAddr)>,
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground")
            .field("devices", &self.devices)
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Ground {
    /// Starts watching in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel does not report links and addresses.
    pub fn watch(scope: Scope) -> io::Result<Self> {
        // The socket is opened first, so that a change during the listing of devices is reported, too.
        let socket = system::link_reports()?;
        let mut rtnl = Rtnl::new();
        let is_meant = |name: &String| scope.interfaces.as_ref().is_none_or(|names| names.contains(name));
        let links = rtnl.links()?.into_iter().filter(|link| link.is_up() && is_meant(&link.name));
        let device = |link: RawLink| {
            let carrier = link.has_carrier();
            (link.index, Device { name: link.name, up: true, carrier, mtu_bytes: link.mtu_bytes })
        };
        let devices = links.map(device).collect();
        let mut ground = Self { socket, rtnl, scope, devices, addresses: BTreeSet::new() };
        ground.addresses = ground.addresses_now()?;
        Ok(ground)
    }

    /// The changes since the last call, as phrases in the order of time.
    pub fn changes(&mut self) -> Vec<String> {
        let mut said = Said::new();
        for _ in 0..MOST_LOOKS {
            let before = said.clone();
            // A send through a removed device may fail before the kernel reports the removal. The kernel reports it
            // before it releases the lock of all devices (RTNL). This request waits for that lock, so afterwards every
            // report is in the socket.
            let _ = self.rtnl.link_at(LOOPBACK);
            self.hear(&mut said);
            if let Err(error) = self.look(&mut said) {
                said.push((0, format!("the kernel does not report its devices any more: {error}")));
                break;
            }
            // A change that begins between this request and the reading of the devices may be seen only in part. The
            // next round reads the rest.
            if said == before {
                break;
            }
        }
        said.into_iter().map(|(_, phrase)| phrase).collect()
    }

    /// Reads the kernel's reports.
    fn hear(&mut self, said: &mut Said) {
        let mut buffer = vec![0; MESSAGE_BYTES];
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => break,
                Ok(bytes) => notices(&buffer[..bytes]).into_iter().for_each(|notice| self.note(notice, said)),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => {
                    said.push((0, "the kernel had more changes of devices to tell than fit".to_owned()));
                }
                Err(_) => break,
            }
        }
    }

    /// Compares the devices' present state with their last known state.
    fn look(&mut self, said: &mut Said) -> io::Result<()> {
        let links = self.rtnl.links()?;
        let addresses = self.addresses_now()?;
        let there = |index: u32| links.iter().find(|link| link.index == index);
        for index in self.devices.keys().copied().collect::<Vec<_>>() {
            // The device may have been renamed.
            if let (Some(device), Some(link)) = (self.devices.get_mut(&index), there(index))
                && device.name != link.name
            {
                let was = std::mem::replace(&mut device.name, link.name.clone());
                said.push((index, format!("{was} was renamed to {}", link.name)));
            }
            let notice = there(index).map_or(Notice::LinkGone { index }, |link| Notice::Link {
                index,
                up: link.is_up(),
                carrier: link.has_carrier(),
                mtu_bytes: link.mtu_bytes,
            });
            self.note(notice, said);
        }
        let gone: Vec<(u32, IpAddr)> = self.addresses.difference(&addresses).copied().collect();
        gone.into_iter().for_each(|(index, address)| self.note(Notice::AddressGone { index, address }, said));
        // An address that was added is watched from now on.
        self.addresses = addresses;
        Ok(())
    }

    /// The watched addresses that the devices have now.
    fn addresses_now(&mut self) -> io::Result<BTreeSet<(u32, IpAddr)>> {
        let all = self.rtnl.addresses()?.into_iter();
        let is_meant = |address: &IpAddr| self.scope.addresses.as_ref().is_none_or(|meant| meant.contains(address));
        Ok(all.filter(|(index, address)| self.devices.contains_key(index) && is_meant(address)).collect())
    }

    fn note(&mut self, notice: Notice, said: &mut Said) {
        match notice {
            Notice::Link { index, up, carrier, mtu_bytes } => {
                let Some(device) = self.devices.get_mut(&index) else { return };
                let name = &device.name;
                if device.up && !up {
                    said.push((index, format!("{name} was set down")));
                } else if up && device.carrier && !carrier {
                    said.push((index, format!("{name} lost its carrier")));
                }
                if let (Some(was), Some(is)) = (device.mtu_bytes, mtu_bytes)
                    && was != is
                {
                    said.push((index, format!("the MTU of {name} went from {was} to {is} bytes")));
                }
                (device.up, device.carrier) = (up, carrier);
                device.mtu_bytes = mtu_bytes.or(device.mtu_bytes);
            }
            Notice::LinkGone { index } => {
                if let Some(device) = self.devices.remove(&index) {
                    // Before the kernel removes a device it sets it down and deletes its addresses; only the removal is
                    // named.
                    said.retain(|(of, _)| *of != index);
                    let phrase = format!("{} was removed, or moved to another network namespace", device.name);
                    said.push((index, phrase));
                }
            }
            Notice::AddressGone { index, address } => {
                let counted = self.addresses.remove(&(index, address));
                if let Some(device) = self.devices.get(&index).filter(|_| counted) {
                    said.push((index, format!("{} lost its address {address}", device.name)));
                }
            }
        }
    }
}

/// Finds the CPUs that were taken offline: from the kernel's reports, which also show a CPU that came back, and from
/// the list of online CPUs at the end. A process in a network namespace of another user namespace gets no reports.
#[derive(Debug)]
pub struct Cpus {
    socket: Option<OwnedFd>,
    online: BTreeSet<u32>,
    root: PathBuf,
}

impl Cpus {
    /// Starts watching the host whose files are below `root`.
    pub fn watch(root: &Path) -> Self {
        let socket = system::device_events();
        let socket = socket.map_err(|error| tracing::debug!(%error, "events of CPUs are not heard")).ok();
        Self { socket, online: online_cpus(root).into_iter().collect(), root: root.to_owned() }
    }

    /// The CPUs taken offline since the last call, a sentence for each.
    pub fn changes(&mut self) -> Vec<String> {
        self.gone().iter().map(|cpu| format!("CPU {cpu} was taken offline")).collect()
    }

    /// The CPUs taken offline since the last call.
    fn gone(&mut self) -> BTreeSet<u32> {
        let online: BTreeSet<u32> = online_cpus(&self.root).into_iter().collect();
        // The report about a CPU that the list of online CPUs showed as missing may arrive later.
        let mut gone: BTreeSet<u32> = self.reported().into_iter().filter(|cpu| self.online.contains(cpu)).collect();
        gone.extend(self.online.difference(&online));
        self.online = online;
        gone
    }

    fn reported(&self) -> Vec<u32> {
        let mut gone = Vec::new();
        let Some(socket) = &self.socket else { return gone };
        let mut buffer = vec![0; MESSAGE_BYTES];
        loop {
            match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return gone,
                Ok(bytes) => gone.extend(offline(&buffer[..bytes])),
                Err(Errno::EINTR | Errno::ENOBUFS) => {}
                Err(_) => return gone,
            }
        }
    }
}

/// Most changes that a sentence names; the other changes are only counted.
const MOST_NAMED: usize = 4;

/// Changes of devices, addresses, CPUs and threads as one sentence; `None` if there was no change.
pub fn sentence(mut phrases: Vec<String>) -> Option<String> {
    phrases.dedup();
    let more = phrases.len().saturating_sub(MOST_NAMED);
    phrases.truncate(MOST_NAMED);
    if more > 0 {
        phrases.push(format!("{more} changes more"));
    }
    (!phrases.is_empty()).then(|| phrases.join("; "))
}

#[cfg(test)]
mod tests;
