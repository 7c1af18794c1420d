//! Horizontal bars with their intervals: effects of settings, counts by class.

use maud::{Markup, PreEscaped, html};

use super::draw::{LINE, Lines, head};
use super::sheet::{Format, MARGIN, Sheet, number};
use super::{Scale, TONES, text};
use crate::format::Unit;

/// Height of a bar, and space between rows [drawing units].
const BAR: f64 = 12.0;
const SPACE: f64 = 8.0;

/// A figure of bars, in groups under headings.
#[derive(Debug, Clone)]
pub struct Bars {
    pub slug: String,
    pub title: String,
    pub origin: String,
    pub words: String,
    pub groups: Vec<Group>,
    pub notes: Vec<String>,
    /// Names of the columns of the CSV: the group's, the row's, the value's.
    pub columns: [&'static str; 3],
}

/// Bars on one scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    pub name: String,
    pub rows: Vec<Row>,
}

/// One bar from zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: String,
    pub value: f64,
    pub interval: Option<(f64, f64)>,
    /// Text of the value.
    pub written: String,
    /// True: a filled bar; false: an outline, for a value that may be due to chance.
    pub firm: bool,
    /// Colour, as an index of [`TONES`].
    pub tone: usize,
}

impl Bars {
    /// The figure on a sheet of one format.
    pub fn sheet(&self, format: Format) -> Sheet {
        let mut lines = head(&self.title, &self.origin, format);
        let shown_from = lines.top;
        for group in &self.groups {
            lines.top += 4.0;
            if !group.name.is_empty() {
                for line in text::wrapped_to(&group.name, format.font(), format.width() - 2.0 * MARGIN, 2) {
                    lines.add(&line, format.font(), "title");
                }
                lines.top += 4.0;
            }
            draw(&mut lines, format, group);
        }
        let shown_to = lines.top + 2.0;
        lines.top += 8.0;
        for line in self.notes.iter().flat_map(|note| text::wrapped(note, format.font(), format.width() - 2.0 * MARGIN))
        {
            lines.add(&line, format.font(), "ink");
        }
        Sheet {
            format,
            title: self.title.clone(),
            words: self.words.clone(),
            height: lines.top + 8.0,
            shown: (shown_from, shown_to),
            frame: None,
            body: html! { (PreEscaped(lines.markup)) },
        }
    }

    /// The figure as an SVG document.
    pub fn document(&self) -> String {
        super::document(&[self.sheet(Format::Wide), self.sheet(Format::Narrow)])
    }

    /// The figure as CSV, one row for each bar.
    pub fn csv(&self) -> String {
        let number = |value: f64| serde_json::json!(value).to_string();
        let header = self.columns.iter().copied().chain(["low", "high", "significant"]).map(str::to_owned).collect();
        let rows = self.groups.iter().flat_map(|group| {
            group.rows.iter().map(|row| {
                let ends = row.interval.map_or([String::new(), String::new()], |ends| [number(ends.0), number(ends.1)]);
                let [low, high] = ends;
                vec![group.name.clone(), row.name.clone(), number(row.value), low, high, row.firm.to_string()]
            })
        });
        std::iter::once(header).chain(rows).map(|fields: Vec<String>| crate::csv::line(&fields)).collect()
    }
}

/// Where the bars of a group are on the sheet, and their common scale.
struct Span {
    left: f64,
    width: f64,
    scale: Scale,
}

impl Span {
    fn at(&self, value: f64) -> f64 {
        self.left + self.width * self.scale.clipped(value)
    }
}

fn draw(lines: &mut Lines, format: Format, group: &Group) {
    let font = format.font();
    let ends = |row: &Row| {
        [row.value, row.interval.map_or(row.value, |ends| ends.0), row.interval.map_or(row.value, |ends| ends.1)]
    };
    let finite = || group.rows.iter().flat_map(ends).filter(|end| end.is_finite());
    // An interval far beyond every value would make all bars short. It is therefore cut off at the edge.
    let most = group.rows.iter().map(|row| row.value.abs()).filter(|value| value.is_finite()).fold(1e-12, f64::max);
    let (low, high) = (finite().fold(0.0, f64::min).max(-2.5 * most), finite().fold(0.0, f64::max).min(2.5 * most));
    let wide = |text: &str| text::WIDER * text::width(text, font);
    let widest = |part: fn(&Row) -> &str| group.rows.iter().map(|row| wide(part(row))).fold(0.0, f64::max);
    let values = widest(|row| &row.written) + 8.0;
    // On a phone, names are above their bars.
    let beside = format == Format::Wide;
    let names = if beside { (widest(|row| &row.name) + 12.0).min(250.0) } else { 0.0 };
    let left = MARGIN + names;
    let width = (format.width() - MARGIN - left - values).max(60.0);
    let scale = Scale::linear("", Unit::Number, low, if high > low { high } else { low + 1.0 });
    let span = Span { left, width, scale };
    for row in &group.rows {
        if !beside {
            for line in text::wrapped_to(&row.name, font, format.width() - 2.0 * MARGIN, 2) {
                lines.add(&line, font, "ink");
            }
        }
        let middle = lines.top + (LINE * font).max(BAR) / 2.0;
        let name = beside.then(|| text::cut(&row.name, font, names - 12.0));
        lines.markup.push_str(&bar(row, &span, middle, format, name).into_string());
        lines.top += (LINE * font).max(BAR) + SPACE / 2.0;
    }
}

fn bar(row: &Row, span: &Span, middle: f64, format: Format, name: Option<String>) -> Markup {
    let (n, font, tone) = (number, format.font(), row.tone % TONES.len());
    let (zero, end) = (span.at(0.0), span.at(row.value));
    let (left, right) = (zero.min(end), zero.max(end));
    let whisker = row.interval.map(|(low, high)| (span.at(low), span.at(high)));
    html! {
        @if let Some(name) = name {
            text.ink x=(n(span.left - 10.0)) y=(n(middle + 0.35 * font)) text-anchor="end" fill="#222222" { (name) }
        }
        g .{ "t" (tone) } color=(TONES[tone]) {
            rect.bar x=(n(left)) y=(n(middle - BAR / 2.0)) width=(n((right - left).max(0.6))) height=(n(BAR))
                fill="currentColor" fill-opacity=(if row.firm { "0.85" } else { "0.15" }) stroke="currentColor" stroke-width="1" {}
        }
        @if let Some((low, high)) = whisker {
            path.inkline d={ "M" (n(low)) " " (n(middle)) "H" (n(high)) "M" (n(low)) " " (n(middle - 4.0)) "V" (n(middle + 4.0)) "M" (n(high)) " " (n(middle - 4.0)) "V" (n(middle + 4.0)) } stroke="#222222" stroke-width="1.3" fill="none" {}
        }
        path.axis d={ "M" (n(zero)) " " (n(middle - 10.0)) "V" (n(middle + 10.0)) } stroke="#7d8590" {}
        text.ink x=(n(format.width() - MARGIN)) y=(n(middle + 0.35 * font)) text-anchor="end" font-weight=[row.firm.then_some("bold")] fill="#222222" { (row.written) }
    }
}
