//! [`Protocol`]: writes requests and parses answers of each protocol, without sockets or clocks.

mod datagram;
mod dns;
mod http;
mod memcached;
mod redis;

use netcliff_core::Choice;

pub use datagram::Match;
pub(crate) use datagram::request as datagram_request;
pub(crate) use dns::question as dns_question;
pub(crate) use http::request as http_request;
pub(crate) use memcached::command as memcached_command;
pub(crate) use redis::command as redis_command;

/// Transport of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Connections.
    Tcp,
}

impl Choice for Transport {
    const CHOICES: &'static [(Self, &'static str, &'static str)] =
        &[(Self::Udp, "udp", "Datagrams"), (Self::Tcp, "tcp", "Connections")];
}

/// Protocol of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// DNS (RFC 1035); over TCP preceded by a length (RFC 7766).
    Dns,
    /// HTTP/1.1 (RFC 9112).
    Http,
    /// memcached's text protocol, over UDP with its frame header.
    Memcached,
    /// RESP, the protocol of redis.
    Redis,
    /// User-defined datagrams.
    Datagram(Option<Match>),
}

/// A request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The bytes to send.
    pub bytes: Vec<u8>,
    /// Position of the request's number, which the answer repeats: (offset, length) in bytes. `None` if the protocol
    /// has no numbers.
    pub number: Option<(usize, usize)>,
    /// Expected form of the answer, if it depends on the request.
    pub expects: Expects,
}

/// Form of the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    /// The protocol's usual form.
    Usual,
    /// HTTP: a header without a body (HEAD).
    NoBody,
    /// memcached: values until `END`.
    Values,
    /// memcached: one line.
    Line,
}

/// Result of parsing bytes of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// The answer is not complete yet.
    More,
    /// A complete answer.
    Answer(Answer),
    /// Not an answer of this protocol; the reason in words.
    Broken(&'static str),
}

/// Result of parsing bytes that a client sent over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The request is not complete yet.
    More,
    /// A complete request.
    Request {
        /// Length of the request (bytes).
        used: usize,
        /// The request as netcliff sends it; or which requests netcliff does not send, in words.
        message: Result<Message, &'static str>,
    },
    /// No request of this protocol; in words, what the bytes are.
    Broken(&'static str),
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Length of the answer (bytes).
    pub used: usize,
    /// Number of the answered request. `None`: the protocol has no numbers, and the requests of a connection are
    /// answered in order.
    pub number: Option<u64>,
    /// False: the service reports an error, or the answer has not the expected form.
    pub right: bool,
    /// True: the service closes the connection after this answer.
    pub closes: bool,
}

impl Answer {
    fn of(used: usize, right: bool) -> Self {
        Self { used, number: None, right, closes: false }
    }
}

/// Longest first line by which a request is recognized (bytes): servers refuse longer ones.
const LONGEST_LINE: usize = 64 << 10;

impl Protocol {
    /// The protocol's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Http => "http",
            Self::Memcached => "memcached",
            Self::Redis => "redis",
            Self::Datagram(_) => "udp",
        }
    }

    /// True if the protocol can use TLS.
    pub fn has_tls(self) -> bool {
        matches!(self, Self::Dns | Self::Http)
    }

    /// The protocol's default port. `None` if the protocol has no default port.
    pub fn port(self, tls: bool) -> Option<u16> {
        match self {
            // RFC 7858.
            Self::Dns if tls => Some(853),
            Self::Http if tls => Some(443),
            Self::Dns => Some(53),
            Self::Http => Some(80),
            Self::Memcached => Some(11211),
            Self::Redis => Some(6379),
            Self::Datagram(_) => None,
        }
    }

    /// The protocol's default transport.
    pub fn transport(self) -> Transport {
        match self {
            Self::Dns | Self::Datagram(_) => Transport::Udp,
            Self::Http | Self::Memcached | Self::Redis => Transport::Tcp,
        }
    }

    /// True if the protocol can be sent over `transport`.
    pub fn travels_by(self, transport: Transport) -> bool {
        match self {
            Self::Dns | Self::Memcached => true,
            Self::Http | Self::Redis => transport == Transport::Tcp,
            Self::Datagram(_) => transport == Transport::Udp,
        }
    }

    /// Returns the protocol of datagrams to a port: DNS or memcached on their default ports, otherwise user-defined
    /// datagrams.
    pub(crate) fn of_datagrams_to(port: u16) -> Self {
        [Self::Dns, Self::Memcached]
            .into_iter()
            .find(|known| known.port(false) == Some(port))
            .unwrap_or(Self::Datagram(None))
    }

    /// Makes a request from a captured datagram. The error says in words why the bytes are not a request of this
    /// protocol.
    pub(crate) fn captured(self, bytes: Vec<u8>) -> Result<Message, String> {
        match self {
            Self::Dns => dns::captured(bytes),
            Self::Memcached => memcached::captured(bytes),
            Self::Datagram(by) => datagram::message(bytes, by),
            Self::Http | Self::Redis => Err(format!("{} travels by no datagrams", self.name())),
        }
    }

    /// Returns the protocol of connections to a port: the one whose default port it is. `None`: the protocol follows
    /// from the requests.
    pub(crate) fn of_streams_to(port: u16) -> Option<Self> {
        Self::OF_STREAMS.into_iter().find(|known| known.port(false) == Some(port))
    }

    /// Returns the protocol of a client's bytes. `None` unless they begin with a request that is clearly one of this
    /// protocol: HTTP's request line, an array of redis, a command of memcached, or a whole question of DNS.
    pub(crate) fn of_client(bytes: &[u8]) -> Option<Self> {
        let begin = &bytes[..bytes.len().min(LONGEST_LINE)];
        Self::OF_STREAMS.into_iter().find(|protocol| match protocol {
            Self::Http => http::begins(begin),
            Self::Redis => redis::begins(begin),
            Self::Memcached => memcached::begins(begin),
            Self::Dns => dns::begins(bytes),
            Self::Datagram(_) => false,
        })
    }

    /// Protocols of streams. Their requests begin differently.
    const OF_STREAMS: [Self; 4] = [Self::Http, Self::Redis, Self::Memcached, Self::Dns];

    /// Parses the first request in the bytes that a client sent over a connection, without empty lines before it.
    /// `host`: value of HTTP's Host field if the request has none.
    pub(crate) fn first_request(self, bytes: &[u8], host: &str) -> Sent {
        match self {
            Self::Dns => dns::first_request(bytes),
            Self::Http => http::first_request(bytes, host),
            Self::Memcached => memcached::first_request(bytes),
            Self::Redis => redis::first_request(bytes),
            Self::Datagram(_) => Sent::Broken("a stream"),
        }
    }

    /// True if an answer in a datagram has the number of its request, so that many requests may be outstanding on one
    /// port.
    pub fn numbers_datagrams(self) -> bool {
        !matches!(self, Self::Datagram(None) | Self::Http | Self::Redis)
    }

    /// Parses the first answer in the bytes of a stream, which answers `request`.
    pub fn of_stream(self, request: &Message, bytes: &[u8]) -> Parsed {
        match self {
            Self::Dns => dns::of_stream(bytes),
            Self::Http => http::of_stream(request.expects == Expects::NoBody, bytes),
            Self::Memcached => memcached::of_stream(request.expects, bytes),
            Self::Redis => redis::of_stream(bytes),
            Self::Datagram(_) => Parsed::Broken("datagrams have no stream"),
        }
    }

    /// Parses an answer in a datagram. `None`: the datagram is not an answer of this protocol, or only a part of an
    /// answer before its last part.
    pub fn of_datagram(self, bytes: &[u8]) -> Option<Answer> {
        match self {
            Self::Dns => dns::of_datagram(bytes),
            Self::Memcached => memcached::of_datagram(bytes),
            Self::Datagram(by) => datagram::of_datagram(by, bytes),
            Self::Http | Self::Redis => None,
        }
    }
}

/// Writes the lowest bytes of a request's number, the most significant byte first.
pub fn write_number(bytes: &mut [u8], (offset, length): (usize, usize), number: u64) {
    let all = number.to_be_bytes();
    bytes[offset..offset + length].copy_from_slice(&all[all.len() - length..]);
}

/// The part of a number that fits into `length` bytes: its lowest bytes.
pub fn number_in(number: u64, length: usize) -> u64 {
    if length >= 8 { number } else { number & ((1 << (8 * length)) - 1) }
}

fn read_number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_as_it_was_written() {
        let mut bytes = [0xff; 6];
        write_number(&mut bytes, (1, 2), 0x0001_2345);
        assert_eq!(bytes, [0xff, 0x23, 0x45, 0xff, 0xff, 0xff]);
        assert_eq!(read_number(&bytes[1..3]), number_in(0x0001_2345, 2));
        assert_eq!(number_in(u64::MAX, 8), u64::MAX);
    }
}
