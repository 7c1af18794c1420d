//! What a frame costs the router's CPU, and the throughput that follows: the prediction beside the measured one.
//!
//! One server, the router's CPU: a poll takes `poll + frame x frames` (fitted, as `find` calibrates, over the polls of a
//! trial at half the throughput found), polls of up to the kernel's weight drain a backlog of `netdev_max_backlog`, and
//! nothing else wants the CPU. The only thing taken from the search is the load at which costs are measured.

use netcliff_core::{Arrivals, FrameSizes, Host, Load, Scheme, Service, Traffic};
use netcliff_host::cpu::CpuSplit;
use serde::{Deserialize, Serialize};

use netcliff_find::calibrate::poll_line;
use netcliff_find::{Elsewhere, Predictor};
use netcliff_trial::trial::poll_time;

/// Loss that ends the simulated throughput: of so many frames a load a hundred.
const SIMULATED_LOSS: f64 = 1e-4;
const SIMULATED_FRAMES: u64 = 1_000_000;

/// Times on the router's CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Of a frame (s).
    pub frame_s: f64,
    /// Of a poll, whatever it takes in (s).
    pub poll_s: f64,
}

impl Costs {
    /// From a CPU split; None where the meter does not report polls, or they were too few or all alike.
    pub fn of(split: &CpuSplit) -> Option<Self> {
        let table = split.polls.as_ref()?;
        let times: Vec<_> = table.cells.iter().filter_map(poll_time).collect();
        let polls = split.counters.polls? as f64;
        let [frame_s, poll_s, _] = poll_line(&times, polls, table.tail_s)?;
        (frame_s > 0.0).then_some(Self { frame_s, poll_s })
    }
}

/// A throughput from costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Predicted {
    /// Load at which the costs were taken (pps).
    pub load_pps: f64,
    /// A frame's time on the router's CPU (s).
    pub frame_s: f64,
    /// A poll's, whatever it takes in (s).
    pub poll_s: f64,
    /// What the CPU does when every poll is full (pps).
    pub server_pps: f64,
    /// Highest load that loses no more than one frame in 10 000, simulated (pps).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_pps: Option<f64>,
}

impl Predicted {
    /// The throughput that follows from costs measured at a load (pps), with this kernel's scheme and backlog (frames).
    pub fn from_costs(costs: Costs, load_pps: f64, scheme: Scheme, backlog: u64) -> Self {
        let Costs { frame_s, poll_s } = costs;
        let weight = match &scheme {
            Scheme::Napi(napi) => napi.weight.max(1) as f64,
            _ => 1.0,
        };
        let host = Host {
            name: "the router's CPU".to_owned(),
            protocol_s: frame_s,
            poll_s,
            ring: backlog.max(1),
            service: Service::Deterministic,
            ..Host::default()
        };
        let traffic = Traffic {
            arrivals: Arrivals::Constant,
            // Bytes cost nothing more here: the frame's time is that of its size.
            size: FrameSizes::Fixed(64),
            rate: Load::Pps(1.0),
            link_bps: 1e12,
            flows: None,
        };
        let asked = Predictor {
            times: host.service.clone(),
            host,
            scheme,
            traffic,
            loss: SIMULATED_LOSS,
            seed: 1,
            packets: SIMULATED_FRAMES,
            near_pps: None,
            timing: Default::default(),
            elsewhere: Elsewhere::default(),
        };
        let simulated = asked.sim_cliff(&std::sync::atomic::AtomicBool::new(false));
        Self {
            load_pps,
            frame_s,
            poll_s,
            server_pps: 1.0 / (frame_s + poll_s / weight),
            simulated_pps: simulated.ok().flatten().map(|figure| figure.value),
        }
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::Napi;

    use super::*;

    /// The closed form and the simulator are two ways to the same number.
    #[test]
    fn one_server_and_the_simulator_agree() {
        for (frame_s, poll_s) in [(1e-6, 0.0), (5e-6, 3e-6), (0.8e-6, 6.4e-6)] {
            let costs = Costs { frame_s, poll_s };
            let scheme = Scheme::Napi(Napi { backlog: true, ..Napi::default() });
            let found = Predicted::from_costs(costs, 1e5, scheme, 1000);
            let simulated = found.simulated_pps.expect("the simulator answers");
            assert!((simulated / found.server_pps - 1.0).abs() < 0.03, "{costs:?}: {found:?}");
        }
    }
}
