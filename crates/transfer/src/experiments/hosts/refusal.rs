//! Which settings the devices of two hosts do not support. Pure functions of the devices' states.

use netcliff_core::experiment::{Lack, Setting};
use netcliff_host::device::{DeviceState, MTU_BYTES};
use netcliff_host::nic::link::LinkMode;
use netcliff_host::testbed::vm::{Model, without_effect};

use super::wanted::{link, names};

/// The devices that take the settings.
pub(super) struct Ends<'a> {
    /// The state of each device before the run, with its name for messages.
    pub devices: Vec<(String, &'a DeviceState)>,
    /// The guest's NIC. `None` if the far host is not a guest.
    pub guest: Option<Model>,
}

impl Ends<'_> {
    /// Why a setting of a device is not available. `None` if it is available.
    pub fn refusal(&self, setting: &Setting) -> Option<Lack> {
        let key = setting.key();
        let lacking = |has: &dyn Fn(&DeviceState) -> bool| {
            let lacks = self.devices.iter().find(|(_, found)| !has(found))?;
            Some(Lack::Setting(key, format!("{} does not have it", lacks.0)))
        };
        let refused = match setting {
            Setting::Feature(feature, _) => lacking(&|found| !names(*feature, found).is_empty()),
            Setting::Coalesce(what, _) => lacking(&|found| found.coalesce.contains_key(what.kernel_name())),
            Setting::Pause(what, _) => lacking(&|found| found.pause.contains_key(what.kernel_name())),
            Setting::Mtu(mtu) if !MTU_BYTES.contains(mtu) => {
                let (least, most) = (MTU_BYTES.start(), MTU_BYTES.end());
                Some(Lack::Other(format!("{key} {mtu}: on a host's device {least} to {most} bytes are set")))
            }
            Setting::Mtu(_) => lacking(&|found| found.mtu_bytes.is_some()),
            Setting::Rate(None) | Setting::HalfDuplex(false) => None,
            // The guest's wire has a token bucket.
            Setting::Rate(Some(_)) | Setting::HalfDuplex(true) if self.guest.is_some() => None,
            Setting::Rate(Some(bps)) => self.lacking_link(setting, |mode| f64::from(mode.speed_mbps) * 1e6 == *bps),
            Setting::HalfDuplex(true) => self.lacking_link(setting, |mode| mode.half_duplex),
            _ => Some(Lack::Setting(key, "it needs the testbed netns (without --to and --ssh)".to_owned())),
        };
        refused.or_else(|| without_effect(self.guest?, setting))
    }

    /// Why no link mode of some device fulfils `is_it`. `None` if each device has such a mode.
    fn lacking_link(&self, setting: &Setting, is_it: impl Fn(&LinkMode) -> bool) -> Option<Lack> {
        let (name, found) = self.devices.iter().find(|(_, found)| !found.link_modes.iter().any(&is_it))?;
        let modes = found.link_modes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let has = if modes.is_empty() { "the driver names no speeds to choose from" } else { &modes };
        Some(Lack::Other(format!("{} {setting}: {name} does not have it ({has})", setting.key())))
    }

    /// Why these settings are not available together, such as a rate in half duplex. `None` if they are.
    pub fn impossible(&self, settings: &[Setting]) -> Option<String> {
        if self.guest.is_some() {
            let limited = settings.iter().any(|setting| matches!(setting, Setting::Rate(Some(_))));
            let both_ways = settings.contains(&Setting::HalfDuplex(true));
            let far_sends = settings.contains(&Setting::FarSends(true));
            return (limited && far_sends && !both_ways).then(|| {
                "rate with direction receive: the bucket of a guest's wire holds what goes to the guest; duplex half holds both ways"
                    .to_owned()
            });
        }
        self.devices.iter().find_map(|(name, found)| {
            let mode = link(settings, found).filter(|mode| found.link != Some(*mode))?;
            let lacks = !found.link_modes.contains(&mode);
            lacks.then(|| format!("a link of {mode}: {name} does not have it"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::experiment::Key;
    use std::collections::BTreeMap;

    fn found() -> DeviceState {
        DeviceState {
            mtu_bytes: Some(1500),
            features: BTreeMap::from([("rx-checksum".to_owned(), true)]),
            coalesce: BTreeMap::from([("rx-usecs".to_owned(), 3)]),
            pause: BTreeMap::from([("rx".to_owned(), true)]),
            ..DeviceState::default()
        }
    }

    fn refusal(guest: Option<Model>, key: &str, value: &str) -> Option<String> {
        let found = found();
        let ends = Ends { devices: vec![("e1000e, eth0 of the guest".to_owned(), &found)], guest };
        ends.refusal(&key.parse::<Key>().expect("a key").parse(value).expect("a value")).map(String::from)
    }

    #[test]
    fn a_guest_has_what_its_device_has_and_qemu_follows() {
        let guest = Some(Model::E1000e);
        for (key, value) in [
            ("rx-checksum", "off"),
            ("rx-usecs", "0"),
            ("rx-usecs", "250"),
            ("mtu", "9000"),
            ("rate", "100Mbit/s"),
            ("duplex", "half"),
        ] {
            assert_eq!(refusal(guest, key, value), None, "{key} {value}");
        }
        for (key, value, word) in [
            ("tso", "off", "e1000e, eth0 of the guest does not have it"),
            ("rx-frames", "16", "does not have it"),
            ("rx-usecs", "50", "leaves 128 us between two interrupts"),
            ("pause-rx", "on", "pause frames"),
            ("backlog", "1000", "testbed netns"),
            ("mtu", "600", "1280 to 65535"),
        ] {
            let why = refusal(guest, key, value).expect(key);
            assert!(why.starts_with(key) && why.contains(word), "{why}");
        }
    }

    #[test]
    fn a_guest_that_sends_is_not_held_by_its_wire() {
        let found = found();
        let devices = || vec![("e1000e".to_owned(), &found)];
        let guest = Ends { devices: devices(), guest: Some(Model::Igb) };
        let sends = [Setting::Rate(Some(1e8)), Setting::FarSends(true)];
        assert!(guest.impossible(&sends).is_some_and(|why| why.contains("holds what goes to the guest")));
        assert_eq!(guest.impossible(&[sends.to_vec(), vec![Setting::HalfDuplex(true)]].concat()), None);
        assert_eq!(guest.impossible(&[Setting::Rate(Some(1e8))]), None);
        assert_eq!(guest.impossible(&[Setting::FarSends(true)]), None);
    }

    #[test]
    fn another_host_s_device_is_followed_and_its_cable_is_slow() {
        assert_eq!(refusal(None, "rx-usecs", "50"), None);
        assert_eq!(refusal(None, "pause-rx", "on"), None);
        assert!(refusal(None, "rate", "100Mbit/s").is_some_and(|why| why.contains("no speeds to choose from")));
    }
}
