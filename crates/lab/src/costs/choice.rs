//! Chooses the `find` of a store that is this host's calibration: the one that the user named (`results calibrate N`),
//! otherwise the newest that measured a cliff with standard settings and passed its own checks.

use std::path::Path;

use netcliff_core::finding::Settings;
use netcliff_core::{Arrivals, Finding, FrameSizes, units};

use super::Found;
use crate::store::{RunSummary, Store, StoreError};

/// Key of the store's setting that contains the named run.
const CALIBRATION: &str = "calibration";
/// A run is not used if more than this share of its trials are void.
const MOSTLY: f64 = 0.5;

/// Why a finding is not used as the calibration of a host with these CPUs unless the user names it. `None` if it can be
/// used.
pub fn unfit(finding: &Finding, cpu: &str) -> Option<String> {
    if let Some(at) = &finding.host.at {
        return Some(format!("it is of another host ({at})"));
    }
    if finding.host.cpu != cpu {
        return Some(format!("it is of another machine ({})", finding.host.cpu));
    }
    if finding.calibration.is_none() {
        return Some("it has no costs".to_owned());
    }
    if finding.setup.application_work_s > 0.0 {
        let work = units::print_time_s(finding.setup.application_work_s);
        return Some(format!("it is a what-if (--work {work})"));
    }
    if finding.partial {
        return Some("it was stopped early".to_owned());
    }
    if finding.cliff_pps.wire.is_none_or(|cliff| cliff.value <= 0.0) {
        return Some("it measured no cliff".to_owned());
    }
    let searches = finding.searches.as_ref()?;
    let void: u32 = searches.void.iter().map(|void| void.trials).sum();
    let most = f64::from(void) > MOSTLY * f64::from(searches.trials);
    most.then(|| format!("{void} of its {} trials do not count", searches.trials))
}

/// The settings that differ from the standard ones, as options. `None` if none differ.
pub fn unusual(finding: &Finding) -> Option<String> {
    let (setup, usual) = (&finding.setup, Settings::default());
    let mut options = Vec::new();
    if setup.ipv6 {
        options.push("--ipv6".to_owned());
    }
    match &setup.traffic.size {
        FrameSizes::Fixed(bytes) if *bytes == Settings::least_frame_bytes(setup.ipv6) => {}
        FrameSizes::Fixed(bytes) => options.push(format!("--size {bytes}B")),
        _ => options.push("frames of several sizes".to_owned()),
    }
    if setup.traffic.arrivals != Arrivals::from(usual.arrivals) {
        options.push(format!("arrivals {}", setup.traffic.arrivals));
    }
    if setup.socket_buffer_bytes != usual.receive_buffer_bytes {
        options.push(format!("--socket-buffer {}", setup.socket_buffer_bytes));
    }
    if finding.loss_target != usual.loss {
        options.push(format!("--loss {}", finding.loss_target));
    }
    (!options.is_empty()).then(|| format!("it was made with {}", options.join(", ")))
}

/// The calibration of a host with these CPUs.
///
/// # Errors
/// The reason why no calibration can be used, as a part of a sentence. It names the runs that are not used, and what to
/// do.
pub(super) fn choose(path: &Path, cpu: &str) -> Result<Found, Uncalibrated> {
    if !path.exists() {
        return Err(Uncalibrated::Other("there is no store yet".to_owned()));
    }
    let store = Store::open_to_read(path).map_err(|error| error.to_string())?;
    let (named, gone) = match store.calibration().map_err(|error| error.to_string())? {
        None => (None, None),
        Some(run) => match of_run(&store, run)? {
            Some(found) => (Some(found), None),
            None => (None, Some(format!("run {run}, which `results calibrate` named, is gone or has no costs"))),
        },
    };
    if let Some((found, finding)) = named {
        let doubt = unfit(&finding, cpu).map_or(String::new(), |why| format!(", although {why}"));
        return Ok(Found { why: Some(format!("`netcliff results calibrate` named it{doubt}")), ..found });
    }
    let mut newer: Vec<String> = gone.into_iter().collect();
    let mut unusual_one: Option<(Found, usize)> = None;
    let mut unused = false;
    for run in finds(&store).map_err(|error| error.to_string())? {
        let Some((found, finding)) = of_run(&store, run.id)? else { continue };
        match unfit(&finding, cpu).map(|why| (why, false)).or_else(|| unusual(&finding).map(|why| (why, true))) {
            None => return Ok(Found { why: explained(&newer), ..found }),
            // A shared store may contain runs of other machines, which are not mentioned.
            Some(_) if finding.host.cpu != cpu || finding.host.at.is_some() => {}
            Some((why, usable)) => {
                newer.push(format!("run {} is not used: {why}", run.id));
                unused = true;
                if usable && unusual_one.is_none() {
                    unusual_one = Some((found, newer.len()));
                }
            }
        }
    }
    // No run has standard settings throughout, so use the newest one that measured a cliff with other settings.
    if let Some((found, place)) = unusual_one {
        let why = unusual(&found.finding).map(|why| format!("{why}; no run has standard settings"));
        let before = newer[..place - 1].iter().cloned().chain(why).collect::<Vec<_>>();
        return Ok(Found { why: explained(&before), ..found });
    }
    let none = "no `netcliff find` of this machine in the store measured a cliff";
    let why = match newer.is_empty() {
        true => none.to_owned(),
        false => format!(
            "{none} that can be relied on ({}); `netcliff results calibrate N` uses one all the same",
            newer.join("; ")
        ),
    };
    Err(if unused { Uncalibrated::Unused(why) } else { Uncalibrated::Other(why) })
}

/// The reason why no calibration can be used, as a part of a sentence.
#[derive(Debug)]
pub(super) enum Uncalibrated {
    /// The store has runs of this machine, but they are not used.
    Unused(String),
    /// The store has none, or cannot be read.
    Other(String),
}

impl From<String> for Uncalibrated {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl From<Uncalibrated> for String {
    fn from(why: Uncalibrated) -> Self {
        match why {
            Uncalibrated::Unused(why) | Uncalibrated::Other(why) => why,
        }
    }
}

fn explained(newer: &[String]) -> Option<String> {
    /// Largest number of runs that a message names; a store may have hundreds.
    const MOST: usize = 3;
    let more = newer.len().saturating_sub(MOST);
    let more = (more > 0).then(|| format!("{more} more are not used either"));
    let each: Vec<String> = newer.iter().take(MOST).cloned().chain(more).collect();
    (!each.is_empty()).then(|| each.join("; "))
}

fn finds(store: &Store) -> Result<Vec<RunSummary>, StoreError> {
    Ok(store.runs()?.into_iter().filter(|run| run.kind == "find").collect())
}

/// A run with costs. `None` if there is no such run, or it has none.
fn of_run(store: &Store, run: i64) -> Result<Option<(Found, Finding)>, String> {
    let found = Found::of_stored(store, run).map_err(|error| error.to_string())?;
    Ok(found.map(|found| (found.clone(), *found.finding)))
}

impl Store {
    /// The run that the user named as this host's calibration. `None` if netcliff chooses.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn calibration(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.setting(CALIBRATION)?.and_then(|run| run.parse().ok()))
    }

    /// Sets the run that is this host's calibration. `None`: netcliff chooses.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn calibrate(&self, run: Option<i64>) -> Result<(), StoreError> {
        self.set_setting(CALIBRATION, run.map(|run| run.to_string()).as_deref())
    }
}
