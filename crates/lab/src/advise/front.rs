//! The Pareto front.
//!
//! Figures are rounded to cells, within which they count as equal. Otherwise noise would put every candidate on the
//! front. Dominance between cells is a partial order, so the front is never empty.

use netcliff_core::Measure;
use netcliff_core::advice::{Candidate, CandidateStatus, FRONT};

/// Latencies within 2 % count as equal.
const LATENCY_CELL: f64 = 0.02;
/// Losses within 10 % count as equal, and all below 1e-4.
const LOSS_CELL: f64 = 0.1;
const LOSS_FLOOR: f64 = 1e-4;
/// CPU left within 1 % of the CPU counts as equal.
const CPU_CELL: f64 = 0.01;

/// Marks the candidates on the front: no other candidate is better in one figure without being worse in another. A
/// candidate that lacks one of the three figures is not on the front and is not compared.
pub(super) fn mark(candidates: &mut [Candidate]) {
    let cells: Vec<Option<[i64; 3]>> = candidates.iter().map(cell).collect();
    for (place, candidate) in candidates.iter_mut().enumerate() {
        let Some(own) = cells[place] else { continue };
        candidate.front = !cells.iter().flatten().any(|other| dominates(other, &own));
    }
}

/// The cell of a candidate; in each coordinate, lower is better. `None` if the candidate has no result or lacks a
/// figure.
fn cell(candidate: &Candidate) -> Option<[i64; 3]> {
    if candidate.fate == CandidateStatus::Unanswered {
        return None;
    }
    let value = |key: &str| Some(candidate.figure(key.parse::<Measure>().ok()?)?.value);
    let [latency_s, loss, available] = FRONT.map(value);
    let steps = |ratio: f64, width: f64| (ratio.ln() / width).round() as i64;
    Some([
        steps(latency_s?.max(1e-12), LATENCY_CELL),
        steps(loss?.max(LOSS_FLOOR) / LOSS_FLOOR, LOSS_CELL),
        -(available? / CPU_CELL).round() as i64,
    ])
}

fn dominates(one: &[i64; 3], other: &[i64; 3]) -> bool {
    one != other && one.iter().zip(other).all(|(a, b)| a <= b)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use netcliff_core::{Figure, Scheme};

    use super::*;

    fn candidate(figures: &[(&str, f64)]) -> Candidate {
        let figures = figures.iter().map(|(key, value)| ((*key).to_owned(), Figure::exact(*value)));
        Candidate {
            scheme: Scheme::Ideal,
            engine: None,
            fate: CandidateStatus::Worse,
            why: String::new(),
            figures: figures.collect::<BTreeMap<_, _>>(),
            constraints: Vec::new(),
            replications: 0,
            front: false,
            commands: None,
            not_offered: None,
        }
    }

    fn marked(rows: &[[f64; 3]]) -> Vec<bool> {
        let mut all: Vec<Candidate> = rows
            .iter()
            .map(|[p99, loss, cpu]| {
                candidate(&[("latency_p99_s", *p99), ("loss_fraction", *loss), ("cpu_available", *cpu)])
            })
            .collect();
        mark(&mut all);
        all.iter().map(|one| one.front).collect()
    }

    #[test]
    fn a_candidate_worse_in_all_is_not_on_the_front() {
        let rows = [[10e-6, 0.0, 0.1], [50e-6, 0.0, 0.5], [60e-6, 0.0, 0.4], [20e-6, 0.1, 0.3], [20e-6, 0.2, 0.3]];
        assert_eq!(marked(&rows), [true, true, false, true, false]);
    }

    #[test]
    fn noise_decides_nothing() {
        // Each candidate is better than the next one in one figure, by less than a cell, and not worse by a cell in any
        // other.
        assert_eq!(marked(&[[10.00e-6, 1e-5, 0.300], [10.01e-6, 0.0, 0.301]]), [true, true]);
        assert_eq!(marked(&[[10.00e-6, 1e-5, 0.30], [12.0e-6, 0.0, 0.301]]), [true, false]);
    }

    #[test]
    fn without_a_figure_a_candidate_is_left_out() {
        let mut all = [candidate(&[("loss_fraction", 0.0)]), candidate(&[])];
        mark(&mut all);
        assert!(all.iter().all(|one| !one.front));
    }
}
