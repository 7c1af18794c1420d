//! Text of numbers: three significant digits, a unit that leaves 1 to 999 before the point, intervals.

mod wrap;

pub use wrap::{command, lines, sentences};

use std::fmt::Write;

use netcliff_core::quote::is_unseen;
use netcliff_core::repeats::Known;
use netcliff_core::{Dimension, Figure, Interval, units};

/// Significant digits in a report, as `units::three_digits` rounds to.
const DIGITS: i32 = 3;

/// The quantity of a number, which decides its units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Packets per second.
    Pps,
    /// Bits per second.
    Bps,
    /// Seconds.
    Seconds,
    /// Seconds per byte.
    SecondsPerByte,
    /// Events per second (interrupts, polls).
    PerSecond,
    /// Request/response transactions per second.
    Transactions,
    /// A share of one, shown in percent.
    Share,
    /// Bytes.
    Bytes,
    /// A count of packets.
    Packets,
    /// A number without a unit.
    Number,
}

impl Unit {
    /// The unit that numbers of a dimension are written in.
    pub fn of(dimension: Dimension) -> Self {
        match dimension {
            Dimension::Pps => Self::Pps,
            Dimension::Bps => Self::Bps,
            Dimension::Seconds => Self::Seconds,
            Dimension::Share => Self::Share,
            Dimension::PerSecond => Self::PerSecond,
            Dimension::Bytes => Self::Bytes,
            Dimension::Number => Self::Number,
        }
    }

    /// The unit that a calibrated cost names (`s`, `s/B`, `packets`). With any other name, numbers have no unit.
    pub fn of_cost(name: &str) -> Self {
        match name {
            "s" => Self::Seconds,
            "s/B" => Self::SecondsPerByte,
            "packets" => Self::Packets,
            _ => Self::Number,
        }
    }

    /// The unit that the end of a JSON key names (`p99_s`, `wait_us`, `goodput_bps`, `link_share`), and the factor that
    /// converts the key's numbers to it. With any other key, numbers have no unit.
    pub fn of_key(key: &str) -> (Self, f64) {
        const ENDS: [(&str, Unit, f64); 11] = [
            ("_per_s", Unit::PerSecond, 1.0),
            ("_rps", Unit::PerSecond, 1.0),
            ("_s", Unit::Seconds, 1.0),
            ("_ms", Unit::Seconds, 1e-3),
            ("_us", Unit::Seconds, 1e-6),
            ("_ns", Unit::Seconds, 1e-9),
            ("_bps", Unit::Bps, 1.0),
            ("_pps", Unit::Pps, 1.0),
            ("_bytes", Unit::Bytes, 1.0),
            ("_share", Unit::Share, 1.0),
            ("_fraction", Unit::Share, 1.0),
        ];
        // A key of one or two letters, such as `s`, hardly names a unit.
        let names = |end: &str| key.ends_with(end) || key.len() > 2 && end.get(1..) == Some(key);
        ENDS.into_iter().find(|(end, ..)| names(end)).map_or((Self::Number, 1.0), |(_, unit, factor)| (unit, factor))
    }

    /// Scales of the unit, the largest first: the factor, and the suffix of numbers at this scale.
    pub(crate) fn scales(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Pps => &[(1e9, " Gpps"), (1e6, " Mpps"), (1e3, " kpps"), (1.0, " pps")],
            Self::Bps => &[(1e9, " Gbit/s"), (1e6, " Mbit/s"), (1e3, " kbit/s"), (1.0, " bit/s")],
            Self::Seconds => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " us"), (1e-9, " ns")],
            Self::SecondsPerByte => &[(1e-6, " us/B"), (1e-9, " ns/B"), (1e-12, " ps/B")],
            Self::PerSecond => &[(1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")],
            Self::Transactions => &[(1e6, " M transactions/s"), (1e3, " k transactions/s"), (1.0, " transactions/s")],
            Self::Share => &[(0.01, " %")],
            Self::Bytes => &[(1.0, " B")],
            Self::Packets => &[(1.0, " packets")],
            Self::Number => &[(1.0, "")],
        }
    }

    /// The scale (factor, unit) for `value`: the largest at which the rounded number is at least 1.
    pub fn scale(self, value: f64) -> (f64, &'static str) {
        let scales = self.scales();
        // 999.6 kpps rounds to 1000 kpps, which reads as 1.00 Mpps.
        let rounded = units::three_digits(value.abs());
        *scales.iter().find(|(factor, _)| rounded >= *factor * (1.0 - 1e-9)).unwrap_or(&scales[scales.len() - 1])
    }

    /// Decimals that leave three significant digits of `scaled`.
    fn decimals(self, scaled: f64) -> usize {
        let rounded = units::three_digits(scaled.abs());
        if rounded == 0.0 || (matches!(self, Self::Packets | Self::Bytes) && scaled.fract() == 0.0) {
            return 0;
        }
        (DIGITS - 1 - rounded.log10().floor() as i32).clamp(0, 9) as usize
    }
}

impl Unit {
    /// Replaces a value that is too small to have a meaning by 0: shares of one CPU sum to 1 within 1e-12, and a rate
    /// of 1e-9 per second is one event in 30 years.
    fn settled(self, value: f64) -> f64 {
        let least = match self {
            Self::Share => 1e-12,
            Self::Pps | Self::Bps | Self::PerSecond | Self::Transactions => 1e-9,
            _ => 0.0,
        };
        if value.abs() < least { 0.0 } else { value }
    }

    /// Writes `scaled` with the number of decimals that `lead` needs for three digits; with an exponent if `lead` is
    /// below 1e-4.
    fn digits(self, scaled: f64, lead: f64) -> String {
        let rounded = units::three_digits(lead.abs());
        match scaled {
            0.0 => "0".to_owned(),
            _ if rounded != 0.0 && rounded < 1e-4 => format!("{scaled:.2e}"),
            _ => format!("{scaled:.*}", self.decimals(lead)),
        }
    }
}

/// One scale for numbers that are read together: the same unit and, if they have no unit, the same exponent.
#[derive(Debug, Clone, PartialEq)]
pub struct CommonScale {
    factor: f64,
    suffix: String,
}

impl CommonScale {
    /// Numbers without a unit have no exponent if the largest is in this range.
    const PLAIN: std::ops::Range<f64> = 1e-3..1e6;

    /// The scale at which the largest of `values` has 1 to 999 before the point, or 1 to 9 before an exponent.
    pub fn of(values: impl IntoIterator<Item = f64>, unit: Unit) -> Self {
        let finite = values.into_iter().map(f64::abs).filter(|value| value.is_finite());
        let largest = units::three_digits(finite.fold(0.0, f64::max));
        if unit != Unit::Number || largest == 0.0 || Self::PLAIN.contains(&largest) {
            let (factor, suffix) = unit.scale(largest);
            return Self { factor, suffix: suffix.to_owned() };
        }
        let exponent = largest.log10().floor() as i32;
        Self { factor: 10_f64.powi(exponent), suffix: format!("e{exponent}") }
    }

    /// Decimals that leave `lead` three significant digits; 0 if all of `values` are whole numbers at this scale.
    pub fn decimals(&self, lead: f64, values: &[f64]) -> usize {
        let lead = units::three_digits((lead / self.factor).abs());
        if lead == 0.0 || !lead.is_finite() || values.iter().all(|value| (value / self.factor).fract() == 0.0) {
            return 0;
        }
        (DIGITS - 1 - lead.log10().floor() as i32).clamp(0, 9) as usize
    }

    /// A number with its unit; "-" unless finite.
    pub fn text(&self, value: f64, decimals: usize) -> String {
        if !value.is_finite() {
            return "-".to_owned();
        }
        format!("{}{}", self.number(value, decimals), self.suffix)
    }

    /// A number with its sign and its unit; "-" unless finite.
    pub fn signed(&self, value: f64, decimals: usize) -> String {
        let text = self.text(value, decimals);
        if value.is_finite() && !text.starts_with('-') { format!("+{text}") } else { text }
    }

    fn number(&self, value: f64, decimals: usize) -> String {
        let text = format!("{:.decimals$}", value / self.factor);
        // A zero has no minus.
        let is_zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
        if is_zero { text.trim_start_matches('-').to_owned() } else { text }
    }
}

/// A count with its noun: `1 request`, `2 requests`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Numbers of CPUs in ascending order, with their noun: `CPU 3`, `CPUs 0-1,4`.
pub fn cpus(cpus: &[u32]) -> String {
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {}", netcliff_core::units::print_cpus(cpus))
}

/// Three significant digits without an exponent: `0.812`, `41.2`, `906`. "-" unless finite.
pub fn significant(value: f64) -> String {
    quantity(value, Unit::Number)
}

/// A number with its unit: `412 kpps`, `0.812 us`, `8.40 %`. "-" unless finite.
pub fn quantity(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let value = unit.settled(value);
    let (factor, suffix) = unit.scale(value);
    format!("{}{suffix}", unit.digits(value / factor, value / factor))
}

/// A number with its sign: `+4.37 %`.
pub fn signed(value: f64, unit: Unit) -> String {
    let text = quantity(value, unit);
    if value.is_finite() && value >= 0.0 { format!("+{text}") } else { text }
}

/// A share in percent: `8.40 %`.
pub fn share(value: f64) -> String {
    quantity(value, Unit::Share)
}

/// A loss fraction: in percent down to 0.01 %, below that as `1e-5`.
pub fn loss(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-4 { format!("{value:.1e}").replace(".0e", "e") } else { share_short(value) }
}

/// Shares below this are written as `below 0.01 %`, because their digits do not matter.
const LEAST_SHARE: f64 = 1e-4;

/// A share without trailing zeros: `50 %`, `0.01 %`, `below 0.01 %`.
pub fn share_short(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value > 0.0 && value < LEAST_SHARE {
        return format!("below {} %", LEAST_SHARE * 100.0);
    }
    let percent = units::three_digits(value * 100.0);
    format!("{percent} %")
}

/// Precision of the means of configurations: the least and the greatest half width, and the requested one. `None` if no
/// half width is known.
pub fn known<'a>(known: impl IntoIterator<Item = &'a Known>) -> Option<String> {
    let known: Vec<(&Known, f64)> = known.into_iter().filter_map(|known| Some((known, known.half_width?))).collect();
    let (first, _) = known.first()?;
    let percent =
        |pick: fn(f64, f64) -> f64| share_short(known.iter().map(|(_, width)| *width).reduce(pick).unwrap_or(0.0));
    let (least, most) = (percent(f64::min), percent(f64::max));
    let widths = if least == most { least } else { format!("{least} to {most}") };
    let asked = first.asked.map_or(String::new(), |asked| format!(", {} asked for", share_short(asked)));
    let confidence = share_short(first.confidence);
    let figure = units::without_unit(&first.figure);
    Some(format!("the mean {figure} may be off by {widths} ({confidence} interval over the repeats{asked})"))
}

/// A word or sentence with a capital first letter.
pub(crate) fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The ends of an interval in the unit of its value, without the unit: `403-421`.
///
/// `dash` separates the ends. If the lower end is negative, `..` separates them, because a dash would look like a
/// minus.
pub fn ends(value: f64, interval: &Interval, unit: Unit, dash: &str) -> String {
    // Zero has no magnitude: the upper end then sets the unit.
    let value = unit.settled(value);
    let lead = if value == 0.0 { unit.settled(interval.high) } else { value };
    let (factor, _) = unit.scale(lead);
    let end = |end: f64| match end.is_finite() {
        true => unit.digits(unit.settled(end) / factor, lead / factor),
        false => "?".to_owned(),
    };
    let between = if interval.low < 0.0 { ".." } else { dash };
    format!("{}{between}{}", end(interval.low), end(interval.high))
}

/// A figure with the ends of its interval: `412 kpps (403-421)`. A computed figure has no interval. The ends of a zero
/// have their unit, too: without it, `0 % (0-0.0300)` reads like a share of 3 %.
pub fn figure(figure: &Figure, unit: Unit) -> String {
    let Some(ends) = interval(figure, unit, "-") else { return value(figure, unit) };
    let high = figure.interval.map_or(0.0, |interval| unit.settled(interval.high));
    let is_bare = unit.settled(figure.value) == 0.0 && high != 0.0 && high.is_finite();
    let of_ends = if is_bare { unit.scale(high).1 } else { "" };
    format!("{} ({ends}{of_ends})", value(figure, unit))
}

/// The confidence of an interval: `95 % confidence`. `None` if it is unknown (0).
pub fn confidence(confidence: f64) -> Option<String> {
    (confidence > 0.0).then(|| format!("{} confidence", share_short(confidence)))
}

/// A figure with its interval and the confidence of the interval: `412 kpps (403-421, 95 % confidence)`. A figure
/// without an interval says so.
pub fn with_confidence(figure: &Figure, unit: Unit) -> String {
    let text = self::figure(figure, unit);
    let Some(ends) = figure.interval else { return format!("{text} (no interval)") };
    let sure = confidence(ends.confidence).unwrap_or_else(|| "confidence unknown".to_owned());
    match text.strip_suffix(')') {
        Some(open) => format!("{open}, {sure})"),
        None => text,
    }
}

/// A figure's value alone. A zero takes the unit of its interval, so that both can be read together.
pub fn value(figure: &Figure, unit: Unit) -> String {
    match figure.interval {
        Some(interval) if unit.settled(figure.value) == 0.0 && interval.high.is_finite() => {
            format!("0{}", unit.scale(interval.high).1)
        }
        _ => quantity(figure.value, unit),
    }
}

/// The ends of a figure's interval, if it has one.
pub fn interval(figure: &Figure, unit: Unit, dash: &str) -> Option<String> {
    figure.value.is_finite().then(|| figure.interval.map(|i| ends(figure.value, &i, unit, dash)))?
}

/// A figure with its half width: `412 ± 9 kpps`. If the interval is not symmetric, with its ends instead.
pub fn plus_minus(figure: &Figure, unit: Unit) -> String {
    let Some(interval) = figure.interval.filter(|_| figure.value.is_finite()) else {
        return value(figure, unit);
    };
    let (below, above) = (figure.value - interval.low, interval.high - figure.value);
    // A difference of the two half widths that comes from rounding does not count.
    let rounding = 1e-9 * figure.value.abs();
    if figure.value == 0.0 || !above.is_finite() || (below - above).abs() > 0.02 * (below + above) + rounding {
        return self::figure(figure, unit);
    }
    let (factor, suffix) = unit.scale(figure.value);
    let scaled = figure.value / factor;
    let decimals = unit.decimals(scaled);
    format!("{scaled:.decimals$} ± {:.decimals$}{suffix}", above / factor)
}

/// A date, given in seconds since the epoch, as `2026-10-07 14:02:31 UTC`; "-" if it is not a date.
pub fn date_utc(unix_s: f64) -> String {
    let whole = unix_s.is_finite().then_some(unix_s.floor() as i64);
    match whole.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()) {
        Some(moment) => format!("{} UTC", moment.to_string().replace('T', " ").trim_end_matches('Z')),
        None => "-".to_owned(),
    }
}

/// A span of time without fractions: `40 s`, `12 min`, `5 h`, `40 days`.
pub fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// `text` in which each invisible character becomes U+FFFD, because it would control a terminal, change the direction
/// of a line, or break XML. Line ends and tabs stay.
pub fn printable(text: &str) -> String {
    let clean = |c: char| if is_unseen(c) && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(clean).collect()
}

/// Like [`printable`], but keeps the escape sequences for weight and colour that pages contain.
pub fn printable_but_styles(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        clean.push_str(&printable(&rest[..at]));
        let end = rest[at + 1..].strip_prefix('[').and_then(|code| {
            let digits = code.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
            (digits <= LONGEST_STYLE && code.as_bytes().get(digits) == Some(&b'm')).then_some(at + 2 + digits + 1)
        });
        let end = end.unwrap_or_else(|| {
            clean.push('\u{fffd}');
            at + 1
        });
        if end > at + 1 {
            clean.push_str(&rest[at..end]);
        }
        rest = &rest[end..];
    }
    clean + &printable(rest)
}

/// Largest number of characters in an escape sequence of weight or colour.
const LONGEST_STYLE: usize = 16;

/// JSON in which every character is visible or escaped. JSON allows C1, DEL and characters that change the direction of
/// text in its strings, but a terminal would obey them. Line ends between values stay.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) && c != '\n' {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(safe, "\\u{unit:04x}"));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Formats an amount of bytes in decimal units (kB, MB, GB). 8 times the bytes per second is then the rate shown next
/// to it.
pub fn amount(bytes: u64) -> String {
    let scales = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let scale = scales.into_iter().find(|(factor, _)| bytes as f64 >= *factor);
    scale.map_or(format!("{bytes} B"), |(factor, unit)| format!("{} {unit}", significant(bytes as f64 / factor)))
}

#[cfg(test)]
mod tests;
