//! Axes: lines, grid, ticks, labels, the break below which zero lies, and the name of the x axis.

use maud::{Markup, html};

use super::{Frame, LINE, SPACING};
use crate::plot::sheet::{MARGIN, number};
use crate::plot::{Plot, text};

const GREY: &str = "#7d8590";
const GRID: &str = "#e4e4e4";

/// Draws the axes. Also returns the height on the sheet below which there is free space.
pub fn draw(plot: &Plot, frame: &Frame) -> (Markup, f64) {
    let font = frame.format.font();
    let wide = |label: &str| text::width(label, font);
    let high = |_: &str| SPACING * font;
    let (xs, ys) = (plot.x.ticks(frame.width, &wide), plot.y.ticks(frame.height, &high));
    let n = number;
    let (left, right, bottom) = (frame.left, frame.right(), frame.bottom());
    let title = text::cut(&plot.x.title(), font, right - MARGIN);
    let line = bottom + 8.0 + font;
    let markup = html! {
        g.ticks {
            @for tick in &ys {
                @let at = frame.at(0.0, tick.at).1;
                @match &tick.label {
                    Some(label) => {
                        path.grid d={ "M" (n(left)) " " (n(at)) "H" (n(right)) } stroke=(GRID) {}
                        text.ink x=(n(left - 7.0)) y=(n(at + 0.35 * font)) text-anchor="end" fill="#222222" { (label) }
                    }
                    None => path.axis d={ "M" (n(left - 3.0)) " " (n(at)) "H" (n(left)) } stroke=(GREY) {},
                }
            }
            @for tick in &xs {
                @let at = frame.at(tick.at, 0.0).0;
                @let long = if tick.label.is_some() { 5.0 } else { 3.0 };
                path.axis d={ "M" (n(at)) " " (n(bottom)) "V" (n(bottom + long)) } stroke=(GREY) {}
                @if let Some(label) = &tick.label {
                    text.ink x=(n(inside(at, wide(label), frame))) y=(n(line)) text-anchor="middle" fill="#222222" { (label) }
                }
            }
        }
        path.axis d={ "M" (n(left)) " " (n(frame.top)) "V" (n(bottom)) "H" (n(right)) } fill="none" stroke=(GREY) {}
        @if let Some(gap) = plot.y.gap() { (break_mark(frame, gap)) }
        text.ink x=(n(right)) y=(n(line + LINE * font)) text-anchor="end" fill="#222222" { (title) }
    };
    (markup, line + LINE * font + 4.0)
}

/// The middle of a label, moved so that none of it is beyond the sheet.
fn inside(at: f64, wide: f64, frame: &Frame) -> f64 {
    at.clamp(wide / 2.0 + 2.0, frame.format.width() - wide / 2.0 - 2.0)
}

/// Two strokes across the axis at its break, and a faint line across the plot.
fn break_mark(frame: &Frame, gap: f64) -> Markup {
    let (x, y) = frame.at(0.0, gap);
    let n = number;
    let stroke = |y: f64| format!("M{} {}L{} {}", n(x - 5.0), n(y + 2.5), n(x + 5.0), n(y - 2.5));
    html! {
        g.gap {
            path.paper d={ "M" (n(x)) " " (n(y - 2.0)) "V" (n(y + 2.0)) } stroke="#ffffff" stroke-width="3" {}
            path.axis d={ (stroke(y - 2.0)) (stroke(y + 2.0)) } stroke=(GREY) {}
            path.grid d={ "M" (n(x + 8.0)) " " (n(y)) "H" (n(frame.right())) } stroke=(GRID) stroke-dasharray="2 3" {}
        }
    }
}
