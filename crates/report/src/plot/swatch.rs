//! Draws lines and points, in the plot and in the legend.

use maud::{Markup, html};

use super::sheet::number;
use super::{DASHES, Look, Marker, Spread, TONES};

/// Width and height of a swatch in a legend [drawing units].
pub const LONG: f64 = 30.0;
pub const HIGH: f64 = 14.0;
/// Distance from the middle of a point to its edge [drawing units].
pub const RADIUS: f64 = 3.7;

/// The outline of a point around 0, 0.
pub fn outline(shape: usize, r: f64) -> String {
    let n = number;
    match shape % 9 {
        0 => format!("M{0} 0a{1} {1} 0 1 0 {2} 0a{1} {1} 0 1 0 {3} 0z", n(-r), n(r), n(2.0 * r), n(-2.0 * r)),
        1 => format!("M{0} {0}H{1}V{1}H{0}z", n(-0.9 * r), n(0.9 * r)),
        2 => format!("M0 {}L{} {}H{}z", n(-1.2 * r), n(1.15 * r), n(0.85 * r), n(-1.15 * r)),
        3 => format!("M0 {}L{} {}H{}z", n(1.2 * r), n(1.15 * r), n(-0.85 * r), n(-1.15 * r)),
        4 => format!("M{0} {0}L{1} {1}M{0} {1}L{1} {0}", n(-r), n(r)),
        5 => format!("M0 {0}V{1}M{0} 0H{1}", n(-1.2 * r), n(1.2 * r)),
        6 => format!(
            "M{0} {1}H{2}L{3} 0L{2} {4}H{0}L{5} 0z",
            n(-0.6 * r),
            n(-r),
            n(0.6 * r),
            n(1.2 * r),
            n(r),
            n(-1.2 * r)
        ),
        7 => format!("M{0} {0}H{1}L{0} {1}H{1}z", n(-r), n(r)),
        _ => format!("M0 {}V{}", n(-1.4 * r), n(1.4 * r)),
    }
}

/// A point at `at`.
pub fn point(marker: Marker, at: (f64, f64)) -> Markup {
    // Shapes without an inside are drawn only by their lines.
    let open = matches!(marker.shape % 9, 4 | 5 | 8);
    let place = format!("translate({} {})", number(at.0), number(at.1));
    html! {
        @if marker.filled && !open {
            path transform=(place) d=(outline(marker.shape, RADIUS)) fill="currentColor" {}
        } @else {
            path.paper transform=(place) d=(outline(marker.shape, RADIUS)) fill=(if open { "none" } else { "#ffffff" }) stroke="currentColor" stroke-width="1.6" {}
        }
    }
}

/// The dashes of a line. `None` for a solid line.
pub fn dashes(dash: usize) -> Option<&'static str> {
    Some(DASHES[dash % DASHES.len()]).filter(|dashes| *dashes != "none")
}

/// The sample of a line or point in a legend, with its left end at `left` and its middle at height `middle`.
pub fn sample(look: &Look, left: f64, middle: f64) -> Markup {
    let (n, right, centre) = (number, left + LONG, left + LONG / 2.0);
    let across = format!("M{} {}H{}", n(left), n(middle), n(right));
    let upright = format!("M{} {}V{}", n(centre), n(middle - 7.0), n(middle + 7.0));
    html! {
        g .{ "t" (look.tone % TONES.len()) } color=(TONES[look.tone % TONES.len()]) {
            @if look.area {
                rect x=(n(left + 6.0)) y=(n(middle - 6.0)) width="18" height="12" fill="currentColor" {}
            }
            @if look.spread == Spread::Band {
                rect x=(n(left)) y=(n(middle - 5.0)) width=(n(LONG)) height="10" fill="currentColor" opacity="0.22" {}
            }
            @if let Some((dash, width)) = look.line {
                path d=(across) fill="none" stroke="currentColor" stroke-width=(n(width)) stroke-dasharray=[dashes(dash)] {}
            }
            @if look.spread == Spread::Bars && look.marker.is_some() {
                path d=(upright) stroke="currentColor" stroke-width="1.2" {}
            }
            @if let Some(marker) = look.marker { (point(marker, (centre, middle))) }
        }
    }
}

/// The sample as a small picture, for a legend in HTML.
pub fn swatch(look: &Look) -> Markup {
    html! {
        svg.swatch width=(number(LONG)) height=(number(HIGH)) viewBox={ "0 0 " (number(LONG)) " " (number(HIGH)) } aria-hidden="true" {
            (sample(look, 0.0, HIGH / 2.0))
        }
    }
}
