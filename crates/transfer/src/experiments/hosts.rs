//! Applies a configuration's settings to the devices of two hosts, and restores them: this process changes this host's
//! device, the agent changes the far host's. If the far host is a guest, the near end is the guest's wire, whose MTU
//! and rate are set.

mod refusal;
mod wanted;

use std::collections::BTreeSet;

use netcliff_core::experiment::{Lack, Setting};
use netcliff_host::device::{DeviceError, DeviceHold, DeviceState};
use netcliff_host::journal::StateDir;
use netcliff_host::testbed::vm::{Model, Wire};
use netcliff_remote::control::client::Session;
use netcliff_remote::device::FarDevice;

use super::TransfersError;
use super::link::MTU_BYTES;
use refusal::Ends;
use wanted::{names, wanted};

/// This host's end.
enum Near<'a> {
    /// A device that this process may change until it restores it.
    Device(Box<DeviceHold>),
    /// The wire of a guest. It ends with the guest, so nothing is restored.
    Wire(&'a Wire, Model),
}

/// Both devices, reserved until they are restored: the near device when this value is dropped, the far device (by the
/// agent) when the session ends.
pub struct Hosts<'a> {
    near: Near<'a>,
    far: FarDevice,
    /// Messages about requested values that did not take effect.
    otherwise: BTreeSet<String>,
}

impl<'a> Hosts<'a> {
    /// Reserves the device `near` of this host, and the device that the agent permits to change.
    ///
    /// # Errors
    /// One of the devices may not be changed.
    pub fn take(near: &str, session: &mut Session) -> Result<Self, TransfersError> {
        let state = StateDir::default_for_user().map_err(DeviceError::from)?;
        let near = Near::Device(Box::new(DeviceHold::take(near, &state)?));
        Ok(Self { near, far: FarDevice::take(session)?, otherwise: BTreeSet::new() })
    }

    /// Reserves the device of a guest.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn of_guest(wire: &'a Wire, model: Model, session: &mut Session) -> Result<Self, TransfersError> {
        Ok(Self { near: Near::Wire(wire, model), far: FarDevice::take(session)?, otherwise: BTreeSet::new() })
    }

    /// The state of the devices before the run, with their names for messages.
    fn ends(&self) -> Ends<'_> {
        match &self.near {
            Near::Device(near) => Ends {
                devices: vec![
                    (format!("{} of this host", near.interface()), near.found()),
                    (format!("{} of the far host", self.far.interface), &self.far.found),
                ],
                guest: None,
            },
            Near::Wire(_, model) => {
                let name = format!("{model}, {} of the guest", self.far.interface);
                Ends { devices: vec![(name, &self.far.found)], guest: Some(*model) }
            }
        }
    }

    /// Why a setting of a device is not available. `None` if it is available.
    pub fn refusal(&self, setting: &Setting) -> Option<Lack> {
        self.ends().refusal(setting)
    }

    /// Why these settings are not available together, such as a rate in half duplex. `None` if they are.
    pub fn impossible(&self, settings: &[Setting]) -> Option<String> {
        self.ends().impossible(settings)
    }

    /// Applies a configuration at both ends. A setting that it does not name has the value it had before the run.
    ///
    /// # Errors
    /// A driver refuses a value, or the agent is gone.
    pub fn bring_to(&mut self, session: &mut Session, settings: &[Setting]) -> Result<(), TransfersError> {
        if let Near::Wire(wire, _) = self.near {
            return self.bring_guest_to(wire, session, settings);
        }
        let brought: Vec<(String, DeviceState)> =
            self.ends().devices.into_iter().map(|(name, found)| (name, wanted(settings, found))).collect();
        let [near, far] = &brought[..] else { return Ok(()) };
        if let Near::Device(device) = &mut self.near {
            let stands = device.bring_to(&near.1);
            let stands = stands.inspect_err(|_| self.await_agent(session))?;
            self.compare(near, &stands, settings);
        }
        let stands = self.far.bring_to(session, &far.1)?;
        self.compare(far, &stands, settings);
        Ok(())
    }

    /// Applies MTU and rate to the guest's wire, because no NIC of QEMU slows down to a link speed, and all other
    /// settings (and the MTU) to the guest's device.
    fn bring_guest_to(
        &mut self,
        wire: &Wire,
        session: &mut Session,
        settings: &[Setting],
    ) -> Result<(), TransfersError> {
        let of_device = |setting: &&Setting| !matches!(setting, Setting::Rate(_) | Setting::HalfDuplex(_));
        let of_device: Vec<Setting> = settings.iter().filter(of_device).cloned().collect();
        let name = self.ends().devices.remove(0).0;
        let requested = (name, wanted(&of_device, &self.far.found));
        wire.set_mtu(requested.1.mtu_bytes.unwrap_or(MTU_BYTES))?;
        let stands = self.far.bring_to(session, &requested.1)?;
        self.compare(&requested, &stands, &of_device);
        let rate_bps =
            settings.iter().find_map(|s| if let Setting::Rate(bps) = s { Some(*bps) } else { None }).flatten();
        Ok(wire.limit_rate(rate_bps, settings.contains(&Setting::HalfDuplex(true)))?)
    }

    /// Waits for the agent after this host's link was down, before the link goes down again. Otherwise the times of
    /// silence would add up and end the session.
    fn await_agent(&self, session: &mut Session) {
        // Ignore an error: the session notices an agent that is gone.
        let _ = self.far.bring_to(session, &DeviceState::default());
    }

    /// Notes the settings that a configuration names and that have another value at the device.
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
                Setting::Pause(what, requested) if stands.pause.get(what.kernel_name()) != Some(requested) => {
                    let (key, state) = (setting.key(), if *requested { "on" } else { "off" });
                    self.otherwise.insert(format!("{key} {state} did not come to be in every configuration at {name}"));
                }
                Setting::Coalesce(what, requested) => {
                    let kernel = what.kernel_name();
                    let held = stands.coalesce.get(kernel).filter(|held| *held != requested);
                    let held = held.map(|held| Setting::Coalesce(*what, *held));
                    self.otherwise.extend(held.map(|held| format!("{kernel} {setting} came to {held} at {name}")));
                }
                _ => {}
            }
        }
        let link = wanted.link.filter(|requested| stands.link != Some(*requested));
        self.otherwise.extend(link.map(|requested| {
            let held = stands.link.map_or("an unknown mode".to_owned(), |mode| mode.to_string());
            format!("a link of {requested} came to {held} at {name}")
        }));
    }

    /// Restores both devices. Returns what could not be restored.
    pub fn restore(&mut self, session: &mut Session) -> Vec<String> {
        let mut problems = match &mut self.near {
            Near::Device(near) => near.set_back(),
            Near::Wire(wire, _) => {
                let set = wire.limit_rate(None, false).and_then(|()| wire.set_mtu(MTU_BYTES));
                set.err().map(|error| error.to_string()).into_iter().collect()
            }
        };
        match self.far.set_back(session) {
            Ok(theirs) => problems.extend(theirs),
            Err(error) => problems.push(format!(
                "{} of the far host is set back by its agent, which cannot be asked any more: {error}",
                self.far.interface
            )),
        }
        problems
    }

    /// Changes that earlier, killed runs left at either end and that could not be undone. They affect the measurement.
    pub fn left_over(&self) -> Vec<String> {
        let far = self.far.left_over.iter().map(|problem| format!("at the far host: {problem}"));
        let near = match &self.near {
            Near::Device(near) => near.left_over(),
            Near::Wire(..) => &[],
        };
        near.iter().cloned().chain(far).collect()
    }

    /// Messages about requested values that did not take effect.
    pub fn notes(&self) -> Vec<String> {
        self.otherwise.iter().cloned().collect()
    }
}
