//! [`Workload`]: the requests that a user specifies with `--request`, ready to be sent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use netcliff_core::Choice as _;
use netcliff_core::capture::reading::{self, CapturedDatagram, CapturedDatagrams};
use netcliff_host::files;
use netcliff_packets::schedule::Arrivals;

use crate::protocol::{Match, Message, Protocol, Transport, datagram_request, dns_question, http_request};
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
    /// The protocol.
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
    /// Datagrams of a capture.
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
    /// The file is not a capture, or has no datagrams to the service's port.
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
                    redis:COMMANDS.txt, udp:HEX or udp:FILE (a request a line), pcap:FILE (datagrams of a capture)";

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
            // The port of the service decides the protocol, in `Workload::read`.
            ("pcap", _) => (Protocol::Datagram(None), Source::Capture(PathBuf::from(rest))),
            _ => return Err(FORM.to_owned()),
        };
        Ok(Self { protocol, tls: name == "https", source, text: text.to_owned() })
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

    /// Reads the requests for a service on `port`. `by`: position of the number in user-defined datagrams; `host`:
    /// value of HTTP's Host field.
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
        let protocol = match (spec.protocol, by) {
            (Protocol::Datagram(_), None) if matches!(spec.source, Source::Capture(_)) => {
                Protocol::of_datagrams_to(port)
            }
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
        let (mut setup, mut messages, mut gaps, mut notes) = (Vec::new(), Vec::new(), None, Vec::new());
        match &spec.source {
            Source::Line(line) => messages.push(of_line(format!("`{line}`"), line)?),
            Source::Keys => {
                let value = "v".repeat(VALUE_BYTES);
                for key in 0..KEYS {
                    setup.push(of_line(String::new(), &format!("set netcliff:{key} {value}"))?);
                    messages.push(of_line(String::new(), &format!("get netcliff:{key}"))?);
                }
            }
            Source::File(path) => {
                for (number, line) in lines(spec, path)? {
                    messages.push(of_line(format!("{} line {number}", path.display()), &line)?);
                }
            }
            Source::Capture(path) => {
                let wrong = |why: String| RequestError::Capture { spec: spec.text.clone(), why };
                if transport == Transport::Tcp {
                    return Err(wrong("datagrams of a capture travel by UDP; leave --transport tcp out".to_owned()));
                }
                let captured = Captured::read(path, port, protocol).map_err(wrong)?;
                (messages, gaps, notes) = (captured.messages, Some(captured.gaps), captured.notes);
            }
        }
        if messages.is_empty() {
            return Err(RequestError::Empty { spec: spec.text.clone() });
        }
        Ok(Self { protocol, transport, setup, messages, gaps, notes })
    }
}

/// Requests of a capture.
struct Captured {
    messages: Vec<Message>,
    /// Gap before each request, in units of the mean gap; before the first, the mean gap.
    gaps: Arc<[f64]>,
    /// Parts of the capture that are not sent, one sentence each.
    notes: Vec<String>,
}

impl Captured {
    /// Reads the datagrams to a port from a capture. Errors are sentences.
    fn read(path: &Path, port: u16, protocol: Protocol) -> Result<Self, String> {
        let file = files::open(path).map_err(|cause| format!("cannot read it: {cause}"))?;
        let CapturedDatagrams { datagrams, left_out, mut notes } =
            reading::datagrams(file, port, LARGEST_FILE_BYTES as usize)?;
        if left_out > 0 {
            notes.push(format!(
                "{left_out} datagrams to port {port} of the capture are not sent: they were cut (capture with -s 0), or are beyond 64 MiB"
            ));
        }
        let times_ns: Vec<i128> = datagrams.iter().map(|datagram| datagram.at_ns).collect();
        let span_ns = times_ns.last().zip(times_ns.first()).map_or(0, |(last, first)| last - first);
        if span_ns == 0 {
            let found = times_ns.len();
            let whole = format!("expected two or more UDP datagrams to port {port} at different times, found {found}");
            let other = "--port or --to names another port".to_owned();
            return Err([vec![whole], notes, vec![other]].concat().join("; "));
        }
        let mean_ns = span_ns as f64 / (times_ns.len() - 1) as f64;
        let later = times_ns.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / mean_ns);
        let gaps = std::iter::once(1.0).chain(later).collect();
        let message = |(place, datagram): (usize, CapturedDatagram)| {
            protocol.captured(datagram.payload).map_err(|why| format!("datagram {} to port {port}: {why}", place + 1))
        };
        let messages = datagrams.into_iter().enumerate().map(message).collect::<Result<_, _>>()?;
        Ok(Self { messages, gaps, notes })
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
mod tests {
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

    /// A capture file with datagrams (port, time in us, payload) from 192.0.2.1 to 192.0.2.2.
    fn pcap(datagrams: &[(u16, u32, &[u8])]) -> Vec<u8> {
        let mut file = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
        file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0]);
        for (port, at_us, payload) in datagrams {
            let mut packet = Vec::new();
            let head = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64).udp(5000, *port);
            head.write(&mut packet, payload).unwrap();
            let length = packet.len() as u32;
            file.extend([0, *at_us, length, length].iter().flat_map(|word| word.to_le_bytes()));
            file.extend(packet);
        }
        file
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
        assert!(tcp.contains("--transport tcp"), "{tcp}");
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
