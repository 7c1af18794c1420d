//! Messages over a byte stream: an unencrypted preamble, then messages of bounded length, encrypted if there is a key.
//!
//! Each end first sends 12 bytes: `netcliff`, the version (big-endian), its security (0 none, 1 key), and a status.
//! With a key, a Noise NNpsk0 handshake follows. It covers both preambles, so that nobody in between can downgrade the
//! connection. A message is its length (4 bytes, big-endian) and JSON. With a key this is cut into records of at most
//! 64 KiB, each a length (2 bytes) and a ciphertext.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use snow::StatelessTransportState;

use super::stream::{End, Stream};
use super::{ControlError, Limits};

/// Largest Noise message, and the number of plain bytes in it.
pub(super) const RECORD_BYTES: usize = 65_535;
const RECORD_PLAIN_BYTES: usize = RECORD_BYTES - 16;
/// How often the threads of both ends check whether to stop.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes per read call.
const READ_BYTES: usize = 16 << 10;

/// The sending half of a channel, for messages of type `M`.
#[derive(Debug)]
pub struct Sender<M> {
    end: End,
    cipher: Option<Half>,
    limits: Limits,
    /// Largest message (bytes).
    most: usize,
    peer: String,
    messages: PhantomData<fn(M)>,
}

/// The receiving half of a channel, for messages of type `M`.
#[derive(Debug)]
pub struct Receiver<M> {
    end: End,
    cipher: Option<Half>,
    /// Bytes as received, possibly encrypted.
    raw: Vec<u8>,
    /// Decrypted bytes of messages.
    plain: Vec<u8>,
    /// When the first byte of an unfinished message arrived.
    began: Option<Instant>,
    limits: Limits,
    most: Most,
    peer: String,
    messages: PhantomData<fn() -> M>,
}

/// Limits of a received message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    pub bytes: usize,
    /// Largest number of values. `None`: no limit, because the sender is trusted with this host's memory.
    pub values: Option<usize>,
}

/// At most one in this many values of a message may be a list or an object.
const VALUES_A_GROUP: usize = 16;

impl Most {
    /// Whether parsing the text takes no more memory than a small multiple of its length: an empty object has two bytes
    /// as text and some hundred when parsed. Commas and brackets in strings count too; no message has many.
    fn allows(self, json: &[u8]) -> bool {
        let count = |these: &[u8]| json.iter().filter(|byte| these.contains(byte)).count();
        self.values.is_none_or(|values| count(b"[{,") <= values && count(b"[{") <= values / VALUES_A_GROUP)
    }
}

/// One direction of the encrypted connection.
#[derive(Debug)]
struct Half {
    state: Arc<StatelessTransportState>,
    nonce: u64,
}

/// Splits a stream into its two halves after the handshake. The arguments give the largest message sent (bytes) and the
/// limits of received messages.
pub(super) fn halves<S, R>(
    stream: Stream,
    limits: Limits,
    (most_sent, most_received): (usize, Most),
    cipher: Option<&Arc<StatelessTransportState>>,
) -> (Sender<S>, Receiver<R>) {
    let Stream { read, write, peer } = stream;
    let half = || cipher.map(|state| Half { state: Arc::clone(state), nonce: 0 });
    let (cipher, messages) = (half(), PhantomData);
    let sender = Sender { end: write, cipher, limits, most: most_sent, peer: peer.clone(), messages };
    let receiver = Receiver {
        end: read,
        cipher: half(),
        raw: Vec::new(),
        plain: Vec::new(),
        began: None,
        limits,
        most: most_received,
        peer,
        messages: PhantomData,
    };
    (sender, receiver)
}

/// Converts an I/O error: `Closed` if the other end or the network ended the connection, otherwise a failed system
/// call.
pub(super) fn broken(peer: &str, error: io::Error) -> ControlError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => {
            ControlError::Closed { peer: peer.to_owned() }
        }
        _ => ControlError::System { action: format!("talk to {peer}"), source: error },
    }
}

impl<M: Serialize> Sender<M> {
    /// Sends one message.
    ///
    /// # Errors
    /// The message exceeds the limit, the other end does not accept it in time, or the connection is closed.
    pub fn send(&mut self, message: &M) -> Result<(), ControlError> {
        let peer = || self.peer.clone();
        let json = serde_json::to_vec(message)
            .map_err(|e| ControlError::Malformed { peer: "this end".into(), why: e.to_string() })?;
        if json.len() > self.most {
            let (bytes, most) = (json.len(), self.most);
            return Err(ControlError::TooLarge { peer: "this end".into(), bytes, most });
        }
        let mut bytes = [&(json.len() as u32).to_be_bytes(), &json[..]].concat();
        if let Some(cipher) = &mut self.cipher {
            bytes = cipher.seal(&bytes).map_err(|e| ControlError::Malformed { peer: peer(), why: e.to_string() })?;
        }
        let limit_s = self.limits.message_s;
        let deadline = Instant::now() + Duration::from_secs_f64(limit_s);
        match self.end.write_all(&bytes, deadline).map_err(|e| broken(&self.peer, e))? {
            true => Ok(()),
            false => Err(ControlError::Slow { peer: peer(), what: "taking a message", limit_s }),
        }
    }
}

impl<M> Sender<M> {
    /// From now on the other end has at most one second to accept a message.
    pub(super) fn hurry(&mut self) {
        self.limits.message_s = self.limits.message_s.min(1.0);
    }
}

impl<M> Receiver<M> {
    /// Name of the other end, for messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }
}

impl<M: DeserializeOwned> Receiver<M> {
    /// Receives the next message. `None` if no message began within `wait`. A message that has begun must be complete
    /// within the time limit of a message.
    ///
    /// # Errors
    /// The bytes received are not a message, the message is too large or too slow, or the connection is closed.
    pub fn receive(&mut self, wait: Duration) -> Result<Option<M>, ControlError> {
        let quiet = Instant::now() + wait;
        loop {
            if let Some(message) = self.parse()? {
                return Ok(Some(message));
            }
            let limit = Duration::from_secs_f64(self.limits.message_s);
            let deadline = self.began.map_or(quiet, |began| began + limit);
            let before = self.raw.len();
            self.raw.resize(before + READ_BYTES, 0);
            let read = self.end.read(&mut self.raw[before..], deadline);
            self.raw.truncate(before + read.as_ref().ok().copied().flatten().unwrap_or(0));
            match read.map_err(|e| broken(&self.peer, e))? {
                None if self.began.is_none() => return Ok(None),
                None => {
                    let limit_s = self.limits.message_s;
                    return Err(ControlError::Slow { peer: self.peer.clone(), what: "one message", limit_s });
                }
                Some(0) => return Err(ControlError::Closed { peer: self.peer.clone() }),
                Some(_) => {
                    self.began.get_or_insert_with(Instant::now);
                    self.open()?;
                }
            }
        }
    }

    /// Decrypts the complete records of `raw` into `plain`. Without a key, moves all bytes.
    fn open(&mut self) -> Result<(), ControlError> {
        let Some(cipher) = &mut self.cipher else {
            self.plain.append(&mut self.raw);
            return Ok(());
        };
        while let Some((length, rest)) = self.raw.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(record) = rest.get(..length) else { break };
            let failed = |e: snow::Error| ControlError::Malformed { peer: self.peer.clone(), why: e.to_string() };
            cipher.open(record, &mut self.plain).map_err(failed)?;
            self.raw.drain(..2 + length);
        }
        Ok(())
    }

    fn parse(&mut self) -> Result<Option<M>, ControlError> {
        let Some((length, rest)) = self.plain.split_first_chunk::<4>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*length) as usize;
        let most = self.most.bytes;
        if bytes > most {
            return Err(ControlError::TooLarge { peer: self.peer.clone(), bytes, most });
        }
        let Some(json) = rest.get(..bytes) else { return Ok(None) };
        if !self.most.allows(json) {
            let why = format!("more than {} values", self.most.values.unwrap_or_default());
            return Err(ControlError::Malformed { peer: self.peer.clone(), why });
        }
        let message = serde_json::from_slice(json)
            .map_err(|e| ControlError::Malformed { peer: self.peer.clone(), why: e.to_string() })?;
        self.plain.drain(..4 + bytes);
        self.began = (!self.plain.is_empty() || !self.raw.is_empty()).then(Instant::now);
        Ok(Some(message))
    }
}

impl Half {
    fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, snow::Error> {
        let mut sealed = Vec::with_capacity(plain.len() + 32);
        let mut record = vec![0; RECORD_BYTES];
        for chunk in plain.chunks(RECORD_PLAIN_BYTES) {
            let bytes = self.state.write_message(self.nonce, chunk, &mut record)?;
            self.nonce += 1;
            sealed.extend_from_slice(&(bytes as u16).to_be_bytes());
            sealed.extend_from_slice(&record[..bytes]);
        }
        Ok(sealed)
    }

    fn open(&mut self, record: &[u8], plain: &mut Vec<u8>) -> Result<(), snow::Error> {
        let mut opened = vec![0; record.len()];
        let bytes = self.state.read_message(self.nonce, record, &mut opened)?;
        self.nonce += 1;
        plain.extend_from_slice(&opened[..bytes]);
        Ok(())
    }
}
