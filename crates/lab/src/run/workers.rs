//! Tasks on all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use netcliff_core::Provenance;
use netcliff_core::experiment::Task;

use super::{Answer, Plan};

/// Interval at which the stop flag is checked.
const STOP_SEEN: Duration = Duration::from_millis(50);

/// Evaluates the tasks with the indices `pending` on `threads` threads, and passes each answer to `each` on the calling
/// thread.
///
/// A stop takes effect at once: answers already passed on are complete, and the current points are given up (their
/// threads end with the process). A point whose thread panicked is answered as failed.
pub fn compute(
    plan: &Arc<Plan>,
    pending: Vec<usize>,
    threads: usize,
    provenance: &Provenance,
    stop: &AtomicBool,
    mut each: impl FnMut(usize, Answer),
) {
    let provenance = provenance.clone();
    let answer = move |plan: &Plan, task: &Task| plan.answer(task, &provenance);
    let died = || Answer::Failed(DIED.to_owned());
    compute_by(plan, pending, threads, stop, answer, |index, answer| each(index, answer.unwrap_or_else(died)));
}

/// Message for a point whose thread panicked.
pub const DIED: &str = "the computation ended without an answer (this is a bug)";

/// Like [`compute`], with `answer` for each task. `None` if the thread panicked.
pub fn compute_by<T: Send + 'static>(
    plan: &Arc<Plan>,
    pending: Vec<usize>,
    threads: usize,
    stop: &AtomicBool,
    answer: impl Fn(&Plan, &Task) -> T + Send + Sync + 'static,
    mut each: impl FnMut(usize, Option<T>),
) {
    let mut open: std::collections::BTreeSet<usize> = pending.iter().copied().collect();
    let answers = start(plan, pending, threads, answer);
    while !stop.load(Ordering::Relaxed) {
        match answers.recv_timeout(STOP_SEEN) {
            Ok((index, answer)) => {
                open.remove(&index);
                each(index, Some(answer));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return open.into_iter().for_each(|index| each(index, None)),
        }
    }
}

/// Starts threads that each take the next task until none is left. Each thread evaluates a whole point alone: the
/// simulator's own parallelism is limited to one thread, so that no thread waits for another.
fn start<T: Send + 'static>(
    plan: &Arc<Plan>,
    pending: Vec<usize>,
    threads: usize,
    answer: impl Fn(&Plan, &Task) -> T + Send + Sync + 'static,
) -> Receiver<(usize, T)> {
    let (sender, answers) = channel();
    let (next, pending, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(pending), Arc::new(answer));
    for _ in 0..threads.clamp(1, pending.len().max(1)) {
        let (plan, pending, next) = (Arc::clone(plan), Arc::clone(&pending), Arc::clone(&next));
        let (sender, answer) = (sender.clone(), Arc::clone(&answer));
        std::thread::spawn(move || work(&plan, &pending, &next, &*answer, &sender));
    }
    answers
}

fn work<T: Send>(
    plan: &Plan,
    pending: &[usize],
    next: &AtomicUsize,
    answer: &(impl Fn(&Plan, &Task) -> T + Sync),
    sender: &Sender<(usize, T)>,
) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    while let Some(index) = pending.get(next.fetch_add(1, Ordering::Relaxed)) {
        let answer = || answer(plan, &plan.tasks[*index]);
        // Without its own pool, the thread uses the common one: slower, with the same results.
        let answer = pool.as_ref().map_or_else(|_| answer(), |pool| pool.install(answer));
        if sender.send((*index, answer)).is_err() {
            return;
        }
    }
}
