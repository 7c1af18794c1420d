//! Lines while a measurement runs (`-i`), written by a thread of their own: a terminal that is slow holds nothing up.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::Context;
use netcliff_report::format;

/// Writes lines until all who tell it anything are gone.
pub struct Lines {
    thread: JoinHandle<()>,
}

impl Lines {
    /// Who is told, and the thread; `text` makes lines of what is told. They go to stdout as iperf3's do, to stderr where stdout
    /// is one JSON object.
    pub fn start<T: Send + 'static>(
        json: bool,
        mut text: impl FnMut(&T) -> String + Send + 'static,
    ) -> anyhow::Result<(mpsc::Sender<T>, Self)> {
        let (to, heard) = mpsc::channel::<T>();
        let write = move || {
            // Who does not read any more gets no more lines; the measurement goes on.
            let _ = heard.into_iter().try_for_each(|told| written(json, &format::printable(&text(&told))));
        };
        let thread = thread::Builder::new().name("lines".into()).spawn(write);
        Ok((to, Self { thread: thread.context("cannot start a thread that writes lines")? }))
    }

    /// Waits until all is written; whoever is told has to be gone.
    pub fn end(self) {
        // What a page says matters more than lines that could not be written.
        let _ = self.thread.join();
    }
}

fn written(to_stderr: bool, text: &str) -> io::Result<()> {
    if to_stderr {
        return io::stderr().lock().write_all(text.as_bytes());
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}
