//! Finds the fixed point of a linear map that preserves the sum of its argument: the stationary vector of a chain that
//! is given only by the effect of one step on a distribution.
//!
//! Method: restarted GMRES (Saad and Schultz, SIAM J. Sci. Stat. Comput. 7, 1986) on the change by one step. For a
//! chain that forgets its start in n steps, GMRES needs about sqrt(n) steps per digit, plain iteration n.

use netcliff_core::math;

/// Number of basis vectors stored between restarts.
pub const KEPT: usize = 50;
/// Maximum number of restarts.
const RESTARTS: usize = 20;

/// Finds the distribution that one step of `map` changes by less than `still` in sum, from a first guess `start`.
/// `None` if `map` returns `None`, or if the method does not converge.
pub fn stationary(map: &dyn Fn(&[f64]) -> Option<Vec<f64>>, start: Vec<f64>, still: f64) -> Option<Vec<f64>> {
    let mut found = start;
    for _ in 0..RESTARTS {
        let sum: f64 = found.iter().sum();
        found.iter_mut().for_each(|share| *share /= sum);
        let mut change = map(&found)?;
        change.iter_mut().zip(&found).for_each(|(after, before)| *after -= before);
        let changes: f64 = change.iter().map(|change| change.abs()).sum();
        if changes < still {
            return Some(found);
        }
        improve(map, &mut found, change, 0.3 * still / changes)?;
    }
    None
}

/// Improves `found` so that one step changes it as little as possible. Takes up to [`KEPT`] steps, or stops when the
/// change has fallen by the factor `enough`; `change` is the present change. `None` if `map` returns `None`.
fn improve(map: &dyn Fn(&[f64]) -> Option<Vec<f64>>, found: &mut [f64], change: Vec<f64>, enough: f64) -> Option<()> {
    let mut basis = vec![change];
    let size = scale(&mut basis[0]);
    // Columns of the map in the basis, made upper triangular by rotations; the rotations; and the right-hand side after
    // them.
    let (mut columns, mut rotations, mut right) = (Vec::<Vec<f64>>::new(), Vec::<(f64, f64)>::new(), vec![size]);
    while columns.len() < KEPT && right[columns.len()].abs() > enough * size {
        let last = &basis[basis.len() - 1];
        let mut next = map(last)?;
        next.iter_mut().zip(last).for_each(|(after, before)| *after = before - *after);
        let mut column = Vec::with_capacity(basis.len() + 1);
        for known in &basis {
            let along: f64 = known.iter().zip(&next).map(|(a, b)| a * b).sum();
            next.iter_mut().zip(known).for_each(|(value, known)| *value -= along * known);
            column.push(along);
        }
        column.push(scale(&mut next));
        for (place, (cosine, sine)) in rotations.iter().enumerate() {
            let (a, b) = (column[place], column[place + 1]);
            (column[place], column[place + 1]) = (cosine * a + sine * b, cosine * b - sine * a);
        }
        let below = column.pop()?;
        let place = column.len() - 1;
        let length = math::hypot(column[place], below);
        if length == 0.0 {
            break;
        }
        let (cosine, sine) = (column[place] / length, below / length);
        column[place] = length;
        rotations.push((cosine, sine));
        right.push(-sine * right[place]);
        right[place] *= cosine;
        columns.push(column);
        basis.push(next);
    }
    for place in (0..columns.len()).rev() {
        let share = right[place] / columns[place][place];
        for (above, entry) in right.iter_mut().zip(&columns[place][..place]) {
            *above -= share * entry;
        }
        found.iter_mut().zip(&basis[place]).for_each(|(value, along)| *value += share * along);
    }
    Some(())
}

/// Scales a vector to length 1; returns its former length.
fn scale(vector: &mut [f64]) -> f64 {
    let length = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A random walk on 40 places, up with 0.45 and down with 0.55: its distribution is geometric, and it forgets its
    /// start slowly.
    #[test]
    fn the_stationary_vector_of_a_walk() {
        let (places, up) = (40, 0.45);
        let steps = std::cell::Cell::new(0);
        let map = |now: &[f64]| {
            steps.set(steps.get() + 1);
            let mut next = vec![0.0; places];
            for (place, share) in now.iter().enumerate() {
                next[(place + 1).min(places - 1)] += up * share;
                next[place.saturating_sub(1)] += (1.0 - up) * share;
            }
            Some(next)
        };
        let mut start = vec![0.0; places];
        start[0] = 1.0;
        let found = stationary(&map, start, 1e-13).expect("a stationary vector");
        let ratio: f64 = up / (1.0 - up);
        for (place, share) in found.iter().enumerate() {
            let right = ratio.powi(place as i32) * (1.0 - ratio) / (1.0 - ratio.powi(places as i32));
            assert!((share - right).abs() < 1e-10, "{place}: {share} for {right}");
        }
        // Plain iteration takes some thousands of steps.
        assert!(steps.get() < 200, "{} steps", steps.get());
    }

    #[test]
    fn a_map_that_ends_gives_nothing() {
        assert_eq!(stationary(&|_| None, vec![1.0, 0.0], 1e-13), None);
    }
}
