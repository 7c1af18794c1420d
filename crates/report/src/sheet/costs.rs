//! The calibrated costs of a host, in words.

use netcliff_core::Finding;
use netcliff_core::host::TABLE;

use super::Cell;
use crate::format::Unit;

/// One calibrated cost as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostLine {
    /// The cost in words: `wake-up of the program`.
    pub name: String,
    /// Key of the host file and of `--set`: `wakeup`.
    pub key: String,
    /// Value and interval.
    pub cell: Option<Cell>,
    /// How the cost was measured.
    pub how: String,
}

/// The calibrated costs in the order they are shown; empty without a calibration.
pub fn costs(finding: &Finding) -> Vec<CostLine> {
    let costs = finding.calibration.iter().flat_map(|calibration| &calibration.costs);
    costs
        .map(|cost| CostLine {
            name: cost_name(&cost.key).to_owned(),
            key: cost.key.clone(),
            cell: Cell::of(&cost.figure, Unit::of_cost(&cost.unit)),
            how: cost.how.clone(),
        })
        .collect()
}

/// Names the cost with this key. A key that is not known, for example from a later version, is its own name.
pub fn cost_name(key: &str) -> &str {
    match key {
        "protocol_variation" => "variation of protocol",
        "other" => "other tasks per packet",
        key => TABLE.iter().find(|row| row.name == key).map_or(key, |row| row.words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::host::Unit as KeyUnit;

    /// Every number of a host has words. A name fits its column, is not a key, and names one cost only.
    #[test]
    fn every_cost_has_a_name_in_words() {
        let numbers = TABLE.iter().filter(|key| key.unit != KeyUnit::Text).map(|key| key.name);
        let mut names = Vec::new();
        // Besides the host's keys, calibration and `learn` report these.
        for key in numbers.chain(["protocol_variation", "other"]) {
            let name = cost_name(key);
            let is_word = ["interrupt", "poll"].contains(&key);
            assert!(is_word || name != key, "{key} has no words");
            assert!(!name.contains('_') && name.len() <= 24, "{key}: {name}");
            assert!(!names.contains(&name), "{key}: {name} is the name of another cost");
            names.push(name);
        }
        assert_eq!(cost_name("of_a_later_version"), "of_a_later_version");
    }
}
