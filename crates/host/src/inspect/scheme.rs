//! How the interfaces work, as schemes that `--scheme` takes: [`of`].

use super::{Inspection, Port};
use crate::nic::scheme::AsNapi;
use netcliff_core::Scheme;
use serde::{Deserialize, Serialize};

/// How an interface works, as `--scheme` takes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortScheme {
    /// The interface.
    pub interface: String,
    /// `napi:...` with the NIC's moderation; absent: `why` says why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Settings in force that no scheme holds, or that the driver does not report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the device may do beside the scheme, where its driver does not report that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// Of each piece of hardware.
pub fn of(inspection: &Inspection) -> Vec<PortScheme> {
    inspection.ports.iter().filter_map(|port| of_port(inspection, port)).collect()
}

/// Of an interface; None: it is no hardware, and nothing moderates its interrupts.
pub(super) fn of_port(inspection: &Inspection, port: &Port) -> Option<PortScheme> {
    let nic = &port.nic;
    if !nic.is_physical() {
        return None;
    }
    let AsNapi { napi, lacks, beside } = nic.napi_scheme(&inspection.host.napi(nic.uses_backlog()));
    let scheme = lacks.is_none().then_some(Scheme::Napi(napi));
    let beside = beside.filter(|_| scheme.is_some());
    Some(PortScheme { interface: nic.name.clone(), scheme, why: lacks, beside })
}
