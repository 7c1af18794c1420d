//! Lines of a fixed width: headings, facts, columns by engine, wrapped paragraphs.

use anstyle::{AnsiColor, Style as Ansi};
use netcliff_core::Provenance;

use super::Style;
use crate::format;
use crate::sheet::{self, Cell, CostLine, ENGINES, Row};

/// Smallest width of a page (columns).
const MIN_WIDTH: usize = 48;
/// Width from which a figure and its interval fit in one cell, next to labels of 16 columns (columns).
const WIDE: usize = 76;
/// Width of the names of facts.
const NAME: usize = 15;
/// Width of the names of costs.
const COST: usize = 24;

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Alarm,
}

impl Tone {
    fn ansi(self) -> Ansi {
        match self {
            Self::Plain => Ansi::new(),
            Self::Strong => Ansi::new().bold(),
            Self::Faint => Ansi::new().dimmed(),
            Self::Alarm => Ansi::new().bold().fg_color(Some(AnsiColor::Red.into())),
        }
    }
}

/// A page being written.
pub struct Page {
    style: Style,
    text: String,
}

impl Page {
    pub fn new(style: Style) -> Self {
        Self { style: Style { width: style.width.max(MIN_WIDTH), ..style }, text: String::new() }
    }

    pub fn style(&self) -> Style {
        self.style
    }

    pub fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, tone: Tone, text: &str) {
        let text = format::printable(text.trim_end());
        if self.style.colour && tone != Tone::Plain {
            let ansi = tone.ansi();
            self.text.push_str(&format!("{ansi}{text}{ansi:#}\n"));
        } else {
            self.text.push_str(&text);
            self.text.push('\n');
        }
    }

    /// Adds a blank line and a heading.
    pub fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.line(Tone::Strong, text);
    }

    /// Adds text wrapped to the width, with an indent for the first line and one for the others.
    fn wrapped(&mut self, tone: Tone, first: &str, rest: &str, text: &str) {
        for line in format::lines(text, self.style.width, first, rest) {
            self.line(tone, &line);
        }
    }

    /// Adds an indented paragraph.
    pub fn paragraph(&mut self, indent: usize, tone: Tone, text: &str) {
        let indent = " ".repeat(indent);
        self.wrapped(tone, &indent, &indent, text);
    }

    /// Adds a shell command after `do:`, in lines that can be pasted.
    pub fn command(&mut self, indent: usize, text: &str) {
        let (first, rest) = (format!("{}do:  ", " ".repeat(indent)), " ".repeat(indent + 5));
        for line in format::command(text, self.style.width, &first, &rest) {
            self.line(Tone::Plain, &line);
        }
    }

    /// Adds a name and its value.
    pub fn fact(&mut self, name: &str, text: &str) {
        self.wrapped(Tone::Plain, &format!("  {name:<NAME$} "), &" ".repeat(NAME + 3), text);
    }

    /// Adds an item of a list after its mark.
    pub fn item(&mut self, mark: &str, text: &str) {
        self.wrapped(Tone::Plain, &format!("  {mark}"), &" ".repeat(2 + mark.len()), text);
    }

    /// Adds a list under its heading. Adds nothing if the list is empty.
    pub fn list(&mut self, heading: &str, lines: &[String]) {
        if !lines.is_empty() {
            self.heading(heading);
            lines.iter().for_each(|line| self.item("- ", line));
        }
    }

    /// Adds doubts about the text above. Adds nothing if there are no doubts.
    pub fn caution(&mut self, doubts: &[String]) {
        if !doubts.is_empty() {
            self.paragraph(0, Tone::Alarm, &format!("Caution: {}.", doubts.join("; ")));
        }
    }

    /// Starts the page of a measurement: title, time, whether it is complete, and the configuration.
    pub fn head(&mut self, title: &str, provenance: &Provenance, partial: bool, asked: &[(String, String)]) {
        let date = format::date_utc(provenance.started_unix_s);
        let title = if title.is_empty() { String::new() } else { format!(": {title}") };
        self.paragraph(0, Tone::Strong, &format!("netcliff {}{title}, {date}", provenance.version));
        if partial {
            self.paragraph(0, Tone::Alarm, "PARTIAL: some measurements are missing; the end of this page lists them.");
        }
        asked.iter().for_each(|(name, fact)| self.fact(name, fact));
    }

    /// Adds a cost: its name and figure, then how it was measured, with its key.
    pub fn cost(&mut self, cost: &CostLine) {
        let name = format::printable(&cost.name);
        let figure = cost.cell.as_ref().map_or("-".to_owned(), joined);
        self.wrapped(Tone::Plain, &format!("  {name:<COST$} "), &" ".repeat(COST + 3), &figure);
        self.paragraph(6, Tone::Plain, &format!("{} (key {})", cost.how, cost.key));
    }

    fn label_width(&self) -> usize {
        if self.style.width >= WIDE { self.style.width - 3 * self.cell_width() } else { 16 }
    }

    fn cell_width(&self) -> usize {
        if self.style.width >= WIDE { 20 } else { (self.style.width - 16) / 3 }
    }

    fn columned(&mut self, tone: Tone, label: &str, cells: [&str; 3]) {
        let (label_width, width) = (self.label_width(), self.cell_width());
        let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:<width$}")).collect();
        self.line(tone, &format!("{label:<label_width$}{}", cells.concat()));
    }

    /// Adds a blank line and a heading that names the columns.
    pub fn columns(&mut self, heading: &str) {
        self.text.push('\n');
        let names = ENGINES.map(sheet::column);
        if heading.len() < self.label_width() {
            return self.columned(Tone::Strong, heading, names);
        }
        self.line(Tone::Strong, heading);
        self.columned(Tone::Strong, "", names);
    }

    /// Adds rows of model, sim and measured. Intervals that do not fit are on a separate line.
    pub fn rows(&mut self, rows: &[Row]) {
        for row in rows {
            let mut label = format!("  {}", row.label);
            if label.len() >= self.label_width() {
                self.line(Tone::Plain, &label);
                label.clear();
            }
            let whole = row.cells.each_ref().map(|cell| cell.as_ref().map_or("-".to_owned(), joined));
            if whole.iter().all(|text| text.len() < self.cell_width()) {
                self.columned(Tone::Plain, &label, whole.each_ref().map(String::as_str));
                continue;
            }
            let values = row.cells.each_ref().map(|cell| cell.as_ref().map_or("-", |cell| cell.value.as_str()));
            self.columned(Tone::Plain, &label, values);
            let ends = row.cells.each_ref().map(|cell| cell.as_ref()?.interval.as_deref());
            if ends.iter().any(Option::is_some) {
                self.columned(Tone::Faint, "", ends.map(Option::unwrap_or_default));
            }
        }
    }

    /// Adds lines that are already laid out, without a blank line before them.
    pub fn lines(&mut self, lines: impl Iterator<Item = String>) {
        lines.for_each(|line| self.line(Tone::Plain, &line));
    }

    /// Adds lines that are already laid out. Adds nothing if there are no lines.
    pub fn block(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push('\n');
        for line in text.lines() {
            self.line(Tone::Plain, line);
        }
    }
}

fn joined(cell: &Cell) -> String {
    match &cell.interval {
        Some(ends) => format!("{} ({ends})", cell.value),
        None => cell.value.clone(),
    }
}
