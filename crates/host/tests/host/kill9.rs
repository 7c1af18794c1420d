//! Tests that the next start undoes everything that a killed run left behind.

use netcliff_host::{
    fingerprint,
    inventory::Inventory,
    journal::{HostLock, StateDir},
    process::ProcessId,
    testbed::{
        netns::{Testbed, TestbedOptions},
        sysctl::{SysctlOverrides, sysctl_path},
    },
};
use netcliff_testkit::{Need, Shared, has};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const CHILD_STATE: &str = "NETCLIFF_TEST_CHILD_STATE";
/// Longest wait in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Not a test: the process that tests below start and kill.
#[test]
fn child_that_makes_a_testbed() {
    let Some(state) = env::var_os(CHILD_STATE) else { return };
    let lock = HostLock::acquire(&StateDir::at(state).unwrap()).unwrap();
    let sysctls = SysctlOverrides { rmem_max: Some(rmem_max() + 4096), ..Default::default() };
    let options = TestbedOptions { sysctls, ..Default::default() };
    let _testbed = Testbed::create(&lock, options).unwrap();
    // Not println: the test harness would capture it.
    std::io::stdout().write_all(b"\nREADY\n").unwrap();
    thread::sleep(PATIENCE);
}

fn rmem_max() -> u32 {
    let text = fs::read_to_string(sysctl_path("net.core.rmem_max")).unwrap();
    text.trim().parse().unwrap()
}

/// Returns the directory of the journals in a state directory.
fn journal_of(dir: &std::path::Path) -> std::path::PathBuf {
    StateDir::at(dir).unwrap().path().join("journal")
}

fn spawn_child(state: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "kill9::child_that_makes_a_testbed", "--nocapture"])
        .env(CHILD_STATE, state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn start_child(state: &Path) -> Child {
    let mut child = spawn_child(state);
    let output = BufReader::new(child.stdout.take().unwrap());
    let ready = output.lines().map_while(Result::ok).any(|line| line == "READY");
    assert!(ready, "the child could not make a testbed");
    child
}

/// Names that `ip netns` would list for a process.
fn namespaces_of(pid: u32) -> Vec<String> {
    let prefix = format!("nc-{pid}-");
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

/// Named namespaces and host-wide sysctls need the host's root.
fn is_root() -> bool {
    has(Need::Netns)
}

#[test]
fn killed_at_any_moment() {
    if !is_root() {
        return;
    }
    let _turn = netcliff_testkit::turn(Shared::HostSettings);
    let before = rmem_max();
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path()).unwrap();
    let mut undone = 0;
    for delay_ms in (0..60).step_by(3) {
        let mut child = spawn_child(dir.path());
        thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let (_lock, report) = HostLock::acquire_and_replay(&state).unwrap();
        assert!(report.is_clean() && report.unreadable.is_empty(), "after {delay_ms} ms: {report:#?}");
        undone += report.outcomes.len();
        assert_eq!(namespaces_of(child.id()), [""; 0], "after {delay_ms} ms");
        assert_eq!(rmem_max(), before, "after {delay_ms} ms");
        assert_eq!(fs::read_dir(journal_of(dir.path())).unwrap().count(), 0);
    }
    assert!(undone > 0, "no child got far enough to leave anything");
}

#[test]
fn a_failed_creation_leaves_nothing() {
    if !is_root() {
        return;
    }
    let _turn = netcliff_testkit::turn(Shared::HostSettings);
    let before = rmem_max();
    let dir = tempfile::tempdir().unwrap();
    let lock = HostLock::acquire(&StateDir::at(dir.path()).unwrap()).unwrap();
    // The smallest value that the kernel accepts is SOCK_MIN_RCVBUF, some 2 kB.
    let sysctls = SysctlOverrides { rmem_max: Some(1), ..Default::default() };
    let options = TestbedOptions { sysctls, ..Default::default() };
    let error = Testbed::create(&lock, options).unwrap_err().to_string();
    assert!(error.contains("rmem_max") && error.contains('1'), "{error}");
    assert_eq!(namespaces_of(std::process::id()), [""; 0]);
    assert_eq!(rmem_max(), before);
    assert_eq!(fs::read_dir(journal_of(dir.path())).unwrap().count(), 0);
}

#[test]
fn sysctls_changed_twice_are_in_the_fingerprint_and_set_back() {
    if !is_root() {
        return;
    }
    let _turn = netcliff_testkit::turn(Shared::HostSettings);
    let before = rmem_max();
    let dir = tempfile::tempdir().unwrap();
    let lock = HostLock::acquire(&StateDir::at(dir.path()).unwrap()).unwrap();
    let host = Inventory::of_this_host();
    let overrides = |value| SysctlOverrides { rmem_max: Some(value), ..Default::default() };
    let options = TestbedOptions { sysctls: overrides(before + 4096), ..Default::default() };
    let mut testbed = Testbed::create(&lock, options).unwrap();
    testbed.set_sysctls(&overrides(before + 8192)).unwrap();
    let facts = fingerprint::of_testbed(&host, &testbed).unwrap().facts;
    assert_eq!(facts["sysctl.net.core.rmem_max"], (before + 8192).to_string());
    drop(testbed);
    assert_eq!(rmem_max(), before);
}

#[test]
fn kill_9_then_replay_leaves_nothing() {
    if !is_root() {
        return;
    }
    let _turn = netcliff_testkit::turn(Shared::HostSettings);
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path()).unwrap();
    let before = rmem_max();
    let mut child = start_child(dir.path());
    let pid = child.id();
    let child_id = ProcessId::of(pid).unwrap();
    assert_eq!(namespaces_of(pid).len(), 2);
    assert_eq!(rmem_max(), before + 4096);

    // While their owner lives, the lock cannot be taken and the changes are not undone.
    let busy = HostLock::acquire(&state).unwrap_err().to_string();
    assert!(busy.contains(&pid.to_string()), "{busy}");
    let report = netcliff_host::journal::replay(&state).unwrap();
    assert_eq!((report.outcomes.len(), report.alive), (0, vec![child_id]));
    assert_eq!(namespaces_of(pid).len(), 2);

    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(namespaces_of(pid).len(), 2, "the kill alone must leave something to undo");

    let (_lock, report) = HostLock::acquire_and_replay(&state).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    assert!(report.outcomes.len() >= 3, "{report:#?}");
    assert_eq!(namespaces_of(pid), [""; 0]);
    assert!(!mounts().contains(&format!("nc-{pid}-")));
    assert_eq!(rmem_max(), before);
    assert_eq!(fs::read_dir(journal_of(dir.path())).unwrap().count(), 0);

    let again = netcliff_host::journal::replay(&state).unwrap();
    assert!(again.outcomes.is_empty());
}

#[test]
fn a_process_left_behind_is_ended_and_a_namesake_is_not() {
    use netcliff_host::journal::{Change, undo_change};
    let mut sleeper = Command::new("sleep").arg("30").spawn().unwrap();
    let process = ProcessId::of(sleeper.id()).unwrap();
    let namesake = ProcessId { start_time: process.start_time + 1, ..process };

    let outcome = undo_change(&Change::ProcessStarted { process: namesake });
    assert_eq!(outcome.error, None);
    assert!(process.is_alive());

    let outcome = undo_change(&Change::ProcessStarted { process });
    assert_eq!(outcome.error, None);
    let start = Instant::now();
    while sleeper.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(undo_change(&Change::ProcessStarted { process }).error, None);
}
