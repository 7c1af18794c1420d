//! HTTP/1.1: writes requests, parses headers of answers with httparse, and determines bodies by their length (RFC 9112,
//! section 6).

use super::{Answer, Expects, Message, Parsed};

/// Largest number of header fields of an answer.
const MOST_FIELDS: usize = 96;
const BROKEN: Parsed = Parsed::Broken("no answer of HTTP/1.1");

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
    let field = |name: &str| head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
    let value = |name: &str| field(name).and_then(|field| std::str::from_utf8(field.value).ok()).map(str::trim);
    let closes =
        value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) || head.version == Some(0);
    let chunked = value("transfer-encoding").is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"));
    let body = match (no_body || code == 204 || code == 304, chunked, value("content-length").map(str::parse)) {
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
                let end =
                    usize::try_from(length).ok().and_then(|length| (at + head).checked_add(length + 2)).ok_or(())?;
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
}
