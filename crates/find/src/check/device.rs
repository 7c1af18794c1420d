//! Converts the settings of an interface to the scheme that a check is predicted with.

use netcliff_core::Napi;
use netcliff_core::experiment::Coalesce;
use netcliff_core::scheme::Moderation;
use netcliff_host::nic::Nic;
use netcliff_host::nic::netdev::NapiKey;
use netcliff_host::tune::device::{DeviceKey, Wanted};

/// An interface after the settings of a check were applied.
#[derive(Debug)]
pub(super) struct Device<'a> {
    pub nic: &'a Nic,
    /// True: packets go through the per-CPU backlog.
    pub backlog: bool,
    /// Slots of the queue before the softirq (ring or backlog); `None`: unknown.
    pub ring: Option<u64>,
}

/// Returns why `rx-usecs` or `rx-frames` cannot be set together with adaptive coalescing, with which the driver chooses
/// them; `None` if `settings` do not combine the two.
pub(super) fn figures_of_an_adaptive_driver(settings: &[Wanted]) -> Option<String> {
    let is_on = |key: Coalesce| settings.iter().any(|one| one.key == DeviceKey::Coalesce(key) && one.value > 0);
    let given = |key: &Coalesce| settings.iter().any(|one| one.key == DeviceKey::Coalesce(*key));
    let figure = [Coalesce::RxUsecs, Coalesce::RxFrames].into_iter().find(given)?;
    let name = figure.kernel_name();
    is_on(Coalesce::AdaptiveRx)
        .then(|| format!("expected {name} or adaptive-rx=on: the driver chooses {name} by itself then"))
}

impl Device<'_> {
    /// Applies the settings to the scheme. Settings that no engine models are added to `notes`.
    pub fn set_in(&self, napi: &mut Napi, settings: &[Wanted], notes: &mut Vec<String>) -> Result<(), String> {
        napi.backlog = self.backlog;
        if self.backlog {
            napi.moderation = Moderation::default();
        }
        let value = |key: NapiKey| {
            let given = settings.iter().find(|one| one.key == DeviceKey::Napi(key)).map(|one| u64::from(one.value));
            given.or_else(|| self.nic.napi_settings.get(key.file()?).copied()).unwrap_or(0)
        };
        let mut outcome = Ok(());
        for one in settings {
            let name = one.key.name();
            match one.key {
                DeviceKey::Pause(_) => notes.push(format!(
                    "{name} is not in the prediction: whether pause frames come depends on the far end"
                )),
                DeviceKey::Feature(_) => notes.push(format!(
                    "{name} is in neither model nor simulation: they predict with the costs that were calibrated without the change"
                )),
                _ if self.backlog => notes.push(format!(
                    "{name} is not in the prediction: packets go through the backlog here (RPS, or a virtual link), and what the device \
                     does before it is not predicted"
                )),
                DeviceKey::Coalesce(_) => match self.nic.napi_moderation() {
                    Ok(moderation) => napi.moderation = moderation,
                    Err(why) => outcome = Err(why),
                },
                // The ring size belongs to the host, not to the scheme.
                DeviceKey::RxRing => {}
                DeviceKey::Napi(NapiKey::Threaded) => napi.threaded = one.value > 0,
                DeviceKey::Napi(_) => {
                    let timeout_s = value(NapiKey::GroFlushTimeout) as f64 / 1e9;
                    let polls = value(NapiKey::DeferHardIrqs);
                    napi.gro_flush_timeout_s = timeout_s;
                    // Without a time until the next poll the kernel defers nothing (napi_complete_done,
                    // net/core/dev.c).
                    napi.defer_hard_irqs = if timeout_s > 0.0 { u32::try_from(polls).unwrap_or(u32::MAX) } else { 0 };
                }
            }
        }
        outcome
    }
}
