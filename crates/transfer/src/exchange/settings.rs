//! The settings of a request/response test.

use serde::{Deserialize, Serialize};

use netcliff_packets::error::WireError;
use netcliff_packets::schedule::Arrivals;
use netcliff_packets::thread;

/// Largest request or response (bytes).
pub const LARGEST_BYTES: usize = 1 << 20;
/// Largest payload of a UDP datagram over IPv4 (bytes).
pub const LARGEST_DATAGRAM_BYTES: usize = 65_507;
/// Smallest payload of a datagram (bytes): it carries its sequence number, so that a late answer is not mistaken for
/// another one.
pub const SMALLEST_DATAGRAM_BYTES: usize = 8;
/// Largest number of flows: each has a thread and histograms at the near end.
pub const MOST_FLOWS: u32 = 256;
/// Largest number of requests under way in a flow.
pub const MOST_DEPTH: u32 = 4096;
/// The longest warm-up or measured time (s).
pub const LONGEST_TIME_S: f64 = 86_400.0;

/// Highest request rate of an open loop (1/s): one per nanosecond, the resolution of the clock.
pub const MOST_RATE_PER_S: f64 = 1e9;

/// The transport of requests and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One TCP connection per flow, with TCP_NODELAY.
    Tcp,
    /// One connected pair of UDP sockets per flow.
    Udp,
    /// One Unix stream socket per flow: wake-ups and copies without a network. Only within one process.
    Unix,
}

impl netcliff_core::Choice for Transport {
    const CHOICES: &'static [(Self, &'static str, &'static str)] = &[
        (Self::Tcp, "tcp", "A TCP connection a flow"),
        (Self::Udp, "udp", "A pair of UDP sockets a flow; losses are counted"),
        (Self::Unix, "unix", "Unix sockets: wake-ups and copies without a network"),
    ];
}

/// How an end waits for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Receive {
    /// The thread sleeps in the kernel until data wake it.
    Block,
    /// The thread polls without sleeping: no wake-up latency, but the CPU is fully used.
    Spin,
    /// The thread sleeps, but the kernel first polls the device's queue for this long (SO_BUSY_POLL, us).
    KernelPoll(u32),
}

/// A request/response test, in the form that both ends need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// Transport of requests and responses.
    pub transport: Transport,
    /// Whether each transaction opens a new TCP connection; the time of opening counts.
    pub connect_each: bool,
    /// Size of a request (bytes).
    pub request_bytes: usize,
    /// Size of a response (bytes).
    pub response_bytes: usize,
    /// Number of simultaneous flows.
    pub flows: u32,
    /// Number of requests that a flow always has under way (closed loop).
    pub depth: u32,
    /// Requests per second over all flows (open loop). `None`: closed loop.
    pub rate_per_s: Option<f64>,
    /// Distribution of the gaps in an open loop.
    pub arrivals: Arrivals,
    /// Seed of random gaps.
    pub seed: u64,
    /// Time at the start that is not measured (s).
    pub warm_up_s: f64,
    /// Measured time (s).
    pub time_s: f64,
    /// Time after which a request without an answer is lost (s).
    pub timeout_s: f64,
    /// How both ends wait for data.
    pub receive: Receive,
    /// CPU of the near end's threads. `None`: any.
    pub client_cpu: Option<usize>,
    /// CPU of the far end's threads. `None`: any.
    pub server_cpu: Option<usize>,
    /// CPUs of the near end's flows, used round robin. Empty: all flows use `client_cpu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_cpus: Vec<usize>,
    /// CPUs of the far end's flows, used round robin. Only for an agent with
    /// [`RR_CPU_LISTS`](netcliff_remote::control::RR_CPU_LISTS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_cpus: Vec<usize>,
    /// Whether to use the exact CPU meter of the far end's host. Only for an agent with
    /// [`CPU_METER`](netcliff_remote::control::CPU_METER).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub far_meter: bool,
}

impl Default for Settings {
    /// One TCP flow with one request of 64 bytes under way and answers of 64 bytes, for 5 s after 0.5 s of warm-up.
    fn default() -> Self {
        Self {
            transport: Transport::Tcp,
            connect_each: false,
            request_bytes: 64,
            response_bytes: 64,
            flows: 1,
            depth: 1,
            rate_per_s: None,
            arrivals: Arrivals::Poisson,
            seed: 1,
            warm_up_s: 0.5,
            time_s: 5.0,
            timeout_s: 1.0,
            receive: Receive::Block,
            client_cpu: None,
            server_cpu: None,
            client_cpus: Vec::new(),
            server_cpus: Vec::new(),
            far_meter: false,
        }
    }
}

impl Settings {
    /// Whether the two ends of any flow are pinned to one CPU.
    pub(super) fn shares_a_cpu(&self) -> bool {
        (0..self.flows as usize).any(|flow| {
            let client = thread::round_robin(self.client_cpu, &self.client_cpus, flow);
            client.is_some() && client == thread::round_robin(self.server_cpu, &self.server_cpus, flow)
        })
    }

    /// Checks every setting, because an agent trusts nothing it receives.
    ///
    /// # Errors
    /// The first setting that is out of its range, with the accepted form.
    pub fn check(&self) -> Result<(), WireError> {
        let datagrams = self.transport == Transport::Udp;
        let least = if datagrams { SMALLEST_DATAGRAM_BYTES } else { 1 };
        let most = if datagrams { LARGEST_DATAGRAM_BYTES } else { LARGEST_BYTES };
        for (what, bytes) in [("request", self.request_bytes), ("response", self.response_bytes)] {
            if !(least..=most).contains(&bytes) {
                return Err(WireError::setting(what, bytes, format!("{least} to {most} bytes")));
            }
        }
        for (what, number, most) in [("flows", self.flows, MOST_FLOWS), ("depth", self.depth, MOST_DEPTH)] {
            if !(1..=most).contains(&number) {
                return Err(WireError::setting(what, number, format!("1 to {most}")));
            }
        }
        for (what, cpus) in [("client_cpus", &self.client_cpus), ("server_cpus", &self.server_cpus)] {
            if cpus.len() > MOST_FLOWS as usize {
                return Err(WireError::setting(what, cpus.len(), format!("at most {MOST_FLOWS} of them, a flow each")));
            }
        }
        for (what, s, least) in
            [("warm-up", self.warm_up_s, 0.0), ("time", self.time_s, 1e-3), ("timeout", self.timeout_s, 1e-3)]
        {
            if !(least..=LONGEST_TIME_S).contains(&s) {
                return Err(WireError::setting(what, s, format!("{least} to {LONGEST_TIME_S} seconds")));
            }
        }
        if let Some(rate) = self.rate_per_s.filter(|rate| !(*rate > 0.0 && *rate <= MOST_RATE_PER_S)) {
            let accepted = format!("more than 0 requests a second, at most {MOST_RATE_PER_S}");
            return Err(WireError::setting("rate", rate, accepted));
        }
        if self.rate_per_s.is_some() && self.depth > 1 {
            return Err(WireError::setting("depth", self.depth, "1 with a rate: an open loop has no depth"));
        }
        if self.connect_each && (self.transport != Transport::Tcp || self.depth > 1 || self.rate_per_s.is_some()) {
            let accepted = "for TCP in a closed loop of depth 1";
            return Err(WireError::setting("connect each time", "set", accepted));
        }
        Ok(())
    }
}
