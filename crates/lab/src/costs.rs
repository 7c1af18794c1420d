//! The costs that a command computes with: those of a preset, of a file, or as calibrated by `find` on this machine.

mod choice;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use netcliff_core::experiment::FileError;
use netcliff_core::finding::{Calibration, Setup};
use netcliff_core::headroom::CliffSource;
use netcliff_core::{EngineKind, Figure, Finding, Host, Latency, Learned, Napi, Scheme, Service, Traffic, units};
use netcliff_host::inventory::Inventory;
use netcliff_model::ModelEngine;

use crate::inputs;
use crate::store::{Store, StoreError};
use choice::Uncalibrated;
use netcliff_find as find;

pub use choice::{unfit, unusual};

/// The preset that is used without a calibration, with the year of its measurements.
const PRESET: (&str, u32) = ("pentium4-2530mhz", 2003);
/// Value of `--host` for the newest `find` of this machine.
const LAST_FIND: &str = "last-find";
/// Value of `--host` for the newest `learn` of this machine.
const LAST_LEARN: &str = "last-learn";
/// Prefixes of `--host` for a run of the store.
const FIND: &str = "find:";
const LEARN: &str = "learn:";
/// Loads near the cliff at which packets per interrupt are taken, as shares of the cliff.
const NEAR_CLIFF: std::ops::RangeInclusive<f64> = 0.89..=1.11;

/// Costs of a host and their source: a `find` or `learn` in the store or in a file, or costs that were given without
/// measurements.
#[derive(Debug, Clone)]
pub struct Found {
    /// Number of the run in the store. `None` if it is in a file, or a preset.
    pub run: Option<i64>,
    /// Name in messages, such as `find run 3` or `my.json`.
    pub name: CliffSource,
    /// Why this run was chosen and not the newest. `None` if it is the newest, or if the user named it.
    pub why: Option<String>,
    /// Costs of the host.
    pub calibration: Calibration,
    /// Lowest and highest number of packets per interrupt, as measured near the cliff.
    pub packets_per_interrupt: Option<(f64, f64)>,
    /// The measured cliff of the host (pps). `None` if it was not measured.
    pub cliff_pps: Option<Figure>,
    /// Frame size of the measurements (bytes with FCS). `None` if there were several.
    pub frame_bytes: Option<u32>,
    /// The whole finding, including the reasons against relying on it.
    pub finding: Box<Finding>,
    /// The model's latencies by load step, as `headroom` computes them.
    pub latencies: Arc<Mutex<BTreeMap<i32, Option<Latency>>>>,
}

impl Found {
    /// The results of a run in the store. `None` if it has no calibration.
    fn of_run(run: i64, finding: &Finding) -> Option<Self> {
        Some(Self { run: Some(run), ..Self::of(CliffSource::Find(run), finding)? })
    }

    /// The results of a `learn`. `None` if it has no costs.
    pub fn of_learned(run: Option<i64>, name: CliffSource, learned: &Learned) -> Option<Self> {
        Some(Self { run, ..Self::of(name, &learned.finding()?)? })
    }

    /// The results of a `find` or `learn` in a store. `None` if there is no such run, or it has no costs.
    fn of_stored(store: &Store, run: i64) -> Result<Option<Self>, StoreError> {
        if let Some(finding) = store.finding(run)? {
            return Ok(Self::of_run(run, &finding));
        }
        let learned = store.document(run)?.and_then(|document| serde_json::from_value::<Learned>(document).ok());
        Ok(learned.and_then(|learned| Self::of_learned(Some(run), CliffSource::Learn(run), &learned)))
    }

    /// The results of a finding, with this name in messages. `None` if it has no calibration.
    fn of(name: CliffSource, finding: &Finding) -> Option<Self> {
        let cliff_pps = finding.cliff_pps.wire;
        Some(Self {
            run: None,
            name,
            why: None,
            calibration: finding.calibration.clone()?,
            packets_per_interrupt: cliff_pps.and_then(|cliff| packets_per_interrupt(finding, cliff.value)),
            cliff_pps,
            frame_bytes: match finding.setup.traffic.size {
                netcliff_core::FrameSizes::Fixed(bytes) => Some(bytes),
                _ => None,
            },
            finding: Box::new(finding.clone()),
            latencies: Arc::default(),
        })
    }

    /// A finding of 64-byte frames that has only costs, for tests.
    ///
    /// # Panics
    /// `calibration` has no costs.
    pub fn bare(run: i64, calibration: Calibration) -> Self {
        let finding = blank(calibration, netcliff_core::Scheme::Ideal);
        Self::of_run(run, &finding).expect("it has costs")
    }

    /// Costs that the user gave, with the kernel's NAPI scheme. The cliff is the model's.
    fn given(name: &str, host: Host) -> Result<Self, String> {
        let scheme = Scheme::Napi(Napi::default());
        let calibration = Calibration {
            costs: Vec::new(),
            host: host.clone(),
            cpu_method: "given".to_owned(),
            r_squared: None,
            correlated: Vec::new(),
        };
        let mut finding = blank(calibration, scheme.clone());
        let (engine, traffic) = (ModelEngine::default(), Traffic::default());
        let cliff = netcliff_model::cliff(&engine.without_quantiles(), &host, &scheme, &traffic, finding.loss_target)
            .map_err(|error| format!("the model finds no cliff of it: {error}"))?;
        finding.cliff_pps.model = Some(Figure::exact(cliff.pps));
        Self::of(CliffSource::Named(name.to_owned()), &finding).ok_or_else(|| "it has no costs".to_owned())
    }

    /// Distribution of the times of packets, polls and interrupts with which the run itself was simulated; `None` if the
    /// variation was not measured.
    pub fn times(&self) -> Option<Service> {
        let backlog = matches!(&self.finding.setup.scheme, Scheme::Napi(napi) if napi.backlog);
        find::calibrate::measured_times(&self.calibration, backlog)
    }

    /// Packets per interrupt at the cliff: the geometric mean of the lowest and highest value near it. `None` if not
    /// measured.
    pub fn packets_per_interrupt(&self) -> Option<f64> {
        self.packets_per_interrupt.map(|(low, high)| (low * high).sqrt())
    }
}

/// A finding of 64-byte frames that has only these costs.
fn blank(calibration: Calibration, scheme: Scheme) -> Finding {
    Finding { calibration: Some(calibration), ..Finding::blank(Setup { scheme, ..Setup::default() }, 1e-4) }
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

/// This host's calibration in a store: the run named by `results calibrate`, otherwise the newest `find` of this
/// machine that measured a cliff with standard settings and passed its own checks.
///
/// # Errors
/// The reason why no calibration can be used, as a part of a sentence.
pub fn calibration(store: &Path) -> Result<Found, String> {
    choice::choose(store, &this_cpu()).map_err(String::from)
}

/// Name of this machine's CPUs, as in findings.
pub fn this_cpu() -> String {
    find::cpu_name(&Inventory::of_this_host())
}

/// The host that `--host` names, for a command that compares this host with a cliff: a run of the store, a file of
/// `find --json`, or a preset or TOML file of costs, whose cliff is the model's. Without a name: this host's
/// [`calibration`].
///
/// # Errors
/// A sentence: there is no such host, or this host was not calibrated.
pub fn cliff_of(
    name: Option<&str>,
    store: impl FnOnce() -> Result<std::path::PathBuf, String>,
) -> Result<Found, String> {
    let Some(name) = name else { return calibration(&store()?) };
    if ![LAST_FIND, LAST_LEARN].contains(&name)
        && number_of(name).is_none()
        && let Some(finding) = inputs::finding(name)
    {
        let found = Found::of(CliffSource::Named(name.to_owned()), &finding);
        return found.ok_or_else(|| format!("--host {name}: that run has no costs"));
    }
    let costs = named(Some(name), store).map_err(|error| format!("--host {error}"))?;
    match costs.origin {
        Origin::Found(found) => Ok(*found),
        Origin::Named(_) | Origin::Preset(_) => {
            Found::given(name, costs.host).map_err(|why| format!("--host {name}: {why}"))
        }
    }
}

/// Whether a finding is of a machine with these CPUs, measured there and not on a far host.
pub fn is_of(finding: &Finding, cpu: &str) -> bool {
    finding.host.cpu == cpu && finding.host.at.is_none()
}

/// The run that a page about this host shows first: this host's [`calibration`], otherwise the newest `find` of this
/// machine that has costs, otherwise the newest `find` of another machine. The flag is true for a run of this machine.
///
/// # Errors
/// No run has costs; the reason as a part of a sentence.
pub fn opening(store: &Path) -> Result<(Found, bool), String> {
    opening_of(store, &this_cpu())
}

fn opening_of(store: &Path, cpu: &str) -> Result<(Found, bool), String> {
    let found = choice::choose(store, cpu).or_else(|why| {
        let newest = newest_of(store, Some(cpu)).or_else(|_| newest_of(store, None));
        newest.map(|found| Found { why: Some(why.into()), ..found })
    })?;
    let here = is_of(&found.finding, cpu);
    Ok((found, here))
}

/// The newest `find` of this machine in a store that has costs, with any settings.
fn newest(store: &Path) -> Result<Found, String> {
    newest_of(store, Some(&this_cpu()))
}

/// The newest `find` with costs of a machine with these CPUs, or of any machine if `cpu` is `None`.
fn newest_of(store: &Path, cpu: Option<&str>) -> Result<Found, String> {
    if !store.exists() {
        return Err("there is no store yet".to_owned());
    }
    let search = || -> Result<Option<Found>, StoreError> {
        let store = Store::open_to_read(store)?;
        for run in store.runs()?.iter().filter(|run| run.kind == "find") {
            let finding = store.finding(run.id)?.filter(|finding| cpu.is_none_or(|cpu| is_of(finding, cpu)));
            if let Some(found) = finding.and_then(|finding| Found::of_run(run.id, &finding)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    };
    let none = || "no `netcliff find` of this machine in the store has costs".to_owned();
    search().map_err(|error| error.to_string())?.ok_or_else(none)
}

/// The newest `learn` of this machine in a store that has costs.
fn newest_learned(store: &Path, cpu: &str) -> Result<Found, String> {
    if !store.exists() {
        return Err("there is no store yet".to_owned());
    }
    let search = || -> Result<Option<Found>, StoreError> {
        let store = Store::open_to_read(store)?;
        for run in store.runs()?.iter().filter(|run| run.kind == "learn") {
            let found = Found::of_stored(&store, run.id)?;
            if let Some(found) = found.filter(|found| is_of(&found.finding, cpu)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    };
    let none = || "no `netcliff learn` of this machine in the store has costs".to_owned();
    search().map_err(|error| error.to_string())?.ok_or_else(none)
}

/// Reads the run with this number from the store.
fn run(store: &Path, number: &str) -> Result<Found, String> {
    let form = || format!("{number:?} is no number of a run; give find:3 or {LAST_FIND}, or learn:3 or {LAST_LEARN}");
    let id: i64 = number.parse().map_err(|_| form())?;
    let listed = "`netcliff results list` has the runs";
    if !store.exists() {
        return Err("there is no store yet; `netcliff find` and `netcliff learn` keep their runs in one".to_owned());
    }
    let store = Store::open_to_read(store).map_err(|error| error.to_string())?;
    let run = store.run(id).map_err(|error| error.to_string())?;
    let run = run.ok_or_else(|| format!("there is no run {id}; {listed}"))?;
    if !matches!(run.kind.as_str(), "find" | "learn") {
        return Err(format!("run {id} is a `{}`, not a `find` or `learn`; {listed}", run.kind));
    }
    let found = Found::of_stored(&store, id).map_err(|error| error.to_string())?;
    found.ok_or_else(|| format!("run {id} has no costs"))
}

/// The run number in a name: `find:3`, `learn:3`, or `3` if no file has that name. `None` for other names.
fn number_of(name: &str) -> Option<&str> {
    let is_number = || !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) && !Path::new(name).exists();
    name.strip_prefix(FIND).or_else(|| name.strip_prefix(LEARN)).or_else(|| is_number().then_some(name))
}

/// Host parameters to compute with, and their source.
#[derive(Debug, Clone)]
pub struct Costs {
    /// Costs and queue sizes of the host.
    pub host: Host,
    /// The source of the costs.
    pub origin: Origin,
}

impl From<Found> for Costs {
    fn from(found: Found) -> Self {
        Self { host: found.calibration.host.clone(), origin: Origin::Found(Box::new(found)) }
    }
}

/// The source of costs.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A preset or a file that the user named.
    Named(String),
    /// A `find` or `learn` in the store or a file.
    Found(Box<Found>),
    /// A preset, because this machine has no calibration; with the reason if the store has runs that are not used.
    Preset(Option<String>),
}

impl Origin {
    /// The `find` or `learn` that provides the costs. `None` for a preset or a file that the user named.
    pub fn run(&self) -> Option<&Found> {
        match self {
            Self::Found(found) => Some(found),
            Self::Named(_) | Self::Preset(_) => None,
        }
    }
}

/// Formats a part of a sentence: `find run 3, measured on this machine`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Found(found) => {
                write!(f, "{}", found.name)?;
                if let Some(cliff) = found.cliff_pps {
                    write!(f, ", whose measured cliff is {}", units::print_short_pps(cliff.value))?;
                }
                found.why.as_ref().map_or(Ok(()), |why| write!(f, " ({why})"))
            }
            Self::Preset(why) => {
                let (name, year) = PRESET;
                let why = why.as_ref().map_or(String::new(), |why| format!(": {why}"));
                write!(f, "preset {name} ({year}){why}; `netcliff find` measures this machine's")
            }
        }
    }
}

/// The host that `--host` names: a preset, a TOML file, a file of `find --json` or `learn --json`, or `find:3`,
/// `learn:4`, `last-find` or `last-learn` for a run of the store. Without a name: this machine's [`calibration`],
/// otherwise a preset.
///
/// # Errors
/// There is no such host: the name, the reason, and the accepted names.
pub fn named(
    name: Option<&str>,
    store: impl FnOnce() -> Result<std::path::PathBuf, String>,
) -> Result<Costs, FileError> {
    let found = |name: &str, found: Result<Found, String>| {
        found.map(Costs::from).map_err(|message| FileError { path: name.to_owned(), message })
    };
    match name {
        None => {
            let chosen = store().map_err(Uncalibrated::from).and_then(|store| choice::choose(&store, &this_cpu()));
            let preset = |why| -> Result<Costs, FileError> {
                Ok(Costs { host: inputs::host(PRESET.0)?, origin: Origin::Preset(why) })
            };
            match chosen {
                Ok(found) => Ok(found.into()),
                Err(Uncalibrated::Unused(why)) => preset(Some(why)),
                Err(Uncalibrated::Other(_)) => preset(None),
            }
        }
        Some(LAST_FIND) => {
            let why = |why: String| format!("{why}; `netcliff find` measures them");
            found(LAST_FIND, store().and_then(|store| newest(&store)).map_err(why))
        }
        Some(LAST_LEARN) => {
            let why = |why: String| format!("{why}; `netcliff learn` learns them from live traffic");
            found(LAST_LEARN, store().and_then(|store| newest_learned(&store, &this_cpu())).map_err(why))
        }
        Some(name) => match number_of(name) {
            Some(number) => found(name, store().and_then(|store| run(&store, number))),
            None => {
                let of = |finding: Finding| Found::of(CliffSource::Named(name.to_owned()), &finding);
                match inputs::finding(name).and_then(of) {
                    Some(found) => Ok(found.into()),
                    None => Ok(Costs { host: inputs::host(name)?, origin: Origin::Named(name.to_owned()) }),
                }
            }
        },
    }
}

#[cfg(test)]
mod tests;
