//! `[[device]]`: real NICs, each with several settings of its driver, in place of a host and schemes.

use serde::{Deserialize, Serialize};

use super::file::{BadValue, Step};
use crate::quote::in_short;

/// A NIC in a guest, and the settings in which it is measured. Host and scheme of its points come from its calibration
/// and from its driver.
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
