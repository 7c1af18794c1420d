//! A run of `find` that loads a guest in given settings at given loads.

use netcliff_core::{Arrivals, FrameSizes, Provenance, Traffic};
use netcliff_find::{CheckSetup, FindOptions, Idle, Settings};
use netcliff_packets::schedule;
use netcliff_trial::rig::{Place, RigOptions};

/// Loss that defines a cliff: some packets of a trial of an emulated guest, which carries 10 kpps and more.
const LOSS: f64 = 1e-3;
/// Length of a measured window (s).
const TRIAL_S: f64 = 1.0;
/// Number of searches for the cliff of each setting. The user requested results at loads, not the cliff.
const SEARCHES: u32 = 3;

/// The settings and loads to measure in a guest.
#[derive(Debug)]
pub struct Loaded<'a> {
    /// Settings of the guest's device to measure.
    pub checks: Vec<CheckSetup>,
    /// Loads at which each setting is measured (pps).
    pub loads_pps: Vec<f64>,
    /// Arrivals and frames.
    pub traffic: &'a Traffic,
    /// Seed of everything random.
    pub seed: u64,
    /// Command and start.
    pub provenance: &'a Provenance,
}

impl Loaded<'_> {
    /// The options of `find` for this run.
    ///
    /// # Errors
    /// Traffic that the sender does not offer.
    pub fn options(self) -> anyhow::Result<FindOptions> {
        let frame_bytes = match self.traffic.size {
            FrameSizes::Fixed(bytes) => bytes,
            ref other => anyhow::bail!("frames of {other}: the sender offers one size"),
        };
        let arrivals = match &self.traffic.arrivals {
            Arrivals::Poisson => schedule::Arrivals::Poisson,
            Arrivals::Constant => schedule::Arrivals::Constant,
            other => anyhow::bail!("the sender offers poisson and constant arrivals, not {other}"),
        };
        Ok(FindOptions {
            settings: Settings {
                quick: true,
                loss: LOSS,
                frame_bytes,
                arrivals,
                trial_s: Some(TRIAL_S),
                searches: Some(SEARCHES),
                seed: self.seed,
                check_loads_pps: self.loads_pps,
                command: self.provenance.command.clone(),
                started_unix_s: self.provenance.started_unix_s,
                ..Settings::default()
            },
            idle: Idle::Awake,
            rig: RigOptions { place: Place::Netns, ..RigOptions::default() },
            checks: self.checks,
            ..FindOptions::default()
        })
    }
}
