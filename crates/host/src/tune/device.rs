//! Settings of a device by name, for the time of a measurement: [`Wanted`] is one setting with its value, [`steps`]
//! plans the changes, and [`Held`] leaves them in force until it is dropped.
//!
//! The names are the names of ethtool and sysfs, as in experiment files.

use super::{
    Step,
    apply::{ApplyError, Session},
    plan::napi,
};
use crate::{
    journal::HostLock,
    nic::{self, Nic, netdev::NapiKey},
    rtnl::Rtnl,
    setting::{self, Group, LINK_TIME, POLL_INTERVAL, Setting, figure},
};
use netcliff_core::{
    ParseError,
    experiment::{Coalesce, Feature, Key, Pause},
    units,
};
use std::{
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// IF_OPER_UP, linux/if.h.
const OPERSTATE_UP: u8 = 6;
const REASON: &str = "a check";

/// A setting of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKey {
    /// Interrupt coalescing on receive.
    Coalesce(Coalesce),
    /// An offload on receive.
    Feature(Feature),
    /// Slots of the receive ring.
    RxRing,
    /// Flow control.
    Pause(Pause),
    /// A setting of the NAPI instances.
    Napi(NapiKey),
}

impl DeviceKey {
    /// All keys, in the order in which they are set. A setting comes after the settings that reset it: rings recreate
    /// queues, `adaptive-rx` chooses the values of coalescing.
    pub const ALL: [Self; 14] = {
        let [adaptive, usecs, frames] = Coalesce::DIRECTIONS[0];
        [
            Self::RxRing,
            Self::Feature(Feature::RxChecksum),
            Self::Feature(Feature::Lro),
            Self::Feature(Feature::Gro),
            Self::Pause(Pause::Autoneg),
            Self::Pause(Pause::Receive),
            Self::Pause(Pause::Transmit),
            Self::Coalesce(adaptive),
            Self::Coalesce(usecs),
            Self::Coalesce(frames),
            Self::Napi(NapiKey::GroFlushTimeout),
            Self::Napi(NapiKey::DeferHardIrqs),
            Self::Napi(NapiKey::Threaded),
            Self::Napi(NapiKey::IrqSuspendTimeout),
        ]
    };

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coalesce(what) => what.kernel_name(),
            Self::Feature(feature) => Key::Feature(feature).name(),
            Self::RxRing => "rx",
            Self::Pause(what) => what.key(),
            Self::Napi(key) => key.file().unwrap_or(key.name()),
        }
    }

    /// The key with this name; `None` if no key has it.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Parses a value: `on` or `off` for a switch, a time for `gro_flush_timeout` and `irq-suspend-timeout`, a number
    /// for the others (microseconds for `rx-usecs`).
    ///
    /// # Errors
    /// The text with the accepted form.
    pub fn parse(self, text: &str) -> Result<Wanted, ParseError> {
        let bad = |accepted: &str| ParseError::new(self.name(), text, accepted);
        let number = |accepted: &str| text.parse::<u32>().map_err(|_| bad(accepted));
        let value = match self {
            Self::Coalesce(what) => match Key::Coalesce(what).parse(text)? {
                netcliff_core::experiment::Setting::Coalesce(_, value) => value,
                _ => return Err(bad("expected a number")),
            },
            Self::Feature(_) | Self::Pause(_) | Self::Napi(NapiKey::Threaded) => match text {
                "on" => 1,
                "off" => 0,
                _ => return Err(bad("expected on or off")),
            },
            Self::RxRing => match number("expected a number of slots, such as \"1024\"")? {
                0 => return Err(bad("expected at least 1 slot")),
                slots => slots,
            },
            Self::Napi(NapiKey::DeferHardIrqs) => number("expected a number of empty polls, such as \"2\"")?,
            Self::Napi(_) => {
                let nanoseconds = (units::parse_time_s(text)? * 1e9).round();
                if nanoseconds > f64::from(u32::MAX) {
                    return Err(bad("expected at most 4.29s"));
                }
                nanoseconds as u32
            }
        };
        Ok(Wanted { key: self, value })
    }

    fn is_switch(self) -> bool {
        match self {
            Self::Coalesce(what) => what.is_adaptive(),
            Self::Feature(_) | Self::Pause(_) | Self::Napi(NapiKey::Threaded) => true,
            _ => false,
        }
    }

    /// Formats the kernel's value as users write it.
    fn in_words(self, value: &str) -> String {
        match (self, value.parse::<u64>()) {
            (_, Ok(value @ (0 | 1))) if self.is_switch() => if value == 1 { "on" } else { "off" }.to_owned(),
            (Self::Napi(NapiKey::GroFlushTimeout | NapiKey::IrqSuspendTimeout), Ok(nanoseconds)) => {
                units::print_time_s(nanoseconds as f64 / 1e9)
            }
            _ => value.to_owned(),
        }
    }

    /// The settings that implement this key on a device, with their present values.
    fn settings(self, nic: &Nic) -> Result<Vec<(Setting, String)>, String> {
        let (group, key, topic) = match self {
            Self::Coalesce(what) => (Group::Coalesce, what.kernel_name(), "coalesce"),
            Self::RxRing => (Group::Rings, "rx", "rings"),
            Self::Pause(what) => (Group::Pause, what.kernel_name(), "pause"),
            Self::Feature(feature) => (Group::Features, feature.kernel_names()[0], "features"),
            Self::Napi(key) => {
                let all = napi::settings(nic, key);
                let lacks = || format!("this kernel does not offer {} for {}", self.name(), nic.name);
                return if all.is_empty() { Err(lacks()) } else { Ok(all) };
            }
        };
        if let Some(why) = nic.refuses_coalescing().filter(|_| group == Group::Coalesce) {
            return Err(why);
        }
        let Some(old) = figure(nic, group, key) else {
            let driver =
                nic.driver.as_deref().or(nic.kind.as_deref()).map_or(String::new(), |name| format!(", {name},"));
            let why = nic.missing.get(topic).map_or(String::new(), |why| format!(" ({why})"));
            return Err(format!("the driver of {}{driver} has no {}{why}", nic.name, self.name()));
        };
        Ok(vec![(Setting::Ethtool { interface: nic.name.clone(), group, key: key.to_owned() }, old)])
    }
}

/// A setting and its wanted value: 1 or 0 for a switch, nanoseconds for `gro_flush_timeout` and `irq-suspend-timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// What is set.
    pub key: DeviceKey,
    /// Its value.
    pub value: u32,
}

impl Wanted {
    /// The value in the text form of the setting.
    fn text(self) -> String {
        match (self.key, self.value) {
            (DeviceKey::Feature(_) | DeviceKey::Pause(_), 0) => "off".to_owned(),
            (DeviceKey::Feature(_) | DeviceKey::Pause(_), _) => "on".to_owned(),
            (_, value) => value.to_string(),
        }
    }
}

/// Steps that give a device these settings, in order. Before a value of coalescing, `adaptive-rx` is switched off,
/// because it would choose the value itself; before a direction of flow control, its negotiation is switched off.
///
/// # Errors
/// Why the device cannot have one of the settings, as far as this can be known before trying.
pub fn steps(nic: &Nic, wanted: &[Wanted]) -> Result<Vec<Step>, String> {
    let adaptive = DeviceKey::Coalesce(Coalesce::AdaptiveRx);
    let asked = |key: DeviceKey| wanted.iter().find(|one| one.key == key).copied();
    let figures = [Coalesce::RxUsecs, Coalesce::RxFrames].map(DeviceKey::Coalesce);
    let implied = figures.into_iter().any(|key| asked(key).is_some())
        && asked(adaptive).is_none()
        && nic.coalesce.get("adaptive-rx") == Some(&1);
    let adaptive_off = implied.then_some(Wanted { key: adaptive, value: 0 });
    // Negotiation would choose which pause frames are obeyed and sent.
    let negotiation = DeviceKey::Pause(Pause::Autoneg);
    let directions = [Pause::Receive, Pause::Transmit].map(DeviceKey::Pause);
    let negotiated = directions.into_iter().any(|key| asked(key).is_some())
        && asked(negotiation).is_none()
        && nic.pause.get(Pause::Autoneg.kernel_name()) == Some(&true);
    let fixed = negotiated.then_some(Wanted { key: negotiation, value: 0 });
    let implied = |key: DeviceKey| [adaptive_off, fixed].into_iter().flatten().find(|one| one.key == key);
    let mut steps = Vec::new();
    for key in DeviceKey::ALL {
        let Some(one) = asked(key).or_else(|| implied(key)) else { continue };
        let most = nic.rings.get("rx-max").filter(|most| key == DeviceKey::RxRing && one.value > **most);
        if let Some(most) = most {
            return Err(format!("{} has at most {most} slots of rx", nic.name));
        }
        for (setting, old) in key.settings(nic)? {
            steps.push(Step::new(setting, &old, &one.text(), REASON, "--check"));
        }
    }
    Ok(steps)
}

/// Result of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub name: &'static str,
    /// The value before.
    pub found: String,
    /// The value wanted.
    pub requested: String,
    /// Value read back: drivers round.
    pub effective: String,
}

/// Why a device could not get the wanted settings. Its previous settings are in force.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// It cannot be read.
    #[error("{interface} cannot be read: {source}")]
    Unread {
        /// The device.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The device does not have one of the settings.
    #[error("{0}")]
    Lacks(String),
    /// The kernel refuses a setting on a device without a journal.
    #[error("{setting} cannot be set to {value}: {source}")]
    NotSet {
        /// The setting.
        setting: String,
        /// The value wanted.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel or the driver refuses a setting, or the link does not come back.
    #[error(transparent)]
    Refused(#[from] ApplyError),
}

/// Makes settings on a device that the kernel removes with the calling thread's network namespace: they are not
/// recorded in the journal and never restored.
///
/// # Errors
/// See [`HeldError`].
pub fn set(interface: &str, wanted: &[Wanted]) -> Result<Vec<Made>, HeldError> {
    let unread = |source| HeldError::Unread { interface: interface.to_owned(), source };
    let nic = nic::read(interface, Path::new("/sys")).map_err(unread)?;
    for Step { setting, proposal } in steps(&nic, wanted).map_err(HeldError::Lacks)? {
        let value = proposal.new;
        let written = setting.write(&value);
        written.map_err(|source| HeldError::NotSet { setting: setting.to_string(), value, source })?;
    }
    Ok(wanted.iter().filter_map(|one| made(&nic, *one)).collect())
}

/// Result of making one setting; `nic` describes the device before the change. `None` if the setting cannot be read.
fn made(nic: &Nic, one: Wanted) -> Option<Made> {
    let (setting, found) = one.key.settings(nic).ok()?.into_iter().next()?;
    let effective = setting.read().ok()?;
    let [found, requested, effective] = [&found, &one.text(), &effective].map(|value| one.key.in_words(value));
    Some(Made { name: one.key.name(), found, requested, effective })
}

/// A device whose settings are restored when this value is dropped. The changes are in the undo journal: if the process
/// dies, the next start restores them.
#[derive(Debug)]
pub struct Held {
    interface: String,
    session: Session,
    made: Vec<Made>,
    was_up: bool,
}

impl Held {
    /// Makes the settings, and waits for a link that the driver took down.
    ///
    /// # Errors
    /// See [`HeldError`].
    pub fn take(lock: &HostLock, interface: &str, wanted: &[Wanted]) -> Result<Self, HeldError> {
        let unread = |source| HeldError::Unread { interface: interface.to_owned(), source };
        let nic = nic::read(interface, Path::new("/sys")).map_err(unread)?;
        let was_up = Rtnl::new().link(interface).is_ok_and(|link| link.operstate == Some(OPERSTATE_UP));
        let mut session = Session::new(lock);
        let steps = steps(&nic, wanted).map_err(HeldError::Lacks)?;
        session.apply_steps(&steps)?;
        let mut held = Self { interface: interface.to_owned(), session, made: Vec::new(), was_up };
        held.wait_until_up(LINK_TIME);
        held.made = wanted.iter().filter_map(|one| made(&nic, *one)).collect();
        Ok(held)
    }

    /// Results of the settings, in the requested order.
    pub fn settings(&self) -> &[Made] {
        &self.made
    }

    /// Waits for the operational state `up`, which the kernel reports up to a second after the carrier.
    fn wait_until_up(&self, longest: Duration) -> bool {
        let deadline = Instant::now() + longest;
        let is_up = || Rtnl::new().link(&self.interface).is_ok_and(|link| link.operstate == Some(OPERSTATE_UP));
        while self.was_up && !is_up() {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Restores all settings and waits for the link; returns a sentence for each setting that could not be restored.
    pub fn set_back(&mut self) -> Vec<String> {
        let changed = !self.session.applied.is_empty();
        let outcomes = self.session.set_back();
        let mut problems: Vec<String> = outcomes.into_iter().filter_map(|outcome| outcome.error).collect();
        if changed && !self.wait_until_up(LINK_TIME) {
            problems.push(format!(
                "{} was not up again {} s after its settings were set back",
                self.interface,
                LINK_TIME.as_secs()
            ));
        }
        problems
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for problem in self.set_back() {
            tracing::warn!(problem, "a device could not be left as it was found");
        }
    }
}

impl Made {
    /// Whether the kernel or the driver chose another value than requested.
    pub fn differs(&self) -> bool {
        !setting::same(&self.requested, &self.effective)
    }
}

#[cfg(test)]
mod tests;
