//! Extracts the figure of an experiment from the output of `netcliff run --json`, for `tune try --experiment`.

use netcliff_core::experiment::Experiment;
use netcliff_core::{Dimension, EngineKind, Record};

use netcliff_rfc2544::forwarding::ForwardingReport;
use netcliff_stats as stats;
use netcliff_transfer::experiments::TransferReport;

/// Whether a higher value of the figure is better. True for rates and for remaining capacity, false for waiting times,
/// losses and costs.
pub fn is_better_higher(figure: &str) -> bool {
    ["_pps", "_bps"].iter().any(|unit| figure.ends_with(unit)) || ["link_share", "cpu_available"].contains(&figure)
}

/// Returns the name of the figure that an experiment plots.
///
/// # Errors
/// A sentence: an experiment of formulas has no measured figure.
pub fn drawn(experiment: &Experiment) -> Result<String, String> {
    match experiment {
        Experiment::Transfers(transfers) => Ok(transfers.figure.y.name().to_owned()),
        Experiment::Grid(grid) => Ok(grid.figure.y.to_string()),
        Experiment::Forwarding(_) => Ok("throughput_pps".to_owned()),
        Experiment::Mlfrr(_) | Experiment::Roofline(_) => {
            Err("an experiment of formulas measures nothing; give one of points, transfers or forwarding".to_owned())
        }
    }
}

/// Returns the dimension of the figure that an experiment plots.
pub fn dimension(experiment: &Experiment) -> Dimension {
    match experiment {
        Experiment::Transfers(transfers) => transfers.figure.y.dimension(),
        Experiment::Grid(grid) => grid.figure.y.dimension,
        Experiment::Forwarding(_) => Dimension::Pps,
        Experiment::Mlfrr(_) | Experiment::Roofline(_) => Dimension::Number,
    }
}

/// Returns the figure that the experiment plots: its mean over the measured points.
///
/// # Errors
/// A sentence: the experiment consists of formulas, or the output lacks the figure.
pub fn experiment_figure(experiment: &Experiment, output: &str) -> Result<f64, String> {
    let name = drawn(experiment)?;
    let values: Vec<f64> = match experiment {
        Experiment::Transfers(_) => {
            let report: TransferReport = serde_json::from_str(output.trim())
                .map_err(|error| format!("the experiment printed no report: {error}"))?;
            report.rows.iter().filter_map(|row| Some(row.figure(report.y)?.value)).collect()
        }
        Experiment::Forwarding(_) => {
            let report: ForwardingReport = serde_json::from_str(output.trim())
                .map_err(|error| format!("the experiment printed no report: {error}"))?;
            report.rows.iter().filter_map(|row| Some(row.throughput_pps?.value)).collect()
        }
        Experiment::Grid(grid) => {
            let records: Vec<Record> = output
                .lines()
                .map(serde_json::from_str)
                .collect::<Result<_, _>>()
                .map_err(|error| format!("the experiment printed a line that is no record: {error}"))?;
            let measured = records.iter().filter(|record| record.engine == EngineKind::Wire);
            measured.filter_map(|record| Some(grid.figure.y.of(&record.outcome)?.value)).collect()
        }
        Experiment::Mlfrr(_) | Experiment::Roofline(_) => Vec::new(),
    };
    match stats::mean(&values) {
        Some(mean) => Ok(mean.value),
        None => Err(format!("no point of the experiment has {name} measured")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(text: &str) -> Experiment {
        Experiment::from_toml("test.toml", text).unwrap()
    }

    const GRID: &str = "title = \"t\"\nschemes = [\"interrupt\"]\nengines = [\"wire\"]\n\
        [host]\npreset = \"pentium4-2530mhz\"\n[traffic]\nrates = \"20kpps..30kpps:2\"\n[figure]\ny = \"latency_p99_s\"\n";

    #[test]
    fn which_way_is_better() {
        for name in ["throughput_pps", "goodput_bps", "wire_bps", "link_share", "cpu_available"] {
            assert!(is_better_higher(name), "{name}");
        }
        for name in ["latency_p99_s", "loss_fraction", "system_us_per_kib", "receiver_cpu", "interrupts_per_s"] {
            assert!(!is_better_higher(name), "{name}");
        }
    }

    /// Parses records as `run --json` prints them. Records of other engines are ignored.
    #[test]
    fn the_mean_over_the_measured_points() {
        let Experiment::Grid(grid) = experiment(GRID) else { panic!() };
        let mut lines = Vec::new();
        for (task, wait_s) in grid.tasks().unwrap().iter().zip([2e-6, 4e-6]) {
            let latency = netcliff_core::outcome::Latency {
                p99: Some(netcliff_core::Figure::exact(wait_s)),
                ..Default::default()
            };
            let outcome = netcliff_core::Outcome { latency_s: Some(latency), ..Default::default() };
            let record = Record {
                point: task.point.clone(),
                engine: EngineKind::Wire,
                outcome,
                provenance: netcliff_core::Provenance::default(),
            };
            lines.push(serde_json::to_string(&record).unwrap());
            lines.push(serde_json::to_string(&Record { engine: EngineKind::Sim, ..record }).unwrap());
        }
        let mean = experiment_figure(&experiment(GRID), &lines.join("\n")).unwrap();
        assert!((mean - 3e-6).abs() < 1e-12, "{mean}");
        assert_eq!(drawn(&experiment(GRID)).as_deref(), Ok("latency_p99_s"));
        let none = experiment_figure(&experiment(GRID), "").unwrap_err();
        assert!(none.contains("latency_p99_s"), "{none}");
        assert!(experiment_figure(&experiment(GRID), "oops").unwrap_err().contains("no record"));
    }
}
