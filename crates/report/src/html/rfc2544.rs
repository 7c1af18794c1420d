//! [`rfc2544`]: the report of `netcliff rfc2544` with the tables and graphs that RFC 2544 asks for.

use maud::{Markup, PreEscaped, html};
use netcliff_core::Figure;
use netcliff_core::experiment::{Axes, Axis, Curve, Dot, Scale};
use netcliff_core::measure::Dimension;
use netcliff_lab::rfc2544::conduct::LINES_BPS;
use netcliff_lab::rfc2544::report::{Rfc2544Report, SearchTurn, SizeReport};
use netcliff_lab::rfc2544::settings::FrameSize;

use super::page;
use crate::drawing::Drawing;
use crate::format::{self, Unit};
use crate::svg;
use crate::terminal::rfc2544::throughput_of;
use crate::terminal::{self, Style};

/// Distance of the points of a line's rate, in frame size.
const LINE_STEP_BYTES: usize = 16;

/// Graphs of throughput, latency and loss, then every table, on one page that needs nothing else.
pub fn rfc2544(report: &Rfc2544Report) -> String {
    page("netcliff: forwarding by RFC 2544", &body(report))
}

fn body(report: &Rfc2544Report) -> Markup {
    let style = Style { width: 110, ..Style::default() };
    html! {
        header {
            p.kicker { "netcliff · " (format::date_utc(report.provenance.started_unix_s)) }
            h1 { "Forwarding by RFC 2544" }
            p { (report.device) ". " (report.tester) "." }
            @if let Some(why) = &report.partial {
                p.banner role="status" { strong { "Partial." } " " (why) ". Results up to then are shown." }
            }
        }
        main {
            @for drawing in [throughput(report), latency(report), loss(report)].into_iter().flatten() {
                figure { (PreEscaped(svg::experiment(&drawing))) }
            }
            (throughput_table(report))
            section #tables {
                h2 { "All tables" }
                div.scroll { pre { (terminal::rfc2544(report, style)) } }
            }
            section #produced {
                h2 { "How it was produced" }
                pre { code { (report.provenance.command) } }
            }
        }
    }
}

/// RFC 2544 26.1: frame size, theoretical frame rate, measured frame rate, frame type.
fn throughput_table(report: &Rfc2544Report) -> Markup {
    let kind = if report.asked.ipv6 { "UDP over IPv6" } else { "UDP over IPv4" };
    let had: Vec<&SizeReport> = report.sizes.iter().filter(|size| size.forwarded_pps().is_some()).collect();
    let several = report.asked.searches > 1;
    html! {
        @if !had.is_empty() {
            section #throughput {
                h2 { "Throughput" }
                div.scroll {
                    table {
                        thead { tr {
                            th scope="col" { "frame size" }
                            @for line in LINES_BPS { th scope="col" { "theoretical at " (format::quantity(line, Unit::Bps)) } }
                            th scope="col" { "throughput" }
                            @if several { th scope="col" { "searches" } th scope="col" { "each, in its round" } }
                            th scope="col" { "frames" }
                        } }
                        tbody {
                            @for size in had {
                                tr {
                                    th scope="row" { (size.frame) }
                                    @for line in LINES_BPS { td { (format::quantity(size.frame.line_pps(line), Unit::Pps)) } }
                                    td { (throughput_of(size)) }
                                    @if several { td { (size.searches.len()) } td.words { (each(size)) } }
                                    td.words { (kind) }
                                }
                            }
                        }
                    }
                }
                @if several {
                    p.note {
                        "Means of the searches, which went round by round over the sizes, with 95 % intervals; how far the bounds of a \
                         search are apart is in them."
                    }
                }
            }
        }
    }
}

/// What each search of a size found.
fn each(size: &SizeReport) -> String {
    let lower = |turn: &SearchTurn| turn.searched.bounds().map(|(lower, _)| lower);
    let found = |turn: &SearchTurn| lower(turn).map_or("-".to_owned(), |pps| format::quantity(pps, Unit::Pps));
    size.searches.iter().map(found).collect::<Vec<_>>().join(", ")
}

/// Sizes on the x axis (bytes), one value each; IMIX has no place there.
fn by_size(report: &Rfc2544Report, value: impl Fn(&SizeReport) -> Option<f64>) -> Vec<Dot> {
    figures_by_size(report, |size| value(size).map(Figure::exact))
}

/// The same of figures that may have intervals.
fn figures_by_size(report: &Rfc2544Report, figure: impl Fn(&SizeReport) -> Option<Figure>) -> Vec<Dot> {
    let fixed = report.sizes.iter().filter(|size| matches!(size.frame, FrameSize::Fixed(_)));
    let mut dots: Vec<Dot> = fixed.filter_map(|size| Some(Dot { x: size.mean_bytes, y: figure(size)? })).collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    dots
}

fn curve(name: impl Into<String>, dots: Vec<Dot>) -> Option<Curve> {
    (!dots.is_empty()).then(|| Curve { name: name.into(), answerer: None, dots })
}

fn axis(name: &str, dimension: Dimension, scale: Scale) -> Axis {
    Axis { name: name.to_owned(), dimension, scale, range: None }
}

fn drawing(report: &Rfc2544Report, title: &str, axes: Axes, curves: Vec<Curve>) -> Option<Drawing> {
    (!curves.is_empty()).then(|| Drawing {
        title: title.to_owned(),
        axes,
        curves,
        marks: Vec::new(),
        not_had: Vec::new(),
        asked: Vec::new(),
        source: String::new(),
        provenance: report.provenance.clone(),
        partial: report.partial.is_some(),
    })
}

/// What a line carries from the smallest measured size to the largest: a curve, not straight between the few sizes that were measured.
fn line_rate(measured: &[Dot], line_bps: f64) -> Vec<Dot> {
    let (Some(first), Some(last)) = (measured.first(), measured.last()) else { return Vec::new() };
    let (first, last) = (first.x as u32, last.x as u32);
    let sizes = (first..last).step_by(LINE_STEP_BYTES).chain([last]);
    let pps = |bytes: u32| Figure::exact(FrameSize::Fixed(bytes).line_pps(line_bps));
    sizes.map(|bytes| Dot { x: f64::from(bytes), y: pps(bytes) }).collect()
}

/// RFC 2544 26.1: frame rate against frame size, measured and theoretical.
fn throughput(report: &Rfc2544Report) -> Option<Drawing> {
    let measured = curve("throughput", figures_by_size(report, SizeReport::forwarded))?;
    let simulated = curve("simulated from the router's costs", by_size(report, |size| size.predicted?.simulated_pps));
    let lines = LINES_BPS.iter().filter_map(|line| {
        let name = format!("{} line", format::quantity(*line, Unit::Bps));
        curve(name, line_rate(&measured.dots, *line))
    });
    let lines: Vec<Curve> = lines.collect();
    let axes = Axes {
        x: axis("frame size", Dimension::Bytes, Scale::Linear),
        y: axis("frames forwarded without loss", Dimension::Pps, Scale::Log),
    };
    drawing(
        report,
        "Throughput by frame size, and what lines carry",
        axes,
        [measured].into_iter().chain(simulated).chain(lines).collect(),
    )
}

fn latency(report: &Rfc2544Report) -> Option<Drawing> {
    let curves = [
        ("tagged frames, mean", by_size(report, |size| Some(size.latency.as_ref()?.mean_s))),
        ("the same, from before they were written", by_size(report, |size| size.latency.as_ref()?.application_mean_s)),
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

/// RFC 2544 26.3: loss against the share of the highest rate, a curve a frame size.
fn loss(report: &Rfc2544Report) -> Option<Drawing> {
    let curves = report.sizes.iter().filter_map(|size| {
        let trials = &size.loss.as_ref()?.trials;
        let dot = |trial: &netcliff_lab::rfc2544::trial::Trial| Dot {
            x: trial.load_pps / size.max_pps,
            y: Figure::exact(trial.loss_ratio()),
        };
        curve(size.frame.to_string(), trials.iter().rev().map(dot).collect())
    });
    let axes = Axes {
        x: axis("load over the highest", Dimension::Share, Scale::Linear),
        y: axis("frames lost", Dimension::Share, Scale::Linear),
    };
    drawing(report, "Frame loss by load", axes, curves.collect())
}
