//! A common start of several requesting ends, each with its own far end.

use std::sync::{Condvar, Mutex, PoisonError};

use netcliff_packets::clock;

/// Time from the last connection to the first request (ns).
pub(super) const LEAD_NS: u64 = 5_000_000;

/// The point where requesting ends wait for each other.
#[derive(Debug)]
pub struct Rendezvous {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    missing: usize,
    given_up: bool,
    begins_ns: u64,
}

impl Rendezvous {
    /// A common start of `parties` ends.
    pub fn new(parties: usize) -> Self {
        let state = State { missing: parties, given_up: false, begins_ns: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for the other ends. Returns the time at which all start (ns). `None` if one of them gave up.
    pub(super) fn arrive(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing = state.missing.saturating_sub(1);
        if state.missing == 0 {
            state.begins_ns = clock::monotonic_ns() + LEAD_NS;
        }
        self.changed.notify_all();
        while state.missing > 0 && !state.given_up {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (!state.given_up).then_some(state.begins_ns)
    }

    /// Releases the other ends, because this one cannot start.
    pub fn give_up(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).given_up = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_at_one_time_or_none_does() {
        let place = Rendezvous::new(3);
        let times: Vec<Option<u64>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| place.arrive())).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(times[0].is_some() && times.iter().all(|time| *time == times[0]), "{times:?}");
        let place = Rendezvous::new(2);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| place.arrive());
            place.give_up();
            assert_eq!(waits.join().expect("no panic"), None);
        });
    }
}
