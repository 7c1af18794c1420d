//! [`Workload`]: the requests that a user names with `--request`, ready to be sent.

use std::path::{Path, PathBuf};

use netcliff_host::files;

use crate::protocol::{Match, Message, Protocol, Transport, datagram_request, dns_question, http_request};
use crate::protocol::{memcached_command, redis_command};

/// Largest file of requests (bytes).
const LARGEST_FILE_BYTES: u64 = 64 << 20;
/// Keys that a cache is filled with where the user names no commands, and the bytes of each value.
const KEYS: u32 = 1000;
const VALUE_BYTES: usize = 100;

/// `--request` as written: a protocol and where its requests are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSpec {
    /// The protocol.
    pub protocol: Protocol,
    /// True: by TLS, as `https:` has it.
    pub tls: bool,
    source: Source,
    text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A request a line.
    File(PathBuf),
    /// One request.
    Line(String),
    /// The protocol's own: keys of a cache, read.
    Keys,
}

/// Why there are no requests.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The file cannot be read.
    #[error("--request {spec}: cannot read {path}: {source}; expected a file with a request a line")]
    File {
        /// What the user wrote.
        spec: String,
        /// The file.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A line is no request.
    #[error("--request {spec}: {place}: {why}")]
    Line {
        /// What the user wrote.
        spec: String,
        /// File and line.
        place: String,
        /// What is wrong with it, and the accepted form.
        why: String,
    },
    /// The file has no request.
    #[error("--request {spec}: the file has no requests; expected one a line (lines with # or ; are comments)")]
    Empty {
        /// What the user wrote.
        spec: String,
    },
    /// The protocol does not travel by it.
    #[error("--transport {transport}: {protocol} does not travel by it; leave --transport out")]
    Transport {
        /// The protocol.
        protocol: &'static str,
        /// The transport.
        transport: &'static str,
    },
    /// `--match` for a protocol that has numbers of its own.
    #[error("--match: only requests of udp: need it; leave it out")]
    Match,
}

const FORM: &str = "expected dns:NAMES.txt, http:/PATH or http:PATHS.txt (https: by TLS), memcached: or memcached:COMMANDS.txt, redis: or \
                    redis:COMMANDS.txt, udp:HEX or udp:FILE (a request a line)";

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// The protocol.
    pub protocol: Protocol,
    /// What they travel by.
    pub transport: Transport,
    /// Sent once, before anything is measured: what a cache is filled with.
    pub setup: Vec<Message>,
    /// The requests, sent in this order, again and again.
    pub messages: Vec<Message>,
}

impl Workload {
    /// Reads the requests to a service; `host`: what HTTP's Host field says.
    ///
    /// # Errors
    /// The file cannot be read or has no requests, a line is not a request, or the protocol does not travel by `transport`.
    pub fn read(
        spec: &RequestSpec,
        transport: Option<Transport>,
        by: Option<Match>,
        host: &str,
    ) -> Result<Self, RequestError> {
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
            Source::File(path) => {
                for (number, line) in lines(spec, path)? {
                    messages.push(of_line(format!("{} line {number}", path.display()), &line)?);
                }
            }
        }
        if messages.is_empty() {
            return Err(RequestError::Empty { spec: spec.text.clone() });
        }
        Ok(Self { protocol, transport, setup, messages })
    }
}

/// The lines of a file with their numbers, without empty ones and comments.
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
        Workload::read(&text.parse().unwrap(), None, None, "127.0.0.1:80")
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

    #[test]
    fn what_cannot_be_is_refused() {
        for text in ["", "dns", "dns:", "smtp:x", "http:"] {
            assert!(text.parse::<RequestSpec>().unwrap_err().contains("memcached:COMMANDS.txt"), "{text}");
        }
        let to = "127.0.0.1:80";
        let http: RequestSpec = "http:/".parse().unwrap();
        let error = Workload::read(&http, Some(Transport::Udp), None, to).unwrap_err().to_string();
        assert!(error.contains("--transport udp") && error.contains("http"), "{error}");
        assert!(Workload::read(&http, None, "0:2".parse().ok(), to).unwrap_err().to_string().contains("--match"));
    }
}
