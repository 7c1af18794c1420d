//! [`Scrapes`]: answers `GET /metrics` and nothing else, for a monitoring system that asks every few seconds.
//!
//! This is not a web server: one method, one path, no request body, no keep-alive. The resources of clients are
//! bounded: connections, bytes of a request, time until the request is complete and until the answer is received. If
//! there are too many connections, the source that has the most connections loses one. HTTP/1.1: RFC 9112.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::pending::{first_of_the_most, source_of};

/// Largest number of connections whose request is not complete or waits for its turn.
const MOST_WAITING: usize = 64;
/// Largest number of simultaneous answers. A monitoring system needs one.
const MOST_ANSWERS: usize = 8;
/// Longest request (bytes): requests of Prometheus are below 500.
const LONGEST_REQUEST_BYTES: usize = 8 << 10;
/// Time limit for a request to be complete, to wait for its turn, and for its answer to be received.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time limit for an answer to be received while other requests wait for their turn.
const SHORT_PATIENCE: Duration = Duration::from_millis(300);
/// Interval between checks of the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between checks while a request waits for its turn.
const TURN_INTERVAL: Duration = Duration::from_millis(5);

/// A format that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// Prometheus' text format, 0.0.4.
    Prometheus,
}

impl Format {
    fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Makes the text of an answer; called from several threads. An error is sent to the client with status 503.
pub type Source = Arc<dyn Fn(Format) -> Result<String, String> + Send + Sync>;

/// A port that answers scrapes.
pub struct Scrapes {
    listener: TcpListener,
    source: Source,
}

impl Scrapes {
    /// Binds the port and listens.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn bind(address: SocketAddr, source: Source) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, source })
    }

    /// The address that the port listens on.
    ///
    /// # Errors
    /// The kernel does not report the address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) {
        let mut waiting = VecDeque::new();
        let answers = Arc::<Answers>::default();
        while !stop.load(Ordering::Relaxed) {
            self.wait(&waiting);
            self.accept(&mut waiting);
            let now = Instant::now();
            for mut client in std::mem::take(&mut waiting) {
                let is_open = client.head.is_some() || client.read();
                if client.head.is_some() && answers.have_room(now) {
                    self.answer(client, &answers);
                } else if is_open && now < client.deadline {
                    waiting.push_back(client);
                }
            }
        }
    }

    /// Waits until a connection arrives or sends something.
    fn wait(&self, waiting: &VecDeque<Waiting>) {
        let silent = waiting.iter().filter(|client| client.head.is_none()).map(|client| client.stream.as_fd());
        let interval = if waiting.iter().any(|client| client.head.is_some()) { TURN_INTERVAL } else { POLL_INTERVAL };
        let all = std::iter::once(self.listener.as_fd()).chain(silent);
        let mut all: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A signal may end the wait early.
        let _ = poll(&mut all, PollTimeout::try_from(interval).unwrap_or(PollTimeout::ZERO));
    }

    fn accept(&self, waiting: &mut VecDeque<Waiting>) {
        // Accept a bounded number, so that the waiting connections are read even if new ones arrive fast.
        for _ in 0..MOST_WAITING {
            match self.listener.accept() {
                Ok((stream, from)) => waiting.extend(Waiting::new(stream, source_of(from.ip()))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Descriptors or memory are short.
                    give_way(waiting);
                    thread::sleep(TURN_INTERVAL);
                    return;
                }
            }
            if waiting.len() > MOST_WAITING {
                give_way(waiting);
            }
        }
    }

    fn answer(&self, client: Waiting, answers: &Arc<Answers>) {
        let Some(slot) = answers.slot(&client) else { return };
        let source = Arc::clone(&self.source);
        // If no thread can be started, the connection closes, like any surplus connection.
        let _ = thread::Builder::new().name("scrape".into()).spawn(move || {
            let _slot = slot;
            serve(client, &source);
        });
    }
}

/// A connection whose request is not complete, or waits for its turn.
struct Waiting {
    stream: TcpStream,
    source: IpAddr,
    bytes: Vec<u8>,
    /// The request up to its empty line, once it is complete. A request that is too long is stored as far as it was
    /// read.
    head: Option<String>,
    deadline: Instant,
}

impl Waiting {
    fn new(stream: TcpStream, source: IpAddr) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, source, bytes: Vec::new(), head: None, deadline: Instant::now() + PATIENCE })
    }

    /// Reads what has arrived, without waiting. Returns false if the client has disconnected.
    fn read(&mut self) -> bool {
        let mut chunk = [0; 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
            if self.bytes.len() > LONGEST_REQUEST_BYTES || self.bytes.windows(4).any(|four| four == b"\r\n\r\n") {
                self.head = Some(String::from_utf8_lossy(&self.bytes).into_owned());
                self.deadline = Instant::now() + PATIENCE;
                return true;
            }
        }
    }
}

/// Closes a connection of the source that has the most connections: the oldest one with an incomplete request,
/// otherwise the newest.
fn give_way(waiting: &mut VecDeque<Waiting>) {
    let Some(first) = first_of_the_most(waiting.iter().map(|client| client.source)) else { return };
    let source = waiting[first].source;
    let silent = waiting.iter().position(|client| client.source == source && client.head.is_none());
    let place = silent.or_else(|| waiting.iter().rposition(|client| client.source == source));
    place.and_then(|place| waiting.remove(place));
}

/// The answers being sent, oldest first.
#[derive(Default)]
struct Answers(Mutex<VecDeque<Answer>>);

struct Answer {
    number: u64,
    source: IpAddr,
    begun: Instant,
    /// Used to close the connection from another thread. `None` once that is done.
    stream: Option<TcpStream>,
}

/// An answer's slot, freed on drop.
struct Slot {
    answers: Arc<Answers>,
    number: u64,
}

impl Answers {
    fn entries(&self) -> MutexGuard<'_, VecDeque<Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another answer can start. If not, closes a slow answer of the source that has the most answers, so that
    /// another can start soon.
    fn have_room(&self, now: Instant) -> bool {
        let mut entries = self.entries();
        if entries.len() < MOST_ANSWERS {
            return true;
        }
        if entries.iter().all(|answer| answer.stream.is_some()) {
            let is_long = |answer: &Answer| now.duration_since(answer.begun) > SHORT_PATIENCE;
            let long: Vec<usize> = (0..entries.len()).filter(|place| is_long(&entries[*place])).collect();
            let place = first_of_the_most(long.iter().map(|place| entries[*place].source));
            if let Some(stream) = place.and_then(|place| entries[long[place]].stream.take()) {
                // The connection may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        false
    }

    fn slot(self: &Arc<Self>, client: &Waiting) -> Option<Slot> {
        let stream = Some(client.stream.try_clone().ok()?);
        let mut entries = self.entries();
        let number = entries.back().map_or(0, |last| last.number + 1);
        entries.push_back(Answer { number, source: client.source, begun: Instant::now(), stream });
        Some(Slot { answers: Arc::clone(self), number })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.answers.entries().retain(|answer| answer.number != self.number);
    }
}

/// Answers one request. An error on the connection ends it and is not reported.
fn serve(client: Waiting, source: &Source) {
    let Waiting { mut stream, head: Some(head), .. } = client else { return };
    let (status, content_type, text) = answer(&head, source);
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n"
    );
    let deadline = Instant::now() + PATIENCE;
    let sent = stream
        .set_nonblocking(false)
        .and_then(|()| send(&mut stream, head.as_bytes(), deadline))
        .and_then(|()| send(&mut stream, text.as_bytes(), deadline));
    if sent.is_ok() {
        let _ = stream.shutdown(Shutdown::Write);
        drain(&mut stream, deadline);
    }
}

/// Sends all bytes before the deadline.
fn send(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        stream.set_write_timeout(Some(left.ok_or(ErrorKind::TimedOut)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads what the client still sends, so that the kernel does not reset the connection before the answer has arrived.
fn drain(stream: &mut TcpStream, deadline: Instant) {
    let mut rest = [0; 1024];
    let mut left = LONGEST_REQUEST_BYTES;
    while left > 0 {
        match receive(stream, &mut rest, deadline) {
            Some(count @ 1..) => left = left.saturating_sub(count),
            _ => return,
        }
    }
}

/// Reads bytes. Returns their number. `None` on an error or when the time is over.
fn receive(stream: &mut TcpStream, into: &mut [u8], deadline: Instant) -> Option<usize> {
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
    stream.set_read_timeout(Some(left)).ok()?;
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other.ok(),
        }
    }
}

type Content = (&'static str, &'static str, String);

/// The answer to a request: status, content type and text.
fn answer(request: &str, source: &Source) -> Content {
    let plain = |status, text: &str| (status, "text/plain; charset=utf-8", format!("{text}\n"));
    if request.len() > LONGEST_REQUEST_BYTES {
        return plain("431 Request Header Fields Too Large", "the request is longer than 8 KiB");
    }
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (method, target, version) = (words.next(), words.next().unwrap_or_default(), words.next());
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) {
        return plain("400 Bad Request", "expected GET /metrics HTTP/1.1");
    }
    if method != Some("GET") {
        return plain("405 Method Not Allowed", "expected GET");
    }
    if target.split('?').next() != Some("/metrics") {
        return plain("404 Not Found", "expected /metrics");
    }
    let format = if wants_open_metrics(request) { Format::OpenMetrics } else { Format::Prometheus };
    match source(format) {
        Ok(text) => ("200 OK", format.content_type(), text),
        Err(why) => plain("503 Service Unavailable", &why),
    }
}

/// Whether the client names OpenMetrics among the formats it accepts. Its weights are not compared: a client that names
/// the format can read it.
fn wants_open_metrics(request: &str) -> bool {
    let headers = request.lines().skip(1).filter_map(|line| line.split_once(':'));
    headers.filter(|(name, _)| name.eq_ignore_ascii_case("accept")).any(|(_, value)| {
        value
            .split(',')
            .any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "application/openmetrics-text"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A running port with its address. It ends with the test.
    struct Running {
        stop: Arc<AtomicBool>,
        address: SocketAddr,
    }

    impl Running {
        fn new() -> Self {
            Self::of(Arc::new(|format| Ok(format!("{format:?}\n"))))
        }

        fn of(source: Source) -> Self {
            let scrapes = Scrapes::bind(([127, 0, 0, 1], 0).into(), source).expect("a port of loopback");
            let (stop, address) = (Arc::<AtomicBool>::default(), scrapes.address().expect("its address"));
            let theirs = Arc::clone(&stop);
            thread::spawn(move || scrapes.run(&theirs));
            Self { stop, address }
        }

        fn response_to(&self, request: &str) -> String {
            let mut stream = TcpStream::connect(self.address).expect("a connection");
            stream.write_all(request.as_bytes()).expect("the request is taken");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("an answer");
            text
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn it_answers_one_question() {
        let running = Running::new();
        let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
        for (request, status, says) in [
            ("GET /metrics HTTP/1.1\r\n\r\n".to_owned(), "200 OK", "\r\n\r\nPrometheus\n"),
            (format!("GET /metrics?x=1 HTTP/1.1\r\n{accept}\r\n"), "200 OK", "\r\n\r\nOpenMetrics\n"),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404 Not Found", "/metrics"),
            ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_owned(), "405 Method", "GET"),
            ("nonsense\r\n\r\n".to_owned(), "400 Bad", "GET /metrics"),
            (format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(9000)), "431 Request", "8 KiB"),
        ] {
            let text = running.response_to(&request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")) && text.contains(says), "{request}: {text}");
        }
    }

    /// An answer longer than the socket buffers of a connection.
    const LONG: usize = 16 << 20;

    /// Connects from the given loopback address.
    fn connect(from: &str, address: SocketAddr) -> TcpStream {
        use std::os::fd::AsRawFd;

        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};

        let own = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).expect("a socket");
        let at = |host: IpAddr, port| match host {
            IpAddr::V4(host) => SockaddrIn::from(std::net::SocketAddrV4::new(host, port)),
            IpAddr::V6(_) => unreachable!("these are of IPv4"),
        };
        bind(own.as_raw_fd(), &at(from.parse().expect("an address"), 0)).expect("all of 127.0.0.0/8 is this host's");
        connect(own.as_raw_fd(), &at(address.ip(), address.port())).expect("it listens");
        own.into()
    }

    const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\n\r\n";

    #[test]
    fn silent_clients_delay_no_others() {
        let running = Running::new();
        let silent: Vec<TcpStream> = (0..5 * MOST_WAITING).map(|_| connect("127.0.0.2", running.address)).collect();
        for _ in 0..3 {
            let begun = Instant::now();
            assert!(running.response_to("GET /metrics HTTP/1.1\r\n\r\n").contains("Prometheus"));
            assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        }
        // The oldest connections were closed without an answer.
        let mut first = silent.first().expect("many");
        first.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!(first.read(&mut [0; 1]).unwrap_or(0), 0);
        drop(silent);
    }

    /// Clients that request and never read lose their slots to a client that reads, from any source.
    #[test]
    fn clients_that_take_nothing_delay_no_others() {
        let source: Source = Arc::new(|_| Ok("x".repeat(LONG)));
        let running = Running::of(source);
        let slow: Vec<TcpStream> = (0..3 * MOST_ANSWERS)
            .map(|_| {
                let mut stream = connect("127.0.0.2", running.address);
                stream.write_all(REQUEST).expect("the request is taken");
                stream
            })
            .collect();
        thread::sleep(POLL_INTERVAL);
        let begun = Instant::now();
        assert!(running.response_to("GET /metrics HTTP/1.1\r\n\r\n").len() > LONG);
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        drop(slow);
    }

    /// A client that reads a little now and then is cut off: the time limit applies to the whole answer.
    #[test]
    fn an_answer_has_a_time_limit() {
        let running = Running::of(Arc::new(|_| Ok("x".repeat(4 * LONG))));
        let mut stream = connect("127.0.0.2", running.address);
        stream.write_all(REQUEST).expect("the request is taken");
        let begun = Instant::now();
        let mut little = vec![0; 64 << 10];
        while stream.read(&mut little).is_ok_and(|count| count > 0) && begun.elapsed() < 3 * PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
    }
}
