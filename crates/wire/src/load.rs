//! A generator in an agent: the frames of a measurement come from another host.
//!
//! The agent ([`LoadKind`]) finds the host under test on a link of its own by neighbour discovery and sends what is asked for; the near end
//! ([`FarSource`]) sees it as a [`Source`](crate::source::Source). The measured window lies in the agent's clock, which stamps the frames. The generator ends
//! with its schedule, when it is told to, when the control connection ends, and by itself when nobody has asked for its progress for
//! [`UNHEARD_S`]: a cut cable does not leave a load behind, whatever else waits for it. Several generators ([`Several`]) share a load.

mod far;
mod near;
mod reverse;
mod several;
use std::net::SocketAddrV4;

use netcliff_host::nic::neighbour::Neighbour;
use serde::{Deserialize, Serialize};

use crate::error::WireError;
use crate::frame::Ports;
use crate::generator::{Ceiling, SenderReport, Window};
use crate::run::Timing;
use crate::schedule::Arrivals;
use crate::transmit::Method;

pub use far::{LoadKind, Permission};
pub use near::{Asked, Carrier, FarSource, far_ceiling};
pub use reverse::{Desk, Hand, Order, Piece, Reverse, computed};
pub use several::{Several, far_ceilings};

/// Name of the kind on the control channel.
pub const LOAD: &str = "load";
/// A generator whose progress nobody has asked for this long stops \[s\]: within a second, its last kick included.
pub const UNHEARD_S: f64 = 0.95;

/// The frames that an agent shall send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// Where the sink is bound.
    pub destination: SocketAddrV4,
    /// Hardware address of the host under test, as it says itself: another that answers for the address is refused.
    pub destination_mac: Option<[u8; 6]>,
    /// Interface to send by; None: by the agent's routes.
    pub interface: Option<String>,
    /// UDP port that the frames seem to come from.
    pub source_port: u16,
    /// Ports of further flows; see [`crate::frame::flow_of`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_flows: Vec<Ports>,
    /// Tag the frames with this VLAN, whose device there leads to the host under test, and send them by the device below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// How frames are handed over; None: as [`Method::default`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Highest rate [packets/s]; the agent may have a lower one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_pps: Option<f64>,
    /// Frame bytes, FCS included.
    pub frame_bytes: usize,
    /// Marks the frames of this run.
    pub run_id: u32,
    /// Most frames a kick.
    pub max_burst: usize,
    /// CPU of the generator; None: the first that the agent may use.
    pub cpu: Option<usize>,
    /// Send also by the interface that carries the control connection.
    pub by_control_link: bool,
    /// Take the sink's answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub round_trips: bool,
    /// How much.
    pub load: Load,
}

/// How much is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// On a schedule.
    Paced {
        /// The law of the gaps.
        arrivals: Arrivals,
        /// Rate [packets/s].
        rate_pps: f64,
        /// Seed of the schedule.
        seed: u64,
        /// Which part of it is measured.
        timing: Timing,
    },
    /// As much as the generator can.
    FlatOut {
        /// For how long \[s\].
        seconds: f64,
    },
}

impl Load {
    /// How long it takes \[s\].
    fn seconds(&self) -> f64 {
        match self {
            Self::Paced { timing, .. } => timing.warmup_s + timing.measured_s + timing.cooldown_s,
            Self::FlatOut { seconds } => *seconds,
        }
    }
}

/// What an agent says before it sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReady {
    /// The measured window by the agent's clock; None where all is sent at once.
    pub window: Option<Window>,
    /// How the host under test is reached.
    pub way: Way,
    /// How frames are handed over.
    pub method: Method,
    /// Highest rate that this generator offers, the request's or the agent's own [packets/s]; None: as fast as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_pps: Option<f64>,
}

/// The generator's end of the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Interface there.
    pub interface: String,
    /// Address and port that frames come from.
    pub source: SocketAddrV4,
    /// Hardware address there.
    pub source_mac: [u8; 6],
    /// Hardware address that answers for the host under test.
    pub destination_mac: [u8; 6],
}

impl Way {
    fn of(neighbour: Neighbour, port: u16) -> Self {
        Self {
            interface: neighbour.interface,
            source: SocketAddrV4::new(neighbour.source, port),
            source_mac: neighbour.source_mac,
            destination_mac: neighbour.mac,
        }
    }
}

/// What an agent has sent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// Frames offered so far.
    pub sent: u64,
    /// The generator's report, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderReport>,
    /// Its highest rate, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// How late its thread was to its start, where that is why \[s\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_s: Option<f64>,
    /// Why there is no report, or not a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A failure of the far end, as it says it.
fn far_failure(why: impl Into<String>) -> WireError {
    WireError::Far(why.into())
}
