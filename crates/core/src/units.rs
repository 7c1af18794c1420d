//! Quantities with units. Printing and parsing move the decimal point instead of multiplying by a power of ten, so that
//! `parse(print(x)) == x` exactly.
//!
//! Rates use powers of 10 (k = 1000), memory uses KiB, MiB and GiB. Numbers are finite and not negative.

use crate::error::ParseError;

/// Implements serde by `Display` and `FromStr`, for types that people write as text.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                out.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(input)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string"})
            }
        }
    };
}
pub(crate) use serde_as_text;

/// A kind of quantity: name, example, and units as powers of ten, the base unit first.
struct Kind {
    what: &'static str,
    example: &'static str,
    /// (suffix, power of ten, true if it is also used for printing).
    units: &'static [(&'static str, i32, bool)],
}

const TIME: Kind = Kind {
    what: "time",
    example: "a number and ns, us, ms, s, min or h, such as \"20us\"",
    units: &[
        ("s", 0, true),
        ("ms", -3, true),
        ("us", -6, true),
        ("ns", -9, true),
        ("µs", -6, false),
        ("μs", -6, false),
    ],
};
/// Units of time that are not powers of ten seconds; accepted, but printed in seconds.
const LONG_TIMES: &[(&str, f64)] = &[("min", 60.0), ("h", 3600.0)];
const PACKET_RATE: Kind = Kind {
    what: "packet rate",
    example: "a number and pps, kpps or Mpps, such as \"120kpps\"",
    units: &[
        ("pps", 0, true),
        ("kpps", 3, true),
        ("Mpps", 6, true),
        ("Gpps", 9, true),
        // For packet rates a prefix without a unit is unambiguous.
        ("k", 3, false),
        ("M", 6, false),
    ],
};
const BIT_RATE: Kind = Kind {
    what: "bit rate",
    example: "a number and bit/s, kbit/s, Mbit/s or Gbit/s, such as \"1.5Gbit/s\"",
    units: &[
        ("bit/s", 0, true),
        ("kbit/s", 3, true),
        ("Mbit/s", 6, true),
        ("Gbit/s", 9, true),
        ("Tbit/s", 12, true),
        ("kbps", 3, false),
        ("Mbps", 6, false),
        ("Gbps", 9, false),
    ],
};
const BYTE_RATE: Kind = Kind {
    what: "byte rate",
    example: "a number and B/s, kB/s, MB/s or GB/s, such as \"10GB/s\"",
    units: &[("B/s", 0, true), ("kB/s", 3, true), ("MB/s", 6, true), ("GB/s", 9, true), ("TB/s", 12, true)],
};

impl Kind {
    fn error(&self, text: &str) -> ParseError {
        ParseError::new(self.what, text, format!("expected {}", self.example))
    }

    /// The value in base units.
    fn parse(&self, text: &str) -> Result<f64, ParseError> {
        let (number, suffix) = split_suffix(text.trim());
        let unit = self.units.iter().find(|(name, ..)| *name == suffix);
        // Zero needs no unit.
        let power = match unit {
            Some((_, power, _)) => *power,
            None if suffix.is_empty() && number.parse() == Ok(0.0) => 0,
            None => return Err(self.error(text)),
        };
        scaled(number, power).ok_or_else(|| self.error(text))
    }

    /// The shortest text that parses to `value`, with the unit that gives 1 to 999 before the decimal point.
    fn print(&self, value: f64) -> String {
        let Some((digits, exponent)) = decimal(value) else { return format!("0{}", self.units[0].0) };
        let mut printed: Vec<_> = self.units.iter().filter(|u| u.2).collect();
        printed.sort_by_key(|u| u.1);
        let (suffix, power, _) =
            printed.iter().rev().find(|u| u.1 <= exponent).or_else(|| printed.first()).expect("a kind has units");
        format!("{}{suffix}", place_point(&digits, exponent - power))
    }
}

/// Splits "3.73 us" into "3.73" and "us"; an exponent is part of the number.
fn split_suffix(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent_sign = end > 0
            && matches!(bytes[end - 1], b'e' | b'E')
            && matches!(bytes[end], b'+' | b'-')
            && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        let exponent_mark = matches!(bytes[end], b'e' | b'E')
            && end > 0
            && bytes.get(end + 1).is_some_and(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-'));
        if bytes[end].is_ascii_digit() || bytes[end] == b'.' || exponent_sign || exponent_mark {
            end += 1;
        } else {
            break;
        }
    }
    (&text[..end], text[end..].trim_start())
}

/// Returns `number` (decimal) times ten to the `power`, correctly rounded; `None` if it has a sign, is not a number or
/// is not finite.
fn scaled(number: &str, power: i32) -> Option<f64> {
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (number, 0),
    };
    if !mantissa.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value: f64 = format!("{mantissa}e{}", exponent.checked_add(power)?).parse().ok()?;
    value.is_finite().then_some(value)
}

/// Shortest digits and decimal exponent of a positive number: 0.00000373 is ("373", -6). None for zero.
fn decimal(value: f64) -> Option<(String, i32)> {
    if value == 0.0 {
        return None;
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    Some((mantissa.replace('.', ""), exponent.parse().ok()?))
}

/// Writes `digits` as a decimal number whose first digit has the place value 10^`exponent`: ("373", -6) is 0.00000373.
fn place_point(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        format!("{digits}{}", "0".repeat(whole - digits.len()))
    } else {
        format!("{}.{}", &digits[..whole], &digits[whole..])
    }
}

/// Reads a time in seconds: `"20us"`, `"3.73 us"`, `"5min"`.
pub fn parse_time_s(text: &str) -> Result<f64, ParseError> {
    let (number, suffix) = split_suffix(text.trim());
    let Some((_, each_s)) = LONG_TIMES.iter().find(|(name, _)| *name == suffix) else { return TIME.parse(text) };
    let seconds = scaled(number, 0).map(|count| count * each_s).filter(|seconds| seconds.is_finite());
    seconds.ok_or_else(|| TIME.error(text))
}

/// Prints a time given in seconds.
pub fn print_time_s(seconds: f64) -> String {
    TIME.print(seconds)
}

/// Prints a time given in seconds for a sentence, with at most four digits.
pub fn print_short_time_s(seconds: f64) -> String {
    print_time_s(format!("{seconds:.3e}").parse().unwrap_or(seconds))
}

/// Reads a packet rate in packets per second: `"120kpps"`.
pub fn parse_pps(text: &str) -> Result<f64, ParseError> {
    PACKET_RATE.parse(text)
}

/// Rounds to three significant digits; 0 and infinite values stay unchanged.
pub fn three_digits(figure: f64) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return figure;
    }
    // By decimal digits: multiplying by a power of ten would give 300.00000000000006.
    format!("{figure:.2e}").parse().unwrap_or(figure)
}

/// Prints a packet rate given in packets per second.
pub fn print_pps(pps: f64) -> String {
    PACKET_RATE.print(pps)
}

/// Prints a packet rate for a sentence: three significant digits, and a space before the unit.
pub fn print_short_pps(pps: f64) -> String {
    let text = print_pps(three_digits(pps));
    let at = text.find(char::is_alphabetic).unwrap_or(text.len());
    format!("{} {}", &text[..at], &text[at..])
}

/// Reads a bit rate in bit/s: `"1.5Gbit/s"`.
pub fn parse_bps(text: &str) -> Result<f64, ParseError> {
    BIT_RATE.parse(text)
}

/// Prints a bit rate given in bit/s.
pub fn print_bps(bps: f64) -> String {
    BIT_RATE.print(bps)
}

/// Reads a byte rate in byte/s: `"10GB/s"`.
pub fn parse_byte_rate(text: &str) -> Result<f64, ParseError> {
    BYTE_RATE.parse(text)
}

/// Prints a byte rate given in byte/s.
pub fn print_byte_rate(bytes_per_s: f64) -> String {
    BYTE_RATE.print(bytes_per_s)
}

const MEMORY: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads a size in bytes: `"64B"`, `"208KiB"`, `"1.5MiB"` (a whole number of bytes).
pub fn parse_bytes(text: &str) -> Result<u64, ParseError> {
    let error = || {
        ParseError::new(
            "size",
            text,
            "expected a whole number of bytes with B, KiB, MiB or GiB, such as \"64B\" or \"4MiB\"",
        )
    };
    let (number, suffix) = split_suffix(text.trim());
    let factor = MEMORY.iter().find(|(name, _)| *name == suffix).map(|(_, factor)| *factor).ok_or_else(error)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(error);
    }
    let bytes = scaled(number, 0).ok_or_else(error)? * factor as f64;
    (bytes.fract() == 0.0 && bytes < 9e15).then_some(bytes as u64).ok_or_else(error)
}

/// Prints a size in the largest unit that divides it.
pub fn print_bytes(bytes: u64) -> String {
    let (suffix, factor) =
        MEMORY.iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)).unwrap_or(&MEMORY[3]);
    format!("{}{suffix}", bytes / factor)
}

/// Reads a share: `"40%"` is 0.4; a number without `%` is the share itself.
pub fn parse_share(text: &str) -> Result<f64, ParseError> {
    let error = || ParseError::new("share", text, "expected a percentage such as \"40%\" or a number such as \"0.4\"");
    let (number, suffix) = split_suffix(text.trim());
    match suffix {
        "%" => scaled(number, -2).ok_or_else(error),
        "" => scaled(number, 0).ok_or_else(error),
        _ => Err(error()),
    }
}

/// Prints a share as a percentage.
pub fn print_share(share: f64) -> String {
    match decimal(share) {
        Some((digits, exponent)) => format!("{}%", place_point(&digits, exponent + 2)),
        None => "0%".to_owned(),
    }
}

/// Reads a whole number; `what` names the quantity in the error.
pub fn parse_count(what: &str, text: &str) -> Result<u64, ParseError> {
    text.trim()
        .replace('_', "")
        .parse()
        .map_err(|_| ParseError::new(what, text, "expected a whole number such as \"64\""))
}

/// Reads `true` or `false`.
pub fn parse_flag(what: &str, text: &str) -> Result<bool, ParseError> {
    match text.trim() {
        "true" | "on" | "yes" => Ok(true),
        "false" | "off" | "no" => Ok(false),
        _ => Err(ParseError::new(what, text, "expected true or false")),
    }
}

/// serde for `f64` seconds written as `"20us"`: `#[serde(with = "units::time_s")]`.
pub mod time_s {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    /// Writes seconds with their unit.
    pub fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&super::print_time_s(*value))
    }

    struct Text;

    impl Visitor<'_> for Text {
        type Value = f64;

        fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(out, "{} in quotes", super::TIME.example)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
            super::parse_time_s(text).map_err(E::custom)
        }
    }

    /// Reads seconds with their unit.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
        input.deserialize_str(Text)
    }
}

/// A figure's key without the unit at its end: `goodput_bps` is `goodput`, `rate_per_s` is `rate`.
pub fn without_unit(key: &str) -> &str {
    const UNITS: [&str; 9] = ["_per_s", "_rps", "_s", "_ms", "_us", "_ns", "_bps", "_pps", "_bytes"];
    UNITS.iter().find_map(|unit| key.strip_suffix(unit)).unwrap_or(key)
}

/// Formats a sorted set of CPUs as the kernel's list (`0-3,8`).
pub fn print_cpus(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[u32]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
