//! The sheet a picture is drawn on: size, text, legend, axes, and the shapes of a series.
//!
//! The plotting library works in whole pixels; the picture is drawn ten times as large and shown at a tenth, so that
//! curves stay smooth.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::curve::{Dot, XAxis};
use crate::format;

/// Drawing units a pixel.
const SCALE: i32 = 10;
/// Size of a picture [pixels]; readable down to about 350 wide.
pub const WIDTH: i32 = 800;
pub const HEIGHT: i32 = 480;
/// Space of title, origin and legend above the plot [pixels].
pub const HEAD: i32 = 104;

pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
pub const GREY: RGBColor = RGBColor(0x66, 0x66, 0x66);
const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub type Drawn<T = ()> = Result<T, DrawingAreaErrorKind<std::io::Error>>;

/// `pixels` in drawing units.
pub fn px(pixels: f64) -> i32 {
    (pixels * f64::from(SCALE)).round() as i32
}

fn stroke(pixels: f64) -> u32 {
    px(pixels).unsigned_abs()
}

/// What the picture is, for eyes and for screen readers.
pub struct Caption<'a> {
    pub title: &'a str,
    /// Small print under the title.
    pub origin: &'a str,
    /// The picture in words.
    pub words: &'a str,
}

/// A document with caption, `height` pixels high, drawn by `draw`.
pub fn document(caption: &Caption<'_>, height: i32, draw: impl FnOnce(&Area<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let size = (px(f64::from(WIDTH)) as u32, px(f64::from(height)) as u32);
    let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
    let drawn = (|| {
        area.fill(&PAPER)?;
        label(&area, (16.0, 12.0), 18.0, &INK, HPos::Left, true, caption.title)?;
        label(&area, (16.0, 37.0), 12.0, &GREY, HPos::Left, false, caption.origin)?;
        draw(&area)?;
        area.present()
    })();
    drop(area);
    // A picture that could not be drawn says so instead of taking the page with it.
    if let Err(error) = drawn {
        text = format!(
            "<svg>\n<text x=\"160\" y=\"400\" font-size=\"140\">{}</text>\n</svg>\n",
            escaped(&error.to_string())
        );
    }
    let body = text.split_once(">\n").map_or("", |(_, body)| body);
    let (title, words) = (escaped(caption.title), escaped(caption.words));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {} {}\" \
         role=\"img\" aria-label=\"{title}. {words}\">\n<title>{title}</title>\n<desc>{words}</desc>\n{}",
        size.0,
        size.1,
        format::printable(body)
    )
}

fn escaped(text: &str) -> String {
    let text = format::printable(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

/// Text with its upper edge at `at` [pixels].
pub fn label(
    area: &Area<'_>,
    at: (f64, f64),
    size: f64,
    colour: &RGBColor,
    anchor: HPos,
    bold: bool,
    text: &str,
) -> Drawn {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let font = font(size).style(style).color(colour).pos(Pos::new(anchor, VPos::Top));
    area.draw(&Text::new(text.to_owned(), (px(at.0), px(at.1)), font))
}

/// The backend divides by 1.24 what it calls a font's size.
fn font(size: f64) -> FontDesc<'static> {
    ("Helvetica Neue, Arial, Liberation Sans, sans-serif", f64::from(px(size)) * 1.24).into_font()
}

/// How an entry of the legend looks.
#[derive(Clone, Copy)]
pub enum Mark {
    Dashes,
    Line,
    LineInBand,
    Point,
    Hollow,
    Hairline,
    Box,
}

/// One line of legend from `left`, at `top` [pixels].
pub fn legend(area: &Area<'_>, left: f64, top: f64, entries: &[(Mark, RGBColor, &str)]) -> Drawn {
    const MARK: f64 = 26.0;
    let mut x = left;
    for (mark, colour, text) in entries {
        swatch(area, (x, top + 6.0), MARK, *mark, colour)?;
        label(area, (x + MARK + 6.0, top), 12.5, &INK, HPos::Left, false, text)?;
        // Without the font's measures: a wide enough guess a character.
        x += MARK + 6.0 + 5.9 * text.chars().count() as f64 + 20.0;
    }
    Ok(())
}

fn swatch(area: &Area<'_>, at: (f64, f64), length: f64, mark: Mark, colour: &RGBColor) -> Drawn {
    let line = |from: f64, to: f64, width: f64| {
        let ends = vec![(px(at.0 + from), px(at.1)), (px(at.0 + to), px(at.1))];
        area.draw(&PathElement::new(ends, colour.stroke_width(stroke(width))))
    };
    match mark {
        Mark::Dashes => (0..3).try_for_each(|dash| line(9.5 * f64::from(dash), 9.5 * f64::from(dash) + 6.0, 2.0)),
        Mark::Line => line(0.0, length, 2.0),
        Mark::LineInBand => {
            let corners = [(px(at.0), px(at.1 - 5.0)), (px(at.0 + length), px(at.1 + 5.0))];
            area.draw(&Rectangle::new(corners, colour.mix(0.22).filled()))?;
            line(0.0, length, 2.0)
        }
        Mark::Point => {
            let middle = px(at.0 + length / 2.0);
            let ends = vec![(middle, px(at.1 - 7.0)), (middle, px(at.1 + 7.0))];
            area.draw(&PathElement::new(ends, colour.stroke_width(stroke(1.4))))?;
            area.draw(&Circle::new((middle, px(at.1)), px(3.6), colour.filled()))
        }
        Mark::Hollow => {
            let middle = (px(at.0 + length / 2.0), px(at.1));
            area.draw(&Circle::new(middle, px(3.6), colour.stroke_width(stroke(1.4))))
        }
        Mark::Hairline => line(0.0, length, 1.0),
        Mark::Box => {
            let corners = [(px(at.0 + 8.0), px(at.1 - 6.0)), (px(at.0 + length), px(at.1 + 6.0))];
            area.draw(&Rectangle::new(corners, colour.filled()))
        }
    }
}

/// An axis: its range in drawing values, how many ticks at the most, and how a tick is written.
pub struct Ruler<'a> {
    pub name: &'a str,
    pub low: f64,
    pub high: f64,
    pub ticks: usize,
    pub written: &'a dyn Fn(f64) -> String,
}

/// Axes, grid and names on `area`, whose own margins are in pixels (left, right); the offered load along.
pub fn axes<'a, 'b>(area: &'a Area<'b>, margins: (f64, f64), x: &XAxis, y: &Ruler<'_>) -> Drawn<Chart<'a, 'b>> {
    rulers(area, margins, &Ruler { name: &x.name, low: 0.0, high: x.max, ticks: x.ticks, written: &plain }, y)
}

/// The same with any x axis.
pub fn rulers<'a, 'b>(area: &'a Area<'b>, margins: (f64, f64), x: &Ruler<'_>, y: &Ruler<'_>) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(px(6.0))
        .margin_left(px(margins.0))
        .margin_right(px(margins.1))
        .x_label_area_size(px(42.0))
        .y_label_area_size(px(if y.name.is_empty() { 36.0 } else { 68.0 }))
        .build_cartesian_2d(x.low..x.high, y.low..y.high)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID.stroke_width(stroke(1.0)))
        .light_line_style(TRANSPARENT)
        .axis_style(GREY.stroke_width(stroke(1.0)))
        .set_all_tick_mark_size(px(4.0))
        .label_style(font(12.0).color(&INK))
        .axis_desc_style(font(12.5).color(&INK))
        .x_labels(x.ticks)
        .y_labels(y.ticks)
        .x_label_formatter(&|value| (x.written)(*value))
        .y_label_formatter(&|value| (y.written)(*value))
        .x_desc(x.name)
        .y_desc(y.name)
        .draw()?;
    Ok(chart)
}

/// A tick without trailing zeros.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A dashed line.
pub fn dashes(chart: &mut Chart<'_, '_>, dots: &[Dot], colour: &RGBColor, width: f64) -> Drawn {
    let path: Vec<(f64, f64)> = dots.iter().map(|dot| (dot.x, dot.y)).collect();
    chart.draw_series(DashedLineSeries::new(path, px(7.0), px(4.0), colour.stroke_width(stroke(width))))?;
    Ok(())
}

/// A line through the values.
pub fn line(chart: &mut Chart<'_, '_>, dots: &[Dot], colour: &RGBColor, width: f64) -> Drawn {
    let path: Vec<(f64, f64)> = dots.iter().map(|dot| (dot.x, dot.y)).collect();
    chart.draw_series(LineSeries::new(path, colour.stroke_width(stroke(width))))?;
    Ok(())
}

/// The intervals as a band.
pub fn band(chart: &mut Chart<'_, '_>, dots: &[Dot], colour: &RGBColor) -> Drawn {
    let upper = dots.iter().map(|dot| (dot.x, dot.high));
    let outline: Vec<(f64, f64)> = upper.chain(dots.iter().rev().map(|dot| (dot.x, dot.low))).collect();
    chart.draw_series([Polygon::new(outline, colour.mix(0.22))])?;
    Ok(())
}

/// A filled area between two edges, bottom and top, of the same abscissae.
pub fn area(chart: &mut Chart<'_, '_>, edges: &[(f64, f64, f64)], colour: &RGBColor) -> Drawn {
    let upper = edges.iter().map(|(x, _, top)| (*x, *top));
    let outline: Vec<(f64, f64)> = upper.chain(edges.iter().rev().map(|(x, bottom, _)| (*x, *bottom))).collect();
    chart.draw_series([Polygon::new(outline, *colour)])?;
    Ok(())
}

/// The intervals as thin light bars, for pictures with many curves.
pub fn bars(chart: &mut Chart<'_, '_>, dots: &[Dot], colour: &RGBColor) -> Drawn {
    for dot in dots.iter().filter(|dot| dot.low < dot.high) {
        let bar = [(dot.x, dot.low), (dot.x, dot.high)];
        chart.draw_series([PathElement::new(bar, colour.mix(0.4).stroke_width(stroke(1.0)))])?;
    }
    Ok(())
}

/// Points of `radius` pixels with error bars; hollow where the sender did not keep up.
pub fn points(chart: &mut Chart<'_, '_>, dots: &[Dot], colour: &RGBColor, radius: f64) -> Drawn {
    for dot in dots {
        let bar = [(dot.x, dot.low), (dot.x, dot.high)];
        chart.draw_series([PathElement::new(bar, colour.stroke_width(stroke(1.4)))])?;
        let (at, radius) = ((dot.x, dot.y), px(radius));
        if dot.kept_up {
            chart.draw_series([Circle::new(at, radius, colour.filled())])?;
        } else {
            chart.draw_series([Circle::new(at, radius, PAPER.filled())])?;
            chart.draw_series([Circle::new(at, radius, colour.stroke_width(stroke(1.4)))])?;
        }
    }
    Ok(())
}

/// A thin line across the plot.
pub fn hairline(chart: &mut Chart<'_, '_>, from: (f64, f64), to: (f64, f64), colour: &RGBColor) -> Drawn {
    chart.draw_series([PathElement::new([from, to], colour.stroke_width(stroke(1.0)))])?;
    Ok(())
}

/// A small triangle that points down at `at` from outside the plot.
pub fn pointer(area: &Area<'_>, chart: &Chart<'_, '_>, at: (f64, f64), colour: &RGBColor) -> Drawn {
    let (x, y) = chart.backend_coord(&at);
    let corners = vec![(x, y), (x - px(4.0), y - px(7.0)), (x + px(4.0), y - px(7.0))];
    area.draw(&Polygon::new(corners, *colour))
}

/// Words in the plot where there is nothing to draw.
pub fn nothing(area: &Area<'_>, text: &str) -> Drawn {
    let (width, height) = area.dim_in_pixel();
    let middle = (f64::from(width) / 2.0 / f64::from(SCALE) + 14.0, f64::from(height) / 2.0 / f64::from(SCALE) - 26.0);
    label(area, middle, 13.0, &GREY, HPos::Center, false, text)
}

/// A hollow diamond at `at`: a number that somebody has stated.
pub fn diamond(area: &Area<'_>, chart: &Chart<'_, '_>, at: (f64, f64), colour: &RGBColor) -> Drawn {
    let (x, y) = chart.backend_coord(&at);
    let arm = px(6.0);
    let corners = vec![(x, y - arm), (x + arm, y), (x, y + arm), (x - arm, y), (x, y - arm)];
    area.draw(&Polygon::new(corners.clone(), PAPER))?;
    area.draw(&PathElement::new(corners, colour.stroke_width(stroke(1.6))))
}

/// Text in the plot with its upper edge at `offset` pixels from the place `at`.
pub fn note(
    area: &Area<'_>,
    chart: &Chart<'_, '_>,
    at: (f64, f64),
    offset: (f64, f64),
    anchor: HPos,
    text: &str,
) -> Drawn {
    let (x, y) = chart.backend_coord(&at);
    let scale = f64::from(px(1.0));
    let place = (f64::from(x) / scale + offset.0, f64::from(y) / scale + offset.1);
    label(area, place, 12.0, &INK, anchor, true, text)
}
