//! Candidates on a device: shell commands, or why it does not offer them.

use netcliff_core::{Advice, Scheme};
use netcliff_host::tune::plan::scheme::{Device, steps};

/// Checks whether a device can be configured for a scheme.
///
/// # Errors
/// Why not, a part of a sentence.
pub fn offered(scheme: &Scheme, device: Device<'_>) -> Result<(), String> {
    steps(scheme, device).map(drop)
}

/// Whether some driver can be configured for a scheme: what is advised where no device is named.
pub fn offered_anywhere(scheme: &Scheme) -> bool {
    offered(scheme, Device::Any(Advice::PLACEHOLDER)).is_ok()
}

/// Fills in the commands of every candidate, or why there are none.
pub fn with_commands(advice: &mut Advice, device: Device<'_>) {
    advice.device = match device {
        Device::Port(_, port) => Some(port.nic.name.clone()),
        Device::Any(_) => None,
    };
    for candidate in &mut advice.candidates {
        match steps(&candidate.scheme, device) {
            Ok(steps) => candidate.commands = Some(steps.into_iter().map(|step| step.proposal.command).collect()),
            Err(why) => candidate.not_offered = Some(why),
        }
    }
}
