//! Ports whose devices stamp frames during a measurement.

use std::{
    io, thread,
    time::{Duration, Instant},
};

use crate::{
    journal::{HostLock, JournalError},
    nic::stamping::Stamping,
    rtnl::Rtnl,
    setting::Setting,
    tune::apply::{Failed, Session},
};

/// Longest wait for the link if a driver reopens the device.
const LINK_TIME: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Why a port's device does not stamp frames.
#[derive(Debug, thiserror::Error)]
pub enum StampingError {
    /// The undo journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The present setting is unknown, so it could not be restored.
    #[error(
        "interface {interface} does not report which frames its device stamps ({source}), so that it could not be set back; \
         choose --stamps kernel or application"
    )]
    Unread {
        /// The port.
        interface: String,
        /// The driver's reason.
        source: io::Error,
    },
    /// The driver refused.
    #[error(
        "interface {interface} could not be set to stamp every frame: {source}{}; choose --stamps kernel or application",
        right(source)
    )]
    Refused {
        /// The port.
        interface: String,
        /// The driver's reason.
        source: io::Error,
    },
    /// The driver stamps other frames than requested.
    #[error(
        "interface {interface} was asked to stamp every frame and stamps {stamps}; choose --stamps kernel or application"
    )]
    Fewer {
        /// The port.
        interface: String,
        /// What the device stamps.
        stamps: Stamping,
    },
    /// The port had no carrier during the whole wait after the setting was changed: some drivers reopen the device.
    #[error("interface {interface} was set to stamp every frame, and had no carrier {seconds} s later")]
    LinkDown {
        /// The port.
        interface: String,
        /// Time of waiting (s).
        seconds: u64,
    },
}

fn right(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::PermissionDenied { " (it takes CAP_NET_ADMIN, which root has)" } else { "" }
}

/// Ports whose devices stamp every frame until this value is dropped, or until the next start if the run is killed.
#[derive(Debug)]
pub struct StampedPorts {
    session: Session,
}

impl StampedPorts {
    /// Configures interfaces of the thread's network namespace; each change is recorded in the journal first.
    ///
    /// # Errors
    /// An interface cannot stamp every frame; all are then restored.
    pub fn hold(lock: &HostLock, interfaces: &[&str]) -> Result<Self, StampingError> {
        let mut held = Self { session: Session::new(lock) };
        for (at, interface) in interfaces.iter().enumerate() {
            if !interfaces[..at].contains(interface) {
                held.add(interface)?;
            }
        }
        Ok(held)
    }

    fn add(&mut self, name: &str) -> Result<(), StampingError> {
        let found =
            Stamping::of(name).map_err(|source| StampingError::Unread { interface: name.to_owned(), source })?;
        // The flags are left unchanged: HWTSTAMP_FLAG_BONDED_PHC_INDEX defines the meaning of the clock's number.
        let wanted = Stamping { flags: found.flags, ..Stamping::ALL };
        if found == wanted {
            return Ok(());
        }
        let setting = Setting::HardwareStamps { interface: name.to_owned() };
        let (old, new) = (found.to_string(), wanted.to_string());
        let refused = |source| StampingError::Refused { interface: name.to_owned(), source };
        self.session.change(&setting, &old, &new).map_err(|failed| match failed {
            Failed::Journal(error) => error.into(),
            Failed::Io(source) => refused(source),
            Failed::Changed(is) => refused(io::Error::other(format!("it holds {is}"))),
        })?;
        let stamps = Stamping::of(name).map_err(refused)?;
        if (stamps.transmit, stamps.receive) != (wanted.transmit, wanted.receive) {
            return Err(StampingError::Fewer { interface: name.to_owned(), stamps });
        }
        wait_for_link(name)
    }
}

/// Waits until the link is up, because some drivers reopen the device to stamp received frames.
fn wait_for_link(name: &str) -> Result<(), StampingError> {
    let until = Instant::now() + LINK_TIME;
    while !Rtnl::new().link(name).is_ok_and(|link| link.has_carrier()) {
        if Instant::now() > until {
            return Err(StampingError::LinkDown { interface: name.to_owned(), seconds: LINK_TIME.as_secs() });
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::StateDir;

    #[test]
    fn a_port_that_does_not_stamp_is_named_and_nothing_is_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::at(dir.path()).unwrap();
        let lock = HostLock::acquire(&state).unwrap();
        let error = StampedPorts::hold(&lock, &["lo", "lo"]).unwrap_err().to_string();
        assert!(error.contains("interface lo") && error.contains("--stamps kernel"), "{error}");
        assert_eq!(std::fs::read_dir(state.journal_dir().unwrap()).unwrap().count(), 0);
    }
}
