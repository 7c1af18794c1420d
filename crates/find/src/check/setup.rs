//! What a check changes, and the prediction for it.

use netcliff_core::{Finding, FrameSizes, ParseError, Scheme, Traffic, units};
use netcliff_host::testbed::sysctl::SysctlOverrides;
use netcliff_host::tune::device::{DeviceKey, Wanted};

use super::super::delivery::Timing;
use super::super::engines::Predictor;
use super::super::plan::Plan;
use super::super::{FindOptions, base};
use super::device::{self, Device};
use crate::calibrate::Calibrated;
use netcliff_trial::rig::RigOptions;
use netcliff_trial::trial::TrialShape;

/// One set-up to check: its differences from the calibrated set-up. Text form: `size=512B`, `work=2us`, `backlog=200`,
/// `budget=64`, or a setting of the interface such as `rx-usecs=100`, several separated by commas.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckSetup {
    name: String,
    frame_bytes: Option<u32>,
    work_s: Option<f64>,
    backlog: Option<u32>,
    budget: Option<u32>,
    settings: Vec<Wanted>,
}

/// The accepted form, for errors.
fn form() -> String {
    let keys = DeviceKey::ALL.map(DeviceKey::name).join(", ");
    format!(
        "expected size=512B, work=2us, backlog=200 or budget=64, or with --if IF a setting of it such as rx-usecs=100 ({keys}), several \
         joined by commas"
    )
}

impl std::str::FromStr for CheckSetup {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut setup = Self { name: text.to_owned(), ..Self::default() };
        for item in text.split(',') {
            let (key, value) = item.split_once('=').ok_or_else(|| ParseError::new("--check", text, form()))?;
            let named = |error: ParseError| error.within(&format!("--check {key}"));
            let count = || {
                let count = units::parse_count(key, value).map_err(named)?;
                let fits = u32::try_from(count).ok().filter(|count| *count > 0);
                fits.ok_or_else(|| ParseError::new(format!("--check {key}"), value, "expected a whole number above 0"))
            };
            match key {
                "size" => match value.parse::<FrameSizes>().map_err(named)? {
                    FrameSizes::Fixed(bytes) => setup.frame_bytes = Some(bytes),
                    _ => return Err(ParseError::new("--check size", value, "expected one size such as \"512B\"")),
                },
                "work" => setup.work_s = Some(units::parse_time_s(value).map_err(named)?),
                "backlog" => setup.backlog = Some(count()?),
                "budget" => setup.budget = Some(count()?),
                _ => {
                    let known = DeviceKey::of(key).ok_or_else(|| ParseError::new("--check", text, form()))?;
                    let wanted = known.parse(value).map_err(named)?;
                    if setup.settings.iter().any(|other| other.key == known) {
                        return Err(ParseError::new("--check", text, format!("expected {key} once")));
                    }
                    setup.settings.push(wanted);
                }
            }
        }
        let refusal = device::figures_of_an_adaptive_driver(&setup.settings);
        refusal.map_or(Ok(setup), |why| Err(ParseError::new("--check", text, why)))
    }
}

/// Prediction for a set-up.
#[derive(Debug)]
pub(super) struct Predicted {
    pub computed: Predictor,
    /// Parts of the set-up that the prediction does not include, one sentence each.
    pub notes: Vec<String>,
    /// Why no engine can predict the set-up; `None`: an engine can.
    pub unpredicted: Option<String>,
}

impl CheckSetup {
    /// Returns the set-up as the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Settings of the interface.
    pub fn settings(&self) -> &[Wanted] {
        &self.settings
    }

    /// True if the device may behave differently in this set-up: because of a setting, or because an adaptive
    /// `rx-usecs` reaches another value with another frame length.
    pub(super) fn changes_device(&self) -> bool {
        !self.settings.is_empty() || self.frame_bytes.is_some()
    }

    /// Length of all frames, FCS included (bytes); `None`: the frames of a capture are sent.
    pub(crate) fn frame_bytes(&self, options: &FindOptions) -> Option<u32> {
        self.frame_bytes.or(options.one_length())
    }

    pub(crate) fn rig(&self, options: &FindOptions) -> RigOptions {
        let sysctls = SysctlOverrides {
            netdev_max_backlog: self.backlog,
            netdev_budget: self.budget,
            ..options.rig.sysctls.clone()
        };
        RigOptions { sysctls, settings: self.settings.clone(), ..options.rig.clone() }
    }

    /// Prediction for this set-up; `device`: the interface after its settings were applied.
    pub(super) fn predicted(
        &self,
        options: &FindOptions,
        plan: &Plan,
        calibrated: &Calibrated,
        finding: &Finding,
        device: Option<&Device<'_>>,
    ) -> Predicted {
        let frame_bytes = self.frame_bytes.unwrap_or(options.settings.frame_bytes);
        let extra_s = self.work_s.map_or(0.0, |work_s| work_s - options.settings.work_s);
        let mut host = calibrated.host_for(frame_bytes, extra_s);
        let mut scheme = finding.setup.scheme.clone();
        let (mut notes, mut unpredicted) = (Vec::new(), None);
        if let Scheme::Napi(napi) = &mut scheme {
            if let Some(device) = device {
                host.ring = device.ring.unwrap_or(host.ring);
                if self.frame_bytes.is_some() && !device.backlog {
                    match device.nic.napi_moderation() {
                        Ok(moderation) => napi.moderation = moderation,
                        Err(why) => {
                            notes.push(format!("predicted with the moderation of the calibrated frames: {why}"))
                        }
                    }
                }
                unpredicted = device.set_in(napi, &self.settings, &mut notes).err();
            }
            napi.budget = self.budget.map_or(napi.budget, u64::from);
            host.ring = self.backlog.filter(|_| napi.backlog).map_or(host.ring, u64::from);
        }
        let refused = || scheme.validate(&host).err().map(|error| error.to_string());
        let unpredicted = unpredicted.or_else(refused);
        let traffic = Traffic { size: FrameSizes::Fixed(frame_bytes), ..finding.setup.traffic.clone() };
        let near_pps = finding.cliff_pps.model.map(|cliff| cliff.value);
        let (times, loss, seed, packets) =
            (calibrated.times(), options.settings.loss, options.settings.seed, plan.sim_packets);
        let elsewhere = options.engines.clone();
        let timing = Timing::default();
        let computed = Predictor { host, times, scheme, traffic, loss, seed, packets, near_pps, timing, elsewhere };
        Predicted { computed, notes, unpredicted }
    }

    pub(super) fn shape(&self, options: &FindOptions, plan: &Plan) -> TrialShape {
        let base = base(options, plan);
        TrialShape {
            frame_bytes: self.frame_bytes.unwrap_or(base.frame_bytes),
            work_s: self.work_s.unwrap_or(base.work_s),
            ..base
        }
    }
}
