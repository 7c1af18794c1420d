//! [`Stored`]: what a run keeps, whatever its kind, and the JSON in which it travels from store to store.

use netcliff_core::stream::StreamReport;
use netcliff_core::{Finding, Provenance, Record};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::forwarding::ForwardingReport;
use crate::rfc2544::report::Rfc2544Report;
use crate::rr::{RrRecord, RrRun};
use crate::store::{RunSummary, Store, StoreError};
use crate::transfers::TransferReport;

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// Of `find`.
    Finding(Box<Finding>),
    /// Of `run` on points, `predict`, `simulate`.
    Records(Vec<Record>),
    /// Of `rfc2544`.
    Rfc2544(Box<Rfc2544Report>),
    /// Of `run` on an experiment of forwarding.
    Forwarding(Box<ForwardingReport>),
    /// Of `run` on an experiment of transfers.
    Transfers(Box<TransferReport>),
    /// Of `stream`.
    Stream(Box<StreamReport>),
    /// Of `rr`.
    Rr(RrRun),
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// It is not what netcliff writes with --json.
    #[error("{name}: {why}; expected what `netcliff ... --json` or `netcliff results export` wrote")]
    NotOurs {
        /// The file or run.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A run has neither records nor a result.
    #[error("run {id} (`{kind}`, {state}) holds nothing; `netcliff results gc` removes such runs")]
    Empty {
        /// Its number.
        id: i64,
        /// Its kind.
        kind: String,
        /// How it ended.
        state: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Stored {
    /// What a run of the store keeps.
    ///
    /// # Errors
    /// It keeps nothing, or something that cannot be read.
    pub fn of_run(store: &Store, run: &RunSummary) -> Result<Self, StoredError> {
        if let Some(finding) = store.finding(run.id)? {
            return Ok(Self::Finding(Box::new(finding)));
        }
        if let Some(document) = store.document(run.id)? {
            return of_values(&format!("run {}", run.id), vec![document]);
        }
        let records = store.records(run.id)?;
        if records.is_empty() {
            return Err(StoredError::Empty { id: run.id, kind: run.kind.clone(), state: run.state.clone() });
        }
        Ok(Self::Records(records))
    }

    /// What a file holds; `name` is how errors call it.
    ///
    /// # Errors
    /// It is not JSON, or not netcliff's.
    pub fn of_json(name: &str, text: &str) -> Result<Self, StoredError> {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        let not_ours =
            |error: serde_json::Error| StoredError::NotOurs { name: name.to_owned(), why: error.to_string() };
        of_values(name, values.map_err(not_ours)?)
    }

    /// As its command prints it with --json: an object, or one a line.
    ///
    /// # Errors
    /// Never for what was read from a store or a file.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let lines = match self {
            Self::Finding(finding) => vec![serde_json::to_string(finding)?],
            Self::Records(records) => records.iter().map(serde_json::to_string).collect::<Result<_, _>>()?,
            Self::Rfc2544(report) => vec![serde_json::to_string(report)?],
            Self::Forwarding(report) => vec![serde_json::to_string(report)?],
            Self::Transfers(report) => vec![serde_json::to_string(report)?],
            Self::Stream(report) => vec![serde_json::to_string(report)?],
            Self::Rr(run) => run.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?,
        };
        Ok(lines.into_iter().map(|line| line + "\n").collect())
    }

    /// Its kind in the store.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Finding(_) => "find",
            Self::Records(_) => "run",
            Self::Rfc2544(_) => "rfc2544",
            Self::Forwarding(_) => "forwarding",
            Self::Transfers(_) => "transfer",
            Self::Stream(_) => "stream",
            Self::Rr(_) => "rr",
        }
    }

    /// How it was produced; of several records the first. None: there is none.
    pub fn provenance(&self) -> Option<&Provenance> {
        Some(match self {
            Self::Finding(finding) => &finding.provenance,
            Self::Records(records) => &records.first()?.provenance,
            Self::Rfc2544(report) => &report.provenance,
            Self::Forwarding(report) => &report.provenance,
            Self::Transfers(report) => &report.provenance,
            Self::Stream(report) => &report.provenance,
            Self::Rr(run) => &run.rows.first()?.provenance,
        })
    }

    fn is_partial(&self) -> bool {
        match self {
            Self::Finding(finding) => finding.partial,
            Self::Records(_) => false,
            Self::Rfc2544(report) => report.partial.is_some(),
            Self::Forwarding(report) => report.partial,
            Self::Transfers(report) => report.partial,
            Self::Stream(report) => report.partial,
            Self::Rr(run) => run.partial,
        }
    }

    /// Keeps it as a run of a store; its number.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn keep(&self, store: &Store) -> Result<i64, StoreError> {
        let provenance = self.provenance().cloned().unwrap_or_default();
        let run = store.begin(self.kind(), &provenance.command, provenance.started_unix_s)?;
        let partial = self.is_partial();
        match self {
            Self::Finding(finding) => store.finish(run, partial, Some(finding))?,
            Self::Records(records) => {
                records.iter().try_for_each(|record| store.add(run, record))?;
                store.finish(run, partial, None)?;
            }
            Self::Rfc2544(report) => store.finish_document(run, partial, report)?,
            Self::Forwarding(report) => store.finish_document(run, partial, report)?,
            Self::Transfers(report) => store.finish_document(run, partial, report)?,
            Self::Stream(report) => store.finish_document(run, partial, report)?,
            Self::Rr(rr) => store.finish_document(run, partial, rr)?,
        }
        Ok(run)
    }
}

/// What the values are, told by their keys.
fn of_values(name: &str, mut values: Vec<Value>) -> Result<Stored, StoredError> {
    let not_ours = |why: &str| StoredError::NotOurs { name: name.to_owned(), why: why.to_owned() };
    let all_have = |keys: &[&str]| values.iter().all(|value| keys.iter().all(|key| value.get(key).is_some()));
    let kind = values.first().and_then(|first| first.get("kind")).and_then(Value::as_str).map(str::to_owned);
    if values.is_empty() {
        return Err(not_ours("it is empty"));
    }
    if all_have(&["point", "engine", "outcome"]) {
        return Ok(Stored::Records(every(name, values)?));
    }
    if kind.as_deref() == Some("rr") && !all_have(&["rows", "not_had"]) {
        let rows: Vec<RrRecord> = every(name, values)?;
        return Ok(Stored::Rr(RrRun { kind: "rr".to_owned(), rows, not_had: Vec::new(), partial: false }));
    }
    let has = |keys: &[&str]| all_have(keys);
    let is_stream = has(&["clock", "rows", "asked"]);
    let is_finding = has(&["cliff_pps", "sweep"]);
    if values.len() > 1 {
        return Err(not_ours("it holds several objects where one was expected"));
    }
    let value = values.remove(0);
    Ok(match kind.as_deref() {
        Some("rr") => Stored::Rr(one(name, value)?),
        Some("rfc2544") => Stored::Rfc2544(one(name, value)?),
        Some("forwarding") => Stored::Forwarding(one(name, value)?),
        Some("transfer") => Stored::Transfers(one(name, value)?),
        _ if is_stream => Stored::Stream(one(name, value)?),
        _ if is_finding => Stored::Finding(one(name, value)?),
        _ => return Err(not_ours("it is JSON of another kind")),
    })
}

fn one<T: DeserializeOwned>(name: &str, value: Value) -> Result<T, StoredError> {
    serde_json::from_value(value)
        .map_err(|error| StoredError::NotOurs { name: name.to_owned(), why: error.to_string() })
}

fn every<T: DeserializeOwned>(name: &str, values: Vec<Value>) -> Result<Vec<T>, StoredError> {
    values.into_iter().map(|value| one(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::{EngineKind, Host, Outcome, Point, Scheme, Traffic};

    fn record(pps: f64) -> Record {
        Record {
            point: Point { host: Host::pentium4_2530mhz(), scheme: Scheme::Ideal, traffic: Traffic::poisson(pps) },
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
        let read = Stored::of_json("a file", &stored.json().unwrap()).unwrap();
        assert_eq!(read, stored);
        let run = read.keep(&store).unwrap();
        let summary = store.run(run).unwrap().unwrap();
        assert_eq!((summary.kind.as_str(), summary.state.as_str(), summary.started_unix_s), ("run", "done", 7.0));
        assert_eq!(Stored::of_run(&store, &summary).unwrap(), stored);
        let nothing = store.begin("find", "netcliff find", 1.0).unwrap();
        let empty = Stored::of_run(&store, &store.run(nothing).unwrap().unwrap()).unwrap_err();
        assert!(empty.to_string().contains("holds nothing"), "{empty}");
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        for (text, part) in [("", "empty"), ("{", "EOF"), ("{\"a\": 1}", "another kind"), ("{} {}", "several")] {
            let error = Stored::of_json("x.json", text).unwrap_err().to_string();
            assert!(error.starts_with("x.json: ") && error.contains(part), "{error}");
        }
    }
}
