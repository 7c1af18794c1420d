//! Applies a plan's settings and undoes them: [`apply`], [`undo`].
//!
//! Each change is recorded in the journal before it is made. If a step fails, all are rolled back; a run that dies is
//! rolled back by the next start. Only after all steps have succeeded is the journal stored for [`undo`].

use super::{Plan, Step, Wish, at_risk, plan};
use crate::{
    inspect::Inspection,
    journal::{self, Change, HostLock, Journal, JournalError, ReplayReport, UndoOutcome},
    rtnl::Rtnl,
    setting::{self, Group, POLL_INTERVAL, Setting},
};
use netcliff_core::tuning::in_short;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    io, thread,
    time::{Duration, Instant},
};

/// Longest wait for a link that a change took down: negotiation over copper takes 2 to 5 s, training at 10 Gbit/s and
/// more up to 8.
const CARRIER_TIME: Duration = Duration::from_secs(10);

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Applied {
    /// The setting.
    pub setting: Setting,
    /// Its usual name.
    pub name: String,
    /// The value before.
    pub before: String,
    /// Requested value.
    pub requested: String,
    /// Value read back: some drivers round.
    pub effective: String,
}

impl Applied {
    /// Whether the kernel or the driver chose another value than requested.
    pub fn differs(&self) -> bool {
        !setting::same(&self.requested, &self.effective)
    }
}

/// Why a plan could not be applied. All settings made were restored, unless `undone` says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step failed.
    #[error("{name} could not be set to {}: {source}{}; {}", in_short(.new), hint(.source, .setting), restoration(.undone))]
    Step {
        /// The setting.
        setting: Box<Setting>,
        /// Its usual name.
        name: String,
        /// Requested value.
        new: String,
        /// The system's error.
        source: io::Error,
        /// Results of undoing the steps before it.
        undone: Vec<UndoOutcome>,
    },
    /// The host's setting has changed since the plan was made.
    #[error("{name} is {}, and was {} when the plan was made: make a new plan; {}", in_short(.is), in_short(.was), restoration(.undone))]
    Changed {
        /// Name of the setting.
        name: String,
        /// Present value.
        is: String,
        /// Value in the plan.
        was: String,
        /// Results of undoing the steps before it.
        undone: Vec<UndoOutcome>,
    },
    /// A link that was up did not come back.
    #[error("{interface} had a carrier before and none {} s after the settings were made; {}", .after.as_secs(), restoration(.undone))]
    NoCarrier {
        /// The interface.
        interface: String,
        /// Time of waiting.
        after: Duration,
        /// Results of undoing the settings.
        undone: Vec<UndoOutcome>,
    },
    /// Settings of the new queues could not be planned.
    #[error("the channels were changed, and the host could not be looked at again: {reason}; {}", restoration(.undone))]
    Look {
        /// The reason.
        reason: String,
        /// Results of undoing the settings.
        undone: Vec<UndoOutcome>,
    },
}

fn hint(source: &io::Error, setting: &Setting) -> String {
    // Netlink errors have their own text and the kernel's number.
    match source.kind() == io::ErrorKind::PermissionDenied || source.raw_os_error() == Some(libc::EPERM) {
        true => format!(" (it takes {}: sudo netcliff tune apply ...)", setting.right()),
        false => String::new(),
    }
}

fn restoration(undone: &[UndoOutcome]) -> String {
    let undone: Vec<&UndoOutcome> = undone.iter().filter(|outcome| !outcome.is_silent()).collect();
    let failed: Vec<String> = undone.iter().filter_map(|outcome| outcome.error.clone()).collect();
    let notes: Vec<String> = undone.iter().filter_map(|outcome| outcome.note.clone()).collect();
    match (undone.len(), failed.is_empty()) {
        (0, _) => "nothing was changed".to_owned(),
        (_, true) if notes.is_empty() => "everything was set back".to_owned(),
        (_, true) => format!("everything was set back ({})", notes.join("; ")),
        (_, false) => format!(
            "of the settings made before it some could not be set back, and stay written down for the next start or `netcliff \
             tune undo`: {}",
            failed.join("; ")
        ),
    }
}

/// Settings that were made and are not yet permanent. All changes of devices go through a session; dropping it restores
/// the old values.
#[derive(Debug)]
pub struct Session {
    /// `None` if nothing has been changed. After an undo the next change starts a new journal, because the undo removes
    /// the file.
    journal: Option<Journal>,
    lock: HostLock,
    /// Results of the steps so far, in order.
    pub applied: Vec<Applied>,
    /// Changed interfaces that had a carrier before.
    carriers: BTreeSet<String>,
    /// Interfaces whose queue settings are recorded.
    at_risk: BTreeSet<String>,
    /// Interfaces whose coalescing is recorded.
    coalescing_at_risk: BTreeSet<String>,
    /// Longest wait for a carrier that was present before.
    pub carrier_time: Duration,
}

impl Session {
    /// A session without changes.
    pub fn new(lock: &HostLock) -> Session {
        Session {
            journal: None,
            lock: lock.clone(),
            applied: Vec::new(),
            carriers: BTreeSet::new(),
            at_risk: BTreeSet::new(),
            coalescing_at_risk: BTreeSet::new(),
            carrier_time: CARRIER_TIME,
        }
    }

    /// Applies a plan's steps. If they changed channels, also plans and applies the settings of the new queues.
    ///
    /// # Errors
    /// See [`Session::apply`]; the host cannot be read again.
    pub fn apply_wish(&mut self, plan: &Plan, wish: &Wish) -> Result<(), ApplyError> {
        self.apply(plan)?;
        if !plan.changes_channels() {
            return Ok(());
        }
        let settled = Wish { channels_as_they_are: true, ..wish.clone() };
        let look = || Inspection::of_this_host(Duration::ZERO).map_err(|error| error.to_string());
        match look().and_then(|host| plan::plan(&host, &settled).map_err(|error| error.to_string())) {
            Ok(mut next) => {
                // Settings requested before are not repeated: the driver already chose its value for them.
                next.steps.retain(|step| !self.applied.iter().any(|one| one.setting == step.setting));
                self.apply(&next)
            }
            Err(reason) => Err(ApplyError::Look { reason, undone: self.set_back() }),
        }
    }

    /// Applies a plan's steps, in order. If a step fails, or a link stays down, all that this session changed is
    /// restored.
    ///
    /// # Errors
    /// The step that failed, and the results of undoing the others.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), ApplyError> {
        self.apply_steps(&plan.steps)
    }

    /// Applies steps, see [`Session::apply`].
    ///
    /// # Errors
    /// See [`Session::apply`].
    pub fn apply_steps(&mut self, steps: &[Step]) -> Result<(), ApplyError> {
        for step in steps {
            match self.make(step) {
                Ok(applied) => applied.into_iter().for_each(|one| self.note(one)),
                Err(Failed::Journal(error)) => {
                    self.set_back();
                    return Err(error.into());
                }
                Err(Failed::Changed(is)) => {
                    let (name, was) = (step.proposal.name.clone(), step.proposal.old.clone());
                    return Err(ApplyError::Changed { name, is, was, undone: self.set_back() });
                }
                Err(Failed::Io(source)) => {
                    let (name, new) = (step.proposal.name.clone(), step.proposal.new.clone());
                    let setting = Box::new(step.setting.clone());
                    return Err(ApplyError::Step { setting, name, new, source, undone: self.set_back() });
                }
            }
        }
        if let Some(interface) = self.missing_carrier() {
            return Err(ApplyError::NoCarrier { interface, after: self.carrier_time, undone: self.set_back() });
        }
        // A later step may have changed the value of an earlier one.
        for one in &mut self.applied {
            one.effective = one.setting.read().unwrap_or_else(|_| one.effective.clone());
        }
        Ok(())
    }

    /// Stores a result. If a setting is made twice, the stored previous value is the one before the first time.
    fn note(&mut self, applied: Applied) {
        match self.applied.iter_mut().find(|one| one.setting == applied.setting) {
            Some(one) => *one = Applied { before: std::mem::take(&mut one.before), ..applied },
            None => self.applied.push(applied),
        }
    }

    /// An interface that lost its carrier and does not get it back; `None` if all are up. Drivers take the link down
    /// for many settings.
    fn missing_carrier(&self) -> Option<String> {
        let deadline = Instant::now() + self.carrier_time;
        let is_down = |interface: &&String| Rtnl::new().link(interface).is_ok_and(|link| !link.has_carrier());
        loop {
            let down = self.carriers.iter().find(is_down)?;
            if Instant::now() > deadline {
                return Some(down.clone());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Records the settings that a step may reset in addition to its own, and whether the interface has a carrier now.
    fn foresee(&mut self, setting: &Setting) -> Result<(), Failed> {
        let link = setting.interface().and_then(|interface| Rtnl::new().link(interface).ok());
        if let Some(link) = link.filter(|link| link.has_carrier()) {
            self.carriers.insert(link.name);
        }
        if let Some(interface) = setting.renews_queues_of().filter(|interface| !self.at_risk.contains(*interface)) {
            let settings = at_risk::of(interface)?;
            Journal::record_at_risk(&mut self.journal, self.lock.state(), interface, settings)
                .map_err(Failed::Journal)?;
            self.at_risk.insert(interface.to_owned());
        }
        if let Setting::Ethtool { interface, group: Group::Coalesce, .. } | Setting::QueueCoalesce { interface, .. } =
            setting
            && self.coalescing_at_risk.insert(interface.clone())
        {
            let figures = at_risk::coalescing(interface)?;
            if !figures.is_empty() {
                Journal::record_at_risk(&mut self.journal, self.lock.state(), interface, figures)
                    .map_err(Failed::Journal)?;
            }
        }
        Ok(())
    }

    /// Sets a value after recording the previous one, and settings that the change may reset, in the journal. If a
    /// setting is changed several times, only its first previous value is recorded. All changes of a device go through
    /// here.
    pub(crate) fn change(&mut self, setting: &Setting, before: &str, new: &str) -> Result<(), Failed> {
        let of_it =
            |change: &Change| matches!(change, Change::SettingChanged { setting: changed, .. } if changed == setting);
        if !self.journal.as_ref().is_some_and(|journal| journal.open_changes().any(of_it)) {
            self.foresee(setting)?;
            Journal::record_setting(&mut self.journal, self.lock.state(), setting, (before, new))
                .map_err(Failed::Journal)?;
        }
        Ok(setting.write(new)?)
    }

    fn make(&mut self, step: &Step) -> Result<Option<Applied>, Failed> {
        let (setting, new) = (&step.setting, &step.proposal.new);
        let before = setting.read()?;
        if setting::same(&before, new) {
            return Ok(None);
        }
        if !setting::same(&before, &step.proposal.old) {
            return Err(Failed::Changed(before));
        }
        self.change(setting, &before, new)?;
        let effective = setting.read()?;
        if setting::same(&effective, &before) {
            let reason = format!("the kernel took it without complaint and kept {before}");
            return Err(Failed::Io(io::Error::other(reason)));
        }
        let (name, requested) = (step.proposal.name.clone(), new.clone());
        Ok(Some(Applied { setting: setting.clone(), name, before, requested, effective }))
    }

    /// Restores everything without waiting for the links.
    pub(crate) fn undo(&mut self) -> Vec<UndoOutcome> {
        self.applied.clear();
        self.at_risk.clear();
        self.coalescing_at_risk.clear();
        self.journal.take().map(|mut journal| journal.undo_all()).unwrap_or_default()
    }

    /// Whether nothing has been changed, or everything has been restored.
    pub(crate) fn is_untouched(&self) -> bool {
        self.journal.is_none()
    }

    /// Restores everything and waits for the links.
    pub fn set_back(&mut self) -> Vec<UndoOutcome> {
        let undone = self.undo();
        if let Some(interface) = self.missing_carrier() {
            tracing::warn!(interface, "no carrier although its settings are as they were");
        }
        self.carriers.clear();
        undone
    }

    /// Keeps the settings in force until [`undo`].
    ///
    /// # Errors
    /// The journal cannot be moved to its permanent place; the settings are then restored.
    pub fn keep(self) -> Result<Vec<Applied>, JournalError> {
        let Session { journal, lock, applied, .. } = self;
        if let Some(journal) = journal {
            journal.keep(lock.state())?;
        }
        Ok(applied)
    }
}

/// Why a change was not made.
pub(crate) enum Failed {
    /// The kernel or the driver refused it.
    Io(io::Error),
    /// It could not be recorded in the journal.
    Journal(JournalError),
    /// The setting has another value than in the plan.
    Changed(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Io(error)
    }
}

/// Applies a plan's settings permanently, until [`undo`].
///
/// # Errors
/// See [`Session::apply`] and [`Session::keep`].
pub fn apply(lock: &HostLock, plan: &Plan) -> Result<Vec<Applied>, ApplyError> {
    let mut session = Session::new(lock);
    session.apply(plan)?;
    Ok(session.keep()?)
}

/// Restores permanently applied settings, newest first.
///
/// # Errors
/// The state directory cannot be read. Settings that could not be restored are in the report and stay in the journal.
pub fn undo(lock: &HostLock) -> Result<ReplayReport, JournalError> {
    journal::undo_kept(lock.state())
}
