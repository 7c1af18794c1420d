//! Times that kernel or hardware put on a trial's tagged frame (RFC 2544 26.2).
//!
//! That frame is sent through a packet socket of its own, which reports when it left (`SO_TIMESTAMPING`, the socket's error
//! queue), and a packet socket whose filter passes only that frame reports when it arrived. All other frames take the usual
//! path: a trial costs no more than the kernel's clock reads at each interface.
//!
//! | clock | from | to |
//! | --- | --- | --- |
//! | [`Stamps::Application`] | before the frame is written | the kernel's stamp at the sink |
//! | [`Stamps::Kernel`] | the driver's hand-over to the device | the kernel's stamp at the sink |
//! | [`Stamps::Hardware`] | the device's own time of sending | the device's own time of arrival |

mod lane;
#[cfg_attr(not(target_os = "linux"), path = "../not_linux/stamps.rs")]
mod socket;

pub(super) use lane::Tags;
pub(super) use socket::{Tagger, Tap};

use netcliff_host::nic::ethtool::TimeStamps;
use serde::{Deserialize, Serialize};

use super::run::PortStamps;
use crate::error::WireError;

/// Whose clock the latency of tagged frames is taken with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// The sending program's, to the sink's ring.
    #[default]
    Application,
    /// The kernel's, as frames pass the drivers of both ports.
    Kernel,
    /// The ports' own.
    Hardware,
}

impl netcliff_core::Choice for Stamps {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Application, "application", "The tester's own, from before a frame is written"),
        (
            Self::Kernel,
            "kernel",
            "The kernel's, from the driver at the port that sends: without what the tester itself takes to send",
        ),
        (
            Self::Hardware,
            "hardware",
            "The two ports' own, brought together by the system's clock where they are two; the ports are set to stamp every frame and set back",
        ),
    ];
}

impl std::fmt::Display for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(netcliff_core::Choice::name(*self))
    }
}

/// What a port is to stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Frames that leave.
    Near,
    /// Frames that arrive.
    Far,
}

impl Stamps {
    /// Checks whether a port offers them.
    ///
    /// # Errors
    /// It cannot, or the kernel does not say; with what it offers.
    pub fn check(self, port: &PortStamps, end: End) -> Result<(), WireError> {
        let can = |offered: TimeStamps| match (self, end) {
            (Self::Application, _) => true,
            (Self::Kernel, End::Near) => offered.software_transmit,
            (Self::Kernel, End::Far) => offered.software_receive,
            (Self::Hardware, End::Near) => offered.hardware_transmit && offered.clock.is_some(),
            (Self::Hardware, End::Far) => {
                offered.hardware_receive && offered.hardware_receive_all && offered.clock.is_some()
            }
        };
        if self == Self::Application || port.offered.is_some_and(can) {
            return Ok(());
        }
        let has = |kernel: TimeStamps| self == Self::Hardware && kernel.software_transmit && kernel.software_receive;
        Err(WireError::NoStamps {
            interface: port.interface.clone(),
            stamps: self,
            what: if end == End::Near { "leaves" } else { "arrives" },
            offered: port.offered.map_or_else(|| "the kernel does not say what".to_owned(), |all| all.to_string()),
            instead: if port.offered.is_some_and(has) { "kernel or application" } else { "application" },
        })
    }
}

/// Latencies of a trial's tagged frame, which arrived; None where a stamp is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stamped {
    /// From before the frame was written (s).
    pub application_s: Option<f64>,
    /// By the kernel's stamps (s).
    pub kernel_s: Option<f64>,
    /// By the devices' stamps (s).
    pub hardware_s: Option<f64>,
    /// Uncertainty of `hardware_s` from relating two devices' clocks (s); 0 where both ports share a clock.
    pub uncertainty_s: Option<f64>,
    /// What was requested and did not come back.
    pub absent: Absent,
}

impl Stamped {
    /// By the clock requested (s).
    pub fn by(&self, stamps: Stamps) -> Option<f64> {
        match stamps {
            Stamps::Application => self.application_s,
            Stamps::Kernel => self.kernel_s,
            Stamps::Hardware => self.hardware_s,
        }
    }
}

/// Stamps of tagged frames that were asked for and cannot be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Absent {
    /// Frames whose leaving nobody told.
    pub left: u32,
    /// Frames that came without.
    pub came: u32,
    /// Frames whose stamps are of clocks that could not be brought together.
    pub clock: u32,
}

impl Absent {
    /// Adds those of another frame.
    pub fn add(&mut self, other: Self) {
        self.left += other.left;
        self.came += other.came;
        self.clock += other.clock;
    }
}

#[cfg(test)]
mod tests;
