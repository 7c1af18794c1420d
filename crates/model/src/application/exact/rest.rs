//! The rest of an excursion once the socket is full: no further packet reaches the application, so that only total
//! times matter. Levels are eliminated from the top (GTH), then times follow from the bottom upwards.

use super::budget::Budget;
use super::excursion::{Excursion, Kind};
use super::weights::Weights;
use crate::queue::matrix::Matrix;

/// Elimination has converged when no entry differs from the level above by more than this share of its row.
const CONVERGED: f64 = 4e-16;
/// Memory limit for matrices (bytes): 256 MiB.
const MATRICES_BYTES: usize = 1 << 28;

/// Expected times in each (packets, stage) from `start` until the excursion ends. `None` if memory or budget do not
/// suffice.
pub fn times(excursion: &Excursion, start: &Weights, budget: &Budget) -> Option<Weights> {
    let (stages, places) = (excursion.stages(), excursion.places);
    let most = (MATRICES_BYTES / (8 * stages * stages)).max(2);
    // (lowest level to which the entry applies, expected times before reaching a lower level), from the top down.
    let mut visits: Vec<(usize, Matrix)> = Vec::new();
    let mut packets = places;
    loop {
        budget.take(2.0 * (stages as f64).powi(3))?;
        let found = visit(excursion, packets, visits.last().map(|(_, above)| above));
        let settled = packets > 1
            && packets + 1 < places
            && visits.last().is_some_and(|(_, above)| found.relative_distance(above) <= CONVERGED);
        // Level 1 is computed separately: its services may end the excursion, which a level's own times do not include.
        let lowest = if settled { 1 } else { packets };
        visits.push((lowest, found));
        if visits.len() > most {
            return None;
        }
        if lowest == 0 {
            break;
        }
        packets = lowest - 1;
    }
    Some(upward(excursion, start, &visits))
}

/// Expected times at a level before reaching a lower one, including returns from the levels above.
fn visit(excursion: &Excursion, packets: usize, above: Option<&Matrix>) -> Matrix {
    let stages = excursion.stages();
    let mut within = Matrix::zero(stages);
    let mut leaving = vec![0.0; stages];
    excursion.jumps(Kind::Drops, packets, &mut |from, to, rate| within.add(from, to, rate), &mut leaving);
    if let Some(above) = above {
        // An arrival, followed later by the return to this level.
        let services = excursion.rates(Kind::Drops).services(packets + 1);
        for (stage, leaving) in leaving.iter_mut().enumerate() {
            let row = above.row((excursion.chain.accepted)(stage));
            for (from, to, rate) in services {
                let back = excursion.arrival_pps * row[*from] * rate;
                if packets == 0 && *to == 0 { *leaving += back } else { within.add(stage, *to, back) }
            }
        }
    }
    for stage in 0..stages {
        within.row_mut(stage)[stage] = 0.0;
    }
    if packets == 0 {
        // Stage 0 of an empty ring is the end of the excursion. It is never entered, but elimination needs a rate out
        // of this state.
        leaving[0] = leaving[0].max(excursion.arrival_pps);
    }
    within.expected_times(leaving)
}

fn upward(excursion: &Excursion, start: &Weights, visits: &[(usize, Matrix)]) -> Weights {
    let (stages, places) = (excursion.stages(), excursion.places);
    let rates = excursion.rates(Kind::Drops);
    let own = |packets: usize| {
        let place = packets.checked_sub(start.low).map_or(usize::MAX, |level| level * stages);
        start.at.get(place..place.saturating_add(stages))
    };
    let matrix = |packets: usize| {
        let at = visits.partition_point(|(lowest, _)| *lowest > packets);
        &visits[at.min(visits.len() - 1)].1
    };
    // Entries into each level before reaching any lower level, from the top down.
    let mut entries = vec![0.0; (places + 1) * stages];
    let mut from_above = vec![0.0; stages];
    for packets in (0..=places).rev() {
        let here = &mut entries[packets * stages..(packets + 1) * stages];
        here.copy_from_slice(&from_above);
        if let Some(own) = own(packets) {
            here.iter_mut().zip(own).for_each(|(sum, weight)| *sum += weight);
        }
        from_above.fill(0.0);
        if packets > 0 && here.iter().any(|weight| *weight > 0.0) {
            let spent = matrix(packets).left_product(here);
            for (from, to, rate) in rates.services(packets) {
                if packets > 1 || *to != 0 {
                    from_above[*to] += spent[*from] * rate;
                }
            }
        }
    }
    let mut up = vec![0.0; stages];
    for packets in 0..=places {
        let here = &mut entries[packets * stages..(packets + 1) * stages];
        here.iter_mut().zip(&up).for_each(|(sum, weight)| *sum += weight);
        let spent = matrix(packets).left_product(here);
        here.copy_from_slice(&spent);
        up.fill(0.0);
        for (stage, time) in spent.iter().enumerate() {
            up[(excursion.chain.accepted)(stage)] += time * excursion.arrival_pps;
        }
    }
    Weights { low: 0, at: entries }
}
