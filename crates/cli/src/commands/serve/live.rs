//! Sends the values of `watch` to all readers, by server-sent events. One thread reads the kernel's counters for all
//! readers, and only while there is a reader and no measurement on this host.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use netcliff_host::inspect::Inspection;
use netcliff_host::watch::Look;
use netcliff_lab::store::Store;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use super::Served;
use crate::commands::watch::moment_line;

/// Interval between two readings of the counters.
const INTERVAL: Duration = Duration::from_secs(1);
/// Largest number of samples that are queued for a slow reader. A reader that falls further behind is dropped. They are
/// stored once for all readers.
const BEHIND: usize = 8;
/// Largest number of readers at once.
const MOST_READERS: usize = 128;

/// The readers of live values, and whether the server ends.
#[derive(Default)]
pub struct Live {
    sender: Mutex<Option<Sender<Bytes>>>,
    ended: AtomicBool,
}

impl Live {
    /// Ends every stream.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// True after [`Live::end`].
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Answers with the stream of live values.
pub async fn stream(State(served): State<Arc<Served>>) -> Response {
    let receiver = {
        let mut sender = served.live.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if served.live.has_ended() {
            return (StatusCode::SERVICE_UNAVAILABLE, "the server ends\n").into_response();
        }
        match sender.as_ref() {
            Some(running) if running.receiver_count() >= MOST_READERS => {
                let why = format!("{MOST_READERS} readers listen already: close a page first\n");
                return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
            }
            Some(running) => running.subscribe(),
            None => {
                let (made, receiver) = broadcast::channel(BEHIND);
                *sender = Some(made.clone());
                let served = Arc::clone(&served);
                std::thread::spawn(move || read(&served, &made));
                receiver
            }
        }
    };
    let body = Body::from_stream(moments(receiver).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// The stream of a reader. It ends if the reader fell behind; the browser then reconnects.
fn moments(receiver: Receiver<Bytes>) -> impl tokio_stream::Stream<Item = Bytes> {
    BroadcastStream::new(receiver).take_while(Result::is_ok).filter_map(Result::ok)
}

/// Reads the counters until nobody listens.
fn read(served: &Served, sender: &Sender<Bytes>) {
    let mut before: Option<Look> = None;
    let host = Inspection::of_this_host(Duration::ZERO).map_err(|error| error.to_string());
    loop {
        {
            let mut current = served.live.sender.lock().unwrap_or_else(PoisonError::into_inner);
            if served.live.has_ended() {
                return;
            }
            if sender.receiver_count() == 0 {
                *current = None;
                return;
            }
        }
        let said = match (&host, measuring(served)) {
            (Err(error), _) => refused(error),
            (_, Some(why)) => {
                before = None;
                refused(&why)
            }
            (Ok(host), None) => {
                let ports = host.main_ports();
                match before.as_ref().map_or_else(|| Look::now(&ports), |before| before.next(&ports)) {
                    Err(error) => refused(&error.to_string()),
                    Ok(now) => {
                        let line = before.as_ref().map(|before| moment_line(&before.until(&now, &ports)));
                        before = Some(now);
                        line.map_or_else(String::new, |line| line.unwrap_or_else(|error| refused(&error.to_string())))
                    }
                }
            }
        };
        if !said.is_empty() {
            let _ = sender.send(Bytes::from(format!("data: {}\n\n", said.trim_end())));
        }
        std::thread::sleep(INTERVAL);
    }
}

fn refused(why: &str) -> String {
    serde_json::json!({ "refused": why }).to_string()
}

/// The measurement in progress on this host, if its run is in the store.
pub fn measuring(served: &Served) -> Option<String> {
    if !served.store.exists() {
        return None;
    }
    let store = Store::open_to_read(&served.store).ok()?;
    let runs = store.runs().ok()?;
    let run =
        runs.into_iter().filter(|run| run.state == "running").find(|run| store.is_under_way(run).unwrap_or(false))?;
    Some(format!(
        "{} ({}) measures on this host: nothing is read until it ends; leave the page's simulator at rest, or its figures suffer",
        run.title(),
        run.kind
    ))
}

#[cfg(test)]
mod tests;
