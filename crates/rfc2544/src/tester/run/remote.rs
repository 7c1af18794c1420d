//! [`Remote`]: a bench on a separate thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::live::LiveBench;
use super::{Bench, Direction, Methods, Tester, Trial, TrialReport};
use netcliff_packets::error::WireError;
use netcliff_packets::port::SendBy;
use netcliff_packets::thread::Placement;

/// The thread's name in errors.
const NAME: &str = "sender's and sink's";

/// A command to the bench's thread: a trial, and where to send its result.
type TrialCommand = (Trial, std::sync::mpsc::Sender<Result<TrialReport, WireError>>);

/// Makes the trials: rings at the ports, or programs in the kernel (live frames).
enum Work {
    Rings(Bench),
    Programs(Box<LiveBench>),
}

impl Work {
    /// Opens the programs for live frames if they are requested and possible. Otherwise opens rings, and stores the
    /// reason why live frames are not used.
    fn open(
        directions: &[Direction],
        by: Methods,
        max_burst: usize,
        placement: &Placement,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        let not_live = match (by.send == SendBy::Live).then(|| LiveBench::open(directions, by, placement, stop)) {
            Some(Ok(bench)) => return Ok(Self::Programs(Box::new(bench))),
            Some(Err(why)) => Some(why),
            None => None,
        };
        let send = if by.send == SendBy::Live { SendBy::Auto } else { by.send };
        let mut bench = Bench::open(directions, Methods { send, ..by }, max_burst, placement)?;
        bench.tester.not_live = not_live;
        Ok(Self::Rings(bench))
    }

    fn tester(&self) -> &Tester {
        match self {
            Self::Rings(bench) => bench.tester(),
            Self::Programs(bench) => bench.tester(),
        }
    }

    fn run(&mut self, trial: &Trial, stop: &AtomicBool) -> Result<TrialReport, WireError> {
        match self {
            Self::Rings(bench) => bench.run(trial, stop),
            Self::Programs(bench) => bench.run(trial, stop),
        }
    }
}

/// A bench on a separate thread with its own placement.
#[derive(Debug)]
pub struct Remote {
    orders: Option<std::sync::mpsc::Sender<TrialCommand>>,
    thread: Option<std::thread::JoinHandle<()>>,
    tester: Tester,
}

impl Remote {
    /// Starts the thread and opens the rings on it. `stop` ends a trial early.
    ///
    /// # Errors
    /// See [`Bench::open`].
    pub fn start(
        directions: Vec<Direction>,
        by: Methods,
        max_burst: usize,
        placement: Placement,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        let also = Arc::clone(&stop);
        Self::of(move || Work::open(&directions, by, max_burst, &placement, also), stop)
    }

    fn of(
        open: impl FnOnce() -> Result<Work, WireError> + Send + 'static,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, WireError> {
        let (orders, inbox) = std::sync::mpsc::channel::<TrialCommand>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let work = move || match open() {
            Err(error) => drop(ready.send(Err(error))),
            Ok(mut bench) => {
                drop(ready.send(Ok(bench.tester().clone())));
                for (trial, answer) in inbox {
                    // If nobody waits for the result, it is discarded.
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

    /// The methods of sending, receiving and stamping in use.
    pub fn tester(&self) -> &Tester {
        &self.tester
    }

    /// Runs a trial and waits for its end.
    ///
    /// # Errors
    /// See [`Bench::run`]; or the thread died.
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
            // A panic has been reported to the caller of the trial.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
