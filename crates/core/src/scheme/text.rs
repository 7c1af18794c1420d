//! Schemes as text.

use super::parameter::{Pairs, Parameter};
use super::{DimProfile, Gap, Quirk, SCHEMES, Scheme};
use crate::error::ParseError;
use crate::params::{self, Params};

impl Scheme {
    /// The names of all schemes.
    pub fn names() -> [&'static str; SCHEMES.len()] {
        SCHEMES.map(|scheme| scheme.name)
    }

    /// Returns the parameters of the scheme with this name; `None` if no scheme has it.
    pub fn parameters(name: &str) -> Option<Vec<Parameter>> {
        SCHEMES.iter().find(|scheme| scheme.name == name).map(|scheme| (scheme.described)())
    }
}

/// The key of a [`Quirk`] in records.
const GAP: &str = "gap";
const GAP_LATE: &str = "gap_late";

impl Quirk {
    fn read(params: &mut Params<'_>) -> Result<Self, ParseError> {
        let gap = params.read(GAP, str::parse)?.unwrap_or_default();
        Ok(Self { gap, gap_late_s: params.time_s(GAP_LATE)? })
    }

    fn pairs(&self) -> Pairs {
        let gap = (self.gap != Gap::default()).then(|| self.gap.to_string());
        vec![(GAP, gap), (GAP_LATE, self.gap_late_s.map(crate::units::print_time_s))]
    }
}

impl Scheme {
    /// Reads a scheme from a record or from an agent: as users write it, optionally with a [`Quirk`].
    ///
    /// # Errors
    /// The text is not a scheme.
    pub fn of_record(text: &str) -> Result<Self, ParseError> {
        Self::read(text, true)
    }

    /// Returns the scheme's text for a record or an agent: the printed text, with its [`Quirk`].
    pub fn record(&self) -> String {
        let quirk = if let Self::Napi(napi) = self { napi.moderation.quirk.pairs() } else { Pairs::new() };
        params::print(self.name(), &[self.pairs(), quirk].concat())
    }

    fn read(text: &str, is_record: bool) -> Result<Self, ParseError> {
        let (name, mut params) = Params::split("scheme", text)?;
        let named = SCHEMES.iter().find(|scheme| scheme.name == name).ok_or_else(|| {
            let form = format!(
                "expected one of {}, with parameters after a colon, such as \"polling:period=20us,quota=3\"",
                Self::names().join(", ")
            );
            ParseError::new("scheme", text, form)
        })?;
        let mut scheme = (named.read)(&mut params)?;
        if let Self::Napi(napi) = &mut scheme {
            if is_record {
                napi.moderation.quirk = Quirk::read(&mut params)?;
            } else if let Some(key) = [GAP, GAP_LATE].into_iter().find(|key| params.has(key)) {
                let why = format!(
                    "`{key}` is how an emulated NIC departs from hardware, which the testbed of a guest reads and hands to the simulator: leave it out"
                );
                return Err(ParseError::new("scheme", text, why));
            }
        }
        params.finish()?;
        Ok(scheme)
    }
}

impl std::str::FromStr for Scheme {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::read(text, false)
    }
}

impl std::fmt::Display for Scheme {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&params::print(self.name(), &self.pairs()))
    }
}

impl std::str::FromStr for Gap {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let found = Self::ALL.into_iter().find(|gap| gap.name() == text);
        found.ok_or_else(|| ParseError::new("gap", text, "expected each, direct, echo, latched or reopened"))
    }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl std::str::FromStr for DimProfile {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "eqe" => Ok(Self::Eqe),
            "cqe" => Ok(Self::Cqe),
            _ => Err(ParseError::new("profile", text, "expected eqe or cqe")),
        }
    }
}

impl std::fmt::Display for DimProfile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Eqe => "eqe",
            Self::Cqe => "cqe",
        })
    }
}

impl serde::Serialize for Scheme {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&self.record())
    }
}

impl<'de> serde::Deserialize<'de> for Scheme {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(input)?;
        Self::of_record(&text).map_err(serde::de::Error::custom)
    }
}

/// Reads a list of schemes that a user wrote in a file, without the keys of records.
///
/// # Errors
/// One of the texts is not a scheme.
pub(crate) fn written<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Vec<Scheme>, D::Error> {
    let texts = <Vec<String> as serde::Deserialize>::deserialize(input)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Scheme {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scheme".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}
