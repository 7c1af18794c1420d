//! HTTP/1.1: writes requests, parses headers of requests and answers with httparse, and determines bodies by their length
//! (RFC 9112, section 6).

use super::{Answer, Expects, Message, Parsed, Sent};

/// Largest number of header fields of a request or an answer.
const MOST_FIELDS: usize = 96;
const BROKEN: Parsed = Parsed::Broken("no answer of HTTP/1.1");
/// Fields of a captured request that are not sent: those of its connection (RFC 9110, section 7.6.1), which netcliff's
/// connections replace; and Expect, because netcliff sends the body at once.
const NOT_SENT: [&str; 6] = ["connection", "keep-alive", "proxy-connection", "upgrade", "http2-settings", "expect"];

/// Makes the request from a line `PATH` or `METHOD PATH`. Errors are sentences.
pub(crate) fn request(line: &str, host: &str) -> Result<Message, String> {
    let mut words = line.split_whitespace();
    let (method, path) = match (words.next(), words.next(), words.next()) {
        (Some(path), None, _) => ("GET", path),
        (Some(method), Some(path), None) => (method, path),
        _ => return Err("expected a path, or a method and a path, such as `HEAD /index.html`".to_owned()),
    };
    if !path.starts_with('/') {
        return Err(format!("`{path}`: a path begins with /"));
    }
    if !["GET", "HEAD", "OPTIONS", "DELETE"].contains(&method) {
        return Err(format!("`{method}`: expected GET, HEAD, OPTIONS or DELETE, which have no body"));
    }
    let bytes = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: netcliff\r\nAccept: */*\r\n\r\n");
    let expects = if method == "HEAD" { Expects::NoBody } else { Expects::Usual };
    Ok(Message { bytes: bytes.into_bytes(), number: None, expects })
}

/// Parses the first request that a client sent over a connection. A request of HTTP/1.0 becomes one of HTTP/1.1, whose
/// answers need not end with their connection; `host` is its Host field if it has none.
pub(super) fn first_request(bytes: &[u8], host: &str) -> Sent {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let from = match head.parse(bytes) {
        Ok(httparse::Status::Complete(from)) => from,
        Ok(httparse::Status::Partial) => return Sent::More,
        Err(_) if bytes.starts_with(b"PRI * HTTP/2") => return Sent::Broken("HTTP/2"),
        Err(httparse::Error::TooManyHeaders) => return Sent::Broken("a request of HTTP with more than 96 fields"),
        Err(_) => return Sent::Broken("bytes that are no request of HTTP/1.1"),
    };
    let (method, path) = (head.method.unwrap_or_default(), head.path.unwrap_or_default());
    // A server may ignore a change to HTTP/2; another request would make no sense without the change.
    let changes = value(head.headers, "upgrade").is_some_and(|to| !to.eq_ignore_ascii_case("h2c"));
    if changes || method == "CONNECT" {
        return Sent::Broken("a request to change the protocol (CONNECT, Upgrade)");
    }
    let rest = &bytes[from..];
    let length = match (is_chunked(head.headers), value(head.headers, "content-length").map(str::parse::<usize>)) {
        (true, _) => chunks(rest),
        (false, Some(Ok(length))) => Ok(Some(length).filter(|length| rest.len() >= *length)),
        (false, Some(Err(_))) => Err(()),
        (false, None) => Ok(Some(0)),
    };
    let body = match length {
        Ok(Some(length)) => &rest[..length],
        Ok(None) => return Sent::More,
        Err(()) => return Sent::Broken("a request of HTTP whose body has no valid length"),
    };
    let is_old = head.version == Some(0);
    let is_sent = |field: &&httparse::Header<'_>| !NOT_SENT.iter().any(|name| field.name.eq_ignore_ascii_case(name));
    let mut sent = bytes[..from].to_vec();
    if is_old || !head.headers.iter().all(|field| is_sent(&field)) {
        sent = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        if is_old && value(head.headers, "host").is_none() {
            sent.extend(format!("Host: {host}\r\n").bytes());
        }
        for field in head.headers.iter().filter(is_sent) {
            sent.extend([field.name.as_bytes(), b": ", field.value, b"\r\n"].concat());
        }
        sent.extend(b"\r\n");
    }
    sent.extend_from_slice(body);
    let expects = if method == "HEAD" { Expects::NoBody } else { Expects::Usual };
    Sent::Request { used: from + body.len(), message: Ok(Message { bytes: sent, number: None, expects }) }
}

/// True if the bytes begin with a whole request line.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some(line) = bytes.windows(2).position(|two| two == b"\r\n").map(|end| &bytes[..end]) else { return false };
    let method = line.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let versions: [&[u8]; 2] = [b" HTTP/1.1", b" HTTP/1.0"];
    method > 0 && line.get(method) == Some(&b' ') && versions.iter().any(|version| line.ends_with(version))
}

/// Value of the first field with this name. `None` if there is no such field, or its value is no text.
fn value<'a>(fields: &[httparse::Header<'a>], name: &str) -> Option<&'a str> {
    let field = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(field.value).ok().map(str::trim)
}

fn is_chunked(fields: &[httparse::Header<'_>]) -> bool {
    value(fields, "transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"))
}

/// Parses the first answer of a stream. `no_body`: the request was HEAD, so the answer has no body.
pub(super) fn of_stream(no_body: bool, bytes: &[u8]) -> Parsed {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut head = httparse::Response::new(&mut fields);
    let from = match head.parse(bytes) {
        Ok(httparse::Status::Complete(from)) => from,
        Ok(httparse::Status::Partial) => return Parsed::More,
        Err(_) => return BROKEN,
    };
    let code = head.code.unwrap_or(0);
    // Interim answers: 100 Continue, 103 Early Hints.
    if (100..200).contains(&code) {
        return match of_stream(no_body, &bytes[from..]) {
            Parsed::Answer(answer) => Parsed::Answer(Answer { used: answer.used + from, ..answer }),
            other => other,
        };
    }
    let value = |name: &str| value(head.headers, name);
    let closes =
        value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) || head.version == Some(0);
    let no_body = no_body || code == 204 || code == 304;
    let body = match (no_body, is_chunked(head.headers), value("content-length").map(str::parse)) {
        (true, _, _) => Some(0),
        (_, true, _) => match chunks(&bytes[from..]) {
            Ok(body) => body,
            Err(()) => return BROKEN,
        },
        (_, _, Some(Ok(length))) => Some(length).filter(|length| bytes.len() - from >= *length),
        _ => return Parsed::Broken("an answer that ends with its connection: netcliff needs Content-Length or chunks"),
    };
    match body {
        Some(body) => Parsed::Answer(Answer { closes, ..Answer::of(from + body, (200..400).contains(&code)) }),
        None => Parsed::More,
    }
}

/// Length of a complete chunked body; `None` if it is not complete yet.
fn chunks(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let mut at = 0;
    loop {
        match httparse::parse_chunk_size(&bytes[at..]).map_err(|_| ())? {
            httparse::Status::Partial => return Ok(None),
            httparse::Status::Complete((head, 0)) => {
                // Trailers, until an empty line.
                at += head;
                return Ok(match bytes.get(at..at + 2) {
                    Some(b"\r\n") => Some(at + 2),
                    Some(_) => bytes[at..].windows(4).position(|four| four == b"\r\n\r\n").map(|end| at + end + 4),
                    None => None,
                });
            }
            httparse::Status::Complete((head, length)) => {
                let length = usize::try_from(length).ok().and_then(|length| length.checked_add(2));
                let end = length.and_then(|length| (at + head).checked_add(length)).ok_or(())?;
                if bytes.len() < end {
                    return Ok(None);
                }
                at = end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Parsed {
        of_stream(false, text.as_bytes())
    }

    #[test]
    fn an_answer_is_whole_when_its_body_is() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(read(&format!("{whole}HTTP")), Parsed::Answer(Answer::of(whole.len(), true)));
        assert!((0..whole.len()).all(|length| read(&whole[..length]) == Parsed::More));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n1\r\n!\r\n0\r\n\r\n";
        assert_eq!(read(chunked), Parsed::Answer(Answer::of(chunked.len(), true)));
        assert!((0..chunked.len()).all(|length| read(&chunked[..length]) == Parsed::More));
        let trailer = chunked.replace("0\r\n\r\n", "0\r\nA: b\r\n\r\n");
        assert_eq!(read(&trailer), Parsed::Answer(Answer::of(trailer.len(), true)));
    }

    #[test]
    fn codes_and_heads_decide() {
        let none = "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n";
        assert_eq!(read(none), Parsed::Answer(Answer::of(none.len(), true)));
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n";
        assert_eq!(of_stream(true, head.as_bytes()), Parsed::Answer(Answer::of(head.len(), true)));
        let busy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        assert_eq!(read(busy), Parsed::Answer(Answer { closes: true, ..Answer::of(busy.len(), false) }));
        let early = "HTTP/1.1 103 Early Hints\r\n\r\n";
        let after = format!("{early}{none}");
        assert_eq!(read(&after), Parsed::Answer(Answer::of(after.len(), true)));
        assert!(matches!(read("SSH-2.0-OpenSSH\r\n"), Parsed::Broken(_)));
        assert!(matches!(read("HTTP/1.1 200 OK\r\n\r\nabc"), Parsed::Broken(why) if why.contains("Content-Length")));
    }

    /// Length and text of the first request as netcliff sends it.
    fn sent(text: &str) -> (usize, String, Expects) {
        let Sent::Request { used, message: Ok(message) } = first_request(text.as_bytes(), "own:80") else {
            panic!("{:?}", first_request(text.as_bytes(), "own:80"));
        };
        (used, String::from_utf8(message.bytes).unwrap(), message.expects)
    }

    #[test]
    fn captured_requests_are_whole_with_their_bodies() {
        let get = "GET /a HTTP/1.1\r\nHost: b\r\ncookie:c\r\n\r\n";
        assert_eq!(sent(&format!("{get}GET /next")), (get.len(), get.to_owned(), Expects::Usual));
        assert_eq!(sent(&get.replace("GET", "HEAD")).2, Expects::NoBody);
        let post = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        let chunked = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        for whole in [get, post, chunked] {
            assert_eq!(sent(&format!("{whole}GET")), (whole.len(), whole.to_owned(), Expects::Usual));
            let more = |length: usize| first_request(&whole.as_bytes()[..length], "") == Sent::More;
            assert!((0..whole.len()).all(more), "{whole}");
            assert!(begins(whole.as_bytes()));
        }
        for (text, says) in [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
            ("SSH-2.0-OpenSSH\r\n", "no request"),
            ("POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "length"),
            ("CONNECT a:443 HTTP/1.1\r\n\r\n", "CONNECT"),
            ("GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", "Upgrade"),
        ] {
            assert!(matches!(first_request(text.as_bytes(), ""), Sent::Broken(why) if why.contains(says)), "{text}");
        }
        assert!(!begins(b"GET key\r\n") && !begins(b"get / HTTP/1.1\r\n") && !begins(b"GET / HTTP/1.1"));
    }

    #[test]
    fn fields_of_the_captured_connection_are_not_sent() {
        let text = "GET / HTTP/1.1\r\nHost: b\r\nConnection: close, Upgrade\r\nExpect: 100-continue\r\nUpgrade: h2c\r\nA: x\r\n\r\n";
        assert_eq!(sent(text).1, "GET / HTTP/1.1\r\nHost: b\r\nA: x\r\n\r\n");
        assert_eq!(sent("GET / HTTP/1.0\r\n\r\n").1, "GET / HTTP/1.1\r\nHost: own:80\r\n\r\n");
        assert_eq!(sent("GET / HTTP/1.0\r\nhost: b\r\n\r\n").1, "GET / HTTP/1.1\r\nhost: b\r\n\r\n");
    }

    #[test]
    fn a_line_is_a_path_with_a_method() {
        let to = "198.18.0.2:80";
        let text = |line: &str| String::from_utf8(request(line, to).unwrap().bytes).unwrap();
        assert!(text("/a?b").starts_with("GET /a?b HTTP/1.1\r\nHost: 198.18.0.2:80\r\n"));
        assert_eq!(request("HEAD /", to).unwrap().expects, Expects::NoBody);
        for line in ["index.html", "POST /", "GET / HTTP/1.1"] {
            assert!(request(line, to).is_err(), "{line}");
        }
    }

    #[test]
    fn a_chunk_of_any_length_is_refused_or_awaited() {
        let head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for length in ["FFFFFFFFFFFFFFFF", "FFFFFFFFFFFFFFFE", "7FFFFFFFFFFFFFFF"] {
            let bytes = [&head[..], length.as_bytes(), b"\r\nx"].concat();
            assert!(!matches!(first_request(&bytes, "h"), Sent::Request { .. }), "{length}");
        }
    }
}
