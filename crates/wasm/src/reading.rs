//! Reads text files that the user dropped onto the page.

use netcliff_core::{Experiment, Finding, Host, Point, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::question::Refused;

/// Name and text of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadQuestion {
    name: String,
    text: String,
}

/// Contents of a file.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Content {
    /// Output of `find --json`.
    Find {
        /// The record.
        finding: Box<Finding>,
        /// The calibrated host as changes to the preset; `None` if the run did not calibrate.
        set: Option<Vec<String>>,
        /// Reason why the record's own cliffs differ from those computed with these costs.
        differs: Option<String>,
    },
    /// Output lines of `predict`, `simulate` or `run --json`.
    Records {
        /// The records.
        records: Vec<Record>,
        /// The host of the first record as changes to the preset.
        set: Vec<String>,
    },
    /// A host file.
    Host {
        /// Name of the host.
        name: String,
        /// The host as changes to the preset.
        set: Vec<String>,
    },
    /// An experiment file.
    Experiment {
        /// Title of the experiment.
        title: String,
        /// The schemes, each once, in the order of the file; empty if neither model nor simulator is used.
        schemes: Vec<String>,
        /// The first point; `None` if neither model nor simulator is used.
        point: Option<Box<Point>>,
        /// The host of the first point as changes to the preset.
        set: Vec<String>,
        /// Lowest and highest load (pps).
        loads_pps: Option<(f64, f64)>,
    },
    /// JSON of another command, which the page shows as it is.
    Other {
        /// The command that wrote it.
        command: String,
        /// The document.
        document: Box<Value>,
    },
}

/// Writes the host as `--set` options: every key whose value differs from the preset.
fn changes(host: &Host) -> Vec<String> {
    host.changes_from(&Host::pentium4_2530mhz())
}

/// Parses a file: JSON of netcliff, or an experiment or a host in TOML.
///
/// # Errors
/// The file is none of these, or is invalid; the message says where.
pub fn read(asked: ReadQuestion) -> Result<Content, Refused> {
    let ReadQuestion { name, text } = asked;
    let refuse = |why: String| Refused::of("file", format!("{name}: {why}"));
    if text.trim().is_empty() {
        return Err(refuse(
            "is empty; expected a file that a command's --json wrote, an experiment or a host file".into(),
        ));
    }
    if text.trim_start().starts_with(['{', '[']) && !name.ends_with(".toml") {
        return of_json(&text).map_err(refuse);
    }
    let experiment = Experiment::from_toml(&name, &text);
    let host = Host::from_toml(&name, &text);
    match (experiment, host) {
        (_, Ok(host)) => Ok(Content::Host { name: host.name.clone(), set: changes(&host) }),
        (Ok(experiment), _) => of_experiment(&experiment).map_err(refuse),
        // An experiment has tables; a host file has none.
        (Err(error), _) if text.lines().any(|line| line.trim_start().starts_with('[')) => {
            Err(Refused::of("file", error))
        }
        (_, Err(error)) => Err(Refused::of("file", error)),
    }
}

fn of_experiment(experiment: &Experiment) -> Result<Content, String> {
    let tasks = match experiment {
        Experiment::Grid(grid) => grid.tasks().map_err(|error| error.message)?,
        _ => Vec::new(),
    };
    let mut schemes: Vec<String> = Vec::new();
    for scheme in tasks.iter().map(|task| task.point.scheme.to_string()) {
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    let loads: Vec<f64> = tasks.iter().filter_map(|task| task.point.rate_pps()).collect();
    let ends = |loads: &[f64]| {
        let least = loads.iter().copied().reduce(f64::min)?;
        Some((least, loads.iter().copied().reduce(f64::max)?))
    };
    let point = tasks.first().map(|task| Box::new(task.point.clone()));
    Ok(Content::Experiment {
        title: experiment.title().to_owned(),
        schemes,
        set: point.as_ref().map(|point| changes(&point.host)).unwrap_or_default(),
        point,
        loads_pps: ends(&loads),
    })
}

fn of_json(text: &str) -> Result<Content, String> {
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let values = values.map_err(|error| format!("is damaged JSON: {error}; save it again with --json"))?;
    let first = values.first().and_then(Value::as_object);
    let first = first.ok_or("is JSON of another kind; expected what a command's --json wrote")?;
    if first.contains_key("calibration") && first.contains_key("sweep") {
        let finding: Finding =
            Finding::deserialize(&values[0]).map_err(|error| format!("is of find, but damaged: {error}"))?;
        let host = finding.calibration.as_ref().map(|found| &found.host);
        let set = host.map(changes);
        let differs = finding.why_cliffs_differ(Vec::new()).map(|why| why.to_string());
        return Ok(Content::Find { finding: Box::new(finding), set, differs });
    }
    if first.contains_key("point") && first.contains_key("outcome") {
        let read = |value: &Value| Record::deserialize(value).map_err(|error| error.to_string());
        let numbered = |(number, value): (usize, &Value)| {
            read(value).map_err(|error| format!("record {}: is damaged: {error}", number + 1))
        };
        let records: Result<Vec<Record>, String> = values.iter().enumerate().map(numbered).collect();
        let records = records?;
        let set = records.first().map(|record| changes(&record.point.host)).unwrap_or_default();
        return Ok(Content::Records { records, set });
    }
    let known = first.get("kind").or_else(|| first.get("command")).and_then(Value::as_str);
    match known {
        Some(command) => {
            Ok(Content::Other { command: command.to_owned(), document: Box::new(Value::Array(values.clone())) })
        }
        None => Err("is JSON, but not netcliff's; expected what a command's --json wrote".to_owned()),
    }
}
