//! Prints a run as data, as a page or as a picture.

use netcliff_core::experiment::{Experiment, Task};
use netcliff_core::units;
use netcliff_lab::run::has_other_fidelity;
use netcliff_report as report;
use netcliff_report::drawing::{Drawing, NotHad};
use netcliff_sim::Effort;

use super::Run;
use crate::args::RunArgs;
use crate::commands::write;
use crate::live;
use crate::output;

/// Prints a run to stdout and into the files that the options name.
pub fn show(args: &RunArgs, text: &str, run: &Run<'_>, partial: bool) -> anyhow::Result<()> {
    let drawing = drawing(run, text, partial)?;
    match (args.json, output::to_stdout(&args.csv)) {
        _ if args.live && !args.json => live::result(&run.records.values().collect::<Vec<_>>(), partial)?,
        (true, _) => run.records.values().try_for_each(output::json_line)?,
        (_, true) => output::page(&report::csv::records(&run.records.values().cloned().collect::<Vec<_>>()))?,
        _ => output::page(&report::terminal::experiment(&drawing, output::style()))?,
    }
    if args.json || output::to_stdout(&args.csv) {
        drawing.not_had.iter().for_each(|not_had| output::say(format!("netcliff: not measured: {}", not_had.text())));
    }
    output::csv(&args.csv, || Ok(report::csv::records(&run.records.values().cloned().collect::<Vec<_>>())))?;
    files(args, &drawing, "the figure", report::html::experiment)
}

/// Writes the picture, and the page that shows `what`, into the files that the options name.
pub fn files(args: &RunArgs, drawing: &Drawing, what: &str, page: impl Fn(&Drawing) -> String) -> anyhow::Result<()> {
    if let Some(path) = &args.claims {
        super::claims::keep(path, args.file(), drawing)?;
    }
    if let Some(path) = &args.svg {
        write(path, &report::svg::experiment(drawing))?;
    }
    if let Some(path) = &args.html {
        write(path, &page(drawing))?;
        output::say(format!("netcliff: {what} is in {}", path.display()));
    }
    Ok(())
}

fn drawing(run: &Run<'_>, text: &str, partial: bool) -> anyhow::Result<Drawing> {
    let experiment: Experiment = run.plan.experiment();
    let outcome = |task: &Task| run.records.get(&task.index).map(|record| &record.outcome);
    let curves = run.plan.grid.curves(&run.plan.tasks, outcome);
    let drawing = Drawing::of(&experiment, curves, text.to_owned(), run.provenance.clone()).map_err(output::usage)?;
    let drawing = drawing.judged_by(|key| {
        let measure = key.parse::<netcliff_core::Measure>().ok()?;
        Some(netcliff_core::experiment::Grid::curves_of(measure, &run.plan.tasks, outcome))
    });
    Ok(Drawing { not_had: not_had(run), asked: asked(run), partial, ..drawing })
}

/// Points without a result: one entry for each curve, engine and reason.
fn not_had(run: &Run<'_>) -> Vec<NotHad> {
    let mut groups: Vec<NotHad> = Vec::new();
    for (index, (why, failed)) in &run.passed_over {
        let task = &run.plan.tasks[*index];
        let why = if *failed { format!("failed: {why}") } else { why.clone() };
        let other_fidelity = !failed && has_other_fidelity(task);
        let same =
            |group: &&mut NotHad| group.curve == task.curve && group.answerer == task.answerer && group.why == why;
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.points += 1;
                group.other_fidelity |= other_fidelity;
            }
            None => {
                let (curve, answerer) = (task.curve.clone(), task.answerer);
                groups.push(NotHad { curve, answerer, points: 1, why, other_fidelity });
            }
        }
    }
    groups
}

fn asked(run: &Run<'_>) -> Vec<(String, String)> {
    let grid = &run.plan.grid;
    let join = |texts: Vec<String>| texts.join(", ");
    let changes = if grid.host.set.is_empty() { String::new() } else { format!(" with {}", grid.host.set.join(", ")) };
    let effort = match run.plan.sim.effort {
        Effort::Packets(packets) | Effort::Exactly(packets) => format!("{packets} packets a point"),
        Effort::Precision { relative, packets_at_most, figures } => {
            let (figures, within) = (figures.to_string().replace(',', ", "), units::print_share(relative));
            format!("each point until {figures} are known within {within}, at most {packets_at_most} packets")
        }
    };
    let confidence = units::print_share(run.plan.sim.confidence);
    let host = match grid.devices.as_slice() {
        [] => format!("{}{changes}", grid.host.preset),
        devices => {
            let names = devices.iter().map(netcliff_core::experiment::DeviceSection::name);
            format!("{}, each calibrated in its guest", join(names.collect()))
        }
    };
    let paper = (!grid.paper.is_empty()).then(|| ("paper".to_owned(), grid.paper.clone()));
    let mut asked: Vec<(String, String)> = paper.into_iter().collect();
    asked.extend([
        ("host".to_owned(), host),
        ("arrivals".to_owned(), join(grid.traffic.arrivals.0.iter().map(ToString::to_string).collect())),
        ("frames".to_owned(), join(grid.traffic.sizes.0.iter().map(ToString::to_string).collect())),
    ]);
    // Points of a device are simulated by `find`, with its sampling and not with that of the experiment.
    if grid.devices.is_empty() && grid.engines.iter().any(|engine| *engine != netcliff_core::EngineKind::Model) {
        asked.push(("sampling".to_owned(), format!("{effort}, {confidence} intervals, seed {}", run.plan.seed)));
    }
    asked
}
