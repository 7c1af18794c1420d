//! Settings of the testbed's link that an experiment varies beside offloads: MTU and rate. They go with the testbed.

use super::{
    TestbedError,
    netns::{Side, Testbed},
};
use crate::rtnl::Rtnl;

/// Full frames that a rate's token bucket holds: a window may see so much more than its rate.
pub const BUCKET_FRAMES: u32 = crate::rtnl::BUCKET_FRAMES;

impl Testbed {
    /// Changes an end's MTU (bytes). It goes with the testbed.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn set_mtu(&self, side: Side, mtu_bytes: u32) -> Result<(), TestbedError> {
        let name = &self.endpoint(side).interface;
        let set = self.run_in(side, || Rtnl::new().set_mtu(name, mtu_bytes))?;
        set.map_err(TestbedError::failed(format!("set the MTU of {name} to {mtu_bytes}")))
    }

    /// Holds what an end sends to a rate on the wire (bit/s; headers, preamble, check sequence and gap count), by a token
    /// bucket; None: as fast as it can again. It goes with the testbed.
    ///
    /// # Errors
    /// When the kernel has no token bucket.
    pub fn limit_rate(&self, side: Side, bps: Option<f64>) -> Result<(), TestbedError> {
        let (index, name) = (self.endpoint(side).index, self.endpoint(side).interface.clone());
        let set = self.run_in(side, || {
            let mut rtnl = Rtnl::new();
            match bps {
                Some(bps) => {
                    let mtu_bytes = rtnl.link(&name)?.mtu_bytes.unwrap_or(self.options().mtu_bytes);
                    rtnl.limit_rate(index, bps, mtu_bytes)
                }
                None => rtnl.free_rate(index),
            }
        })?;
        set.map_err(TestbedError::failed(format!("limit the rate of {name}")))
    }

    /// Gives an end a root qdisc of a kind (`pfifo`, `fq_codel`) and length (packets; None: its own), in place of a held rate; None: as it
    /// was made. It goes with the testbed.
    ///
    /// # Errors
    /// When the kernel has no such qdisc.
    pub fn set_qdisc(&self, side: Side, qdisc: Option<(&str, Option<u32>)>) -> Result<(), TestbedError> {
        let (index, name) = (self.endpoint(side).index, self.endpoint(side).interface.clone());
        let set = self.run_in(side, || {
            let mut rtnl = Rtnl::new();
            match qdisc {
                Some((kind, packets)) => rtnl.set_qdisc(index, kind, packets),
                None => rtnl.free_rate(index),
            }
        })?;
        set.map_err(TestbedError::failed(format!("set the qdisc of {name}")))
    }

    /// Holds what both ends send to one rate together (bit/s, counted as by [`Testbed::limit_rate`]): half duplex. None: each
    /// as fast as it can again. It goes with the testbed.
    ///
    /// # Errors
    /// When the kernel lacks ifb, u32 or mirred.
    pub fn share_rate(&self, bps: Option<f64>) -> Result<(), TestbedError> {
        let end = self.endpoint(Side::Sender);
        let set = self.run_in(Side::Sender, || {
            let mut rtnl = Rtnl::new();
            match bps {
                Some(bps) => {
                    let mtu_bytes = rtnl.link(&end.interface)?.mtu_bytes.unwrap_or(self.options().mtu_bytes);
                    rtnl.share_rate(end.index, bps, mtu_bytes)
                }
                None => rtnl.unshare_rate(end.index),
            }
        })?;
        set.map_err(TestbedError::failed(format!("share the rate of {}", end.interface)))
    }
}
