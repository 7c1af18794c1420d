//! Work away from the interpreter: its lock is released, and Ctrl-C is looked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::{EngineError, Fault};

/// How soon Ctrl-C is seen.
const LOOK: Duration = Duration::from_millis(50);

/// Set when nobody waits for the answer any more.
pub(crate) type Stop = Arc<AtomicBool>;

/// Runs `job` on a thread of its own and waits for it without the interpreter's lock. Ctrl-C raises at once; `job` sees the
/// stop between its points, and gives up the one under way when that ends.
///
/// With `threads` the simulator's parallelism is held to a pool of the call's own: the process-wide pool does not
/// survive a fork.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    job: impl FnOnce(&AtomicBool) -> Result<T, Fault> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let theirs = Arc::clone(&stop);
    let (sender, mut answer) = channel();
    let work = move || {
        let pool = threads.and_then(|count| rayon::ThreadPoolBuilder::new().num_threads(count).build().ok());
        let found = match pool {
            Some(pool) => pool.install(|| job(&theirs)),
            None => job(&theirs),
        };
        // Nobody listens after Ctrl-C.
        let _ = sender.send(found);
    };
    std::thread::Builder::new().spawn(work).map_err(|error| EngineError::new_err(error.to_string()))?;
    match next(py, &mut answer, &stop)? {
        Some(found) => found.map_err(PyErr::from),
        None => Err(EngineError::new_err("the computation ended without an answer (this is a bug)")),
    }
}

/// The next message of a worker; None: it ended. Ctrl-C sets `stop` and raises.
pub(crate) fn next<T: Send>(py: Python<'_>, answers: &mut Receiver<T>, stop: &AtomicBool) -> PyResult<Option<T>> {
    loop {
        let heard = {
            let answers = &mut *answers;
            py.detach(move || answers.recv_timeout(LOOK))
        };
        match heard {
            Ok(answer) => return Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = py.check_signals() {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }
}

/// Threads to use where none are asked for: the CPUs.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)).clamp(1, 1024)
}
