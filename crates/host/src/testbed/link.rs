//! Settings of the testbed's link that an experiment varies in addition to offloads: MTU and rate. They end with the
//! testbed.

use super::{
    TestbedError,
    netns::{Side, Testbed},
};
use crate::rtnl::Rtnl;

/// Size of a rate limit's token bucket (full-size frames): the frames sent in an interval may exceed the rate by this
/// number.
pub const BUCKET_FRAMES: u32 = crate::rtnl::BUCKET_FRAMES;

impl Testbed {
    /// Changes an end's MTU (bytes), until the testbed ends.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn set_mtu(&self, side: Side, mtu_bytes: u32) -> Result<(), TestbedError> {
        let name = &self.endpoint(side).interface;
        let set = self.run_in(side, || Rtnl::new().set_mtu(name, mtu_bytes))?;
        set.map_err(TestbedError::failed(format!("set the MTU of {name} to {mtu_bytes}")))
    }

    /// Limits the traffic that an end sends to a rate on the wire (bit/s; headers, preamble, check sequence and gap
    /// count), by a token bucket; `None` removes the limit. The limit ends with the testbed.
    ///
    /// # Errors
    /// The kernel has no token bucket.
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

    /// Sets an end's root qdisc to a kind (`pfifo`, `fq_codel`) and limit (packets; `None`: the default limit), which
    /// removes a limit of the rate; `None` restores the initial qdisc. The qdisc lasts as long as the testbed.
    ///
    /// # Errors
    /// The kernel has no such qdisc.
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

    /// Limits the total traffic of both ends to one rate (bit/s, counted as by [`Testbed::limit_rate`]): half duplex.
    /// `None` removes the limit. The limit ends with the testbed.
    ///
    /// # Errors
    /// The kernel lacks ifb, u32 or mirred.
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
