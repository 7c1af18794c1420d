//! Attacks on `serve` from its own host: by other users, by connections that keep silent, and by reading command lines.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::running::Running;
use crate::common::{Home, bed};
use netcliff_testkit::{Need, has, has_program};

const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a server. Returns it, its host and port, and the path of its address.
fn serve(home: &Home, listen: &str, more: &[&str]) -> (Running, String, String) {
    of(home.command([&["serve", "--listen", listen], more].concat()))
}

fn of(command: Command) -> (Running, String, String) {
    let mut server = Running::of(command);
    server.until("the explorer is at http://", PATIENCE);
    let line = server.said().last().expect("a line");
    let place = line.split_once("http://").and_then(|(_, rest)| rest.split(' ').next()).expect("an address");
    let (address, path) = place.split_once('/').expect("a path");
    let (address, path) = (address.to_owned(), format!("/{path}"));
    (server, address, path)
}

/// The answer to a request, as far as it arrives within five seconds.
fn asked(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    // The server may have closed it already.
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Every user can connect to loopback: without a key, the page and its data are served only to its own user and root.
#[test]
fn a_page_without_a_key_is_its_own_users() {
    if !has_program("bash") {
        return;
    }
    let home = Home::new();
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(_) = std::net::TcpListener::bind(listen) else { continue };
        let (server, address, _) = serve(&home, listen, &[]);
        assert!(asked(&address, "/").starts_with("HTTP/1.1 200 "), "{listen}");
        assert!(asked(&address, "/api/runs").ends_with("[]"), "{listen}");
        if has(Need::Root) {
            let (host, port) = address.rsplit_once(':').expect("a port");
            let host = host.trim_matches(['[', ']']);
            for path in ["/", "/app.js", "/api/runs", "/api/run/1", "/run/1", "/compare?a=1&b=2", "/api/watch", "/x"] {
                let request = format!(
                    "exec 3<>/dev/tcp/{host}/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: {address}\\r\\nConnection: close\\r\\n\\r\\n' >&3; head -c 2000 <&3"
                );
                let mut other = Command::new("bash");
                other.args(["-c", &request]).current_dir("/").stdin(Stdio::null());
                let answer = other.uid(65_534).gid(65_534).output().expect("bash");
                let answer = String::from_utf8_lossy(&answer.stdout);
                assert!(answer.starts_with("HTTP/1.1 403 "), "{listen} {path}: {answer}");
                let why =
                    "this connection is of user 65534: without a key this page is served to user 0 and root alone";
                assert!(answer.contains(why), "{listen} {path}: {answer}");
            }
        }
        server.signal("TERM");
        assert_eq!(server.end(PATIENCE).status.code(), Some(0));
    }
}

/// More silent connections than the server may open files, each with half a request, with and without a key: the server
/// still serves a page.
#[test]
fn silent_connections_keep_no_page_away() {
    let home = Home::new();
    let key = bed::key(&home);
    for more in [&[][..], &["--key", &key]] {
        let netcliff = home.command([&["serve", "--listen", "127.0.0.1:0"], more].concat());
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""]).arg(netcliff.get_program()).args(netcliff.get_args());
        for (name, value) in netcliff.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        let (server, address, path) = of(limited);
        let silent: Vec<TcpStream> = (0..300)
            .map(|number| {
                let mut stream = TcpStream::connect(&address).expect("it listens");
                if number % 2 == 0 {
                    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost:");
                }
                stream
            })
            .collect();
        let begun = Instant::now();
        for _ in 0..3 {
            let answer = asked(&address, &path);
            assert!(answer.starts_with("HTTP/1.1 200 "), "after {:?}: {answer}", begun.elapsed());
        }
        drop(silent);
        server.signal("TERM");
        assert_eq!(server.end(PATIENCE).status.code(), Some(0));
    }
}

/// An incomplete request may use its connection only for a limited time.
#[test]
fn a_request_has_a_time_limit() {
    let home = Home::new();
    let (_server, address, _) = serve(&home, "127.0.0.1:0", &[]);
    let mut stream = TcpStream::connect(&address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(b"GET / HTTP/1.1\r\nHost:").expect("it is taken");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it is closed before the time is over");
}

/// Every user can read command lines. Therefore the browser gets a file that only this user can read, and that is
/// removed when the server ends.
#[test]
fn a_token_is_on_no_command_line() {
    let home = Home::new();
    let key = bed::key(&home);
    let browser = home.file(
        "xdg-open",
        "#!/bin/sh\nprintf '%s\\n' \"$@\" >\"$TMPDIR/opened.new\"; mv \"$TMPDIR/opened.new\" \"$TMPDIR/opened\"\n",
    );
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).expect("it is ours");
    let mut command = home.command(["serve", "--listen", "127.0.0.1:0", "--open", "--key", &key]);
    command.env("PATH", format!("{}:/usr/bin:/bin", home.text(".").trim_end_matches("/.")));
    let (server, address, path) = of(command);
    let begun = Instant::now();
    let opened = loop {
        match std::fs::read_to_string(home.path("opened")) {
            Ok(opened) => break opened,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!opened.contains(path.trim_matches('/')), "{opened}");
    let file = std::path::Path::new(opened.trim_end());
    let mode = std::fs::metadata(file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let page = std::fs::read_to_string(file).expect("ours");
    assert!(page.contains(&format!("0;url=http://{address}{path}")), "{page}");
    server.signal("TERM");
    assert_eq!(server.end(PATIENCE).status.code(), Some(0));
    assert!(!file.exists());
}
