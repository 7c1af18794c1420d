//! Tests the testbed without root, inside a user namespace. There is no test harness: the kernel lets only a process
//! with a single thread enter a user namespace.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use netcliff_host::{
    journal::{HostLock, StateDir},
    testbed::{
        Permission, TestbedError, enter_user_namespace,
        netns::{Reception, Side, Testbed, TestbedOptions},
    },
};
use netcliff_testkit::{Need, has};
use std::{
    env,
    net::UdpSocket,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    time::Duration,
};

const STATE: &str = "NETCLIFF_TEST_USERNS_STATE";
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match env::var_os(STATE) {
        Some(state) => unprivileged(&StateDir::at(state).unwrap()),
        None => start_as_nobody(),
    }
}

/// Runs this program again as a user without rights.
fn start_as_nobody() -> ExitCode {
    let state = tempfile::tempdir().unwrap();
    let program = state.path().join("userns-test");
    // The build directory may be closed to others.
    std::fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.env(STATE, state.path());
    if Permission::probe() == Permission::Root {
        command.uid(NOBODY).gid(NOBODY);
        std::os::unix::fs::chown(state.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let status = command.status().unwrap();
    assert!(status.success(), "{status}");
    ExitCode::SUCCESS
}

fn unprivileged(state: &StateDir) -> ExitCode {
    let lock = HostLock::acquire(state).unwrap();
    let refused = Testbed::create(&lock, TestbedOptions::default()).unwrap_err();
    assert!(matches!(refused, TestbedError::NotPermitted { .. }), "{refused}");
    assert!(refused.to_string().contains("loopback"), "{refused}");

    if !has(Need::Userns) {
        return ExitCode::SUCCESS;
    }
    assert_eq!(Permission::probe(), Permission::MayEnterUserNamespace);
    enter_user_namespace().expect("unshare(1) may, so may this process");
    assert_eq!(Permission::probe(), Permission::UserNamespace);
    for reception in [Reception::Backlog, Reception::Napi, Reception::ThreadedNapi] {
        let options = TestbedOptions { reception, ..TestbedOptions::default() };
        let testbed = Testbed::create(&lock, options).unwrap();
        for limit in testbed.limits() {
            eprintln!("{reception}: {limit}");
        }
        exchange(&testbed);
    }
    ExitCode::SUCCESS
}

/// Sends one datagram again and again until it arrives, because other programs may flood the CPU's backlog.
fn exchange(testbed: &Testbed) {
    let to = testbed.endpoint(Side::HostUnderTest).ip;
    let receiver = testbed.run_in_hut(|| UdpSocket::bind((to, 9000)).unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let sender = testbed.run_in_sender(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    let arrived = (0..100).any(|_| {
        sender.send_to(b"x", (to, 9000)).unwrap();
        receiver.recv(&mut [0; 4]).is_ok()
    });
    assert!(arrived, "{:?}", testbed.counters(Side::HostUnderTest));
}
