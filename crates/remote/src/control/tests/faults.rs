//! Peers that are absent, foreign or misbehaving: each gives an error message and has no effect on other clients.

use super::*;

/// Connects to a server that answers with these bytes; returns the client's error message.
fn answers(bytes: &[u8]) -> String {
    let socket = TcpListener::bind(LOOPBACK).expect("a port");
    let address = socket.local_addr().expect("bound").to_string();
    let bytes = bytes.to_vec();
    let server = thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("the client comes");
        stream.write_all(&bytes).expect("it listens");
        // Keep the connection open until the client has closed it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = Session::connect(&address, None, "0", short()).unwrap_err().to_string();
    server.join().expect("no panic");
    error
}

#[test]
fn without_a_key_only_loopback_is_listened_on() {
    let bind = |address: &str| {
        Agent::bind(&[address.parse().expect("an address")], settings(None, short()).0, quiet()).map(|_| ())
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = bind(address).expect_err(address).to_string();
        assert!(error.contains("--key FILE") && error.contains("127.0.0.1"), "{error}");
    }
    bind("127.0.0.1:0").expect("loopback");
    let taken = TcpListener::bind(LOOPBACK).expect("a port");
    let error = bind(&taken.local_addr().expect("bound").to_string()).unwrap_err().to_string();
    assert!(error.contains("choose another port"), "{error}");
}

#[test]
fn keys_that_do_not_fit_are_told() {
    let (right, wrong) = (key(), key());
    let keyed = Host::new(Some(right), short());
    let error = keyed.session(Some(&wrong)).unwrap_err().to_string();
    assert!(error.contains("does not have the same key") && error.contains("copy the key file"), "{error}");
    let error = keyed.session(None).unwrap_err().to_string();
    assert!(error.contains("demands a key") && error.contains("--key"), "{error}");
    let open = Host::new(None, short());
    let error = open.session(Some(&wrong)).unwrap_err().to_string();
    assert!(error.contains("has no key"), "{error}");
}

#[test]
fn what_is_not_there_is_told() {
    let reach = |target: &str| Session::connect(target, None, "0", short()).unwrap_err().to_string();
    let error = reach("no-such-host.invalid");
    assert!(error.contains("no-such-host.invalid has no address"), "{error}");
    assert!(reach("localhost:99999").contains("\"99999\" is not a port"));
    let closed = TcpListener::bind(LOOPBACK).and_then(|socket| socket.local_addr()).expect("a port");
    let error = reach(&closed.to_string());
    assert!(
        error.contains(&format!("cannot reach an agent at {closed}")) && error.contains("netcliff agent"),
        "{error}"
    );
}

#[test]
fn other_programs_and_versions_are_told() {
    let error = answers(b"SSH-2.0-OpenSSH_9.2\r\n");
    assert!(error.contains("not a netcliff agent") && error.contains("SSH-"), "{error}");
    let error = answers(b"netcliff is on this host, says its motd\n");
    assert!(error.contains("not a netcliff agent") && error.contains("on this host, says its motd"), "{error}");
    let error = answers(b"netcliff\x00\x63\x00\x00");
    assert!(error.contains("control protocol 99") && error.contains("same version"), "{error}");
    let error = answers(b"netcliff\x00\x02\x00\x01");
    assert!(error.contains("no room"), "{error}");
    let error = answers(b"netcli");
    assert!(error.contains("more than 0.6 s for the handshake"), "{error}");
}

#[test]
fn tests_that_cannot_be_are_refused_and_the_session_lives() {
    let host = Host::new(None, short());
    let mut session = host.session(None).expect("loopback");
    let error = session.start("stream", &json!({})).unwrap_err().to_string();
    assert!(error.contains("cannot do `stream` (it can: count)"), "{error}");
    let error = session.start("count", &json!({ "impossible": true })).unwrap_err().to_string();
    assert!(error.contains("impossible is true"), "{error}");
    session.start("count", &json!({ "ends_after": 1 })).expect("it starts");
    assert_eq!(asked(&session.report().expect("it runs")), 1);
    let last = session.stop().expect("it ended by itself");
    assert_eq!((asked(&last.report), last.partial), (1, None));
}

#[test]
fn bad_clients_do_not_touch_a_running_test() {
    let key = key();
    let host = Host::new(Some(key.clone()), Limits { handshakes: 4, ..short() });
    let mut good = host.session(Some(&key)).expect("the same key");
    good.start("count", &json!({})).expect("it starts");
    let raw = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(host.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        stream.write_all(bytes).expect("it reads");
        stream
    };
    let mut bad = vec![
        raw(b"GET / HTTP/1.1\r\n\r\n"),
        raw(b"netcliff\x00\x02\x01\x00\xff\xff"),
        raw(b"netcliff\x00\x02\x01\x00\x00\x30not a key at all, but forty-eight bytes of noise.."),
        raw(b"netc"),
    ];
    // All slots for pending connections are or were just taken: the next connection is refused or waits.
    bad.push(raw(b""));
    for n in 1..=20 {
        assert_eq!(asked(&good.report().expect("it runs")), n);
    }
    for stream in &mut bad {
        // The agent closes each connection: by an end of file, or by a reset if it left bytes unread.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(asked(&good.report().expect("it still runs")), 21);
    host.session(Some(&key)).expect("there is room again");
}

/// Replaying a recorded session gives no access.
#[test]
fn what_was_heard_of_a_session_opens_none() {
    let key = key();
    let host = Host::new(Some(key.clone()), short());
    let relay = TcpListener::bind(LOOPBACK).expect("a port");
    let between = relay.local_addr().expect("bound").to_string();
    let agent = host.address;
    let heard = thread::spawn(move || {
        let (mut client, _) = relay.accept().expect("the client comes");
        let mut onward = TcpStream::connect(agent).expect("it listens");
        let (mut back, mut answers) = (client.try_clone().expect("a socket"), onward.try_clone().expect("a socket"));
        thread::spawn(move || std::io::copy(&mut answers, &mut back));
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(bytes @ 1..) = client.read(&mut buffer) {
            heard.extend(&buffer[..bytes]);
            onward.write_all(&buffer[..bytes]).expect("it reads");
        }
        heard
    });
    let mut session = Session::connect(&between, Some(&key), "0", short()).expect("the same key");
    session.start("count", &json!({})).expect("it starts");
    assert!(host.runs(1));
    drop(session);
    let heard = heard.join().expect("no panic");
    assert!(host.runs(0) && heard.len() > 100, "{}", heard.len());
    let mut again = TcpStream::connect(agent).expect("it listens");
    again.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    again.write_all(&heard).expect("it reads");
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    // The answer is only the preamble and the agent's half of a handshake (two bytes of length, an ephemeral key, a
    // MAC), no hello.
    assert!(answer.len() <= 12 + 2 + 32 + 16, "{} bytes", answer.len());
    assert_eq!(host.running.load(Ordering::SeqCst), 0);
    host.session(Some(&key)).expect("the right client is let in");
}

#[test]
fn silent_pending_connections_keep_no_client_out() {
    let key = key();
    let host = Host::new(Some(key.clone()), Limits { handshakes: 4, connections: 6, ..short() });
    let mut good = host.session(Some(&key)).expect("the same key");
    good.start("count", &json!({})).expect("it starts");
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(host.address).expect("it listens")).collect();
    for _ in 0..3 {
        let mut late = host.session(Some(&key)).expect("a pending connection is closed for it");
        late.start("count", &json!({})).expect("it starts");
        assert_eq!(asked(&late.report().expect("it runs")), 1);
    }
    assert_eq!(asked(&good.report().expect("it runs")), 1);
    drop(silent);
}

#[test]
fn oversized_slow_and_malformed_messages_end_their_session_only() {
    let host = Host::new(None, short());
    let mut good = host.session(None).expect("loopback");
    good.start("count", &json!({})).expect("it starts");
    let preamble = b"netcliff\x00\x02\x00\x00";
    let slow = b"\x00\x00\x00\x10{";
    let huge = b"\xff\xff\xff\xff";
    let broken = b"\x00\x00\x00\x05[1,2]";
    let other = b"\x00\x00\x00\x07\"alive\"";
    for bytes in [&slow[..], huge, broken, other] {
        let mut stream = TcpStream::connect(host.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
        stream.write_all(&[preamble, bytes].concat()).expect("it reads");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, preamble, "no hello after {bytes:?}");
    }
    assert_eq!(asked(&good.report().expect("it runs")), 1);
}

#[test]
fn a_client_that_falls_silent_is_given_up() {
    let host = Host::new(None, short());
    // The client sends a hello and a start and then nothing; the connection stays open.
    let mut stream = TcpStream::connect(host.address).expect("it listens");
    let say = |stream: &mut TcpStream, json: &str| {
        stream.write_all(&[&(json.len() as u32).to_be_bytes(), json.as_bytes()].concat()).expect("it reads");
    };
    stream.write_all(b"netcliff\x00\x02\x00\x00").expect("it reads");
    say(&mut stream, r#"{"hello":{"version":"0","can":[],"clock":null}}"#);
    say(&mut stream, r#"{"start":{"kind":"count","settings":{}}}"#);
    assert!(host.runs(1), "it runs");
    let begin = Instant::now();
    assert!(host.runs(0), "it was given up");
    let took_s = begin.elapsed().as_secs_f64();
    assert!((0.5..2.5).contains(&took_s), "{took_s} s, not about the 1 s of the limits");
}

#[test]
fn an_agent_that_falls_silent_is_given_up() {
    let socket = TcpListener::bind(LOOPBACK).expect("a port");
    let address = socket.local_addr().expect("bound").to_string();
    let silent = thread::spawn(move || {
        let (mut stream, _) = socket.accept().expect("the client comes");
        let hello = r#"{"hello":{"version":"0","can":["count"],"clock":null}}"#;
        let bytes = [b"netcliff\x00\x02\x00\x00", &(hello.len() as u32).to_be_bytes()[..], hello.as_bytes()].concat();
        stream.write_all(&bytes).expect("it listens");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let mut session = Session::connect(&address, None, "0", short()).expect("a hello");
    let gone = session.gone();
    let begin = Instant::now();
    let error = session.start("count", &json!({})).unwrap_err().to_string();
    assert!(error.contains("nothing heard for 1 s"), "{error}");
    assert!(begin.elapsed().as_secs_f64() < 3.0 && gone.load(Ordering::Relaxed));
    drop(session);
    silent.join().expect("no panic");
}

#[test]
fn key_files_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("netcliff-open-key-{}", std::process::id()));
    std::fs::write(&path, "00".repeat(32)).expect("a file");
    let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("own file");
    set(0o644);
    let error = Key::read(&path).unwrap_err().to_string();
    assert!(error.contains("0644") && error.contains("chmod 600"), "{error}");
    set(0o600);
    Key::read(&path).expect("its owner's alone");
    let error = Key::make(&path).unwrap_err().to_string();
    assert!(error.contains("never overwritten"), "{error}");
    std::fs::write(&path, "too short").expect("a file");
    let error = Key::read(&path).unwrap_err().to_string();
    assert!(error.contains("9 characters") && error.contains("64 hexadecimal"), "{error}");
    std::fs::remove_file(&path).expect("it exists");
}
