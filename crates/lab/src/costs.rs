//! The costs a command computes with: a preset's, a file's, or those that `find` calibrated on this machine.

use std::fmt;
use std::path::Path;

use netcliff_core::experiment::FileError;
use netcliff_core::finding::Calibration;
use netcliff_core::{EngineKind, Figure, Finding, Host, units};
use netcliff_host::inventory::Inventory;

use crate::store::{Store, StoreError};
use crate::{find, inputs};

/// The preset where nothing was calibrated, with the year of its measurements.
const PRESET: (&str, u32) = ("pentium4-2530mhz", 2003);
/// `--host` by this name is the newest `find` of this machine.
const LAST_FIND: &str = "last-find";
/// `--host` by a run of the store begins like this.
const FIND: &str = "find:";
/// Loads, as shares of the cliff, from which packets an interrupt are taken.
const NEAR_CLIFF: std::ops::RangeInclusive<f64> = 0.89..=1.11;

/// Results of a `find` in the store that describe its host.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its number in the store.
    pub run: i64,
    /// Its costs.
    pub calibration: Calibration,
    /// Packets an interrupt that were measured near the cliff, lowest and highest.
    pub packets_per_interrupt: Option<(f64, f64)>,
    /// The host's own cliff as measured (pps).
    pub cliff_pps: Option<Figure>,
    /// Frames of the measurements (bytes with FCS); None: they were of several sizes.
    pub frame_bytes: Option<u32>,
    /// The whole finding, with what speaks against relying on it.
    pub finding: Box<Finding>,
}

impl Found {
    /// None if the run has no calibration.
    fn of(run: i64, finding: &Finding) -> Option<Self> {
        let cliff_pps = finding.cliff_pps.wire;
        Some(Self {
            run,
            calibration: finding.calibration.clone()?,
            packets_per_interrupt: cliff_pps.and_then(|cliff| packets_per_interrupt(finding, cliff.value)),
            cliff_pps,
            frame_bytes: match finding.setup.traffic.size {
                netcliff_core::FrameSizes::Fixed(bytes) => Some(bytes),
                _ => None,
            },
            finding: Box::new(finding.clone()),
        })
    }

    /// Of 64-byte frames, with nothing measured but its costs.
    #[cfg(test)]
    pub(crate) fn bare(run: i64, calibration: Calibration) -> Self {
        let setup = netcliff_core::finding::Setup {
            scheme: netcliff_core::Scheme::Ideal,
            traffic: netcliff_core::Traffic::poisson(1.0),
            application_work_s: 0.0,
            socket_buffer_bytes: 1 << 20,
            repeats: 1,
            trial_s: 0.4,
            quick: true,
        };
        let finding = Finding { calibration: Some(calibration), ..Finding::blank(setup, 1e-4) };
        Self::of(run, &finding).expect("it has costs")
    }

    /// Packets an interrupt at the cliff: the middle of what was measured near it; None: not measured.
    pub fn packets_per_interrupt(&self) -> Option<f64> {
        self.packets_per_interrupt.map(|(low, high)| (low * high).sqrt())
    }
}

/// Lowest and highest ratio of packets to interrupts over the measured loads near a cliff.
fn packets_per_interrupt(finding: &Finding, cliff_pps: f64) -> Option<(f64, f64)> {
    let near = finding.curve(EngineKind::Wire);
    let ratios = near.iter().filter(|point| NEAR_CLIFF.contains(&(point.load_pps / cliff_pps))).filter_map(|point| {
        let (packets, interrupts) = (point.outcome.throughput_pps?.value, point.outcome.interrupts_per_s?.value);
        (interrupts > 0.0).then(|| (packets / interrupts).max(1.0))
    });
    ratios.fold(None, |range, ratio| {
        let (low, high) = range.unwrap_or((ratio, ratio));
        Some((ratio.min(low), ratio.max(high)))
    })
}

/// The newest `find` of this machine in a store that has costs.
///
/// # Errors
/// Why there is none: a part of a sentence.
pub fn newest(store: &Path) -> Result<Found, String> {
    newest_of(store, &find::cpu_name(&Inventory::of_this_host()))
}

/// The same of a machine with these CPUs.
fn newest_of(store: &Path, cpu: &str) -> Result<Found, String> {
    if !store.exists() {
        return Err("there is no store yet".to_owned());
    }
    let search = || -> Result<Option<Found>, StoreError> {
        let store = Store::open(store)?;
        for run in store.runs()?.iter().filter(|run| run.kind == "find") {
            let finding = store.finding(run.id)?.filter(|finding| finding.host.cpu == cpu && finding.host.at.is_none());
            if let Some(found) = finding.and_then(|finding| Found::of(run.id, &finding)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    };
    let none = || "no `netcliff find` of this machine in the store has costs".to_owned();
    search().map_err(|error| error.to_string())?.ok_or_else(none)
}

/// A run by its number.
fn run(store: &Path, number: &str) -> Result<Found, String> {
    let id: i64 =
        number.parse().map_err(|_| format!("{number:?} is no number of a run; give find:3 or {LAST_FIND}"))?;
    let listed = "`netcliff results list` has the runs";
    if !store.exists() {
        return Err("there is no store yet; `netcliff find` keeps its runs in one".to_owned());
    }
    let store = Store::open(store).map_err(|error| error.to_string())?;
    let run = store.run(id).map_err(|error| error.to_string())?;
    let run = run.ok_or_else(|| format!("there is no run {id}; {listed}"))?;
    if run.kind != "find" {
        return Err(format!("run {id} is a `{}`, not a `find`; {listed}", run.kind));
    }
    let finding = store.finding(id).map_err(|error| error.to_string())?;
    finding.and_then(|finding| Found::of(id, &finding)).ok_or_else(|| format!("run {id} has no calibration"))
}

/// A host to compute with.
#[derive(Debug, Clone)]
pub struct Costs {
    /// Its costs and sizes.
    pub host: Host,
    /// Where they are from.
    pub origin: Origin,
}

impl From<Found> for Costs {
    fn from(found: Found) -> Self {
        Self { host: found.calibration.host.clone(), origin: Origin::Found(Box::new(found)) }
    }
}

/// Where costs are from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// Named by the user: a preset or a file.
    Named(String),
    /// A `find` in the store.
    Found(Box<Found>),
    /// A preset, since this machine was not calibrated.
    Preset,
}

impl Origin {
    /// The run they are of, if they are of one in the store.
    pub fn run(&self) -> Option<&Found> {
        match self {
            Self::Found(found) => Some(found),
            Self::Named(_) | Self::Preset => None,
        }
    }
}

/// A part of a sentence: `find run 3, measured on this machine`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Found(found) => {
                write!(f, "find run {}", found.run)?;
                found.cliff_pps.map_or(Ok(()), |cliff| {
                    let cliff_pps = units::print_pps((cliff.value / 1e3).round() * 1e3);
                    write!(f, ", whose measured cliff is {cliff_pps}")
                })
            }
            Self::Preset => {
                let (name, year) = PRESET;
                write!(f, "preset {name} ({year}); `netcliff find` measures this machine's")
            }
        }
    }
}

/// The host that `--host` names: a preset, a TOML file, what `find --json` wrote, `find:3` or `last-find` of the store. Without a name the
/// newest `find` of this machine, else a preset.
///
/// # Errors
/// No such host: the name, why, and what there is.
pub fn named(
    name: Option<&str>,
    store: impl FnOnce() -> Result<std::path::PathBuf, String>,
) -> Result<Costs, FileError> {
    let found = |name: &str, found: Result<Found, String>| {
        found.map(Costs::from).map_err(|message| FileError { path: name.to_owned(), message })
    };
    match name {
        None => Ok(match store().and_then(|store| newest(&store)) {
            Ok(found) => found.into(),
            Err(_) => Costs { host: inputs::host(PRESET.0)?, origin: Origin::Preset },
        }),
        Some(LAST_FIND) => {
            let why = |why: String| format!("{why}; `netcliff find` measures them");
            found(LAST_FIND, store().and_then(|store| newest(&store)).map_err(why))
        }
        Some(name) => match name.strip_prefix(FIND) {
            Some(number) => found(name, store().and_then(|store| run(&store, number))),
            None => Ok(Costs { host: inputs::host(name)?, origin: Origin::Named(name.to_owned()) }),
        },
    }
}

#[cfg(test)]
mod tests;
