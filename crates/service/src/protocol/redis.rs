//! redis: writes commands and parses replies of RESP 2 (redis.io/docs/reference/protocol-spec).

use super::{Answer, Expects, Message, Parsed};

/// Deepest nesting of arrays; deeper replies count as malformed.
const DEEPEST: u32 = 8;

/// Makes the command from a line of words separated by blanks. Errors are sentences.
pub(crate) fn command(line: &str) -> Result<Message, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.is_empty() {
        return Err("expected a command, such as `GET key`".to_owned());
    }
    let words: String = std::iter::once(format!("*{}\r\n", words.len()))
        .chain(words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())))
        .collect();
    Ok(Message { bytes: words.into_bytes(), number: None, expects: Expects::Usual })
}

/// Parses the first reply of a stream.
pub(super) fn of_stream(bytes: &[u8]) -> Parsed {
    match reply(bytes, 0) {
        Ok(Some(used)) => Parsed::Answer(Answer::of(used, bytes[0] != b'-')),
        Ok(None) => Parsed::More,
        Err(()) => Parsed::Broken("no reply of redis"),
    }
}

/// Length of the complete reply at the start of `bytes`; `None` if the reply is not complete yet.
fn reply(bytes: &[u8], depth: u32) -> Result<Option<usize>, ()> {
    let Some(kind) = bytes.first() else { return Ok(None) };
    let line = bytes.windows(2).position(|two| two == b"\r\n");
    if !b"+-:$*".contains(kind) || depth > DEEPEST {
        return Err(());
    }
    let Some(line) = line else { return Ok(None) };
    let number = || std::str::from_utf8(&bytes[1..line]).ok().and_then(|text| text.parse::<i64>().ok()).ok_or(());
    let after = line + 2;
    match kind {
        b'$' => match usize::try_from(number()?) {
            Err(_) => Ok(Some(after)),
            Ok(length) => {
                let end = after.checked_add(length).and_then(|end| end.checked_add(2)).ok_or(())?;
                Ok((bytes.len() >= end).then_some(end))
            }
        },
        b'*' => {
            let mut end = after;
            for _ in 0..number()?.max(0) {
                match reply(&bytes[end..], depth + 1)? {
                    Some(used) => end += used,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Ok(Some(after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array() {
        assert_eq!(command("SET k v").unwrap().bytes, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
        assert!(command("  ").is_err());
    }

    #[test]
    fn replies_of_each_kind_are_read_whole() {
        for reply in
            ["+OK\r\n", ":12\r\n", "$-1\r\n", "$3\r\na\r\n\r\n", "*2\r\n$1\r\na\r\n:1\r\n", "*0\r\n", "*-1\r\n"]
        {
            assert_eq!(of_stream(reply.as_bytes()), Parsed::Answer(Answer::of(reply.len(), true)), "{reply:?}");
            assert!((0..reply.len()).all(|length| of_stream(&reply.as_bytes()[..length]) == Parsed::More), "{reply:?}");
        }
        assert_eq!(of_stream(b"-ERR no\r\n"), Parsed::Answer(Answer::of(9, false)));
        assert!(matches!(of_stream(b"HTTP/1.1"), Parsed::Broken(_)));
    }
}
