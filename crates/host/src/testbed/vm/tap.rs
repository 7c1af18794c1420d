//! The wire: a tap in a separate network namespace. Both disappear with the last descriptor, however this process ends.

use std::fs::write;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use super::super::namespace::Namespace;
use super::{PREFIX, Port, VmError, step};
use crate::rtnl::Rtnl;
use crate::system;

/// Name of this host's end.
pub(super) const NAME: &str = "vm0";
/// Length of the tap's queue (frames), in which frames wait while QEMU does not read. It stands for the buffer of a NIC
/// whose ring is full: 20 of the 82574's 40 KiB are for reception (its datasheet, section 7.3), space for some 300 of
/// the smallest frames.
const QUEUE_FRAMES: u32 = 300;
/// Initial MTU of a tap (bytes).
const MTU_BYTES: u32 = 1500;

/// A tap in a separate network namespace: this host's end of the guest's link.
#[derive(Debug)]
pub struct Wire {
    namespace: Namespace,
    fds: Vec<OwnedFd>,
}

impl Wire {
    pub(super) fn make(ports: &[Port], whole_segments: bool) -> Result<Self, VmError> {
        let namespace = Namespace::anonymous("vm")?;
        let one = |port: &Port| {
            let fd = system::open_tap(port.tap, whole_segments).map_err(|why| VmError::Tap { why })?;
            set_up(port).map_err(step("set up the tap"))?;
            Ok::<_, VmError>(fd)
        };
        let fds = namespace.run(|| ports.iter().map(one).collect::<Result<_, _>>())??;
        Ok(Self { namespace, fds })
    }

    /// Sets the MTU of this end (bytes).
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_mtu(&self, mtu_bytes: u32) -> Result<(), VmError> {
        let set = self.namespace.run(|| Rtnl::new().set_mtu(NAME, mtu_bytes))?;
        set.map_err(step(format!("set the MTU of the guest's wire to {mtu_bytes}")))
    }

    /// Limits the traffic to the guest to a rate on the wire (bit/s), by a token bucket as in a namespace testbed; with
    /// `both_ways`, limits the sum of both directions instead. `None` removes the limit.
    ///
    /// # Errors
    /// The kernel has no token bucket, or for both directions no ifb, u32 or mirred.
    pub fn limit_rate(&self, bps: Option<f64>, both_ways: bool) -> Result<(), VmError> {
        let set = self.namespace.run(|| {
            let mut rtnl = Rtnl::new();
            let link = rtnl.link(NAME)?;
            let mtu_bytes = link.mtu_bytes.unwrap_or(MTU_BYTES);
            rtnl.free_rate(link.index)?;
            rtnl.unshare_rate(link.index)?;
            match bps {
                None => Ok(()),
                Some(bps) if both_ways => rtnl.share_rate(link.index, bps, mtu_bytes),
                Some(bps) => rtnl.limit_rate(link.index, bps, mtu_bytes),
            }
        })?;
        set.map_err(step("limit the rate of the guest's wire"))
    }

    pub(super) fn enter(&self) -> Result<(), VmError> {
        system::enter_network_namespace(self.namespace.net()).map_err(step("enter the namespace of the guest's wire"))
    }

    /// Descriptors that QEMU reads and writes, one per port.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.fds.iter().map(AsFd::as_fd)
    }

    pub(super) fn netns(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.net().as_raw_fd()).into()
    }
}

fn set_up(port: &Port) -> io::Result<()> {
    let name = port.tap;
    // Prevents router solicitations during the load; a kernel without IPv6 sends none.
    let _ = write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    // The file is absent if /sys does not show this namespace; the queue then has the kernel's 1000 frames.
    let _ = write(format!("/sys/class/net/{name}/tx_queue_len"), QUEUE_FRAMES.to_string());
    let mut rtnl = Rtnl::new();
    let index = rtnl.link(name)?.index;
    port.here.map_or(Ok(()), |here| rtnl.add_address(index, here, PREFIX))?;
    rtnl.set_up(name)
}
