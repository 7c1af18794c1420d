//! Request/response with threads of real-time priority. This module is separate, because other tests would stall during
//! its tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::thread;

use netcliff_packets::thread::{Placement, Priority};
use netcliff_remote::control::key::Token;
use netcliff_testkit::{Need, has_all};
use netcliff_transfer::exchange::near::run;
use netcliff_transfer::exchange::settings::{Receive, Settings};
use netcliff_transfer::exchange::{Near, Server, Target};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The listener must not spin while the flows that it accepted run: under SCHED_FIFO they would get no CPU time.
#[test]
fn a_spinning_server_answers_over_tcp() {
    if !has_all(&[Need::Cpus, Need::Root]) {
        return;
    }
    let cpu = thread::available_parallelism().map_or(1, std::num::NonZero::get) - 1;
    let place = |cpu| Placement { cpu: Some(cpu), priority: Priority::RealTime(1), ..Placement::default() };
    let settings =
        Settings { receive: Receive::Spin, warm_up_s: 0.05, time_s: 0.2, timeout_s: 0.5, ..Settings::default() };
    let (token, stop) = (Token::new().expect("random bytes"), AtomicBool::new(false));
    let server = Server::listen(&settings, LOOPBACK, token, &place(cpu)).expect("it listens");
    let near = Near {
        targets: server.ports().iter().map(|port| Target::Address(SocketAddr::new(LOOPBACK, *port))).collect(),
        token,
        placement: place(0),
        path: "loopback".to_owned(),
        same_clock: true,
        intervals: None,
        same_host: true,
        stop: &stop,
        gone: None,
        others: None,
    };
    let report = run(&settings, near, &mut || None, None).expect("it runs");
    assert_eq!(report.partial, None);
    assert!(report.transactions > 0);
}

/// A thread needs no privilege to get the lowest priority.
#[test]
fn a_thread_can_go_behind_all_others() {
    let behind = Placement { priority: Priority::Behind, ..Placement::default() };
    let policy = std::thread::spawn(move || {
        behind.enter().expect("always allowed");
        netcliff_host::schedule::policy().expect("its own")
    });
    assert_eq!(policy.join().expect("no panic"), libc::SCHED_IDLE);
}

/// If another thread spins on the first CPU, `behind_on` returns ordinary priority, whatever the other tests do there.
#[test]
fn nobody_goes_behind_on_a_busy_cpu() {
    let stop = AtomicBool::new(false);
    let first = netcliff_packets::thread::allowed_cpus()[0];
    let found = thread::scope(|scope| {
        scope.spawn(|| {
            Placement { cpu: Some(first), ..Placement::default() }.enter().expect("a CPU of its own list");
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let found = Priority::behind_on(first);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    assert_eq!(found, Priority::Ordinary);
}
