//! The connections of `serve`: their largest number and which one is closed first, time limits for a request and for
//! reading its answer, and the users they belong to.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Extension;
use axum::response::Response;
use axum::{Error, Router};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use netcliff_host::system::TCP_USER_TIMEOUT;
use netcliff_packets::sockopt;
use netcliff_remote::control::peer;
use netcliff_remote::pending::{first_of_the_most, source_of};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::work::Room;
use super::{LEAVING, STOP_INTERVAL, Served};

/// Largest number of connections at once; at most half of the files that this process may open.
const MOST_CONNECTIONS: usize = 256;
/// Time for the head of a request to be complete, and for the next request on its connection to come.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time for the head of a request on a connection that is refused anyway.
const REFUSED_HEAD_TIME: Duration = Duration::from_secs(2);
/// Largest size of a request's head, and of an answer waiting to be sent (bytes).
const BUFFER_BYTES: usize = 64 << 10;
/// Largest part of an answer that is sent at once (bytes).
const CHUNK_BYTES: usize = 64 << 10;
/// Largest number of connections whose owner is looked up at once, if that takes long.
const LOOK_UPS: usize = 2;
/// Size above which an answer has a time limit (bytes).
const LONG_ANSWER_BYTES: u64 = 1 << 20;
/// Time allowed for any answer. A long answer gets additional time, at this rate of reading (bytes/s).
const ANSWER_TIME: Duration = Duration::from_secs(30);
const SLOWEST_BYTES_PER_S: f64 = 256e3;

/// System errors of a process or host that has too many open files or too little memory.
const SHORTAGES: [Errno; 4] = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];

/// State of a connection that its requests use.
pub struct Connection {
    source: IpAddr,
    /// Why the connection is refused. Not set if it is served.
    refused: OnceLock<String>,
    /// Number of answers in progress.
    busy: AtomicUsize,
    close: Notify,
}

impl Connection {
    /// Why the connection is refused. `None` if it is served.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// Priority of a connection. A refused one is closed first, then one that waits for a request.
    fn importance(&self) -> u8 {
        match (self.refused(), self.busy.load(Ordering::Relaxed)) {
            (Some(_), _) => 0,
            (None, 0) => 1,
            _ => 2,
        }
    }
}

/// All open connections, the oldest first.
struct Table {
    open: Mutex<VecDeque<Arc<Connection>>>,
    most: usize,
}

impl Table {
    fn new() -> Self {
        let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let most = usize::try_from(files / 2).unwrap_or(MOST_CONNECTIONS).clamp(1, MOST_CONNECTIONS);
        Self { open: Mutex::default(), most }
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. If there are too many, closes one of the source that has most of them.
    fn add(&self, source: IpAddr) -> Arc<Connection> {
        let connection =
            Arc::new(Connection { source, refused: OnceLock::new(), busy: AtomicUsize::new(0), close: Notify::new() });
        let mut open = self.open();
        open.push_back(Arc::clone(&connection));
        if open.len() > self.most {
            give_way(&mut open);
        }
        connection
    }

    fn remove(&self, connection: &Arc<Connection>) {
        self.open().retain(|other| !Arc::ptr_eq(other, connection));
    }
}

/// Closes a connection of the source that has most of them: the least important one, and among equals the oldest.
fn give_way(open: &mut VecDeque<Arc<Connection>>) {
    let Some(first) = first_of_the_most(open.iter().map(|connection| connection.source)) else { return };
    let source = open[first].source;
    let of_source = open.iter().enumerate().filter(|(_, connection)| connection.source == source);
    let least = of_source.min_by_key(|(place, connection)| (connection.importance(), *place));
    if let Some(connection) = least.map(|(place, _)| place).and_then(|place| open.remove(place)) {
        connection.close.notify_one();
    }
}

/// Serves until `stop` is set. The kernel drops a connection whose reader takes nothing for `slowest_ms`.
pub async fn serve(
    listener: TcpListener,
    served: Arc<Served>,
    app: Router,
    slowest_ms: u32,
    stop: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let (table, look_ups) = (Arc::new(Table::new()), Arc::new(Semaphore::new(LOOK_UPS)));
    let graceful = GracefulShutdown::new();
    let mut poll = tokio::time::interval(STOP_INTERVAL);
    while !stop.load(Ordering::Relaxed) {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = poll.tick() => continue,
        };
        match accepted {
            Ok((stream, from)) => {
                impatient(&stream, slowest_ms);
                let connection = table.add(source_of(from.ip()));
                let (table, served, app) = (Arc::clone(&table), Arc::clone(&served), app.clone());
                let (look_ups, watcher) = (Arc::clone(&look_ups), graceful.watcher());
                tokio::spawn(async move {
                    let slot = Slot { table, connection };
                    let connection = &slot.connection;
                    tokio::select! {
                        () = attend(stream, connection, &served, &look_ups, app, watcher) => {}
                        () = connection.close.notified() => {}
                    }
                });
            }
            Err(error) => {
                // Files or memory are short.
                if SHORTAGES.iter().any(|shortage| error.raw_os_error() == Some(*shortage as i32)) {
                    give_way(&mut table.open());
                }
                tokio::time::sleep(STOP_INTERVAL).await;
            }
        }
    }
    served.live.end();
    // A connection whose reader does not read must not keep the program from ending.
    let _ = tokio::time::timeout(LEAVING, graceful.shutdown()).await;
    Ok(())
}

/// Lets the kernel drop the connection if its reader takes nothing for `longest_ms`.
fn impatient(stream: &TcpStream, longest_ms: u32) {
    let _ = sockopt::set(stream.as_fd(), TCP_USER_TIMEOUT, &longest_ms, "TCP_USER_TIMEOUT", longest_ms);
}

/// A connection's place in the table, freed on drop.
struct Slot {
    table: Arc<Table>,
    connection: Arc<Connection>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.table.remove(&self.connection);
    }
}

/// Serves a connection's requests.
async fn attend(
    stream: TcpStream,
    connection: &Arc<Connection>,
    served: &Served,
    look_ups: &Semaphore,
    app: Router,
    watcher: Watcher,
) {
    if served.key.is_none()
        && let Some(why) = refusal(user_of(&stream, look_ups).await)
    {
        let _ = connection.refused.set(why);
    }
    let is_refused = connection.refused().is_some();
    let app = app.layer(Extension(Arc::clone(connection)));
    let requests = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(if is_refused { REFUSED_HEAD_TIME } else { HEAD_TIME })
        .keep_alive(!is_refused)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    // An error of a connection ends only this connection.
    let _ = watcher.watch(requests).await;
}

/// The user of the other end. `None` if the kernel does not report.
async fn user_of(stream: &TcpStream, look_ups: &Semaphore) -> Option<u32> {
    let (local, from) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    match peer::quick_user_of(local, from) {
        Ok(user) => user,
        Err(_) => {
            let _turn = look_ups.acquire().await;
            tokio::task::spawn_blocking(move || peer::user_of(local, from)).await.ok()?
        }
    }
}

/// Why a connection without a key is refused: any user can connect to loopback. `None` if it belongs to this process's
/// user or to root.
fn refusal(user: Option<u32>) -> Option<String> {
    if peer::is_served(user) {
        return None;
    }
    let own = nix::unistd::geteuid();
    let of = user.map_or_else(
        || "the kernel does not report whose connection this is".to_owned(),
        |user| format!("this connection is of user {user}"),
    );
    Some(format!(
        "{of}: without a key this page is served to user {own} and root alone. As another user start `netcliff serve` yourself, or have it \
         started with --key FILE and open the address that it prints\n"
    ))
}

/// The answer. It counts its connection as busy and reserves memory until the client has taken all of it. If a long
/// answer is not taken in time, the connection closes.
pub fn held(answer: Response, connection: &Arc<Connection>, busy: Busy) -> Response {
    let (mut head, body) = answer.into_parts();
    let length = HttpBody::size_hint(&body).exact();
    let limit = length.filter(|bytes| *bytes > LONG_ANSWER_BYTES).map(|bytes| {
        let (connection, bytes) = (Arc::clone(connection), bytes as f64);
        tokio::spawn(async move {
            tokio::time::sleep(ANSWER_TIME + Duration::from_secs_f64(bytes / SLOWEST_BYTES_PER_S)).await;
            connection.close.notify_one();
        })
    });
    let room = head.extensions.remove::<Room>();
    Response::from_parts(head, Body::new(Held { body, rest: Bytes::new(), limit, _room: room, _busy: busy }))
}

/// Counts an answer in progress on a connection, until it is dropped.
pub struct Busy(Arc<Connection>);

impl Busy {
    /// Counts one more answer in progress on `connection`.
    pub fn of(connection: &Arc<Connection>) -> Self {
        connection.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connection))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body that is sent in parts, so that it is dropped after the client has taken it and not when sending begins.
struct Held {
    body: Body,
    rest: Bytes,
    limit: Option<JoinHandle<()>>,
    _room: Option<Room>,
    _busy: Busy,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let own = self.get_mut();
        if own.rest.is_empty() {
            match ready!(Pin::new(&mut own.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => own.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return Poll::Ready(other),
            }
        }
        let length = own.rest.len().min(CHUNK_BYTES);
        Poll::Ready(Some(Ok(Frame::data(own.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.size_hint().exact() {
            Some(bytes) => SizeHint::with_exact(bytes + self.rest.len() as u64),
            None => SizeHint::default(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(limit) = &self.limit {
            limit.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_user_is_served() {
        let own = nix::unistd::geteuid().as_raw();
        assert!(refusal(Some(own)).is_none() && refusal(Some(0)).is_none());
        assert!(refusal(None).is_some_and(|why| why.contains("does not report") && why.contains("--key FILE")));
        assert!(refusal(Some(own + 1)).is_some_and(|why| why.contains(&format!("user {}", own + 1))));
    }

    #[test]
    fn the_source_with_most_loses_what_matters_least() {
        let table = Table { open: Mutex::default(), most: 4 };
        let add = |last: u8| table.add(IpAddr::from([192, 0, 2, last]));
        let (one, busy) = (add(1), add(2));
        let _answer = Busy::of(&busy);
        let (first, second) = (add(2), add(2));
        let has = |connection: &Arc<Connection>| table.open().iter().any(|other| Arc::ptr_eq(other, connection));
        let third = add(2);
        assert!(!has(&first) && has(&one) && has(&busy) && has(&second), "the oldest that waits");
        let _ = third.refused.set("another user".to_owned());
        let fourth = add(3);
        assert!(!has(&third) && has(&second) && has(&fourth), "a refused one first");
        for _ in 0..20 {
            add(2);
        }
        assert!(has(&one) && has(&fourth) && has(&busy), "others keep theirs");
        table.remove(&one);
        assert!(!has(&one));
    }
}
