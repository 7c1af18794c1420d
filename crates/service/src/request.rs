//! [`Workload`]: the requests that a user specifies with `--request`, ready to be sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use netcliff_core::Choice as _;
use netcliff_core::capture::reading::{self, CapturedDatagram, CapturedDatagrams};
use netcliff_core::capture::{CapturedStream, CapturedStreams};
use netcliff_host::files;
use netcliff_packets::schedule::Arrivals;

use crate::protocol::{Match, Message, Protocol, Sent, Transport, datagram_request, dns_question, http_request};
use crate::protocol::{memcached_command, redis_command};

/// Largest file of requests (bytes).
const LARGEST_FILE_BYTES: u64 = 64 << 20;
/// Number of keys with which a cache is filled if the user gives no commands.
const KEYS: u32 = 1000;
/// Length of the value of each of these keys (bytes).
const VALUE_BYTES: usize = 100;

/// The option `--request`: a protocol, and the source of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSpec {
    /// The protocol. Of a capture: user-defined datagrams, until [`Workload::read`] has read it.
    pub protocol: Protocol,
    /// True: with TLS, as for `https:`.
    pub tls: bool,
    source: Source,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A file with one request per line.
    File(PathBuf),
    /// One request.
    Line(String),
    /// The protocol's default: reading keys of a cache.
    Keys,
    /// Datagrams or TCP connections of a capture.
    Capture(PathBuf),
}

/// Why there are no requests.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The file cannot be read.
    #[error(
        "--request {spec}: cannot read {path}: {source}; expected a file with a request a line (of a capture: pcap:FILE)"
    )]
    File {
        /// The option as the user wrote it.
        spec: String,
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line is not a request.
    #[error("--request {spec}: {place}: {why}")]
    Line {
        /// The option as the user wrote it.
        spec: String,
        /// File and line.
        place: String,
        /// The error in the line, and the accepted form.
        why: String,
    },
    /// The file has no request.
    #[error("--request {spec}: the file has no requests; expected one a line (lines with # or ; are comments)")]
    Empty {
        /// The option as the user wrote it.
        spec: String,
    },
    /// The file is not a capture, or has no requests to the service's port.
    #[error("--request {spec}: {why}")]
    Capture {
        /// What the user wrote.
        spec: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The protocol cannot use this transport.
    #[error("--transport {transport}: {protocol} does not travel by it; leave --transport out")]
    Transport {
        /// The protocol.
        protocol: &'static str,
        /// The transport.
        transport: &'static str,
    },
    /// `--match` was given for a protocol that has its own numbers.
    #[error("--match: only requests of udp: need it; leave it out")]
    Match,
}

const FORM: &str = "expected dns:NAMES.txt, http:/PATH or http:PATHS.txt (https: by TLS), memcached: or memcached:COMMANDS.txt, redis: or \
                    redis:COMMANDS.txt, udp:HEX or udp:FILE (a request a line), pcap:FILE (requests of a capture)";

impl std::str::FromStr for RequestSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').ok_or(FORM)?;
        let file = || Source::File(PathBuf::from(rest.strip_prefix('@').unwrap_or(rest)));
        let (protocol, source) = match (name, rest) {
            ("memcached", "") => (Protocol::Memcached, Source::Keys),
            ("redis", "") => (Protocol::Redis, Source::Keys),
            (_, "") => return Err(FORM.to_owned()),
            ("dns", _) => (Protocol::Dns, file()),
            ("http" | "https", path) if path.starts_with('/') => (Protocol::Http, Source::Line(path.to_owned())),
            ("http" | "https", _) => (Protocol::Http, file()),
            ("memcached", _) => (Protocol::Memcached, file()),
            ("redis", _) => (Protocol::Redis, file()),
            ("udp", hex) if hex.chars().all(|c| c.is_ascii_hexdigit()) => {
                (Protocol::Datagram(None), Source::Line(hex.to_owned()))
            }
            ("udp", _) => (Protocol::Datagram(None), file()),
            // The port of the service and the capture decide the protocol, in `Workload::read`.
            ("pcap", _) => (Protocol::Datagram(None), Source::Capture(PathBuf::from(rest))),
            _ => return Err(FORM.to_owned()),
        };
        Ok(Self { protocol, tls: name == "https", source, text: text.to_owned() })
    }
}

impl RequestSpec {
    /// True if a capture has the requests. It decides their protocol and transport.
    pub fn is_capture(&self) -> bool {
        matches!(self.source, Source::Capture(_))
    }
}

impl std::fmt::Display for RequestSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Requests of one protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The protocol.
    pub protocol: Protocol,
    /// Transport of the requests.
    pub transport: Transport,
    /// Requests sent once before the measurement, to fill a cache.
    pub setup: Vec<Message>,
    /// The requests, sent repeatedly in this order.
    pub messages: Vec<Message>,
    /// Gap before each request of a capture, in units of the mean gap. `None`: the requests are not from a capture.
    pub gaps: Option<Arc<[f64]>>,
    /// Parts of a capture that are not sent, one sentence each.
    pub notes: Vec<String>,
}

/// Distribution of the times between requests.
#[derive(Debug, Clone, PartialEq)]
pub enum Gaps {
    /// Random or constant gaps, as the packet generator draws them.
    Drawn(Arrivals),
    /// The gaps of a capture, in units of their mean.
    Captured(Arc<[f64]>),
}

impl Gaps {
    /// Name: `poisson`, `constant` or `capture`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Drawn(arrivals) => arrivals.name(),
            Self::Captured(_) => "capture",
        }
    }
}

impl Workload {
    /// Returns the gaps between requests. `wanted`: the distribution that the user chose; `None`: the gaps of the
    /// capture, or Poisson if the requests are not from a capture.
    pub fn gaps(&self, wanted: Option<Arrivals>) -> Gaps {
        match (&self.gaps, wanted) {
            (Some(gaps), None) => Gaps::Captured(Arc::clone(gaps)),
            (_, wanted) => Gaps::Drawn(wanted.unwrap_or(Arrivals::Poisson)),
        }
    }

    /// Reads the requests for a service on `port`. `transport`: `None` for the protocol's default, or for what a capture
    /// has; `by`: position of the number in user-defined datagrams; `host`: value of HTTP's Host field.
    ///
    /// # Errors
    /// The file cannot be read or has no requests, a line is not a request, or the protocol cannot use `transport`.
    pub fn read(
        spec: &RequestSpec,
        transport: Option<Transport>,
        by: Option<Match>,
        port: u16,
        host: &str,
    ) -> Result<Self, RequestError> {
        if let Source::Capture(path) = &spec.source {
            return Self::of_capture(path, spec, (transport, by), port, host);
        }
        let protocol = match (spec.protocol, by) {
            (Protocol::Datagram(_), by) => Protocol::Datagram(by),
            (_, Some(_)) => return Err(RequestError::Match),
            (protocol, None) => protocol,
        };
        let transport = transport.unwrap_or(protocol.transport());
        if !protocol.travels_by(transport) {
            let transport = if transport == Transport::Udp { "udp" } else { "tcp" };
            return Err(RequestError::Transport { protocol: protocol.name(), transport });
        }
        let message = |line: &str| match protocol {
            Protocol::Dns => dns_question(line, transport),
            Protocol::Http => http_request(line, host),
            Protocol::Memcached => memcached_command(line, transport),
            Protocol::Redis => redis_command(line),
            Protocol::Datagram(by) => datagram_request(line, by),
        };
        let of_line = |place: String, line: &str| {
            message(line).map_err(|why| RequestError::Line { spec: spec.text.clone(), place, why })
        };
        let (mut setup, mut messages) = (Vec::new(), Vec::new());
        match &spec.source {
            Source::Line(line) => messages.push(of_line(format!("`{line}`"), line)?),
            Source::Keys => {
                let value = "v".repeat(VALUE_BYTES);
                for key in 0..KEYS {
                    setup.push(of_line(String::new(), &format!("set netcliff:{key} {value}"))?);
                    messages.push(of_line(String::new(), &format!("get netcliff:{key}"))?);
                }
            }
            // Read above.
            Source::Capture(_) => {}
            Source::File(path) => {
                for (number, line) in lines(spec, path)? {
                    messages.push(of_line(format!("{} line {number}", path.display()), &line)?);
                }
            }
        }
        if messages.is_empty() {
            return Err(RequestError::Empty { spec: spec.text.clone() });
        }
        Ok(Self { protocol, transport, setup, messages, gaps: None, notes: Vec::new() })
    }

    /// Reads the requests of a capture: datagrams, if `transport` or `by` requires them; otherwise datagrams or requests
    /// of TCP connections, whichever the capture has. If it has both, the protocol of the port decides.
    fn of_capture(
        path: &Path,
        spec: &RequestSpec,
        (transport, by): (Option<Transport>, Option<Match>),
        port: u16,
        host: &str,
    ) -> Result<Self, RequestError> {
        let wrong = |why: String| RequestError::Capture { spec: spec.text.clone(), why };
        let open = || files::open(path).map_err(|cause| wrong(format!("cannot read it: {cause}")));
        let streams = || reading::streams(open()?, port, LARGEST_FILE_BYTES as usize).map_err(wrong);
        let datagrams = || reading::datagrams(open()?, port, LARGEST_FILE_BYTES as usize).map_err(wrong);
        let of_datagrams = |all: CapturedDatagrams| Captured::of_datagrams(all, port, by).map_err(wrong);
        let of_streams = |all: CapturedStreams| Captured::of_streams(all, port, host).map_err(wrong);
        let captured = match (transport, by) {
            (Some(Transport::Tcp), Some(_)) => return Err(RequestError::Match),
            (Some(Transport::Tcp), None) => of_streams(streams()?),
            (Some(Transport::Udp), _) | (None, Some(_)) => of_datagrams(datagrams()?),
            (None, None) => {
                let tcp_only = Protocol::of_streams_to(port).is_some_and(|known| !known.travels_by(Transport::Udp));
                let has_any = |all: &CapturedDatagrams| !all.datagrams.is_empty() || all.left_out > 0;
                let first = if tcp_only { None } else { Some(datagrams()?).filter(has_any) };
                let by_tcp = if first.is_none() { streams()? } else { CapturedStreams::default() };
                match first {
                    Some(by_udp) => of_datagrams(by_udp),
                    None if !by_tcp.streams.is_empty() => of_streams(by_tcp),
                    None => Some(datagrams()?).filter(has_any).map_or_else(
                        || Err(wrong(too_few("UDP datagrams or TCP requests", port, 0, &by_tcp.notes))),
                        of_datagrams,
                    ),
                }
            }
        };
        let Captured { protocol, transport, messages, gaps, notes } = captured?;
        Ok(Self { protocol, transport, setup: Vec::new(), messages, gaps: Some(gaps), notes })
    }
}

/// Requests of a capture.
struct Captured {
    protocol: Protocol,
    transport: Transport,
    messages: Vec<Message>,
    /// Gap before each request, in units of the mean gap; before the first, the mean gap.
    gaps: Arc<[f64]>,
    /// Parts of the capture that are not sent, one sentence each.
    notes: Vec<String>,
}

impl Captured {
    /// Makes requests of the datagrams to a port. Errors are sentences.
    fn of_datagrams(captured: CapturedDatagrams, port: u16, by: Option<Match>) -> Result<Self, String> {
        let CapturedDatagrams { datagrams, left_out, mut notes } = captured;
        let protocol = by.map_or(Protocol::of_datagrams_to(port), |by| Protocol::Datagram(Some(by)));
        if left_out > 0 {
            notes.push(format!(
                "{left_out} datagrams to port {port} of the capture are not sent: they were cut (capture with -s 0), or are beyond 64 MiB"
            ));
        }
        let times_ns: Vec<i128> = datagrams.iter().map(|datagram| datagram.at_ns).collect();
        let gaps = gaps(&times_ns).ok_or_else(|| too_few("UDP datagrams", port, times_ns.len(), &notes))?;
        let message = |(place, datagram): (usize, CapturedDatagram)| {
            protocol.captured(datagram.payload).map_err(|why| format!("datagram {} to port {port}: {why}", place + 1))
        };
        let messages = datagrams.into_iter().enumerate().map(message).collect::<Result<_, _>>()?;
        Ok(Self { protocol, transport: Transport::Udp, messages, gaps, notes })
    }

    /// Makes requests of the TCP connections to a port. `host`: value of HTTP's Host field where a request has none.
    /// Errors are sentences.
    fn of_streams(captured: CapturedStreams, port: u16, host: &str) -> Result<Self, String> {
        let CapturedStreams { streams, left_out, truncated, mut notes } = captured;
        let all = streams.len();
        let streams: Vec<CapturedStream> = streams.into_iter().filter(|stream| !is_encrypted(&stream.bytes)).collect();
        let encrypted = all - streams.len();
        let mut requests = Requests::default();
        let first = streams.iter().find(|stream| !stream.bytes.is_empty());
        let protocol = match (Protocol::of_streams_to(port).or_else(|| protocol_of(&streams)), first) {
            (Some(protocol), Some(_)) => protocol,
            (_, None) if encrypted > 0 => {
                return Err(format!(
                    "the requests of {encrypted} TCP connections to port {port} are encrypted; capture behind the TLS end, or use \
                     --request https:FILE"
                ));
            }
            (Some(protocol), None) => protocol,
            (None, None) => return Err(too_few("requests of TCP connections", port, 0, &notes)),
            (None, Some(first)) => return Err(unknown(port, first)),
        };
        streams.iter().for_each(|stream| requests.take(stream, protocol, host));
        let mut note = |number: u64, what: &str| {
            if number > 0 {
                notes.push(format!("{number} {what}"));
            }
        };
        let Requests { mut sent, not_sent, broken, gaps: lacking, joined, left, unfinished } = requests;
        note(encrypted as u64, "TCP connections of the capture are not sent: they are encrypted");
        note(
            left,
            "TCP connections of the capture are not sent: they began before it, and no segment begins a request",
        );
        note(
            joined,
            "TCP connections began before the capture: they are sent from the first segment that begins a request",
        );
        note(
            lacking,
            "TCP connections are sent up to bytes that the capture lacks (capture with -s 0 and a larger -B)",
        );
        note(truncated, "segments are not sent whole: they were cut (capture with -s 0)");
        note(left_out, "segments are not sent: they are beyond 64 MiB");
        note(unfinished, "TCP connections of the capture end within a request, which is not sent");
        for (what, number) in &broken {
            note(*number, &format!("TCP connections are sent up to {what}"));
        }
        for (what, number) in &not_sent {
            note(*number, &format!("requests of the capture are not sent: {what}"));
        }
        sent.sort_by_key(|(at_ns, _)| *at_ns);
        let times_ns: Vec<i128> = sent.iter().map(|(at_ns, _)| *at_ns).collect();
        let gaps = gaps(&times_ns)
            .ok_or_else(|| too_few(&format!("requests of {} by TCP", protocol.name()), port, times_ns.len(), &notes))?;
        let messages = sent.into_iter().map(|(_, message)| message).collect();
        Ok(Self { protocol, transport: Transport::Tcp, messages, gaps, notes })
    }
}

/// Gap before each of these rising times, in units of the mean gap; before the first, the mean gap. `None` if the times
/// are equal.
fn gaps(times_ns: &[i128]) -> Option<Arc<[f64]>> {
    let span_ns = times_ns.last()? - times_ns.first()?;
    let mean_ns = span_ns as f64 / (times_ns.len() - 1) as f64;
    let later = times_ns.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / mean_ns);
    (span_ns > 0).then(|| std::iter::once(1.0).chain(later).collect())
}

fn too_few(what: &str, port: u16, number: usize, notes: &[String]) -> String {
    let expected = format!("expected two or more {what} to port {port} at different times, found {number}");
    [&[expected], notes, &["--port or --to names another port".to_owned()]].concat().join("; ")
}

/// True for records of TLS (RFC 8446, section 5.1): a handshake, or later records if the capture began later.
fn is_encrypted(bytes: &[u8]) -> bool {
    matches!(bytes, [0x14..=0x17, 3, 0..=4, ..])
}

/// Offsets at which a stream may begin a request: its first byte; of a connection that began before the capture, the
/// first byte of each segment.
fn starts(stream: &CapturedStream) -> impl Iterator<Item = usize> {
    let most = if stream.is_from_start { 1 } else { usize::MAX };
    stream.segments.iter().take(most).map(|(offset, _)| *offset)
}

/// Protocol of most of these streams, by their first requests. `None` if no stream begins a request of a known protocol.
fn protocol_of(streams: &[CapturedStream]) -> Option<Protocol> {
    let of = |stream: &CapturedStream| starts(stream).find_map(|at| Protocol::of_client(&stream.bytes[at..]));
    let mut numbers: Vec<(Protocol, usize)> = Vec::new();
    for protocol in streams.iter().filter_map(of) {
        match numbers.iter_mut().find(|(known, _)| *known == protocol) {
            Some((_, number)) => *number += 1,
            None => numbers.push((protocol, 1)),
        }
    }
    numbers.into_iter().max_by_key(|(_, number)| *number).map(|(protocol, _)| protocol)
}

fn unknown(port: u16, first: &CapturedStream) -> String {
    let begin: String =
        first.bytes.iter().take(24).flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).collect();
    format!(
        "the TCP connections to port {port} have no requests that netcliff knows: that of {} begins with `{begin}`; expected HTTP/1.1, \
         redis, memcached's text commands or DNS; --port or --to names another port, --transport udp sends datagrams",
        first.client
    )
}

/// Requests of TCP connections.
#[derive(Default)]
struct Requests {
    /// (Time of the first byte (ns), request).
    sent: Vec<(i128, Message)>,
    /// Number of requests that are not sent, by the reason.
    not_sent: BTreeMap<&'static str, u64>,
    /// Number of connections that are not sent to their ends, by the first bytes that are not sent.
    broken: BTreeMap<&'static str, u64>,
    /// Number of connections of which the capture lacks bytes.
    gaps: u64,
    /// Number of connections that began before the capture.
    joined: u64,
    /// Number of connections in which no segment begins a request.
    left: u64,
    /// Number of connections that end within a request.
    unfinished: u64,
}

impl Requests {
    /// Adds the requests of a connection.
    fn take(&mut self, stream: &CapturedStream, protocol: Protocol, host: &str) {
        self.gaps += u64::from(stream.has_gap);
        let is_start = |at: &usize| stream.is_from_start || Protocol::of_client(&stream.bytes[*at..]) == Some(protocol);
        let Some(mut at) = starts(stream).find(is_start) else {
            self.left += u64::from(!stream.bytes.is_empty());
            return;
        };
        self.joined += u64::from(!stream.is_from_start);
        loop {
            if protocol != Protocol::Dns {
                // Servers ignore empty lines before a request.
                at += stream.bytes[at..].iter().take_while(|byte| b"\r\n".contains(byte)).count();
            }
            let Some(at_ns) = stream.at_ns(at) else { return };
            match protocol.first_request(&stream.bytes[at..], host) {
                Sent::Request { used, message } => {
                    match message {
                        Ok(message) => self.sent.push((at_ns, message)),
                        Err(what) => *self.not_sent.entry(what).or_default() += 1,
                    }
                    at += used;
                }
                Sent::More => {
                    self.unfinished += u64::from(!stream.has_gap);
                    return;
                }
                Sent::Broken(what) => {
                    *self.broken.entry(what).or_default() += 1;
                    return;
                }
            }
        }
    }
}

/// (line number, line) of the lines of a file, without empty lines and comments.
fn lines(spec: &RequestSpec, path: &Path) -> Result<Vec<(usize, String)>, RequestError> {
    let text = files::text(path, LARGEST_FILE_BYTES).map_err(|source| RequestError::File {
        spec: spec.text.clone(),
        path: path.display().to_string(),
        source,
    })?;
    let lines = text.lines().enumerate().map(|(place, line)| (place + 1, line.trim().to_owned()));
    Ok(lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(['#', ';'])).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn read(text: &str) -> Result<Workload, RequestError> {
        Workload::read(&text.parse().unwrap(), None, None, 80, "127.0.0.1:80")
    }

    #[test]
    fn files_have_a_request_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("names");
        let spec = format!("dns:{}", file.display());
        std::fs::write(&file, "# names\nwww.example.com A\n\n; more\nexample.com\n").unwrap();
        let workload = read(&spec).unwrap();
        assert_eq!((workload.messages.len(), workload.transport), (2, Transport::Udp));
        std::fs::write(&file, "www.example.com A\nb NONSENSE\n").unwrap();
        let error = read(&spec).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("NONSENSE"), "{error}");
        std::fs::write(&file, "# nothing\n").unwrap();
        assert!(read(&spec).unwrap_err().to_string().contains("no requests"));
        assert!(read("dns:/nowhere/names").unwrap_err().to_string().contains("/nowhere/names"));
    }

    #[test]
    fn a_request_may_stand_in_the_option() {
        assert_eq!(read("http:/index.html").unwrap().messages.len(), 1);
        assert!("https:/".parse::<RequestSpec>().unwrap().tls && !"http:/".parse::<RequestSpec>().unwrap().tls);
        assert_eq!(read("udp:00ff").unwrap().messages[0].bytes, [0, 255]);
        let caches = ["memcached:", "redis:"].map(|text| read(text).unwrap());
        assert!(caches.iter().all(|cache| cache.setup.len() == 1000 && cache.messages.len() == 1000));
    }

    /// A capture file of packets (time in us, raw IP).
    fn file_of(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0]);
        for (at_us, packet) in packets {
            let length = packet.len() as u32;
            file.extend(
                [at_us / 1_000_000, at_us % 1_000_000, length, length].iter().flat_map(|word| word.to_le_bytes()),
            );
            file.extend(packet);
        }
        file
    }

    /// A packet with a datagram from 192.0.2.1 to 192.0.2.2.
    fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let head = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(5000, port);
        head.write(&mut packet, payload).unwrap();
        packet
    }

    /// A capture file with datagrams (port, time in us, payload).
    fn pcap(datagrams: &[(u16, u32, &[u8])]) -> Vec<u8> {
        file_of(&datagrams.iter().map(|(port, at_us, payload)| (*at_us, datagram(*port, payload))).collect::<Vec<_>>())
    }

    /// A packet of a TCP connection from 192.0.2.1:`from` to 192.0.2.2. Without payload: its SYN; else the bytes at
    /// `offset` of the connection.
    fn segment((from, port): (u16, u16), offset: usize, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let head = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
        if payload.is_empty() {
            head.tcp(from, port, 99, 1000).syn().write(&mut packet, payload).unwrap();
        } else {
            head.tcp(from, port, 100 + offset as u32, 1000).ack(1).write(&mut packet, payload).unwrap();
        }
        packet
    }

    /// A capture file with one TCP connection to `port`: its SYN, then these segments (time in us, payload).
    pub(crate) fn tcp_pcap(port: u16, segments: &[(u32, &[u8])]) -> Vec<u8> {
        let mut packets = vec![(0, segment((5000, port), 0, b""))];
        let mut offset = 0;
        for (at_us, payload) in segments {
            packets.push((*at_us, segment((5000, port), offset, payload)));
            offset += payload.len();
        }
        file_of(&packets)
    }

    /// Reads the requests of a capture to a port.
    fn of_capture(file: &[u8], port: u16, transport: Option<Transport>) -> Result<Workload, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.pcap");
        std::fs::write(&path, file).unwrap();
        let spec: RequestSpec = format!("pcap:{}", path.display()).parse().unwrap();
        Workload::read(&spec, transport, None, port, "own:1").map_err(|error| error.to_string())
    }

    fn texts(workload: &Workload) -> Vec<String> {
        workload.messages.iter().map(|message| String::from_utf8_lossy(&message.bytes).into_owned()).collect()
    }

    #[test]
    fn a_capture_has_requests_and_their_times() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("own.pcap");
        let spec: RequestSpec = format!("pcap:{}", file.display()).parse().unwrap();
        let read = |port, by: Option<&str>| Workload::read(&spec, None, by.map(|by| by.parse().unwrap()), port, "");
        let question = dns_question("www.example.com A", Transport::Udp).unwrap().bytes;
        let own = [7, 8, 9];
        std::fs::write(
            &file,
            pcap(&[(53, 0, &question), (7000, 1, &own), (53, 100, &question), (53, 400, &question), (7000, 500, &own)]),
        )
        .unwrap();
        let dns = read(53, None).unwrap();
        assert_eq!((dns.protocol, dns.transport, dns.messages.len()), (Protocol::Dns, Transport::Udp, 3));
        assert_eq!(dns.messages[0], dns_question("www.example.com A", Transport::Udp).unwrap());
        assert_eq!(dns.gaps(None), Gaps::Captured([1.0, 0.5, 1.5].into()));
        assert_eq!(dns.gaps(Some(Arrivals::Constant)), Gaps::Drawn(Arrivals::Constant));
        assert!(dns.notes.is_empty(), "{:?}", dns.notes);
        let others = read(7000, Some("1:2")).unwrap();
        assert_eq!((&others.messages[0].bytes[..], others.messages[0].number), (&own[..], Some((1, 2))));
        assert!(read(7000, Some("2:2")).unwrap_err().to_string().contains("--match"));
        let tcp = Workload::read(&spec, Some(Transport::Tcp), None, 53, "").unwrap_err().to_string();
        assert!(tcp.contains("requests of dns by TCP to port 53") && tcp.contains("found 0"), "{tcp}");
        let error = read(80, None).unwrap_err().to_string();
        assert!(error.contains("port 80") && error.contains("found 0"), "{error}");
        // A record whose header claims more bytes than were captured, and a file that ends in the middle of a packet.
        let mut cut = pcap(&[(53, 0, &question), (53, 100, &question), (53, 200, &question), (53, 300, &question)]);
        let packet = (cut.len() - 24) / 4;
        cut[24 + packet + 16 + 25] += 1;
        cut.pop();
        std::fs::write(&file, cut).unwrap();
        let parts = read(53, None).unwrap();
        assert_eq!(parts.messages.len(), 2);
        assert!(parts.notes.iter().any(|note| note.starts_with("1 datagrams")), "{:?}", parts.notes);
        assert!(parts.notes.iter().any(|note| note.contains("the file ends")), "{:?}", parts.notes);
        std::fs::write(&file, "no capture").unwrap();
        assert!(read(53, None).unwrap_err().to_string().contains("own.pcap"));
    }

    const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n";
    const POST: &[u8] = b"POST /b HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";

    #[test]
    fn a_capture_has_requests_of_connections() {
        let (head, body) = POST.split_at(POST.len() - 5);
        let pipelined = [GET, head].concat();
        let file = tcp_pcap(80, &[(100, &GET[..7]), (200, &GET[7..]), (300, &pipelined), (350, body), (500, GET)]);
        let http = of_capture(&file, 80, None).unwrap();
        assert_eq!((http.protocol, http.transport), (Protocol::Http, Transport::Tcp));
        assert_eq!(texts(&http), [GET, GET, POST, GET].map(|text| String::from_utf8(text.to_vec()).unwrap()));
        // Requests began at 100, 300, 300 and 500 us.
        assert_eq!(http.gaps(None), Gaps::Captured([1.0, 1.5, 0.0, 1.5].into()));
        assert!(http.notes.is_empty(), "{:?}", http.notes);
    }

    /// The segments of a connection do not matter, only its bytes.
    #[test]
    fn any_segments_give_the_same_requests() {
        let get = b"get a bb\r\n";
        let set = b"set a 0 0 7\r\nget x\r\n\r\n";
        let bytes = [&set[..], get, b"incr a 1 noreply\r\n", get, b"quit\r\n", set].concat();
        let whole = of_capture(&tcp_pcap(11211, &[(1, &bytes[..9]), (9, &bytes[9..])]), 11211, None);
        // All but the first begin in one segment.
        let whole = whole.unwrap();
        assert_eq!(whole.messages.len(), 5);
        assert!(whole.notes[0].starts_with("1 requests of the capture are not sent: commands"), "{:?}", whole.notes);
        let mut random = netcliff_core::math::SplitMix64(7);
        for _ in 0..50 {
            let (mut at, mut packets) = (0, Vec::new());
            while at < bytes.len() {
                let length = (1 + random.draw() as usize % 20).min(bytes.len() - at);
                packets.push(segment((5000, 11211), at, &bytes[at..at + length]));
                at += length;
            }
            let again = random.draw() as usize % packets.len();
            packets.push(packets[again].clone());
            for place in (1..packets.len()).rev() {
                packets.swap(place, random.draw() as usize % (place + 1));
            }
            packets.insert(0, segment((5000, 11211), 0, b""));
            let timed: Vec<(u32, Vec<u8>)> = (0..).zip(packets).collect();
            let mut found = texts(&of_capture(&file_of(&timed), 11211, None).unwrap());
            let mut expected = texts(&whole);
            // Requests are in the order of their first bytes, which were captured in any order.
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn connections_are_joined_and_end_where_bytes_are_missing() {
        let request = |path: &str| format!("GET /{path} HTTP/1.1\r\n\r\n").into_bytes();
        let (one, two, three) = (request("1"), request("2"), request("3"));
        let length = one.len();
        let packets = [
            // Began before the capture, in the middle of a body.
            (0, segment((1, 80), 0, b"body")),
            (10, segment((1, 80), 4, &one)),
            // A segment is missing.
            (20, segment((2, 80), 0, b"")),
            (21, segment((2, 80), 0, &two)),
            (22, segment((2, 80), 2 * length, &two)),
            // Ends within a request, and after bytes of no request.
            (30, segment((3, 80), 0, b"")),
            (31, segment((3, 80), 0, &[&three[..], &one[..5]].concat())),
            (40, segment((4, 80), 0, b"")),
            (41, segment((4, 80), 0, b"SSH-2.0-x\r\n")),
            // No segment begins a request.
            (50, segment((5, 80), 0, b"body")),
            // Encrypted, as scanners of ports send.
            (60, segment((6, 80), 0, b"")),
            (61, segment((6, 80), 0, &[0x16, 3, 1, 0, 5, 1])),
        ];
        let http = of_capture(&file_of(&packets), 80, None).unwrap();
        assert_eq!(texts(&http), [one, two, three].map(|text| String::from_utf8(text).unwrap()));
        let starts = [
            "1 TCP connections of the capture are not sent: they are encrypted",
            "1 TCP connections of the capture are not sent: they began",
            "1 TCP connections began before the capture",
            "1 TCP connections are sent up to bytes that the capture lacks",
            "1 TCP connections of the capture end within a request",
            "1 TCP connections are sent up to bytes that are no request",
        ];
        assert_eq!(http.notes.len(), starts.len(), "{:?}", http.notes);
        assert!(http.notes.iter().zip(starts).all(|(note, start)| note.starts_with(start)), "{:?}", http.notes);
    }

    #[test]
    fn the_protocol_follows_from_the_port_or_the_requests() {
        let two = |port: u16, bytes: &[u8]| of_capture(&tcp_pcap(port, &[(1, bytes), (2, bytes)]), port, None);
        let redis = redis_command("GET key").unwrap();
        let question = dns_question("www.example.com A", Transport::Tcp).unwrap();
        for (port, message, protocol) in [
            (6379, Message { bytes: b"GET key\r\n".to_vec(), ..redis.clone() }, Protocol::Redis),
            (7000, redis, Protocol::Redis),
            (53, question.clone(), Protocol::Dns),
            (5353, question, Protocol::Dns),
            (8000, Message { bytes: GET.to_vec(), ..redis_command("x").unwrap() }, Protocol::Http),
            (7000, memcached_command("get key", Transport::Tcp).unwrap(), Protocol::Memcached),
        ] {
            let read = two(port, &message.bytes).unwrap();
            assert_eq!((read.protocol, read.transport), (protocol, Transport::Tcp), "{port}");
            assert_eq!(read.messages, [message.clone(), message]);
        }
        let unknown = two(7000, b"\x01own\n").unwrap_err();
        for part in ["port 7000", "192.0.2.1:5000", "`\\x01own\\n\\x01own\\n`", "HTTP/1.1", "--port"] {
            assert!(unknown.contains(part), "{unknown}");
        }
        let encrypted = two(443, &[0x16, 3, 1, 0, 5, 1]).unwrap_err();
        assert!(encrypted.contains("port 443 are encrypted; capture behind the TLS end"), "{encrypted}");
        let wrong = two(6379, b"\x00\x01\n").unwrap_err();
        assert!(wrong.contains("found 0") && wrong.contains("no command of redis"), "{wrong}");
    }

    /// Datagrams of a capture are sent as before it had connections, too.
    #[test]
    fn the_transport_follows_from_the_port_or_the_capture() {
        let question = dns_question("www.example.com A", Transport::Udp).unwrap().bytes;
        let stream = dns_question("www.example.com A", Transport::Tcp).unwrap().bytes;
        let mut both = pcap(&[(53, 0, &question), (53, 5, &question), (80, 0, &question), (80, 9, &question)]);
        both.extend(&tcp_pcap(53, &[(10, &stream), (20, &stream), (30, &stream)])[24..]);
        let read =
            |port, transport| of_capture(&both, port, transport).map(|read| (read.transport, read.messages.len()));
        assert_eq!(read(53, None).unwrap(), (Transport::Udp, 2));
        assert_eq!(read(53, Some(Transport::Udp)).unwrap(), (Transport::Udp, 2));
        assert_eq!(read(53, Some(Transport::Tcp)).unwrap(), (Transport::Tcp, 3));
        assert_eq!(read(80, None).unwrap(), (Transport::Udp, 2), "it has no connection to port 80");
        both.extend(&tcp_pcap(80, &[(40, GET), (50, GET), (60, GET)])[24..]);
        let http = of_capture(&both, 80, None).unwrap();
        assert_eq!((http.protocol, http.messages.len()), (Protocol::Http, 3));
        let none = of_capture(&both, 7000, None).unwrap_err();
        assert!(none.contains("UDP datagrams or TCP requests to port 7000") && none.contains("found 0"), "{none}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for text in ["", "dns", "dns:", "smtp:x", "http:"] {
            assert!(text.parse::<RequestSpec>().unwrap_err().contains("memcached:COMMANDS.txt"), "{text}");
        }
        let to = "127.0.0.1:80";
        let http: RequestSpec = "http:/".parse().unwrap();
        let error = Workload::read(&http, Some(Transport::Udp), None, 80, to).unwrap_err().to_string();
        assert!(error.contains("--transport udp") && error.contains("http"), "{error}");
        assert!(Workload::read(&http, None, "0:2".parse().ok(), 80, to).unwrap_err().to_string().contains("--match"));
    }
}
