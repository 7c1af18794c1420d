//! Round trips between two hosts, in trials of their own, because an answer costs the host under test time.

use netcliff_core::finding::RoundTripsAt;

use super::plan::{ROUND_TRIP_S, ROUND_TRIP_SHARES};
use super::stages::Run;
use super::{Halt, base, missing};
use crate::bench::{Bench, RoundTrips};
use crate::trial::{TrialError, TrialSpec};

impl Run<'_, '_> {
    /// Measures them around this cliff (pps), at loads up to the highest (pps), where the load comes from another host.
    pub(super) fn round_trips(&mut self, centre_pps: f64, highest_pps: f64) -> Result<(), Halt> {
        if self.options.rig.between.is_none() {
            return Ok(());
        }
        self.stage("measuring round trips");
        let base = base(self.options, self.plan);
        for (share, number) in ROUND_TRIP_SHARES.into_iter().zip(80_000..) {
            let rate_pps = share * centre_pps;
            if rate_pps > highest_pps {
                break;
            }
            let (seconds, seed) = (base.seconds.max(ROUND_TRIP_S), base.seed + number);
            match self.bench.round_trips(&TrialSpec { rate_pps, seconds, seed, ..base.clone() }) {
                Ok(seen) => match seen.and_then(|seen| at(share, rate_pps, &seen)) {
                    Some(told) => self.finding.round_trips.push(told),
                    None => {
                        let why = "no answer of the application came, or a clock was set during the trial";
                        missing(self.finding, "round_trips", why);
                    }
                },
                Err(error @ (TrialError::Stopped | TrialError::Changed { .. })) => return Err(error.into()),
                Err(error) => {
                    missing(self.finding, "round_trips", error.to_string());
                    break;
                }
            }
        }
        Ok(())
    }
}

fn at(share: f64, load_pps: f64, seen: &RoundTrips) -> Option<RoundTripsAt> {
    let times = seen.times?;
    Some(RoundTripsAt {
        share,
        load_pps,
        answers: seen.answers,
        samples: times.count,
        min_s: times.min_s,
        p50_s: times.p50_s,
        p90_s: times.p90_s,
        p99_s: times.p99_s,
        max_s: times.max_s,
    })
}
