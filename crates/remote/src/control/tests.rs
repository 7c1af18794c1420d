//! Real connections on loopback: the agent serves good clients whatever bad clients do.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use netcliff_testkit::{Need, skip};
use serde_json::{Value, json};

use super::agent::{Agent, Event, Log, Settings, serve_pipes};
use super::client::Session;
use super::far::{Context, FarEnd, Kind, Opened, Service};
use super::key::Key;
use super::stream::{self, Stream};
use super::*;
use netcliff_packets::error::Refusal;
use netcliff_packets::sockopt;

mod faults;

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A kind of test that only counts its requests and its running instances.
#[derive(Default)]
struct Counting {
    running: Arc<AtomicU64>,
}

struct Count {
    asked: u64,
    ends_after: Option<u64>,
    token: String,
    running: Arc<AtomicU64>,
}

impl Kind for Counting {
    fn name(&self) -> &'static str {
        "count"
    }

    fn memory_bytes(&self, settings: &Value) -> u64 {
        settings["memory"].as_u64().unwrap_or(0)
    }

    fn start(&self, settings: &Value, context: &Context) -> Result<Box<dyn FarEnd>, Refusal> {
        if settings["impossible"] == true {
            return Err("impossible is true: leave it out".into());
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let (token, running) = (String::from(context.token), Arc::clone(&self.running));
        Ok(Box::new(Count { asked: 0, ends_after: settings["ends_after"].as_u64(), token, running }))
    }
}

impl FarEnd for Count {
    fn ports(&self) -> Vec<u16> {
        vec![1, 2]
    }

    fn info(&self) -> Value {
        json!({ "token": self.token })
    }

    fn report(&mut self) -> Result<Value, String> {
        self.asked += 1;
        Ok(json!({ "asked": self.asked, "padding": "x".repeat(200_000) }))
    }

    fn finished(&mut self) -> bool {
        self.ends_after.is_some_and(|most| self.asked >= most)
    }

    fn stop(self: Box<Self>) -> Value {
        json!({ "asked": self.asked })
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An agent in a thread of this process.
struct Host {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    running: Arc<AtomicU64>,
    served: Option<JoinHandle<Result<(), ControlError>>>,
}

impl Host {
    fn new(key: Option<Key>, limits: Limits) -> Self {
        Self::with(key, limits, Vec::new())
    }

    fn with(key: Option<Key>, limits: Limits, services: Vec<Arc<dyn Service>>) -> Self {
        let (settings, running) = settings(key, limits);
        let settings = Settings { services, ..settings };
        let stop = Arc::clone(&settings.stop);
        let agent = Agent::bind(&[LOOPBACK], settings, quiet()).expect("loopback can be listened on");
        let address = agent.addresses().expect("it listens")[0];
        Self { address, stop, running, served: Some(thread::spawn(move || agent.run())) }
    }

    fn session(&self, key: Option<&Key>) -> Result<Session, ControlError> {
        Session::connect(&self.address.to_string(), key, "0.0.0-test", short())
    }

    /// Waits until `count` tests run. Returns false after 3 s.
    fn runs(&self, count: u64) -> bool {
        within(3.0, || self.running.load(Ordering::SeqCst) == count)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let served = self.served.take().expect("it runs until here").join();
        if !thread::panicking() {
            served.expect("no panic").expect("it ends cleanly");
        }
    }
}

fn settings(key: Option<Key>, limits: Limits) -> (Settings, Arc<AtomicU64>) {
    let kind = Counting::default();
    let running = Arc::clone(&kind.running);
    let stop = Arc::default();
    (
        Settings { key, limits, kinds: vec![Arc::new(kind)], services: Vec::new(), version: "0.0.0-test".into(), stop },
        running,
    )
}

fn quiet() -> Log {
    Arc::new(|_: &Event<'_>| ())
}

/// Limits short enough for a unit test.
fn short() -> Limits {
    Limits { handshake_s: 0.6, message_s: 0.6, silence_s: 1.0, ..Limits::default() }
}

fn key() -> Key {
    let dir = std::env::temp_dir().join(format!("netcliff-key-{}-{:?}", std::process::id(), thread::current().id()));
    let _ = std::fs::remove_file(&dir);
    let key = Key::make(&dir).expect("a new file");
    assert!(Key::read(&dir).expect("just made") == key);
    std::fs::remove_file(&dir).expect("it exists");
    key
}

fn within(limit_s: f64, mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < limit_s {
        if is_so() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    is_so()
}

fn asked(report: &Value) -> u64 {
    report["asked"].as_u64().expect("a count")
}

#[test]
fn a_test_is_started_asked_and_stopped_in_the_clear_and_encrypted() {
    let key = key();
    for key in [None, Some(&key)] {
        let host = Host::new(key.cloned(), short());
        let mut session = host.session(key).expect("the same key");
        assert_eq!(session.hello.can, ["count"]);
        assert!(session.shares_clock(), "the same host");
        let ready = session.start("count", &json!({})).expect("it starts");
        assert_eq!(ready.ports, [1, 2]);
        assert_eq!(ready.info["token"], String::from(ready.token));
        for n in 1..=3 {
            assert_eq!(asked(&session.report().expect("it runs")), n);
        }
        let last = session.stop().expect("it runs");
        assert_eq!((asked(&last.report), last.partial), (3, None));
        // The same session can run another test.
        session.start("count", &json!({})).expect("it starts again");
        assert!(host.runs(1));
        drop(session);
        assert!(host.runs(0), "a client that goes takes its test along");
    }
}

/// A service that counts its users.
struct Shelf(Arc<AtomicU64>);

struct Book(Arc<AtomicU64>, u64);

impl Service for Shelf {
    fn name(&self) -> &'static str {
        "shelf"
    }

    fn open(&self) -> Result<Box<dyn Opened>, String> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(Box::new(Book(Arc::clone(&self.0), 0))),
            _ => {
                self.0.fetch_sub(1, Ordering::SeqCst);
                Err("another has it".into())
            }
        }
    }
}

impl Opened for Book {
    fn ask(&mut self, request: Value) -> Result<Value, String> {
        let page = request.as_u64().ok_or("not a page")?;
        self.1 += page;
        Ok(json!(self.1))
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_service_is_asked_between_tests_and_given_back_when_its_client_goes() {
    let taken = Arc::<AtomicU64>::default();
    let host = Host::with(None, short(), vec![Arc::new(Shelf(Arc::clone(&taken)))]);
    let mut session = host.session(None).expect("loopback");
    assert!(session.offers("shelf") && !session.offers("meter"));
    assert!(session.lacks("meter").contains("0.0.0-test") && session.lacks("meter").contains("same version"));
    for (page, sum) in [(3, 3), (4, 7)] {
        assert_eq!(session.ask("shelf", &page).expect("a page"), json!(sum), "it is the same book");
    }
    assert!(session.ask("shelf", &"x").unwrap_err().to_string().contains("not a page"));
    assert!(session.ask("lamp", &1).unwrap_err().to_string().contains("no service `lamp`"));
    let mut other = host.session(None).expect("loopback");
    assert!(other.ask("shelf", &1).unwrap_err().to_string().contains("another has it"));
    session.start("count", &json!({})).expect("it starts");
    assert!(session.ask("shelf", &1).unwrap_err().to_string().contains("a test is running"));
    session.stop().expect("it ends");
    assert_eq!(session.ask("shelf", &1).expect("a page"), json!(8), "it outlives a test");
    drop(session);
    assert!(within(3.0, || taken.load(Ordering::SeqCst) == 0), "a client that goes leaves it");
    assert_eq!(other.ask("shelf", &1).expect("it is free"), json!(1));
}

/// After a link was down, the ends hear each other again within about a second, not after another timeout as long as
/// the outage.
#[test]
fn what_is_lost_is_sent_again_every_second() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let most_ms = |stream: &TcpStream| sockopt::int(stream.as_fd(), stream::RTO_MAX_MS);
    if most_ms(&stream).is_none() {
        return skip(Need::Kernel, "no TCP_RTO_MAX_MS before Linux 6.15");
    }
    let _control = Stream::tcp(stream.try_clone().unwrap()).unwrap();
    assert_eq!(most_ms(&stream), Some(1000));
}

#[test]
fn a_test_beyond_its_time_and_an_idle_client_are_ended() {
    let host = Host::new(None, Limits { test_s: 0.3, idle_s: 0.3, ..short() });
    let mut session = host.session(None).expect("loopback");
    session.start("count", &json!({})).expect("it starts");
    assert!(host.runs(0), "it is ended");
    let error = session.report().unwrap_err().to_string();
    assert!(error.contains("ends tests after 0.3 s"), "{error}");
    let gone = session.gone();
    assert!(within(3.0, || gone.load(Ordering::Relaxed)), "the idle session is closed");
}

#[test]
fn tests_share_the_memory_of_an_agent() {
    let host = Host::new(None, Limits { memory_bytes: 1 << 30, ..short() });
    let mut sessions: Vec<Session> = (0..3).map(|_| host.session(None).expect("loopback")).collect();
    let most = json!({ "memory": 600 << 20 });
    sessions[0].start("count", &most).expect("there is room");
    for (at, asked) in [(1, &most), (2, &json!({ "memory": u64::MAX }))] {
        let refused = sessions[at].start("count", asked).unwrap_err().to_string();
        assert!(refused.contains("of the 1GiB of all tests of this agent 600MiB are taken"), "{refused}");
    }
    sessions[1].start("count", &json!({ "memory": 424 << 20 })).expect("the rest");
    assert!(sessions[2].start("count", &json!({ "memory": 1 })).is_err());
    // A refused test reserves no memory. A test that has ended or lost its client releases its memory.
    sessions.remove(1);
    assert!(host.runs(1), "its client is gone");
    assert!(sessions[1].start("count", &json!({ "memory": 424 << 20, "impossible": true })).is_err());
    sessions[0].stop().expect("it ends");
    // The agent releases the memory of a last report once it is sent, a moment after the client has it.
    let all = json!({ "memory": 1 << 30 });
    assert!(within(3.0, || sessions[1].start("count", &all).is_ok()), "all is free again");
}

#[test]
fn an_agent_that_is_stopped_gives_last_reports() {
    let host = Host::new(None, short());
    let mut session = host.session(None).expect("loopback");
    session.start("count", &json!({})).expect("it starts");
    session.report().expect("it runs");
    host.stop.store(true, Ordering::Relaxed);
    assert!(host.runs(0));
    let error = session.report().unwrap_err().to_string();
    assert!(error.contains("the agent was stopped") || error.contains("closed"), "{error}");
}

#[test]
fn pipes_carry_a_session_too() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let stream = |end: UnixStream| {
        let read = OwnedFd::from(end.try_clone().expect("a descriptor"));
        Stream::of(read, end.into(), "pipes").expect("non-blocking")
    };
    let theirs = stream(theirs);
    let (settings, running) = settings(None, short());
    let served = thread::spawn(move || serve_pipes(theirs, None, &settings, &quiet()));
    let mut session = Session::over(stream(ours), None, None, "0", short()).expect("a hello");
    session.start("count", &json!({})).expect("it starts");
    assert_eq!(asked(&session.report().expect("it runs")), 1);
    drop(session);
    served.join().expect("no panic").expect("a client may go");
    assert_eq!(running.load(Ordering::SeqCst), 0);
}
