//! [`Stored`]: the result of a run of any kind, and the JSON in which it is moved between stores.

use netcliff_core::stream::StreamReport;
use netcliff_core::{Finding, Learned, Profile, Provenance, Record, ServiceFinding};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::store::{RunSummary, Store, StoreError, has_records};
use netcliff_rfc2544::forwarding::ForwardingReport;
use netcliff_rfc2544::report::Rfc2544Report;
use netcliff_transfer::experiments::TransferReport;
use netcliff_transfer::rr::{RrRecord, RrRun};

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Result of `find`.
    Finding(Box<Finding>),
    /// Result of `find --service`.
    Service(Box<ServiceFinding>),
    /// Records of `predict`, `simulate`, or `run` on points.
    Records(Vec<Record>),
    /// Result of `rfc2544`.
    Rfc2544(Box<Rfc2544Report>),
    /// Result of `run` on an experiment of forwarding.
    Forwarding(Box<ForwardingReport>),
    /// Result of `run` on an experiment of transfers.
    Transfers(Box<TransferReport>),
    /// Result of `stream`.
    Stream(Box<StreamReport>),
    /// Result of `rr`.
    Rr(RrRun),
    /// Result of `learn`.
    Learned(Box<Learned>),
    /// Result of `profile`.
    Profile(Box<Profile>),
}

/// Facts about a run that an exported file contains in addition to the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name of the run, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kind of the run: one of [`crate::store::KINDS`].
    pub kind: String,
    /// State of the run: how it ended.
    pub state: String,
    /// Number of objects in the file. `None` in files of versions that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<usize>,
}

/// Key of the label in the first object of an exported file.
const LABEL: &str = "run";

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The text is not output of netcliff with --json.
    #[error("{name}: {why}; expected what `netcliff ... --json` or `netcliff results export` wrote")]
    NotOurs {
        /// The file or run.
        name: String,
        /// Why the text is not a result.
        why: Unfit,
    },
    /// A run has neither records nor a result.
    #[error("run {id} (`{kind}`, {state}) holds nothing; `netcliff results gc` removes such runs")]
    Empty {
        /// Number of the run.
        id: i64,
        /// Kind of the run.
        kind: String,
        /// State of the run: how it ended.
        state: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a text is not a result.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The text contains no value.
    #[error("it is empty")]
    Nothing,
    /// The text is not JSON; with line and column.
    #[error("{0}")]
    NotJson(serde_json::Error),
    /// The value is of no kind that netcliff writes.
    #[error("it is JSON of another kind")]
    OtherKind,
    /// Number of values, if the kind has one value per file, or if the kinds differ.
    #[error("it holds several objects where one was expected")]
    Several(usize),
    /// Number of objects in the file, and number that were exported.
    #[error(
        "it holds {0} of the {1} objects that were exported: it is cut, or is joined with others; give each file by itself, as it was exported"
    )]
    Incomplete(usize, usize),
    /// Number of exported files that are joined into one.
    #[error("it holds {0} exported runs; give each file by itself")]
    Joined(usize),
    /// The kind is known, but a key is missing or has another type.
    #[error("{0}")]
    Damaged(serde_json::Error),
}

impl Stored {
    /// Reads the result of a run in the store.
    ///
    /// # Errors
    /// The run has no result, or one that cannot be read.
    pub fn of_run(store: &Store, run: &RunSummary) -> Result<Self, StoredError> {
        if let Some(finding) = store.finding(run.id)? {
            return Ok(Self::Finding(Box::new(finding)));
        }
        if let Some(document) = store.document(run.id)? {
            return read(vec![document]).map_err(|why| StoredError::NotOurs { name: run.title(), why });
        }
        let records = store.records(run.id)?;
        if records.is_empty() {
            return Err(StoredError::Empty { id: run.id, kind: run.kind.clone(), state: run.state.clone() });
        }
        Ok(Self::Records(records))
    }

    /// Reads the result in a file. `name` is its name in errors.
    ///
    /// # Errors
    /// The text is not JSON, or netcliff did not write it.
    pub fn of_json(name: &str, text: &str) -> Result<Self, StoredError> {
        Self::labelled(name, text).map(|(stored, _)| stored)
    }

    /// Reads the result in a file with its label. The label is `None` if the file was not exported from a store.
    ///
    /// # Errors
    /// An error of [`Stored::of_json`].
    pub fn labelled(name: &str, text: &str) -> Result<(Self, Option<Label>), StoredError> {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        let read = |values: Vec<Value>| {
            let labels: Vec<Label> =
                values.iter().filter_map(|value| Label::deserialize(value.get(LABEL)?).ok()).collect();
            if labels.len() > 1 {
                return Err(Unfit::Joined(labels.len()));
            }
            let label = labels.into_iter().next();
            match label.as_ref().and_then(|label| label.objects).filter(|objects| *objects != values.len()) {
                Some(objects) => Err(Unfit::Incomplete(values.len(), objects)),
                None => Ok((read(values)?, label)),
            }
        };
        values.map_err(Unfit::NotJson).and_then(read).map_err(|why| StoredError::NotOurs { name: name.to_owned(), why })
    }

    /// Like [`Stored::json`], but the first object also contains the run's name, kind and state.
    ///
    /// # Errors
    /// An error of [`Stored::json`].
    pub fn export(&self, run: &RunSummary) -> Result<String, serde_json::Error> {
        let json = self.json()?;
        let objects = Some(json.lines().count());
        let label = Label { name: run.name.clone(), kind: run.kind.clone(), state: run.state.clone(), objects };
        let Some((first, rest)) = json.split_once('\n') else { return Ok(json) };
        // Insert the label as text, so that numbers keep their form.
        let label = serde_json::to_string(&label)?;
        let first = first.strip_suffix('}').map_or(first.to_owned(), |open| format!("{open},\"{LABEL}\":{label}}}"));
        Ok(format!("{first}\n{rest}"))
    }

    /// The JSON that the run's command prints with --json: a single object, or one per line.
    ///
    /// # Errors
    /// Never for a result that was read from a store or a file.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let lines = match self {
            Self::Finding(finding) => vec![serde_json::to_string(finding)?],
            Self::Service(finding) => vec![serde_json::to_string(finding)?],
            Self::Records(records) => records.iter().map(serde_json::to_string).collect::<Result<_, _>>()?,
            Self::Rfc2544(report) => vec![serde_json::to_string(report)?],
            Self::Forwarding(report) => vec![serde_json::to_string(report)?],
            Self::Transfers(report) => vec![serde_json::to_string(report)?],
            Self::Stream(report) => vec![serde_json::to_string(report)?],
            Self::Learned(learned) => vec![serde_json::to_string(learned)?],
            Self::Profile(profile) => vec![serde_json::to_string(profile)?],
            Self::Rr(run) => run.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?,
        };
        Ok(lines.into_iter().map(|line| line + "\n").collect())
    }

    /// Kind of this result in the store.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Finding(_) => "find",
            Self::Service(_) => "service",
            Self::Records(_) => "run",
            Self::Rfc2544(_) => "rfc2544",
            Self::Forwarding(_) => "forwarding",
            Self::Transfers(_) => "transfer",
            Self::Stream(_) => "stream",
            Self::Rr(_) => "rr",
            Self::Learned(_) => "learn",
            Self::Profile(_) => "profile",
        }
    }

    /// Provenance of the result; with several records, that of the first. `None` without records.
    pub fn provenance(&self) -> Option<&Provenance> {
        Some(match self {
            Self::Finding(finding) => &finding.provenance,
            Self::Service(finding) => &finding.provenance,
            Self::Records(records) => &records.first()?.provenance,
            Self::Rfc2544(report) => &report.provenance,
            Self::Forwarding(report) => &report.provenance,
            Self::Transfers(report) => &report.provenance,
            Self::Stream(report) => &report.provenance,
            Self::Learned(learned) => &learned.provenance,
            Self::Profile(profile) => &profile.provenance,
            Self::Rr(run) => &run.rows.first()?.provenance,
        })
    }

    fn is_partial(&self) -> bool {
        match self {
            Self::Finding(finding) => finding.partial,
            Self::Service(finding) => finding.partial.is_some(),
            Self::Records(_) => false,
            Self::Rfc2544(report) => report.partial.is_some(),
            Self::Forwarding(report) => report.partial,
            Self::Transfers(report) => report.partial,
            Self::Stream(report) => report.partial,
            Self::Rr(run) => run.partial,
            Self::Learned(learned) => learned.partial,
            Self::Profile(profile) => profile.partial,
        }
    }

    /// Stores the result as a run, with the kind and completeness of its label. Returns the run's number.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep(&self, store: &Store, label: Option<&Label>) -> Result<i64, StoreError> {
        let provenance = self.provenance().cloned().unwrap_or_default();
        // Records may belong to several kinds of runs.
        let kind = label.map(|label| label.kind.as_str());
        let kind = kind.filter(|kind| matches!(self, Self::Records(_)) && has_records(kind)).unwrap_or(self.kind());
        let run = store.begin(kind, &provenance.command, provenance.started_unix_s)?;
        let partial = self.is_partial() || label.is_some_and(|label| label.state != "done");
        match self {
            Self::Finding(finding) => store.finish(run, partial, Some(finding))?,
            Self::Service(finding) => store.finish_document(run, partial, finding)?,
            Self::Records(records) => {
                records.iter().try_for_each(|record| store.add(run, record))?;
                store.finish(run, partial, None)?;
            }
            Self::Rfc2544(report) => store.finish_document(run, partial, report)?,
            Self::Forwarding(report) => store.finish_document(run, partial, report)?,
            Self::Transfers(report) => store.finish_document(run, partial, report)?,
            Self::Stream(report) => store.finish_document(run, partial, report)?,
            Self::Rr(rr) => store.finish_document(run, partial, rr)?,
            Self::Learned(learned) => store.finish_document(run, partial, learned)?,
            Self::Profile(profile) => store.finish_document(run, partial, profile)?,
        }
        Ok(run)
    }
}

/// The kind of an object. Only records and rows may occur several times in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Record,
    RrRow,
    Rr,
    Rfc2544,
    Forwarding,
    Transfers,
    Stream,
    Finding,
    Service,
    Learned,
    Profile,
}

impl Kind {
    /// Recognizes an object by its `kind`, or by keys that only this kind has.
    fn of(value: &Value) -> Option<Self> {
        let has = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
        if has(&["point", "engine", "outcome"]) {
            return Some(Self::Record);
        }
        match value.get("kind").and_then(Value::as_str) {
            Some("rr") if has(&["rows", "not_had"]) => Some(Self::Rr),
            Some("rr") => Some(Self::RrRow),
            Some("rfc2544") => Some(Self::Rfc2544),
            Some("service") => Some(Self::Service),
            Some("forwarding") => Some(Self::Forwarding),
            Some("transfer") => Some(Self::Transfers),
            Some("learn") => Some(Self::Learned),
            Some("profile") => Some(Self::Profile),
            _ if has(&["clock", "rows", "asked"]) => Some(Self::Stream),
            _ if has(&["cliff_pps", "sweep"]) => Some(Self::Finding),
            _ => None,
        }
    }
}

/// Reads the values as one result.
fn read(values: Vec<Value>) -> Result<Stored, Unfit> {
    let kinds: Option<Vec<Kind>> = values.iter().map(Kind::of).collect();
    let kinds = kinds.ok_or(Unfit::OtherKind)?;
    let kind = *kinds.first().ok_or(Unfit::Nothing)?;
    if kinds.iter().any(|other| *other != kind) {
        return Err(Unfit::Several(values.len()));
    }
    Ok(match kind {
        Kind::Record => Stored::Records(every(values)?),
        Kind::RrRow => {
            let rows: Vec<RrRecord> = every(values)?;
            Stored::Rr(RrRun { kind: "rr".to_owned(), rows, not_had: Vec::new(), partial: false })
        }
        Kind::Rr => Stored::Rr(single(values)?),
        Kind::Rfc2544 => Stored::Rfc2544(single(values)?),
        Kind::Forwarding => Stored::Forwarding(single(values)?),
        Kind::Transfers => Stored::Transfers(single(values)?),
        Kind::Stream => Stored::Stream(single(values)?),
        Kind::Finding => Stored::Finding(single(values)?),
        Kind::Service => Stored::Service(single(values)?),
        Kind::Learned => Stored::Learned(single(values)?),
        Kind::Profile => Stored::Profile(single(values)?),
    })
}

/// Deserializes the only value. An error if there are several values or none.
fn single<T: DeserializeOwned>(values: Vec<Value>) -> Result<T, Unfit> {
    let [value] = <[Value; 1]>::try_from(values).map_err(|values| Unfit::Several(values.len()))?;
    serde_json::from_value(value).map_err(Unfit::Damaged)
}

fn every<T: DeserializeOwned>(values: Vec<Value>) -> Result<Vec<T>, Unfit> {
    values.into_iter().map(|value| serde_json::from_value(value).map_err(Unfit::Damaged)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::{EngineKind, Host, Outcome, Point, Scheme};

    fn record(pps: f64) -> Record {
        Record {
            point: Point::poisson(Host::pentium4_2530mhz(), Scheme::Ideal, pps),
            engine: EngineKind::Model,
            outcome: Outcome { throughput_pps: Some(pps.into()), ..Outcome::default() },
            provenance: Provenance { command: "netcliff predict".into(), started_unix_s: 7.0, ..Provenance::default() },
        }
    }

    #[test]
    fn what_goes_out_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("records.db")).unwrap();
        let stored = Stored::Records(vec![record(1e3), record(2e3)]);
        let (read, label) = Stored::labelled("a file", &stored.json().unwrap()).unwrap();
        assert_eq!((&read, &label), (&stored, &None));
        let run = read.keep(&store, None).unwrap();
        let summary = store.run(run).unwrap().unwrap();
        assert_eq!((summary.kind.as_str(), summary.state.as_str(), summary.started_unix_s), ("run", "done", 7.0));
        // The label of the store is exported with the result.
        let known = RunSummary {
            name: Some("before".into()),
            kind: "predict".into(),
            state: "interrupted".into(),
            ..summary.clone()
        };
        let (read, label) = Stored::labelled("a file", &stored.export(&known).unwrap()).unwrap();
        let label = label.unwrap();
        assert_eq!((&read, label.name.as_deref(), label.state.as_str()), (&stored, Some("before"), "interrupted"));
        let again = store.run(read.keep(&store, Some(&label)).unwrap()).unwrap().unwrap();
        assert_eq!((again.kind.as_str(), again.state.as_str()), ("predict", "partial"));
        assert_eq!(Stored::of_run(&store, &summary).unwrap(), stored);
        let nothing = store.begin("find", "netcliff find", 1.0).unwrap();
        let empty = Stored::of_run(&store, &store.run(nothing).unwrap().unwrap()).unwrap_err();
        assert!(empty.to_string().contains("holds nothing"), "{empty}");
    }

    /// A file that was cut between two lines, or several joined files, are not read as a whole run.
    #[test]
    fn an_exported_run_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("records.db")).unwrap();
        let stored = Stored::Records(vec![record(1e3), record(2e3)]);
        let run = store.run(stored.keep(&store, None).unwrap()).unwrap().unwrap();
        let whole = stored.export(&run).unwrap();
        let first = whole.split_inclusive('\n').next().unwrap();
        let refused = |text: &str| Stored::of_json("x.json", text).unwrap_err().to_string();
        assert!(refused(first).contains("1 of the 2 objects"), "{}", refused(first));
        assert!(refused(&whole.repeat(2)).contains("2 exported runs"), "{}", refused(&whole.repeat(2)));
        let joined = whole.clone() + &stored.json().unwrap();
        assert!(refused(&joined).contains("4 of the 2 objects"), "{}", refused(&joined));
        assert_eq!(Stored::of_json("x.json", &whole).unwrap(), stored);
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        let (one, other) = (r#"{"kind": "rfc2544"}"#, r#"{"kind": "forwarding"}"#);
        for (text, part) in [
            ("", "empty"),
            ("{", "EOF"),
            (r#"{"a": 1}"#, "another kind"),
            ("{} {}", "another kind"),
            (&[one, one].concat(), "several"),
            (&[one, other].concat(), "several"),
            (one, "missing field"),
        ] {
            let error = Stored::of_json("x.json", text).unwrap_err().to_string();
            assert!(error.starts_with("x.json: ") && error.contains(part), "{error}");
        }
    }
}
