//! memcached: text commands (doc/protocol.txt of memcached 1.6), over UDP after a header of 8 bytes.

use super::{Answer, Expects, Message, Parsed, Sent, Transport, read_number};

/// Header of a request's datagram, in fields of two bytes: request number, sequence number, number of datagrams,
/// reserved.
const FRAME: [u8; 8] = [0, 0, 0, 0, 0, 1, 0, 0];
const MOST_KEY: usize = 250;

/// Makes the command from a line `get KEY` or `set KEY VALUE`. Errors are sentences.
pub(crate) fn command(line: &str, transport: Transport) -> Result<Message, String> {
    let form = || "expected `get KEY` or `set KEY VALUE`".to_owned();
    let (verb, rest) = line.trim().split_once(' ').ok_or_else(form)?;
    let key = rest.split(' ').next().unwrap_or_default();
    if key.is_empty() || key.len() > MOST_KEY || key.chars().any(char::is_control) {
        return Err(format!("`{key}`: a key has 1 to {MOST_KEY} bytes without blanks"));
    }
    let (text, expects) = match (verb, rest.split_once(' ')) {
        ("get", None) => (format!("get {key}\r\n"), Expects::Values),
        ("set", Some((_, value))) => (format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()), Expects::Line),
        _ => return Err(form()),
    };
    let datagram = transport == Transport::Udp;
    let head = if datagram { &FRAME[..] } else { &[] };
    Ok(Message { bytes: [head, text.as_bytes()].concat(), number: datagram.then_some((0, 2)), expects })
}

/// Makes a command from a captured datagram, with its number set to 0. Errors are sentences.
pub(super) fn captured(mut bytes: Vec<u8>) -> Result<Message, String> {
    if bytes.len() <= FRAME.len() || !bytes.ends_with(b"\r\n") {
        return Err("it is no command of memcached".to_owned());
    }
    bytes[..2].fill(0);
    Ok(Message { bytes, number: Some((0, 2)), expects: Expects::Usual })
}

/// Words of the line at the start of `bytes`, and the line's length with its end (bytes). `None` if it has no end yet.
fn line(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    Some((line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect(), end + 1))
}

/// A command by its first word: the form of its answer, and the place of its block's length among the words. Answer
/// `None`: netcliff does not send the command.
fn verb(word: &[u8]) -> Option<(Option<Expects>, Option<usize>)> {
    match word {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => Some((Some(Expects::Line), Some(4))),
        b"get" | b"gets" | b"gat" | b"gats" => Some((Some(Expects::Values), None)),
        b"delete" | b"incr" | b"decr" | b"touch" | b"flush_all" | b"version" | b"verbosity" => {
            Some((Some(Expects::Line), None))
        }
        b"ms" => Some((None, Some(2))),
        b"mg" | b"md" | b"ma" | b"mn" | b"me" | b"stats" | b"quit" | b"slabs" | b"lru" | b"lru_crawler" | b"watch"
        | b"cache_memlimit" | b"shutdown" => Some((None, None)),
        _ => None,
    }
}

/// Parses the first command that a client sent over a connection. A command with `noreply` is sent without it, because
/// only an answer can be measured.
pub(super) fn first_request(bytes: &[u8]) -> Sent {
    const BROKEN: Sent = Sent::Broken("bytes that are no command of memcached");
    if bytes.first() == Some(&0x80) {
        return Sent::Broken("memcached's binary protocol");
    }
    let Some((mut words, head)) = line(bytes) else { return Sent::More };
    let Some((expects, length)) = words.first().and_then(|word| verb(word)) else { return BROKEN };
    let mut used = head;
    if let Some(place) = length {
        let number = words.get(place).and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
        let Some(end) = number.and_then(|length| head.checked_add(length)?.checked_add(2)) else { return BROKEN };
        match bytes.get(head..end) {
            Some(block) if block.ends_with(b"\r\n") => used = end,
            Some(_) => return BROKEN,
            None => return Sent::More,
        }
    }
    let mut sent = bytes[..used].to_vec();
    if expects == Some(Expects::Line) && words.len() > 1 && words.last() == Some(&&b"noreply"[..]) {
        words.pop();
        sent = [&words.join(&b' '), &b"\r\n"[..], &bytes[head..used]].concat();
    }
    let message = expects.map(|expects| Message { bytes: sent, number: None, expects });
    let message = message.ok_or("commands of memcached other than reads and writes of values (stats, mg, quit, ...)");
    Sent::Request { used, message }
}

/// True if the bytes begin with a whole command line.
pub(super) fn begins(bytes: &[u8]) -> bool {
    line(bytes).is_some_and(|(words, _)| words.first().is_some_and(|word| verb(word).is_some()))
}

/// Answers of one line that report no error: that a value did not exist, or had changed, is no error.
const LINES: [&[u8]; 7] = [b"STORED", b"NOT_STORED", b"EXISTS", b"NOT_FOUND", b"DELETED", b"TOUCHED", b"OK"];

/// Parses the first answer of a stream.
pub(super) fn of_stream(expects: Expects, bytes: &[u8]) -> Parsed {
    let mut at = 0;
    loop {
        let Some(length) = bytes[at..].windows(2).position(|two| two == b"\r\n") else { return Parsed::More };
        let line = &bytes[at..at + length];
        at += length + 2;
        if expects == Expects::Values && line.starts_with(b"VALUE ") {
            let text = String::from_utf8_lossy(line);
            let length = text.split(' ').nth(3).and_then(|length| length.parse::<usize>().ok());
            let Some(next) = length.and_then(|length| at.checked_add(length)?.checked_add(2)) else {
                return Parsed::Broken("no answer of memcached");
            };
            if next > bytes.len() {
                return Parsed::More;
            }
            at = next;
        } else {
            let is_number = !line.is_empty() && line.iter().all(u8::is_ascii_digit);
            let right = match expects {
                Expects::Values => line == b"END",
                _ => LINES.contains(&line) || is_number || line.starts_with(b"VERSION "),
            };
            return Parsed::Answer(Answer::of(at, right));
        }
    }
}

/// Parses the answer in a datagram; `None` if the datagram is too short, or not the last part of the answer.
pub(super) fn of_datagram(bytes: &[u8]) -> Option<Answer> {
    let (head, text) = bytes.split_at_checked(FRAME.len())?;
    let (part, parts) = (read_number(&head[2..4]), read_number(&head[4..6]));
    if part + 1 < parts {
        return None;
    }
    let right = text.ends_with(b"END\r\n") || text == b"STORED\r\n";
    Some(Answer { number: Some(read_number(&head[..2])), ..Answer::of(bytes.len(), right) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_form() {
        let set = command("set k a b", Transport::Tcp).unwrap();
        assert_eq!((&set.bytes[..], set.expects), (&b"set k 0 0 3\r\na b\r\n"[..], Expects::Line));
        let get = command("get k", Transport::Udp).unwrap();
        assert_eq!((&get.bytes[8..], get.number), (&b"get k\r\n"[..], Some((0, 2))));
        for line in ["get", "delete k", "get a b", "set k", &format!("get {}", "k".repeat(251))] {
            assert!(command(line, Transport::Tcp).is_err(), "{line}");
        }
    }

    #[test]
    fn a_captured_command_gets_another_number() {
        let get = command("get k", Transport::Udp).unwrap().bytes;
        let mut numbered = get.clone();
        numbered[1] = 9;
        assert_eq!(captured(numbered).unwrap().bytes, get);
        assert!(captured(get[..8].to_vec()).unwrap_err().contains("no command"));
    }

    #[test]
    fn captured_commands_are_whole_with_their_blocks() {
        let taken = |text: &str| match first_request(text.as_bytes()) {
            Sent::Request { used, message: Ok(message) } => {
                (used, String::from_utf8(message.bytes).unwrap(), message.expects)
            }
            other => panic!("{text}: {other:?}"),
        };
        for (text, expects) in [
            ("get a bb\r\n", Expects::Values),
            ("set k 0 0 3\r\na\r\n\r\n", Expects::Line),
            ("cas k 0 0 0 17\r\n\r\n", Expects::Line),
            ("incr k 2\r\n", Expects::Line),
        ] {
            assert_eq!(taken(&format!("{text}get")), (text.len(), text.to_owned(), expects));
            assert!(begins(text.as_bytes()));
            assert!((0..text.len()).all(|length| first_request(&text.as_bytes()[..length]) == Sent::More), "{text}");
        }
        assert_eq!(taken("add k 1 2 1 noreply\r\nx\r\n"), (24, "add k 1 2 1\r\nx\r\n".to_owned(), Expects::Line));
        let meta = first_request(b"ms k 2 T0\r\nhi\r\nmn\r\n");
        assert!(matches!(meta, Sent::Request { used: 15, message: Err(_) }), "{meta:?}");
        for text in [&b"hello\r\n"[..], b"set k 0 0 x\r\n", b"set k 0 0 1\r\nlong\r\n", b"\x80\x00"] {
            assert!(matches!(first_request(text), Sent::Broken(_)), "{text:?}");
        }
    }

    #[test]
    fn values_errors_and_misses_are_answers() {
        let hit = b"VALUE k 0 3\r\na\r\n\r\nEND\r\n";
        let values = |bytes: &[u8]| of_stream(Expects::Values, bytes);
        assert_eq!(values(hit), Parsed::Answer(Answer::of(hit.len(), true)));
        assert!((0..hit.len()).all(|length| values(&hit[..length]) == Parsed::More));
        assert_eq!(values(b"END\r\nEND\r\n"), Parsed::Answer(Answer::of(5, true)));
        let two = b"VALUE k 0 1 7\r\na\r\nVALUE l 0 0 8\r\n\r\nEND\r\n";
        assert_eq!(values(two), Parsed::Answer(Answer::of(two.len(), true)));
        assert!((0..two.len()).all(|length| values(&two[..length]) == Parsed::More));
        assert_eq!(values(b"SERVER_ERROR out of memory\r\n"), Parsed::Answer(Answer::of(28, false)));
        assert_eq!(of_stream(Expects::Line, b"STORED\r\n"), Parsed::Answer(Answer::of(8, true)));
        for (line, right) in [("NOT_FOUND", true), ("12", true), ("ERROR", false), ("CLIENT_ERROR bad", false)] {
            let answer = Parsed::Answer(Answer::of(line.len() + 2, right));
            assert_eq!(of_stream(Expects::Line, format!("{line}\r\n").as_bytes()), answer);
        }
        let first = [&[0, 7, 0, 0, 0, 2, 0, 0][..], b"VALUE"].concat();
        assert_eq!(of_datagram(&first), None);
        let last = [&[0, 7, 0, 1, 0, 2, 0, 0][..], b"END\r\n"].concat();
        assert_eq!(of_datagram(&last).map(|answer| (answer.number, answer.right)), Some((Some(7), true)));
    }
}
