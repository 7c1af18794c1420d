//! [`Record`]: an outcome with the data that are needed to check and to repeat it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::engine::{EngineKind, Point};
use crate::outcome::Outcome;

/// Properties of host and software that explain differences between measurements, by name: `kernel.release` ->
/// `6.18.44`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Fingerprint {
    /// Value of each property, by its dotted name.
    pub facts: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Returns the properties that differ: (name, value in `self`, value in `other`). A value is `None` if its
    /// fingerprint lacks the property.
    pub fn diff<'a>(&'a self, other: &'a Self) -> Vec<(&'a str, Option<&'a str>, Option<&'a str>)> {
        let mut names: Vec<&str> = self.facts.keys().chain(other.facts.keys()).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let fact = |side: &'a Self, name: &str| side.facts.get(name).map(String::as_str);
        names
            .into_iter()
            .map(|name| (name, fact(self, name), fact(other, name)))
            .filter(|(_, here, there)| here != there)
            .collect()
    }

    /// A short stable identifier of the properties (FNV-1a, 64 bits, hex).
    pub fn id(&self) -> String {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for (name, value) in &self.facts {
            for byte in name.bytes().chain(*b"=").chain(value.bytes()).chain(*b"\n") {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        format!("{hash:016x}")
    }
}

/// First and last words of the sentence of [`OtherRun`], by which it is read.
const OTHER_RUN: &str = "another netcliff run (";
const AT_THE_SAME_TIME: &str = ") measures or changes this host at the same time";

/// Another netcliff run that was active during a run. `Display` gives a sentence, which results store as a note.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherRun {
    /// Process of the other run.
    pub process: String,
}

impl OtherRun {
    /// Reads the sentence; `None` if `note` is another sentence.
    pub fn read(note: &str) -> Option<Self> {
        let process = note.strip_prefix(OTHER_RUN)?.strip_suffix(AT_THE_SAME_TIME)?;
        Some(Self { process: process.to_owned() })
    }
}

impl fmt::Display for OtherRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OTHER_RUN}{}{AT_THE_SAME_TIME}", self.process)
    }
}

/// How an outcome was produced.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// netcliff's version.
    pub version: String,
    /// Seed, given or derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The command line, as typed.
    pub command: String,
    /// Start time, seconds since the epoch (UTC).
    pub started_unix_s: f64,
    /// Duration (s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_s: Option<f64>,
    /// Identifier of the host's fingerprint; None for a computed outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint_id: Option<String>,
    /// Other settings of the engine: fidelity, generator, reader.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Point, engine, outcome and provenance: one line of `--json`, one row of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The configuration.
    pub point: Point,
    /// The engine.
    pub engine: EngineKind,
    /// The outcome.
    pub outcome: Outcome,
    /// How the outcome was produced.
    pub provenance: Provenance,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(pairs: &[(&str, &str)]) -> Fingerprint {
        Fingerprint { facts: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect() }
    }

    #[test]
    fn another_run_is_read_from_its_sentence_only() {
        let other = OtherRun { process: "pid 17 of user alice (1000), \"netcliff find (--quick)\"".to_owned() };
        assert_eq!(OtherRun::read(&other.to_string()), Some(other.clone()));
        let stored = "another netcliff run (pid 17) measures or changes this host at the same time";
        assert_eq!(OtherRun::read(stored).map(|other| other.process), Some("pid 17".to_owned()));
        assert_eq!(OtherRun::read(&format!("{other}, and more")), None);
        assert_eq!(OtherRun::read("other runs on this host are not seen: no lock"), None);
    }

    #[test]
    fn a_diff_names_what_changed() {
        let here = fingerprint(&[("cpu.smt", "off"), ("kernel.release", "6.1"), ("nic.mtu", "1500")]);
        let there = fingerprint(&[("cpu.smt", "off"), ("kernel.release", "6.18")]);
        assert_eq!(here.diff(&there), [("kernel.release", Some("6.1"), Some("6.18")), ("nic.mtu", Some("1500"), None)]);
        assert_ne!(here.id(), there.id());
        assert_eq!(here.id(), here.clone().id());
    }
}
