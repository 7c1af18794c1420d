//! redis: writes commands and parses replies of RESP 2 (redis.io/docs/reference/protocol-spec).

use super::{Answer, Expects, Message, Parsed, Sent};

/// Deepest nesting of arrays; deeper replies count as malformed.
const DEEPEST: u32 = 8;
/// Most words of a command, as redis limits them.
const MOST_WORDS: usize = 1 << 20;
/// Commands that change what later commands of their connection mean, or end it. netcliff's connections are not those of
/// the capture, and each carries commands of several.
const OF_CONNECTION: [&str; 24] = [
    "ASKING",
    "AUTH",
    "CLIENT",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "RESET",
    "SELECT",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WATCH",
];
/// Commands that are answered when another client acts; also XREAD and XREADGROUP with BLOCK.
const WAITING: [&str; 10] =
    ["BLMOVE", "BLMPOP", "BLPOP", "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "WAIT", "WAITAOF"];

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

/// Parses the first command that a client sent over a connection: an array of bulk strings, or an inline command.
pub(super) fn first_request(bytes: &[u8]) -> Sent {
    let (words, used) = match words(bytes) {
        Ok(Some(whole)) => whole,
        Ok(None) => return Sent::More,
        Err(()) => return Sent::Broken("bytes that are no command of redis"),
    };
    let is = |word: &[u8], names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    let message = match words.split_first() {
        None => Err("commands of redis without a word"),
        Some((name, _)) if is(name, &OF_CONNECTION) => {
            Err("commands of redis for their connection (AUTH, SELECT, HELLO, MULTI, SUBSCRIBE, ...)")
        }
        Some((name, rest))
            if is(name, &WAITING)
                || is(name, &["XREAD", "XREADGROUP"]) && rest.iter().any(|word| is(word, &["BLOCK"])) =>
        {
            Err("commands of redis that wait for other clients (BLPOP, WAIT, XREAD BLOCK, ...)")
        }
        Some((name, _)) if is(name, &["SHUTDOWN"]) => Err("commands of redis that end the service (SHUTDOWN)"),
        Some(_) => Ok(Message { bytes: bytes[..used].to_vec(), number: None, expects: Expects::Usual }),
    };
    Sent::Request { used, message }
}

/// True if the bytes begin with an array of bulk strings.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some((count, rest)) = header(bytes, b'*').ok().flatten() else { return false };
    count > 0 && bytes.get(rest) == Some(&b'$')
}

/// Words of a command, and its length (bytes).
type Command<'a> = (Vec<&'a [u8]>, usize);

/// The command at the start of `bytes`. `None` if it is not complete yet.
fn words(bytes: &[u8]) -> Result<Option<Command<'_>>, ()> {
    if bytes.first().is_some_and(|byte| *byte != b'*') {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = bytes[..end.unwrap_or(bytes.len())].trim_ascii();
        if !line.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte)) {
            return Err(());
        }
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        return Ok(end.map(|end| (words, end + 1)));
    }
    let Some((count, mut at)) = header(bytes, b'*')? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..usize::try_from(count).unwrap_or(0) {
        let Some((length, head)) = header(&bytes[at..], b'$')? else { return Ok(None) };
        let from = at + head;
        let to = usize::try_from(length).ok().and_then(|length| from.checked_add(length)).ok_or(())?;
        let Some(word) = bytes.get(from..to.checked_add(2).ok_or(())?) else { return Ok(None) };
        words.push(word.strip_suffix(b"\r\n").ok_or(())?);
        at = to + 2;
    }
    Ok(Some((words, at)))
}

/// Number in the line at the start of `bytes`, which begins with `kind`, and the line's length (bytes). `None` if it is
/// not complete yet.
fn header(bytes: &[u8], kind: u8) -> Result<Option<(i64, usize)>, ()> {
    /// Most bytes of such a line: its kind, a sign and 19 digits, CR LF.
    const LONGEST: usize = 23;
    if bytes.first().is_some_and(|byte| *byte != kind) {
        return Err(());
    }
    let line = bytes[..bytes.len().min(LONGEST)].windows(2).position(|two| two == b"\r\n");
    let Some(line) = line else { return if bytes.len() < LONGEST { Ok(None) } else { Err(()) } };
    let number = std::str::from_utf8(&bytes[1..line]).ok().and_then(|text| text.parse::<i64>().ok()).ok_or(())?;
    if kind == b'*' && number > MOST_WORDS as i64 { Err(()) } else { Ok(Some((number, line + 2))) }
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
    fn captured_commands_are_arrays_or_lines() {
        for text in ["*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", "GET key\r\n", "PING\n"] {
            let message = Message { bytes: text.into(), number: None, expects: Expects::Usual };
            let whole = Sent::Request { used: text.len(), message: Ok(message) };
            assert_eq!(first_request(format!("{text}*1").as_bytes()), whole);
            assert!((0..text.len()).all(|length| first_request(&text.as_bytes()[..length]) == Sent::More), "{text}");
            assert_eq!(begins(text.as_bytes()), text.starts_with('*'));
        }
        for text in ["*1\r\n:1\r\n", "*x\r\n", "*2000000\r\n", "*1\r\n$1\r\nlong\r\n", "\x16\x03", "*1\r\n$-1\r\n"] {
            assert!(matches!(first_request(text.as_bytes()), Sent::Broken(_)), "{text:?}");
        }
        for (line, part) in [("select 1", "SELECT"), ("BLPOP a 0", "wait"), ("XREAD BLOCK 0 STREAMS a $", "wait")] {
            let command = command(line).unwrap().bytes;
            let sent = first_request(&command);
            assert!(
                matches!(sent, Sent::Request { used, message: Err(why) } if used == command.len() && why.contains(part))
            );
        }
        assert!(matches!(first_request(b"*0\r\n"), Sent::Request { used: 4, message: Err(_) }));
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
