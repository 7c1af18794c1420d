//! [`Parameter`]: a scheme's parameter, and how its value is read and printed. The macro `parameters!` makes the tables
//! of parameters from the structs in `scheme`.

use crate::error::ParseError;
use crate::params::Params;
use crate::units;

/// Quantity and unit of a parameter's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Time (s).
    Time,
    /// Packets, frames or polls.
    Count,
    /// Rate (pps).
    Rate,
    /// A number without a unit.
    Number,
    /// `true` or `false`.
    Flag,
    /// A name.
    Text,
}

/// A parameter of a scheme, as users write it.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its key.
    pub key: &'static str,
    /// Unit of its value.
    pub unit: Unit,
    /// Its default value as text; None: off.
    pub default: Option<String>,
    /// Documentation of the parameter as one paragraph, with links replaced by their texts.
    pub help: String,
}

/// Reads and prints values of type `T`.
pub(super) trait Kind<T> {
    const UNIT: Unit;
    fn read(key: &str, text: &str) -> Result<T, ParseError>;
    /// The value as text; None if it is off.
    fn print(value: &T) -> Option<String>;
}

/// A time (s).
pub(super) struct Time;
/// A whole number.
pub(super) struct Count;
/// A rate (pps).
pub(super) struct Rate;
/// A number without a unit.
pub(super) struct Number;
/// A switch, `true` or `false`.
pub(super) struct Flag;
/// A name, parsed by the type of the field.
pub(super) struct Name;

/// Implements a kind for a type and for its `Option`.
macro_rules! kind {
    ($kind:ident, $unit:ident, $type:ty, |$key:ident, $text:ident| $read:expr, |$value:ident| $print:expr) => {
        impl Kind<$type> for $kind {
            const UNIT: Unit = Unit::$unit;
            fn read($key: &str, $text: &str) -> Result<$type, ParseError> {
                $read
            }
            fn print($value: &$type) -> Option<String> {
                Some($print)
            }
        }

        impl Kind<Option<$type>> for $kind {
            const UNIT: Unit = Unit::$unit;
            fn read(key: &str, text: &str) -> Result<Option<$type>, ParseError> {
                <Self as Kind<$type>>::read(key, text).map(Some)
            }
            fn print(value: &Option<$type>) -> Option<String> {
                value.as_ref().and_then(<Self as Kind<$type>>::print)
            }
        }
    };
}
kind!(Time, Time, f64, |_key, text| units::parse_time_s(text), |seconds| units::print_time_s(*seconds));
kind!(Rate, Rate, f64, |_key, text| units::parse_pps(text), |pps| units::print_pps(*pps));
kind!(Number, Number, f64, |_key, text| units::parse_share(text), |number| number.to_string());
kind!(Flag, Flag, bool, |key, text| units::parse_flag(key, text), |flag| flag.to_string());
kind!(Count, Count, u64, |key, text| units::parse_count(key, text), |count| count.to_string());
kind!(
    Count,
    Count,
    u32,
    |key, text| {
        let count = units::parse_count(key, text)?;
        count.try_into().map_err(|_| ParseError::new(key, text, "expected a whole number below 4294967296"))
    },
    |count| count.to_string()
);

impl<T: std::str::FromStr<Err = ParseError> + std::fmt::Display> Kind<T> for Name {
    const UNIT: Unit = Unit::Text;
    fn read(_: &str, text: &str) -> Result<T, ParseError> {
        text.parse()
    }
    fn print(value: &T) -> Option<String> {
        Some(value.to_string())
    }
}

/// (key, printed value) of each parameter; None: not printed.
pub(super) type Pairs = Vec<(&'static str, Option<String>)>;

/// Parameters that are read, printed and described by the rows of their struct.
pub(super) trait Parameters: Default {
    /// Reads the parameters that are given.
    fn read(params: &mut Params<'_>) -> Result<Self, ParseError>;
    /// The parameters as they are printed.
    fn pairs(&self) -> Pairs;
    /// Description of each parameter.
    fn described() -> Vec<Parameter>;
}

/// Joins lines of documentation to one paragraph.
pub(super) fn help(lines: &[&str]) -> String {
    let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let shown = lines.join(" ").replace("[`", "`").replace("`]", "`");
    [("`Scheme::DisableEnable`", "`disable-enable`"), ("`up_pps`", "`up`")]
        .iter()
        .fold(shown, |text, (name, meaning)| text.replace(name, meaning))
}

/// Makes a struct of a scheme's parameters, its `Default`, and the functions that read, print and describe it. A row is
/// a field with its default, its [`Kind`], its key, and when it is printed: `always`, or if `changed` from its default.
/// After the rows one field, marked `#[parameters]`, may hold a struct with further parameters, and one, marked
/// `#[unwritten]`, values that users do not write.
macro_rules! parameters {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $scheme:ident {
            $(
                $(#[doc = $help:literal])+
                pub $field:ident: $type:ty = $default:expr => $kind:ident($key:literal, $when:ident),
            )+
            $(
                #[parameters]
                $(#[doc = $inner_help:literal])+
                pub $inner:ident: $inner_type:ty,
            )?
            $(
                #[unwritten]
                $(#[doc = $hidden_help:literal])+
                pub $hidden:ident: $hidden_type:ty,
            )?
        }
    ) => {
        $(#[$attribute])*
        $visible struct $scheme {
            $(
                $(#[doc = $help])+
                pub $field: $type,
            )+
            $(
                $(#[doc = $inner_help])+
                pub $inner: $inner_type,
            )?
            $(
                $(#[doc = $hidden_help])+
                pub $hidden: $hidden_type,
            )?
        }

        impl Default for $scheme {
            fn default() -> Self {
                Self { $($field: $default,)+ $($inner: <$inner_type>::default(),)? $($hidden: <$hidden_type>::default(),)? }
            }
        }

        impl parameter::Parameters for $scheme {
            fn read(params: &mut crate::params::Params<'_>) -> Result<Self, crate::error::ParseError> {
                let mut own = Self::default();
                $(
                    if let Some(value) = params.read($key, |text| <$kind as Kind<$type>>::read($key, text))? {
                        own.$field = value;
                    }
                )+
                $(own.$inner = parameter::Parameters::read(params)?;)?
                Ok(own)
            }

            fn pairs(&self) -> parameter::Pairs {
                let default = Self::default();
                let pairs: parameter::Pairs = vec![$((
                    $key,
                    parameter::parameters!(@$when self.$field, default.$field)
                        .then(|| <$kind as Kind<$type>>::print(&self.$field)).flatten(),
                )),+];
                $(let pairs = [pairs, parameter::Parameters::pairs(&self.$inner)].concat();)?
                pairs
            }

            fn described() -> Vec<parameter::Parameter> {
                let default = Self::default();
                let own = vec![$(parameter::Parameter {
                    key: $key,
                    unit: <$kind as Kind<$type>>::UNIT,
                    default: <$kind as Kind<$type>>::print(&default.$field),
                    help: parameter::help(&[$($help),+]),
                }),+];
                $(let own = [own, <$inner_type as parameter::Parameters>::described()].concat();)?
                own
            }
        }
    };
    (@always $value:expr, $default:expr) => {{ let _ = &$default; true }};
    (@changed $value:expr, $default:expr) => { $value != $default };
}
pub(super) use parameters;
