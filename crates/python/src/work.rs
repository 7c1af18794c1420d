//! Runs computations while the interpreter's lock is released, and checks for Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::{EngineError, Fault};

/// Interval between checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

/// Set when the caller no longer waits for the result.
pub(crate) type Stop = Arc<AtomicBool>;

/// Runs `job` on a new thread and waits for it without the interpreter's lock. Ctrl-C raises at once; `job` should
/// check the stop flag between points, and ends after the present point.
///
/// With `threads`, the simulator runs on a thread pool of this call only, because the process-wide pool does not
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
        // After Ctrl-C nobody receives the result, so that sending fails.
        let _ = sender.send(found);
    };
    std::thread::Builder::new().spawn(work).map_err(|error| EngineError::new_err(error.to_string()))?;
    match next(py, &mut answer, &stop)? {
        Some(found) => found.map_err(PyErr::from),
        None => Err(EngineError::new_err("the computation ended without an answer (this is a bug)")),
    }
}

/// Returns the next message of a worker; `None` if the worker has ended. Ctrl-C sets `stop` and raises.
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

/// Number of threads to use: the requested one, or else the number of CPUs.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get)).clamp(1, 1024)
}
