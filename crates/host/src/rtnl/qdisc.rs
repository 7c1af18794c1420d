//! Limits a link's rate by a token bucket (tc-tbf(8)) that counts the bytes of frames on an Ethernet wire.

use super::{Rtnl, explained};
use netlink_bindings::tc::{self, IterableTbfAttrs, OptionsMsg, TcFifoQopt, TcTbfQopt, Tcmsg};
use std::io;

/// Parent handle of a root qdisc, linux/pkt_sched.h.
const TC_H_ROOT: u32 = 0xffff_ffff;
/// Preamble, check sequence and gap of a frame (bytes): present on a wire, absent from a packet's length.
const AROUND_FRAME_BYTES: u16 = 24;
/// Shortest frame with preamble, check sequence and gap (bytes): linux/if_ether.h's ETH_ZLEN and 24.
const SHORTEST_BYTES: u16 = 84;
/// Longest queue before the bucket (s): equal to a card's ring of 256 full frames at 100 Mbit/s.
const QUEUE_S: f64 = 0.03;
/// Size of the bucket (full frames): more would allow bursts above the line's rate.
pub(crate) const BUCKET_FRAMES: u32 = 2;

impl Rtnl {
    /// Limits the traffic that a link sends to a wire rate of `bps` (bit/s). Each frame counts with preamble, check
    /// sequence and gap, and a shorter frame counts as the shortest Ethernet frame. Packets merged for offload are
    /// segmented.
    pub(crate) fn limit_rate(&mut self, index: u32, bps: f64, mtu_bytes: u32) -> io::Result<()> {
        let bytes_per_s = bps / 8.0;
        let frame_bytes = mtu_bytes + 14;
        let limit = (bytes_per_s * QUEUE_S) as u32;
        let options = parameters(bytes_per_s as u32, limit.max(BUCKET_FRAMES * frame_bytes));
        let header = Tcmsg { ifindex: index as i32, parent: TC_H_ROOT, ..Default::default() };
        let mut request = tc::Request::new().set_create().set_replace().op_newqdisc_do(&header);
        let tbf = request.encode().nested_options_tbf();
        let burst = BUCKET_FRAMES * (frame_bytes + u32::from(AROUND_FRAME_BYTES));
        drop(tbf.push_parms(options).push_burst(burst));
        self.socket.request(&request)?.recv_ack().map_err(explained)
    }

    /// Sets a link's root qdisc to this kind, `pfifo` or `fq_codel`, and its limit (packets); `None`: the default
    /// limit.
    pub(crate) fn set_qdisc(&mut self, index: u32, kind: &str, packets: Option<u32>) -> io::Result<()> {
        let header = Tcmsg { ifindex: index as i32, parent: TC_H_ROOT, ..Default::default() };
        let mut request = tc::Request::new().set_create().set_replace().op_newqdisc_do(&header);
        match kind {
            "fq_codel" => {
                let options = request.encode().nested_options_fq_codel();
                drop(match packets {
                    Some(packets) => options.push_limit(packets),
                    None => options,
                });
            }
            // Without a limit, the device's txqueuelen applies.
            _ => match packets {
                Some(packets) => drop(request.encode().nested_options_pfifo(&TcFifoQopt { limit: packets })),
                None => drop(request.encode().push_kind(c"pfifo")),
            },
        }
        self.socket.request(&request)?.recv_ack().map_err(explained)
    }

    /// Removes the limit of a link's rate; succeeds if the link has no limit.
    pub(crate) fn free_rate(&mut self, index: u32) -> io::Result<()> {
        let header = Tcmsg { ifindex: index as i32, parent: TC_H_ROOT, ..Default::default() };
        let request = tc::Request::new().op_delqdisc_do(&header);
        match self.socket.request(&request)?.recv_ack() {
            Err(error) if error.as_io_error().raw_os_error() == Some(libc::ENOENT) => Ok(()),
            other => other.map_err(explained),
        }
    }
}

/// `struct tc_tbf_qopt` of linux/pkt_sched.h: rate, peak rate, limit, buffer, mtu. The kernel's `tc_ratespec` has u16
/// `overhead` and `mpu` at bytes 2 and 6, and the rate at 8.
fn parameters(bytes_per_s: u32, limit_bytes: u32) -> TcTbfQopt {
    const LINKLAYER_ETHERNET: u8 = 1;
    let mut raw = [0; TcTbfQopt::len()];
    raw[1] = LINKLAYER_ETHERNET;
    raw[2..4].copy_from_slice(&AROUND_FRAME_BYTES.to_ne_bytes());
    raw[6..8].copy_from_slice(&SHORTEST_BYTES.to_ne_bytes());
    raw[8..12].copy_from_slice(&bytes_per_s.to_ne_bytes());
    raw[24..28].copy_from_slice(&limit_bytes.to_ne_bytes());
    TcTbfQopt::new_from_array(raw)
}

/// Rate of a token bucket (bytes/s), from TCA_TBF_RATE64 if above 32 bits; `None` if it is not reported.
fn token_rate(options: &IterableTbfAttrs<'_>) -> Option<u64> {
    if let Ok(rate) = options.get_rate64() {
        return Some(rate);
    }
    let parameters = options.get_parms().ok()?;
    let rate = parameters.as_slice().get(8..12)?;
    Some(u32::from_ne_bytes(rate.try_into().ok()?).into())
}

/// Present occupancy of a qdisc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawBacklog {
    pub index: u32,
    pub kind: String,
    pub bytes: u32,
    pub packets: u32,
    /// Packets dropped since its creation.
    pub drops: u32,
    /// Rate of a token bucket (bytes/s); `None` for other qdiscs.
    pub rate: Option<u64>,
}

impl Rtnl {
    /// Occupancy and drops of each link's root qdisc, its children included. A root qdisc without counters is left out.
    pub(crate) fn backlogs(&mut self) -> io::Result<Vec<RawBacklog>> {
        let request = tc::Request::new().op_getqdisc_dump(&Tcmsg::default());
        let mut replies = self.socket.request(&request)?;
        let mut found = Vec::new();
        while let Some(reply) = replies.recv() {
            let (header, attrs) = reply.map_err(explained)?;
            let is_root = header.parent == TC_H_ROOT;
            let queue = attrs.get_stats2().and_then(|stats| stats.get_queue()).ok();
            let (Some(queue), true) = (queue, is_root) else { continue };
            let kind = attrs.get_kind().map(|kind| kind.to_string_lossy().into_owned()).unwrap_or_default();
            let rate = match attrs.get_options() {
                Ok(OptionsMsg::Tbf(options)) => token_rate(&options),
                _ => None,
            };
            let (bytes, packets, drops) = (queue.backlog, queue.qlen, queue.drops);
            found.push(RawBacklog { index: header.ifindex as u32, kind, bytes, packets, drops, rate });
        }
        Ok(found)
    }
}
