//! Corrects the command numbers of the ethtool family.
//!
//! The family's YAML is `enum-model: directional`: requests and notifications are numbered separately. The bindings
//! (netlink-bindings 0.3.5) number them together, so that every request after `linkinfo-set` has the number of another
//! command: `linkmodes-get` is sent as `LINKMODES_SET`, `coalesce-get` as a cable test. The numbers here are those of
//! linux/ethtool_netlink_generated.h (`ETHTOOL_MSG_*`, user to kernel). Every request of the family must be sent as
//! [`Numbered`].

use netlink_bindings::traits::{LookupFn, NetlinkRequest, Protocol};

/// `ETHTOOL_MSG_LINKMODES_GET`.
pub(super) const LINKMODES_GET: u8 = 4;
/// `ETHTOOL_MSG_LINKMODES_SET`.
pub(super) const LINKMODES_SET: u8 = 5;
/// `ETHTOOL_MSG_FEATURES_GET`.
pub(super) const FEATURES_GET: u8 = 11;
/// `ETHTOOL_MSG_FEATURES_SET`.
pub(super) const FEATURES_SET: u8 = 12;
/// `ETHTOOL_MSG_RINGS_GET`.
pub(super) const RINGS_GET: u8 = 15;
/// `ETHTOOL_MSG_RINGS_SET`.
pub(super) const RINGS_SET: u8 = 16;
/// `ETHTOOL_MSG_CHANNELS_GET`.
pub(super) const CHANNELS_GET: u8 = 17;
/// `ETHTOOL_MSG_CHANNELS_SET`.
pub(super) const CHANNELS_SET: u8 = 18;
/// `ETHTOOL_MSG_COALESCE_GET`.
pub(super) const COALESCE_GET: u8 = 19;
/// `ETHTOOL_MSG_COALESCE_SET`.
pub(super) const COALESCE_SET: u8 = 20;
/// `ETHTOOL_MSG_PAUSE_GET`.
pub(super) const PAUSE_GET: u8 = 21;
/// `ETHTOOL_MSG_PAUSE_SET`.
pub(super) const PAUSE_SET: u8 = 22;
/// `ETHTOOL_MSG_TSINFO_GET`.
pub(super) const TSINFO_GET: u8 = 25;
/// `ETHTOOL_MSG_RSS_GET`.
pub(super) const RSS_GET: u8 = 38;

/// A request of the bindings with its command number replaced.
pub(super) struct Numbered<R> {
    request: R,
    payload: Vec<u8>,
}

impl<R: NetlinkRequest> Numbered<R> {
    pub(super) fn new(request: R, command: u8) -> Numbered<R> {
        let mut payload = request.payload().to_vec();
        // The first byte of struct genlmsghdr is the command.
        if let Some(first) = payload.first_mut() {
            *first = command;
        }
        Numbered { request, payload }
    }
}

impl<R: NetlinkRequest> NetlinkRequest for Numbered<R> {
    type ReplyType<'buf> = R::ReplyType<'buf>;

    fn protocol(&self) -> Protocol {
        self.request.protocol()
    }

    fn flags(&self) -> u16 {
        self.request.flags()
    }

    fn payload(&self) -> &[u8] {
        &self.payload
    }

    fn decode_reply(buffer: &[u8]) -> Self::ReplyType<'_> {
        R::decode_reply(buffer)
    }

    fn lookup(
        buffer: &[u8],
        offset: usize,
        missing: Option<u16>,
    ) -> (Vec<(&'static str, usize)>, Option<&'static str>) {
        let lookup: LookupFn = R::lookup;
        lookup(buffer, offset, missing)
    }
}
