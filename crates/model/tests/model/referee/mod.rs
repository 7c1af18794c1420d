//! The referee: lists the states of a Markov chain from an independent description, writes its generator as a dense
//! matrix, and solves it by Gaussian elimination with pivoting. It shares no code with the tested crate.

pub mod application;
pub mod gap;

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

/// Stationary probabilities of the chain reached from `start` by `jumps` (state -> list of (state, rate)).
pub fn stationary<S: Clone + Eq + Hash + Debug>(start: S, jumps: &dyn Fn(&S) -> Vec<(S, f64)>) -> Vec<(S, f64)> {
    let mut index = HashMap::from([(start.clone(), 0_usize)]);
    let mut states = vec![start];
    let mut rates = Vec::new();
    let mut next = 0;
    while next < states.len() {
        for (target, rate) in jumps(&states[next].clone()) {
            let column = *index.entry(target.clone()).or_insert_with(|| {
                states.push(target);
                states.len() - 1
            });
            rates.push((next, column, rate));
        }
        next += 1;
    }
    let order = states.len();
    // Columns of Q^T pi = 0, with the last balance equation replaced by the sum of probabilities.
    let mut system = vec![vec![0.0; order + 1]; order];
    for (from, to, rate) in rates {
        system[to][from] += rate;
        system[from][from] -= rate;
    }
    system[order - 1] = vec![1.0; order + 1];
    states.into_iter().zip(eliminate(system)).collect()
}

/// Solves an augmented system by elimination with partial pivoting, and refines the result once.
fn eliminate(original: Vec<Vec<f64>>) -> Vec<f64> {
    let order = original.len();
    let mut system = original;
    for k in 0..order {
        let pivot = (k..order).max_by(|a, b| system[*a][k].abs().total_cmp(&system[*b][k].abs())).unwrap();
        system.swap(k, pivot);
        let pivot_row = system[k].clone();
        for row in &mut system[k + 1..] {
            let factor = row[k] / pivot_row[k];
            if factor != 0.0 {
                row[k..].iter_mut().zip(&pivot_row[k..]).for_each(|(a, b)| *a -= factor * b);
            }
        }
    }
    let mut solution = vec![0.0; order];
    for k in (0..order).rev() {
        let known: f64 = (k + 1..order).map(|j| system[k][j] * solution[j]).sum();
        solution[k] = (system[k][order] - known) / system[k][k];
    }
    solution
}
