//! [`FindError`]: why a run has no finding.

use netcliff_core::Invalid;
use netcliff_trial::rig::RigError;

use crate::process::ServiceError;
use crate::request::RequestError;
use crate::requester::{OnceError, RequesterError};

/// Why there is no finding.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// There is no testbed.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// There are no requests.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The service cannot be used.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The service that runs does not answer.
    #[error("--to {0}")]
    NoAnswer(#[from] OnceError),
    /// The requester cannot work.
    #[error(transparent)]
    Requester(#[from] RequesterError),
    /// A value is out of its range.
    #[error(transparent)]
    Invalid(Invalid),
    /// What the user wants cannot be.
    #[error("{0}")]
    Usage(String),
    /// The user stopped the run.
    #[error("stopped")]
    Stopped,
    /// The host changed during the run.
    #[error("{0}: the run ends here")]
    Changed(String),
}

impl FindError {
    /// True if the user has to change the command line.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Request(_) | Self::Invalid(_) | Self::Usage(_) | Self::Rig(RigError::NoSuchCpu { .. }))
    }
}
