//! [`Endpoint`]: a host with an optional port, as text.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A host and its port: `HOST`, `HOST:PORT`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address, without brackets.
    pub host: String,
    /// The port; `None` if the text has none.
    pub port: Option<u16>,
}

/// Why a text is no [`Endpoint`], or no address with a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// The text after the last colon is no port.
    #[error("\"{0}\" is not a port (0 to 65535): expected ADDRESS:PORT, such as 127.0.0.1:9940 or [::1]:9940")]
    Port(String),
    /// Nothing precedes the port, or a bracket is not closed.
    #[error("expected a host before the port, such as 127.0.0.1:9940, host:9940 or [::1]:9940")]
    Host,
    /// Not an IP address with a port.
    #[error("expected an IP address and a port, such as 127.0.0.1:9940, 0.0.0.0:9940 or [::1]:9940")]
    Address,
}

/// Parses an IP address with a port.
///
/// # Errors
/// [`BadEndpoint::Address`] if the host is a name or the port is missing; otherwise errors of [`Endpoint`].
pub fn socket_address(text: &str) -> Result<SocketAddr, BadEndpoint> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    text.parse::<Endpoint>()?;
    Err(BadEndpoint::Address)
}

/// Splits into the host and the text of the port. An IPv6 address needs brackets only if a port follows.
fn split(text: &str) -> (&str, Option<&str>) {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    if bracketed.is_none() && text.starts_with('[') {
        return ("", None);
    }
    match (bracketed, text.rsplit_once(':')) {
        (Some((host, "")), _) => (host, None),
        (Some((host, rest)), _) if rest.starts_with(':') => (host, Some(&rest[1..])),
        _ if text.parse::<Ipv6Addr>().is_ok() => (text, None),
        // With several colons, the last part is a port only if it is a number: an IPv6 address may end with a zone.
        (_, Some((host, port))) if !host.contains(':') || port.chars().all(|digit| digit.is_ascii_digit()) => {
            (host, Some(port))
        }
        _ => (text, None),
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let (host, port) = split(text);
        let number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()).then(|| port.parse().ok()).flatten();
        let port = port.map(|port| number(port).ok_or_else(|| BadEndpoint::Port(port.to_owned()))).transpose()?;
        if host.is_empty() { Err(BadEndpoint::Host) } else { Ok(Self { host: host.to_owned(), port }) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) if self.host.contains(':') => write!(out, "[{}]:{port}", self.host),
            Some(port) => write!(out, "{}:{port}", self.host),
            None => out.write_str(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        let read = |text: &str| text.parse::<Endpoint>().map(|endpoint| (endpoint.host, endpoint.port));
        for (text, host, port) in [
            ("db1", "db1", None),
            ("db1:9940", "db1", Some(9940)),
            ("192.0.2.7:0", "192.0.2.7", Some(0)),
            ("2001:db8::7", "2001:db8::7", None),
            ("[2001:db8::7]", "2001:db8::7", None),
            ("[2001:db8::7]:65535", "2001:db8::7", Some(65535)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:80", "fe80::1%eth0", Some(80)),
        ] {
            assert_eq!(read(text), Ok((host.to_owned(), port)), "{text}");
            let endpoint = text.parse::<Endpoint>().unwrap();
            assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint), "{text}");
        }
    }

    #[test]
    fn a_wrong_port_is_named_and_a_missing_host_too() {
        for (text, port) in [
            ("localhost:99999", "99999"),
            ("localhost:65536", "65536"),
            ("localhost:-1", "-1"),
            ("localhost:+80", "+80"),
            ("localhost:http", "http"),
            ("localhost:", ""),
            ("[::1]:99999", "99999"),
            ("::1:99999", "99999"),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(BadEndpoint::Port(port.to_owned())), "{text}");
            assert_eq!(socket_address(text), Err(BadEndpoint::Port(port.to_owned())), "{text}");
        }
        for text in ["", ":9940", "[]:9940", "[::1", "[::1:9940"] {
            assert_eq!(text.parse::<Endpoint>(), Err(BadEndpoint::Host), "{text}");
        }
        let said = "localhost:99999".parse::<Endpoint>().unwrap_err().to_string();
        assert!(said.contains("\"99999\" is not a port (0 to 65535)") && said.contains("ADDRESS:PORT"), "{said}");
    }

    #[test]
    fn a_socket_address_has_an_address_and_a_port() {
        for text in ["127.0.0.1:9940", "[::1]:0"] {
            assert_eq!(socket_address(text).map(|address| address.to_string()), Ok(text.to_owned()));
        }
        for text in ["127.0.0.1", "::1", "localhost", "localhost:9940"] {
            assert_eq!(socket_address(text), Err(BadEndpoint::Address), "{text}");
        }
    }
}
