//! [`Choice`]: enums whose values a user chooses by name. One table has name and help of each value.

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
