//! Errors of files: path, line, value and accepted form.

use toml::de::{DeTable, DeValue};

use crate::error::Invalid;
use crate::quote::{cut, in_short};

/// Error of a file: its path, the line if known, the value and the accepted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FileError {
    /// The file as the user named it.
    pub path: String,
    /// Line, value and accepted form.
    pub message: String,
}

impl FileError {
    /// An impossible value in `path`.
    pub fn invalid(path: &str, error: &Invalid) -> Self {
        Self { path: path.to_owned(), message: error.to_string() }
    }

    /// An impossible value of the TOML `text`, with its line.
    pub fn misplaced(path: &str, text: &str, bad: &BadValue) -> Self {
        let line = line_of(text, &bad.place).map_or(String::new(), |line| format!("line {line}: "));
        Self { path: path.to_owned(), message: format!("{line}{}", bad.message) }
    }
}

/// Reads any TOML file of netcliff; an error names `path`, line, value and accepted form.
pub fn parse_toml<T: serde::de::DeserializeOwned>(path: &str, text: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| {
        // The error shows the line, which may be the whole file if it is not TOML.
        let is_of_file =
            |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').starts_with('|');
        let shown = |line| if is_of_file(line) { in_short(line) } else { cut(line, 1000) };
        let lines: Vec<String> = error.to_string().trim_end().lines().map(shown).collect();
        FileError { path: path.to_owned(), message: lines.join("\n") }
    })
}

/// A step of the path to a value in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(&'static str),
    /// An item of a list, from 0.
    Item(usize),
}

/// Error of a value that was read but is impossible: its path in the file, and the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadValue {
    /// Path to the value; an error gives the line of the deepest part that exists.
    pub place: Vec<Step>,
    /// The value and the accepted form.
    pub message: String,
}

impl BadValue {
    /// An error at the value of `key` in `section`; if `section` is empty, at the top of the file.
    pub fn at(section: &'static str, key: &'static str, message: impl ToString) -> Self {
        let place = [section, key].into_iter().filter(|name| !name.is_empty()).map(Step::Key).collect();
        Self { place, message: message.to_string() }
    }

    /// Moves the error to an item of the value, which is a list; `index` counts from 0.
    #[must_use]
    pub fn item(mut self, index: usize) -> Self {
        self.place.push(Step::Item(index));
        self
    }
}

/// The line, from 1, of the deepest part of `place` that `text` contains; None if it lacks even the first step.
fn line_of(text: &str, place: &[Step]) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut deepest = None;
    let mut value: Option<&DeValue<'_>> = None;
    for step in place {
        let next = match (step, value) {
            (Step::Key(key), None) => table.get_ref().get(*key),
            (Step::Key(key), Some(value)) => value.get(*key),
            (Step::Item(index), Some(value)) => value.get(*index),
            (Step::Item(_), None) => None,
        };
        let Some(next) = next else { break };
        deepest = Some(next.span().start);
        value = Some(next.get_ref());
    }
    Some(1 + text[..deepest?].matches('\n').count())
}
