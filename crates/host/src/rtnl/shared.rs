//! One token bucket for both directions of a link, as on a half-duplex wire: packets that the link sends and receives
//! are redirected to an ifb device (clsact, u32, mirred), whose queue is the bucket.

use super::{Rtnl, explained};
use netlink_bindings::{
    rt_link::{self, Ifinfomsg},
    tc::{self, PushAttrs, TcU32Sel, Tcmsg},
    traits::Pusher,
    utils::{finalize_nested_header, push_header, push_nested_header},
};
use std::io;

/// Name of the device through which both directions go.
const IFB: &str = "ncifb";

// linux/pkt_sched.h: the hooks of clsact, and its own handle.
const TC_H_CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];

// linux/pkt_cls.h
const TCA_U32_ACT: u16 = 7;
const TC_U32_TERMINAL: u8 = 1;
const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TC_ACT_STOLEN: i32 = 4;
// linux/tc_act/tc_mirred.h
const TCA_MIRRED_PARMS: u16 = 2;
const TCA_EGRESS_REDIR: i32 = 1;
/// ETH_P_ALL, linux/if_ether.h.
const ETH_P_ALL: u16 = 3;

impl Rtnl {
    /// Redirects both directions of a link through one bucket of `bps` (see [`Rtnl::limit_rate`]).
    pub(crate) fn share_rate(&mut self, index: u32, bps: f64, mtu_bytes: u32) -> io::Result<()> {
        self.unshare_rate(index)?;
        let mut request = rt_link::Request::new().set_create().set_excl().op_newlink_do(&Ifinfomsg::new());
        drop(request.encode().push_ifname_bytes(IFB.as_bytes()).nested_linkinfo().push_kind(c"ifb"));
        self.socket.request(&request)?.recv_ack().map_err(explained)?;
        self.set_up(IFB)?;
        let ifb = self.link(IFB)?.index;
        self.limit_rate(ifb, bps, mtu_bytes)?;
        let clsact = Tcmsg { ifindex: index as i32, parent: TC_H_CLSACT, handle: CLSACT_HANDLE, ..Default::default() };
        let mut request = tc::Request::new().set_create().set_excl().op_newqdisc_do(&clsact);
        drop(request.encode().nested_options_clsact());
        self.socket.request(&request)?.recv_ack().map_err(explained)?;
        HOOKS.into_iter().try_for_each(|hook| self.redirect(index, hook, ifb))
    }

    /// Removes the bucket; succeeds if the link has none.
    pub(crate) fn unshare_rate(&mut self, index: u32) -> io::Result<()> {
        if self.link(IFB).is_err() {
            return Ok(());
        }
        let clsact = Tcmsg { ifindex: index as i32, parent: TC_H_CLSACT, handle: CLSACT_HANDLE, ..Default::default() };
        let request = tc::Request::new().op_delqdisc_do(&clsact);
        match self.socket.request(&request)?.recv_ack() {
            // Partly created: the device exists, its hooks do not.
            Err(error) if matches!(error.as_io_error().raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) => {}
            other => other.map_err(explained)?,
        }
        self.delete_link(IFB)
    }

    /// Redirects every packet at a hook to another device.
    fn redirect(&mut self, index: u32, hook: u32, to: u32) -> io::Result<()> {
        let priority = 1 << 16;
        let info = priority | u32::from(ETH_P_ALL.to_be());
        let header = Tcmsg { ifindex: index as i32, parent: hook, info, ..Default::default() };
        let mut request = tc::Request::new().set_create().set_excl().op_newtfilter_do(&header);
        redirect_all(request.encode(), to);
        self.socket.request(&request)?.recv_ack().map_err(explained)
    }
}

/// A u32 filter that matches everything, and the action mirred. The kernel counts actions from 1.
fn redirect_all<Prev: Pusher>(attrs: PushAttrs<Prev>, to: u32) {
    let selector = TcU32Sel { flags: TC_U32_TERMINAL, nkeys: 1, ..Default::default() };
    let mut u32_options = attrs.nested_options_u32().push_sel(selector);
    let buffer = u32_options.as_vec_mut();
    let actions = push_nested_header(buffer, TCA_U32_ACT);
    let first = push_nested_header(buffer, 1);
    let kind = b"mirred\0";
    push_header(buffer, TCA_ACT_KIND, kind.len() as u16);
    buffer.extend(kind);
    let options = push_nested_header(buffer, TCA_ACT_OPTIONS);
    let parameters = mirred(to);
    push_header(buffer, TCA_MIRRED_PARMS, parameters.len() as u16);
    buffer.extend(parameters);
    finalize_nested_header(buffer, options);
    finalize_nested_header(buffer, first);
    finalize_nested_header(buffer, actions);
}

/// `struct tc_mirred`: index, capabilities, action, two counts, the operation, and the target device.
fn mirred(to: u32) -> Vec<u8> {
    let fields = [0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR].map(i32::to_ne_bytes);
    fields.into_iter().chain([to.to_ne_bytes()]).flatten().collect()
}
