//! Lines while a measurement runs (`-i`), written by a thread of their own, so that a slow terminal does not delay the measurement.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::Context;
use netcliff_report::format;

/// Writes lines until all senders are dropped.
pub struct Lines {
    thread: JoinHandle<()>,
}

impl Lines {
    /// The sender for reports, and the thread, which makes lines of them by `text`. They go to stdout as iperf3's do, to stderr if
    /// stdout is one JSON object.
    pub fn start<T: Send + 'static>(
        json: bool,
        mut text: impl FnMut(&T) -> String + Send + 'static,
    ) -> anyhow::Result<(mpsc::Sender<T>, Self)> {
        let (to, heard) = mpsc::channel::<T>();
        let write = move || {
            // If the reader is gone there are no more lines; the measurement goes on.
            let _ = heard.into_iter().try_for_each(|told| written(json, &format::printable(&text(&told))));
        };
        let thread = thread::Builder::new().name("lines".into()).spawn(write);
        Ok((to, Self { thread: thread.context("cannot start a thread that writes lines")? }))
    }

    /// Waits until everything is written; all senders must be dropped before.
    pub fn end(self) {
        // The page matters more than lines that could not be written.
        let _ = self.thread.join();
    }
}

fn written(to_stderr: bool, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    if to_stderr {
        return io::stderr().lock().write_all(text.as_bytes());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
