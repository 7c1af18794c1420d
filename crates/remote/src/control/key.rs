//! The pre-shared key, and tokens that admit data connections.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use blake2::Blake2sMac;
use blake2::digest::Mac;
use blake2::digest::consts::U16;
use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use netcliff_host::files;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::ControlError;

/// Length of a key (bytes).
const KEY_BYTES: usize = 32;
/// A file longer than this is not a key file.
const LARGEST_FILE_BYTES: u64 = 256;

/// A secret of 32 bytes that both ends have. It is overwritten in memory when dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; KEY_BYTES]);

impl std::fmt::Debug for Key {
    /// Does not print the key itself: it would end up in a log.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(..)")
    }
}

impl Key {
    /// Reads a key file: 32 bytes as 64 hexadecimal digits or as base64.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file (reading a pipe would block), belongs to another user, is
    /// readable by others, or holds no key.
    pub fn read(path: &Path) -> Result<Self, ControlError> {
        let bad = |why: String| ControlError::Key { path: path.display().to_string(), why };
        let hint = "`netcliff agent --make-key FILE` makes one";
        let file = files::open(path).map_err(|e| bad(format!("{e}; {hint}")))?;
        let about = file.metadata().map_err(|e| bad(e.to_string()))?;
        let own = nix::unistd::geteuid().as_raw();
        if about.uid() != own {
            let owner = about.uid();
            return Err(bad(format!(
                "it belongs to user {owner}, who knows the key and may change it, and this process is of user {own}: chown it, or \
                 make a new key"
            )));
        }
        if about.mode() & 0o077 != 0 {
            let mode = about.mode() & 0o777;
            return Err(bad(format!(
                "its mode is {mode:04o}, so that others can use it: chmod 600 it, or make a new key"
            )));
        }
        let mut text = Zeroizing::new(String::with_capacity(LARGEST_FILE_BYTES as usize));
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
        let text = Zeroizing::new(HEXLOWER.encode(&key.0) + "\n");
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        // If the write fails, e.g. on a full disk, remove the empty file.
        written.inspect_err(|_| _ = std::fs::remove_file(path)).map_err(bad)?;
        Ok(key)
    }

    /// The token in the address of `netcliff serve`'s page: derived from the key, which cannot be computed from it.
    pub fn page_token(&self) -> String {
        HEXLOWER.encode(&self.page_mac().finalize().into_bytes())
    }

    /// Whether `shown` is the page token. The time of the comparison does not depend on where they differ.
    pub fn is_page_token(&self, shown: &str) -> bool {
        HEXLOWER.decode(shown.as_bytes()).is_ok_and(|bytes| self.page_mac().verify_slice(&bytes).is_ok())
    }

    fn page_mac(&self) -> Blake2sMac<U16> {
        let Ok(mac) = Blake2sMac::new_from_slice(&self.0) else { unreachable!("a key may have up to 32 bytes") };
        mac.chain_update(b"netcliff page")
    }

    /// The bytes of the key, for the cipher.
    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        let forms = [HEXLOWER_PERMISSIVE, BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD];
        let mut keys = forms.iter().filter_map(|form| {
            let bytes = Zeroizing::new(form.decode(text).ok()?);
            Some(Self(bytes.as_slice().try_into().ok()?))
        });
        keys.next()
    }
}

/// A secret of 16 bytes for one test, sent on the control channel only. Data connections are not encrypted: each is
/// admitted by a proof derived from these bytes, and each proof is valid for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Token([u8; Token::BYTES]);

/// The purpose of a proof. A proof for one direction is not valid in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Admission of a connection.
    Join,
    /// Confirmation by the far end.
    Answer,
}

/// The content of a proof: which connection it admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proven {
    /// Number of the flow.
    pub flow: u32,
    /// Number of the connection within this flow, from 0.
    pub number: u64,
}

impl Token {
    /// Length of a token (bytes).
    pub const BYTES: usize = 16;
    /// Length of a proof (bytes): a mark (2), flow (4, big-endian), number (8), and a MAC of these fields (16; BLAKE2s
    /// with the token as its key).
    pub const PROOF_BYTES: usize = 30;
    /// First bytes of a proof: no datagram of a test has a sequence number that begins like this.
    const MARK: [u8; 2] = [0xfe; 2];
    const CONTENT_BYTES: usize = 14;

    /// A new random token.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new() -> Result<Self, ControlError> {
        Ok(Self(random()?))
    }

    /// The proof for one connection of a flow.
    pub fn proof(&self, purpose: Purpose, of: Proven) -> [u8; Self::PROOF_BYTES] {
        let mut proof = [0; Self::PROOF_BYTES];
        proof[..2].copy_from_slice(&Self::MARK);
        proof[2..6].copy_from_slice(&of.flow.to_be_bytes());
        proof[6..Self::CONTENT_BYTES].copy_from_slice(&of.number.to_be_bytes());
        let mac = self.mac(purpose, &proof[..Self::CONTENT_BYTES]).finalize().into_bytes();
        proof[Self::CONTENT_BYTES..].copy_from_slice(&mac);
        proof
    }

    /// The content of a proof derived from this token. `None` if the proof is not valid. Compares in constant time.
    pub fn proven(&self, purpose: Purpose, shown: &[u8]) -> Option<Proven> {
        let (content, mac) = shown.split_at_checked(Self::CONTENT_BYTES)?;
        self.mac(purpose, content).verify_slice(mac).ok()?;
        let (flow, number) = (content[2..6].try_into().ok()?, content[6..].try_into().ok()?);
        Some(Proven { flow: u32::from_be_bytes(flow), number: u64::from_be_bytes(number) })
    }

    fn mac(&self, purpose: Purpose, content: &[u8]) -> Blake2sMac<U16> {
        let Ok(mac) = Blake2sMac::new_from_slice(&self.0) else { unreachable!("a key may have up to 32 bytes") };
        let purpose: &[u8] = match purpose {
            Purpose::Join => b"netcliff join",
            Purpose::Answer => b"netcliff answer",
        };
        mac.chain_update(purpose).chain_update(content)
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        HEXLOWER.encode(&token.0)
    }
}

impl TryFrom<String> for Token {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("a token is 32 hexadecimal digits, not {} characters", text.len()))
    }
}

fn random<const N: usize>() -> Result<[u8; N], ControlError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| ControlError::system("ask the kernel for random bytes")(e.into()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use netcliff_testkit::{Need, has};

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
    fn a_token_survives_its_text_and_proves_what_it_was_asked_to() {
        let token = Token::new().expect("random bytes");
        let other = Token::new().expect("random bytes");
        let back: Token = serde_json::from_str(&serde_json::to_string(&token).expect("text")).expect("the same");
        let of = Proven { flow: 258, number: 1 << 40 };
        let proof = back.proof(Purpose::Join, of);
        assert_eq!(token.proven(Purpose::Join, &proof), Some(of));
        assert_eq!(token.proven(Purpose::Answer, &proof), None, "an answer is no echo");
        assert_eq!(other.proven(Purpose::Join, &proof), None);
        assert!(!proof.windows(4).any(|part| token.0.windows(4).any(|own| own == part)), "the token is not shown");
        for length in [0, 13, 14, 29] {
            assert_eq!(token.proven(Purpose::Join, &proof[..length]), None);
        }
        for place in 0..proof.len() {
            let mut forged = proof;
            forged[place] ^= 1;
            assert_eq!(token.proven(Purpose::Join, &forged), None, "byte {place}");
        }
        assert!(serde_json::from_str::<Token>("\"00\"").unwrap_err().to_string().contains("32 hexadecimal"));
    }

    #[test]
    fn a_pipe_is_no_key_and_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("netcliff-key-pipe-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a new name");
        let message = Key::read(&path).map(|_| ()).expect_err("no file").to_string();
        std::fs::remove_file(&path).expect("it exists");
        assert!(message.contains("is a pipe"), "{message}");
    }

    #[test]
    fn a_key_of_another_owner_is_refused() {
        if !has(Need::Root) {
            return;
        }
        let path = std::env::temp_dir().join(format!("netcliff-foreign-key-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Key::make(&path).expect("a new file");
        Key::read(&path).expect("its owner's alone");
        std::os::unix::fs::chown(&path, Some(65_534), None).expect("root may");
        let message = Key::read(&path).map(|_| ()).expect_err("nobody's").to_string();
        std::fs::remove_file(&path).expect("it exists");
        assert!(message.contains("belongs to user 65534") && message.contains("chown"), "{message}");
    }
}
