//! [`Choice`]: one of several values that a user names, with its name and its help in one row.

/// An enum whose values a user names.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each value with its name and its help, in the order of the help.
    const CHOICES: &'static [(Self, &'static str, &'static str)];

    /// The value of this name.
    fn named(name: &str) -> Option<Self> {
        Self::CHOICES.iter().find(|(_, known, _)| *known == name).map(|(value, ..)| *value)
    }

    /// Its name; empty of a value without a row.
    fn name(self) -> &'static str {
        Self::CHOICES.iter().find(|(value, ..)| *value == self).map_or("", |(_, name, _)| name)
    }
}
