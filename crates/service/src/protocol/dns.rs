//! DNS (RFC 1035, section 4): writes questions, and parses only the header of answers.

use super::{Answer, Expects, Message, Parsed, Sent, Transport, read_number};

/// Record types by name (RFC 1035 and its successors).
const TYPES: [(&str, u16); 18] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("HINFO", 13),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("NAPTR", 35),
    ("DS", 43),
    ("DNSKEY", 48),
    ("TLSA", 52),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("ANY", 255),
    ("CAA", 257),
];
const HEAD: usize = 12;
/// Types of questions for a whole zone: IXFR (RFC 1995) and AXFR (RFC 5936).
const TRANSFERS: [u64; 2] = [251, 252];
/// Response codes by which a server reports that it did not answer the question: format error, server failure, not
/// implemented, refused.
const FAILURES: [u8; 4] = [1, 2, 4, 5];

/// Makes the question from a line `NAME [TYPE]`, as in dnsperf's files. Errors are sentences.
pub(crate) fn question(line: &str, transport: Transport) -> Result<Message, String> {
    let mut words = line.split_whitespace();
    let (Some(name), kind, None) = (words.next(), words.next().unwrap_or("A"), words.next()) else {
        return Err("expected a name and a type, such as `www.example.com A`".to_owned());
    };
    let upper = kind.to_ascii_uppercase();
    let numbered = upper.strip_prefix("TYPE").and_then(|number| number.parse().ok());
    let kind = TYPES.iter().find(|(known, _)| *known == upper).map(|(_, number)| *number).or(numbered);
    let kind = kind.ok_or_else(|| format!("`{upper}` is no type: expected A, AAAA, MX, ... or TYPE257"))?;
    let name = encoded(name)?;
    let length = (HEAD + name.len() + 4) as u16;
    let stream = transport == Transport::Tcp;
    let mut bytes = if stream { length.to_be_bytes().to_vec() } else { Vec::new() };
    // Number 0, recursion desired, one question.
    bytes.extend([0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(name);
    bytes.extend(kind.to_be_bytes());
    bytes.extend(1u16.to_be_bytes());
    Ok(Message { bytes, number: Some((if stream { 2 } else { 0 }, 2)), expects: Expects::Usual })
}

/// Makes a question from a captured datagram, with its number set to 0. Errors are sentences.
pub(super) fn captured(mut bytes: Vec<u8>) -> Result<Message, String> {
    if bytes.len() < HEAD || bytes[2] & 0x80 != 0 {
        return Err("it is no question of DNS".to_owned());
    }
    bytes[..2].fill(0);
    Ok(Message { bytes, number: Some((0, 2)), expects: Expects::Usual })
}

/// Parses the first question that a client sent over a connection.
pub(super) fn first_request(bytes: &[u8]) -> Sent {
    let Some(length) = bytes.get(..2).map(|length| read_number(length) as usize) else { return Sent::More };
    let Some(question) = bytes.get(2..2 + length) else { return Sent::More };
    let Ok(Message { bytes: question, .. }) = captured(question.to_vec()) else {
        return Sent::Broken("bytes that are no question of DNS");
    };
    let is_transfer = kind(&question).is_some_and(|kind| TRANSFERS.contains(&kind));
    let whole = Message { bytes: [&bytes[..2], &question].concat(), number: Some((2, 2)), expects: Expects::Usual };
    let message = if is_transfer { Err("transfers of zones, whose answers have several messages") } else { Ok(whole) };
    Sent::Request { used: 2 + length, message }
}

/// True if the bytes begin with a whole message of one question.
pub(super) fn begins(bytes: &[u8]) -> bool {
    let Some(length) = bytes.get(..2).map(|length| read_number(length) as usize) else { return false };
    bytes.get(2..2 + length).is_some_and(|question| {
        // Not an answer, opcode QUERY, one question and no answers.
        question.len() > HEAD && question[2] & 0xf8 == 0 && question[4..8] == [0, 1, 0, 0] && kind(question).is_some()
    })
}

/// Type of a message's first question. `None` if the message ends before it, or if its name is no list of labels.
fn kind(message: &[u8]) -> Option<u64> {
    let mut at = HEAD;
    loop {
        match *message.get(at)? {
            0 => break,
            label @ 1..=63 => at += 1 + usize::from(label),
            _ => return None,
        }
    }
    // Type and class.
    message.get(at + 1..at + 5).map(|fields| read_number(&fields[..2]))
}

fn encoded(name: &str) -> Result<Vec<u8>, String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|_| !name.is_empty()) {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length));
        bytes.push(length.ok_or_else(|| format!("`{name}`: each part of a name has 1 to 63 bytes"))?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    if bytes.len() > 255 { Err(format!("`{name}`: a name has at most 255 bytes")) } else { Ok(bytes) }
}

/// Parses the header of the answer in a datagram; `None` if the datagram is shorter than the first four bytes of a
/// header.
pub(super) fn of_datagram(bytes: &[u8]) -> Option<Answer> {
    let (is_answer, code) = (bytes.get(2)? & 0x80 != 0, bytes.get(3)? & 0x0f);
    let right = is_answer && bytes.len() >= HEAD && !FAILURES.contains(&code);
    Some(Answer { number: Some(read_number(&bytes[..2])), ..Answer::of(bytes.len(), right) })
}

/// Parses the first answer of a stream.
pub(super) fn of_stream(bytes: &[u8]) -> Parsed {
    let Some(length) = bytes.get(..2).map(|length| read_number(length) as usize) else { return Parsed::More };
    let Some(answer) = bytes.get(2..2 + length) else { return Parsed::More };
    match of_datagram(answer) {
        Some(answer) => Parsed::Answer(Answer { used: 2 + length, ..answer }),
        None => Parsed::Broken("an answer shorter than a head"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_the_form_of_the_standard() {
        let made = question("www.example.com. AAAA", Transport::Udp).unwrap();
        let name = b"\x03www\x07example\x03com\x00";
        assert_eq!(made.bytes[2..12], [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!((&made.bytes[12..29], &made.bytes[29..]), (&name[..], &[0, 28, 0, 1][..]));
        let stream = question("www.example.com AAAA", Transport::Tcp).unwrap();
        assert_eq!((&stream.bytes[..2], stream.number), (&[0, 33][..], Some((2, 2))));
        assert_eq!(question(". NS", Transport::Udp).unwrap().bytes.len(), 17);
        assert_eq!(question("a type65", Transport::Udp).unwrap().bytes[15..17], [0, 65]);
    }

    #[test]
    fn what_is_no_question_is_refused() {
        for (line, part) in [("a b c", "a name and a type"), ("a NONSENSE", "no type"), ("a..b", "1 to 63 bytes")] {
            let error = question(line, Transport::Udp).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(question(&"a.".repeat(200), Transport::Udp).unwrap_err().contains("255"));
        for bytes in [vec![0; HEAD - 1], vec![0xff; HEAD]] {
            assert!(captured(bytes).unwrap_err().contains("no question"));
        }
    }

    #[test]
    fn questions_of_a_connection_have_a_length() {
        let mut sent = question("www.example.com AAAA", Transport::Tcp).unwrap();
        let bytes = [&[0, 33, 7, 9][..], &sent.bytes[4..], &[0, 33]].concat();
        assert_eq!(first_request(&bytes), Sent::Request { used: 35, message: Ok(sent.clone()) });
        assert!(begins(&bytes) && (0..35).all(|length| first_request(&bytes[..length]) == Sent::More));
        assert!(!(0..35).any(|length| begins(&bytes[..length])));
        sent.bytes[4] |= 0x80;
        assert!(matches!(first_request(&sent.bytes), Sent::Broken(_)) && !begins(&sent.bytes));
        let zone = question("example.com TYPE252", Transport::Tcp).unwrap().bytes;
        assert!(matches!(first_request(&zone), Sent::Request { message: Err(why), .. } if why.contains("zones")));
    }

    #[test]
    fn answers_have_a_number_and_a_code() {
        let answer = [0x12, 0x34, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0];
        let read = of_datagram(&answer).unwrap();
        assert_eq!((read.number, read.right), (Some(0x1234), true));
        let with = |place: usize, byte: u8| {
            let mut changed = answer;
            changed[place] = byte;
            of_datagram(&changed).unwrap().right
        };
        assert!(with(3, 3), "a name that does not exist is an answer");
        assert!(!with(3, 2) && !with(3, 5), "SERVFAIL and REFUSED");
        assert!(!with(2, 1), "a question");
        assert_eq!(of_datagram(&[1, 2]), None);
        let stream = [&[0, 12][..], &answer, &[0, 12, 1]].concat();
        assert_eq!(of_stream(&stream), Parsed::Answer(Answer { used: 14, ..read }));
        assert_eq!(of_stream(&stream[..13]), Parsed::More);
    }
}
