//! The devices of two hosts, brought to the settings of a configuration and back: this host's by itself, the far host's by
//! its agent.

mod wanted;

use std::collections::BTreeSet;

use netcliff_core::experiment::Setting;
use netcliff_host::device::{DeviceError, DeviceHold, DeviceState, MTU_BYTES};
use netcliff_host::journal::StateDir;
use netcliff_host::nic::link::LinkMode;
use netcliff_remote::control::client::Session;
use netcliff_remote::device::FarDevice;

use super::TransfersError;
use wanted::{link, names, wanted};

/// Both devices, held until they are set back: the near one's hold sets it back when it is dropped, the agent the far one when
/// the session ends.
pub struct Hosts {
    near: DeviceHold,
    far: FarDevice,
    /// Requested values that did not take effect.
    otherwise: BTreeSet<String>,
}

impl Hosts {
    /// Takes this host's device of this name, and the one that the agent allows to be changed.
    ///
    /// # Errors
    /// Either may not be changed.
    pub fn take(near: &str, session: &mut Session) -> Result<Self, TransfersError> {
        let state = StateDir::default_for_user().map_err(DeviceError::from)?;
        let near = DeviceHold::take(near, &state)?;
        let far = FarDevice::take(session)?;
        Ok(Self { near, far, otherwise: BTreeSet::new() })
    }

    /// Both ends as they were found, with their names in words.
    fn ends(&self) -> [(String, &DeviceState); 2] {
        let near = format!("{} of this host", self.near.interface());
        [(near, self.near.found()), (format!("{} of the far host", self.far.interface), &self.far.found)]
    }

    /// Why a setting of a device is not available; None where it is.
    pub fn refusal(&self, setting: &Setting) -> Option<String> {
        let key = setting.key();
        let lacking = |has: &dyn Fn(&DeviceState) -> bool| {
            let lacks = self.ends().into_iter().find(|(_, found)| !has(found))?;
            Some(format!("{key}: {} does not have it", lacks.0))
        };
        match setting {
            Setting::Feature(feature, _) => lacking(&|found| !names(*feature, found).is_empty()),
            Setting::Coalesce(what, _) => lacking(&|found| found.coalesce.contains_key(what.kernel_name())),
            Setting::Pause(what, _) => lacking(&|found| found.pause.contains_key(what.kernel_name())),
            Setting::Mtu(mtu) if !MTU_BYTES.contains(mtu) => {
                let (least, most) = (MTU_BYTES.start(), MTU_BYTES.end());
                Some(format!("{key} {mtu}: on a host's device {least} to {most} bytes are set"))
            }
            Setting::Mtu(_) => lacking(&|found| found.mtu_bytes.is_some()),
            Setting::Rate(None) | Setting::HalfDuplex(false) => None,
            Setting::Rate(Some(bps)) => self.lacking_link(setting, |mode| f64::from(mode.speed_mbps) * 1e6 == *bps),
            Setting::HalfDuplex(true) => self.lacking_link(setting, |mode| mode.half_duplex),
            _ => Some(format!("{key}: it needs the testbed netns (without --to and --ssh)")),
        }
    }

    /// Why a link like this is not available.
    fn lacking_link(&self, setting: &Setting, is_it: impl Fn(&LinkMode) -> bool) -> Option<String> {
        let (name, found) = self.ends().into_iter().find(|(_, found)| !found.link_modes.iter().any(&is_it))?;
        let modes = found.link_modes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let has = if modes.is_empty() { "the driver names no speeds to choose from" } else { &modes };
        Some(format!("{} {setting}: {name} does not have it ({has})", setting.key()))
    }

    /// Why a rate is not available in a duplex; None where it is.
    pub fn impossible(&self, settings: &[Setting]) -> Option<String> {
        self.ends().into_iter().find_map(|(name, found)| {
            let mode = link(settings, found).filter(|mode| found.link != Some(*mode))?;
            let lacks = !found.link_modes.contains(&mode);
            lacks.then(|| format!("a link of {mode}: {name} does not have it"))
        })
    }

    /// Brings both ends to a configuration; what it does not name is as it was found.
    ///
    /// # Errors
    /// A driver refuses a value, or the agent is gone.
    pub fn bring_to(&mut self, session: &mut Session, settings: &[Setting]) -> Result<(), TransfersError> {
        let [near, far] = self.ends().map(|(name, found)| (name, wanted(settings, found)));
        let stands = self.near.bring_to(&near.1).inspect_err(|_| self.await_agent(session))?;
        self.compare(&near, &stands, settings);
        let stands = self.far.bring_to(session, &far.1)?;
        self.compare(&far, &stands, settings);
        Ok(())
    }

    /// Waits for the agent after this host's link was down, before it is taken down anew: silence adds up, and
    /// too much of it ends the session.
    fn await_agent(&self, session: &mut Session) {
        // If it is gone, the session knows.
        let _ = self.far.bring_to(session, &DeviceState::default());
    }

    /// Notes the settings that were requested by name and differ on the device.
    fn compare(&mut self, (name, wanted): &(String, DeviceState), stands: &DeviceState, settings: &[Setting]) {
        for setting in settings {
            match setting {
                Setting::Feature(feature, on) => {
                    let other = names(*feature, wanted).into_iter().find(|name| stands.features.get(*name) != Some(on));
                    self.otherwise.extend(other.map(|kernel| {
                        let state = if *on { "on" } else { "off" };
                        let key = setting.key();
                        format!("{key} {state} did not come to be in every configuration at {name}: its kernel or driver ties {kernel} to others")
                    }));
                }
                Setting::Coalesce(what, _) if !wanted.coalesce.contains_key(what.kernel_name()) => {
                    let (what, switch) = (what.kernel_name(), what.adaptive().kernel_name());
                    let why = format!("{what} is not set where {switch} is on: the driver chooses it by itself then");
                    self.otherwise.insert(why);
                }
                Setting::Pause(what, asked) if stands.pause.get(what.kernel_name()) != Some(asked) => {
                    let (key, state) = (setting.key(), if *asked { "on" } else { "off" });
                    self.otherwise.insert(format!("{key} {state} did not come to be in every configuration at {name}"));
                }
                Setting::Coalesce(what, asked) => {
                    let kernel = what.kernel_name();
                    let held = stands.coalesce.get(kernel).filter(|held| *held != asked);
                    let held = held.map(|held| Setting::Coalesce(*what, *held));
                    self.otherwise.extend(held.map(|held| format!("{kernel} {setting} came to {held} at {name}")));
                }
                _ => {}
            }
        }
        let link = wanted.link.filter(|asked| stands.link != Some(*asked));
        self.otherwise.extend(link.map(|asked| {
            let held = stands.link.map_or("an unknown mode".to_owned(), |mode| mode.to_string());
            format!("a link of {asked} came to {held} at {name}")
        }));
    }

    /// Restores both; returns what could not be restored.
    pub fn restore(&mut self, session: &mut Session) -> Vec<String> {
        let mut problems = self.near.set_back();
        match self.far.set_back(session) {
            Ok(theirs) => problems.extend(theirs),
            Err(error) => problems.push(format!(
                "{} of the far host is set back by its agent, which cannot be asked any more: {error}",
                self.far.interface
            )),
        }
        problems
    }

    /// What runs that died left at either end and could not be set back: it is measured, too.
    pub fn left_over(&self) -> Vec<String> {
        let far = self.far.left_over.iter().map(|told| format!("at the far host: {told}"));
        self.near.left_over().iter().cloned().chain(far).collect()
    }

    /// What differs from the request.
    pub fn notes(&self) -> Vec<String> {
        self.otherwise.iter().cloned().collect()
    }
}
