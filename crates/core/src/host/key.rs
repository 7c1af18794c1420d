//! What a key of a host is: its unit, how its value is read, checked and shown. The rows are in `host`, made by `keys!`.

use std::str::FromStr;

use super::{Host, MOST_DROP_COST};
use crate::bounds;
use crate::error::{Invalid, ParseError};
use crate::units;

/// What the value of a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time (s).
    Time,
    /// Slots of a ring.
    Slots,
    /// Packets.
    Packets,
    /// A ratio.
    Ratio,
    /// No figure.
    Text,
}

/// A key of `--set` and of a host file.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What its value counts.
    pub unit: Unit,
    /// Whether `none` takes it away.
    pub takes_none: bool,
    /// Lines of its documentation.
    pub(super) help: &'static [&'static str],
    /// Sets it; the error names the value and the accepted form, not the key.
    pub(super) set: fn(&mut Host, &str) -> Result<(), ParseError>,
    /// Its figure (s, packets or a ratio) as the engines take it; None: it is not modelled, or a text.
    pub(super) figure: fn(&Host) -> Option<f64>,
    /// Checks it by itself.
    pub(super) check: fn(&Host) -> Result<(), Invalid>,
}

impl Key {
    /// Its documentation as one paragraph, links as what they show.
    pub fn help(&self) -> String {
        let lines: Vec<&str> = self.help.iter().map(|line| line.trim()).collect();
        let shown = lines.join(" ").replace("[`", "`").replace("`]", "`");
        let figures = [
            ("`MOST_DROP_COST`", MOST_DROP_COST.to_string()),
            ("`Host::SENDER_QUEUE`", Host::SENDER_QUEUE.to_string()),
            ("`Host::TRANSMIT_RING`", Host::TRANSMIT_RING.to_string()),
        ];
        figures.iter().fold(shown, |text, (name, figure)| text.replace(name, figure))
    }
}

/// How a value of the type `T` is read and checked.
pub(super) trait Kind<T> {
    /// What it counts, and whether `none` takes it away.
    const FORM: (Unit, bool);
    fn read(key: &str, text: &str) -> Result<T, ParseError>;
    fn figure(value: &T) -> Option<f64>;
    fn check(key: &str, value: &T) -> Result<(), Invalid>;
}

/// 0, or a time (s).
pub(super) struct Time;
/// A time above 0 (s).
pub(super) struct Period;
/// Slots of a ring, at least one.
pub(super) struct Slots;
/// Packets, at least one.
pub(super) struct Packets;
/// A ratio from 0 to [`MOST_DROP_COST`].
pub(super) struct Ratio;
/// A text of a type of its own; `none` takes an optional one away.
pub(super) struct Text;
/// A text of a type of its own, which `none` does not take away.
pub(super) struct Choice;

fn unless_none<T>(text: &str, read: impl FnOnce() -> Result<T, ParseError>) -> Result<Option<T>, ParseError> {
    if text == "none" { Ok(None) } else { read().map(Some) }
}

/// A kind of time, which may be absent.
macro_rules! times {
    ($kind:ident, $check:path) => {
        impl Kind<f64> for $kind {
            const FORM: (Unit, bool) = (Unit::Time, false);
            fn read(_: &str, text: &str) -> Result<f64, ParseError> {
                units::parse_time_s(text)
            }
            fn figure(seconds: &f64) -> Option<f64> {
                Some(*seconds)
            }
            fn check(key: &str, seconds: &f64) -> Result<(), Invalid> {
                $check(key, *seconds)
            }
        }

        impl Kind<Option<f64>> for $kind {
            const FORM: (Unit, bool) = (Unit::Time, true);
            fn read(_: &str, text: &str) -> Result<Option<f64>, ParseError> {
                unless_none(text, || units::parse_time_s(text))
            }
            fn figure(seconds: &Option<f64>) -> Option<f64> {
                *seconds
            }
            fn check(key: &str, seconds: &Option<f64>) -> Result<(), Invalid> {
                seconds.map_or(Ok(()), |seconds| $check(key, seconds))
            }
        }
    };
}
times!(Time, bounds::time_or_none);
times!(Period, bounds::time);

/// A kind of count. One that may be absent is checked where its neighbours are known (`sides`).
macro_rules! counts {
    ($kind:ident, $what:literal) => {
        impl Kind<u64> for $kind {
            const FORM: (Unit, bool) = (Unit::$kind, false);
            fn read(key: &str, text: &str) -> Result<u64, ParseError> {
                units::parse_count(key, text)
            }
            fn figure(count: &u64) -> Option<f64> {
                Some(*count as f64)
            }
            fn check(key: &str, count: &u64) -> Result<(), Invalid> {
                bounds::packets(key, *count, $what)
            }
        }

        impl Kind<Option<u64>> for $kind {
            const FORM: (Unit, bool) = (Unit::$kind, true);
            fn read(key: &str, text: &str) -> Result<Option<u64>, ParseError> {
                unless_none(text, || units::parse_count(key, text))
            }
            fn figure(count: &Option<u64>) -> Option<f64> {
                count.map(|count| count as f64)
            }
            fn check(_: &str, _: &Option<u64>) -> Result<(), Invalid> {
                Ok(())
            }
        }
    };
}
counts!(Slots, "slots");
counts!(Packets, "packets");

impl Kind<f64> for Ratio {
    const FORM: (Unit, bool) = (Unit::Ratio, false);
    fn read(_: &str, text: &str) -> Result<f64, ParseError> {
        units::parse_share(text)
    }
    fn figure(ratio: &f64) -> Option<f64> {
        Some(*ratio)
    }
    fn check(key: &str, ratio: &f64) -> Result<(), Invalid> {
        if (0.0..=MOST_DROP_COST).contains(ratio) {
            return Ok(());
        }
        Err(Invalid::new(key, ratio, format!("must be a ratio from 0 to {MOST_DROP_COST}")))
    }
}

/// A kind of text; what it holds is checked by its own type.
macro_rules! texts {
    ($kind:ident, $type:ty, $takes_none:literal, |$text:ident| $read:expr) => {
        impl<T: FromStr<Err = ParseError>> Kind<$type> for $kind {
            const FORM: (Unit, bool) = (Unit::Text, $takes_none);
            fn read(_: &str, $text: &str) -> Result<$type, ParseError> {
                $read
            }
            fn figure(_: &$type) -> Option<f64> {
                None
            }
            fn check(_: &str, _: &$type) -> Result<(), Invalid> {
                Ok(())
            }
        }
    };
}
texts!(Text, Option<T>, true, |text| unless_none(text, || text.parse()));
texts!(Choice, Option<T>, false, |text| text.parse().map(Some));

impl Kind<super::Service> for Text {
    const FORM: (Unit, bool) = (Unit::Text, false);
    fn read(_: &str, text: &str) -> Result<super::Service, ParseError> {
        text.parse()
    }
    fn figure(_: &super::Service) -> Option<f64> {
        None
    }
    fn check(_: &str, _: &super::Service) -> Result<(), Invalid> {
        Ok(())
    }
}

/// Makes a struct of a host's fields, its `Default`, and the table of its keys. A row is a field as in any struct, with what it is
/// where a host file does not name it, its [`Kind`], its key, and, where the engines take another figure than the field, that figure.
macro_rules! keys {
    (
        $(#[$attribute:meta])*
        pub struct $host:ident {
            $(#[doc = $named:literal])+
            #[serde($($by:tt)*)]
            pub name: String,
            $(
                $(#[doc = $help:literal])+
                #[serde($($serde:tt)*)]
                $(#[cfg_attr($($schema:tt)*)])?
                pub $field:ident: $type:ty = $default:expr => $kind:ident($key:literal $(, $figure:expr)?),
            )+
        }
    ) => {
        $(#[$attribute])*
        pub struct $host {
            $(#[doc = $named])+
            #[serde($($by)*)]
            pub name: String,
            $(
                $(#[doc = $help])+
                #[serde($($serde)*)]
                $(#[cfg_attr($($schema)*)])?
                pub $field: $type,
            )+
        }

        /// What a host file has where it names nothing, a function a field.
        mod defaults {
            use super::*;
            $(pub(super) fn $field() -> $type { $default })+
        }

        /// What a host file has where it names nothing: packets that cost nothing, in the usual sizes. Costs of a machine are for a
        /// preset, a file or calibration; this is what they are set on.
        impl Default for $host {
            fn default() -> Self {
                Self { name: String::new(), $($field: defaults::$field(),)+ }
            }
        }

        /// The keys of `--set` and of a host file.
        pub const KEYS: &[&str] = &[$($key),+];

        /// What each of [`KEYS`] is.
        pub static TABLE: &[Key] = &[$(
            Key {
                name: $key,
                unit: <$kind as Kind<$type>>::FORM.0,
                takes_none: <$kind as Kind<$type>>::FORM.1,
                help: &[$($help),+],
                set: |host, text| {
                    host.$field = <$kind as Kind<$type>>::read($key, text)?;
                    Ok(())
                },
                figure: key::keys!(@figure $kind, $type, $field $(, $figure)?),
                check: |host| <$kind as Kind<$type>>::check($key, &host.$field),
            },
        )+];
    };
    (@figure $kind:ident, $type:ty, $field:ident) => { |host| <$kind as Kind<$type>>::figure(&host.$field) };
    (@figure $kind:ident, $type:ty, $field:ident, $figure:expr) => { $figure };
}
pub(super) use keys;
