//! [`Experiment`]: a computation or measurement and its figure, as a TOML file describes them.
//!
//! One file format for several kinds, selected by the key `kind`. [`Grid`] (the default): engines evaluate points.
//! [`Mlfrr`]: two formulas of the maximum loss-free receive rate. [`Roofline`]: upper bounds by link, bus and CPU.
//! Their results are [`Curve`]s on [`Axes`]. [`Transfers`]: real transfers with settings varied by a [`Design`].
//! [`Forwarding`]: a router in several set-ups. All kinds share `title`, `[figure]` and `[[mark]]`.

mod curve;
mod design;
mod figure;
mod file;
mod forwarding;
mod grid;
mod hosts;
mod mark;
mod mlfrr;
mod roofline;
mod transfers;
mod values;

use serde::{Deserialize, Serialize};

use crate::outcome::Measure;
use mark::Ruled;

pub use curve::{Answerer, Curve, Dot};
pub use design::{CONFIGURATIONS_AT_MOST, Design};
pub use figure::{Across, Axes, Axis, Ends, FigureSection, Scale};
pub use file::{BadValue, FileError, Step, parse_toml};
pub use forwarding::{Forwarding, SetUp};
pub use grid::{Grid, Task, TrafficSection};
pub use hosts::{DeviceSection, HostSection};
pub use mark::{Check, Compared, Mark, MarkSection, MarkVerdict, Quantity, Than, checks, is_called};
pub use mlfrr::{FluidTraffic, Mlfrr, Polled, PollingSection};
pub use roofline::Roofline;
pub use transfers::{
    Coalesce, Factor, Feature, Key, Lack, Pause, QdiscKind, Setting, TransferFigure, TransferMeasure, Transfers,
    curve_name,
};
pub use values::{OneOrMore, Rates, Share, Varied};

/// Accepted numbers of arrivals per simulated point.
pub const PACKETS_RANGE: std::ops::RangeInclusive<u64> = 1_000..=100_000_000_000;

/// Values of the key `kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum KindTag {
    /// Points that engines evaluate.
    #[default]
    Grid,
    /// The maximum loss-free receive rate, by formula.
    Mlfrr,
    /// Upper bounds by link, bus and CPU.
    Roofline,
    /// Real transfers with some settings varied.
    Transfer,
    /// A router's throughput in several set-ups.
    Forwarding,
}

/// An experiment of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Experiment {
    /// Points that engines evaluate.
    Grid(Box<Grid>),
    /// The maximum loss-free receive rate by formula.
    Mlfrr(Box<Mlfrr>),
    /// Upper bounds by link, bus and CPU.
    Roofline(Box<Roofline>),
    /// Real transfers with some settings varied.
    Transfers(Box<Transfers>),
    /// A router's throughput in several set-ups.
    Forwarding(Box<Forwarding>),
}

/// The key `kind`. It is read first, because it selects the type as which the file is read, and so the errors of the
/// other keys.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Head {
    #[serde(default)]
    kind: KindTag,
}

impl Experiment {
    /// Reads an experiment from the text of a file; `path` is its name in errors.
    ///
    /// # Errors
    /// The error has file, line, value and accepted form.
    pub fn from_toml(path: &str, text: &str) -> Result<Self, FileError> {
        let head: Head = parse_toml(path, text)?;
        let experiment = match head.kind {
            KindTag::Grid => Self::Grid(Box::new(parse_toml(path, text)?)),
            KindTag::Mlfrr => Self::Mlfrr(Box::new(parse_toml(path, text)?)),
            KindTag::Roofline => Self::Roofline(Box::new(parse_toml(path, text)?)),
            KindTag::Transfer => Self::Transfers(Box::new(parse_toml(path, text)?)),
            KindTag::Forwarding => Self::Forwarding(Box::new(parse_toml(path, text)?)),
        };
        experiment.check().map_err(|bad| FileError::misplaced(path, text, &bad))?;
        Ok(experiment)
    }

    fn check(&self) -> Result<(), BadValue> {
        match self {
            Self::Grid(grid) => {
                grid.check()?;
                grid.tasks()?;
            }
            Self::Mlfrr(mlfrr) => mlfrr.check()?,
            Self::Roofline(roofline) => roofline.check()?,
            Self::Transfers(transfers) => transfers.check()?,
            Self::Forwarding(forwarding) => forwarding.check()?,
        }
        self.marks().map(drop)
    }

    /// Title of the experiment, one line.
    pub fn title(&self) -> &str {
        match self {
            Self::Grid(grid) => &grid.title,
            Self::Mlfrr(mlfrr) => &mlfrr.title,
            Self::Roofline(roofline) => &roofline.title,
            Self::Transfers(transfers) => &transfers.title,
            Self::Forwarding(forwarding) => &forwarding.title,
        }
    }

    /// Returns the work (author, year, title) whose figure the experiment repeats; empty if no published figure is
    /// repeated.
    pub fn paper(&self) -> &str {
        match self {
            Self::Grid(grid) => &grid.paper,
            Self::Mlfrr(mlfrr) => &mlfrr.paper,
            Self::Roofline(roofline) => &roofline.paper,
            Self::Transfers(_) | Self::Forwarding(_) => "",
        }
    }

    /// Returns the axes of the experiment's figure.
    ///
    /// # Errors
    /// Never for an experiment that was read by [`Experiment::from_toml`].
    pub fn axes(&self) -> Result<Axes, BadValue> {
        match self {
            Self::Grid(grid) => grid.axes(),
            Self::Mlfrr(mlfrr) => mlfrr.axes(),
            Self::Roofline(roofline) => roofline.axes(),
            Self::Transfers(transfers) => transfers.axes(),
            Self::Forwarding(forwarding) => forwarding.axes(),
        }
    }

    /// The marks: published numbers that the curves are compared with, in base units.
    ///
    /// # Errors
    /// Never for an experiment that was read by [`Experiment::from_toml`].
    pub fn marks(&self) -> Result<Vec<Mark>, BadValue> {
        let axes = self.axes()?;
        let sections = match self {
            Self::Grid(grid) => &grid.marks,
            Self::Mlfrr(mlfrr) => &mlfrr.marks,
            Self::Roofline(roofline) => &roofline.marks,
            Self::Transfers(transfers) => &transfers.marks,
            Self::Forwarding(forwarding) => &forwarding.marks,
        };
        let ruled = if sections.is_empty() { Ruled::default() } else { self.ruled()? };
        let placed = |(index, mark): (usize, &MarkSection)| mark.placed(index, &axes, |key| self.quantity(key), &ruled);
        sections.iter().enumerate().map(placed).collect()
    }

    /// Returns the figure that a mark names by `key` (its `of`).
    fn quantity(&self, key: &str) -> Result<Quantity, String> {
        let (name, dimension) = match self {
            Self::Grid(_) => key.parse::<Measure>().map(|measure| (measure.name, measure.dimension)),
            Self::Transfers(_) => key.parse::<TransferMeasure>().map(|measure| (measure.label(), measure.dimension())),
            _ => return Err(format!("of = \"{key}\": this experiment has the drawn figure alone; leave `of` out")),
        }
        .map_err(|error| error.to_string())?;
        Ok(Quantity { key: key.to_owned(), name: name.to_owned(), dimension })
    }

    /// Returns the names, x ranges and settings of the curves that are known before the experiment runs.
    fn ruled(&self) -> Result<Ruled, BadValue> {
        match self {
            Self::Grid(grid) => grid.ruled(),
            Self::Transfers(transfers) => Ok(Ruled { lines: Some(transfers.ruled()?), ..Ruled::default() }),
            Self::Forwarding(forwarding) => {
                let sizes = forwarding.sizes_bytes()?;
                let reach = sizes.first().copied().zip(sizes.last().copied());
                let names = forwarding.set_ups.iter().map(|set_up| set_up.name.clone());
                let lines = names.map(|name| mark::Line { name, reach, settings: Vec::new() }).collect();
                Ok(Ruled { lines: Some(lines), ..Ruled::default() })
            }
            // The names of the curves are known only after the formulas are computed.
            Self::Mlfrr(_) => Ok(Ruled { delivers: true, ..Ruled::default() }),
            Self::Roofline(_) => Ok(Ruled::default()),
        }
    }
}

#[cfg(test)]
mod tests;
