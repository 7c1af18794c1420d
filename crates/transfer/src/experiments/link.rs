//! Applies a configuration's settings to the two ends of the testbed's link, and restores them. Without a testbed,
//! nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use netcliff_core::experiment::{Feature, Key, Lack, QdiscKind, Setting};
use netcliff_host::testbed::netns::{IPV6_MIN_MTU, Side, Testbed};
use netcliff_host::testbed::sysctl::{Held, SysctlOverrides, sysctl_path};

use super::place::Place;
use netcliff_trial::rig::{Rig, RigError};

const SIDES: [Side; 2] = [Side::Sender, Side::HostUnderTest];
/// MTU if the experiment does not set one (bytes).
pub(super) const MTU_BYTES: u32 = 1500;

const BACKLOG: &str = "net.core.netdev_max_backlog";

/// Whether this process may write a value of /proc/sys. Writes nothing.
fn writable(sysctl: &str) -> bool {
    std::fs::OpenOptions::new().write(true).open(sysctl_path(sysctl)).is_ok()
}

/// The settings of the link.
pub struct Link<'a> {
    testbed: Option<&'a Testbed>,
    rig: Option<&'a Rig>,
    qdisc: Option<(QdiscKind, Option<u32>)>,
    /// The host's backlog (packets) while an experiment changes it, with the guard that restores it. `None` if it is
    /// unchanged.
    backlog: Option<(u32, Held)>,
    /// Why nothing can be set, if there is no testbed.
    unchanged: &'static str,
    /// Offloads before the run, by side and the kernel's name.
    found: [BTreeMap<String, bool>; 2],
    mtu_bytes: u32,
    rate_bps: Option<f64>,
    shared: bool,
    found_mtu_bytes: u32,
    /// Messages about requested offloads that did not take effect, because the kernel couples them to others.
    overruled: BTreeSet<String>,
}

impl<'a> Link<'a> {
    /// The rig's link, with the testbed's MTU.
    pub fn of(place: &Place<'a>) -> Result<Self, RigError> {
        let testbed = place.testbed();
        let features =
            |side| testbed.map_or(Ok(BTreeMap::new()), |testbed| testbed.features(side)).map_err(RigError::from);
        let found_mtu_bytes = testbed.map_or(MTU_BYTES, |testbed| testbed.options().mtu_bytes);
        Ok(Self {
            testbed,
            rig: place.rig(),
            qdisc: None,
            backlog: None,
            unchanged: place.unchanged(),
            found: [features(Side::Sender)?, features(Side::HostUnderTest)?],
            mtu_bytes: found_mtu_bytes,
            rate_bps: None,
            shared: false,
            found_mtu_bytes,
            overruled: BTreeSet::new(),
        })
    }

    /// Why a setting is not available here. `None` if it is available.
    pub fn refusal(&self, setting: &Setting) -> Option<Lack> {
        let key = setting.key();
        let lacks = |why: &str| Some(Lack::Setting(key, why.to_owned()));
        if self.testbed.is_none() {
            return lacks(self.unchanged);
        }
        match setting {
            Setting::Feature(feature, _)
                if self.names(*feature, 0).is_empty() || self.names(*feature, 1).is_empty() =>
            {
                lacks("veth does not have it")
            }
            Setting::Mtu(mtu) if *mtu < IPV6_MIN_MTU && self.testbed.is_some_and(|testbed| testbed.options().ipv6) => {
                Some(Lack::Other(format!(
                    "{key} {mtu}: IPv6 needs {IPV6_MIN_MTU} at least, and below it the kernel takes it off the device"
                )))
            }
            Setting::Coalesce(..) => lacks("a veth raises no interrupts that could be delayed"),
            // A veth passes packets on with a checksum that their sender declared valid, so the receiver has none to
            // verify.
            Setting::Feature(Feature::RxChecksum, _) => {
                lacks("it cannot act on a veth, which hands over what its sender already vouched for")
            }
            Setting::Qdisc(kind, length) => {
                let (testbed, named) = (self.testbed?, kind.kernel_name().map(|kind| (kind, *length)));
                let tried = named.map(|named| testbed.set_qdisc(Side::Sender, Some(named)));
                let error = tried?.and_then(|()| testbed.set_qdisc(Side::Sender, None)).err()?;
                Some(Lack::Other(format!("{key} {setting}: this kernel does not take it ({error})")))
            }
            Setting::Backlog(_) if !writable(BACKLOG) => {
                lacks(&format!("{BACKLOG} is the whole host's; it needs root, which may write it"))
            }
            Setting::Pause(..) => lacks(
                "a veth has no line on which pause frames could be sent: it needs two hosts (--to or --ssh with --if)",
            ),
            _ => None,
        }
    }

    fn names(&self, feature: Feature, side: usize) -> Vec<&'static str> {
        feature.kernel_names().iter().copied().filter(|name| self.found[side].contains_key(*name)).collect()
    }

    /// Applies a configuration at both ends. A setting that it does not name has the value it had before the run, but
    /// the MTU is 1500.
    pub fn bring_to(&mut self, settings: &[Setting]) -> Result<(), RigError> {
        let Some(testbed) = self.testbed else { return Ok(()) };
        let mtu_bytes = settings.iter().find_map(|s| if let Setting::Mtu(mtu) = s { Some(*mtu) } else { None });
        self.set_mtu(testbed, mtu_bytes.unwrap_or(MTU_BYTES))?;
        let requested: BTreeMap<Feature, bool> = settings
            .iter()
            .filter_map(|s| if let Setting::Feature(f, on) = s { Some((*f, *on)) } else { None })
            .collect();
        for (at, side) in SIDES.into_iter().enumerate() {
            self.set_features(testbed, at, side, &requested)?;
        }
        self.set_backlog(settings.iter().find_map(|s| if let Setting::Backlog(n) = s { Some(*n) } else { None }))?;
        let qdisc =
            settings.iter().find_map(|s| if let Setting::Qdisc(kind, n) = s { Some((*kind, *n)) } else { None });
        // The rate limit is a root qdisc too, so the old qdisc is removed before the limit is set.
        if qdisc != self.qdisc && self.qdisc.is_some() {
            self.set_qdisc(testbed, None)?;
        }
        let rate = settings.iter().find_map(|s| if let Setting::Rate(bps) = s { Some(*bps) } else { None }).flatten();
        self.set_rate(testbed, rate, settings.contains(&Setting::HalfDuplex(true)))?;
        self.set_qdisc(testbed, qdisc)
    }

    fn set_mtu(&mut self, testbed: &Testbed, mtu_bytes: u32) -> Result<(), RigError> {
        if mtu_bytes != self.mtu_bytes {
            for side in SIDES {
                testbed.set_mtu(side, mtu_bytes)?;
            }
            self.mtu_bytes = mtu_bytes;
        }
        Ok(())
    }

    /// Sets the offloads of one end: the requested ones, and all others as before the run.
    fn set_features(
        &mut self,
        testbed: &Testbed,
        at: usize,
        side: Side,
        requested: &BTreeMap<Feature, bool>,
    ) -> Result<(), RigError> {
        let mut wanted = Vec::new();
        for key in Key::ALL {
            let Key::Feature(feature) = key else { continue };
            for name in self.names(feature, at) {
                let found = self.found[at].get(name).copied().unwrap_or_default();
                wanted.push((name, requested.get(&feature).copied().unwrap_or(found)));
            }
        }
        let other = testbed.set_features(side, &wanted)?;
        for (feature, on) in requested {
            if let Some(name) = self.names(*feature, at).iter().find(|name| other.contains_key(**name)) {
                let (key, state) = (Key::Feature(*feature), if *on { "on" } else { "off" });
                let why = format!(
                    "{key} {state} did not come to be in every configuration: the kernel ties {name} to others"
                );
                self.overruled.insert(why);
            }
        }
        Ok(())
    }

    /// Sets the root qdisc of both ends.
    fn set_qdisc(&mut self, testbed: &Testbed, qdisc: Option<(QdiscKind, Option<u32>)>) -> Result<(), RigError> {
        if qdisc == self.qdisc {
            return Ok(());
        }
        let named = qdisc.and_then(|(kind, packets)| Some((kind.kernel_name()?, packets)));
        SIDES.into_iter().try_for_each(|side| testbed.set_qdisc(side, named))?;
        self.qdisc = qdisc;
        Ok(())
    }

    /// Sets the host's backlog. `None` restores it.
    fn set_backlog(&mut self, packets: Option<u32>) -> Result<(), RigError> {
        let held = self.backlog.as_ref().map(|(packets, _)| *packets);
        if let (true, Some(rig)) = (packets != held, self.rig) {
            // Restore the old value before the next one is set.
            self.backlog = None;
            let overrides = |packets| SysctlOverrides { netdev_max_backlog: Some(packets), ..Default::default() };
            self.backlog = packets
                .map(|packets| Ok::<_, RigError>((packets, rig.hold_sysctls(&overrides(packets))?)))
                .transpose()?;
        }
        Ok(())
    }

    /// Limits the rate: by a token bucket at each end, or (half duplex) by one for both. The buckets are made anew each
    /// time, because their size depends on the MTU.
    fn set_rate(&mut self, testbed: &Testbed, bps: Option<f64>, half_duplex: bool) -> Result<(), RigError> {
        if self.rate_bps.is_some() {
            if self.shared {
                testbed.share_rate(None)?;
            } else {
                SIDES.into_iter().try_for_each(|side| testbed.limit_rate(side, None))?;
            }
        }
        (self.rate_bps, self.shared) = (bps, half_duplex);
        match bps {
            None => Ok(()),
            Some(_) if half_duplex => Ok(testbed.share_rate(bps)?),
            Some(_) => Ok(SIDES.into_iter().try_for_each(|side| testbed.limit_rate(side, bps))?),
        }
    }

    /// Restores the link.
    pub fn restore(&mut self) -> Result<(), RigError> {
        self.bring_to(&[Setting::Mtu(self.found_mtu_bytes)])
    }

    /// Messages about settings for which the kernel chose another value than requested.
    pub fn notes(&self) -> Vec<String> {
        self.overruled.iter().cloned().collect()
    }
}
