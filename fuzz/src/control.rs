//! A client with or without a key sends any bytes to an agent. The agent refuses or answers them: it does not panic or
//! hang, and it leaves no test running.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use netcliff_packets::error::Refusal;
use netcliff_remote::control::Limits;
use netcliff_remote::control::agent::{Event, Log, Settings, serve_pipes};
use netcliff_remote::control::far::{Context, FarEnd, Kind};
use netcliff_remote::control::key::Key;
use netcliff_remote::control::stream::Stream;
use serde_json::Value;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

struct Nothing;

impl Kind for Nothing {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn start(&self, settings: &Value, _: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        if settings.is_null() {
            return Err("null".into());
        }
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Nothing))
    }
}

impl FarEnd for Nothing {
    fn ports(&self) -> Vec<u16> {
        vec![1]
    }

    fn report(&mut self) -> Result<Value, String> {
        Ok(Value::Null)
    }

    fn stop(self: Box<Self>) -> Value {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        Value::Null
    }
}

/// The key of the agent, made once for all inputs.
fn key() -> Key {
    static KEY: OnceLock<Key> = OnceLock::new();
    let made = || {
        let path = std::env::temp_dir().join(format!("netcliff-fuzz-{}", std::process::id()));
        let key = Key::make(&path).expect("room in the temporary directory");
        let _ = std::fs::remove_file(path);
        key
    };
    KEY.get_or_init(made).clone()
}

/// Sends the input, after its first byte, to an agent.
pub fn run(bytes: &[u8]) {
    let (mut client, agent) = UnixStream::pair().expect("a pair");
    // Bit 1 of the first byte says whether the agent has a key, and bit 0 whether a valid preamble goes before the
    // input. Without a valid preamble, an input would hardly ever reach the code after it.
    let (first, rest) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
    let key = (first & 2 != 0).then(key);
    let mut sent = if first & 1 != 0 { b"netcliff\x00\x02\x00\x00".to_vec() } else { Vec::new() };
    if let Some(keyed) = sent.get_mut(10) {
        *keyed = u8::from(key.is_some());
    }
    sent.extend(rest);
    let client = thread::spawn(move || {
        let mut reader = client.try_clone().expect("a descriptor");
        let drain = thread::spawn(move || reader.read_to_end(&mut Vec::new()));
        let _ = client.write_all(&sent);
        let _ = client.shutdown(Shutdown::Write);
        let _ = drain.join();
    });
    let read = OwnedFd::from(agent.try_clone().expect("a descriptor"));
    let stream = Stream::of(read, agent.into(), "fuzz").expect("non-blocking");
    let settings = Settings {
        key,
        limits: Limits { handshake_s: 2.0, message_s: 2.0, silence_s: 2.0, ..Limits::default() },
        kinds: vec![Arc::new(Nothing)],
        services: Vec::new(),
        version: "0".into(),
        stop: Arc::default(),
    };
    let log: Log = Arc::new(|_: &Event<'_>| ());
    let _ = serve_pipes(stream, None, &settings, &log);
    client.join().expect("the client only writes and reads");
    assert_eq!(RUNNING.load(Ordering::SeqCst), 0, "a test was left running");
}
