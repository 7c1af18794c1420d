//! `[[device]]`: real NICs whose drivers are loaded in several settings, in place of a host and schemes.

use serde::{Deserialize, Serialize};

use super::file::{BadValue, Step};
use crate::quote::in_short;

/// The NIC of a guest and the settings in which it is measured. Host and scheme of its points are those that its calibration and its
/// driver give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceSection {
    /// Where it is: `vm:e1000e`.
    pub testbed: String,
    /// Parameters of the driver's module, as modprobe takes them: `RxIntDelay=32`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub driver: String,
    /// What it is called where there are several; testbed and parameters if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Settings as `find --check` takes them, a curve each: `rx-usecs=50,threaded=on`.
    pub settings: Vec<String>,
}

impl DeviceSection {
    /// Its name.
    pub fn name(&self) -> String {
        let usual = || [self.testbed.as_str(), &self.driver].join(" ").trim_end().to_owned();
        self.name.clone().unwrap_or_else(usual)
    }

    /// Checks its form; what testbed and settings mean is the measuring side's to know. `index`: its place among the devices.
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
