//! memcached: text commands (doc/protocol.txt of memcached 1.6), over UDP after a header of 8 bytes.

use super::{Answer, Expects, Message, Parsed, Transport, read_number};

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

/// Parses the first answer of a stream.
pub(super) fn of_stream(expects: Expects, bytes: &[u8]) -> Parsed {
    let Some(line) = bytes.windows(2).position(|two| two == b"\r\n") else { return Parsed::More };
    let first = &bytes[..line];
    match expects {
        Expects::Values if first.starts_with(b"VALUE ") => {
            let text = String::from_utf8_lossy(first);
            let Some(length) = text.split(' ').nth(3).and_then(|length| length.parse::<usize>().ok()) else {
                return Parsed::Broken("no answer of memcached");
            };
            let end = line + 2 + length + 2;
            match bytes.get(end..end + 5) {
                Some(b"END\r\n") => Parsed::Answer(Answer::of(end + 5, true)),
                Some(_) => Parsed::Broken("no answer of memcached"),
                None => Parsed::More,
            }
        }
        Expects::Values if first == b"END" => Parsed::Answer(Answer::of(line + 2, true)),
        _ => Parsed::Answer(Answer::of(line + 2, first == b"STORED")),
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
    fn values_errors_and_misses_are_answers() {
        let hit = b"VALUE k 0 3\r\na\r\n\r\nEND\r\n";
        let values = |bytes: &[u8]| of_stream(Expects::Values, bytes);
        assert_eq!(values(hit), Parsed::Answer(Answer::of(hit.len(), true)));
        assert!((0..hit.len()).all(|length| values(&hit[..length]) == Parsed::More));
        assert_eq!(values(b"END\r\nEND\r\n"), Parsed::Answer(Answer::of(5, true)));
        assert_eq!(values(b"SERVER_ERROR out of memory\r\n"), Parsed::Answer(Answer::of(28, false)));
        assert_eq!(of_stream(Expects::Line, b"STORED\r\n"), Parsed::Answer(Answer::of(8, true)));
        let first = [&[0, 7, 0, 0, 0, 2, 0, 0][..], b"VALUE"].concat();
        assert_eq!(of_datagram(&first), None);
        let last = [&[0, 7, 0, 1, 0, 2, 0, 0][..], b"END\r\n"].concat();
        assert_eq!(of_datagram(&last).map(|answer| (answer.number, answer.right)), Some((Some(7), true)));
    }
}
