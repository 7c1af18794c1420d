//! A figure in a page: both drawings, a legend, its data, and a download; with the page's script also a read-out of all
//! curves at a load, curves to hide and a part to enlarge.

use maud::{Markup, PreEscaped, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::plot::{self, Bars, Format, Plot, Sheet, data};

/// The script for figures, after the axis code that the explorer uses, too. Without the script the figures stay as
/// drawn.
pub const SCRIPTS: [&str; 2] = [include_str!("axis.js"), include_str!("figure.js")];

/// `plot` with its caption. Without the caption if the page's title has the same text.
pub fn figure(plot: &Plot, captioned: bool) -> Markup {
    let sheets = [plot.sheet(Format::Wide), plot.sheet(Format::Narrow)];
    let entries = plot.entries();
    let legend = html! {
        ul.keys {
            @for (at, (key, entry)) in plot.keys.iter().zip(&entries).enumerate() {
                li data-key=(at) { (plot::swatch(&key.look)) " " span.name { (entry) } }
            }
        }
        @if !plot.forms.is_empty() {
            ul.forms { @for (look, words) in &plot.forms { li { (plot::swatch(look)) " " (words) } } }
        }
        // The page lists reference values in a table, so the figure does not repeat them as notes.
        @if plot.stated.is_empty() { @for note in &plot.notes { p.note { (note) } } }
    };
    let data = Some(data::json(plot));
    framed(&plot.slug, &plot.title, captioned, &sheets, &legend, &data::csv(plot), data)
}

/// `bars` with its caption, without a read-out: bars have no load at which values are read.
pub fn bars(bars: &Bars, captioned: bool) -> Markup {
    let sheets = [bars.sheet(Format::Wide), bars.sheet(Format::Narrow)];
    let legend = html! { @for note in &bars.notes { p.note { (note) } } };
    framed(&bars.slug, &bars.title, captioned, &sheets, &legend, &bars.csv(), None)
}

fn framed(
    slug: &str,
    title: &str,
    captioned: bool,
    sheets: &[Sheet; 2],
    legend: &Markup,
    csv: &str,
    data: Option<Value>,
) -> Markup {
    let href = format!("data:text/csv;charset=utf-8,{}", utf8_percent_encode(csv, NON_ALPHANUMERIC));
    // Inside a script element only a "<" could end it. JSON permits to escape it.
    let data = data.map(|data| data.to_string().replace('<', "\\u003c"));
    html! {
        figure.plot id={ "figure-" (slug) } data-name=(slug) {
            @if captioned { figcaption { (title) } }
            div.stage { (plot::inline(sheets)) }
            (legend)
            p.tools { "Download: " a.csv download={ "netcliff-" (slug) ".csv" } href=(href) { "CSV" } }
            @if let Some(data) = data { script.data type="application/json" { (PreEscaped(data)) } }
        }
    }
}
