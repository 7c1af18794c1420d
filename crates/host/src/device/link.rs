//! Speed and duplex of the device of a [`DeviceHold`]: negotiated if possible, otherwise set manually.

use super::{DeviceError, DeviceHold, DeviceState, read};
use crate::{
    nic::link::{LinkMode, LinkSetting},
    setting::Setting,
};

/// Speed from which a link must be negotiated, IEEE 802.3 clause 28D (Mbit/s).
const NEGOTIATED_MBPS: u32 = 1000;

impl DeviceHold {
    /// Sets the link to a speed and duplex, or restores its original negotiation or setting, and returns the resulting
    /// state. If there is no link, the original setting is restored.
    ///
    /// First only this mode is advertised to the far end, because a switch that negotiates assumes half duplex for a
    /// link that is set manually. Manual setting is for far ends that do not negotiate.
    pub(super) fn bring_link_to(&mut self, mode: LinkMode) -> Result<DeviceState, DeviceError> {
        if self.found.link == Some(mode) {
            return self.link_as_found();
        }
        let stands = self.negotiate_or_set(mode);
        let Some(why) = no_link(&stands) else { return stands };
        // The link is restored before the answer, because the client's request and its answer may use this link.
        self.link_as_found()?;
        Err(DeviceError::NoLink { interface: self.interface.clone(), mode, why })
    }

    fn link_as_found(&mut self) -> Result<DeviceState, DeviceError> {
        match self.found_link.clone().zip(self.found.link) {
            Some((setting, mode)) => self.set_link(&setting, mode),
            None => self.wait_until_up(),
        }
    }

    fn negotiate_or_set(&mut self, mode: LinkMode) -> Result<DeviceState, DeviceError> {
        if let Some(LinkSetting::Negotiated(offered)) = self.found_link.clone()
            && !self.by_hand
        {
            let supported = read(&self.interface)?.link_supported;
            let stands = self.set_link(&LinkSetting::offering_only(mode, &supported, &offered), mode);
            let is_down = matches!(stands, Err(DeviceError::LinkDown { .. }));
            let is_so = stands.as_ref().is_ok_and(|stands| stands.link == Some(mode));
            if is_so || mode.speed_mbps >= NEGOTIATED_MBPS || stands.is_err() && !is_down {
                return stands;
            }
            self.by_hand = true;
        }
        self.set_link(&LinkSetting::Forced(mode), mode)
    }

    /// Changes the link's setting, and waits until the link has the speed and duplex `mode`.
    fn set_link(&mut self, wanted: &LinkSetting, mode: LinkMode) -> Result<DeviceState, DeviceError> {
        if read(&self.interface)?.link_setting().as_ref() != Some(wanted) {
            self.write(&Setting::Link { interface: self.interface.clone() }, &wanted.to_string())?;
        }
        self.wait_until(|stands| stands.link == Some(mode))
    }

    /// Refuses a speed and duplex that the device does not have.
    pub(super) fn accept_link(&self, wanted: Option<LinkMode>) -> Result<(), DeviceError> {
        let Some(mode) = wanted.filter(|mode| self.found.link != Some(*mode)) else { return Ok(()) };
        if self.found_link.is_some() && self.found.link_modes.contains(&mode) {
            return Ok(());
        }
        let has = self.found.link_modes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let accepted = match has.as_str() {
            "" => "its driver names no speeds to choose from".to_owned(),
            _ if self.found_link.is_none() => "its link is down, and how to set it back would not be known".to_owned(),
            has => format!("it has {has}"),
        };
        Err(DeviceError::Value { interface: self.interface.clone(), what: format!("a link of {mode}"), accepted })
    }
}

/// Why there is no usable link after its setting was changed; `None` if there is a link, or if another error occurred.
///
/// A driver that reported the speed before and does not any more has no link, even if the kernel sees a carrier: QEMU's
/// igb receives nothing after a manual setting.
pub(super) fn no_link(stands: &Result<DeviceState, DeviceError>) -> Option<&'static str> {
    match stands {
        Ok(stands) if stands.link.is_none() => Some("its driver tells no speed then"),
        Err(DeviceError::LinkDown { .. }) => Some("it does not come up then"),
        _ => None,
    }
}
