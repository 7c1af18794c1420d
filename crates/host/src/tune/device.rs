//! Settings of a device by their names, for a while: [`Wanted`] is one, [`steps`] how they are made, [`Held`] keeps them until it is
//! dropped.
//!
//! The names are those of ethtool and sysfs, as experiments have them.

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

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKey {
    /// Interrupt coalescing of reception.
    Coalesce(Coalesce),
    /// An offload of reception.
    Feature(Feature),
    /// Slots of the receive ring.
    RxRing,
    /// Flow control.
    Pause(Pause),
    /// A setting of the NAPI instances.
    Napi(NapiKey),
}

impl DeviceKey {
    /// All of them. What an earlier one resets comes later: rings make queues anew, `adaptive-rx` chooses the figures of coalescing.
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
            Self::Napi(key) => napi::file_of(key).unwrap_or(key.name()),
        }
    }

    /// The one of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// One value: `on` or `off` of a switch, a time of `gro_flush_timeout` and `irq-suspend-timeout`, a number of the others (microseconds of `rx-usecs`).
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

    /// The value in force as people write it, of one that a kernel's file or answer has.
    fn in_words(self, value: &str) -> String {
        match (self, value.parse::<u64>()) {
            (_, Ok(value @ (0 | 1))) if self.is_switch() => if value == 1 { "on" } else { "off" }.to_owned(),
            (Self::Napi(NapiKey::GroFlushTimeout | NapiKey::IrqSuspendTimeout), Ok(nanoseconds)) => {
                units::print_time_s(nanoseconds as f64 / 1e9)
            }
            _ => value.to_owned(),
        }
    }

    /// What sets it on a device, with the values in force.
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

/// A setting and the value that is wanted: 1 or 0 of a switch, nanoseconds of `gro_flush_timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// What is set.
    pub key: DeviceKey,
    /// Its value.
    pub value: u32,
}

impl Wanted {
    /// The value as the setting takes it.
    fn text(self) -> String {
        match (self.key, self.value) {
            (DeviceKey::Feature(_) | DeviceKey::Pause(_), 0) => "off".to_owned(),
            (DeviceKey::Feature(_) | DeviceKey::Pause(_), _) => "on".to_owned(),
            (_, value) => value.to_string(),
        }
    }
}

/// What makes a device have these settings, in order. A figure of coalescing takes `adaptive-rx` off first, which would choose it, and a
/// direction of flow control its negotiation.
///
/// # Errors
/// Why the device cannot have one, as far as that shows before it is tried.
pub fn steps(nic: &Nic, wanted: &[Wanted]) -> Result<Vec<Step>, String> {
    let adaptive = DeviceKey::Coalesce(Coalesce::AdaptiveRx);
    let asked = |key: DeviceKey| wanted.iter().find(|one| one.key == key).copied();
    let figures = [Coalesce::RxUsecs, Coalesce::RxFrames].map(DeviceKey::Coalesce);
    let implied = figures.into_iter().any(|key| asked(key).is_some())
        && asked(adaptive).is_none()
        && nic.coalesce.get("adaptive-rx") == Some(&1);
    let adaptive_off = implied.then_some(Wanted { key: adaptive, value: 0 });
    // The negotiation would choose what is obeyed and sent.
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

/// What became of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name.
    pub name: &'static str,
    /// The value before.
    pub found: String,
    /// The value wanted.
    pub requested: String,
    /// The value read back: drivers round.
    pub effective: String,
}

/// Why a device does not have the settings that are wanted. It is as it was found.
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
    /// It does not have one of them.
    #[error("{0}")]
    Lacks(String),
    /// The kernel refuses one on a device without a journal.
    #[error("{setting} cannot be set to {value}: {source}")]
    NotSet {
        /// The setting.
        setting: String,
        /// The value wanted.
        value: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel or the driver refuses one, or the link does not come back.
    #[error(transparent)]
    Refused(#[from] ApplyError),
}

/// Sets them on a device of the calling thread's namespace that is removed with this namespace: not in the journal, never set back.
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

/// What became of a setting of a device, `nic` as it was before.
fn made(nic: &Nic, one: Wanted) -> Option<Made> {
    let (setting, found) = one.key.settings(nic).ok()?.into_iter().next()?;
    let effective = setting.read().ok()?;
    let [found, requested, effective] = [&found, &one.text(), &effective].map(|value| one.key.in_words(value));
    Some(Made { name: one.key.name(), found, requested, effective })
}

/// A device with settings that are set back when this is dropped. They are in the undo journal: if the process dies, the next start
/// sets them back.
#[derive(Debug)]
pub struct Held {
    interface: String,
    session: Session,
    made: Vec<Made>,
    was_up: bool,
}

impl Held {
    /// Sets them, and waits for the link that a driver takes down for it.
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

    /// What was set, in the order in which it was wanted.
    pub fn settings(&self) -> &[Made] {
        &self.made
    }

    /// The kernel reports the link as usable up to a second after its carrier.
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

    /// Sets all back and waits for the link; returns what could not be, in sentences.
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
    /// The kernel or the driver made another value of it.
    pub fn differs(&self) -> bool {
        !setting::same(&self.requested, &self.effective)
    }
}

#[cfg(test)]
mod tests;
