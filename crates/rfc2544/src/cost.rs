//! The cost of a frame on the router's CPU, and the throughput predicted from it.
//!
//! The model has one server, the router's CPU, which does nothing else. A poll takes `poll + frame x frames` seconds;
//! both costs are fitted to the polls of a trial at half the measured throughput, as `find` calibrates, on a CPU that a
//! loop of lowest priority keeps from halting. Polls of up to the kernel's weight drain a backlog of
//! `netdev_max_backlog` frames. The prediction depends on the measured throughput only through the load of that trial.
//!
//! A CPU that tester and router share sends a batch of frames, and handles them in softirqs. Its softirq time is
//! `frame x frames + softirq x softirqs`, from trials at a quarter and half of the measured throughput, whose batches
//! differ. The tester's own time of a frame (system calls, reading) and the largest batch are those of the run that
//! measures the sender's rate.

use netcliff_core::{Arrivals, FrameSizes, Host, Scheme, Service, Traffic};
use netcliff_host::cpu::{CpuSplit, PollCell, PollKind, PollTable};
use serde::{Deserialize, Serialize};

use netcliff_find::calibrate::poll_line;
use netcliff_find::{Elsewhere, Predictor};
use netcliff_trial::trial::poll_time;

/// Loss ratio that a simulated throughput may have.
const SIMULATED_LOSS: f64 = 1e-4;
/// Number of frames simulated at each load: 100 of them may be lost.
const SIMULATED_FRAMES: u64 = 1_000_000;

/// Smallest number of polls in a cell of the poll table for the cell to count.
const FEWEST_POLLS: u64 = 20;

/// Times that the router's CPU spends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Time of a frame (s).
    pub frame_s: f64,
    /// Time of a poll without its frames (s).
    pub poll_s: f64,
}

impl Costs {
    /// Fits the costs to a CPU's measured times. `None` if the meter does not report polls, or if there were too few of
    /// them or all had the same number of frames.
    pub fn of(split: &CpuSplit) -> Option<Self> {
        let table = split.polls.as_ref()?;
        if table.cells.iter().any(|cell| cell.kind == PollKind::Threaded && cell.polls >= FEWEST_POLLS) {
            return Self::of_threads(table);
        }
        let times: Vec<_> = table.cells.iter().filter_map(poll_time).collect();
        let polls = split.counters.polls? as f64;
        let [frame_s, poll_s, _] = poll_line(&times, polls, table.tail_s)?;
        (frame_s > 0.0).then_some(Self { frame_s, poll_s })
    }

    /// Fits the costs of a router whose packets NAPI threads poll: a line through the threads' polls, plus the time per
    /// frame of other polls on the CPU, such as the polls of a veth behind the router. [`poll_line`] cannot be used: it
    /// takes only the first poll of each softirq, and here softirqs contain only the other polls. `None` if the threads
    /// polled too rarely, or always took the same number of frames.
    fn of_threads(table: &PollTable) -> Option<Self> {
        let is_thread = |cell: &&PollCell| cell.kind == PollKind::Threaded;
        let (mut rows, mut times, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let filled = |cell: &&PollCell| cell.polls >= FEWEST_POLLS && cell.packets > 0;
        for cell in table.cells.iter().filter(is_thread).filter(filled) {
            let polls = cell.polls as f64;
            let mean_s = cell.total_s / polls;
            let variance_s2 = (cell.total_squared_s2 / polls - mean_s * mean_s).max((0.1 * mean_s).powi(2));
            rows.push(vec![cell.packets as f64 / polls, 1.0]);
            times.push(mean_s);
            weights.push(polls / variance_s2);
        }
        if rows.len() < 2 {
            return None;
        }
        let fit = netcliff_stats::fit_non_negative(&rows, &times, &weights)?;
        let value = |which: usize| fit.coefficients.get(which).map_or(0.0, |figure| figure.value);
        let frames: u64 = table.cells.iter().filter(is_thread).map(|cell| cell.packets).sum();
        let others_s: f64 = table.cells.iter().filter(|cell| !is_thread(cell)).map(|cell| cell.total_s).sum();
        let costs = Self { frame_s: value(0) + (others_s + table.tail_s) / frames.max(1) as f64, poll_s: value(1) };
        (value(0) > 0.0).then_some(costs)
    }
}

/// Work of a CPU that tester and router share, per frame of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameShare {
    /// Time in interrupts and softirqs (s).
    pub softirq_s: f64,
    /// NET_RX softirqs.
    pub softirqs: f64,
    /// Rest of the time (s): the tester's program, or waiting for the next frame to be due.
    pub rest_s: f64,
}

impl FrameShare {
    /// Computes the work from the CPU's split in a trial that sent `frames` in `sending_s`. `None` if the meter counts no
    /// softirqs, or if no frames were sent.
    pub fn of(split: &CpuSplit, frames: u64, sending_s: f64) -> Option<Self> {
        let shares = &split.shares;
        let all = [shares.interrupt, shares.protocol, shares.transmit, shares.softirq_other];
        let softirq_s = all.into_iter().flatten().sum::<f64>() * split.elapsed_s;
        let per_frame = |sum: f64| sum / frames as f64;
        let softirqs = per_frame(split.counters.softirqs? as f64);
        let rest_s = per_frame((sending_s - softirq_s).max(0.0));
        (frames > 0).then_some(Self { softirq_s: per_frame(softirq_s), softirqs, rest_s })
    }
}

/// Throughput of a router, predicted from the CPU time of a frame and of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Predicted {
    /// Load at which these times were measured (pps).
    pub load_pps: f64,
    /// Time of a frame on the router's CPU (s). If the tester has this CPU, too: its sending and reading included.
    pub frame_s: f64,
    /// Time of a poll on the router's CPU without its frames (s).
    pub poll_s: f64,
    /// Highest rate of the router's CPU (pps), reached if every poll takes `weight` frames: 1 / (`frame_s` + `poll_s` /
    /// weight). If the tester has this CPU, too: with its largest batches.
    pub server_pps: f64,
    /// Highest simulated load at which at most one frame in 10 000 is lost (pps); absent if the simulator found none, or
    /// if the tester has the router's CPU, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_pps: Option<f64>,
}

impl Predicted {
    /// Predicts the throughput of a CPU that tester and router share, from its work at a quarter and half of the
    /// throughput and flat out. `poll_s` is the time of a softirq without its frames. `None` if that is not above 0, so
    /// that noise exceeds the difference between the loads.
    pub fn of_shared_cpu(load_pps: f64, quarter: FrameShare, half: FrameShare, flat_out: FrameShare) -> Option<Self> {
        let poll_s = (quarter.softirq_s - half.softirq_s) / (quarter.softirqs - half.softirqs);
        let frame_s = half.softirq_s - poll_s * half.softirqs + flat_out.rest_s;
        (poll_s > 0.0 && frame_s > 0.0).then(|| Self {
            load_pps,
            frame_s,
            poll_s,
            server_pps: 1.0 / (frame_s + poll_s * flat_out.softirqs),
            simulated_pps: None,
        })
    }

    /// Predicts the throughput from costs that were measured at a load (pps), with this kernel's scheme and backlog
    /// (frames).
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
            // Only the number of frames matters: `frame_s` is already the time of a frame of the tested size.
            size: FrameSizes::Fixed(64),
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

    /// A thread's poll takes 2 us plus 300 ns per frame. The veth behind it takes 100 ns per frame, in softirqs.
    #[test]
    fn a_router_of_threads_has_the_costs_of_its_threads() {
        let cell = |kind, packets: u32, polls: u64, one_s: f64| PollCell {
            kind,
            work_low: packets,
            work_high: Some(packets),
            polls,
            packets: polls * u64::from(packets),
            total_s: one_s * polls as f64,
            total_squared_s2: one_s * one_s * polls as f64,
        };
        let thread = |packets: u32, polls| cell(PollKind::Threaded, packets, polls, 2e-6 + 300e-9 * f64::from(packets));
        let behind = |packets: u32, polls| cell(PollKind::FirstFromBusy, packets, polls, 100e-9 * f64::from(packets));
        let cells =
            vec![thread(8, 900), thread(20, 500), thread(64, 30), behind(8, 900), behind(20, 500), behind(64, 30)];
        let costs = Costs::of_threads(&PollTable { cells, ..PollTable::default() }).expect("three sizes");
        assert!((costs.frame_s - 400e-9).abs() < 4e-9 && (costs.poll_s - 2e-6).abs() < 3e-8, "{costs:?}");
        // If all polls take the same number of frames, the time of a poll cannot be separated from the time of a frame.
        let alike = PollTable { cells: vec![thread(20, 500)], ..PollTable::default() };
        assert_eq!(Costs::of_threads(&alike), None);
    }

    /// The throughput by the formula equals the simulated one within 3 %.
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

    /// A softirq costs 3 us, a frame 1 us in softirqs and 0.2 us in the tester; three softirqs a batch of 6, 12 and 64.
    #[test]
    fn a_shared_cpu_has_the_time_of_softirqs_and_of_the_tester() {
        let share = |batch: f64, rest_s| {
            let softirqs = 3.0 / batch;
            FrameShare { softirq_s: 1e-6 + 3e-6 * softirqs, softirqs, rest_s }
        };
        let of = |quarter, half| Predicted::of_shared_cpu(300e3, quarter, half, share(64.0, 0.2e-6));
        let predicted = of(share(6.0, 9e-6), share(12.0, 4e-6)).unwrap();
        assert!((predicted.server_pps * (1.2e-6 + 9e-6 / 64.0) - 1.0).abs() < 1e-9, "{predicted:?}");
        assert!((predicted.poll_s / 3e-6 - 1.0).abs() < 1e-9 && predicted.simulated_pps.is_none(), "{predicted:?}");
        assert_eq!(of(share(6.0, 0.0), share(6.0, 0.0)), None, "equal batches do not separate the costs");
    }
}
