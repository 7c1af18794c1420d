//! A Markov chain that runs until an exponential event or a constant deadline, whichever comes first, solved by its
//! matrix exponential.

type Matrix = Vec<Vec<f64>>;

/// Matrices [from][to] over the chain's states.
pub struct Gap {
    /// P(the event comes first, in state `to`).
    pub event: Matrix,
    /// Mean time until the event; ends by the deadline count as 0.
    pub event_time: Matrix,
    /// P(the deadline comes first, in state `to`).
    pub deadline: Matrix,
    /// Mean time spent in `to`.
    pub spent: Matrix,
}

/// Number of halvings of the deadline before the series is used. Rates x the remaining time are then of the order of 1.
const HALVINGS: i32 = 6;
/// Number of terms of the series.
const TERMS: i32 = 30;

impl Gap {
    /// `jumps`: rates between states, 0 on the diagonal.
    pub fn new(jumps: &Matrix, event_rate: f64, deadline: f64) -> Self {
        let order = jumps.len();
        let mut generator = jumps.clone();
        for (state, row) in generator.iter_mut().enumerate() {
            row[state] = -event_rate - row.iter().sum::<f64>();
        }
        // e^(Ah), its integral, and the integral of t e^(At), for a short h, by their series.
        let mut time = deadline * 0.5_f64.powi(HALVINGS);
        let nothing = vec![vec![0.0; order]; order];
        let (mut law, mut spent, mut moment) = (nothing.clone(), nothing.clone(), nothing);
        // (Ah)^k / k!
        let mut power: Matrix = (0..order).map(|i| (0..order).map(|j| f64::from(u8::from(i == j))).collect()).collect();
        for k in 0..TERMS {
            law = sum(&[(1.0, &law), (1.0, &power)]);
            spent = sum(&[(1.0, &spent), (time / f64::from(k + 1), &power)]);
            moment = sum(&[(1.0, &moment), (time * time / f64::from(k + 2), &power)]);
            power = sum(&[(time / f64::from(k + 1), &times(&power, &generator))]);
        }
        for _ in 0..HALVINGS {
            let later = sum(&[(1.0, &moment), (time, &spent)]);
            moment = sum(&[(1.0, &moment), (1.0, &times(&law, &later))]);
            spent = sum(&[(1.0, &spent), (1.0, &times(&law, &spent))]);
            law = times(&law, &law);
            time *= 2.0;
        }
        let (event, event_time) = (sum(&[(event_rate, &spent)]), sum(&[(event_rate, &moment)]));
        Self { event, event_time, deadline: law, spent }
    }
}

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let entry = |row: &[f64], j: usize| row.iter().zip(b).map(|(x, other)| x * other[j]).sum();
    a.iter().map(|row| (0..b.len()).map(|j| entry(row, j)).collect()).collect()
}

fn sum(terms: &[(f64, &Matrix)]) -> Matrix {
    let order = terms[0].1.len();
    let entry = |i: usize, j: usize| terms.iter().map(|(factor, matrix)| factor * matrix[i][j]).sum();
    (0..order).map(|i| (0..order).map(|j| entry(i, j)).collect()).collect()
}
