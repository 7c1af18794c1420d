//! Below the plot: the legend if the names at the curves' ends do not suffice, the meaning of forms, and the notes. A page shows
//! these itself.

use super::{LINE, Lines};
use crate::plot::sheet::{Format, MARGIN, number};
use crate::plot::{Look, Plot, swatch, text};

/// Between a sample and its words, and between two columns.
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

/// Entries in columns as wide as the widest.
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
