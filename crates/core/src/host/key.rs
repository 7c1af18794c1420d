//! [`Key`]: unit, parsing, checks and text of a host's key. The macro `keys!` makes the table of keys in `host`.

use std::str::FromStr;

use super::{Host, MOST_DROP_COST};
use crate::bounds;
use crate::error::{Invalid, ParseError};
use crate::units;

/// Quantity and unit of a key's value.
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
    /// Not a number.
    Text,
}

/// Kind of CPU work. The speed of each kind can change independently of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Interrupts and softirqs.
    Softirq,
    /// The application.
    Application,
}

/// How a time of the host changes with the machine's speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role {
    /// The kind of CPU work that the time belongs to. `None`: the time does not depend on the CPU's speed.
    pub part: Option<Part>,
    /// Whether the time is longer on a core that is shared with another vector or a hyper-thread (`queues`).
    pub grows_on_shared_core: bool,
    /// Whether sensitivities vary the time.
    pub varied: bool,
}

impl Role {
    /// The value does not depend on the machine's speed, or is not a time.
    pub(super) const FIXED: Self = Self { part: None, grows_on_shared_core: false, varied: false };
    /// CPU time of interrupts and softirqs.
    pub(super) const SOFTIRQ: Self = Self { part: Some(Part::Softirq), grows_on_shared_core: true, varied: true };
    /// CPU time of the application.
    pub(super) const APPLICATION: Self = Self { part: Some(Part::Application), ..Self::SOFTIRQ };
    /// Additional CPU time of softirqs if the socket is full.
    pub(super) const COLD_SOFTIRQ: Self = Self { grows_on_shared_core: false, ..Self::SOFTIRQ };
    /// Additional CPU time of the application if the socket is full.
    pub(super) const COLD_APPLICATION: Self = Self { grows_on_shared_core: false, ..Self::APPLICATION };
    /// Part of an interrupt that the application pays.
    pub(super) const RESUME: Self = Self { varied: false, ..Self::COLD_APPLICATION };
    /// A time in which the CPU does not work for packets.
    pub(super) const WAIT: Self = Self { varied: true, ..Self::FIXED };
}

/// A key of `--set` and of a host file.
#[derive(Debug)]
pub struct Key {
    /// Its name in host files and in `--set`.
    pub name: &'static str,
    /// Unit of its value.
    pub unit: Unit,
    /// True if the value `none` removes it.
    pub takes_none: bool,
    /// How the value changes with the machine, if it is a time.
    pub role: Role,
    /// Its name on pages, such as `wake-up of the program`; keys of texts have no other name.
    pub words: &'static str,
    /// Lines of its documentation.
    pub(super) help: &'static [&'static str],
    /// Parses and sets the value; the error names the value and the accepted form, but not the key.
    pub(super) set: fn(&mut Host, &str) -> Result<(), ParseError>,
    /// The number that the engines use (s, packets or a ratio). None: not modelled, or a text.
    pub(super) figure: fn(&Host) -> Option<f64>,
    /// Checks the range of the value.
    pub(super) check: fn(&Host) -> Result<(), Invalid>,
    /// See [`Key::time_mut`].
    pub(super) time: fn(&mut Host) -> Option<&mut f64>,
}

impl Key {
    /// Returns the host's value of this key (s), to be changed. `None` if the key is not a time, or the host lacks the
    /// value.
    pub fn time_mut<'a>(&self, host: &'a mut Host) -> Option<&'a mut f64> {
        (self.time)(host)
    }

    /// Returns the key's documentation as one paragraph, with links replaced by their texts.
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

/// Parses and checks values of type `T`.
pub(super) trait Kind<T> {
    /// Unit of the value, and whether `none` removes it.
    const FORM: (Unit, bool);
    fn read(key: &str, text: &str) -> Result<T, ParseError>;
    fn figure(value: &T) -> Option<f64>;
    fn check(key: &str, value: &T) -> Result<(), Invalid>;
    fn time(_: &mut T) -> Option<&mut f64> {
        None
    }
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
/// A text, parsed by its type; `none` removes an optional one.
pub(super) struct Text;
/// A text, parsed by its type, which `none` does not remove.
pub(super) struct Choice;

fn unless_none<T>(text: &str, read: impl FnOnce() -> Result<T, ParseError>) -> Result<Option<T>, ParseError> {
    if text == "none" { Ok(None) } else { read().map(Some) }
}

/// Implements a kind for times, required and optional.
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
            fn time(seconds: &mut f64) -> Option<&mut f64> {
                Some(seconds)
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
            fn time(seconds: &mut Option<f64>) -> Option<&mut f64> {
                seconds.as_mut()
            }
        }
    };
}
times!(Time, bounds::time_or_none);
times!(Period, bounds::time);

/// Implements a kind for counts, required and optional. Optional counts depend on other keys and are checked in
/// `sides`.
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

/// Implements a kind for texts, which their own types check.
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

/// Makes the struct of a host's fields, its `Default`, and the table of its keys. A row is a field with its default
/// value, its [`Kind`], its key and, except for texts, the key in words. If the engines use another number than the
/// field's, that number follows; after `as` comes the [`Role`] of a time that changes with the machine.
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
                pub $field:ident: $type:ty = $default:expr =>
                    $kind:ident($key:literal $(= $words:literal)? $(, $figure:expr)?) $(as $role:ident)?,
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

        /// Default values of the fields, one function each.
        mod defaults {
            use super::*;
            $(pub(super) fn $field() -> $type { $default })+
        }

        /// A host whose packets cost nothing, with the usual sizes: the base for presets, host files and calibration,
        /// which set the costs of a machine.
        impl Default for $host {
            fn default() -> Self {
                Self { name: String::new(), $($field: defaults::$field(),)+ }
            }
        }

        /// The keys of `--set` and of a host file.
        pub const KEYS: &[&str] = &[$($key),+];

        /// One row for each of [`KEYS`].
        pub static TABLE: &[Key] = &[$(
            Key {
                name: $key,
                unit: <$kind as Kind<$type>>::FORM.0,
                takes_none: <$kind as Kind<$type>>::FORM.1,
                role: key::keys!(@role $($role)?),
                words: key::keys!(@words $key $(= $words)?),
                help: &[$($help),+],
                set: |host, text| {
                    host.$field = <$kind as Kind<$type>>::read($key, text)?;
                    Ok(())
                },
                figure: key::keys!(@figure $kind, $type, $field $(, $figure)?),
                check: |host| <$kind as Kind<$type>>::check($key, &host.$field),
                time: |host| <$kind as Kind<$type>>::time(&mut host.$field),
            },
        )+];
    };
    (@role) => { Role::FIXED };
    (@role $role:ident) => { Role::$role };
    (@words $key:literal) => { $key };
    (@words $key:literal = $words:literal) => { $words };
    (@figure $kind:ident, $type:ty, $field:ident) => { |host| <$kind as Kind<$type>>::figure(&host.$field) };
    (@figure $kind:ident, $type:ty, $field:ident, $figure:expr) => { $figure };
}
pub(super) use keys;
