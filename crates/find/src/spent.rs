//! [`Clock`]: measures the time of a run by stages, divided into measuring, waiting and computing.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use netcliff_core::finding::{StageTime, TimeSpent};

/// Measures the time of a run's stages. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Clock(Rc<RefCell<Vec<Stage>>>);

#[derive(Debug)]
struct Stage {
    began: Instant,
    time: StageTime,
}

impl Clock {
    /// Begins the next stage.
    pub fn enter(&self, stage: &str) {
        let time = StageTime { stage: stage.to_owned(), ..StageTime::default() };
        self.0.borrow_mut().push(Stage { began: Instant::now(), time });
    }

    /// Makes a trial with a measured window of `measured_s` (s), and adds its time to the current stage: the window as
    /// measured, the rest as waited.
    pub fn trial<T>(&self, measured_s: f64, trial: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let outcome = trial();
        let took_s = began.elapsed().as_secs_f64();
        if let Some(stage) = self.0.borrow_mut().last_mut() {
            // A failed trial may have ended before its window.
            let measured_s = measured_s.min(took_s);
            stage.time.trials += 1;
            stage.time.measured_s += measured_s;
            stage.time.waited_s += took_s - measured_s;
        }
        outcome
    }

    /// The time of each stage so far; `None` before the first stage.
    pub fn spent(&self) -> Option<TimeSpent> {
        let stages = self.0.borrow();
        let ends = stages.iter().skip(1).map(|next| next.began).chain([Instant::now()]);
        let times = stages.iter().zip(ends).map(|(stage, ended)| {
            let took_s = ended.duration_since(stage.began).as_secs_f64();
            let computed_s = (took_s - stage.time.measured_s - stage.time.waited_s).max(0.0);
            StageTime { computed_s, ..stage.time.clone() }
        });
        (!stages.is_empty()).then(|| TimeSpent::of(times.collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_seconds_of_a_stage_are_measured_waited_and_computed() {
        let clock = Clock::default();
        assert_eq!(clock.spent(), None);
        let wait = |ms| sleep(Duration::from_millis(ms));
        // Before the first stage nothing is counted.
        clock.trial(1.0, || ());
        clock.enter("first");
        clock.clone().trial(0.02, || wait(50));
        clock.enter("second");
        wait(20);
        clock.trial(1.0, || wait(10));
        let spent = clock.spent().expect("two stages");
        let [first, second] = spent.stages.as_slice() else { panic!("{spent:?}") };
        assert_eq!((first.stage.as_str(), first.trials, first.measured_s), ("first", 1, 0.02));
        assert!(first.waited_s >= 0.03 && first.computed_s < first.waited_s, "{first:?}");
        // A trial that ended early counts at most the time it took.
        assert!(second.waited_s == 0.0 && second.measured_s >= 0.01 && second.measured_s < 1.0, "{second:?}");
        assert!(second.computed_s >= 0.02, "{second:?}");
        assert!((spent.measured_s - first.measured_s - second.measured_s).abs() < 1e-9);
    }
}
