//! Temporary changes of a device's offloads, coalescing, MTU, speed and duplex: [`DeviceHold`].
//!
//! Each setting is recorded in the journal before it is changed for the first time. [`DeviceHold::set_back`], its drop,
//! or after a kill -9 the next start restores the original values.

mod link;
#[cfg(test)]
mod tests;

pub use state::DeviceState;

use crate::{
    journal::{HostLock, JournalError, StateDir},
    nic::{
        self, Nic,
        link::{LinkMode, LinkSetting},
    },
    rtnl::Rtnl,
    setting::{Group, LINK_TIME, POLL_INTERVAL, Setting},
    testbed::Permission,
    tune::apply::{Failed, Session},
};
use netcliff_core::experiment::{Coalesce, Key, Pause};
use std::{io, path::Path, thread, time::Instant};

/// MTUs that may be set (bytes). Below 1280 the kernel removes IPv6 addresses from a device, and they would not be
/// restored.
pub const MTU_BYTES: std::ops::RangeInclusive<u32> = 1280..=65_535;

/// Why a device's settings cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Journal or lock failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The device does not exist here, or the kernel does not report it.
    #[error("{interface}: {source}; the devices here are {there}")]
    Unknown {
        /// Its name as given.
        interface: String,
        /// Error of the operating system.
        source: io::Error,
        /// Names of the existing devices.
        there: String,
    },
    /// The process lacks the right to change them.
    #[error(
        "the settings of {interface} cannot be changed: this needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) on its host"
    )]
    Forbidden {
        /// The device.
        interface: String,
    },
    /// A value that cannot be set here.
    #[error("{interface}: {what}; {accepted}")]
    Value {
        /// The device.
        interface: String,
        /// What was requested.
        what: String,
        /// What is accepted.
        accepted: String,
    },
    /// The kernel or the driver refused it.
    #[error("{setting} could not be set to {value}: {source}")]
    Refused {
        /// The setting.
        setting: Setting,
        /// The value.
        value: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The far end of the cable does not link at this speed and duplex.
    #[error("{interface} comes to no link of {mode}: {why}; the link is as it was found again")]
    NoLink {
        /// The device.
        interface: String,
        /// What was requested.
        mode: LinkMode,
        /// What was observed.
        why: &'static str,
    },
    /// The link did not come up again.
    #[error("{interface} was not up again {} s after its settings were changed", LINK_TIME.as_secs())]
    LinkDown {
        /// The device.
        interface: String,
    },
}

/// Allows changes of a device's settings; dropping it restores them.
#[derive(Debug)]
pub struct DeviceHold {
    interface: String,
    found: DeviceState,
    /// Original setting of the link, negotiated or manual; `None` if the driver does not report it.
    found_link: Option<LinkSetting>,
    /// True after a link did not come up by negotiation: speed and duplex are then set manually.
    by_hand: bool,
    was_up: bool,
    left_over: Vec<String>,
    session: Session,
}

impl DeviceHold {
    /// Takes the host's lock, undoes changes left by killed runs, and records the state of the device.
    ///
    /// # Errors
    /// The process is not root, the device does not exist, or another run has locked the host.
    pub fn take(interface: &str, state: &StateDir) -> Result<Self, DeviceError> {
        let (lock, replayed) = HostLock::acquire_and_replay(state)?;
        let nic = Self::check(interface)?;
        let found = DeviceState::of(&nic);
        let was_up = nic.operational_state.as_deref() == Some("up");
        Ok(Self {
            interface: interface.to_owned(),
            found,
            found_link: nic.link_setting(),
            by_hand: false,
            was_up,
            left_over: replayed.left_over(),
            session: Session::new(&lock),
        })
    }

    /// Checks whether [`DeviceHold::take`] could succeed, as far as possible without taking the device; returns the
    /// present state of the device.
    ///
    /// # Errors
    /// The process is not root, or the device does not exist.
    pub fn check(interface: &str) -> Result<Nic, DeviceError> {
        let nic = read(interface)?;
        if Permission::probe().allows_testbed() {
            Ok(nic)
        } else {
            Err(DeviceError::Forbidden { interface: interface.to_owned() })
        }
    }

    /// Its name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Changes by killed runs that could not be restored, as sentences: they were in force when the device was taken.
    pub fn left_over(&self) -> &[String] {
        &self.left_over
    }

    /// Original state of the device.
    pub fn found(&self) -> &DeviceState {
        &self.found
    }

    /// Changes the given settings, and returns the resulting state: drivers round values, and the kernel couples
    /// offloads.
    ///
    /// # Errors
    /// The device lacks a setting, a value is impossible, the driver refuses a value, or the link does not come up.
    /// Changes made before the error remain until they are restored. An offload that the driver refuses is no error;
    /// the returned state shows it.
    pub fn bring_to(&mut self, wanted: &DeviceState) -> Result<DeviceState, DeviceError> {
        self.accept(wanted)?;
        let now = DeviceState::of(&read(&self.interface)?);
        let steps = self.steps(wanted, &now);
        let link = wanted.link.filter(|mode| now.link != Some(*mode));
        if steps.is_empty() && link.is_none() {
            return Ok(now);
        }
        for (setting, value) in steps {
            match self.write(&setting, &value) {
                // A feature that depends on others: its state is returned below.
                Err(DeviceError::Refused { setting: Setting::Ethtool { group: Group::Features, .. }, .. }) | Ok(()) => {
                }
                Err(error) => return Err(error),
            }
        }
        match link {
            Some(mode) => self.bring_link_to(mode),
            None => self.wait_until_up(),
        }
    }

    /// Restores all changes; returns what could not be restored, as sentences.
    pub fn set_back(&mut self) -> Vec<String> {
        if self.session.is_untouched() {
            return Vec::new();
        }
        let mut problems: Vec<String> = self.session.undo().into_iter().filter_map(|outcome| outcome.error).collect();
        match self.wait_until(|now| self.found.link.is_none() || now.link == self.found.link) {
            Err(error) => problems.push(error.to_string()),
            Ok(now) => problems.extend(self.differences(&now)),
        }
        problems
    }

    /// Returns a sentence for each offload, MTU and link that differs from its original value.
    fn differences(&self, now: &DeviceState) -> Vec<String> {
        let on = |on: bool| if on { "on" } else { "off" };
        let features = self.found.features.iter().filter_map(|(name, was)| {
            let is = now.features.get(name).copied().unwrap_or_default();
            (is != *was).then(|| format!("{} offload {name} is {}, and was {}", self.interface, on(is), on(*was)))
        });
        let mtu = self.found.mtu_bytes.zip(now.mtu_bytes).filter(|(was, is)| was != is);
        let link = self.found.link.zip(now.link).filter(|(was, is)| was != is);
        features
            .chain(mtu.map(|(was, is)| format!("{} MTU is {is}, and was {was}", self.interface)))
            .chain(link.map(|(was, is)| format!("{} has a link of {is}, and had {was}", self.interface)))
            .collect()
    }

    fn accept(&self, wanted: &DeviceState) -> Result<(), DeviceError> {
        let bad = |what: String, accepted: String| {
            Err(DeviceError::Value { interface: self.interface.clone(), what, accepted })
        };
        if let Some(mtu) = wanted.mtu_bytes.filter(|mtu| Some(*mtu) != self.found.mtu_bytes && !MTU_BYTES.contains(mtu))
        {
            let accepted = format!(
                "{} to {} bytes; smaller ones would cost its IPv6 addresses",
                MTU_BYTES.start(),
                MTU_BYTES.end()
            );
            return bad(format!("MTU {mtu}"), accepted);
        }
        self.accept_link(wanted.link)?;
        // Other features may cut the device off (loopback) or deliver packets of others (rx-all).
        let offloads: Vec<&str> = Key::ALL
            .into_iter()
            .flat_map(|key| if let Key::Feature(feature) = key { feature.kernel_names() } else { &[] })
            .copied()
            .collect();
        if let Some(name) = wanted.features.keys().find(|name| !offloads.contains(&name.as_str())) {
            return bad(format!("feature {name}"), format!("one of these is set: {}", offloads.join(", ")));
        }
        if let Some(name) = wanted.features.keys().find(|name| !self.found.features.contains_key(*name)) {
            return bad(
                format!("offload {name}"),
                "it does not have that one (`ethtool -k` shows what it has)".to_owned(),
            );
        }
        let has_pause =
            |name: &str| Pause::ALL.iter().any(|key| key.kernel_name() == name) && self.found.pause.contains_key(name);
        if let Some(name) = wanted.pause.keys().find(|name| !has_pause(name)) {
            return bad(
                format!("flow control {name}"),
                "it does not have that one (`ethtool -a` shows what it has)".to_owned(),
            );
        }
        let is_set = |name: &str| Coalesce::in_order().any(|what| what.kernel_name() == name);
        let has = |name: &str| is_set(name) && self.found.coalesce.contains_key(name);
        match wanted.coalesce.keys().find(|name| !has(name)) {
            Some(name) => bad(
                format!("coalescing {name}"),
                "it does not have that one (`ethtool -c` shows what it has)".to_owned(),
            ),
            None => Ok(()),
        }
    }

    /// Settings to change from the present state to the wanted one.
    fn steps(&self, wanted: &DeviceState, now: &DeviceState) -> Vec<(Setting, String)> {
        let ethtool =
            |group, key: &str| Setting::Ethtool { interface: self.interface.clone(), group, key: key.to_owned() };
        let mut steps = Vec::new();
        for (name, on) in wanted.features.iter().filter(|(name, on)| now.features.get(*name) != Some(*on)) {
            steps.push((ethtool(Group::Features, name), if *on { "on" } else { "off" }.to_owned()));
        }
        // The negotiation of flow control is set first, because negotiation overrides the other values.
        for key in Pause::ALL.map(Pause::kernel_name) {
            let Some(on) = wanted.pause.get(key).filter(|on| now.pause.get(key) != Some(*on)) else { continue };
            steps.push((ethtool(Group::Pause, key), if *on { "on" } else { "off" }.to_owned()));
        }
        for name in Coalesce::in_order().map(Coalesce::kernel_name) {
            let Some(value) = wanted.coalesce.get(name).filter(|value| now.coalesce.get(name) != Some(*value)) else {
                continue;
            };
            steps.push((ethtool(Group::Coalesce, name), value.to_string()));
        }
        if let Some(mtu) = wanted.mtu_bytes.filter(|mtu| Some(*mtu) != now.mtu_bytes) {
            steps.push((Setting::Mtu { interface: self.interface.clone() }, mtu.to_string()));
        }
        steps
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), DeviceError> {
        let found = self.found_value(setting);
        self.session.change(setting, &found, value).map_err(|failed| match failed {
            Failed::Journal(error) => error.into(),
            Failed::Io(source) => DeviceError::Refused { setting: setting.clone(), value: value.to_owned(), source },
            Failed::Changed(is) => {
                let source = io::Error::other(format!("it holds {is}"));
                DeviceError::Refused { setting: setting.clone(), value: value.to_owned(), source }
            }
        })
    }

    /// The original value of a setting. The present value may differ, because the kernel may have changed it together
    /// with another setting.
    fn found_value(&self, setting: &Setting) -> String {
        let in_words = |on: &bool| if *on { "on" } else { "off" }.to_owned();
        let found = match setting {
            Setting::Ethtool { group: Group::Features, key, .. } => self.found.features.get(key).map(in_words),
            Setting::Ethtool { group: Group::Pause, key, .. } => self.found.pause.get(key).map(in_words),
            Setting::Ethtool { key, .. } => self.found.coalesce.get(key).map(u32::to_string),
            Setting::Link { .. } => self.found_link.as_ref().map(ToString::to_string),
            _ => self.found.mtu_bytes.map(|mtu| mtu.to_string()),
        };
        found.unwrap_or_default()
    }

    /// The state of the device, once its link is up as before.
    fn wait_until_up(&self) -> Result<DeviceState, DeviceError> {
        self.wait_until(|_| true)
    }

    /// Waits until the device's link is up as before and `is_so` is true; returns the device's state. After
    /// [`LINK_TIME`] it also returns the state if only `is_so` is false.
    fn wait_until(&self, is_so: impl Fn(&DeviceState) -> bool) -> Result<DeviceState, DeviceError> {
        let deadline = Instant::now() + LINK_TIME;
        loop {
            // The carrier is read first: the operational state follows it by up to a second.
            let carrier = Rtnl::new().link(&self.interface).is_ok_and(|link| link.has_carrier());
            let nic = read(&self.interface)?;
            let up = !self.was_up || carrier && nic.operational_state.as_deref() == Some("up");
            let state = DeviceState::of(&nic);
            let late = Instant::now() > deadline;
            if up && (late || is_so(&state)) {
                return Ok(state);
            }
            if late {
                return Err(DeviceError::LinkDown { interface: self.interface.clone() });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for DeviceHold {
    fn drop(&mut self) {
        for problem in self.set_back() {
            tracing::warn!(problem, "a device could not be left as it was found");
        }
    }
}

fn read(interface: &str) -> Result<Nic, DeviceError> {
    nic::read(interface, Path::new("/sys")).map_err(|source| {
        let there = nic::ask_all().unwrap_or_default().into_iter().map(|nic| nic.name).collect::<Vec<_>>().join(", ");
        DeviceError::Unknown { interface: interface.to_owned(), source, there }
    })
}

mod state {
    //! [`DeviceState`]: values of the device settings that may be changed.

    use crate::nic::{Nic, link::LinkMode};
    use serde::{Deserialize, Serialize};
    use std::collections::{BTreeMap, BTreeSet};

    /// State of a device, or the wanted state, which has only the settings to change.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct DeviceState {
        /// MTU (bytes).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mtu_bytes: Option<u32>,
        /// Offloads by the kernel's name.
        pub features: BTreeMap<String, bool>,
        /// Interrupt coalescing by the kernel's name; empty if the driver has none.
        pub coalesce: BTreeMap<String, u32>,
        /// Flow control by the kernel's name (`autoneg`, `rx`, `tx`); empty if the driver has none.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        pub pause: BTreeMap<String, bool>,
        /// Speed and duplex of the device's link; `None` while the link is down, or if the driver does not report them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub link: Option<LinkMode>,
        /// Speeds and duplexes that the device supports; empty in a wanted state.
        #[serde(skip_serializing_if = "BTreeSet::is_empty")]
        pub link_modes: BTreeSet<LinkMode>,
    }

    impl DeviceState {
        pub(crate) fn of(nic: &Nic) -> Self {
            Self {
                mtu_bytes: nic.mtu_bytes,
                features: nic.features.clone(),
                coalesce: nic.coalesce.clone(),
                pause: nic.pause.clone(),
                link: nic.link_mode(),
                link_modes: nic.link_supported.iter().filter_map(|name| LinkMode::of(name)).collect(),
            }
        }
    }
}
