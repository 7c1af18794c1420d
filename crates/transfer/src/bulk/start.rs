//! A common start: ends on several hosts start at one time, which they receive once all have connected.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::end::{DataPath, End};
use super::pace::wait_until;
use netcliff_packets::clock;
use netcliff_packets::thread::RealtimeGuard;

/// Interval at which a waiting end checks whether to give up.
const LOOK: Duration = Duration::from_millis(50);
/// A start further away than this is not waited for (ns): a wrong clock offset must not block threads.
const LONGEST_NS: u64 = 10_000_000_000;

/// The time at which all ends start (ns of this host's monotonic clock), once it is known.
#[derive(Debug, Default)]
pub struct StartTime {
    at_ns: Mutex<Option<u64>>,
    changed: Condvar,
}

impl StartTime {
    /// Sets the start time for all waiting ends.
    pub fn tell(&self, at_ns: u64) {
        *self.at_ns.lock().unwrap_or_else(PoisonError::into_inner) = Some(at_ns);
        self.changed.notify_all();
    }

    /// Waits until the start time is known and has come. Returns it, or `None` if `given_up` returned true first.
    pub(super) fn wait(&self, given_up: impl Fn() -> bool) -> Option<u64> {
        let mut at_ns = self.at_ns.lock().unwrap_or_else(PoisonError::into_inner);
        while at_ns.is_none() {
            if given_up() {
                return None;
            }
            (at_ns, _) = self.changed.wait_timeout(at_ns, LOOK).unwrap_or_else(PoisonError::into_inner);
        }
        let known_ns = (*at_ns)?;
        drop(at_ns);
        if known_ns.saturating_sub(clock::monotonic_ns()) > LONGEST_NS {
            return None;
        }
        wait_until(known_ns);
        Some(known_ns)
    }
}

/// Message to a waiting far end: the start time by its monotonic clock.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartNotice {
    pub begin_at_ns: u64,
}

/// A data path whose thread precedes ordinary threads until it has made its first step. If many ends start together on
/// few CPUs, the last one would otherwise wait for the first blocks of the others.
pub(super) struct RealtimeFirstStep<'a> {
    pub mover: Box<dyn DataPath + 'a>,
    pub guard: Option<RealtimeGuard>,
}

impl DataPath for RealtimeFirstStep<'_> {
    fn step(&mut self) -> io::Result<(usize, u64)> {
        match self.guard.take() {
            Some(_guard) => self.mover.first(),
            None => self.mover.step(),
        }
    }

    fn due_ns(&self) -> Option<u64> {
        self.mover.due_ns()
    }

    fn say_end(&mut self) -> Option<u64> {
        self.mover.say_end()
    }

    fn finish(&mut self, end: &mut End) -> io::Result<()> {
        self.mover.finish(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Counts the first steps and the other steps.
    struct Steps(u64, u64);

    impl DataPath for Steps {
        fn step(&mut self) -> io::Result<(usize, u64)> {
            self.1 += 1;
            Ok((100, self.1))
        }

        fn first(&mut self) -> io::Result<(usize, u64)> {
            self.0 += 1;
            Ok((1, self.0))
        }
    }

    #[test]
    fn only_the_first_step_is_a_small_one() {
        let mut punctual = RealtimeFirstStep { mover: Box::new(Steps(0, 0)), guard: Some(RealtimeGuard::begin()) };
        let moved: Vec<(usize, u64)> = (0..3).map(|_| punctual.step().expect("it moves")).collect();
        assert_eq!(moved, [(1, 1), (100, 1), (100, 2)]);
        assert!(punctual.guard.is_none(), "an ordinary thread again");
    }

    #[test]
    fn all_begin_when_it_has_come_and_none_waits_for_ever() {
        let start = Arc::new(StartTime::default());
        let waits = |start: &Arc<StartTime>| {
            let start = Arc::clone(start);
            std::thread::spawn(move || start.wait(|| false).map(|at_ns| (at_ns, clock::monotonic_ns())))
        };
        let threads = [waits(&start), waits(&start)];
        let at_ns = clock::monotonic_ns() + 20_000_000;
        start.tell(at_ns);
        for thread in threads {
            let (told_ns, began_ns) = thread.join().expect("no panic").expect("it has come");
            assert!(told_ns == at_ns && began_ns >= at_ns);
        }
        let given_up = AtomicBool::new(true);
        assert_eq!(StartTime::default().wait(|| given_up.load(Ordering::Relaxed)), None);
        let far = StartTime::default();
        far.tell(u64::MAX);
        assert_eq!(far.wait(|| false), None, "a time that never comes is not waited for");
    }
}
