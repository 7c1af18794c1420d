//! The handshake: an unencrypted preamble, then a Noise NNpsk0 handshake if there is a key.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snow::StatelessTransportState;

use super::channel::{Most, RECORD_BYTES, Receiver, Sender, broken};
use super::key::Key;
use super::stream::Stream;
use super::{ControlError, Limits, PROTOCOL};

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const MAGIC: &[u8; 8] = b"netcliff";
const PREAMBLE_BYTES: usize = 12;

/// Limits of time and bytes for reading the answer of a peer that is not an agent.
const OTHER_PROTOCOL_TIME: Duration = Duration::from_millis(200);
const OTHER_PROTOCOL_BYTES: usize = 120;

/// Statuses of a preamble.
const GO_ON: u8 = 0;
const BUSY: u8 = 1;
const OTHER_USER: u8 = 2;

/// The client's side of preamble and handshake.
///
/// # Errors
/// The peer is another program or version, the keys differ, the agent is full, or the connection is slow or closed.
pub fn dial<S, R>(stream: Stream, key: Option<&Key>, limits: Limits) -> Result<(Sender<S>, Receiver<R>), ControlError> {
    let mut shake = Handshake::new(stream, limits);
    let ours = preamble(key.is_some(), GO_ON);
    // An agent without a free slot reports that and closes, maybe before our preamble is written: its status takes
    // precedence over a failed write.
    let written = shake.write(&ours);
    let theirs = shake.preamble()?;
    shake.same_version(&theirs)?;
    let peer = shake.stream.peer.clone();
    if theirs[11] == GO_ON {
        written?;
    }
    match (theirs[11], theirs[10] != 0, key) {
        (BUSY, ..) => Err(ControlError::Busy { peer }),
        (OTHER_USER, ..) => Err(ControlError::NotServed { peer }),
        (_, true, None) => Err(ControlError::KeyNeeded { peer }),
        (_, false, Some(_)) => Err(ControlError::KeyUnused { peer }),
        (_, false, None) => Ok(shake.client(None)),
        (_, true, Some(key)) => {
            let mut state = noise(key, &ours, &theirs, true)?;
            let mut message = vec![0; RECORD_BYTES];
            let bytes = state.write_message(&[], &mut message).map_err(|e| shake.malformed(e))?;
            shake.write_record(&message[..bytes])?;
            let answer = shake.record()?;
            if answer.is_empty() || state.read_message(&answer, &mut message).is_err() {
                return Err(ControlError::WrongKey { peer });
            }
            let state = state.into_stateless_transport_mode().map_err(|e| shake.malformed(e))?;
            Ok(shake.client(Some(Arc::new(state))))
        }
    }
}

/// The agent's side of preamble and handshake. With a key, only the first message authenticates the client: it proves
/// that the handshake is not a replay.
///
/// # Errors
/// See [`dial`].
pub fn answer<S, R>(
    stream: Stream,
    key: Option<&Key>,
    limits: Limits,
) -> Result<(Sender<S>, Receiver<R>), ControlError> {
    let mut shake = Handshake::new(stream, limits);
    let theirs = shake.preamble()?;
    let ours = preamble(key.is_some(), GO_ON);
    shake.write(&ours)?;
    shake.same_version(&theirs)?;
    let peer = shake.stream.peer.clone();
    match (theirs[10] != 0, key) {
        (false, Some(_)) => Err(ControlError::KeyNeeded { peer }),
        (true, None) => Err(ControlError::KeyUnused { peer }),
        (false, None) => Ok(shake.agent(None)),
        (true, Some(key)) => {
            let mut state = noise(key, &theirs, &ours, false)?;
            let mut message = vec![0; RECORD_BYTES];
            let asked = shake.record()?;
            if state.read_message(&asked, &mut message).is_err() {
                shake.write_record(&[])?;
                return Err(ControlError::WrongKey { peer });
            }
            let bytes = state.write_message(&[], &mut message).map_err(|e| shake.malformed(e))?;
            shake.write_record(&message[..bytes])?;
            let state = state.into_stateless_transport_mode().map_err(|e| shake.malformed(e))?;
            Ok(shake.agent(Some(Arc::new(state))))
        }
    }
}

/// Notifies a client that no slot is free. Gives up if writing would block.
pub(super) fn turn_away(stream: Stream, keyed: bool) {
    say(stream, &preamble(keyed, BUSY));
}

/// Notifies a client that its user is not served. Gives up if writing would block.
pub(super) fn turn_away_user(stream: Stream) {
    say(stream, &preamble(false, OTHER_USER));
}

fn say(mut stream: Stream, preamble: &[u8]) {
    // If the write fails, the client is gone.
    let _ = stream.write.write_all(preamble, Instant::now());
}

fn preamble(keyed: bool, status: u8) -> [u8; PREAMBLE_BYTES] {
    let mut bytes = [0; PREAMBLE_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&PROTOCOL.to_be_bytes());
    bytes[10] = u8::from(keyed);
    bytes[11] = status;
    bytes
}

fn noise(key: &Key, client: &[u8], agent: &[u8], initiator: bool) -> Result<snow::HandshakeState, ControlError> {
    let prologue = [client, agent].concat();
    let failed = |e: snow::Error| ControlError::system("set up the cipher")(io::Error::other(e.to_string()));
    let builder = snow::Builder::new(NOISE.parse().map_err(failed)?);
    let builder = builder.psk(0, key.bytes()).and_then(|b| b.prologue(&prologue)).map_err(failed)?;
    if initiator { builder.build_initiator() } else { builder.build_responder() }.map_err(failed)
}

/// A stream during its handshake. One deadline applies to the whole handshake.
struct Handshake {
    stream: Stream,
    limits: Limits,
    deadline: Instant,
}

impl Handshake {
    fn new(stream: Stream, limits: Limits) -> Self {
        Self { stream, limits, deadline: Instant::now() + Duration::from_secs_f64(limits.handshake_s) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        let written = self.stream.write.write_all(bytes, self.deadline);
        match written.map_err(|e| broken(&self.stream.peer, e))? {
            true => Ok(()),
            false => Err(self.slow()),
        }
    }

    fn write_record(&mut self, record: &[u8]) -> Result<(), ControlError> {
        self.write(&[&(record.len() as u16).to_be_bytes(), record].concat())
    }

    /// Reads exactly `bytes` bytes; later bytes stay unread.
    fn read(&mut self, bytes: usize) -> Result<Vec<u8>, ControlError> {
        let mut buffer = vec![0; bytes];
        let mut filled = 0;
        while filled < bytes {
            let read = self.stream.read.read(&mut buffer[filled..], self.deadline);
            match read.map_err(|e| broken(&self.stream.peer, e))? {
                None => return Err(self.slow()),
                Some(0) => return Err(ControlError::Closed { peer: self.stream.peer.clone() }),
                Some(more) => filled += more,
            }
        }
        Ok(buffer)
    }

    fn record(&mut self) -> Result<Vec<u8>, ControlError> {
        let length = self.read(2)?;
        self.read(usize::from(u16::from_be_bytes([length[0], length[1]])))
    }

    fn preamble(&mut self) -> Result<Vec<u8>, ControlError> {
        // The first four bytes identify a peer that does not speak netcliff, which may send fewer bytes than a preamble
        // has.
        let mut bytes = self.read(4)?;
        if bytes[..] == MAGIC[..4] {
            bytes.extend(self.read(PREAMBLE_BYTES - 4)?);
        }
        // Text that begins with `netcliff`, such as a line of a shell, has a letter at this position; every protocol
        // version so far has a 0.
        if bytes.starts_with(MAGIC) && bytes[8] == 0 {
            return Ok(bytes);
        }
        bytes.extend(self.what_is_there());
        let answer = format!("{:?}", String::from_utf8_lossy(&bytes));
        Err(ControlError::NotAnAgent { peer: self.stream.peer.clone(), answer })
    }

    /// The rest of what a peer that does not speak netcliff has sent, up to the length that fits an error message.
    fn what_is_there(&mut self) -> Vec<u8> {
        let deadline = self.deadline.min(Instant::now() + OTHER_PROTOCOL_TIME);
        let mut buffer = [0; OTHER_PROTOCOL_BYTES];
        let mut filled = 0;
        while filled < buffer.len() {
            match self.stream.read.read(&mut buffer[filled..], deadline) {
                Ok(Some(more)) if more > 0 => filled += more,
                _ => break,
            }
        }
        buffer[..filled].to_vec()
    }

    fn same_version(&self, theirs: &[u8]) -> Result<(), ControlError> {
        match u16::from_be_bytes([theirs[8], theirs[9]]) {
            PROTOCOL => Ok(()),
            theirs => Err(ControlError::OtherVersion { peer: self.stream.peer.clone(), theirs }),
        }
    }

    fn slow(&self) -> ControlError {
        let peer = self.stream.peer.clone();
        ControlError::Slow { peer, what: "the handshake", limit_s: self.limits.handshake_s }
    }

    fn malformed(&self, error: snow::Error) -> ControlError {
        ControlError::Malformed { peer: self.stream.peer.clone(), why: error.to_string() }
    }

    fn client<S, R>(self, cipher: Option<Arc<StatelessTransportState>>) -> (Sender<S>, Receiver<R>) {
        let most = (self.limits.message_bytes, Most { bytes: self.limits.report_bytes, values: None });
        super::channel::halves(self.stream, self.limits, most, cipher.as_ref())
    }

    fn agent<S, R>(self, cipher: Option<Arc<StatelessTransportState>>) -> (Sender<S>, Receiver<R>) {
        let (bytes, values) = (self.limits.message_bytes, Some(self.limits.message_values));
        let most = (self.limits.report_bytes, Most { bytes, values });
        super::channel::halves(self.stream, self.limits, most, cipher.as_ref())
    }
}
