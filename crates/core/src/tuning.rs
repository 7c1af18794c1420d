//! [`Proposal`]: a setting that `netcliff tune` proposes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::inspection::Objective;

/// A change of a setting that serves the objective of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Proposal {
    /// Name of the setting.
    pub name: String,
    /// The value in force.
    pub old: String,
    /// The value proposed.
    pub new: String,
    /// Why it serves the objective.
    pub reason: String,
    /// Documentation that says so.
    pub source: String,
    /// The shell command that sets it, to be run as root.
    pub command: String,
    /// Effect that model or simulation predicts with this host's costs, or that no engine can predict it; None: the
    /// host has not been calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// A plan of settings, for rendering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlanSheet {
    /// Objective of the plan.
    pub objective: Objective,
    /// Proposals, in the order in which they are applied.
    pub proposals: Vec<Proposal>,
    /// Settings that the plan does not change, and why.
    pub notes: Vec<String>,
}

/// An RSS table in words, such as `128 entries, 32 for each of 4 queues`.
pub fn describe_rss_table(table: &[u32]) -> String {
    let mut entries: BTreeMap<u32, usize> = BTreeMap::new();
    table.iter().for_each(|queue| *entries.entry(*queue).or_default() += 1);
    let (least, most) = (entries.values().min().copied().unwrap_or(0), entries.values().max().copied().unwrap_or(0));
    let each = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let queues = if entries.len() == 1 { "1 queue".to_owned() } else { format!("each of {} queues", entries.len()) };
    format!("{} entries, {each} for {queues}", table.len())
}

/// A setting's value for a line of text: a long table is described in words.
pub fn in_short(value: &str) -> String {
    /// Longest table that is shown as it is (entries).
    const LONG: usize = 16;
    let table: Option<Vec<u32>> = value.split(',').map(|entry| entry.parse().ok()).collect();
    table.filter(|table| table.len() > LONG).map_or_else(|| value.to_owned(), |table| describe_rss_table(&table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_tables_are_told_in_words() {
        let table = |queues: u32| (0..128).map(|entry| (entry % queues).to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(in_short(&table(4)), "128 entries, 32 for each of 4 queues");
        assert_eq!(in_short(&table(3)), "128 entries, 42 to 43 for each of 3 queues");
        assert_eq!(in_short(&table(1)), "128 entries, 128 for 1 queue");
        for value in ["0,1,2,3", "0-3", "on", "4096 131072 524288", "00000000,0000000f"] {
            assert_eq!(in_short(value), value);
        }
    }
}
