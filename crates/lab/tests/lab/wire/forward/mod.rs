//! Frames over a real veth pair, by every sender to every receiver: each one arrives as it was sent, or is reported.

use crate::wire::common;
mod senders;
mod sinks;
mod stamps;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::wire::common::Pair;
use netcliff_packets::WireError;
use netcliff_packets::thread::Placement;
use netcliff_rfc2544::tester::Direction;
use netcliff_rfc2544::tester::Profile;
use netcliff_rfc2544::tester::Sweep;
use netcliff_rfc2544::tester::Trial;
use netcliff_rfc2544::tester::run::{Bench, DirectionReport, Methods, Port, Tester, TrialReport};

pub(super) fn direction(pair: &Pair, sizes: &[usize]) -> Direction {
    let port = |netns: &Path, interface: &str| Port { netns: Some(netns.to_owned()), interface: interface.to_owned() };
    Direction {
        from: port(&pair.netns("a"), "v0"),
        to: port(&pair.netns("b"), "v1"),
        profile: Profile {
            source_mac: [2, 0, 0, 0, 7, 1],
            destination_mac: [2, 0, 0, 0, 7, 0xff],
            vlan: None,
            source: [198, 18, 0, 2].into(),
            destination: [198, 19, 0, 2].into(),
            ports: (10_000, 20_000),
            sweep: Sweep { source_ports: 5, ..Sweep::default() },
            sizes: sizes.to_vec(),
            replay: None,
        },
    }
}

const TRIAL: Trial = Trial {
    load_pps: 5000.0,
    duration_s: 0.1,
    settle_s: 1.0,
    max_burst: 32,
    tagged_at_s: None,
    burst: None,
    most_lost: None,
};

/// Runs on a thread of its own, because the thread stays in the pair's namespace.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"))
}

fn both(directions: &[Direction], by: Methods, trial: &Trial) -> Result<(Tester, TrialReport), WireError> {
    alone(|| {
        let mut bench = Bench::open(directions, by, 32, &Placement { cpu: Some(0), ..Placement::default() })?;
        let report = bench.run(trial, &AtomicBool::new(false))?;
        Ok((bench.tester().clone(), report))
    })
}

fn conserved(one: &DirectionReport) {
    assert_eq!(one.kicked.total(), one.sent, "{one:?}");
    assert_eq!((one.arrived.corrupt, one.arrived.duplicates, one.arrived.reordered), (0, 0, 0), "{one:?}");
    assert!(one.arrived.frames <= one.kicked.accepted, "{one:?}");
}
