//! Experiments that only evaluate formulas. They end at once, so they are neither continued nor stored.

use std::process::ExitCode;

use netcliff_core::Provenance;
use netcliff_core::experiment::{Curve, Experiment, HostSection};
use netcliff_report as report;
use netcliff_report::drawing::Drawing;

use super::show::files;
use crate::args::RunArgs;
use crate::live;
use crate::output;

/// A point of a curve, as `--json` prints it.
#[derive(serde::Serialize)]
struct CurvePoint<'a> {
    kind: &'static str,
    curve: &'a str,
    #[serde(flatten)]
    values: std::collections::BTreeMap<&'static str, f64>,
}

/// Draws the curves, or prints them as data.
pub fn show(
    args: &RunArgs,
    experiment: &Experiment,
    curves: Vec<Curve>,
    source: String,
    provenance: Provenance,
) -> anyhow::Result<ExitCode> {
    refuse(args)?;
    let (kind, keys) = match experiment {
        Experiment::Roofline(_) => ("roofline", ("frame_bytes", "limit_bps")),
        _ => ("mlfrr", ("offered_pps", "delivered_pps")),
    };
    let points = curves.iter().flat_map(|curve| {
        curve.dots.iter().map(move |dot| {
            let values = [(keys.0, dot.x), (keys.1, dot.y.value)].into();
            CurvePoint { kind, curve: &curve.name, values }
        })
    });
    if args.json {
        points.clone().try_for_each(|point| output::json_line(&point))?;
    } else if args.live {
        live::result(&points.collect::<Vec<_>>(), false)?;
    }
    let drawing = Drawing::of(experiment, curves, source, provenance).map_err(output::usage)?;
    let drawing = Drawing { asked: asked(experiment), ..drawing };
    if output::to_stdout(&args.csv) {
        output::data(&report::csv::curves(&drawing.curves, keys))?;
    } else if !args.json && !args.live {
        output::page(&report::terminal::experiment(&drawing, output::style()))?;
    }
    output::csv(&args.csv, || Ok(report::csv::curves(&drawing.curves, keys)))?;
    files(args, &drawing, "the figure", report::html::experiment)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses options of experiments with simulated or measured points.
fn refuse(args: &RunArgs) -> anyhow::Result<()> {
    let flags = [
        ("--engine", !args.engine.is_empty()),
        ("--seed", args.seed.is_some()),
        ("--precision", args.precision.is_some()),
        ("--packets", args.packets.is_some()),
        ("--resume", args.resume),
    ];
    super::refuse(
        args,
        &flags,
        "is computed from formulas at once; leave it out, or give an experiment of kind \"grid\"",
    )
}

fn asked(experiment: &Experiment) -> Vec<(String, String)> {
    let host = |section: &HostSection| {
        let changes = if section.set.is_empty() { String::new() } else { format!(" with {}", section.set.join(", ")) };
        ("host".to_owned(), format!("{}{changes}", section.preset))
    };
    let paper = (!experiment.paper().is_empty()).then(|| ("paper".to_owned(), experiment.paper().to_owned()));
    let values = match experiment {
        Experiment::Grid(_) | Experiment::Transfers(_) | Experiment::Forwarding(_) => Vec::new(),
        Experiment::Mlfrr(mlfrr) => vec![host(&mlfrr.host), ("frames".to_owned(), mlfrr.traffic.size.to_string())],
        Experiment::Roofline(roofline) => {
            let join = |texts: Vec<String>| texts.join(", ");
            let mut asked = vec![
                ("link".to_owned(), format!("link {}", roofline.link)),
                ("bus".to_owned(), join(roofline.bus.0.iter().map(ToString::to_string).collect())),
            ];
            if !roofline.offloads.is_empty() {
                asked.push(("offloads".to_owned(), join(roofline.offloads.iter().map(ToString::to_string).collect())));
            }
            asked.extend(roofline.headers.iter().map(|bytes| ("headers".to_owned(), format!("{bytes} of headers"))));
            asked.extend(roofline.host.iter().map(host));
            asked
        }
    };
    paper.into_iter().chain(values).collect()
}
