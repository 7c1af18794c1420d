//! Timestamps that kernel or hardware put on a trial's tagged frame (RFC 2544 26.2).
//!
//! The tagged frame is sent through a separate packet socket, which reports when the frame left (`SO_TIMESTAMPING`, the
//! socket's error queue). Another packet socket, whose filter passes only that frame, reports when it arrived. All
//! other frames take the usual path, so timestamps add only the kernel's clock reads at each interface to the cost of a
//! trial.
//!
//! | clock | from | to |
//! | --- | --- | --- |
//! | [`Stamps::Application`] | before the frame is written | the kernel's stamp at the sink |
//! | [`Stamps::Kernel`] | the driver's hand-over to the device | the kernel's stamp at the sink |
//! | [`Stamps::Hardware`] | the device's own time of sending | the device's own time of arrival |

#[cfg_attr(not(target_os = "linux"), path = "stamps/bsd.rs")]
mod lane;

pub(super) use lane::{Tagger, Tags, Tap};

use netcliff_host::nic::ethtool::{self, TimeStamps};
pub use netcliff_packets::clock::Stamps;
use serde::{Deserialize, Serialize};

use netcliff_packets::error::WireError;

/// Whether a port stamps frames that leave or frames that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The near end: stamps frames that leave.
    Near,
    /// The far end: stamps frames that arrive.
    Far,
}

/// The timestamps that a port offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortStamps {
    /// Name of the interface.
    pub interface: String,
    /// The timestamps offered. `None` if the kernel does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<TimeStamps>,
}

impl PortStamps {
    /// The stamps that an interface in the calling thread's network namespace offers.
    pub fn of(interface: &str) -> Self {
        Self { interface: interface.to_owned(), offered: ethtool::time_stamps(interface).ok() }
    }

    /// Checks whether the port offers these timestamps.
    ///
    /// # Errors
    /// The port does not offer them, or the kernel does not report them. The error names the timestamps that the port
    /// offers.
    pub fn check(&self, stamps: Stamps, end: End) -> Result<(), WireError> {
        let can = |offered: TimeStamps| match (stamps, end) {
            (Stamps::Application, _) => true,
            (Stamps::Kernel, End::Near) => offered.software_transmit,
            (Stamps::Kernel, End::Far) => offered.software_receive,
            (Stamps::Hardware, End::Near) => offered.hardware_transmit && offered.clock.is_some(),
            (Stamps::Hardware, End::Far) => {
                offered.hardware_receive && offered.hardware_receive_all && offered.clock.is_some()
            }
        };
        if stamps == Stamps::Application || self.offered.is_some_and(can) {
            return Ok(());
        }
        let has =
            |kernel: TimeStamps| stamps == Stamps::Hardware && kernel.software_transmit && kernel.software_receive;
        Err(WireError::NoStamps {
            interface: self.interface.clone(),
            stamps,
            what: if end == End::Near { "leaves" } else { "arrives" },
            offered: self.offered.map_or_else(|| "the kernel does not say what".to_owned(), |all| all.to_string()),
            instead: if self.offered.is_some_and(has) { "kernel or application" } else { "application" },
        })
    }
}

/// Latencies of a trial's tagged frame, which arrived. A latency is `None` if one of its timestamps is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stamped {
    /// Latency from just before the frame was written (s).
    pub application_s: Option<f64>,
    /// Latency by the kernel's timestamps (s).
    pub kernel_s: Option<f64>,
    /// Latency by the devices' timestamps (s).
    pub hardware_s: Option<f64>,
    /// Uncertainty of `hardware_s` from relating the clocks of two devices (s); 0 if both ports share a clock.
    pub uncertainty_s: Option<f64>,
    /// Timestamps that were requested and are missing.
    pub absent: Absent,
}

impl Stamped {
    /// The latency by the requested clock (s).
    pub fn by(&self, stamps: Stamps) -> Option<f64> {
        match stamps {
            Stamps::Application => self.application_s,
            Stamps::Kernel => self.kernel_s,
            Stamps::Hardware => self.hardware_s,
        }
    }
}

/// Counts of tagged frames whose requested timestamps cannot be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Absent {
    /// Frames without a timestamp of departure.
    pub left: u32,
    /// Frames without a timestamp of arrival.
    pub came: u32,
    /// Frames whose timestamps come from clocks that could not be related.
    pub clock: u32,
}

impl Absent {
    /// Adds the counts of another frame.
    pub fn add(&mut self, other: Self) {
        self.left += other.left;
        self.came += other.came;
        self.clock += other.clock;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(offered: Option<TimeStamps>) -> PortStamps {
        PortStamps { interface: "eth1".to_owned(), offered }
    }

    fn refused(stamps: Stamps, offered: Option<TimeStamps>, end: End) -> String {
        port(offered).check(stamps, end).expect_err("it is not offered").to_string()
    }

    #[test]
    fn what_a_port_cannot_give_is_refused_by_name() {
        let kernel = TimeStamps { software_receive: true, software_transmit: true, ..TimeStamps::default() };
        for end in [End::Near, End::Far] {
            assert!(port(None).check(Stamps::Application, end).is_ok());
            assert!(port(Some(kernel)).check(Stamps::Kernel, end).is_ok());
        }
        let said = refused(Stamps::Hardware, Some(kernel), End::Near);
        for word in ["eth1", "no hardware stamps", "leaves", "--stamps kernel or application"] {
            assert!(said.contains(word), "{said}");
        }
        let half = TimeStamps { software_receive: true, ..TimeStamps::default() };
        assert!(port(Some(half)).check(Stamps::Kernel, End::Far).is_ok());
        let said = refused(Stamps::Kernel, Some(half), End::Near);
        assert!(
            said.contains("kernel stamps of what arrives only") && said.ends_with("--stamps application"),
            "{said}"
        );
        assert!(refused(Stamps::Kernel, None, End::Far).contains("does not say"));
    }

    #[test]
    fn hardware_must_stamp_every_frame_and_have_a_clock() {
        let all = TimeStamps {
            hardware_receive: true,
            hardware_transmit: true,
            hardware_receive_all: true,
            clock: Some(0),
            ..TimeStamps::default()
        };
        assert!(port(Some(all)).check(Stamps::Hardware, End::Far).is_ok());
        let ptp = TimeStamps { hardware_receive_all: false, ..all };
        // Leaving frames are stamped if the socket requests it; arriving frames only for certain protocols, such as
        // PTP.
        assert!(port(Some(ptp)).check(Stamps::Hardware, End::Near).is_ok());
        assert!(refused(Stamps::Hardware, Some(ptp), End::Far).contains("PTP"));
        refused(Stamps::Hardware, Some(TimeStamps { clock: None, ..all }), End::Near);
    }
}
