//! Sends the engines' computations to another process, because an emulated guest is many times slower than the host
//! that emulates it, and a host under test should not compute during a run.
//!
//! An agent that runs a `find` sends each computation ([`Job`]) to its client in the way it sends commands for the
//! load, if the client has offered to compute. Both ends have the same engines, so results are equal, except for the
//! last digit of costs, which JSON writes in microseconds.

use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use netcliff_core::{EngineFailure, Figure, Outcome};
use netcliff_remote::load::{Chunk, GeneratorCommand, computed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::engines::Elsewhere;
use super::engines::{self, Answer, Predictor};
use super::experienced;

/// Largest number of computations at the same time; more are refused. A sweep needs eight.
const AT_ONCE: usize = 32;

/// A computation, named in JSON by its variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Job {
    Engines(engines::Job),
    Trials(experienced::Job),
}

impl Job {
    /// Computes the job in this process.
    fn done(self) -> Value {
        let never = AtomicBool::new(false);
        match self {
            Self::Engines(engines::Job::ModelCliff(of)) => answer(of.model_cliff()),
            Self::Engines(engines::Job::Losses(points)) => answer(Predictor::losses_here(&points)),
            Self::Engines(engines::Job::SimCliff(of)) => answer::<Option<Figure>>(of.sim_cliff(&never)),
            Self::Engines(engines::Job::ModelAt(of, load_pps)) => answer::<Outcome>(of.model_at(load_pps)),
            Self::Engines(engines::Job::SimAt(of, load_pps)) => answer(of.sim_at(load_pps)),
            Self::Trials(experienced::Job::Trials { computed, paused, goal, trial_s }) => {
                answer(experienced::highest_of_trials(&computed, &paused, &goal, trial_s, &never))
            }
        }
    }
}

fn answer<T: Serialize>(found: Result<T, EngineFailure>) -> Value {
    let answer = match found {
        Ok(found) => Answer::Found(found),
        Err(error) => Answer::Failed(error.to_string()),
    };
    serde_json::to_value(answer).unwrap_or_default()
}

/// Computations that a client makes for the run it requested from an agent.
#[derive(Debug, Default)]
pub(super) struct Computing {
    under_way: Vec<(u64, JoinHandle<Value>)>,
}

impl Computing {
    /// Starts the computation if `order` is [`GeneratorCommand::Compute`]; otherwise does nothing and returns false.
    pub(super) fn obey(&mut self, order: &GeneratorCommand) -> bool {
        let GeneratorCommand::Compute { id, job } = order else { return false };
        let job: Result<Job, String> = match self.under_way.len() {
            ..AT_ONCE => serde_json::from_value(job.clone()).map_err(|error| error.to_string()),
            _ => Err(format!("more than {AT_ONCE} computations at once")),
        };
        let compute = move || match job {
            Ok(job) => job.done(),
            Err(why) => serde_json::to_value(Answer::<()>::Failed(why)).unwrap_or_default(),
        };
        self.under_way.push((*id, std::thread::spawn(compute)));
        true
    }

    /// Returns the results completed since the last call. To be called many times per second.
    pub(super) fn look(&mut self) -> Vec<Chunk> {
        let (ended, under_way) = std::mem::take(&mut self.under_way).into_iter().partition(|(_, at)| at.is_finished());
        self.under_way = under_way;
        let chunks_of = |(id, thread): (u64, JoinHandle<Value>)| {
            let died = || Answer::<()>::Failed("the computation died, which is an error of netcliff".to_owned());
            computed(id, thread.join().unwrap_or_else(|_| serde_json::to_value(died()).unwrap_or_default()))
        };
        ended.into_iter().flat_map(chunks_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use netcliff_remote::load::OrderQueue;

    use netcliff_core::Host;

    use super::*;

    fn predictor() -> Predictor {
        let host = Host::preset("pentium4-2530mhz").expect("a preset");
        Predictor::of(Host { application_s: Some(3e-6), ..host }, "napi:weight=64,budget=300,backlog=true")
    }

    /// Executes the commands of the queue as a client does, until the thread `asker` has its result.
    fn served<T>(desk: &OrderQueue, asker: JoinHandle<T>) -> T {
        let mut computing = Computing::default();
        while !asker.is_finished() {
            if let Some(order) = desk.next() {
                assert!(computing.obey(&order), "nothing else is ordered");
            }
            for piece in computing.look() {
                desk.take(serde_json::to_value(piece).expect("plain data")).expect("it is taken");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        asker.join().expect("it ends")
    }

    #[test]
    fn what_is_computed_elsewhere_is_what_is_computed_here() {
        let here = predictor();
        let desk = Arc::<OrderQueue>::default();
        let there = Predictor { elsewhere: Elsewhere::client_of(Arc::clone(&desk)), ..here.clone() };
        let asker = std::thread::spawn(move || {
            let never = AtomicBool::new(false);
            let cliffs = (there.model_cliff().unwrap(), there.sim_cliff(&never).unwrap());
            (cliffs, there.sim_at(1e5).unwrap(), there.losses(&[there.point(1e5)]).unwrap())
        });
        let ((model, sim), at, losses) = served(&desk, asker);
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} {b}");
        near(model.value, here.model_cliff().unwrap().value);
        near(sim.unwrap().value, here.sim_cliff(&AtomicBool::new(false)).unwrap().unwrap().value);
        near(at.throughput_pps.unwrap().value, here.sim_at(1e5).unwrap().throughput_pps.unwrap().value);
        assert_eq!(losses.len(), 1);
    }

    #[test]
    fn what_the_engines_refuse_there_is_told_here() {
        let desk = Arc::<OrderQueue>::default();
        let host = Host { protocol_s: 1e7, ..predictor().host };
        let there = Predictor { host, elsewhere: Elsewhere::client_of(Arc::clone(&desk)), ..predictor() };
        let here = Predictor { elsewhere: Elsewhere::default(), ..there.clone() };
        let asker = std::thread::spawn(move || there.sim_at(1e5).unwrap_err().to_string());
        assert_eq!(served(&desk, asker), here.sim_at(1e5).unwrap_err().to_string());
    }

    #[test]
    fn a_client_that_is_gone_is_not_waited_for() {
        let desk = Arc::<OrderQueue>::default();
        let there = Predictor { elsewhere: Elsewhere::client_of(Arc::clone(&desk)), ..predictor() };
        let asker = std::thread::spawn(move || there.model_cliff().is_err());
        std::thread::sleep(Duration::from_millis(50));
        desk.leave();
        assert!(asker.join().expect("it ends"));
    }
}
