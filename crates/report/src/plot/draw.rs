//! A [`Plot`] on a sheet: head, axes, curves, names at their ends, foot.

mod curves;
mod rulers;

use maud::{Markup, PreEscaped, html};

use super::sheet::{Format, MARGIN, Sheet, number};
use super::{Plot, ends, text};

/// Space for the triangles above the plot.
const POINTERS: f64 = 11.0;
/// Distance between lines of text, as a multiple of the text's height.
pub const LINE: f64 = 1.3;

/// Height reserved for a label on the vertical axis, as a multiple of the text's height. It is larger than the label,
/// because few grid lines make a figure easier to read.
const SPACING: f64 = 2.2;

/// Place and size of the plot on its sheet.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub format: Format,
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

impl Frame {
    /// The place on the sheet of a point whose coordinates are shares of the axes.
    pub fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.left + x * self.width, self.top + (1.0 - y) * self.height)
    }

    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// Lines of text that are placed from an upper edge downwards.
pub struct Lines {
    pub top: f64,
    pub markup: String,
}

impl Lines {
    pub fn add(&mut self, text: &str, size: f64, class: &str) {
        let bold = (class == "title").then_some("bold");
        let colour = if class == "soft" { "#59636e" } else { "#222222" };
        let line = html! {
            text .(class) x=(number(MARGIN)) y=(number(self.top + 0.95 * size)) font-size=(number(size)) font-weight=[bold] fill=(colour) { (text) }
        };
        self.markup.push_str(&line.into_string());
        self.top += LINE * size;
    }
}

pub fn sheet(plot: &Plot, format: Format) -> Sheet {
    let (font, room) = (format.font(), format.width() - 2.0 * MARGIN);
    let mut head = head(&plot.title, &plot.origin, format);
    let shown_from = head.top;
    head.top += 6.0;
    for line in text::wrapped_to(&plot.y.title(), font, room, 2) {
        head.add(&line, font, "ink");
    }
    for line in plot.remarks.iter().flat_map(|remark| text::wrapped_to(remark, font, room, 3)) {
        head.add(&line, font, "soft");
    }
    let frame = frame(plot, format, head.top + 7.0 + if plot.pointers.is_empty() { 0.0 } else { POINTERS });
    let (axes, below) = rulers::draw(plot, &frame);
    let shown_to = below + 6.0;
    let named = ends::width(plot, format).is_some();
    let foot = foot::draw(plot, format, shown_to, named);
    let clip = format!("clip-{}-{}", plot.slug, format.name());
    let pad = 6.0;
    let body = html! {
        (PreEscaped(head.markup))
        clipPath id=(clip) {
            rect x=(number(frame.left - pad)) y=(number(frame.top - POINTERS)) width=(number(frame.width + 2.0 * pad)) height=(number(frame.height + POINTERS + pad)) {}
        }
        (axes)
        @if plot.series.iter().all(|series| series.guide || series.dots.is_empty()) { (nothing(plot, &frame)) }
        g.zoom clip-path={ "url(#" (clip) ")" } { (curves::draw(plot, &frame)) }
        @if named { g.ends { (names(plot, &frame)) } }
        (PreEscaped(foot.markup))
    };
    let frame = [frame.left, frame.top, frame.width, frame.height];
    Sheet {
        format,
        title: plot.title.clone(),
        words: plot.words.clone(),
        height: foot.top + 6.0,
        shown: (shown_from, shown_to),
        frame: Some(frame),
        body,
    }
}

/// Title and origin, which are at the top of every sheet.
pub fn head(title: &str, origin: &str, format: Format) -> Lines {
    let (font, room) = (format.font(), format.width() - 2.0 * MARGIN);
    let mut head = Lines { top: MARGIN, markup: String::new() };
    let size = font + 3.0;
    for line in text::wrapped_to(title, 1.08 * size, room, 3) {
        head.add(&line, size, "title");
    }
    for line in text::wrapped_to(origin, font, room, 3) {
        head.add(&line, font, "soft");
    }
    head.top += 4.0;
    head
}

/// The area of the plot, between its tick labels on the left and the names of curves on the right.
fn frame(plot: &Plot, format: Format, top: f64) -> Frame {
    let font = format.font();
    let high = |_: &str| SPACING * font;
    let written = plot.y.ticks(format.plot_height(), &high).into_iter().filter_map(|tick| tick.label);
    let widest = written.map(|label| text::width(&label, font)).fold(12.0, f64::max);
    let left = MARGIN + widest + 8.0;
    let right = match ends::width(plot, format) {
        Some(names) => format.width() - MARGIN - names - ends::LEADER,
        // Half of the last label is beyond the plot.
        None => format.width() - MARGIN - 0.5 * text::width(&plot.x.written(plot.x.end()), font).clamp(8.0, 60.0),
    };
    Frame { format, left, top, width: right - left, height: format.plot_height() }
}

fn nothing(plot: &Plot, frame: &Frame) -> Markup {
    let (x, y) = frame.at(0.5, 0.5);
    html! { text.soft x=(number(x)) y=(number(y)) text-anchor="middle" fill="#59636e" { (plot.empty) } }
}

/// Names at the curves' ends, each with a line to it.
fn names(plot: &Plot, frame: &Frame) -> Markup {
    let font = frame.format.font();
    html! {
        @for end in ends::placed(plot, frame.format) {
            @let (series, from) = (&plot.series[end.series], frame.at(end.from.0, end.from.1));
            @let at = frame.at(1.0, end.at);
            @let line = format!("M{} {}H{}L{} {}", number(from.0 + 2.0), number(from.1), number(at.0 + 2.0), number(at.0 + ends::LEADER - 3.0), number(at.1));
            @let tone = super::TONES[series.look.tone % super::TONES.len()];
            g data-s=(end.series) {
                path .{ "t" (series.look.tone) } color=(tone) d=(line) fill="none" stroke="currentColor" stroke-width="1" opacity="0.7" {}
                text.ink x=(number(at.0 + ends::LEADER)) y=(number(at.1 + 0.35 * font)) fill="#222222" { (end.text) }
            }
        }
    }
}

mod foot {
    //! Text below the plot: the legend if the names at the curves' ends do not suffice, the meaning of forms, and the
    //! notes. A page shows these itself.

    use super::{LINE, Lines};
    use crate::plot::sheet::{Format, MARGIN, number};
    use crate::plot::{Look, Plot, swatch, text};

    /// Space between a sample and its words, and between two columns.
    const SPACE: f64 = 8.0;
    const COLUMNS: f64 = 22.0;

    pub fn draw(plot: &Plot, format: Format, top: f64, named: bool) -> Lines {
        let mut foot = Lines { top: top + 2.0, markup: String::new() };
        let entries = plot.entries();
        // A name at a curve's end needs no legend, unless it names a curve that covers it.
        let keys: Vec<(&Look, &str)> = plot
            .keys
            .iter()
            .zip(&entries)
            .filter(|(key, entry)| !named || **entry != key.name)
            .map(|(key, entry)| (&key.look, entry.as_str()))
            .collect();
        legend(&mut foot, format, &keys);
        legend(&mut foot, format, &plot.forms.iter().map(|(look, words)| (look, words.as_str())).collect::<Vec<_>>());
        let (font, room) = (format.font(), format.width() - 2.0 * MARGIN);
        for line in plot.notes.iter().flat_map(|note| text::wrapped(note, font, room)) {
            foot.add(&line, font, "ink");
        }
        foot
    }

    /// Draws the entries in columns that are all as wide as the widest entry.
    fn legend(foot: &mut Lines, format: Format, entries: &[(&Look, &str)]) {
        let (font, room) = (format.font(), format.width() - 2.0 * MARGIN);
        let own = |words: &str| swatch::LONG + SPACE + text::width(words, font);
        let widest = entries.iter().map(|(_, words)| own(words)).fold(0.0, f64::max).min(room);
        let columns = (((room + COLUMNS) / (widest + COLUMNS)) as usize).clamp(1, entries.len().max(1));
        let rows = entries.len().div_ceil(columns);
        for (index, (look, words)) in entries.iter().enumerate() {
            let (column, row) = (index / rows, index % rows);
            let left = MARGIN + (widest + COLUMNS) * column as f64;
            let middle = foot.top + LINE * font * (row as f64 + 0.5);
            let words = text::cut(words, font, room - swatch::LONG - SPACE);
            let entry = maud::html! {
                (swatch::sample(look, left, middle))
                text.ink x=(number(left + swatch::LONG + SPACE)) y=(number(middle + 0.35 * font)) fill="#222222" { (words) }
            };
            foot.markup.push_str(&entry.into_string());
        }
        foot.top += LINE * font * rows as f64;
    }
}
