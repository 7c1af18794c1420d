//! A figure as data ([`Plot`], [`Bars`]), and the code that draws it for wide screens and for phones.
//!
//! The same drawing is used in a file and in a page. A page shows title and legend as HTML, so that the drawing's own
//! title and legend are outside the view box there. The same module (`data`) writes the values for the page's script
//! and the CSV.

pub mod bars;
mod cover;
pub mod data;
mod draw;
mod ends;
pub mod scale;
mod sheet;
mod swatch;
mod text;

use maud::Markup;

pub use bars::Bars;
pub use scale::Scale;
pub use sheet::{Format, Sheet};
pub use swatch::swatch;

/// Colours by number: black, then Okabe and Ito's without yellow, which is not visible on white, a brown and a grey.
pub const TONES: [&str; 9] =
    ["#111111", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#777777"];
/// Dash patterns by number; the first one is a solid line.
pub const DASHES: [&str; 9] = ["none", "8 4", "2 3", "11 3 2 3", "5 3", "14 4", "8 3 2 3 2 3", "3 6", "1 2"];
/// The light grey of guide lines, as an index of [`TONES`].
pub const GREY: usize = 8;

/// A figure with two axes.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Name of the figure in file names and in ids within a page.
    pub slug: String,
    /// One line; the page shows it as the figure's caption.
    pub title: String,
    /// Text under the title: the measured or simulated configuration and its host.
    pub origin: String,
    /// The figure in words, for readers who cannot see it.
    pub words: String,
    /// Lines between title and plot.
    pub remarks: Vec<String>,
    pub x: Scale,
    pub y: Scale,
    /// Entries of the legend, which can be shown or hidden; each has one or more series.
    pub keys: Vec<Key>,
    pub series: Vec<Series>,
    /// Marked places on the x axis.
    pub pointers: Vec<Pointer>,
    /// Levels across the plot, each with its text.
    pub levels: Vec<(f64, String)>,
    /// Reference values.
    pub stated: Vec<Stated>,
    /// Meaning of forms of lines and points that the legend's entries do not explain, such as open points: a sample and
    /// its text.
    pub forms: Vec<(Look, String)>,
    /// Lines of text below the plot.
    pub notes: Vec<String>,
    /// Text shown if nothing is drawn.
    pub empty: String,
}

/// An entry of the legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub name: String,
    pub look: Look,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Colour, as an index of [`TONES`].
    pub tone: usize,
    /// Dashes (of [`DASHES`]) and width (pixels) of the line. `None`: points without a line.
    pub line: Option<(usize, f64)>,
    pub marker: Option<Marker>,
    pub spread: Spread,
    /// True: the area from [`Dot::base`] up is filled.
    pub area: bool,
}

impl Look {
    /// A line of a tone and dashes.
    pub const fn line(tone: usize, dash: usize, width: f64) -> Self {
        Self { tone, line: Some((dash, width)), marker: None, spread: Spread::None, area: false }
    }

    /// Points of a tone and shape.
    pub const fn points(tone: usize, shape: usize, filled: bool) -> Self {
        Self { tone, line: None, marker: Some(Marker { shape, filled }), spread: Spread::Bars, area: false }
    }
}

/// The shape of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// Number of the shape: circle, square, triangle, ... (see `swatch`).
    pub shape: usize,
    pub filled: bool,
}

/// How intervals are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    None,
    Band,
    Bars,
}

/// One curve, its values in base units.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Index of the series' entry in the legend.
    pub key: usize,
    /// Which series of its legend entry this is. Empty if it is the only one.
    pub who: String,
    /// Text at the curve's end. `None`: no text.
    pub label: Option<String>,
    pub look: Look,
    /// True: a guide line that shows no data.
    pub guide: bool,
    pub dots: Vec<Dot>,
}

/// A point of a curve in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    /// Ends of the interval; the value itself if it has no interval. An infinite upper end means a lower limit.
    pub low: f64,
    pub high: f64,
    /// Height at which the area of this value begins, if areas are stacked; otherwise 0.
    pub base: f64,
    /// True: the sender did not reach the load.
    pub late: bool,
}

impl Dot {
    /// A value without an interval.
    pub const fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y, base: 0.0, late: false }
    }

    /// True if the value is a lower limit.
    pub fn is_at_least(&self) -> bool {
        self.high == f64::INFINITY
    }
}

/// A marked place on the x axis: a triangle above the plot. The main one also has a line through the plot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pointer {
    pub x: f64,
    pub tone: usize,
    pub upright: bool,
}

/// A reference value, marked by its number in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Stated {
    pub x: Option<f64>,
    pub y: Option<f64>,
    pub interval: Option<(f64, f64)>,
}

impl Plot {
    /// Name of a series: its legend entry, and which series of this entry it is.
    pub fn full_name(&self, series: &Series) -> String {
        let name = &self.keys[series.key].name;
        if series.who.is_empty() { name.clone() } else { format!("{name}: {}", series.who) }
    }

    /// The entries of the legend in words: the name, and the curve that hides it, if one does.
    pub fn entries(&self) -> Vec<String> {
        let hidden = cover::hidden(self);
        let said = |(at, key): (usize, &Key)| {
            let by: Vec<&str> = (0..self.series.len())
                .filter(|index| self.series[*index].key == at)
                .filter_map(|index| hidden[index].map(|by| self.keys[self.series[by].key].name.as_str()))
                .filter(|name| *name != key.name)
                .collect();
            match by.first() {
                Some(name) => format!("{} (lies under {name})", key.name),
                None => key.name.clone(),
            }
        };
        self.keys.iter().enumerate().map(said).collect()
    }

    /// The figure on a sheet of one format.
    pub fn sheet(&self, format: Format) -> Sheet {
        draw::sheet(self, format)
    }

    /// The figure as an SVG document.
    pub fn document(&self) -> String {
        document(&[self.sheet(Format::Wide), self.sheet(Format::Narrow)])
    }
}

/// A document that shows the wide sheet, or the narrow one if a phone opens it.
pub fn document(sheets: &[Sheet; 2]) -> String {
    crate::format::printable(&sheet::document(sheets).into_string())
}

/// Both sheets for a page, without the parts that the page itself shows.
pub fn inline(sheets: &[Sheet; 2]) -> Markup {
    maud::html! { @for sheet in sheets { (sheet.inline()) } }
}
