//! [`rfc2544`]: the report of `netcliff rfc2544` with the tables and graphs that RFC 2544 asks for.

use maud::{Markup, html};
use netcliff_core::experiment::{Axes, Curve, Dot, Scale};
use netcliff_core::outcome::Dimension;
use netcliff_core::{Figure, units};
use netcliff_rfc2544::report::{Rfc2544Report, SearchTurn, SizeReport};
use netcliff_rfc2544::settings::FrameSize;

use super::figure::figure as drawn;
use super::page;
use super::stack::{figure, stack, words};
use super::tables::facts;
use crate::drawing::Drawing;
use crate::drawing::stored::{axis, stored};
use crate::format::{self, Unit};
use crate::svg;
use crate::terminal::rfc2544::{doubt, ended_early, lower_bounds, missing, notes, tables, throughput_of, verdict};

/// Step of the frame size (bytes) between points of the curve of a line's rate.
const LINE_STEP_BYTES: usize = 16;

/// Graphs of throughput, latency and loss, then every table, on one page that needs nothing else.
pub fn rfc2544(report: &Rfc2544Report) -> String {
    page(&format!("{} - netcliff rfc2544", headline(report)), &body(report))
}

/// Headline of the page: the throughput of the first frame size that has one, usually the smallest size.
fn headline(report: &Rfc2544Report) -> String {
    let of_size = |size: &SizeReport| Some((size.frame, size.forwarded_pps().map(|_| throughput_of(size))?));
    match report.sizes.iter().find_map(of_size) {
        Some((frame, found)) => format!("Forwarding by RFC 2544: {found} of {frame} frames"),
        None => "Forwarding by RFC 2544".to_owned(),
    }
}

fn body(report: &Rfc2544Report) -> Markup {
    let drawings = [("throughput", throughput(report)), ("latency", latency(report)), ("loss", loss(report))];
    let lists =
        [("Only a lower bound", lower_bounds(report)), ("Not measured", missing(report)), ("Notes", notes(report))];
    html! {
        header {
            p.kicker { "netcliff rfc2544 · " (format::date_utc(report.provenance.started_unix_s)) }
            h1 { (headline(report)) }
            p { (report.device) ". " (report.tester) "." }
            @if let Some(why) = ended_early(report) {
                p.banner role="status" { strong { "Partial:" } " " (why) }
            }
            p { strong { (verdict(report)) } }
            @if let Some(doubt) = doubt(report) { div .callout .alarm { p { (doubt) } } }
        }
        main {
            (throughput_table(report))
            @for (slug, drawing) in drawings {
                @if let Some(drawing) = drawing { (drawn(&svg::experiment::plot(&drawing, slug), true)) }
            }
            @for (heading, rows) in tables(report) { (table(&heading, rows)) }
            @for (heading, lines) in lists {
                @if !lines.is_empty() { section { h2 { (heading) } ul { @for line in lines { li { (line) } } } } }
            }
            section #produced {
                h2 { "Command and version" }
                (facts([("command", report.provenance.command.clone()), ("netcliff", report.provenance.version.clone())].into_iter()))
            }
        }
    }
}

/// A table of the terminal's page. Its heading is in lower case, except abbreviations and the first letter.
fn table(heading: &str, rows: Vec<Vec<String>>) -> Markup {
    let mut rows = rows.into_iter();
    let heads = rows.next().unwrap_or_default();
    let name = |word: &str| {
        if word.chars().any(|c| c.is_ascii_digit()) || word == "RFC" { word.to_owned() } else { word.to_lowercase() }
    };
    let name = heading.split(' ').map(name).collect::<Vec<_>>().join(" ");
    html! {
        section {
            h2 { (format::capitalised(&name)) }
            (stack(&heads, rows.map(|row| row.into_iter().map(figure).collect())))
        }
    }
}

/// RFC 2544 26.1: frame size, theoretical frame rate if the line is known, measured frame rate, frame type.
fn throughput_table(report: &Rfc2544Report) -> Markup {
    let kind = if report.asked.ipv6 { "UDP over IPv6" } else { "UDP over IPv4" };
    let had: Vec<&SizeReport> = report.sizes.iter().filter(|size| size.forwarded_pps().is_some()).collect();
    let several = report.asked.searches > 1;
    let line = report.line_bps.map(|line_bps| format!("theoretical at {}", format::quantity(line_bps, Unit::Bps)));
    let of_several = several.then_some(["searches", "each, in its round"]).into_iter().flatten().map(str::to_owned);
    let heads: Vec<String> = (["frame size".to_owned()].into_iter().chain(line))
        .chain(["throughput".to_owned()])
        .chain(of_several)
        .chain(["frames".to_owned()])
        .collect();
    let row = |size: &&SizeReport| {
        let line = report.line_bps.map(|line_bps| figure(format::quantity(size.frame.line_pps(line_bps), Unit::Pps)));
        let turns = several.then(|| [figure(size.searches.len().to_string()), words(each(size))]).into_iter().flatten();
        let own = [figure(size.frame.to_string())].into_iter().chain(line).chain([figure(throughput_of(size))]);
        own.chain(turns).chain([words(kind)]).collect()
    };
    html! {
        @if !had.is_empty() {
            section #throughput {
                h2 { "Throughput" }
                (stack(&heads, had.iter().map(row)))
                @if several {
                    p.note {
                        "Means of the searches, which went round by round over the sizes, with 95 % intervals. The intervals include the \
                         distance between the bounds of each search."
                    }
                }
            }
        }
    }
}

/// Result of each search of a size.
fn each(size: &SizeReport) -> String {
    let lower = |turn: &SearchTurn| turn.searched.bounds().map(|(lower, _)| lower);
    let found = |turn: &SearchTurn| lower(turn).map_or("-".to_owned(), |pps| format::quantity(pps, Unit::Pps));
    size.searches.iter().map(found).collect::<Vec<_>>().join(", ")
}

/// The values by frame size (bytes). Mixes such as IMIX are left out, because they have no place on the axis.
fn by_size(report: &Rfc2544Report, value: impl Fn(&SizeReport) -> Option<f64>) -> Vec<Dot> {
    figures_by_size(report, |size| value(size).map(Figure::exact))
}

/// The throughput of a size. If it is a lower limit, its interval has no upper end.
fn or_more(size: &SizeReport) -> Option<Figure> {
    let found = size.forwarded()?;
    let low = found.interval.map_or(found.value, |ends| ends.low);
    let open = || Figure::between(found.value, low, f64::INFINITY, found.interval.map_or(1.0, |ends| ends.confidence));
    Some(if size.is_lower_limit() { open() } else { found })
}

/// Figures by frame size (bytes), with their intervals; otherwise like [`by_size`].
fn figures_by_size(report: &Rfc2544Report, figure: impl Fn(&SizeReport) -> Option<Figure>) -> Vec<Dot> {
    let fixed = report.sizes.iter().filter(|size| matches!(size.frame, FrameSize::Fixed(_)));
    let mut dots: Vec<Dot> = fixed.filter_map(|size| Some(Dot { x: size.mean_bytes, y: figure(size)? })).collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    dots
}

fn curve(name: impl Into<String>, dots: Vec<Dot>) -> Option<Curve> {
    (!dots.is_empty()).then(|| Curve { name: name.into(), answerer: None, dots })
}

fn drawing(report: &Rfc2544Report, title: &str, axes: Axes, curves: Vec<Curve>) -> Option<Drawing> {
    let partial = report.partial.is_some();
    (!curves.is_empty()).then(|| Drawing { partial, ..stored(title, axes, curves, &report.provenance) })
}

/// The rate that a line carries, from the smallest measured size to the largest. It has more points than the measured
/// sizes, because it is a curve between them, not straight.
fn line_rate(measured: &[Dot], line_bps: f64) -> Vec<Dot> {
    let (Some(first), Some(last)) = (measured.first(), measured.last()) else { return Vec::new() };
    let (first, last) = (first.x as u32, last.x as u32);
    let sizes = (first..last).step_by(LINE_STEP_BYTES).chain([last]);
    let pps = |bytes: u32| Figure::exact(FrameSize::Fixed(bytes).line_pps(line_bps));
    sizes.map(|bytes| Dot { x: f64::from(bytes), y: pps(bytes) }).collect()
}

/// The figure of RFC 2544 26.1 as an SVG document. `None` if no throughput was measured.
pub fn rfc2544_figure(report: &Rfc2544Report) -> Option<String> {
    throughput(report).map(|drawing| svg::experiment(&drawing))
}

/// RFC 2544 26.1: frame rate by frame size, measured, simulated and theoretical.
fn throughput(report: &Rfc2544Report) -> Option<Drawing> {
    let measured = curve("throughput", figures_by_size(report, or_more))?;
    let simulated = curve("simulated from the router's costs", by_size(report, |size| size.predicted?.simulated_pps));
    let lines = report.line_bps.iter().filter_map(|line| {
        let name = format!("{} line", units::print_bps(*line));
        curve(name, line_rate(&measured.dots, *line))
    });
    let lines: Vec<Curve> = lines.collect();
    let axes = Axes {
        x: axis("frame size", Dimension::Bytes, Scale::Linear),
        y: axis("frames forwarded without loss", Dimension::Pps, Scale::Log),
    };
    drawing(
        report,
        if report.line_bps.is_some() {
            "Throughput by frame size, and what the line carries"
        } else {
            "Throughput by frame size"
        },
        axes,
        [measured].into_iter().chain(simulated).chain(lines).collect(),
    )
}

fn latency(report: &Rfc2544Report) -> Option<Drawing> {
    let curves = [
        ("tagged frames, mean", by_size(report, |size| Some(size.latency.as_ref()?.mean_s))),
        ("tagged, from before they were written", by_size(report, |size| size.latency.as_ref()?.application_mean_s)),
        ("typical (RFC 8219)", by_size(report, |size| Some(size.latency.as_ref()?.typical_s.median))),
        ("worst case (RFC 8219)", by_size(report, |size| Some(size.latency.as_ref()?.worst_s.median))),
    ];
    let axes = Axes {
        x: axis("frame size", Dimension::Bytes, Scale::Linear),
        y: axis("latency at the throughput", Dimension::Seconds, Scale::Log),
    };
    let curves = curves.into_iter().filter_map(|(name, dots)| curve(name, dots)).collect();
    drawing(report, "Latency at the throughput, by frame size", axes, curves)
}

/// RFC 2544 26.3: loss over the share of the highest rate, one curve per frame size.
fn loss(report: &Rfc2544Report) -> Option<Drawing> {
    let curves = report.sizes.iter().filter_map(|size| {
        let trials = &size.loss.as_ref()?.trials;
        let dot = |trial: &netcliff_mlrsearch::trial::Trial| Dot {
            x: trial.load_pps / size.max_pps,
            y: Figure::exact(trial.loss_ratio()),
        };
        curve(size.frame.to_string(), trials.iter().rev().map(dot).collect())
    });
    let axes = Axes {
        x: axis("load, of the highest load", Dimension::Share, Scale::Linear),
        y: axis("frame loss ratio", Dimension::Share, Scale::Linear),
    };
    drawing(report, "Frame loss by load", axes, curves.collect())
}
