//! The namespace testbed on the real kernel.

use netcliff_host::{
    fingerprint,
    inventory::{Inventory, Limitation},
    journal::{HostLock, StateDir},
    nic,
    process::scheduled,
    softnet::{UdpCounters, softnet_stats},
    testbed::{
        Permission, TestbedError,
        netns::{Reception, Side, Testbed, TestbedOptions},
    },
};
use netcliff_testkit::{Need, has, has_all, has_namespaces, skip};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use std::{
    fs,
    net::{IpAddr, UdpSocket},
    path::{Path, PathBuf},
    time::Duration,
};

/// A lock in a temporary state directory; `None`, with a message on the terminal, if the rights are missing.
fn lock() -> Option<(tempfile::TempDir, HostLock)> {
    if !has_namespaces() {
        return None;
    }
    assert!(Permission::probe().allows_testbed(), "{:?}", Permission::probe());
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (lock, report) = HostLock::acquire_and_replay(&StateDir::at(dir.path()).unwrap()).unwrap();
    assert!(report.outcomes.is_empty());
    Some((dir, lock))
}

fn pinned(testbed: &Testbed) -> [PathBuf; 2] {
    [Side::Sender, Side::HostUnderTest].map(|side| Path::new("/run/netns").join(&testbed.endpoint(side).namespace))
}

/// Calls [`exchange_with`] with the IPv4 address of the host under test.
fn exchange(testbed: &Testbed) -> u64 {
    exchange_with(testbed, testbed.endpoint(Side::HostUnderTest).ip.into())
}

/// Sends ten datagrams from the sender to a socket of the host under test; returns the number of datagrams sent. All
/// programs of the host share the backlog of a CPU, so another program's flood can fill it: each datagram is sent again
/// until it arrives.
fn exchange_with(testbed: &Testbed, to: IpAddr) -> u64 {
    let socket = testbed.run_in_hut(|| UdpSocket::bind((to, 9000)).unwrap()).unwrap();
    let sender =
        testbed.run_in_sender(|| UdpSocket::bind(if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut sent = 0;
    for n in 0..10u8 {
        let arrived = (0..100).any(|_| {
            sent += 1;
            sender.send_to(&[n], (to, 9000)).unwrap();
            let mut buffer = [0; 4];
            socket.recv(&mut buffer).is_ok_and(|length| length == 1 && buffer[0] == n)
        });
        let softnet = netcliff_host::softnet::softnet_stats();
        assert!(arrived, "datagram {n} never arrived: {:?}, {softnet:?}", testbed.counters(Side::HostUnderTest));
    }
    sent
}

#[test]
fn packets_cross_and_nothing_remains() {
    let Some((state, lock)) = lock() else { return };
    let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    let paths = pinned(&testbed);
    if Permission::probe() == Permission::Root {
        assert!(paths.iter().all(|path| path.exists()));
        assert_eq!(testbed.limits(), []);
    }
    let datagrams = exchange(&testbed);

    let udp = testbed.run_in_hut(UdpCounters::read).unwrap().unwrap();
    assert!((10..=datagrams).contains(&udp.in_datagrams), "{udp:?}");
    // Nothing but the datagrams crossed, in either direction: no ARP, no IPv6.
    let sender = testbed.counters(Side::Sender).unwrap();
    let receiver = testbed.counters(Side::HostUnderTest).unwrap();
    assert_eq!(sender.tx_packets + sender.tx_dropped, datagrams, "{sender:?}");
    assert!((10..=datagrams).contains(&receiver.rx_packets), "{receiver:?}");
    assert_eq!((sender.rx_packets, receiver.tx_packets), (0, 0));

    assert!(testbed.close().iter().all(|outcome| outcome.error.is_none()));
    assert!(paths.iter().all(|path| !path.exists()));
    assert_eq!(fs::read_dir(state.path().join("journal")).unwrap().count(), 0);
}

/// Number of times that RPS on another CPU woke this CPU.
fn received_rps(cpu: u32) -> u32 {
    let stats = softnet_stats().unwrap();
    stats.iter().find(|stat| stat.cpu == cpu).map_or(0, |stat| stat.received_rps)
}

#[test]
fn backlog_reception_takes_place_on_the_chosen_cpu() {
    let Some((_state, lock)) = lock() else { return };
    if !has_all(&[Need::Cpus, Need::Root]) {
        return;
    }
    let chosen = TestbedOptions::default().reception_cpus[0];
    assert_ne!(chosen, 0, "the sender has the first CPU");
    let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    let to = testbed.endpoint(Side::HostUnderTest).ip;
    let _receiver = testbed.run_in_hut(|| UdpSocket::bind((to, 9000)).unwrap()).unwrap();
    let before = received_rps(chosen);
    testbed
        .run_in_sender(|| {
            let mut cpus = CpuSet::new();
            cpus.set(0).unwrap();
            sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
            let sender = UdpSocket::bind("0.0.0.0:0").unwrap();
            for _ in 0..200 {
                sender.send_to(b"x", (to, 9000)).unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        })
        .unwrap();
    // One inter-processor interrupt can announce several packets; without any interrupt RPS did not steer.
    assert!(received_rps(chosen).wrapping_sub(before) >= 20, "{before} then {}", received_rps(chosen));
}

#[test]
fn ipv6_is_there_where_it_is_asked_for() {
    let Some((_state, lock)) = lock() else { return };
    if !has(Need::Ipv6) {
        return;
    }
    let testbed = Testbed::create(&lock, TestbedOptions { ipv6: true, ..Default::default() }).unwrap();
    let to = testbed.endpoint(Side::HostUnderTest).ipv6.expect("it was asked for");
    let datagrams = exchange_with(&testbed, to.into()) + exchange(&testbed);
    let [sender, receiver] = [Side::Sender, Side::HostUnderTest].map(|side| testbed.counters(side).unwrap());
    // In addition to the datagrams there are a few reports of multicast listeners, but no solicitation, which would be
    // answered.
    let more = sender.tx_packets + sender.tx_dropped - datagrams;
    assert!(more <= 6 && receiver.tx_packets <= 6, "{sender:?} {receiver:?}");
    drop(testbed);
    let plain = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    assert_eq!(plain.endpoint(Side::Sender).ipv6, None);
    drop(plain);
    let small = TestbedOptions { ipv6: true, mtu_bytes: 1279, ..Default::default() };
    let error = Testbed::create(&lock, small).unwrap_err().to_string();
    assert!(error.contains("1279") && error.contains("with IPv6"), "{error}");
}

#[test]
fn the_fingerprint_tells_two_testbeds_apart() {
    let Some((_state, lock)) = lock() else { return };
    let host = Inventory::of_this_host();
    let facts = |reception| {
        let testbed = Testbed::create(&lock, TestbedOptions { reception, ..Default::default() }).unwrap();
        let mut facts = fingerprint::of_testbed(&host, &testbed).unwrap();
        // A test of another program may change host-wide sysctls at the same time.
        facts.facts.retain(|key, _| !key.starts_with("sysctl."));
        facts
    };
    let (backlog, napi) = (facts(Reception::Backlog), facts(Reception::Napi));
    assert_eq!(backlog, facts(Reception::Backlog), "the same conditions, the same facts");
    let difference = backlog.diff(&napi);
    assert!(difference.contains(&("nic.veth1.gro", Some("false"), Some("true"))), "{difference:#?}");
    assert!(difference.contains(&("testbed.reception", Some("backlog"), Some("napi"))), "{difference:#?}");
    // NAPI does not poll the packets of a sender with TCP segmentation.
    let explained = |key: &str| {
        ["nic.veth1.", "testbed.", "nic.veth0.tso", "nic.veth0.feature.tx-tcp"].iter().any(|of| key.starts_with(of))
    };
    assert!(difference.iter().all(|(key, ..)| explained(key)), "{difference:#?}");
}

#[test]
fn reception_modes_are_what_the_kernel_reports() {
    let Some((_state, lock)) = lock() else { return };
    for reception in [Reception::Backlog, Reception::Napi, Reception::ThreadedNapi] {
        let options = TestbedOptions { reception, mtu_bytes: 9000, queues: 2, ..Default::default() };
        let cpu = options.reception_cpus[0];
        let testbed = Testbed::create(&lock, options).unwrap();
        let name = testbed.endpoint(Side::HostUnderTest).interface.clone();
        let veth = testbed.run_in_hut(|| nic::read(&name, Path::new("/sys"))).unwrap().unwrap();

        assert_eq!(veth.kind.as_deref(), Some("veth"));
        assert_eq!(veth.driver.as_deref(), Some("veth"));
        assert_eq!(veth.mtu_bytes, Some(9000));
        assert_eq!((veth.rx_queues, veth.tx_queues), (Some(2), Some(2)));
        assert_eq!(veth.feature("rx-gro"), Some(reception != Reception::Backlog), "{reception:?}");
        assert_eq!(veth.speed_mbps, Some(10_000));
        assert_eq!(veth.qdiscs.first().map(String::as_str), Some("noqueue"));
        let steered = veth.rps_cpus.iter().all(|mask| !mask.trim_start_matches(['0', ',']).is_empty());
        if Permission::probe() == Permission::Root {
            assert_eq!(steered, reception == Reception::Backlog);
            let on_sender = testbed.limits().contains(&Limitation::ReceptionOnSenderCpu);
            assert_eq!(on_sender, reception == Reception::Napi);
        }
        let threads: Vec<u32> = veth.napis.iter().filter_map(|napi| napi.thread_pid).collect();
        assert_eq!(threads.is_empty(), reception != Reception::ThreadedNapi, "{veth:#?}");
        let unseen = |limit: &Limitation| matches!(limit, Limitation::ReceptionNotSteered { reason } if reason.contains("PID namespace"));
        for thread in &threads {
            let Ok(status) = fs::read_to_string(format!("/proc/{thread}/status")) else {
                assert!(testbed.limits().iter().any(unseen), "{:?}", testbed.limits());
                continue;
            };
            assert!(status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{status}");
        }
        // `None` if the threads are in a PID namespace that this process cannot see.
        let ran_ns = || threads.iter().map(|one| Some(scheduled(*one, *one)?.ran_ns)).sum::<Option<u64>>();
        let before_ns = ran_ns();
        exchange(&testbed);
        // NAPI polls a socket's packets only if TCP segmentation is off at the sender's veth.
        if let (false, Some(before_ns), Some(after_ns)) = (threads.is_empty(), before_ns, ran_ns()) {
            assert!(after_ns > before_ns, "the thread polled nothing");
        }
    }
}

#[test]
fn threads_run_beside_each_other_in_their_namespaces() {
    let Some((_state, lock)) = lock() else { return };
    let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    let names = |side| {
        let list = || netcliff_host::nic::read_all(Path::new("/sys")).unwrap();
        let thread = testbed.spawn_in(side, "lister", list).unwrap();
        let nics = thread.join().unwrap().unwrap();
        nics.into_iter().map(|nic| nic.name).filter(|name| name.starts_with("veth")).collect::<Vec<_>>()
    };
    assert_eq!(names(Side::Sender), ["veth0"]);
    assert_eq!(names(Side::HostUnderTest), ["veth1"]);
    let error = testbed.run_in_hut(|| panic!("ouch")).unwrap_err();
    assert!(matches!(error, TestbedError::Panicked { ref message, .. } if message == "ouch"), "{error}");
}

#[test]
fn impossible_options_change_nothing() {
    let Some((state, lock)) = lock() else { return };
    let cases = [
        TestbedOptions { mtu_bytes: 67, ..Default::default() },
        TestbedOptions { mtu_bytes: 70_000, ..Default::default() },
        TestbedOptions { queues: 0, ..Default::default() },
        TestbedOptions { reception_cpus: vec![4096], ..Default::default() },
    ];
    for options in cases {
        let error = Testbed::create(&lock, options.clone()).unwrap_err().to_string();
        let shows_value = ["67", "70000", "0", "4096"].iter().any(|value| error.contains(value));
        assert!(shows_value, "{error}");
    }
    assert!(
        !state.path().join("journal").exists() || { fs::read_dir(state.path().join("journal")).unwrap().count() == 0 }
    );
}

#[test]
fn a_second_run_is_told_who_holds_the_host() {
    let Some((state, lock)) = lock() else { return };
    let again = HostLock::acquire(&StateDir::at(state.path()).unwrap());
    let error = again.unwrap_err().to_string();
    assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
    drop(lock);
    HostLock::acquire(&StateDir::at(state.path()).unwrap()).unwrap();
}

#[test]
fn the_link_is_changed_and_changed_back() {
    let Some((_dir, lock)) = lock() else { return };
    let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
    for side in [Side::Sender, Side::HostUnderTest] {
        let qdisc = || {
            let name = &testbed.endpoint(side).interface;
            testbed.run_in(side, || nic::read(name, Path::new("/sys")).unwrap()).unwrap()
        };
        let before = qdisc();
        testbed.set_mtu(side, 9000).unwrap();
        testbed.limit_rate(side, Some(10e6)).unwrap();
        // A second limit replaces the first.
        testbed.limit_rate(side, Some(100e6)).unwrap();
        let held = qdisc();
        assert_eq!((held.mtu_bytes, held.qdiscs.first().map(String::as_str)), (Some(9000), Some("tbf")));
        testbed.limit_rate(side, None).unwrap();
        testbed.set_mtu(side, 1500).unwrap();
        let after = qdisc();
        assert_eq!((after.mtu_bytes, after.qdiscs), (before.mtu_bytes, before.qdiscs));
    }
    let qdiscs = || {
        let name = &testbed.endpoint(Side::Sender).interface;
        testbed.run_in_sender(|| nic::read(name, Path::new("/sys")).unwrap()).unwrap().qdiscs
    };
    let before = qdiscs();
    match testbed.share_rate(Some(10e6)) {
        Ok(()) => {
            assert!(qdiscs().iter().any(|kind| kind == "clsact"), "{:?}", qdiscs());
            assert!(exchange(&testbed) >= 10, "packets still cross");
            testbed.share_rate(Some(100e6)).unwrap();
            testbed.share_rate(None).unwrap();
            assert_eq!(qdiscs(), before);
        }
        // One limit for both directions needs an action of the traffic classifier, which is often in a module.
        Err(error) => skip(Need::Kernel, format!("no half duplex: {error}")),
    }
}
