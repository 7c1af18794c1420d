//! A run in the store whose report is stored as it grows, so that a killed run can be continued.

use netcliff_core::{Fingerprint, Provenance};
use netcliff_lab::store::{Held, RunState, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commands::profile::Profiles;
use crate::output;

/// Identity of a run.
pub struct Known<'a> {
    /// Kind of the run in the store.
    pub kind: &'a str,
    /// Identifier of the experiment with its settings.
    pub id: &'a str,
}

/// The run in the store.
pub struct Kept<'a, R> {
    store: &'a Store,
    held: Held,
    before: Option<R>,
    /// Why the store did not take some results. `None` if it took all.
    lost: Option<String>,
    /// The profiles of the measurements, if requested.
    pub profiles: Profiles,
}

/// Locks the newest unfinished run of this experiment. Without one, prints that a new one starts.
pub fn unfinished(store: &Store, id: &str) -> anyhow::Result<Option<Held>> {
    let held = store.hold_unfinished(id)?;
    if held.is_none() {
        let place = store.path().display();
        output::say(format!(
            "netcliff: no unfinished run of this file with these settings in {place}; a new one starts"
        ));
    }
    Ok(held)
}

/// Prints that a run continues and what it has so far (`had`), and sets its state to running.
pub fn goes_on(store: &Store, held: &Held, had: &str) -> anyhow::Result<()> {
    output::say(format!("netcliff: run {} goes on after {had}", held.run));
    Ok(store.set_state(held.run, RunState::Running)?)
}

impl<'a, R: Serialize + DeserializeOwned> Kept<'a, R> {
    /// With `resume`, continues the newest unfinished run of this experiment; `had` describes what its report contains.
    /// Otherwise starts a new one.
    pub fn take_up(
        store: &'a Store,
        resume: bool,
        known: &Known<'_>,
        provenance: &Provenance,
        had: impl FnOnce(Option<&R>) -> String,
    ) -> anyhow::Result<Self> {
        if resume && let Some(held) = unfinished(store, known.id)? {
            let before = store.document(held.run)?.map(serde_json::from_value::<R>).transpose()?;
            goes_on(store, &held, &had(before.as_ref()))?;
            return Ok(Self { store, held, before, lost: None, profiles: Profiles::default() });
        }
        let held = store.begin_held(known.kind, known.id, &provenance.command, provenance.started_unix_s)?;
        Ok(Self { store, held, before: None, lost: None, profiles: Profiles::default() })
    }

    /// Results of the run that is continued. `None` after the first call, or for a new run.
    pub fn before(&mut self) -> Option<R> {
        self.before.take()
    }

    /// Stores the results so far. A failure of the store is printed once; the run goes on.
    pub fn keep(&mut self, so_far: &R) {
        if let Err(error) = self.store.keep_document(self.held.run, so_far)
            && self.lost.is_none()
        {
            output::say(format!("netcliff: {error}; the run goes on, but cannot be continued from here"));
            self.lost = Some(error.to_string());
        }
    }

    /// Sets the run's state to failed. A run that never began (because of the lock or the testbed) is removed.
    pub fn failed(&self) {
        let run = self.held.run;
        let began = self.store.document(run).is_ok_and(|document| document.is_some());
        // The run's own error matters more than one here.
        let _ = if began { self.store.set_state(run, RunState::Failed) } else { self.store.remove(&[run]) };
    }

    /// Ends the run and stores its report.
    pub fn finish(&self, found: &R, partial: bool, fingerprint: &Fingerprint) -> anyhow::Result<()> {
        self.store.set_fingerprint(self.held.run, fingerprint)?;
        Ok(self.store.finish_document(self.held.run, partial, found)?)
    }

    /// Prints the profiles and stores them.
    ///
    /// # Errors
    /// See [`Profiles::show`].
    pub fn show_profiles(&mut self, json: bool) -> anyhow::Result<()> {
        std::mem::take(&mut self.profiles).show(json, Some(self.store))
    }

    /// Releases the run's lock and prints its number. Returns true if all results are in the store.
    pub fn release(self) -> bool {
        let run = self.held.run;
        drop(self.held);
        output::say(format!("netcliff: stored as run {run}"));
        self.lost.is_none()
    }
}
