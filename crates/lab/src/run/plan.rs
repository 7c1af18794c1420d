//! The plan of a run: the experiment's file with the user's changes.

use std::collections::{BTreeMap, BTreeSet};

use netcliff_core::experiment::{Experiment, FileError, Grid, Share, Task};
use netcliff_core::{Aims, EngineKind, Fingerprint};
use netcliff_sim::{Effort, SimEngine};

use crate::inputs;

/// Precision if the file names neither precision nor packets.
const PRECISION: f64 = 0.05;
/// Largest number of arrivals per point if a precision is requested without a number of packets.
const PACKETS_AT_MOST: u64 = 20_000_000;
const CONFIDENCE: f64 = 0.95;

/// The user's changes to an experiment. `None` or empty: as in the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// The engines.
    pub engines: Vec<EngineKind>,
    /// Seed of every sampled engine.
    pub seed: Option<u64>,
    /// Relative half width to reach.
    pub precision: Option<Share>,
    /// Number of arrivals to simulate per point; with a precision, the largest number.
    pub packets: Option<u64>,
}

/// An experiment on engines, ready to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Hash of text, changes and version. An unfinished run with the same identifier can be continued.
    pub id: String,
    /// The experiment with the user's changes.
    pub grid: Grid,
    /// Every task in order.
    pub tasks: Vec<Task>,
    /// Seed of every sampled engine.
    pub seed: u64,
    /// The simulator, with seed, effort and confidence.
    pub sim: SimEngine,
}

impl Plan {
    /// Makes the plan of the experiment `grid`, which was read from `path` with the content `text`.
    ///
    /// # Errors
    /// A file of frame sizes, packets or times cannot be read, or a point is invalid.
    pub fn new(path: &str, text: &str, grid: &Grid, changes: &Changes) -> Result<Self, FileError> {
        let mut grid = grid.clone();
        if !changes.engines.is_empty() {
            grid.engines.clone_from(&changes.engines);
        }
        // Each of the two options replaces both the precision and the packets of the file.
        if changes.packets.is_some() || changes.precision.is_some() {
            (grid.packets, grid.precision) = (changes.packets, changes.precision);
        }
        for size in &mut grid.traffic.sizes.0 {
            *size = inputs::frame_sizes(size)?;
        }
        for flows in grid.traffic.flows.iter_mut().flat_map(|flows| &mut flows.0) {
            *flows = inputs::flows(flows)?;
        }
        for arrivals in &mut grid.traffic.arrivals.0 {
            *arrivals = inputs::arrivals(arrivals)?;
        }
        let seed = changes.seed.or(grid.seed).unwrap_or_else(|| derived_seed(text));
        let mut tasks = grid.tasks().map_err(|bad| FileError::misplaced(path, text, &bad))?;
        inputs::measured_times(tasks.iter_mut().map(|task| &mut task.point.host))?;
        tasks.iter_mut().enumerate().for_each(|(place, task)| task.index = place);
        let confidence = grid.confidence.map_or(CONFIDENCE, |share| share.0);
        let sim = SimEngine { seed, effort: effort(&grid), confidence, ..SimEngine::default() };
        Ok(Self { id: identifier(text, &grid, &tasks, seed), grid, tasks, seed, sim })
    }

    /// The experiment as it is run.
    pub fn experiment(&self) -> Experiment {
        Experiment::Grid(Box::new(self.grid.clone()))
    }
}

fn effort(grid: &Grid) -> Effort {
    match (grid.precision, grid.packets) {
        (None, Some(packets)) => Effort::Packets(packets),
        (precision, packets) => Effort::Precision {
            relative: precision.map_or(PRECISION, |share| share.0),
            packets_at_most: packets.unwrap_or(PACKETS_AT_MOST),
            figures: Aims::default(),
        },
    }
}

/// A seed that depends only on the file. It has 32 bits, so that every reader of JSON represents it exactly.
fn derived_seed(text: &str) -> u64 {
    u64::from_str_radix(&hash([("file", text)]), 16).map_or(1, |hash| hash >> 32)
}

fn identifier(text: &str, grid: &Grid, tasks: &[Task], seed: u64) -> String {
    let (effort, sizes) = (format!("{:?}", effort(grid)), format!("{:?}", grid.traffic.sizes));
    let (engines, seed) = (format!("{:?}", grid.engines), seed.to_string());
    let version = env!("CARGO_PKG_VERSION");
    // The digests of the input files.
    let digests: BTreeSet<String> = tasks.iter().flat_map(|task| task.point.digests().into_values()).collect();
    let inputs = digests.into_iter().collect::<Vec<_>>().join(" ");
    hash([
        ("effort", effort.as_str()),
        ("engines", &engines),
        ("file", text),
        ("inputs", &inputs),
        ("seed", &seed),
        ("sizes", &sizes),
        ("version", version),
    ])
}

fn hash<const N: usize>(facts: [(&str, &str); N]) -> String {
    let facts: BTreeMap<String, String> =
        facts.into_iter().map(|(name, fact)| (name.to_owned(), fact.to_owned())).collect();
    Fingerprint { facts }.id()
}
