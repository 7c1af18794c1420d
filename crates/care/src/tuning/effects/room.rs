//! Steps that enlarge queues: rings and TCP buffers.

use netcliff_core::{Arrivals, Engine, FrameSizes, Host, Load, Outcome, Point, Scheme, Traffic, scheme::Napi};
use netcliff_host::inspect::rules::Burst;
use netcliff_host::setting::{Group, Setting};
use netcliff_host::tune::Step;
use netcliff_sim::SimEngine;

use super::schemes::load_pps;
use super::{FRAME_BYTES, Known, Range, file_name};

/// Mean load of the bursts as a share of the load that the CPU can serve: the ring is empty before most bursts.
const LOAD_SHARE: f64 = 0.5;
/// Number of bursts in a simulation. A ring loses nearly the same share of each burst, so that a few hundred bursts
/// determine the share to a few per cent (`cargo test -p netcliff-lab rings`).
const BURSTS: f64 = 200.0;
/// Minimum and maximum number of packets in a simulation; the maximum takes some seconds.
const PACKETS: (f64, f64) = (40_000.0, 2_000_000.0);
const SEED: u64 = 1;
/// Speed of the link (bit/s); the predictions do not depend on it.
const LINK_BPS: f64 = 10e9;

/// Returns the predicted effect of the step. `None` for other steps, and if the link does not report its speed.
pub(super) fn effect(known: &Known<'_>, step: &Step) -> Option<String> {
    let (old, new) = (&step.proposal.old, &step.proposal.new);
    match &step.setting {
        Setting::Ethtool { group: Group::Rings, key, .. } if key == "rx" => {
            ring(known, step, old.parse().ok()?, new.parse().ok()?)
        }
        setting => match file_name(setting)? {
            "tcp_rmem" | "tcp_wmem" => window(old, new),
            _ => None,
        },
    }
}

/// Predicts the losses of a burst at line rate that arrives during the poll delay, with the present and the proposed
/// ring.
fn ring(known: &Known<'_>, step: &Step, old: u64, new: u64) -> Option<String> {
    let burst = Burst::of(known.host, known.port(step)?).filter(|burst| burst.packets >= 1.0)?;
    let lost = |slots: u64| Some(lost_share(known, slots, burst.packets as u32)?.times(100.0));
    Some(format!(
        "lost at the ring of bursts of {:.0} packets {:.1} -> {:.1} % (simulated; what 64-byte frames at line rate bring in {:.0} us, {}; on \
         average {:.0} % of what a CPU serves; costs of {}, ranges from their intervals)",
        burst.packets,
        lost(old)?,
        lost(new)?,
        burst.delay_s * 1e6,
        burst.how,
        100.0 * LOAD_SHARE,
        known.run
    ))
}

/// Share of the packets lost by a ring with `slots` slots if packets arrive in bursts.
fn lost_share(known: &Known<'_>, slots: u64, burst: u32) -> Option<Range> {
    let pps = load_pps(known, LOAD_SHARE);
    let packets = (BURSTS * f64::from(burst)).clamp(PACKETS.0, PACKETS.1) as u64;
    let engine = SimEngine::with_packets(SEED, packets);
    let simulated = known.costs.iter().map(|host| {
        let host = Host { ring: slots.max(1), ..host.clone() };
        let size = FrameSizes::Fixed(FRAME_BYTES as u32);
        let arrivals = Arrivals::Batch { size: burst };
        let traffic = Traffic { arrivals, size, link_bps: LINK_BPS, flows: None };
        let (scheme, load) = (Scheme::Napi(Napi::default()), Load::Pps(pps));
        engine.evaluate(&Point { host, scheme, traffic, load }).ok()
    });
    let outcomes: Vec<Outcome> = simulated.collect::<Option<_>>()?;
    Range::of_outcomes(&outcomes, |outcome| outcome.loss?.ring)
}

/// Describes how a change of `tcp_rmem` or `tcp_wmem` changes the upper bound of a flow's throughput. A flow transfers
/// at most one window per round trip (RFC 7323, section 1.1). The window is a fixed share of the buffer, so the bound
/// changes by the ratio of the maximum buffers (the last numbers of `new` and `old`), for any round-trip time. `None`
/// if one of them is not a number above 0.
fn window(old: &str, new: &str) -> Option<String> {
    let most = |value: &str| value.split_whitespace().next_back()?.parse::<f64>().ok().filter(|bytes| *bytes > 0.0);
    let ratio = most(new)? / most(old)?;
    Some(format!(
        "a flow that this buffer bounds carries at most {ratio:.2} times as much (predicted, an upper bound: a window a round trip); others \
         are not changed"
    ))
}
