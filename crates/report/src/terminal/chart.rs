//! Curves in characters: a letter for each curve, a digit for each mark.

use netcliff_core::experiment;

use crate::drawing::Drawing;
use crate::plot::Scale;
use crate::svg::experiment::scales;

use super::Style;

/// Cells of the plot, axes not counted.
const COLUMNS: usize = 62;
const ROWS: usize = 16;

/// The letter of a curve.
pub fn letter(place: usize) -> char {
    char::from(b'a' + (place % 26) as u8)
}

/// The plot with its axes, or nothing on less than 80 columns. Curves are drawn over each other in their order, the
/// marks on top.
pub fn chart(drawing: &Drawing, style: Style) -> String {
    if style.width < COLUMNS + 16 || drawing.curves.is_empty() {
        return String::new();
    }
    let (x, y) = scales(drawing);
    let names = drawing.names();
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    for curve in &drawing.curves {
        let place = names.iter().position(|name| *name == curve.name).unwrap_or(0);
        for dot in &curve.dots {
            put(&mut cells, x.place(dot.x).zip(y.place(dot.y.value)), letter(place));
        }
    }
    for (index, mark) in drawing.marks.iter().enumerate().filter(|(_, mark)| mark.is_drawn()) {
        let digit = char::from_digit(index as u32 + 1, 36).unwrap_or('*');
        // A mark without x is at the left edge, one without y at the top edge.
        let along = mark.x.map_or(Some(0.0), |at| x.place(at));
        let up = mark.y.map_or(Some(1.0), |at| y.place(at));
        put(&mut cells, along.zip(up), digit);
    }
    let titles = [(&x, &drawing.axes.x), (&y, &drawing.axes.y)].map(|(scale, axis)| match axis.scale {
        experiment::Scale::Log => format!("{} (logarithmic)", scale.title()),
        experiment::Scale::Linear => scale.title(),
    });
    framed(&cells, (&x, &y), titles, style)
}

/// Puts a glyph at a place, given as shares of the axes. Does nothing if the place is outside.
fn put(cells: &mut [Vec<char>], at: Option<(f64, f64)>, glyph: char) {
    if let Some(cell) = cell(cells, at) {
        *cell = glyph;
    }
}

/// The cell at a place, as shares of the axes; `None` beyond them.
pub(super) fn cell<T>(cells: &mut [Vec<T>], at: Option<(f64, f64)>) -> Option<&mut T> {
    let (along, up) = at?;
    let (rows, columns) = (cells.len(), cells.first()?.len());
    let column = (along * (columns - 1) as f64).round() as usize;
    let row = (up * (rows - 1) as f64).round() as usize;
    cells.get_mut(rows - 1 - row)?.get_mut(column)
}

/// Rows of cells, with axes to the left and below. `labels`: label of the highest row, of the lowest row, and of the
/// lower axis, each in `width` columns.
pub(super) fn walled(cells: &[Vec<char>], labels: [&str; 3], width: usize, style: Style) -> Vec<String> {
    let (wall, corner, floor) = if style.unicode { ('│', '└', "─") } else { ('|', '+', "-") };
    let last = cells.len() - 1;
    let rows = cells.iter().enumerate().map(|(index, row)| {
        let label = match index {
            0 => labels[0],
            index if index == last => labels[1],
            _ => "",
        };
        format!("  {label:>width$} {wall}{}", row.iter().collect::<String>())
    });
    let below = format!("  {:>width$} {corner}{}", labels[2], floor.repeat(cells[last].len()));
    rows.chain([below]).collect()
}

fn framed(cells: &[Vec<char>], (x, y): (&Scale, &Scale), [along, up]: [String; 2], style: Style) -> String {
    let mut lines = vec![format!("  {up}")];
    let ((low, high), (bottom, top)) = (x.ends(), y.ends());
    let rows = walled(cells, [&top, &bottom, ""], 9, style);
    lines.extend(rows.iter().map(|row| row.trim_end().to_owned()));
    let between = COLUMNS.saturating_sub(low.chars().count() + high.chars().count());
    lines.push(format!("  {:>9}  {low}{along:^between$}{high}", ""));
    lines.join("\n")
}
