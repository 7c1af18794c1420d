//! Converts a configuration's settings into a state of a device. Pure functions.

use std::collections::BTreeMap;

use netcliff_core::experiment::{Coalesce, Feature, Key, Pause, Setting};
use netcliff_host::device::DeviceState;
use netcliff_host::nic::link::LinkMode;

/// The kernel's names of an offload, as far as the device has them.
pub(super) fn names(feature: Feature, found: &DeviceState) -> Vec<&'static str> {
    feature.kernel_names().iter().copied().filter(|name| found.features.contains_key(*name)).collect()
}

/// The link mode of a configuration; values that the configuration does not name are as in `found`. `None` if the
/// device has no link mode.
pub(super) fn link(settings: &[Setting], found: &DeviceState) -> Option<LinkMode> {
    let mut link = found.link?;
    for setting in settings {
        match setting {
            Setting::Rate(Some(bps)) => link.speed_mbps = (bps / 1e6) as u32,
            Setting::HalfDuplex(half) => link.half_duplex = *half,
            _ => {}
        }
    }
    Some(link)
}

/// The state `found`, changed by a configuration's settings.
pub(super) fn wanted(settings: &[Setting], found: &DeviceState) -> DeviceState {
    let mtu_bytes = settings.iter().find_map(|s| if let Setting::Mtu(mtu) = s { Some(*mtu) } else { None });
    DeviceState {
        mtu_bytes: mtu_bytes.or(found.mtu_bytes),
        link: link(settings, found),
        features: features(settings, found),
        coalesce: coalesce(settings, found),
        pause: pause(settings, found),
        ..DeviceState::default()
    }
}

fn features(settings: &[Setting], found: &DeviceState) -> BTreeMap<String, bool> {
    let mut wanted = BTreeMap::new();
    for key in Key::ALL {
        let Key::Feature(feature) = key else { continue };
        let requested = settings
            .iter()
            .find_map(|s| if let Setting::Feature(f, on) = s { (*f == feature).then_some(*on) } else { None });
        for name in names(feature, found) {
            let was = found.features.get(name).copied().unwrap_or_default();
            wanted.insert(name.to_owned(), requested.unwrap_or(was));
        }
    }
    wanted
}

/// Flow control for a configuration. If a direction is requested, autonegotiation of flow control is off unless it is
/// requested too, because the negotiation would decide the directions. Values that the configuration does not name are
/// as in `found`.
fn pause(settings: &[Setting], found: &DeviceState) -> BTreeMap<String, bool> {
    let requested: BTreeMap<Pause, bool> = settings
        .iter()
        .filter_map(|s| if let Setting::Pause(what, on) = s { Some((*what, *on)) } else { None })
        .collect();
    let directions = requested.contains_key(&Pause::Receive) || requested.contains_key(&Pause::Transmit);
    let value = |what: Pause| {
        let was = *found.pause.get(what.kernel_name())?;
        let implied = if what == Pause::Autoneg && directions { false } else { was };
        Some((what.kernel_name().to_owned(), requested.get(&what).copied().unwrap_or(implied)))
    };
    Pause::ALL.into_iter().filter_map(value).collect()
}

/// Interrupt coalescing for a configuration. If a time or frame limit of a direction is requested, this direction's
/// adaptive switch is off unless it is requested too. While a switch is on, the driver chooses the limits, so no limit
/// is set. If only one direction is named, the other direction is not changed, because some drivers couple the two.
fn coalesce(settings: &[Setting], found: &DeviceState) -> BTreeMap<String, u32> {
    let requested: BTreeMap<Coalesce, u32> = settings
        .iter()
        .filter_map(|s| if let Setting::Coalesce(what, value) = s { Some((*what, *value)) } else { None })
        .collect();
    let found = |what: Coalesce| found.coalesce.get(what.kernel_name()).copied();
    let mut wanted = BTreeMap::new();
    for [switch, usecs, frames] in Coalesce::DIRECTIONS {
        let figures = requested.contains_key(&usecs) || requested.contains_key(&frames);
        let named = figures || requested.contains_key(&switch);
        if !named && !requested.is_empty() {
            continue;
        }
        let was = found(switch).map(|was| if figures { 0 } else { was });
        let adaptive = was.map(|was| requested.get(&switch).copied().unwrap_or(was));
        wanted.extend(adaptive.map(|on| (switch.kernel_name().to_owned(), on)));
        if adaptive.is_none_or(|on| on == 0) {
            let value = |what: Coalesce| requested.get(&what).copied().or_else(|| found(what));
            let values = [usecs, frames].into_iter().filter_map(|what| Some((what, value(what)?)));
            wanted.extend(values.map(|(what, value)| (what.kernel_name().to_owned(), value)));
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> DeviceState {
        let features = [("rx-gro", true), ("tx-tcp-segmentation", true), ("tx-tcp6-segmentation", false)];
        let coalesce = [("adaptive-rx", 1), ("rx-usecs", 20), ("rx-frames", 5), ("tx-usecs", 72)];
        DeviceState {
            mtu_bytes: Some(1500),
            features: features.map(|(name, on)| (name.to_owned(), on)).into_iter().collect(),
            coalesce: coalesce.map(|(name, value)| (name.to_owned(), value)).into_iter().collect(),
            link: Some(LinkMode { speed_mbps: 1000, half_duplex: false }),
            ..DeviceState::default()
        }
    }

    #[test]
    fn a_link_of_another_rate_or_duplex() {
        let mode = |settings: &[Setting]| wanted(settings, &found()).link.map(|link| link.to_string());
        assert_eq!(mode(&[Setting::NoDelay(true)]).as_deref(), Some("1000 Mbit/s full duplex"), "as it was found");
        assert_eq!(mode(&[Setting::Rate(None)]).as_deref(), Some("1000 Mbit/s full duplex"));
        let slow = [Setting::Rate(Some(1e7)), Setting::HalfDuplex(true)];
        assert_eq!(mode(&slow).as_deref(), Some("10 Mbit/s half duplex"));
        let down = DeviceState { link: None, ..found() };
        assert_eq!(wanted(&slow, &down).link, None, "nothing to set it back to");
    }

    #[test]
    fn what_a_configuration_does_not_name_is_as_it_was_found() {
        let same = wanted(&[Setting::NoDelay(true)], &found());
        assert_eq!((same.mtu_bytes, &same.features), (Some(1500), &found().features));
        let stands = [("adaptive-rx", 1), ("tx-usecs", 72)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(same.coalesce, BTreeMap::from(stands), "the driver moves the others itself");
        let delay = Setting::Coalesce(Coalesce::RxUsecs, 50);
        let changed = wanted(&[Setting::Feature(Feature::Tso, false), Setting::Mtu(9000), delay], &found());
        assert_eq!(
            (changed.mtu_bytes, changed.features["tx-tcp-segmentation"], changed.features["rx-gro"]),
            (Some(9000), false, true)
        );
        assert_eq!(
            coalesced(&changed),
            [("adaptive-rx", 0), ("rx-frames", 5), ("rx-usecs", 50)],
            "the other way is left alone"
        );
    }

    #[test]
    fn a_direction_of_flow_control_is_not_negotiated() {
        let state = |pause: &[(&str, bool)]| DeviceState {
            pause: pause.iter().map(|(name, on)| ((*name).to_owned(), *on)).collect(),
            ..found()
        };
        let negotiated = state(&[("autoneg", true), ("rx", true), ("tx", true)]);
        let with = |asked: &[(Pause, bool)]| {
            let settings: Vec<Setting> = asked.iter().map(|(what, on)| Setting::Pause(*what, *on)).collect();
            wanted(&settings, &negotiated).pause
        };
        assert_eq!(with(&[]), negotiated.pause, "as it was found");
        assert_eq!(with(&[(Pause::Receive, false)]), state(&[("autoneg", false), ("rx", false), ("tx", true)]).pause);
        assert!(with(&[(Pause::Autoneg, true), (Pause::Transmit, false)])["autoneg"]);
        assert_eq!(wanted(&[Setting::Pause(Pause::Receive, false)], &found()).pause, BTreeMap::new(), "it has none");
    }

    fn coalesced(state: &DeviceState) -> Vec<(&str, u32)> {
        state.coalesce.iter().map(|(name, value)| (name.as_str(), *value)).collect()
    }

    #[test]
    fn a_driver_that_chooses_by_itself_is_told_no_figures() {
        use Coalesce::{AdaptiveRx, AdaptiveTx, RxUsecs, TxFrames, TxUsecs};
        let with = |asked: &[(Coalesce, u32)], found: &DeviceState| {
            let settings: Vec<Setting> = asked.iter().map(|(what, value)| Setting::Coalesce(*what, *value)).collect();
            let wanted = wanted(&settings, found);
            coalesced(&wanted).into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(with(&[(AdaptiveRx, 1), (RxUsecs, 50)], &found()), "adaptive-rx=1");
        assert_eq!(with(&[(AdaptiveRx, 0)], &found()), "adaptive-rx=0 rx-frames=5 rx-usecs=20", "as they were found");
        // For transmission, this device has no adaptive switch and no frame limit.
        assert_eq!(with(&[(TxUsecs, 8)], &found()), "tx-usecs=8");
        assert_eq!(with(&[(TxUsecs, 8), (RxUsecs, 9)], &found()), "adaptive-rx=0 rx-frames=5 rx-usecs=9 tx-usecs=8");
        let all = [("adaptive-rx", 0), ("adaptive-tx", 1), ("rx-usecs", 3), ("tx-usecs", 4), ("tx-frames", 6)];
        let coalesce = all.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        let all = DeviceState { coalesce, ..found() };
        assert_eq!(with(&[(TxFrames, 16)], &all), "adaptive-tx=0 tx-frames=16 tx-usecs=4");
        assert_eq!(with(&[(AdaptiveTx, 1), (RxUsecs, 9)], &all), "adaptive-rx=0 adaptive-tx=1 rx-usecs=9");
    }
}
