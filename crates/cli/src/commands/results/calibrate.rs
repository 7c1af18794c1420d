//! `netcliff results calibrate`.

use netcliff_lab::costs::{self, Found};
use netcliff_lab::store::Store;
use netcliff_report::format::{self, Unit};

use super::pick;
use crate::output;

/// Names a run, or none, and reports which one is in force.
pub(super) fn calibrate(store: &Store, run: Option<&str>, auto: bool) -> anyhow::Result<()> {
    if let Some(text) = run {
        let run = pick(store, Some(text))?;
        let path = store.path().to_owned();
        costs::named(Some(&format!("find:{}", run.id)), || Ok(path)).map_err(output::usage)?;
        store.calibrate(Some(run.id))?;
    } else if auto {
        store.calibrate(None)?;
    }
    output::data(&match costs::calibration(store.path()) {
        Ok(found) => sentence(&found),
        Err(why) => format!("No calibration of this host: {why}.\n"),
    })
}

/// `This host's calibration is find run 3 (2026-11-28 10:00 UTC), cliff 216 kpps (191-242): it is the newest that qualifies.`
fn sentence(found: &Found) -> String {
    let cliff = found
        .cliff_pps
        .map_or("no measured cliff".to_owned(), |cliff| format!("cliff {}", format::figure(&cliff, Unit::Pps)));
    let why = found.why.as_deref().unwrap_or("the newest that measured a cliff with standard settings");
    let date = format::date_utc(found.finding.provenance.started_unix_s);
    format!("This host's calibration is {} ({date}), {cliff}: {why}.\n", found.name)
}
