//! A bench on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Bench, By, Direction, Tester, Trial, TrialReport};
use crate::error::WireError;
use crate::thread::Placement;

/// The thread's name in errors.
const NAME: &str = "sender's and sink's";

/// Commands to a bench on a thread of its own.
type TrialCommand = (Trial, std::sync::mpsc::Sender<Result<TrialReport, WireError>>);

/// A bench on a thread of its own, in its place.
#[derive(Debug)]
pub struct Remote {
    orders: Option<std::sync::mpsc::Sender<TrialCommand>>,
    thread: Option<std::thread::JoinHandle<()>>,
    tester: Tester,
}

impl Remote {
    /// Starts the thread and opens the rings there; `stop` ends a trial early.
    ///
    /// # Errors
    /// As [`Bench::open`].
    pub fn start(
        directions: Vec<Direction>,
        by: By,
        max_burst: usize,
        placement: Placement,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        Self::of(move || Bench::open(&directions, by, max_burst, &placement), stop)
    }

    fn of(
        open: impl FnOnce() -> Result<Bench, WireError> + Send + 'static,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        let (orders, inbox) = std::sync::mpsc::channel::<TrialCommand>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let work = move || match open() {
            Err(error) => drop(ready.send(Err(error))),
            Ok(mut bench) => {
                drop(ready.send(Ok(bench.tester().clone())));
                for (trial, answer) in inbox {
                    // If the receiver is gone, nothing needs the result.
                    drop(answer.send(bench.run(&trial, &stop)));
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("netcliff-forward".into())
            .spawn(work)
            .map_err(|e| WireError::system("start the sending thread", e))?;
        match is_ready.recv() {
            Ok(Ok(tester)) => Ok(Self { orders: Some(orders), thread: Some(thread), tester }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(died(thread)),
        }
    }

    /// How frames are sent, taken in and stamped.
    pub fn tester(&self) -> &Tester {
        &self.tester
    }

    /// Runs a trial and waits for it.
    ///
    /// # Errors
    /// As [`Bench::run`]; or the thread died.
    pub fn run(&mut self, trial: Trial) -> Result<TrialReport, WireError> {
        let (answer, answered) = std::sync::mpsc::channel();
        let asked = self.orders.as_ref().is_some_and(|orders| orders.send((trial, answer)).is_ok());
        match answered.recv() {
            Ok(report) if asked => report,
            _ => Err(self.thread.take().map_or_else(|| WireError::died(NAME, &"it had ended"), died)),
        }
    }
}

fn died(thread: std::thread::JoinHandle<()>) -> WireError {
    match thread.join() {
        Err(panic) => WireError::died(NAME, panic.as_ref()),
        Ok(()) => WireError::died(NAME, &"it ended before its time"),
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported to the caller of the trial.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
