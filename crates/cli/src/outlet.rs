//! Output while something is measured or changed: [`Outlet`] queues text, and its own thread writes it.
//!
//! A reader that is slow, stopped (a paused pager, Ctrl-S) or gone delays nothing that uses a testbed, a device or the
//! journal. Lines that come while [`QUEUED`] lines wait are dropped and counted. A message waits for a stopped reader
//! at most [`SAY`]; later messages do not wait until something is read again. A result waits for its reader after the
//! host is restored.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Largest number of queued texts: half a second of lines of `stream -i 1ms`.
pub const QUEUED: usize = 512;
/// Number of queued texts from which drawings are omitted: enough for a bar, its removal and a message between.
const DRAWN: usize = 8;
/// Time for which a reader of lines may read nothing at the end before the remaining lines are given up. The
/// measurement is over by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time allowed for the last messages after a signal.
const LEAVING: Duration = Duration::from_millis(500);
/// Time for which a message waits for a reader that has not stopped before.
const SAY: Duration = Duration::from_millis(200);
/// Interval at which a wait checks for a signal.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of one write. Progress within a long text shows that its reader reads.
const PIECE: usize = 4096;

/// The queue of an output stream, and the thread that writes it.
#[derive(Clone)]
pub struct Outlet {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    moved: Condvar,
    /// Returns whether a signal requested this process to end.
    ends: fn() -> bool,
}

#[derive(Default)]
struct State {
    queue: VecDeque<String>,
    /// True while the thread writes a text that it has taken from the queue.
    writes: bool,
    /// Number of lines that found the queue full since the last line that did not.
    dropped: u64,
    /// Number of pieces ([`PIECE`]) written.
    pieces: u64,
    /// True after the first line: the reader follows the run.
    has_lines: bool,
    /// True after a message waited in vain, until something is written again.
    stalled: bool,
    /// Error of a write: the reader is gone, or the disk is full.
    failed: Option<(ErrorKind, String)>,
}

impl State {
    fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.writes
    }
}

impl Outlet {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn start(out: impl Write + Send + 'static, ends: fn() -> bool) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), moved: Condvar::new(), ends });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("outlet".into()).spawn(move || theirs.write(out))?;
        Ok(Self { shared })
    }

    /// Queues a line of a run without waiting. `dropped` makes the line that says how many lines are missing before it.
    pub fn offer(&self, text: String, dropped: impl FnOnce(u64) -> String) {
        let mut state = self.shared.held();
        state.has_lines = true;
        if state.failed.is_some() {
            return;
        }
        if state.queue.len() >= QUEUED {
            state.dropped += 1;
            return;
        }
        let missing = std::mem::take(&mut state.dropped);
        if missing > 0 {
            state.queue.push_back(dropped(missing));
        }
        state.queue.push_back(text);
        self.shared.moved.notify_all();
    }

    /// Queues text that replaces itself, such as a progress bar. Omits it if [`DRAWN`] texts wait.
    pub fn draw(&self, text: String) {
        let mut state = self.shared.held();
        if state.queue.len() < DRAWN && state.failed.is_none() {
            state.queue.push_back(text);
            self.shared.moved.notify_all();
        }
    }

    /// Writes a message before it returns, unless the reader has stopped. `dropped` as in [`Outlet::offer`].
    pub fn say(&self, text: String, dropped: impl FnOnce(u64) -> String) {
        let has_lines = self.shared.held().has_lines;
        self.offer(text, dropped);
        let mut state = self.shared.held();
        state.has_lines = has_lines;
        if !state.stalled {
            let mut state = self.shared.until_written(state, |_| SAY);
            state.stalled = !state.is_empty();
        }
    }

    /// Writes a result before it returns. `dropped` as in [`Outlet::offer`]. Waits until the reader has taken it. Gives
    /// up if the reader takes nothing for [`PATIENCE`] (only after lines of a run) or, after a signal, for [`LEAVING`].
    ///
    /// # Errors
    /// The reader is gone (`BrokenPipe`) or has stopped (`TimedOut`); the disk is full.
    pub fn put(&self, text: String, dropped: impl FnOnce(u64) -> String) -> io::Result<()> {
        let mut state = self.shared.held();
        let missing = std::mem::take(&mut state.dropped);
        if missing > 0 {
            state.queue.push_back(dropped(missing));
        }
        state.queue.push_back(text);
        self.shared.moved.notify_all();
        let ends = self.shared.ends;
        let patience = |state: &State| match () {
            () if ends() => LEAVING,
            () if state.has_lines => PATIENCE,
            () => Duration::MAX,
        };
        let mut state = self.shared.until_written(state, patience);
        if let Some((kind, why)) = &state.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        if state.is_empty() {
            return Ok(());
        }
        // Do not write the rest later, between other lines.
        state.queue.clear();
        let why = format!("its reader has stopped: it took nothing for {:?}", patience(&state));
        Err(io::Error::new(ErrorKind::TimedOut, why))
    }

    /// Waits until all is written, or until the reader has read nothing for [`LEAVING`].
    pub fn settle(&self) {
        let state = self.shared.held();
        if !state.stalled {
            let mut state = self.shared.until_written(state, |_| LEAVING);
            state.stalled = !state.is_empty();
        }
    }

    /// Whether there is still a reader: false after a failed write.
    pub fn is_read(&self) -> bool {
        self.shared.held().failed.is_none()
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all is written, the stream fails, or nothing was taken for `patience`.
    fn until_written<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        patience: impl Fn(&State) -> Duration,
    ) -> MutexGuard<'a, State> {
        let (mut pieces, mut since) = (state.pieces, Instant::now());
        while !state.is_empty() && state.failed.is_none() && since.elapsed() <= patience(&state) {
            state = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            if state.pieces != pieces {
                (pieces, since) = (state.pieces, Instant::now());
            }
        }
        state
    }

    /// Writes queued text. After a failure, discards it.
    fn write(&self, mut out: impl Write) {
        loop {
            let mut state = self.held();
            let text = loop {
                match state.queue.pop_front() {
                    Some(text) => break text,
                    None => state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            state.writes = true;
            drop(state);
            let written = text.as_bytes().chunks(PIECE).try_for_each(|piece| {
                out.write_all(piece).and_then(|()| out.flush())?;
                let mut state = self.held();
                state.pieces += 1;
                state.stalled = false;
                Ok(())
            });
            let mut state = self.held();
            state.writes = false;
            if let Err(error) = written {
                let error: io::Error = error;
                state.failed.get_or_insert((error.kind(), error.to_string()));
                state.queue.clear();
            }
            self.moved.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    // Only the test of signals sets this flag; the other test does not depend on it.
    static ENDS: AtomicBool = AtomicBool::new(false);

    fn note(lines: u64) -> String {
        format!("{lines} missing\n")
    }

    /// A pipe whose reader takes nothing, filled to the brim.
    fn full_pipe() -> (io::PipeReader, Outlet) {
        let (reader, writer) = io::pipe().expect("a pipe");
        let outlet = Outlet::start(writer, || ENDS.load(Ordering::Relaxed)).expect("a thread");
        outlet.say("x".repeat(1 << 21), note);
        (reader, outlet)
    }

    #[test]
    fn nobody_waits_for_a_reader_that_has_stopped() {
        let (mut reader, outlet) = full_pipe();
        let begun = Instant::now();
        (0..4 * QUEUED).for_each(|number| outlet.offer(format!("line {number}\n"), note));
        (0..100).for_each(|_| outlet.say("message\n".to_owned(), note));
        outlet.draw("bar\n".to_owned());
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        // When the reader reads again, it gets the number of lost lines.
        let reads = thread::spawn(move || {
            let mut text = Vec::new();
            while !text.ends_with(b"page\n") {
                let mut piece = [0; PIECE];
                let read = io::Read::read(&mut reader, &mut piece).expect("a pipe");
                text.extend_from_slice(&piece[..read]);
            }
            String::from_utf8(text).expect("ASCII")
        });
        outlet.put("page\n".to_owned(), note).expect("it reads");
        let text = reads.join().expect("no panic");
        let lines = text.lines().filter(|line| line.starts_with("line")).count();
        let missing: usize = text.lines().filter_map(|line| line.strip_suffix(" missing")?.parse::<usize>().ok()).sum();
        // Messages that found no room also count.
        assert!(lines < QUEUED + 2 && lines + missing >= 4 * QUEUED, "{lines} lines, {missing} missing");
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_result() {
        let (reader, outlet) = full_pipe();
        let begun = Instant::now();
        let put = thread::spawn({
            let outlet = outlet.clone();
            move || outlet.put("page\n".to_owned(), note)
        });
        thread::sleep(Duration::from_millis(300));
        assert!(!put.is_finished(), "a result waits for its reader");
        ENDS.store(true, Ordering::Relaxed);
        let told = put.join().expect("no panic").expect_err("nobody reads");
        assert_eq!(told.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        drop(reader);
        // A reader that is gone causes a separate error.
        let told = outlet.put("page\n".to_owned(), note).map_err(|error| error.kind());
        assert!(matches!(told, Err(ErrorKind::BrokenPipe)), "{told:?}");
    }
}
