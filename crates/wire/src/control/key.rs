//! The pre-shared key, and tokens that admit data connections.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ControlError;

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// A file longer than this is no key.
const LARGEST_FILE_BYTES: u64 = 256;

/// 32 secret bytes both ends have.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    /// Never the key itself: it would end up in a log.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(..)")
    }
}

impl Key {
    /// Reads a key file: 32 bytes as 64 hexadecimal digits or as base64.
    ///
    /// # Errors
    /// The file cannot be read, others may read it, or it holds no key.
    pub fn read(path: &Path) -> Result<Self, ControlError> {
        let bad = |why: String| ControlError::Key { path: path.display().to_string(), why };
        let hint = "`netcliff agent --make-key FILE` makes one";
        let file = File::open(path).map_err(|e| bad(format!("{e}; {hint}")))?;
        let about = file.metadata().map_err(|e| bad(e.to_string()))?;
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(bad(format!(
                "its mode is {mode:04o}, so that others can use it: chmod 600 it, or make a new key"
            )));
        }
        let mut text = String::new();
        file.take(LARGEST_FILE_BYTES)
            .read_to_string(&mut text)
            .map_err(|e| bad(format!("{e}; expected 64 hexadecimal digits or base64 of 32 bytes; {hint}")))?;
        Self::parse(text.trim()).ok_or_else(|| {
            bad(format!(
                "expected 32 bytes as 64 hexadecimal digits or as base64, found {} characters; {hint}",
                text.trim().len()
            ))
        })
    }

    /// Makes a key and writes it to a new file that only its owner can read.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn make(path: &Path) -> Result<Self, ControlError> {
        let bad = |why: std::io::Error| ControlError::Key {
            path: path.display().to_string(),
            why: match why.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    "it exists; a key is never overwritten: choose another name".into()
                }
                _ => why.to_string(),
            },
        };
        let key = Self(random()?);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(bad)?;
        file.write_all(format!("{}\n", hex(&key.0)).as_bytes()).and_then(|()| file.sync_all()).map_err(bad)?;
        Ok(key)
    }

    /// The bytes, for the cipher.
    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = unhex(text).or_else(|| unbase64(text))?;
        Some(Self(bytes.try_into().ok()?))
    }
}

/// 16 random bytes that a data connection shows to be let into a test; they travel on the control channel only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// Its length (bytes).
    pub const BYTES: usize = 16;

    /// A new one.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new() -> Result<Self, ControlError> {
        Ok(Self(random()?))
    }

    /// What a data connection sends first.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// True for the same bytes, in a time that does not tell how many of them agree.
    pub fn admits(&self, shown: &[u8]) -> bool {
        shown.len() == Self::BYTES && self.0.iter().zip(shown).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        hex(&token.0)
    }
}

impl TryFrom<String> for Token {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = unhex(&text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("a token is 32 hexadecimal digits, not {} characters", text.len()))
    }
}

fn random<const N: usize>() -> Result<[u8; N], ControlError> {
    let mut bytes = [0; N];
    let source = "/dev/urandom";
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(ControlError::system(format!("read random bytes from {source}")))?;
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for c in text.trim_end_matches('=').bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_the_same_key() {
        let hexadecimal = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHv8=";
        let key = Key::parse(hexadecimal).expect("64 digits");
        assert_eq!(key.0[31], 0xff);
        assert!(Key::parse(base64) == Some(key));
        assert!(Key::parse(&hexadecimal[2..]).is_none() && Key::parse("").is_none() && Key::parse("ü").is_none());
    }

    #[test]
    fn a_token_survives_its_text_and_admits_only_itself() {
        let token = Token::new().expect("random bytes");
        let other = Token::new().expect("random bytes");
        let back: Token = serde_json::from_str(&serde_json::to_string(&token).expect("text")).expect("the same");
        assert!(token.admits(back.bytes()) && !token.admits(other.bytes()) && !token.admits(&token.bytes()[1..]));
        assert!(serde_json::from_str::<Token>("\"00\"").unwrap_err().to_string().contains("32 hexadecimal"));
    }
}
