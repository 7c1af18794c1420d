//! Making a plan's settings, and taking them back: [`apply`], [`undo`].
//!
//! Each change is in the journal before it is made. A step that fails rolls all back; a run that dies is rolled back by the
//! next start; only when all steps are made the journal is kept for [`undo`].

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

/// A link that a change took down has come up again after this: negotiation over copper takes 2 to 5 s, training at 10 Gbit/s and
/// more up to 8.
const CARRIER_TIME: Duration = Duration::from_secs(10);

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Applied {
    /// What was set.
    pub setting: Setting,
    /// As people call it.
    pub name: String,
    /// The value before.
    pub before: String,
    /// The value asked for.
    pub requested: String,
    /// The value that was read back: some drivers round.
    pub effective: String,
}

impl Applied {
    /// The kernel or the driver made another value of it.
    pub fn differs(&self) -> bool {
        !setting::same(&self.requested, &self.effective)
    }
}

/// Why a plan could not be applied. All that had been set was set back, unless `undone` says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The journal cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step failed.
    #[error("{name} could not be set to {}: {source}{}; {}", in_short(.new), hint(.source, .setting), told(.undone))]
    Step {
        /// What was to be set.
        setting: Box<Setting>,
        /// As people call it.
        name: String,
        /// To what.
        new: String,
        /// Why not.
        source: io::Error,
        /// What became of the steps before it.
        undone: Vec<UndoOutcome>,
    },
    /// The host is not as it was when the plan was made.
    #[error("{name} is {}, and was {} when the plan was made: make a new plan; {}", in_short(.is), in_short(.was), told(.undone))]
    Changed {
        /// What was to be set.
        name: String,
        /// Its value.
        is: String,
        /// The value in the plan.
        was: String,
        /// What became of the steps before it.
        undone: Vec<UndoOutcome>,
    },
    /// A link that was up did not come back.
    #[error("{interface} had a carrier before and none {} s after the settings were made; {}", .after.as_secs(), told(.undone))]
    NoCarrier {
        /// The interface.
        interface: String,
        /// How long it was waited for.
        after: Duration,
        /// What became of the settings.
        undone: Vec<UndoOutcome>,
    },
    /// What is to be set on the new queues could not be planned.
    #[error("the channels were changed, and the host could not be looked at again: {reason}; {}", told(.undone))]
    Look {
        /// Why not.
        reason: String,
        /// What became of the settings.
        undone: Vec<UndoOutcome>,
    },
}

fn hint(source: &io::Error, setting: &Setting) -> String {
    // Netlink gives its own words, but the kernel's number with them.
    match source.kind() == io::ErrorKind::PermissionDenied || source.raw_os_error() == Some(libc::EPERM) {
        true => format!(" (it takes {}: sudo netcliff tune apply ...)", setting.right()),
        false => String::new(),
    }
}

fn told(undone: &[UndoOutcome]) -> String {
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

/// Settings that have been made and are not yet to stay: the one owner of changes to devices. Dropping it sets them back, as the journal
/// does.
#[derive(Debug)]
pub struct Session {
    /// None: nothing is made. A journal whose changes are undone has no file any more, so each start has its own.
    journal: Option<Journal>,
    lock: HostLock,
    /// What has been made, in order.
    pub applied: Vec<Applied>,
    /// Interfaces that were touched and had a carrier before.
    carriers: BTreeSet<String>,
    /// Interfaces whose queues' settings are written down.
    at_risk: BTreeSet<String>,
    /// Interfaces whose coalescing is written down.
    coalescing_at_risk: BTreeSet<String>,
    /// A carrier that was there before is waited for so long.
    pub carrier_time: Duration,
}

impl Session {
    /// Nothing made yet.
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

    /// Makes a plan's steps; where they changed channels, then also what is wanted of the queues as they are now.
    ///
    /// # Errors
    /// As [`Session::apply`]; the host cannot be read again.
    pub fn apply_wish(&mut self, plan: &Plan, wish: &Wish) -> Result<(), ApplyError> {
        self.apply(plan)?;
        if !plan.changes_channels() {
            return Ok(());
        }
        let settled = Wish { channels_as_they_are: true, ..wish.clone() };
        let look = || Inspection::of_this_host(Duration::ZERO).map_err(|error| error.to_string());
        match look().and_then(|host| plan::plan(&host, &settled).map_err(|error| error.to_string())) {
            Ok(mut next) => {
                // Settings requested already: the driver has made of them what it can.
                next.steps.retain(|step| !self.applied.iter().any(|one| one.setting == step.setting));
                self.apply(&next)
            }
            Err(reason) => Err(ApplyError::Look { reason, undone: self.set_back() }),
        }
    }

    /// Makes a plan's steps, in order. When one fails, or a link stays down, all that this session made is set back.
    ///
    /// # Errors
    /// The step that failed, and what became of the others.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), ApplyError> {
        self.apply_steps(&plan.steps)
    }

    /// The same of steps.
    ///
    /// # Errors
    /// As [`Session::apply`].
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
        // A later step may have moved what an earlier one set.
        for one in &mut self.applied {
            one.effective = one.setting.read().unwrap_or_else(|_| one.effective.clone());
        }
        Ok(())
    }

    /// Notes what was made; of a setting that is made again, its value before the first time.
    fn note(&mut self, applied: Applied) {
        match self.applied.iter_mut().find(|one| one.setting == applied.setting) {
            Some(one) => *one = Applied { before: std::mem::take(&mut one.before), ..applied },
            None => self.applied.push(applied),
        }
    }

    /// An interface that had a carrier and does not get it back; drivers take the link down for many settings.
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

    /// Records what a step may reset beside what it sets, and whether there is a link to lose.
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

    /// Sets a value, after the one before it is in the journal, with what the change may move; of several changes of a setting the
    /// first value counts. All changes of a device come through here.
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

    /// Sets everything back without waiting for the links.
    pub(crate) fn undo(&mut self) -> Vec<UndoOutcome> {
        self.applied.clear();
        self.at_risk.clear();
        self.coalescing_at_risk.clear();
        self.journal.take().map(|mut journal| journal.undo_all()).unwrap_or_default()
    }

    /// Whether nothing has been changed, or all is set back.
    pub(crate) fn is_untouched(&self) -> bool {
        self.journal.is_none()
    }

    /// Sets everything back, and waits for the links.
    pub fn set_back(&mut self) -> Vec<UndoOutcome> {
        let undone = self.undo();
        if let Some(interface) = self.missing_carrier() {
            tracing::warn!(interface, "no carrier although its settings are as they were");
        }
        self.carriers.clear();
        undone
    }

    /// The settings stay until [`undo`].
    ///
    /// # Errors
    /// When the journal cannot be moved to where it is kept; the settings are then set back.
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
    /// It could not be written down.
    Journal(JournalError),
    /// The setting has another value than the plan says.
    Changed(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Io(error)
    }
}

/// Makes a plan's settings, to stay.
///
/// # Errors
/// As [`Session::apply`] and [`Session::keep`].
pub fn apply(lock: &HostLock, plan: &Plan) -> Result<Vec<Applied>, ApplyError> {
    let mut session = Session::new(lock);
    session.apply(plan)?;
    Ok(session.keep()?)
}

/// Sets back what was applied to stay, newest first.
///
/// # Errors
/// When the state directory cannot be read; what could not be set back is in the report and stays in the journal.
pub fn undo(lock: &HostLock) -> Result<ReplayReport, JournalError> {
    journal::undo_kept(lock.state())
}
