//! Errors of input. Each names the value and the accepted form, so that a user can correct the value.

/// A text that could not be read as a quantity, scheme, traffic or key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: cannot read \"{value}\": {accepted}")]
pub struct ParseError {
    /// The quantity, key or option that was being read, for instance `time`, `scheme` or `--set ring`.
    pub what: String,
    /// The whole text that could not be read.
    pub value: String,
    /// The accepted form, as a clause: `expected a time such as "20us"`.
    pub accepted: String,
}

impl ParseError {
    /// An error for `value`, read as `what`, with the `accepted` form.
    pub fn new(what: impl Into<String>, value: impl Into<String>, accepted: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), accepted: accepted.into() }
    }

    /// Replaces the error's subject by `what`, for a caller that knows the key.
    #[must_use]
    pub fn within(mut self, what: &str) -> Self {
        self.what = what.to_owned();
        self
    }
}

/// A value that was read but is not possible: out of its range, or in conflict with another value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} = {value}: {range}")]
pub struct Invalid {
    /// The parameter's name as the user writes it.
    pub parameter: String,
    /// Its value, printed with its unit.
    pub value: String,
    /// The accepted range, as a clause: `must be at least 1`.
    pub range: String,
}

impl Invalid {
    /// An error for `parameter` with `value`, outside `range`.
    pub fn new(parameter: impl Into<String>, value: impl ToString, range: impl Into<String>) -> Self {
        Self { parameter: parameter.into(), value: value.to_string(), range: range.into() }
    }
}
