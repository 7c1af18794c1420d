//! `netcliff tune adapt` on a veth in namespaces that the test makes: real packets cause the switches, and the settings
//! are restored however the program ends.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use netcliff_testkit::{Need, has, has_program};
use serde_json::Value;

use crate::common::Home;
use crate::common::running::Running;
use crate::schema::printed;

const FILES: [(&str, &str); 2] = [("gro_flush_timeout", "50000"), ("napi_defer_hard_irqs", "2")];
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces joined by `v0` and `v1`. The receiver has its own NAPI.
struct Bed([String; 2]);

impl Bed {
    /// Makes the testbed. `None` if this is not possible; a line reports it.
    fn new(name: &str) -> Option<Bed> {
        if !has(Need::Netns) || !has_program("ethtool") {
            return None;
        }
        let bed = Bed(["a", "b"].map(|end| format!("ncadapt-{}-{name}-{end}", std::process::id())));
        let [a, b] = &bed.0;
        let made = ip(&["netns", "add", a])
            && ip(&["netns", "add", b])
            && ip(&["-n", a, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", b])
            && ip(&["-n", a, "addr", "add", "10.98.0.1/24", "dev", "v0"])
            && ip(&["-n", a, "link", "set", "v0", "up"])
            && ip(&["-n", b, "addr", "add", "10.98.0.2/24", "dev", "v1"])
            && ip(&["-n", b, "link", "set", "v1", "up"])
            // Packets of a sender with TSO bypass the NAPI of the receiving veth.
            && ip(&["netns", "exec", a, "ethtool", "-K", "v0", "tso", "off"])
            && ip(&["netns", "exec", b, "ethtool", "-K", "v1", "gro", "on"]);
        assert!(made, "the namespaces of the test cannot be made");
        Some(bed)
    }

    fn inside(&self, end: usize, home: &Home, args: &[&str]) -> Command {
        let netcliff = home.command(args);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[end]]).arg(netcliff.get_program()).args(netcliff.get_args());
        for (name, value) in netcliff.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Values of the two files of `v1`.
    fn values(&self) -> [String; 2] {
        FILES.map(|(file, _)| {
            let path = format!("/sys/class/net/v1/{file}");
            let output = Command::new("ip").args(["netns", "exec", &self.0[1], "cat", &path]).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    }

    /// Waits until the files have these values.
    fn become_values(&self, values: [&str; 2]) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.values() != values {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        true
    }

    /// Sends a few thousand packets a second to the device for a while, from a thread in the other namespace.
    fn load(&self, length: Duration) -> thread::JoinHandle<()> {
        let space = std::fs::File::open(format!("/run/netns/{}", self.0[0])).unwrap();
        thread::spawn(move || {
            nix::sched::setns(space, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
            let socket = UdpSocket::bind("10.98.0.1:0").unwrap();
            let end = Instant::now() + length;
            while Instant::now() < end {
                // No socket listens there. Errors of the refused datagrams are ignored.
                (0..20).for_each(|_| drop(socket.send_to(&[0; 18], "10.98.0.2:9")));
                thread::sleep(Duration::from_millis(1));
            }
        })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for space in &self.0 {
            let _ = ip(&["netns", "delete", space]);
        }
    }
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip")
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Options with thresholds that a load of some thousand packets per second exceeds.
const RATES: [&str; 6] = ["--up", "1kpps", "--down", "500pps", "--hold", "200ms"];

fn events(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| printed(line, "")).collect()
}

#[test]
fn it_follows_the_load_and_sets_back() {
    let Some(bed) = Bed::new("follow") else { return };
    let home = Home::new();
    let args = [&["tune", "adapt", "--if", "v1", "--for", "5s", "--json"][..], &RATES].concat();
    let running = Running::of(bed.inside(1, &home, &args));
    let load = bed.load(Duration::from_millis(2500));
    assert!(bed.become_values(["50000", "2"]), "it does not poll under load");
    load.join().unwrap();
    assert!(bed.become_values(["0", "0"]), "it does not interrupt when the load is gone");
    let ended = running.end(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let events = events(&ended.stdout);
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["start", "switch", "switch", "end"], "{}", ended.stdout);
    assert_eq!([&events[1]["part"], &events[2]["part"]], ["poll", "interrupt"]);
    assert!(events[1]["pps"].as_f64().unwrap() > 1000.0 && events[2]["pps"].as_f64().unwrap() < 500.0);
    assert_eq!(events[1]["applied"][0]["effective"], "50000");
    assert_eq!(events[3]["switches"], 2);
    assert_eq!(bed.values(), ["0", "0"]);
}

/// A dry run reports when it would switch and changes nothing. It needs no lock, so it may run next to another one.
#[test]
fn a_dry_run_changes_nothing_and_a_second_one_is_refused() {
    let Some(bed) = Bed::new("dry") else { return };
    let home = Home::new();
    let first =
        bed.inside(1, &home, &[&["tune", "adapt", "--if", "v1", "--for", "60s"][..], &["--up", "1Gpps"]].concat());
    let first = Running::of(first);
    let lock = home.state().join("journal");
    let claimed = || {
        let sockets = Command::new("ip").args(["netns", "exec", &bed.0[1], "cat", "/proc/net/unix"]).output().unwrap();
        String::from_utf8_lossy(&sockets.stdout).contains("netcliff-adapt-")
    };
    let deadline = Instant::now() + PATIENCE;
    while !claimed() {
        assert!(Instant::now() < deadline, "the first one does not begin");
        thread::sleep(Duration::from_millis(20));
    }
    let second = |home: &Home| {
        bed.inside(1, home, &["tune", "adapt", "--if", "v1", "--up", "1kpps", "--for", "1s"]).output().unwrap()
    };
    let refused = second(&home);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another netcliff"), "{refused:?}");
    // A run with another state directory is refused too.
    let refused = second(&Home::new());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("another netcliff adapts v1"), "{refused:?}");

    let load = bed.load(Duration::from_secs(2));
    let args = [&["tune", "adapt", "--if", "v1", "--for", "2s", "--dry-run"][..], &RATES].concat();
    let dry = bed.inside(1, &home, &args).output().unwrap();
    load.join().unwrap();
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(
        dry.status.success() && said.contains("would switch: polls") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(bed.values(), ["0", "0"]);
    assert!(
        !lock.exists() || std::fs::read_dir(&lock).unwrap().count() == 0,
        "nothing was changed, so nothing is written down"
    );
    drop(first);
}

/// After a signal, the program restores the settings itself; after a kill, the next netcliff does.
#[test]
fn signals_and_kills() {
    let Some(bed) = Bed::new("kill") else { return };
    let args = [&["tune", "adapt", "--if", "v1", "--for", "60s"][..], &RATES].concat();
    for signal in ["INT", "TERM", "KILL"] {
        let home = Home::new();
        let mut child = bed.inside(1, &home, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let load = bed.load(Duration::from_millis(1500));
        assert!(bed.become_values(["50000", "2"]), "{signal}: it does not poll under load");
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap().success()
        );
        let status = child.wait().unwrap();
        load.join().unwrap();
        if signal == "KILL" {
            assert_eq!(bed.values(), ["50000", "2"]);
            let undone = bed.inside(1, &home, &["tune", "undo"]).output().unwrap();
            assert!(undone.status.success(), "{undone:?}");
        } else {
            assert_eq!(status.code(), Some(0), "{signal}");
        }
        assert_eq!(bed.values(), ["0", "0"], "{signal}");
        assert_eq!(std::fs::read_dir(home.state().join("journal")).unwrap().count(), 0, "{signal}");
    }
}

/// A device that disappears, and another program that changes the same settings: both are reported, the exit code is 1,
/// and nothing is left behind.
#[test]
fn a_device_that_goes_and_another_owner() {
    let Some(bed) = Bed::new("gone") else { return };
    let args = [&["tune", "adapt", "--if", "v1", "--for", "60s"][..], &RATES].concat();
    let home = Home::new();
    let running = Running::of(bed.inside(1, &home, &args));
    let load = bed.load(Duration::from_secs(1));
    assert!(bed.become_values(["50000", "2"]));
    // Another program sets a value. netcliff reports this, and still restores the values from before its start.
    let write = "echo 3 > /sys/class/net/v1/napi_defer_hard_irqs";
    assert!(ip(&["netns", "exec", &bed.0[1], "sh", "-c", write]));
    let ended = running.end(PATIENCE);
    load.join().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("another program set") && ended.stdout.contains("to 3"), "{}", ended.stdout);
    assert_eq!(bed.values(), ["0", "0"]);

    let running = Running::of(bed.inside(1, &home, &args));
    let load = bed.load(Duration::from_secs(1));
    assert!(bed.become_values(["50000", "2"]));
    load.join().unwrap();
    assert!(ip(&["-n", &bed.0[1], "link", "delete", "v1"]));
    let ended = running.end(PATIENCE);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    assert!(ended.stdout.contains("v1 is no longer followed: v1 is gone"), "{}", ended.stdout);
    assert_eq!(std::fs::read_dir(home.state().join("journal")).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_adapted_is_said_with_what_can() {
    let Some(bed) = Bed::new("usage") else { return };
    let home = Home::new();
    let refusal = |args: &[&str]| {
        let output = bed.inside(1, &home, &[&["tune", "adapt"][..], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (args, words) in [
        (&["--if", "v1"][..], &["not calibrated", "--up RATE"][..]),
        (&["--if", "v1", "--up", "1kpps", "--down", "2kpps"], &["--down 2kpps", "--up 1kpps"]),
        (&["--if", "v1", "--if", "v1", "--up", "1kpps"], &["named twice"]),
        (&["--if", "nosuch0", "--up", "1kpps"], &["nosuch0", "ip link"]),
        (&["--if", "lo", "--up", "1kpps"], &["no NAPI of its own"]),
        (&["--if", "v1", "--up", "0pps"], &["above 0"]),
        (&["--if", "v1", "--up", "1kpps", "--window", "1ms"], &["10ms to 10s"]),
        (&["--if", "v1", "--up", "1kpps", "--poll", "colour=red"], &["colour=red", "napi_defer_hard_irqs"]),
        (&["--if", "v1", "--up", "1kpps", "--poll", "threaded=off"], &["same settings in both parts"]),
        (&["--if", "v1", "--up", "1kpps", "--poll", "rx-usecs=50"], &["v1, veth, has no rx-usecs"]),
    ] {
        let why = refusal(args);
        assert!(words.iter().all(|word| why.contains(word)), "{args:?}: {why}");
    }
    assert!(ip(&["netns", "exec", &bed.0[1], "ethtool", "-K", "v1", "gro", "off"]));
    assert!(refusal(&["--if", "v1", "--up", "1kpps"]).contains("ethtool -K v1 gro on"));
}

/// A user without permission gets the error before the load is followed, not when the load arrives.
#[test]
fn without_root_it_is_refused_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let Some(bed) = Bed::new("user") else { return };
    let home = Home::new();
    std::fs::set_permissions(home.path(""), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let as_nobody = |args: &[&str]| {
        let netcliff = bed.inside(1, &home, args);
        let arguments: Vec<_> = netcliff.get_args().collect();
        let mut command = Command::new("ip");
        command.args(&arguments[..3]).args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(&arguments[3..]).current_dir("/");
        netcliff.get_envs().for_each(|(name, value)| {
            value.map(|value| command.env(name, value));
        });
        command.output().unwrap()
    };
    if !as_nobody(&["--version"]).status.success() {
        return netcliff_testkit::skip(Need::Kernel, "nobody cannot run this binary".to_owned());
    }
    let args = ["tune", "adapt", "--if", "v1", "--up", "1kpps", "--for", "30s"];
    let refused = as_nobody(&args);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("may not be set by this user") && said.contains("CAP_NET_ADMIN"), "{said}");
    let dry = as_nobody(&["tune", "adapt", "--if", "v1", "--up", "1kpps", "--for", "300ms", "--dry-run"]);
    assert!(dry.status.success(), "{dry:?}");
}
