//! Lines while a measurement runs (`-i`), made by a thread of their own, so that neither words nor a reader delay the measurement.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use anyhow::Context;
use netcliff_report::format;

use crate::output;

/// Makes lines until all senders are dropped.
pub struct Lines {
    thread: JoinHandle<()>,
}

impl Lines {
    /// The sender for reports, and the thread, which makes lines of them by `text`. They go to stdout as iperf3's do, to stderr if
    /// stdout is one JSON object; what their reader does not take is dropped and counted.
    pub fn start<T: Send + 'static>(
        json: bool,
        mut text: impl FnMut(&T) -> String + Send + 'static,
    ) -> anyhow::Result<(mpsc::Sender<T>, Self)> {
        let (to, heard) = mpsc::channel::<T>();
        let write = move || {
            for told in heard {
                let text = format::printable(&text(&told));
                if !text.is_empty() {
                    output::line(json, text, output::missing);
                }
            }
        };
        let thread = thread::Builder::new().name("lines".into()).spawn(write);
        Ok((to, Self { thread: thread.context("cannot start a thread that makes lines")? }))
    }

    /// Waits until all lines are made; all senders must be dropped before.
    pub fn end(self) {
        // The page matters more than lines that could not be made.
        let _ = self.thread.join();
    }
}
