//! What an experiment changes beside the transfer: the testbed's link, the devices of two hosts, or nothing.

use netcliff_core::experiment::{Factor, Setting};

use super::TransfersError;
use super::hosts::Hosts;
use super::link::Link;
use super::place::Place;

/// The devices at both ends of the transfers.
pub enum Device<'a> {
    /// The testbed's.
    Link(Box<Link<'a>>),
    /// Two hosts'.
    Hosts(Box<Hosts<'a>>),
}

impl<'a> Device<'a> {
    /// Those of a place, as they are.
    ///
    /// # Errors
    /// They cannot be read, or may not be changed although that was requested.
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

    /// Why a setting is not available here; None where it is.
    fn refusal(&self, setting: &Setting) -> Option<String> {
        match self {
            _ if !setting.key().is_device() => None,
            Self::Link(link) => link.refusal(setting),
            Self::Hosts(hosts) => hosts.refusal(setting),
        }
    }

    /// Why these settings are not available together, though each is; None where they are.
    pub fn impossible(&self, settings: &[Setting]) -> Option<String> {
        match self {
            Self::Link(_) => None,
            Self::Hosts(hosts) => hosts.impossible(settings),
        }
    }

    /// The settings that are available; the others are named.
    pub fn kept(&self, settings: Vec<Setting>, not_had: &mut Vec<String>) -> Vec<Setting> {
        let keep = |setting: &Setting| match self.refusal(setting) {
            Some(why) => {
                not_had.push(why);
                false
            }
            None => true,
        };
        settings.into_iter().filter(keep).collect()
    }

    /// The factors of which at least one level is available, with these levels.
    pub fn kept_factors(&self, factors: Vec<Factor>, not_had: &mut Vec<String>) -> Vec<Factor> {
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

    /// Brings both ends to a configuration; what it does not name is as it was found.
    pub fn bring_to(&mut self, place: &mut Place<'_>, settings: &[Setting]) -> Result<(), TransfersError> {
        match (self, place) {
            (Self::Link(link), _) => Ok(link.bring_to(settings)?),
            (Self::Hosts(hosts), Place::Agent { session, .. }) => hosts.bring_to(session, settings),
            (Self::Hosts(_), Place::Testbed(_)) => Ok(()),
        }
    }

    /// Leaves both ends as they were found; returns what could not be restored.
    pub fn restore(&mut self, place: &mut Place<'_>) -> Result<Vec<String>, TransfersError> {
        match (self, place) {
            (Self::Link(link), _) => Ok(link.restore().map(|()| Vec::new())?),
            (Self::Hosts(hosts), Place::Agent { session, .. }) => Ok(hosts.restore(session)),
            (Self::Hosts(_), Place::Testbed(_)) => Ok(Vec::new()),
        }
    }

    /// What runs that died left at the ends and could not be undone. A testbed's host reports that in its limits.
    pub fn left_over(&self) -> Vec<String> {
        match self {
            Self::Link(_) => Vec::new(),
            Self::Hosts(hosts) => hosts.left_over(),
        }
    }

    /// What the kernel or a driver set otherwise than requested.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Link(link) => link.notes(),
            Self::Hosts(hosts) => hosts.notes(),
        }
    }
}
