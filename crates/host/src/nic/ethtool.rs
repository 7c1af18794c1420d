//! The ethtool generic netlink family: offloads, coalescing, rings, channels, link modes, pause, RSS.

use super::{
    Nic, Profile, Rss,
    numbered::{
        CHANNELS_GET, CHANNELS_SET, COALESCE_GET, COALESCE_SET, FEATURES_GET, FEATURES_SET, LINKMODES_GET, Numbered,
        PAUSE_GET, PAUSE_SET, RINGS_GET, RINGS_SET, RSS_GET, TSINFO_GET,
    },
};
use crate::rtnl::explained;
use crate::system::{NetlinkSocket, ReplyError};
use netlink_bindings::ethtool::{self, IterableBitset, Request};
use std::{collections::BTreeMap, ffi::CStr, io};

/// SPEED_UNKNOWN, linux/ethtool.h.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// Sends a GET for one interface and passes the first reply to a closure.
macro_rules! ask {
    ($socket:expr, $name:expr, $op:ident, $command:expr, |$attrs:ident| $read:expr) => {{
        let mut request = Request::new().$op();
        request.encode().nested_header().push_dev_name_bytes($name.as_bytes());
        let answer: Result<_, ReplyError> = (|| {
            let request = Numbered::new(request, $command);
            let mut replies = $socket.request(&request)?;
            let $attrs = replies.recv_one()?;
            Ok($read)
        })();
        answer
    }};
}

/// Collects the values that the driver reports in a map, by the kernel's names.
macro_rules! figures {
    ($attrs:ident, $($name:literal => $get:ident),* $(,)?) => {{
        let mut map = BTreeMap::new();
        $(if let Ok(value) = $attrs.$get() { map.insert($name.to_owned(), value.into()); })*
        map
    }};
}

/// Fills in what the kernel's ethtool netlink family reports about an interface.
pub(super) fn fill(nic: &mut Nic) {
    let socket = &mut NetlinkSocket::new();
    let name = nic.name.clone();
    let mut missing = BTreeMap::new();
    let mut note = |topic: &str, error: ReplyError| {
        missing.insert(topic.to_owned(), reason(&error));
    };
    match ask!(socket, name, op_features_get_do, FEATURES_GET, |reply| features(&reply)) {
        Ok(map) => nic.features = map,
        Err(error) => note("features", error),
    }
    match ask!(socket, name, op_coalesce_get_do, COALESCE_GET, |reply| (coalesce(&reply), profiles(&reply))) {
        Ok((map, profiles)) => (nic.coalesce, nic.coalesce_profiles) = (map, profiles),
        Err(error) => note("coalesce", error),
    }
    match ask!(socket, name, op_rings_get_do, RINGS_GET, |reply| (rings(&reply), reply.get_tcp_data_split().ok())) {
        Ok((map, split)) => {
            nic.rings = map;
            // ETHTOOL_TCP_DATA_SPLIT_*, linux/ethtool.h: 0 is not known.
            nic.header_split = split.filter(|split| *split > 0).map(|split| split == 2);
        }
        Err(error) => note("rings", error),
    }
    match ask!(socket, name, op_channels_get_do, CHANNELS_GET, |reply| channels(&reply)) {
        Ok(map) => nic.channels = map,
        Err(error) => note("channels", error),
    }
    match ask!(socket, name, op_pause_get_do, PAUSE_GET, |reply| pause(&reply)) {
        Ok(map) => nic.pause = map,
        Err(error) => note("pause", error),
    }
    match ask!(socket, name, op_linkmodes_get_do, LINKMODES_GET, |reply| (
        reply.get_speed().ok(),
        reply.get_duplex().ok(),
        reply.get_autoneg().ok(),
        reply.get_ours().map(|set| bits(&set)).unwrap_or_default()
    )) {
        Ok((speed, duplex, autoneg, modes)) => {
            // All listed modes are supported; those whose bit is set are offered to the far end.
            nic.link_offered = modes.iter().filter(|(_, offered)| *offered).map(|(name, _)| name.clone()).collect();
            nic.link_supported = modes.into_iter().map(|(name, _)| name).collect();
            nic.speed_supported_mbps = highest_speed(&nic.link_supported);
            nic.speed_mbps = speed.filter(|speed| *speed != SPEED_UNKNOWN && *speed != 0);
            nic.duplex = duplex.and_then(duplex_name);
            nic.autoneg = autoneg.map(|autoneg| autoneg != 0);
        }
        Err(error) => note("link-modes", error),
    }
    match ask!(socket, name, op_rss_get_do, RSS_GET, |reply| rss(&reply)) {
        Ok(rss) => nic.rss = Some(rss),
        Err(error) => note("rss", error),
    }
    nic.missing.extend(missing);
}

/// Which time stamps the device, its driver and the kernel can put on frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeStamps {
    /// The device stamps received frames.
    pub hardware_receive: bool,
    /// The device stamps transmitted frames.
    pub hardware_transmit: bool,
    /// The kernel stamps received frames.
    pub software_receive: bool,
    /// The driver stamps transmitted frames.
    pub software_transmit: bool,
    /// The device can be set to stamp every frame that arrives, not only those of some protocols.
    #[serde(default)]
    pub hardware_receive_all: bool,
    /// Number of the device's clock (`/dev/ptpN`); `None` if it has no clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u32>,
}

impl std::fmt::Display for TimeStamps {
    /// Formats as `kernel stamps of what arrives and leaves, no hardware stamps`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |who: &str, arrives: bool, leaves: bool| match (arrives, leaves) {
            (true, true) => format!("{who} stamps of what arrives and leaves"),
            (true, false) => format!("{who} stamps of what arrives only"),
            (false, true) => format!("{who} stamps of what leaves only"),
            (false, false) => format!("no {who} stamps"),
        };
        let kernel = of("kernel", self.software_receive, self.software_transmit);
        let hardware = of("hardware", self.hardware_receive, self.hardware_transmit);
        write!(f, "{kernel}, {hardware}")?;
        if self.hardware_receive && !self.hardware_receive_all {
            f.write_str(" (of what arrives only frames of some protocols such as PTP)")?;
        }
        Ok(())
    }
}

/// Reads the time stamps that an interface in the thread's namespace offers.
///
/// # Errors
/// There is no such interface, or the kernel is too old to report them.
pub fn time_stamps(interface: &str) -> io::Result<TimeStamps> {
    let socket = &mut NetlinkSocket::new();
    let read = ask!(socket, interface, op_tsinfo_get_do, TSINFO_GET, |reply| {
        let offered = reply.get_timestamping().map(|set| names(&set)).unwrap_or_default();
        let offers = |name: &str| offered.iter().any(|offer| offer == name);
        let filters = reply.get_rx_filters().map(|set| names(&set)).unwrap_or_default();
        TimeStamps {
            hardware_receive: offers("hardware-receive"),
            hardware_transmit: offers("hardware-transmit"),
            software_receive: offers("software-receive"),
            software_transmit: offers("software-transmit"),
            hardware_receive_all: filters.iter().any(|filter| filter == "all"),
            clock: reply.get_phc_index().ok(),
        }
    });
    read.map_err(explained)
}

/// Number of receive queues in use; `None` if the driver reports none.
///
/// # Errors
/// The driver does not report channels.
pub(crate) fn receive_channels(interface: &str) -> io::Result<Option<u32>> {
    let socket = &mut NetlinkSocket::new();
    let read = ask!(socket, interface, op_channels_get_do, CHANNELS_GET, |reply| channels(&reply));
    let channels = read.map_err(explained)?;
    let count = |name: &str| channels.get(name).copied().unwrap_or(0);
    Ok(Some(count("rx") + count("combined")).filter(|queues| *queues > 0))
}

/// Switches one offload of an interface in the thread's namespace, by the kernel's name for it.
///
/// # Errors
/// The interface or the feature does not exist, or the right to change it is missing.
pub fn set_feature(interface: &str, feature: &CStr, on: bool) -> io::Result<()> {
    let mut request = Request::new().op_features_set_do();
    {
        let bit = request
            .encode()
            .nested_header()
            .push_dev_name_bytes(interface.as_bytes())
            .end_nested()
            .nested_wanted()
            .nested_bits()
            .nested_bit()
            .push_name(feature);
        if on {
            drop(bit.push_value(()));
        }
    }
    let mut socket = NetlinkSocket::new();
    let request = Numbered::new(request, FEATURES_SET);
    let mut replies = socket.request(&request)?;
    while let Some(reply) = replies.recv() {
        reply.map_err(explained)?;
    }
    Ok(())
}

/// Sends a SET with one value of an interface and waits for the kernel's answer.
macro_rules! set {
    ($interface:expr, $key:expr, $value:expr, $op:ident, $command:expr, $($name:literal => $push:ident),* $(,)?) => {{
        let mut request = Request::new().$op();
        {
            let attributes = request.encode().nested_header().push_dev_name_bytes($interface.as_bytes()).end_nested();
            match $key {
                $($name => drop(attributes.$push($value.try_into().map_err(io::Error::other)?)),)*
                other => return Err(io::Error::other(format!("{other} cannot be set"))),
            }
        }
        let mut socket = NetlinkSocket::new();
        let request = Numbered::new(request, $command);
        let mut replies = socket.request(&request)?;
        while let Some(reply) = replies.recv() {
            reply.map_err(explained)?;
        }
        Ok(())
    }};
}

/// Sets one value of interrupt coalescing, by the kernel's name (`rx-usecs`; switches are 0 or 1).
///
/// # Errors
/// The driver does not have this setting, or refuses the value.
pub fn set_coalesce(interface: &str, key: &str, value: u32) -> io::Result<()> {
    set!(interface, key, value, op_coalesce_set_do, COALESCE_SET,
        "rx-usecs" => push_rx_usecs, "rx-frames" => push_rx_max_frames,
        "tx-usecs" => push_tx_usecs, "tx-frames" => push_tx_max_frames,
        "adaptive-rx" => push_use_adaptive_rx, "adaptive-tx" => push_use_adaptive_tx,
        "cqe-mode-rx" => push_use_cqe_mode_rx)
}

/// Sets the size of a ring, `rx` or `tx` (descriptors).
///
/// # Errors
/// When the driver refuses it.
pub fn set_ring(interface: &str, key: &str, value: u32) -> io::Result<()> {
    set!(interface, key, value, op_rings_set_do, RINGS_SET, "rx" => push_rx, "tx" => push_tx)
}

/// Sets whether headers are received into separate buffers (header split).
///
/// # Errors
/// The driver does not support it.
pub fn set_header_split(interface: &str, on: bool) -> io::Result<()> {
    let value = if on { 2_u32 } else { 1 };
    set!(interface, "tcp-data-split", value, op_rings_set_do, RINGS_SET, "tcp-data-split" => push_tcp_data_split)
}

/// Switches flow control: `rx` (obey pause frames), `tx` (send them) or `autoneg` (as both ends negotiate).
///
/// # Errors
/// When the driver refuses it.
pub fn set_pause(interface: &str, key: &str, on: bool) -> io::Result<()> {
    set!(interface, key, u32::from(on), op_pause_set_do, PAUSE_SET,
        "rx" => push_rx, "tx" => push_tx, "autoneg" => push_autoneg)
}

/// Sets the number of channels, `combined`, `rx` or `tx`.
///
/// # Errors
/// When the driver refuses it.
pub fn set_channels(interface: &str, key: &str, value: u32) -> io::Result<()> {
    set!(interface, key, value, op_channels_set_do, CHANNELS_SET,
        "combined" => push_combined_count, "rx" => push_rx_count, "tx" => push_tx_count)
}

fn rings(reply: &ethtool::IterableRings<'_>) -> BTreeMap<String, u32> {
    figures!(reply, "rx" => get_rx, "rx-max" => get_rx_max, "tx" => get_tx, "tx-max" => get_tx_max)
}

fn channels(reply: &ethtool::IterableChannels<'_>) -> BTreeMap<String, u32> {
    figures!(reply,
        "rx" => get_rx_count, "rx-max" => get_rx_max,
        "tx" => get_tx_count, "tx-max" => get_tx_max,
        "combined" => get_combined_count, "combined-max" => get_combined_max)
}

fn pause(reply: &ethtool::IterablePause<'_>) -> BTreeMap<String, bool> {
    let map: BTreeMap<String, u8> = figures!(reply, "autoneg" => get_autoneg, "rx" => get_rx, "tx" => get_tx);
    map.into_iter().map(|(name, on)| (name, on != 0)).collect()
}

fn coalesce(reply: &ethtool::IterableCoalesce<'_>) -> BTreeMap<String, u32> {
    figures!(reply,
        "rx-usecs" => get_rx_usecs, "rx-frames" => get_rx_max_frames,
        "rx-usecs-irq" => get_rx_usecs_irq, "rx-frames-irq" => get_rx_max_frames_irq,
        "tx-usecs" => get_tx_usecs, "tx-frames" => get_tx_max_frames,
        "tx-usecs-irq" => get_tx_usecs_irq, "tx-frames-irq" => get_tx_max_frames_irq,
        "adaptive-rx" => get_use_adaptive_rx, "adaptive-tx" => get_use_adaptive_tx,
        "pkt-rate-low" => get_pkt_rate_low, "pkt-rate-high" => get_pkt_rate_high,
        "rx-usecs-low" => get_rx_usecs_low, "rx-usecs-high" => get_rx_usecs_high,
        "rx-frames-low" => get_rx_max_frames_low, "rx-frames-high" => get_rx_max_frames_high,
        "tx-usecs-low" => get_tx_usecs_low, "tx-usecs-high" => get_tx_usecs_high,
        "tx-frames-low" => get_tx_max_frames_low, "tx-frames-high" => get_tx_max_frames_high,
        "sample-interval" => get_rate_sample_interval, "stats-block-usecs" => get_stats_block_usecs,
        "cqe-mode-rx" => get_use_cqe_mode_rx, "cqe-mode-tx" => get_use_cqe_mode_tx,
        "rx-cqe-frames" => get_rx_cqe_frames, "rx-cqe-nsecs" => get_rx_cqe_nsecs,
        "tx-aggr-max-bytes" => get_tx_aggr_max_bytes, "tx-aggr-max-frames" => get_tx_aggr_max_frames,
        "tx-aggr-time-usecs" => get_tx_aggr_time_usecs)
}

fn profiles(reply: &ethtool::IterableCoalesce<'_>) -> BTreeMap<String, Vec<Profile>> {
    let steps = |profile: ethtool::IterableProfile<'_>| -> Vec<Profile> {
        let steps = profile.get_irq_moderation();
        steps
            .map(|step| Profile { usecs: step.get_usec().unwrap_or(0), frames: step.get_pkts().unwrap_or(0) })
            .collect()
    };
    let found = [("rx", reply.get_rx_profile()), ("tx", reply.get_tx_profile())];
    found.into_iter().filter_map(|(name, profile)| Some((name.to_owned(), steps(profile.ok()?)))).collect()
}

fn rss(reply: &ethtool::IterableRss<'_>) -> Rss {
    let table = reply.get_indir().unwrap_or_default();
    Rss {
        hash_function: reply.get_hfunc().ok(),
        indirection: table.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect(),
        key_bytes: reply.get_hkey().ok().map(<[u8]>::len),
        key: reply.get_hkey().ok().map(|key| key.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// Offloads that the device can switch, on or off, and those that are on and cannot be switched. In the kernel's reply,
/// the bit set `hw` has every feature and whether the device can switch it; the bit set `active` lists only the
/// features that are on.
fn features(reply: &ethtool::IterableFeatures<'_>) -> BTreeMap<String, bool> {
    let hw = reply.get_hw().map(|set| bits(&set)).unwrap_or_default();
    let active = reply.get_active().map(|set| bits(&set)).unwrap_or_default();
    let can = hw.into_iter().filter(|(_, can)| *can).map(|(name, _)| (name, false));
    let mut map: BTreeMap<String, bool> = can.collect();
    map.extend(active.into_iter().map(|(name, _)| (name, true)));
    map
}

fn bits(set: &IterableBitset<'_>) -> Vec<(String, bool)> {
    let Ok(bits) = set.get_bits() else { return Vec::new() };
    bits.get_bit()
        .filter_map(|bit| {
            let name = bit.get_name().ok()?.to_string_lossy().into_owned();
            Some((name, bit.get_value().is_ok()))
        })
        .collect()
}

/// Returns all names of a set, with and without their bit set.
fn names(set: &IterableBitset<'_>) -> Vec<String> {
    bits(set).into_iter().map(|(name, _)| name).collect()
}

/// Returns the highest speed of link modes such as `10000baseT/Full` (Mbit/s); `None` if no mode has a speed.
fn highest_speed(modes: &[String]) -> Option<u32> {
    modes.iter().filter_map(|mode| mode.split_once("base")?.0.parse().ok()).max()
}

fn duplex_name(duplex: u8) -> Option<String> {
    match duplex {
        0 => Some("half".to_owned()),
        1 => Some("full".to_owned()),
        _ => None,
    }
}

fn reason(error: &ReplyError) -> String {
    match error.as_io_error().raw_os_error() {
        Some(libc::EOPNOTSUPP) => "the driver does not offer it".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_fastest_link_mode() {
        let modes = ["Autoneg", "100baseT/Half", "1000baseT/Full", "25000baseCR/Full", "Backplane"].map(str::to_owned);
        assert_eq!(super::highest_speed(&modes), Some(25_000));
        assert_eq!(super::highest_speed(&modes[..1]), None);
    }
}
