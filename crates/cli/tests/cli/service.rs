//! `netcliff find --service` with services of the tests, and with real ones if they are installed.
//!
//! The runs are as short as possible and the machine may be noisy. Figures are only checked against wide bounds that
//! follow from the time the test's service takes for a request.

use std::net::UdpSocket;
use std::time::Duration;

use netcliff_host::process::ProcessId;
use netcliff_testkit::{Grid, Need, has, has_namespaces, has_program, not_applicable};
use serde_json::Value;

use crate::common::running::{Running, namespaces_of};
use crate::common::{Home, entries, number_at, refusals};

/// Longest permitted duration of a short run, next to other work.
const WHOLE: Duration = Duration::from_secs(120);

/// Sends datagrams back. Each takes 4 ms, so that it answers at most 250 a second. Writes its process id; ends after
/// the given number of requests.
const ECHO: &str = "import os, socket, sys, time
open(sys.argv[2], 'w').write(str(os.getpid()))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('0.0.0.0', int(sys.argv[1])))
for n in range(int(sys.argv[3])):
    data, peer = s.recvfrom(2048)
    time.sleep(0.004)
    s.sendto(data, peer)
sys.exit('the echo has had enough')
";

/// An HTTP service that answers with the given code, after it has detached itself from the process that started it.
const HTTP: &str = "import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(int(sys.argv[3]))
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'hi')
    def log_message(self, *args):
        pass
if os.fork():
    os._exit(0)
os.setsid()
open(sys.argv[2], 'w').write(str(os.getpid()))
ThreadingHTTPServer(('0.0.0.0', int(sys.argv[1])), Handler).serve_forever()
";

fn turn() -> Option<netcliff_testkit::Turn> {
    match has(Need::Cpus) && has_namespaces() && has_program("python3") {
        false => None,
        true => Some(netcliff_testkit::turn(netcliff_testkit::Shared::Cpus)),
    }
}

/// A short run of a service; more options after it.
fn short<'a>(service: &'a str, request: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = ["find", "--quick", "--trial", "400ms", "--searches", "1", "--width", "10%", "--json"];
    [&run[..], &["--service", service, "--request", request], more].concat()
}

/// A whole run that leaves nothing behind.
fn whole(home: &Home, args: &[&str], code: i32) -> (Option<Value>, String) {
    let running = Running::start(home, args);
    let pid = running.pid();
    let ended = running.end(WHOLE);
    assert_eq!(ended.status.code(), Some(code), "{}", ended.stderr);
    assert_eq!(namespaces_of(pid), [""; 0], "namespaces left behind");
    assert_eq!(entries(&home.state().join("journal")), [""; 0], "a journal left behind");
    (serde_json::from_str(&ended.stdout).ok(), ended.stderr)
}

/// Whether the process that a service wrote into a file is gone. Its number is that of its own namespace, so the
/// command line is searched for.
fn is_gone(home: &Home, script: &str) -> bool {
    let path = home.text(script);
    let pids = entries(std::path::Path::new("/proc")).into_iter().filter_map(|name| name.parse::<u32>().ok());
    let of = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let ours = |pid: &u32| String::from_utf8_lossy(&of(pid)).contains(&path) && ProcessId::of(*pid).is_some();
    !pids.into_iter().any(|pid| pid != std::process::id() && ours(&pid))
}

fn echo(home: &Home, requests: u32) -> String {
    format!("python3 {} 5300 {} {requests}", home.file("echo.py", ECHO), home.text("pid"))
}

#[test]
fn a_service_has_a_cliff_a_prediction_and_a_bottleneck() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let service = echo(&home, 1_000_000);
    let more = ["--match", "0:2", "--port", "5300", "--p99", "100ms", "--loss", "1%"];
    let (found, stderr) = whole(&home, &short(&service, "udp:0000aabb", &more), 0);
    assert!(is_gone(&home, "echo.py"), "the service goes on");
    let found = found.expect("a finding");
    crate::schema::check(&["find".to_owned()], &found);
    assert_eq!((&found["kind"], &found["service"]["transport"]), (&"service".into(), &"udp".into()), "{stderr}");
    // 250 per second, less what other programs take. At 300 the queue exceeds 100 ms within a trial or two.
    let cliff = number_at(&found, "/cliff_rps");
    assert!((90.0..320.0).contains(&cliff), "{cliff}");
    // The service sleeps. On a busy machine, other programs use its CPU.
    let gives = found["bottleneck"]["gives"].as_str().unwrap_or_default();
    assert!(["elsewhere", "other-programs"].contains(&gives), "{}", found["bottleneck"]);
    assert!(found["trials"].as_array().is_some_and(|trials| trials.len() > 5));
    // The run is stored, can be shown, and can be compared with itself.
    let page = home.stdout(["results", "show", "last"]);
    assert!(page.contains("CLIFF") && page.contains("requests/s"), "{page}");
    assert_eq!(home.json(["results", "show", "last", "--json"])["kind"], "service");
    let compared = home.json(["compare", "last", "last", "--json"]);
    assert_eq!(compared["kind"], "service");
    assert!(home.stdout(["results", "list", "--kind", "service"]).contains("--service"));
}

#[test]
fn what_a_service_forks_ends_with_the_run() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let service = format!("python3 {} 80 {} 200", home.file("web.py", HTTP), home.text("pid"));
    let mut running = Running::start(&home, &short(&service, "http:/", &["--p99", "50ms"]));
    running.until("looking for the order", Duration::from_secs(60));
    assert!(!is_gone(&home, "web.py"), "it runs by itself");
    let pid = running.pid();
    running.signal("INT");
    let ended = running.end(Duration::from_secs(20));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(is_gone(&home, "web.py") && namespaces_of(pid).is_empty(), "the daemon goes on");
    // A killed netcliff cannot end the processes that it started; the kernel ends them.
    let mut running = Running::start(&home, &short(&service, "http:/", &["--p99", "50ms"]));
    running.until("looking for the order", Duration::from_secs(60));
    let killed = running.pid();
    running.signal("KILL");
    running.end(Duration::from_secs(20));
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_gone(&home, "web.py"), "the daemon goes on after kill -9");
    // The next run removes the namespaces that the killed one left.
    whole(&home, &short("exit 1", "http:/", &[]), 1);
    assert_eq!(namespaces_of(killed), [""; 0], "namespaces of the killed run");
}

#[test]
fn a_service_that_does_not_work_is_named_with_its_last_words() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let refused = |service: &str, request: &str, more: &[&str], says: &[&str]| {
        let (_, stderr) = whole(&home, &short(service, request, more), 1);
        assert!(says.iter().all(|part| stderr.contains(part)), "{service}: {stderr}");
    };
    refused("echo no zone >&2; exit 7", "http:/", &[], &["exit status 7", "no zone"]);
    refused("/no/such/service", "http:/", &[], &["was not found", "/no/such/service"]);
    let wrong = format!("python3 {} 80 {} 503", home.file("web.py", HTTP), home.text("pid"));
    refused(&wrong, "http:/", &[], &["not as http does", "503"]);
    // The service listens on another port than the expected one.
    let elsewhere = format!("python3 {} 8080 {} 200", home.text("web.py"), home.text("pid"));
    refused(&elsewhere, "http:/", &[], &["refused", "it listens on", ":8080"]);
    assert!(is_gone(&home, "web.py"));
    // A service that ends while it is measured.
    let tired = echo(&home, 150);
    let more = ["--match", "0:2", "--port", "5300"];
    let (found, stderr) = whole(&home, &short(&tired, "udp:0000aabb", &more), 1);
    let partial = found.expect("what was measured")["partial"].as_str().unwrap_or_default().to_owned();
    assert!(partial.contains("had enough") && stderr.contains("had enough"), "{partial} {stderr}");
}

#[test]
fn a_service_that_runs_is_measured_where_it_is() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = socket.local_addr().expect("bound").to_string();
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 512];
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if length == 1 {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    let args = ["find", "--quick", "--trial", "400ms", "--searches", "1", "--width", "10%", "--json", "--to", &to];
    let more = ["--request", "udp:000000000000", "--match", "0:2@0", "--loss", "1%", "--p99", "100ms"];
    let (found, stderr) = whole(&home, &[&args[..], &more].concat(), 0);
    let cliff = number_at(&found.expect("a finding"), "/cliff_rps");
    assert!((100.0..600.0).contains(&cliff), "{cliff}: {stderr}");
    // On loopback, a service that is started must not be mistaken for the one that has the port.
    let port = to.rsplit(':').next().expect("a port");
    let taken = ["--testbed", "loopback", "--port", port, "--match", "0:2"];
    let (_, stderr) = whole(&home, &short("sleep 60", "udp:0000", &taken), 2);
    assert!(stderr.contains("used by another program") && stderr.contains("--to"), "{stderr}");
    UdpSocket::bind("127.0.0.1:0").expect("a port").send_to(b"x", &to).expect("the end");
    server.join().expect("it ends");
}

#[test]
fn what_cannot_be_is_refused_before_anything_starts() {
    let home = Home::new();
    let names = home.file("names", "www.example.com NOSUCHTYPE\n");
    let dns = format!("dns:{names}");
    let find = |more: &[&'static str]| [&["find", "--service", "true"], more].concat();
    let http = |more: &[&'static str]| [&find(&["--request", "http:/"])[..], more].concat();
    let rows = [
        (find(&[]), vec!["--request"]),
        (find(&["--request", "smtp:x"]), vec!["smtp:x", "memcached:"]),
        (find(&["--request", "udp:00"]), vec!["--port"]),
        (find(&["--request", "udp:00", "--port", "9", "--match", "0:2"]), vec!["--match", "1 bytes"]),
        (find(&["--request", "http:nowhere.txt"]), vec!["nowhere.txt", "cannot read"]),
        (
            find(&["--request", "dns:example.com"]),
            vec!["cannot read example.com", "expected a file with a request a line"],
        ),
        (http(&["--tls", "--cacert", "nowhere.pem"]), vec!["--cacert", "nowhere.pem", "PEM"]),
        (http(&["--transport", "udp"]), vec!["--transport udp"]),
        (http(&["--p99", "1s"]), vec!["1s", "--timeout"]),
        (http(&["--quantile", "99"]), vec!["0.95=2ms"]),
        (http(&["--work", "2us"]), vec!["--work", "leave it out"]),
        (http(&["--match", "0:2"]), vec!["--match"]),
        (http(&["--check", "work=2us"]), vec!["--check work", "2us", "service=COMMAND"]),
        (http(&["--check", "rx-usecs=100"]), vec!["rx-usecs", "veth", "threaded"]),
        (http(&["--check", "socket-buffer=1MiB"]), vec!["socket-buffer=1MiB", "tcp_rmem"]),
        (http(&["--testbed", "loopback", "--check", "gro=on"]), vec!["gro=on", "--testbed netns"]),
        (
            vec!["find", "--to", "127.0.0.1:80", "--request", "http:/", "--check", "backlog=9"],
            vec!["backlog=9", "--service COMMAND"],
        ),
        (http(&["--to", "127.0.0.1:80"]), vec!["cannot be used with"]),
        (vec!["find", "--request", "http:/"], vec!["--service"]),
        (http(&["--agent", "192.0.2.7"]), vec!["--agent"]),
        (http(&["--pid", "1"]), vec!["--pid"]),
        (http(&["--key", "k"]), vec!["--key"]),
        (vec!["find", "--to", "127.0.0.1", "--request", "http:/"], vec!["127.0.0.1"]),
    ];
    let table: Vec<(&[&str], &[&str])> = rows.iter().map(|(args, says)| (&args[..], &says[..])).collect();
    refusals(&home, 2, &table);
    refusals(&home, 2, &[(&["find", "--service", "true", "--request", &dns], &["line 1", "NOSUCHTYPE"])]);
    // Only the refusal is printed: no stage, and no warning about the host's load.
    let unread: [&[&str]; 2] = [&["--tls", "--cacert", "nowhere.pem", "--request", "http:/"], &["--request", &dns]];
    for more in unread {
        let output = home.command([&["find", "--service", "true"], more].concat()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Real services, as a user would start them: one of them a day, all of them with `NETCLIFF_GRID=whole` (`make measure`).
#[test]
fn real_services_have_a_cliff() {
    let Some(_turn) = turn() else { return };
    let home = Home::new();
    let installed = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
        if !found {
            not_applicable(format!("{program} is not installed (a Debian package has it)"));
        }
        found
    };
    let names = home.file("names", "www.example.test A\nftp.example.test A\n");
    let hosts = home.file("hosts", "192.0.2.1 www.example.test\n192.0.2.2 ftp.example.test\n");
    let dnsmasq = format!("dnsmasq -k -C /dev/null -u root -H {hosts} --no-resolv --pid-file={}", home.text("pid"));
    let dns = format!("dns:{names}");
    let all = [
        ("dnsmasq", dnsmasq.as_str(), dns.as_str(), &[][..]),
        ("memcached", "memcached -u root -t 1", "memcached:", &[]),
        ("memcached", "memcached -u root -t 1 -U 11211", "memcached:", &["--transport", "udp"]),
        ("redis-server", "redis-server --save '' --protected-mode no", "redis:", &["--depth", "4"]),
    ];
    for (_, (program, service, request, more)) in Grid::of_today().part(all) {
        if !installed(program) {
            continue;
        }
        let (found, stderr) =
            whole(&home, &short(service, request, &[more, &["--loss", "1%", "--p99", "150ms"]].concat()), 0);
        let found = found.unwrap_or_else(|| panic!("{service}: {stderr}"));
        assert!(number_at(&found, "/cliff_rps") > 500.0, "{service}: {stderr}");
        assert_eq!(found["service"]["command"], service);
    }
}
