//! Any bytes, sent to an agent by a client without a key or with one, are refused or answered: no panic, no hang, no test left
//! running.
//!
//! `cargo +nightly fuzz run control -- -max_total_time=60`

#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use libfuzzer_sys::fuzz_target;
use netcliff_wire::control::Limits;
use netcliff_wire::control::agent::{Event, Log, Settings, serve_pipes};
use netcliff_wire::control::far::{Context, FarEnd, Kind};
use netcliff_wire::control::stream::Stream;
use serde_json::Value;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

struct Nothing;

impl Kind for Nothing {
    fn name(&self) -> &'static str {
        "rr"
    }

    fn start(&self, settings: &Value, _: &Context) -> Result<Box<dyn FarEnd>, String> {
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

fuzz_target!(|bytes: &[u8]| {
    let (mut client, agent) = UnixStream::pair().expect("a pair");
    // The first byte says whether the preamble is right, so that the messages behind it are reached too.
    let (right, rest) = bytes.split_first().map_or((false, bytes), |(first, rest)| (first & 1 == 1, rest));
    let preamble: &[u8] = if right { b"netcliff\x00\x01\x00\x00" } else { b"" };
    let sent = [preamble, rest].concat();
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
        key: None,
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
});
