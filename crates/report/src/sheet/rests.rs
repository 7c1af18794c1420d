//! Sentences on the costs that the predicted cliff depends on, and on their uncertainty.

use netcliff_core::Finding;
use netcliff_core::finding::{CliffSensitivity, Correlated};

use super::cost_name;
use crate::format::{self, Unit};

/// Largest number of costs that are named; the others move the cliff less.
const NAMED: usize = 3;
/// Largest number of pairs of costs that are named.
const PAIRS: usize = 2;
/// Uncertainty of the cliff from one cost, as a share of the cliff, from which it is mentioned.
const WORTH_A_WORD: f64 = 0.01;

/// Sentences on the costs with the largest effect on the predicted cliff, on costs that are poorly known, and on costs
/// that the trials hardly distinguish. Empty if none of these is known.
pub fn rests_on(finding: &Finding) -> Vec<String> {
    let mut said: Vec<String> = moves(&finding.sensitivity).into_iter().collect();
    said.extend(open(&finding.sensitivity));
    let correlated = finding.calibration.iter().flat_map(|calibration| &calibration.correlated);
    // Costs with a positive correlation follow the CPU's speed; that is not a lack of separation.
    said.extend(correlated.filter(|pair| pair.correlation < 0.0).take(PAIRS).map(apart));
    said
}

fn moves(sensitivity: &[CliffSensitivity]) -> Option<String> {
    let each: Vec<String> = sensitivity
        .iter()
        .take(NAMED)
        .map(|cost| format!("{} by {}", cost_name(&cost.key), format::signed(0.01 * cost.elasticity, Unit::Share)))
        .collect();
    (!each.is_empty()).then(|| format!("Change of the predicted cliff if a cost is 1 % higher: {}.", each.join(", ")))
}

fn open(sensitivity: &[CliffSensitivity]) -> Option<String> {
    let worst = sensitivity.iter().max_by(|a, b| a.spread.total_cmp(&b.spread))?;
    (worst.spread >= WORTH_A_WORD).then(|| {
        let spread = format::share(worst.spread);
        format!(
            "Longer calibration would help most with {}: its uncertainty alone spreads the cliff by {spread}.",
            cost_name(&worst.key)
        )
    })
}

fn apart(pair: &Correlated) -> String {
    let (a, b, correlation) = (cost_name(&pair.a), cost_name(&pair.b), pair.correlation);
    format!(
        "The trials hardly separate {a} from {b} (correlation {correlation:.2}): their joint cost is known better than each cost."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::tests::setup;

    #[test]
    fn the_costs_that_matter_are_named() {
        let cost = |key: &str, elasticity, spread| CliffSensitivity { key: key.to_owned(), elasticity, spread };
        let mut finding = Finding::blank(setup(), 1e-4);
        assert!(rests_on(&finding).is_empty());
        finding.sensitivity = vec![
            cost("protocol", -0.45, 0.004),
            cost("application", -0.4, 0.021),
            cost("poll", -0.1, 0.001),
            cost("wakeup", -0.01, 0.0),
        ];
        let said = rests_on(&finding);
        assert!(
            said[0].ends_with("protocol per packet by -0.450 %, program per packet by -0.400 %, poll by -0.100 %."),
            "{}",
            said[0]
        );
        assert!(said[1].contains("most with program per packet") && said[1].contains("2.10 %"), "{}", said[1]);
        assert_eq!(said.len(), 2);
        let pair = Correlated { a: "protocol".into(), b: "poll".into(), correlation: -0.93 };
        assert_eq!(
            apart(&pair),
            "The trials hardly separate protocol per packet from poll (correlation -0.93): their joint cost is known better than each cost."
        );
    }
}
