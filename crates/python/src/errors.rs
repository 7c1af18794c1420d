//! Converts errors of netcliff to Python exceptions, with the messages of the command line. No other file converts
//! them.

use netcliff_core::experiment::{BadValue, FileError};
use netcliff_core::{EngineFailure, Invalid, ParseError};
use netcliff_lab::advise::AdviseError;
use netcliff_lab::store::StoreError as LabStoreError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    netcliff,
    UsageError,
    PyValueError,
    "A value that cannot be read or cannot be; it names the accepted form."
);
pyo3::create_exception!(
    netcliff,
    UnsupportedError,
    PyValueError,
    "The engine does not answer this point; it says why."
);
pyo3::create_exception!(netcliff, EngineError, PyRuntimeError, "The engine tried and failed.");
pyo3::create_exception!(netcliff, StoreError, PyOSError, "The record store cannot be read or written.");

/// Reason why a call has no result, in a form that does not need the interpreter.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Wrong usage (exit code 2 of the command line).
    Usage(String),
    /// The engine does not support the point.
    Unsupported(String),
    /// The engine failed.
    Failed(String),
    /// The store failed.
    Store(String),
    /// The computation was stopped.
    Interrupted(String),
}

impl Fault {
    /// Makes a usage error with this message.
    pub(crate) fn usage(text: impl ToString) -> Self {
        Self::Usage(text.to_string())
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Usage(text) => UsageError::new_err(text),
            Fault::Unsupported(text) => UnsupportedError::new_err(text),
            Fault::Failed(text) => EngineError::new_err(text),
            Fault::Store(text) => StoreError::new_err(text),
            Fault::Interrupted(text) => PyKeyboardInterrupt::new_err(text),
        }
    }
}

macro_rules! is_wrong_usage {
    ($($error:ty),*) => {
        $(impl From<$error> for Fault {
            fn from(error: $error) -> Self {
                Self::usage(error)
            }
        })*
    };
}
is_wrong_usage!(ParseError, Invalid, FileError, BadValue);

impl From<EngineFailure> for Fault {
    fn from(error: EngineFailure) -> Self {
        let text = error.to_string();
        match error {
            EngineFailure::Invalid(_) => Self::Usage(text),
            EngineFailure::Unsupported(_) => Self::Unsupported(text),
            EngineFailure::Interrupted => Self::Interrupted(text),
            EngineFailure::Unsound { .. } | EngineFailure::Failed(_) => Self::Failed(text),
        }
    }
}

impl From<AdviseError> for Fault {
    fn from(error: AdviseError) -> Self {
        match error {
            AdviseError::Engine(failure) => failure.into(),
            AdviseError::Unanswered { .. } => Self::Unsupported(error.to_string()),
            other => Self::usage(other),
        }
    }
}

impl From<LabStoreError> for Fault {
    fn from(error: LabStoreError) -> Self {
        Self::Store(error.to_string())
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Usage(format!("is damaged JSON: {error}"))
    }
}

/// Adds the exceptions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("UsageError", py.get_type::<UsageError>())?;
    module.add("UnsupportedError", py.get_type::<UnsupportedError>())?;
    module.add("EngineError", py.get_type::<EngineError>())?;
    module.add("StoreError", py.get_type::<StoreError>())
}
