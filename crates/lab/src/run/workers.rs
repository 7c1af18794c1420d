//! Tasks on all cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use netcliff_core::Provenance;

use super::{Answer, Plan};

/// How soon a stop is seen.
const STOP_SEEN: Duration = Duration::from_millis(50);

/// Answers the tasks with the indices `pending`, on `threads` threads, and hands each answer to `each` on this thread.
///
/// A stop ends it at once: what was handed over is complete, a point under way is given up (its thread ends with the
/// process). A point whose thread died of a panic is answered as failed.
pub fn compute(
    plan: &Arc<Plan>,
    pending: Vec<usize>,
    threads: usize,
    provenance: &Provenance,
    stop: &AtomicBool,
    mut each: impl FnMut(usize, Answer),
) {
    let mut open: std::collections::BTreeSet<usize> = pending.iter().copied().collect();
    let answers = start(plan, pending, threads, provenance);
    while !stop.load(Ordering::Relaxed) {
        match answers.recv_timeout(STOP_SEEN) {
            Ok((index, answer)) => {
                open.remove(&index);
                each(index, answer);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let died = || Answer::Failed("the computation ended without an answer (this is a bug)".to_owned());
                return open.into_iter().for_each(|index| each(index, died()));
            }
        }
    }
}

/// Threads that take the next task each until none is left. Every thread works a whole point alone: the simulator's
/// own parallelism is held to one thread, so that a point is never waited for by two.
fn start(plan: &Arc<Plan>, pending: Vec<usize>, threads: usize, provenance: &Provenance) -> Receiver<(usize, Answer)> {
    let (sender, answers) = channel();
    let (next, pending) = (Arc::new(AtomicUsize::new(0)), Arc::new(pending));
    for _ in 0..threads.clamp(1, pending.len().max(1)) {
        let (plan, pending, next) = (Arc::clone(plan), Arc::clone(&pending), Arc::clone(&next));
        let (sender, provenance) = (sender.clone(), provenance.clone());
        std::thread::spawn(move || work(&plan, &pending, &next, &provenance, &sender));
    }
    answers
}

fn work(plan: &Plan, pending: &[usize], next: &AtomicUsize, provenance: &Provenance, sender: &Sender<(usize, Answer)>) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    while let Some(index) = pending.get(next.fetch_add(1, Ordering::Relaxed)) {
        let answer = || plan.answer(&plan.tasks[*index], provenance);
        // Without a pool of its own the thread shares the common one: slower, with the same results.
        let answer = pool.as_ref().map_or_else(|_| answer(), |pool| pool.install(answer));
        if sender.send((*index, answer)).is_err() {
            return;
        }
    }
}
