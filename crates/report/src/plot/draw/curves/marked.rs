//! Marked places: pointers above the plot, levels across it, and reference values.

use maud::{Markup, html};

use super::super::Frame;
use crate::plot::sheet::number;
use crate::plot::{Plot, Pointer, Stated, TONES, text};

const SOFT: &str = "#59636e";

/// A triangle above the plot that points down at its place.
pub fn pointer(plot: &Plot, frame: &Frame, pointer: &Pointer) -> Markup {
    let Some(place) = plot.x.place(pointer.x) else { return html! {} };
    let (x, y) = frame.at(place, 1.0);
    let n = number;
    let tone = pointer.tone % TONES.len();
    html! {
        g .{ "t" (tone) } color=(TONES[tone]) {
            @if pointer.upright {
                path d={ "M" (n(x)) " " (n(y)) "L" (n(x)) " " (n(frame.bottom())) } stroke="currentColor" stroke-width="1" {}
            }
            path transform={ "translate(" (n(x)) " " (n(y)) ")" } d="M0 0L-4.5 -8H4.5Z" fill="currentColor" {}
        }
    }
}

/// Lines across the plot, each with its words above its right end.
pub fn levels(plot: &Plot, frame: &Frame) -> Markup {
    let drawn = plot.levels.iter().filter_map(|(level, words)| Some((plot.y.place(*level)?, words)));
    html! {
        @for (place, words) in drawn {
            @let (x, y) = frame.at(1.0, place);
            path d={ "M" (number(frame.left)) " " (number(y)) "L" (number(x)) " " (number(y)) } stroke=(SOFT) stroke-width="1" stroke-dasharray="5 3" {}
            (haloed((x - 4.0, y - 5.0), "end", words, false))
        }
    }
}

/// Text in the plot with a white edge, so that it can be read on top of a curve.
fn haloed(at: (f64, f64), anchor: &str, words: &str, bold: bool) -> Markup {
    html! {
        text.halo x=(number(at.0)) y=(number(at.1)) text-anchor=(anchor) font-weight=[bold.then_some("bold")] fill="#222222" stroke="#ffffff" stroke-width="3" paint-order="stroke" { (words) }
    }
}

/// Reference values: a diamond, or a dashed line if only one of both coordinates is given, with its number in the list.
pub fn stated(plot: &Plot, frame: &Frame) -> Markup {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    html! {
        @for (index, one) in plot.stated.iter().enumerate() {
            (shape(plot, frame, one))
            @if let Some(at) = number_at(plot, frame, one, index + 1, &mut taken) {
                (haloed(at, "start", &(index + 1).to_string(), true))
            }
        }
    }
}

fn shape(plot: &Plot, frame: &Frame, one: &Stated) -> Markup {
    let n = number;
    let dashed = |from: (f64, f64), to: (f64, f64)| {
        let line = format!("M{} {}L{} {}", n(from.0), n(from.1), n(to.0), n(to.1));
        html! { path d=(line) stroke=(SOFT) stroke-width="1" stroke-dasharray="5 3" {} }
    };
    match (one.x.and_then(|x| plot.x.place(x)), one.y.and_then(|y| plot.y.place(y)), one.x.is_some(), one.y.is_some()) {
        (Some(x), _, _, false) => dashed(frame.at(x, 0.0), frame.at(x, 1.0)),
        (_, Some(y), false, _) => dashed(frame.at(0.0, y), frame.at(1.0, y)),
        (Some(x), Some(y), ..) => {
            let at = frame.at(x, y);
            let ends = one.interval.map(|(low, high)| {
                let (low, high) = (frame.at(x, plot.y.clipped(low)), frame.at(x, plot.y.clipped(high)));
                format!("M{} {}L{} {}", n(low.0), n(low.1), n(high.0), n(high.1))
            });
            html! {
                @if let Some(ends) = ends { path.inkline d=(ends) stroke="#222222" stroke-width="1" {} }
                path.diamond transform={ "translate(" (n(at.0)) " " (n(at.1)) ")" } d="M0 -6L6 0L0 6L-6 0Z" fill="#ffffff" stroke="#222222" stroke-width="1.6" {}
            }
        }
        _ => html! {},
    }
}

/// Place of a mark's number: next to its shape, where no other number is yet. `None` if the shape is outside the plot.
fn number_at(
    plot: &Plot,
    frame: &Frame,
    one: &Stated,
    number: usize,
    taken: &mut Vec<(f64, f64)>,
) -> Option<(f64, f64)> {
    let font = frame.format.font();
    let wide = text::bold_width(&number.to_string(), font) + 2.0;
    let x = one.x.map(|x| plot.x.place(x));
    let y = one.y.map(|y| plot.y.place(y));
    let tries: Vec<(f64, f64)> = match (x, y) {
        (Some(x), None) => {
            let at = frame.at(x?, 1.0);
            (0..12).map(|n| (at.0 + 4.0, at.1 + font * (1.0 + 1.1 * f64::from(n)))).collect()
        }
        (None, Some(y)) => {
            let at = frame.at(0.0, y?);
            (0..16).map(|n| (at.0 + 6.0 + 16.0 * f64::from(n), at.1 - 5.0)).collect()
        }
        (Some(x), Some(y)) => {
            let at = frame.at(x?, y?);
            let around = [
                (8.0, -6.0),
                (8.0, 1.2 * font),
                (-8.0 - wide, -6.0),
                (-8.0 - wide, 1.2 * font),
                (8.0, -6.0 - font),
                (8.0, 2.3 * font),
            ];
            around.into_iter().map(|(right, down)| (at.0 + right, at.1 + down)).collect()
        }
        (None, None) => return None,
    };
    let within = |at: &(f64, f64)| {
        at.0 >= frame.left
            && at.0 + wide <= frame.right() + 4.0
            && at.1 - font >= frame.top - 2.0
            && at.1 <= frame.bottom()
    };
    let free = |at: &(f64, f64)| {
        taken
            .iter()
            .all(|other| (other.0 - at.0).abs() > 2.2 * wide.max(12.0) / 2.0 || (other.1 - at.1).abs() > 1.05 * font)
    };
    // If no place is free, the number is only in the list of reference values.
    let at = tries.into_iter().find(|at| within(at) && free(at))?;
    taken.push(at);
    Some(at)
}
