//! Curves of any kind in characters: a letter a curve, a digit a mark.

use crate::drawing::{Drawing, Span};
use crate::svg::experiment::spans;

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
    let (x, y) = spans(drawing);
    let names = drawing.names();
    let mut cells = vec![vec![' '; COLUMNS]; ROWS];
    for curve in &drawing.curves {
        let place = names.iter().position(|name| *name == curve.name).unwrap_or(0);
        for dot in &curve.dots {
            put(&mut cells, (&x, &y), (dot.x, dot.y.value), letter(place));
        }
    }
    for (index, mark) in drawing.marks.iter().enumerate() {
        let digit = char::from_digit(index as u32 + 1, 36).unwrap_or('*');
        // A line is shown where it meets its axis.
        let (low, high) = (ends(&x, &drawing.axes.x), ends(&y, &drawing.axes.y));
        put(&mut cells, (&x, &y), (mark.x.unwrap_or(low.0), mark.y.unwrap_or(high.1)), digit);
    }
    framed(&cells, &x, &y, style)
}

/// The ends of an axis in base units.
fn ends(span: &Span, axis: &netcliff_core::experiment::Axis) -> (f64, f64) {
    use netcliff_core::experiment::Scale;
    match axis.scale {
        Scale::Linear => (span.low * span.one(), span.high * span.one()),
        Scale::Log => (10f64.powf(span.low), 10f64.powf(span.high)),
    }
}

fn put(cells: &mut [Vec<char>], (x, y): (&Span, &Span), at: (f64, f64), glyph: char) {
    let Some((along, up)) = x.place(at.0).zip(y.place(at.1)) else { return };
    let column = ((along - x.low) / (x.high - x.low) * (COLUMNS - 1) as f64).round() as usize;
    let row = ((up - y.low) / (y.high - y.low) * (ROWS - 1) as f64).round() as usize;
    cells[ROWS - 1 - row][column] = glyph;
}

fn framed(cells: &[Vec<char>], x: &Span, y: &Span, style: Style) -> String {
    let (wall, corner, floor) = if style.unicode { ('│', '└', "─") } else { ('|', '+', "-") };
    let mut lines = vec![format!("  {}", y.name)];
    for (index, row) in cells.iter().enumerate() {
        let label = match index {
            0 => y.end(y.high),
            last if last == ROWS - 1 => y.end(y.low),
            _ => String::new(),
        };
        lines.push(format!("  {label:>9} {wall}{}", row.iter().collect::<String>().trim_end()));
    }
    lines.push(format!("  {:>9} {corner}{}", "", floor.repeat(COLUMNS)));
    let (low, high) = (x.end(x.low), x.end(x.high));
    let between = COLUMNS.saturating_sub(low.chars().count() + high.chars().count());
    lines.push(format!("  {:>9}  {low}{:^between$}{high}", "", x.name));
    lines.join("\n")
}
