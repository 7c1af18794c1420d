//! [`Scrapes`]: answers `GET /metrics` and nothing else, for a monitoring system that asks every few seconds.
//!
//! Not a web server: one method, one path, no request body, no keep-alive. What a client may hold is bounded: connections at a time, bytes of
//! a request, time until it is complete and until the answer is taken. HTTP/1.1: RFC 9112.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at a time; more are closed at once. A monitoring system needs one.
const MOST_CONNECTIONS: usize = 8;
/// Longest request (bytes): Prometheus' is below 500.
const LONGEST_REQUEST_BYTES: usize = 8 << 10;
/// Time for a request to be complete, and for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often is checked whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What a client can take.
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
    /// Listens.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn bind(address: SocketAddr, source: Source) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, source })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel does not report.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) {
        let busy = Arc::new(AtomicUsize::new(0));
        while !stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, &busy),
                // No connection, or no room for one: ask again.
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    fn admit(&self, stream: TcpStream, busy: &Arc<AtomicUsize>) {
        let slot = Slot::of(busy);
        let source = Arc::clone(&self.source);
        if slot.is_free() {
            // Where no thread starts the connection closes, as with all that are too many.
            let _ = thread::Builder::new().name("scrape".into()).spawn(move || {
                let _slot = slot;
                serve(stream, &source);
            });
        }
    }
}

/// A connection that is counted.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn of(busy: &Arc<AtomicUsize>) -> Self {
        busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(busy))
    }

    fn is_free(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= MOST_CONNECTIONS
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers one request. What goes wrong on the connection ends it and is nobody's concern.
fn serve(mut stream: TcpStream, source: &Source) {
    let deadline = Instant::now() + PATIENCE;
    let usable = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let Some(head) = usable.ok().and_then(|()| request(&mut stream, deadline)) else { return };
    let (status, content_type, text) = answer(&head, source);
    let length = text.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n"
    );
    if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).is_ok() {
        let _ = stream.shutdown(std::net::Shutdown::Write);
        drain(&mut stream, deadline);
    }
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

/// Bytes that have come; None: an error, or the time is over.
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

/// The request as far as its empty line; None where there is none in time. One that is too long is what was read of it.
fn request(stream: &mut TcpStream, deadline: Instant) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    let is_whole = |bytes: &[u8]| bytes.windows(4).any(|four| four == b"\r\n\r\n");
    while !is_whole(&bytes) && bytes.len() <= LONGEST_REQUEST_BYTES {
        match receive(stream, &mut chunk, deadline)? {
            0 => return None,
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

type Answer = (&'static str, &'static str, String);

/// Status, content type and text.
fn answer(request: &str, source: &Source) -> Answer {
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

/// Whether the client names the format among those it takes. Its weights are not compared: who names it can read it.
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

    /// A running one, and where; it ends with the test.
    struct Running {
        stop: Arc<AtomicBool>,
        address: SocketAddr,
    }

    impl Running {
        fn new() -> Self {
            let source: Source = Arc::new(|format| Ok(format!("{format:?}\n")));
            let scrapes = Scrapes::bind(([127, 0, 0, 1], 0).into(), source).expect("a port of loopback");
            let (stop, address) = (Arc::<AtomicBool>::default(), scrapes.address().expect("its address"));
            let theirs = Arc::clone(&stop);
            thread::spawn(move || scrapes.run(&theirs));
            Self { stop, address }
        }

        fn said(&self, request: &str) -> String {
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
            let text = running.said(&request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")) && text.contains(says), "{request}: {text}");
        }
    }

    #[test]
    fn silent_clients_hold_no_others_up() {
        let running = Running::new();
        let connect = || TcpStream::connect(running.address).expect("a connection");
        let silent: Vec<TcpStream> = (0..MOST_CONNECTIONS - 1).map(|_| connect()).collect();
        assert!(running.said("GET /metrics HTTP/1.1\r\n\r\n").contains("Prometheus"));
        // One more than there is room for is closed without an answer.
        let more: Vec<TcpStream> = (0..2).map(|_| connect()).collect();
        let mut last = more.last().expect("two of them");
        last.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!(last.read(&mut [0; 1]).unwrap_or(0), 0);
        drop((silent, more));
    }
}
