//! `[host]`: a preset, changes to it, and keys that vary. `[[device]]`: real NICs, each with several settings of its
//! driver, in place of a host and schemes.

use serde::{Deserialize, Serialize};

use super::file::{BadValue, Step};
use super::values::Varied;
use crate::host::Host;
use crate::quote::in_short;

/// The hosts of an experiment: a preset, changes to it, and keys that vary.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostSection {
    /// Name of a preset.
    pub preset: String,
    /// Changes to the preset, `KEY=VALUE`, as for `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// `KEY=VALUE,VALUE,...`: each key makes a dimension of the experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<Varied>,
}

/// A host, and the values that distinguish it from the preset.
pub(super) struct Variant {
    pub(super) host: Host,
    choices: Vec<(String, String)>,
}

impl Variant {
    /// The varied values, such as `ring 64`, of those keys for which `shown` is true.
    pub(super) fn names(&self, shown: impl Fn(&str) -> bool) -> Vec<String> {
        let choices = self.choices.iter().filter(|(key, _)| shown(key));
        choices.map(|(key, value)| format!("{} {value}", key.replace('_', " "))).collect()
    }
}

impl HostSection {
    /// True if the file has no `[host]`.
    pub(super) fn is_absent(&self) -> bool {
        *self == Self::default()
    }

    /// All combinations of the varied values; only the host itself if none are varied.
    pub(super) fn variants(&self) -> Result<Vec<Variant>, BadValue> {
        let name = &self.preset;
        let mut host = Host::preset(name).ok_or_else(|| {
            let presets = crate::host::PRESETS.join(", ");
            let message = format!("host.preset = \"{name}\": there is no such preset; the presets are {presets}");
            BadValue::at("host", "preset", message)
        })?;
        for (index, assignment) in self.set.iter().enumerate() {
            let bad = |error| BadValue::at("host", "set", format!("host.set: {error}")).item(index);
            host.set(assignment).map_err(bad)?;
        }
        host.validate().map_err(|error| BadValue::at("host", "set", format!("host: {error}")))?;
        let mut variants = vec![Variant { host, choices: Vec::new() }];
        for (index, varied) in self.vary.iter().enumerate() {
            let bad = |message: String| BadValue::at("host", "vary", format!("host.vary: {message}")).item(index);
            let mut wider = Vec::new();
            for variant in &variants {
                for value in &varied.values {
                    let mut host = variant.host.clone();
                    host.set(&format!("{}={value}", varied.key)).map_err(|error| bad(error.to_string()))?;
                    host.validate().map_err(|error| bad(error.to_string()))?;
                    let mut choices = variant.choices.clone();
                    choices.push((varied.key.clone(), value.clone()));
                    wider.push(Variant { host, choices });
                }
            }
            variants = wider;
        }
        Ok(variants)
    }
}

/// A NIC in a guest, and the settings with which it is measured. The host of its points is the result of its
/// calibration, and their scheme follows from its driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceSection {
    /// Testbed with the NIC: `vm:e1000e`.
    pub testbed: String,
    /// Parameters of the driver's module, as modprobe takes them: `RxIntDelay=32`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// Name in the figure if there are several devices; testbed and parameters if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Settings as `find --check` takes them, one curve each: `rx-usecs=50,threaded=on`.
    pub settings: Vec<String>,
}

impl DeviceSection {
    /// Name in the figure.
    pub fn name(&self) -> String {
        let usual = || [self.testbed.as_str(), &self.driver].join(" ").trim_end().to_owned();
        self.name.clone().unwrap_or_else(usual)
    }

    /// Checks the form only; the meaning of testbed and settings is checked where they are measured. `index`: position
    /// in the list of devices.
    pub(super) fn check(&self, index: usize) -> Result<(), BadValue> {
        let bad = |key: &'static str, message: String| BadValue {
            place: vec![Step::Key("device"), Step::Item(index), Step::Key(key)],
            message,
        };
        if !self.testbed.starts_with("vm:") {
            let message =
                format!("testbed = \"{}\": expected a guest's NIC such as \"vm:e1000e\"", in_short(&self.testbed));
            return Err(bad("testbed", message));
        }
        if self.settings.is_empty() {
            return Err(bad("settings", "settings: expected at least one, such as \"rx-usecs=50\"".to_owned()));
        }
        match (1..self.settings.len()).find(|at| self.settings[..*at].contains(&self.settings[*at])) {
            Some(twice) => {
                Err(bad("settings", format!("settings: \"{}\" stands there twice", in_short(&self.settings[twice]))))
            }
            None => Ok(()),
        }
    }
}
