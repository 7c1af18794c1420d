//! Options whose values are a domain's enum, by the rows of its [`Choice`].

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use netcliff_core::Choice;

/// Reads one of the values that the rows of `T` name.
pub fn one_of<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let rows = T::CHOICES.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    // Only names of rows come through.
    PossibleValuesParser::new(rows).try_map(|name| T::named(&name).ok_or("no such value"))
}
