//! Values of an experiment file: loads, shares, lists, and host keys with several values.

use serde::{Deserialize, Deserializer, Serialize};

use super::file::BadValue;
use crate::error::ParseError;
use crate::traffic::{FrameSizes, Load};
use crate::units;

/// Offered loads: a list of loads and of ranges `LOW..HIGH:COUNT`, evenly spaced, both ends included.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates(pub Vec<Load>);

impl std::str::FromStr for Rates {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let form = "expected a list such as \"10kpps,20kpps\", a range such as \"10kpps..300kpps:30\", or both";
        let error = || ParseError::new("rates", text, form);
        let items: Option<Vec<Vec<Load>>> = text.split(',').map(loads).collect();
        Ok(Self(items.ok_or_else(error)?.concat()))
    }
}

/// One load, or a range of them.
fn loads(text: &str) -> Option<Vec<Load>> {
    let Some((low, rest)) = text.split_once("..") else { return Some(vec![text.parse().ok()?]) };
    let (high, count) = rest.split_once(':')?;
    let (low, high): (Load, Load) = (low.parse().ok()?, high.parse().ok()?);
    let count = units::parse_count("rates", count).ok()?;
    if std::mem::discriminant(&low) != std::mem::discriminant(&high)
        || low.amount() >= high.amount()
        || !(2..=100_000).contains(&count)
    {
        return None;
    }
    let step = (high.amount() - low.amount()) / (count - 1) as f64;
    let nth = |index: u64| match low {
        _ if index + 1 == count => high,
        Load::Pps(from) => Load::Pps(from + step * index as f64),
        Load::Bps(from) => Load::Bps(from + step * index as f64),
        Load::LineShare(from) => Load::LineShare(from + step * index as f64),
    };
    Some((0..count).map(nth).collect())
}

impl std::fmt::Display for Rates {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts: Vec<String> = self.0.iter().map(Load::to_string).collect();
        out.write_str(&texts.join(","))
    }
}

crate::units::serde_as_text!(Rates);

/// A share, such as a precision or a confidence, written `"5%"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let share = units::parse_share(text)?;
        if share > 0.0 && share < 1.0 {
            return Ok(Self(share));
        }
        Err(ParseError::new("share", text, "expected a share above 0% and below 100%, such as \"5%\""))
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&units::print_share(self.0))
    }
}

crate::units::serde_as_text!(Share);

/// One value or a list of them, written `"x"` or `["x", "y"]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct OneOrMore<T>(pub Vec<T>);

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for OneOrMore<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OneOrMore_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

impl<'de, T: Deserialize<'de> + std::str::FromStr<Err = ParseError>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de> + std::str::FromStr<Err = ParseError>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a text or a list of texts")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map(|value| OneOrMore(vec![value])).map_err(E::custom)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = items.next_element()? {
                    values.push(value);
                }
                Ok(OneOrMore(values))
            }
        }
        input.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

const BAR: char = '|';

/// A host key with the values to try: `ring=64,256,1024`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varied {
    /// The host's key.
    pub key: String,
    /// Its values as text, at least one.
    pub values: Vec<String>,
}

impl std::str::FromStr for Varied {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || {
            let keys = crate::host::KEYS.join(", ");
            let form = format!("expected KEY=VALUE,VALUE,... such as \"ring=64,1024\" with one of the keys {keys}");
            ParseError::new("vary", text, form)
        };
        let (key, values) = text.split_once('=').ok_or_else(error)?;
        // Values that contain commas, such as queues=4 | 2:map=spread,cold=1.2, are separated by bars.
        let separator = if values.contains(BAR) { BAR } else { ',' };
        let values: Vec<String> = values.split(separator).map(|value| value.trim().to_owned()).collect();
        let key = key.trim();
        if !crate::host::KEYS.contains(&key) || values.iter().any(String::is_empty) {
            return Err(error());
        }
        Ok(Self { key: key.to_owned(), values })
    }
}

impl std::fmt::Display for Varied {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let apart = self.values.iter().any(|value| value.contains(','));
        write!(out, "{}={}", self.key, self.values.join(if apart { " | " } else { "," }))
    }
}

crate::units::serde_as_text!(Varied);

/// Frame sizes (bytes), rising, for an axis: the value of the key `sizes`.
///
/// # Errors
/// A size that is not one number of bytes, or an empty list.
pub(super) fn rising_bytes(sizes: &OneOrMore<FrameSizes>) -> Result<Vec<f64>, BadValue> {
    let one = |(index, size): (usize, &FrameSizes)| match size {
        FrameSizes::Fixed(bytes) => Ok(f64::from(*bytes)),
        other => {
            let message = format!("sizes: {other} has no place on an axis of frame sizes; expected sizes such as 64B");
            Err(BadValue::at("", "sizes", message).item(index))
        }
    };
    let mut sizes = sizes.0.iter().enumerate().map(one).collect::<Result<Vec<f64>, BadValue>>()?;
    sizes.sort_by(f64::total_cmp);
    if sizes.is_empty() {
        return Err(BadValue::at("", "sizes", "sizes: expected at least one"));
    }
    Ok(sizes)
}
