//! Schemes as text.

use super::parameter::{self, Count, Flag, Kind, Pairs, Parameter, Parameters, Time};
use super::{
    Coalesce, Dim, DimProfile, FreebsdPolling, Gap, Hybrid, Napi, Napi2007, PERIOD_S, QUOTA, Quirk, Scheme, SoftTimers,
};
use crate::error::ParseError;
use crate::params::{self, Params};

// For the schemes whose parameters are in `Scheme` itself.
parameter::parameters! {
#[derive(Debug)]
struct Interrupt {
    /// True: a packet dropped at a full ring also raises an interrupt (as in the paper, and the default; throughput
    /// falls towards zero).
    pub drops_interrupt: bool = true => Flag("drops_interrupt", always),
}
}
parameter::parameters! {
#[derive(Debug)]
struct DisableEnable {
    /// True: mask, handler and first packet are one exponential stage (the paper's chain).
    pub merged: bool = false => Flag("merged", always),
}
}
parameter::parameters! {
#[derive(Debug)]
struct Polled {
    /// T_poll: time between polls (s).
    pub period_s: f64 = PERIOD_S => Time("period", always),
    /// Q: most packets per poll.
    pub quota: u64 = QUOTA => Count("quota", always),
}
}

/// A scheme's name, and the functions that read and describe it.
struct Named {
    name: &'static str,
    read: fn(&mut Params<'_>) -> Result<Scheme, ParseError>,
    described: fn() -> Vec<Parameter>,
}

const SCHEMES: [Named; 11] = [
    Named { name: "ideal", read: |_| Ok(Scheme::Ideal), described: Vec::new },
    Named {
        name: "interrupt",
        read: |params| {
            Interrupt::read(params).map(|Interrupt { drops_interrupt }| Scheme::Interrupt { drops_interrupt })
        },
        described: Interrupt::described,
    },
    Named {
        name: "disable-enable",
        read: |params| DisableEnable::read(params).map(|DisableEnable { merged }| Scheme::DisableEnable { merged }),
        described: DisableEnable::described,
    },
    Named {
        name: "polling",
        read: |params| Polled::read(params).map(|Polled { period_s, quota }| Scheme::Polling { period_s, quota }),
        described: Polled::described,
    },
    Named {
        name: "napi-2007",
        read: |params| Napi2007::read(params).map(Scheme::Napi2007),
        described: Napi2007::described,
    },
    Named {
        name: "freebsd-polling",
        read: |params| FreebsdPolling::read(params).map(Scheme::FreebsdPolling),
        described: FreebsdPolling::described,
    },
    Named {
        name: "soft-timers",
        read: |params| SoftTimers::read(params).map(Scheme::SoftTimers),
        described: SoftTimers::described,
    },
    Named { name: "napi", read: |params| Napi::read(params).map(Scheme::Napi), described: Napi::described },
    Named {
        name: "coalesce",
        read: |params| Coalesce::read(params).map(Scheme::Coalesce),
        described: Coalesce::described,
    },
    Named { name: "hybrid", read: |params| Hybrid::read(params).map(Scheme::Hybrid), described: Hybrid::described },
    Named { name: "dim", read: |params| Dim::read(params).map(Scheme::Dim), described: Dim::described },
];

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

    /// Its parameters as they are printed.
    fn pairs(&self) -> Pairs {
        match *self {
            Self::Ideal => Pairs::new(),
            Self::Interrupt { drops_interrupt } => Interrupt { drops_interrupt }.pairs(),
            Self::DisableEnable { merged } => DisableEnable { merged }.pairs(),
            Self::Polling { period_s, quota } => Polled { period_s, quota }.pairs(),
            Self::Napi2007(polled) => polled.pairs(),
            Self::FreebsdPolling(polling) => polling.pairs(),
            Self::SoftTimers(soft) => soft.pairs(),
            Self::Napi(ref napi) => napi.pairs(),
            Self::Coalesce(ref coalesce) => coalesce.pairs(),
            Self::Hybrid(ref hybrid) => hybrid.pairs(),
            Self::Dim(dim) => dim.pairs(),
        }
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
