//! A generator in an agent: it sends the frames of a measurement from another host.
//!
//! The agent ([`LoadKind`]) finds the host under test on a link of its own by neighbour discovery and sends the
//! requested load. The near end ([`FarSource`]) uses it as a [`Source`](netcliff_packets::source::Source). The measured
//! window is in the agent's clock, which stamps the frames. The generator ends with its schedule, when its client stops
//! it, and when the control connection ends. It also ends when nobody has asked for its progress for [`UNHEARD_S`]: a
//! cut cable does not leave a load running. Several generators ([`Several`]) can share a load.

mod far;
mod near;
mod reverse;
mod several;
use std::net::SocketAddr;

use netcliff_host::nic::neighbour::Neighbour;
use serde::{Deserialize, Serialize};

use netcliff_packets::error::Refusal;
use netcliff_packets::error::WireError;
use netcliff_packets::frame::Ports;
use netcliff_packets::generator::{Ceiling, SenderReport, Window};
use netcliff_packets::schedule::Arrivals;
use netcliff_packets::source::Timing;
use netcliff_packets::transmit::Method;

pub use far::{LoadKind, Permission};
pub use near::{Carrier, FarSource, LoadProgress, far_ceiling};
pub use reverse::{
    Chunk, Executor, GeneratorCommand, LONGEST_BYTES, OrderHandler, OrderQueue, Relay, Reverse, computed, is_first,
};
pub use several::{Several, far_ceilings};

/// Name of the kind on the control channel.
pub const LOAD: &str = "load";
/// A generator stops if nobody asks for its progress for this long \[s\]. After the call that is then in progress (a
/// kick, which hands frames to the kernel), it stops within one second in all.
pub const UNHEARD_S: f64 = 0.95;

/// The frames that an agent shall send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// Address and port of the sink.
    pub destination: SocketAddr,
    /// Hardware address of the host under test, as that host reports it. Another host that answers for the IP address
    /// is refused.
    pub destination_mac: Option<[u8; 6]>,
    /// Interface to send through. `None`: by the agent's routes.
    pub interface: Option<String>,
    /// UDP source port of the frames.
    pub source_port: u16,
    /// Ports of further flows; see [`netcliff_packets::frame::flow_of`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_flows: Vec<Ports>,
    /// VLAN id. The VLAN's device on the agent leads to the host under test; the agent tags the frames and sends them
    /// through the device below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// How frames are handed over. `None`: by [`Method::default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Highest rate [packets/s]. The agent may have a lower limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_pps: Option<f64>,
    /// Frame bytes, including FCS.
    pub frame_bytes: usize,
    /// Identifies the frames of this run.
    pub run_id: u32,
    /// Largest number of frames per kick, the call that hands frames to the kernel.
    pub max_burst: usize,
    /// CPU of the generator. `None`: the first one that the agent may use.
    pub cpu: Option<usize>,
    /// Whether the load may use the interface that carries the control connection.
    pub by_control_link: bool,
    /// Whether to receive the sink's answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub round_trips: bool,
    /// Rate and duration of the load.
    pub load: Load,
}

/// Rate and duration of a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// Frames on a schedule.
    Paced {
        /// Distribution of the gaps.
        arrivals: Arrivals,
        /// Rate [packets/s].
        rate_pps: f64,
        /// Seed of the schedule.
        seed: u64,
        /// Duration of the phases, of which one is measured.
        timing: Timing,
    },
    /// Frames at the highest rate of the generator.
    FlatOut {
        /// Duration \[s\].
        seconds: f64,
    },
}

impl Load {
    /// Duration of the load \[s\].
    fn seconds(&self) -> f64 {
        match self {
            Self::Paced { timing, .. } => timing.warmup_s + timing.measured_s + timing.cooldown_s,
            Self::FlatOut { seconds } => *seconds,
        }
    }
}

/// What an agent reports before it sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReady {
    /// The measured window by the agent's clock. `None` for [`Load::FlatOut`].
    pub window: Option<Window>,
    /// Route to the host under test.
    pub way: Route,
    /// How frames are handed over.
    pub method: Method,
    /// Highest rate of this generator [packets/s]: the lower of the request's and the agent's limit. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_pps: Option<f64>,
}

/// The route from a generator to the host under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Interface on the generator's host.
    pub interface: String,
    /// Source address and port of the frames.
    pub source: SocketAddr,
    /// Hardware address of that interface.
    pub source_mac: [u8; 6],
    /// Hardware address that answers for the host under test.
    pub destination_mac: [u8; 6],
}

impl Route {
    fn of(neighbour: Neighbour, port: u16) -> Self {
        Self {
            interface: neighbour.interface,
            source: SocketAddr::new(neighbour.source, port),
            source_mac: neighbour.source_mac,
            destination_mac: neighbour.mac,
        }
    }
}

/// Progress or result of an agent's generator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LoadReport {
    /// Number of frames offered so far.
    pub sent: u64,
    /// The generator's report. `None` before it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderReport>,
    /// The generator's highest rate. `None` if it was not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// How late the generator's thread was to its start, if that is why it failed \[s\].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_s: Option<f64>,
    /// Why the report is missing or incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Wraps the message of a failed far end.
fn far_failure(why: impl Into<Refusal>) -> WireError {
    WireError::Far(why.into())
}
