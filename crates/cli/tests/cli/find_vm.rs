//! `--testbed vm:DRIVER` of `find`, `stream`, `rr` and `run`: refusals, and a guest that boots, is measured and leaves
//! nothing behind.

use std::fs;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{LockResult, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::common::running::{Ended, Running, signal};
use crate::common::{Home, refusals};
use crate::schema::printed;
use netcliff_testkit::{has_namespaces, not_applicable};

/// Longest time that a debug build takes to boot a guest and send to it.
const BOOT: Duration = Duration::from_secs(180);
/// Longest time that a run may continue without its guest.
const LOST: Duration = Duration::from_secs(60);
/// Longest time until everything is removed after a kill.
const GONE: Duration = Duration::from_secs(5);

/// A file with the head of a bzImage of this release.
fn head_of_a_kernel(dir: &Path, release: &str) -> String {
    let mut head = vec![0; 0x400];
    head[0x202..0x206].copy_from_slice(b"HdrS");
    head[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    head[0x300..0x300 + release.len()].copy_from_slice(release.as_bytes());
    let path = dir.join("vmlinuz");
    fs::write(&path, head).expect("a file");
    path.display().to_string()
}

#[test]
fn what_a_guest_needs_is_named() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let dir = tempfile::tempdir().expect("a directory");
    let kernel = head_of_a_kernel(dir.path(), "1.2.3");
    refusals(
        &home,
        2,
        &[
            (&["find", "--testbed", "vm:rtl8139"], &["rtl8139", "e1000e"]),
            (&["find", "--testbed", "vm"], &["netns", "vm:e1000e"]),
            (&["find", "--testbed", "vm:igb", "--if", "eth0"], &["--if"]),
            (&["find", "--testbed", "vm:e1000e", "--vm-kernel", "/dev/null"], &["/dev/null", "bzImage"]),
        ],
    );
    let lacks = |path: &str, given: &[&str], words: &[&str]| {
        let mut find = home.netcliff(["find", "--testbed", "vm:e1000e", "--vm-kernel", &kernel]);
        let output = find.args(given).env("PATH", path).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        words.iter().for_each(|word| assert!(told.contains(word), "{word}: {told}"));
    };
    lacks("/nonexistent", &[], &["qemu-system-x86_64 cannot be run", "install it"]);
    // A QEMU that has the device, and modules that are missing.
    let qemu = dir.path().join("qemu-system-x86_64");
    fs::write(&qemu, "#!/bin/sh\necho 'e1000e options:'\n").expect("a script");
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).expect("it may be run");
    let first = format!("{}:/usr/bin:/bin", dir.path().display());
    lacks(&first, &[], &["/lib/modules/1.2.3", "--vm-modules DIR"]);
    let named = qemu.display().to_string();
    lacks("/usr/bin:/bin", &["--vm-qemu", &named], &["/lib/modules/1.2.3"]);
    lacks(&first, &["--vm-qemu", "/nonexistent/qemu"], &["/nonexistent/qemu cannot be run", "--vm-qemu PATH"]);
    fs::write(&qemu, "#!/bin/sh\necho \"$2: not found\" >&2\n").expect("a script");
    lacks(&first, &[], &["has no e1000e"]);
}

#[test]
fn what_a_guest_does_not_have_is_refused_before_it_boots() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let dir = tempfile::tempdir().expect("a directory");
    let kernel = head_of_a_kernel(dir.path(), "1.2.3");
    let vm = "vm:e1000e";
    refusals(
        &home,
        2,
        &[
            (&["stream", "--testbed", "vm:rtl8139"], &["rtl8139", "e1000e"]),
            (&["rr", "--testbed", "vm"], &["netns", "vm:e1000e"]),
            (&["run", "coalescing", "--testbed", "guest"], &["guest", "vm:e1000e"]),
            (&["rfc2544", "throughput", "--testbed", "netns"], &["netns", "vm:e1000e"]),
            (&["rfc2544", "throughput", "--testbed", vm, "--tx", "eth0", "--rx", "eth1"], &["--testbed", "--tx"]),
            (&["rfc2544", "throughput", "--testbed", vm, "--vm-kernel", "/dev/null"], &["/dev/null", "bzImage"]),
            (&["stream", "--testbed", vm, "--to", "a"], &["--testbed", "--to"]),
            (&["stream", "--testbed", vm, "--probe"], &["--probe", "a guest serves one"]),
            (&["stream", "--testbed", vm, "--profile"], &["--profile", "the guest's is another"]),
            (&["stream", "--testbed", vm, "--channel", "pipe"], &["leave --testbed vm out"]),
            (&["stream", "--testbed", vm, "--mtu", "600"], &["--mtu 600", "1280 to 65535"]),
            (&["stream", "--testbed", vm, "--reception", "napi"], &["--reception", "receives by NAPI"]),
            (&["stream", "--testbed", vm, "--ipv6"], &["--ipv6", "IPv4 only"]),
            (&["rr", "--testbed", vm, "--ipv6"], &["--ipv6", "IPv4 only"]),
            (&["rr", "--testbed", vm, "--profile"], &["--profile", "the guest's is another"]),
            (&["rr", "--testbed", vm, "--transport", "unix"], &["leave out --testbed vm"]),
            (&["run", "fig-7a", "--testbed", vm], &["vm:e1000e", "makes no transfers"]),
            (&["run", "forwarding-optimised", "--testbed", vm], &["vm:e1000e", "makes no transfers"]),
            (&["run", "coalescing", "--testbed", vm, "--devices", "eth0"], &["--devices eth0"]),
            (&["run", "coalescing", "--testbed", vm, "--vm-kernel", "/dev/null"], &["/dev/null", "bzImage"]),
            (
                &["stream", "--testbed", vm, "--vm-kernel", &kernel, "--vm-qemu", "/no/qemu"],
                &["/no/qemu cannot be run"],
            ),
            (&["rr", "--testbed", vm, "--vm-kernel", &kernel, "--vm-qemu", "/no/qemu"], &["/no/qemu cannot be run"]),
        ],
    );
}

/// Streams in both directions report the CPU time and the counts of the guest. Settings of its driver are applied;
/// those without an effect are named.
#[test]
fn a_guest_receives_and_sends_and_its_driver_is_set() {
    let Some((kernel, home, _one)) = room_for_a_guest() else { return };
    let guest = ["--testbed", "vm:e1000e", "--vm-kernel", &kernel];
    let short = ["--time", "300ms", "--warmup", "200ms", "--repeats", "2", "--json"];
    let of = |args: &[&str]| {
        let mut run = Running::start(&home, args);
        run.until("round 1", BOOT);
        let ended = run.end(BOOT);
        assert!(ended.status.success(), "{}", ended.stderr);
        printed(&ended.stdout, &ended.stderr)
    };
    let sent = of(&[&["stream"], &guest[..], &short[..], &["--reverse", "--mtu", "9000"]].concat());
    let facts = &sent["far_fingerprint"];
    assert_eq!(facts["nic.path.driver"], "e1000e", "{facts}");
    assert_eq!(facts["nic.path.mtu_bytes"], "9000", "{facts}");
    let row = &sent["rows"][0];
    assert!(row["goodput_bps"]["median"].as_f64().is_some_and(|bps| bps > 1e6), "{row}");
    assert!(row["samples"][0]["system_cpus"].as_f64().is_some_and(|busy| busy <= 1.05), "the guest has one CPU: {row}");
    let file = home.file(
        "driver.toml",
        "kind = \"transfer\"\ndesign = \"one-at-a-time\"\ntime = \"300ms\"\nwarmup = \"200ms\"\nrepeats = 2\n[fixed]\ncongestion = \"cubic\"\n\
         [vary]\nrx-checksum = [\"on\", \"off\"]\nrx-usecs = [\"0\", \"50\", \"250\"]\nrate = [\"none\", \"10Mbit/s\"]\nlro = [\"off\", \"on\"]\n",
    );
    let found = of(&[&["run", &file], &guest[..], &["--json"]].concat());
    assert!(found["asked"].to_string().contains("a guest with e1000e and Linux "), "{}", found["asked"]);
    let missing = found["not_had"].to_string();
    assert!(missing.contains("rx-usecs 50: QEMU's e1000e leaves 128 us") && missing.contains("lro: "), "{missing}");
    let rows = found["rows"].as_array().expect("rows");
    let slow = rows.iter().find(|row| row["levels"].to_string().contains("10Mbit/s")).expect("a slow link");
    let bps = slow["samples"][0]["goodput_bps"].as_f64().expect("it moved");
    // On a busy machine an emulated guest may receive less. Two frames more from the token bucket are 0.8 % in 300 ms.
    assert!((1e5..12e6).contains(&bps), "{bps} on 10 Mbit/s");
    assert!(left().is_empty(), "{:?}", left());
}

/// Two NICs, between which the guest forwards most of a low load.
#[test]
fn a_guest_forwards() {
    let Some((kernel, home, _one)) = room_for_a_guest() else { return };
    let guest = ["rfc2544", "throughput", "--testbed", "vm:e1000e", "--vm-kernel", &kernel, "--max", "1kpps"];
    let short = ["--trial", "300ms", "--frames", "64", "--loss", "20%", "--width", "20%", "--json"];
    let mut run = Running::start(&home, &[&guest[..], &short[..]].concat());
    run.until("frames of 64B", BOOT);
    let ended = run.end(BOOT);
    let found = printed(&ended.stdout, &ended.stderr);
    assert!(found["device"].as_str().is_some_and(|device| device.contains("e1000e and Linux ")), "{found}");
    assert_eq!(found["fingerprint"]["nic.path.driver"], "e1000e", "{}", found["fingerprint"]);
    assert!(found["sizes"][0]["sender_pps"].as_f64().is_some_and(|pps| pps > 0.0), "{found}");
    assert!(ended.status.success() && left().is_empty(), "{:?}: {}", left(), ended.stderr);
}

/// The kernel of guests: NETCLIFF_TEST_KERNEL, or one of this host. `None` without QEMU or without a kernel with
/// modules.
fn kernel() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|directory| directory.join("qemu-system-x86_64").is_file()) {
        not_applicable("no qemu-system-x86_64 on this machine");
        return None;
    }
    let named = std::env::var_os("NETCLIFF_TEST_KERNEL").map(PathBuf::from);
    let boot = || fs::read_dir("/boot").ok()?.flatten().map(|entry| entry.path()).find(|path| is_kernel(path));
    let found = named.or_else(boot);
    if found.is_none() {
        not_applicable("no kernel for a guest: NETCLIFF_TEST_KERNEL names none, and /boot has none");
    }
    found
}

fn is_kernel(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
}

/// Guests of netcliff that run: process id and command line.
fn guests() -> Vec<(u32, String)> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let line = |entry: fs::DirEntry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        Some((id, fs::read_to_string(entry.path().join("cmdline")).ok()?))
    };
    let ours = |(_, line): &(u32, String)| line.starts_with("qemu-system") && line.contains("name=netcliff");
    processes.filter_map(line).filter(ours).collect()
}

/// What is left of a guest: QEMU, and taps in this namespace.
fn left() -> Vec<String> {
    let guests = guests().into_iter().map(|(_, line)| line);
    guests.chain(Path::new("/sys/class/net/vm0").exists().then(|| "vm0".to_owned())).collect()
}

#[test]
fn a_guest_is_loaded_and_leaves_nothing() {
    let Some((kernel, home, _one)) = room_for_a_guest() else { return };
    let args = ["find", "--testbed", "vm:e1000e", "--vm-kernel", &kernel, "--quick", "--json", "--trial", "100ms"];
    // If the run is stopped while it sends, the guest's results are stored.
    let mut run = Running::start(&home, &args);
    run.until("looking for the rough cliff", BOOT);
    run.signal("INT");
    let ended = run.end(BOOT);
    let finding = printed(&ended.stdout, &ended.stderr);
    let driver = finding["host"]["driver"].as_str().expect("a line");
    assert!(driver.contains("e1000e, its own NAPI"), "{driver}");
    assert_eq!(finding["host"]["at"], "the guest");
    assert!(finding["generator"]["ceiling_pps"]["value"].as_f64().is_some_and(|pps| pps > 1e4), "{finding}");
    assert!(left().is_empty(), "{:?}", left());
    // The run is killed while it loads the guest.
    let mut run = Running::start(&home, &args);
    run.until("looking for the rough cliff", BOOT);
    assert_eq!(left().len(), 1, "the guest runs");
    run.signal("KILL");
    let killed = Instant::now();
    while !left().is_empty() {
        assert!(killed.elapsed() < GONE, "{:?}", left());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Only one guest at a time may exist. Under nextest each test has its own process, and the test group runs one at a
/// time.
static ONE_GUEST: Mutex<()> = Mutex::new(());

/// A kernel, a home directory, and the lock for the only guest. `None` if no guest can run; the reason is reported as a
/// skip.
fn room_for_a_guest() -> Option<(String, Home, LockResult<MutexGuard<'static, ()>>)> {
    let kernel = has_namespaces().then(kernel)??.display().to_string();
    Some((kernel, Home::new(), ONE_GUEST.lock()))
}

/// A run whose guest is lost while it is loaded: it ends by itself and leaves nothing.
fn lost(fault: &str, of: impl FnOnce(u32)) -> Option<Ended> {
    let (kernel, home, _one) = room_for_a_guest()?;
    let what = ["find", "--testbed", "vm:e1000e", "--vm-kernel", &kernel, "--vm-monitor", fault];
    let how = ["--quick", "--json", "--trial", "100ms", "--loss", "1e-2"];
    let mut run = Running::start(&home, &[&what[..], &how].concat());
    run.until("calibrating", BOOT);
    let [(guest, _)] = guests()[..] else { panic!("one guest runs: {:?}", left()) };
    of(guest);
    let ended = run.end(LOST);
    assert!(!ended.status.success() && left().is_empty(), "{fault}: {:?}", left());
    Some(ended)
}

#[test]
fn a_guest_that_ends_is_named() {
    let Some(ended) = lost("netcliff-test-ends", |guest| signal(guest, "KILL")) else { return };
    let said = "the guest closed the connection; QEMU ended (signal: 9";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
}

#[test]
fn a_guest_that_hangs_is_named() {
    let Some(ended) = lost("netcliff-test-hangs", |guest| signal(guest, "STOP")) else { return };
    assert!(ended.stderr.contains("the guest is gone: nothing heard for 30 s"), "{}", ended.stderr);
}

/// The driver of this device still reports a link, but its packets arrive nowhere.
#[test]
fn a_cable_that_is_pulled_is_named() {
    let pull = |_| {
        let address = SocketAddr::from_abstract_name("netcliff-test-cable").expect("a name");
        let mut monitor = UnixStream::connect_addr(&address).expect("QEMU's monitor");
        monitor.write_all(b"set_link wire off\n").expect("it is read");
        std::thread::sleep(Duration::from_millis(200));
    };
    let Some(ended) = lost("netcliff-test-cable", pull) else { return };
    let finding = printed(&ended.stdout, &ended.stderr);
    let missing = finding["missing"].to_string();
    assert!(missing.contains("packets do not arrive any more: 0 of "), "{missing}: {}", ended.stderr);
    assert!(finding["cliff_pps"]["wire"].is_null() && !missing.contains("<= 1kpps"), "{missing}");
}
