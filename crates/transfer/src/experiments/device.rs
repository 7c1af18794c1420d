//! What an experiment changes besides the transfer: the testbed's link, the devices of two hosts, or nothing.

use netcliff_core::experiment::{Factor, Lack, Setting};

use super::TransfersError;
use super::hosts::Hosts;
use super::link::Link;
use super::place::Place;

/// The devices at both ends of the transfers.
pub enum Device<'a> {
    /// The testbed's link.
    Link(Box<Link<'a>>),
    /// The devices of two hosts.
    Hosts(Box<Hosts<'a>>),
}

impl<'a> Device<'a> {
    /// The devices of a place, unchanged.
    ///
    /// # Errors
    /// The devices cannot be read, or a requested change of them is not permitted.
    pub fn of(place: &mut Place<'a>) -> Result<Self, TransfersError> {
        match place {
            Place::Agent { session, device: Some(device), .. } => {
                Ok(Self::Hosts(Box::new(Hosts::take(device, session)?)))
            }
            Place::Agent { session, guest: Some(guest), .. } => {
                Ok(Self::Hosts(Box::new(Hosts::of_guest(guest.vm.wire(), guest.vm.model(), session)?)))
            }
            _ => Ok(Self::Link(Box::new(Link::of(place)?))),
        }
    }

    /// Why a setting is not available here. `None` if it is available.
    fn refusal(&self, setting: &Setting) -> Option<Lack> {
        match self {
            _ if !setting.key().is_device() => None,
            Self::Link(link) => link.refusal(setting),
            Self::Hosts(hosts) => hosts.refusal(setting),
        }
    }

    /// Why these settings are not available together. `None` if they are.
    pub fn impossible(&self, settings: &[Setting]) -> Option<String> {
        match self {
            Self::Link(_) => None,
            Self::Hosts(hosts) => hosts.impossible(settings),
        }
    }

    /// The settings that are available. Adds the reason for each of the others to `not_had`.
    pub fn kept(&self, settings: Vec<Setting>, not_had: &mut Vec<Lack>) -> Vec<Setting> {
        let keep = |setting: &Setting| match self.refusal(setting) {
            Some(why) => {
                not_had.push(why);
                false
            }
            None => true,
        };
        settings.into_iter().filter(keep).collect()
    }

    /// The factors with at least one available level, each with its available levels.
    pub fn kept_factors(&self, factors: Vec<Factor>, not_had: &mut Vec<Lack>) -> Vec<Factor> {
        let mut kept = Vec::new();
        for Factor { key, levels } in factors {
            let mut why = Vec::new();
            let levels = self.kept(levels, &mut why);
            why.dedup();
            not_had.extend(why);
            if !levels.is_empty() {
                kept.push(Factor { key, levels });
            }
        }
        kept
    }

    /// Applies a configuration at both ends. A setting that it does not name has the value it had before the run.
    pub fn bring_to(&mut self, place: &mut Place<'_>, settings: &[Setting]) -> Result<(), TransfersError> {
        match (self, place) {
            (Self::Link(link), _) => Ok(link.bring_to(settings)?),
            (Self::Hosts(hosts), Place::Agent { session, .. }) => hosts.bring_to(session, settings),
            (Self::Hosts(_), Place::Testbed(_)) => Ok(()),
        }
    }

    /// Restores both ends. Returns what could not be restored.
    pub fn restore(&mut self, place: &mut Place<'_>) -> Result<Vec<String>, TransfersError> {
        match (self, place) {
            (Self::Link(link), _) => Ok(link.restore().map(|()| Vec::new())?),
            (Self::Hosts(hosts), Place::Agent { session, .. }) => Ok(hosts.restore(session)),
            (Self::Hosts(_), Place::Testbed(_)) => Ok(Vec::new()),
        }
    }

    /// Changes that earlier, killed runs left at the ends and that could not be undone. Empty for a testbed, whose host
    /// reports them in its limits.
    pub fn left_over(&self) -> Vec<String> {
        match self {
            Self::Link(_) => Vec::new(),
            Self::Hosts(hosts) => hosts.left_over(),
        }
    }

    /// Settings for which the kernel or a driver chose another value than requested.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Link(link) => link.notes(),
            Self::Hosts(hosts) => hosts.notes(),
        }
    }
}
