//! [`SimEngine::replicas`]: replications one by one, for procedures that decide themselves how many they need.

use std::ops::Range;

use netcliff_core::{EngineFailure, Outcome, Point};

use crate::engine::{SimEngine, clock};
use crate::replicate::{Batch, each, replicate};
use crate::summary;

/// One replication of a point after its warm-up.
#[derive(Debug, Clone, PartialEq)]
pub struct Replica {
    /// What this replication found. It is one sample: only values are meant, the ends of its intervals say nothing.
    pub outcome: Outcome,
    /// False: no steady state within its first half.
    pub settled: bool,
}

impl SimEngine {
    /// The replications with these numbers, of `packets` arrivals each (at least 100). Points of the same load under the
    /// same seed meet the same packets in replications of the same number and length; effort and confidence of the
    /// engine play no part. Errors: the point is invalid or not
    /// supported, or it has several queues.
    pub fn replicas(&self, point: &Point, numbers: Range<u64>, packets: u64) -> Result<Vec<Replica>, EngineFailure> {
        point.validate()?;
        self.one_queue(point)?;
        let packets = packets.clamp(100, u64::from(u32::MAX));
        let clock = clock(point, packets);
        Ok(each(numbers, |number| {
            let (replication, pool) = replicate(point, clock, self.seed, number, packets);
            let settled = replication.settled;
            let batch = Batch { replications: vec![replication], pool, packets_each: packets };
            Replica { outcome: summary::outcome(point, &batch, clock, self.confidence), settled }
        }))
    }
}

#[cfg(test)]
mod tests {
    use netcliff_core::{Host, Scheme, Traffic};

    use super::*;
    use crate::engine::Effort;

    fn point(scheme: &str) -> Point {
        let traffic: Traffic = serde_json::from_str(r#"{"arrivals":"poisson","size":"64B","rate":"100kpps"}"#).unwrap();
        Point { host: Host::preset("pentium4-2530mhz").unwrap(), scheme: scheme.parse::<Scheme>().unwrap(), traffic }
    }

    /// Ten replicas are the ten replications of a run under the same seed, whatever order they are asked for in.
    #[test]
    fn replicas_are_the_replications_of_a_run() {
        let engine = SimEngine { seed: 7, effort: Effort::Packets(50_000), ..SimEngine::default() };
        let point = point("disable-enable");
        let whole = engine.simulate(&point).unwrap().outcome;
        let mut replicas = engine.replicas(&point, 4..10, 5_000).unwrap();
        replicas.extend(engine.replicas(&point, 0..4, 5_000).unwrap());
        let available = |outcome: &Outcome| outcome.cpu.unwrap().available.unwrap().value;
        let mean = replicas.iter().map(|replica| available(&replica.outcome)).sum::<f64>() / 10.0;
        // The run weighs replications by their length, which differs a little.
        assert!((mean - available(&whole)).abs() < 2e-3, "{mean} and {}", available(&whole));
        assert!(whole.cpu.unwrap().available.unwrap().covers(mean));
    }

    #[test]
    fn two_schemes_meet_the_same_packets() {
        let engine = SimEngine { seed: 3, ..SimEngine::default() };
        let offered = |scheme: &str| {
            let replicas = engine.replicas(&point(scheme), 2..3, 20_000).unwrap();
            replicas[0].outcome.offered_pps.unwrap().value
        };
        assert!((offered("ideal") / offered("disable-enable") - 1.0).abs() < 1e-3);
        let bad = point("polling:period=1us,quota=3");
        assert!(engine.replicas(&bad, 0..1, 1_000).is_err());
    }
}
