//! A gate that all ends pass together, or none.

use std::sync::{Condvar, Mutex, PoisonError};

/// The point where all ends wait for each other.
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

struct GateState {
    missing: usize,
    given_up: bool,
}

impl Gate {
    pub(super) fn new(parties: usize) -> Self {
        Self { state: Mutex::new(GateState { missing: parties, given_up: false }), changed: Condvar::new() }
    }

    /// Waits for the other ends. Returns false if one of them gave up.
    pub(super) fn pass(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing = state.missing.saturating_sub(1);
        self.changed.notify_all();
        while state.missing > 0 && !state.given_up {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.given_up
    }

    pub(super) fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.changed.notify_all();
    }
}

/// Gives up on drop, unless the gate was reached: the other ends must not wait for an end that failed.
pub(super) struct Arrival<'a>(pub(super) Option<&'a Gate>);

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        if let Some(gate) = self.0 {
            gate.give_up();
        }
    }
}
