//! Parses `NAME:key=value,...`, the form of schemes, arrivals and services, and refuses unknown keys. [`Choice`]: enums
//! whose values a user chooses by name; one table has name and help of each value.

use crate::error::ParseError;
use crate::units;

/// An enum whose values a user names.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each value with its name and its help text, in the order of the help.
    const CHOICES: &'static [(Self, &'static str, &'static str)];

    /// Returns the value with this name; `None` if the name is unknown.
    fn named(name: &str) -> Option<Self> {
        Self::CHOICES.iter().find(|(_, known, _)| *known == name).map(|(value, ..)| *value)
    }

    /// Name of the value; empty if it has no row in `CHOICES`.
    fn name(self) -> &'static str {
        Self::CHOICES.iter().find(|(value, ..)| *value == self).map_or("", |(_, name, _)| name)
    }
}

/// Keys and values after the name. The caller takes each key that it knows, once. A key that was not taken is an error
/// at the end.
#[derive(Debug)]
pub struct Params<'a> {
    what: &'static str,
    text: &'a str,
    left: Vec<(&'a str, &'a str)>,
    known: Vec<&'static str>,
}

impl<'a> Params<'a> {
    /// Splits `text` into its name and parameters. A parameter without `=` is a flag set to true.
    pub fn split(what: &'static str, text: &'a str) -> Result<(&'a str, Self), ParseError> {
        let (name, rest) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let mut left: Vec<(&str, &str)> = Vec::new();
        for item in rest.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, "true"));
            let (key, value) = (key.trim(), value.trim());
            if left.iter().any(|(seen, _)| *seen == key) {
                return Err(ParseError::new(what, text, format!("`{key}` is given twice")));
            }
            left.push((key, value));
        }
        Ok((name, Self { what, text, left, known: Vec::new() }))
    }

    /// True if `key` was given and not yet taken.
    pub fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(name, _)| *name == key)
    }

    /// Takes the text of `key`; None if it was not given.
    pub fn take(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        let place = self.left.iter().position(|(name, _)| *name == key)?;
        Some(self.left.remove(place).1)
    }

    /// Takes the value of `key`, read by `parse`; None if it was not given.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, ParseError>,
    ) -> Result<Option<T>, ParseError> {
        let name = format!("{} `{key}`", self.what);
        self.take(key).map(|value| parse(value).map_err(|error| error.within(&name))).transpose()
    }

    /// Takes a time (s).
    pub fn time_s(&mut self, key: &'static str) -> Result<Option<f64>, ParseError> {
        self.read(key, units::parse_time_s)
    }

    /// Takes a packet rate (pps).
    pub fn pps(&mut self, key: &'static str) -> Result<Option<f64>, ParseError> {
        self.read(key, units::parse_pps)
    }

    /// Takes a whole number.
    pub fn count(&mut self, key: &'static str) -> Result<Option<u64>, ParseError> {
        self.read(key, |value| units::parse_count(key, value))
    }

    /// Takes a whole number of at most 32 bits.
    pub fn count_u32(&mut self, key: &'static str) -> Result<Option<u32>, ParseError> {
        self.read(key, |value| {
            let count = units::parse_count(key, value)?;
            count.try_into().map_err(|_| ParseError::new(key, value, "expected a whole number below 4294967296"))
        })
    }

    /// Takes a number without a unit, 0 or more.
    pub fn number(&mut self, key: &'static str) -> Result<Option<f64>, ParseError> {
        self.read(key, units::parse_share)
    }

    /// Takes `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, ParseError> {
        self.read(key, |value| units::parse_flag(key, value))
    }

    /// Ends parsing. A key that was not taken is an error, which lists the known keys.
    pub fn finish(self) -> Result<(), ParseError> {
        match self.left.first() {
            None => Ok(()),
            Some((key, _)) => {
                let known = if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") };
                Err(ParseError::new(self.what, self.text, format!("unknown key `{key}`; the keys here are: {known}")))
            }
        }
    }
}

/// Writes `name:key=value,...` with the keys that have a value.
pub(crate) fn print(name: &str, pairs: &[(&str, Option<String>)]) -> String {
    let given: Vec<String> =
        pairs.iter().filter_map(|(key, value)| value.as_ref().map(|value| format!("{key}={value}"))).collect();
    if given.is_empty() { name.to_owned() } else { format!("{name}:{}", given.join(",")) }
}
