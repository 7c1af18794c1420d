//! [`FindError`]: why a run has no result.

use netcliff_core::Invalid;
use netcliff_packets::error::ControlError;
use netcliff_trial::rig::RigError;

use crate::process::ServiceError;
use crate::request::RequestError;
use crate::requester::{OnceError, RequesterError};

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The testbed could not be set up.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// There are no usable requests.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The service cannot be used.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The running service does not answer.
    #[error("--to {0}")]
    NoAnswer(#[from] OnceError),
    /// The requester cannot run.
    #[error(transparent)]
    Requester(#[from] RequesterError),
    /// A value is out of its range.
    #[error(transparent)]
    Invalid(Invalid),
    /// The command line requests something impossible.
    #[error("{0}")]
    Usage(String),
    /// There is no cliff: even the lowest load broke the promise.
    #[error("the promise is not kept at any load")]
    NoCliff,
    /// The user stopped the run.
    #[error("stopped")]
    Stopped,
    /// The agent of the service's host does not meter it.
    #[error("{0}")]
    Agent(String),
    /// The connection to the agent was lost during the run.
    #[error("the service is no longer metered: {0}: the run ends here")]
    Lost(Box<ControlError>),
    /// The host changed during the run.
    #[error("{0}: the run ends here")]
    Changed(String),
}

impl FindError {
    /// Wraps the error of a lost connection to the agent that meters the service.
    pub fn lost(error: ControlError) -> Self {
        Self::Lost(Box::new(error))
    }

    /// True if the user must change the command line.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Request(_) | Self::Invalid(_) | Self::Usage(_) | Self::Rig(RigError::NoSuchCpu { .. }))
    }
}
