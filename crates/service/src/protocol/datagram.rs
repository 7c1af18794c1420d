//! User-defined datagrams. An answer is matched to its request by bytes of the request that the service returns.

use super::{Answer, Expects, Message, read_number};

/// Position of a request's number in requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Offset in the request (bytes).
    pub offset: usize,
    /// Length (bytes, 1 to 8).
    pub length: usize,
    /// Offset in the answer (bytes).
    pub answer_offset: usize,
}

const FORM: &str =
    "expected OFFSET:LENGTH, such as 0:2, with @OFFSET if these bytes stand elsewhere in the answer, such as 4:4@0";

impl std::str::FromStr for Match {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (request, answer) = text.split_once('@').map_or((text, None), |(request, answer)| (request, Some(answer)));
        let (offset, length) = request.split_once(':').ok_or(FORM)?;
        let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number < 1 << 16).ok_or(FORM);
        let (offset, length) = (number(offset)?, number(length)?);
        let answer_offset = answer.map_or(Ok(offset), number)?;
        if (1..=8).contains(&length) { Ok(Self { offset, length, answer_offset }) } else { Err(FORM.to_owned()) }
    }
}

/// Parses a request in hexadecimal digits, optionally separated by blanks. Errors are sentences.
pub(crate) fn request(line: &str, by: Option<Match>) -> Result<Message, String> {
    let digits: Vec<u32> = line
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).ok_or_else(|| format!("`{c}` is no hexadecimal digit")))
        .collect::<Result<_, _>>()?;
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err("expected an even number of hexadecimal digits, such as 00010203".to_owned());
    }
    message(digits.chunks(2).map(|two| (two[0] * 16 + two[1]) as u8).collect(), by)
}

/// Makes a request of these bytes. It is an error if the number's position lies outside the bytes.
pub(super) fn message(bytes: Vec<u8>, by: Option<Match>) -> Result<Message, String> {
    if let Some(by) = by.filter(|by| by.offset + by.length > bytes.len()) {
        let (from, to) = (by.offset, by.offset + by.length);
        return Err(format!("--match: bytes {from} to {to} do not fit into a request of {} bytes", bytes.len()));
    }
    Ok(Message { bytes, number: by.map(|by| (by.offset, by.length)), expects: Expects::Usual })
}

/// Parses the answer in a datagram; `None` if it is too short for the number.
pub(super) fn of_datagram(by: Option<Match>, bytes: &[u8]) -> Option<Answer> {
    let number = match by {
        None => None,
        Some(by) => Some(read_number(bytes.get(by.answer_offset..by.answer_offset + by.length)?)),
    };
    Some(Answer { number, ..Answer::of(bytes.len(), true) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_names_bytes() {
        assert_eq!("0:2".parse(), Ok(Match { offset: 0, length: 2, answer_offset: 0 }));
        assert_eq!("4:4@0".parse(), Ok(Match { offset: 4, length: 4, answer_offset: 0 }));
        for text in ["", "2", "0:9", "0:0", "a:2", "0:2@", "-1:2", "99999999:2"] {
            assert!(text.parse::<Match>().unwrap_err().contains("OFFSET:LENGTH"), "{text}");
        }
    }

    #[test]
    fn requests_are_hexadecimal() {
        let by = "1:2".parse().ok();
        assert_eq!(request("00 0a0B", by).unwrap().bytes, [0, 10, 11]);
        for (line, by, part) in
            [("xyz", None, "`x`"), ("123", None, "even"), ("", None, "even"), ("0001", by, "--match")]
        {
            let error = request(line, by).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_answer_has_the_number_of_its_request() {
        let by = "4:2@1".parse().ok();
        assert_eq!(of_datagram(by, &[9, 1, 2]).and_then(|answer| answer.number), Some(258));
        assert_eq!(of_datagram(by, &[9, 1]), None);
        assert_eq!(of_datagram(None, &[]).map(|answer| answer.number), Some(None));
    }
}
