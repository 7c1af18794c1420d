//! How much work one solution may take.

use std::cell::Cell;

/// Most operations of one solution, multiplications with their additions: some tenths of a second, since a search for a cliff
/// and a sweep (`netcliff find`) take some forty solutions. A ring of 1000, a socket of 2500 packets and polls of 64 take 1e8 at the cliff, 4e8 at twice its load.
pub const MOST_OPERATIONS: f64 = 2e9;

/// The same where polls wait for ticks: one to two seconds; the ring alone may take as long there, and `netcliff find` uses no such scheme.
/// A ring of 1024 and a socket of 256 packets under `napi-2007:period=20us,quota=3` take 9e8 at 100 kpps.
const MOST_OPERATIONS_OF_TICKS: f64 = 2e9;

/// What is left of it; every part of a solution takes its share from the same.
#[derive(Debug)]
pub struct Budget {
    left: Cell<f64>,
    /// What is rarer is left out.
    least: f64,
}

impl Budget {
    /// All of it.
    pub fn whole() -> Self {
        Self { left: Cell::new(MOST_OPERATIONS), least: 0.0 }
    }

    /// All of it, of a scheme with ticks.
    pub fn of_ticks() -> Self {
        Self { left: Cell::new(MOST_OPERATIONS_OF_TICKS), least: 0.0 }
    }

    /// The same where everything rarer than `least` is left out.
    pub fn leaving_out(self, least: f64) -> Self {
        Self { least, ..self }
    }

    /// What is rarer is left out where an exact solution leaves out what is rarer than `exact`.
    pub fn least(&self, exact: f64) -> f64 {
        exact.max(self.least)
    }

    /// None if fewer than `operations` are left; takes none.
    pub fn lasts(&self, operations: f64) -> Option<()> {
        (self.left.get() >= operations).then_some(())
    }

    /// Takes `operations`; None if fewer are left.
    pub fn take(&self, operations: f64) -> Option<()> {
        let left = self.left.get() - operations;
        self.left.set(left);
        (left >= 0.0).then_some(())
    }
}
