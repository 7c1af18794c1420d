use super::*;
use crate::rtnl::VethEnd;
use netcliff_testkit::{Need, has};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::SockProtocol;
use std::{
    fs::File,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const ADDRESS: &str = "192.0.2.1";

/// Runs a test in a new network namespace, in a thread that ends with the test; skips the test without the right to
/// create a namespace.
fn apart(test: impl FnOnce(&mut Rtnl) + Send) {
    if !has(Need::Netns) {
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            test(&mut Rtnl::new());
        });
    });
}

/// Creates a veth pair, `a` with [`ADDRESS`] and `b`, both up.
fn pair(rtnl: &mut Rtnl) {
    let own = File::open("/proc/thread-self/ns/net").unwrap();
    let end = |name, last| VethEnd { name, mac: [2, 0, 0, 0, 0, last], mtu_bytes: 1500, rx_queues: 1, tx_queues: 1 };
    rtnl.add_veth(&end("a", 1), &end("b", 2), own.as_raw_fd() as u32).unwrap();
    for name in ["a", "b"] {
        rtnl.set_up(name).unwrap();
    }
    let index = rtnl.link("a").unwrap().index;
    rtnl.add_address(index, ADDRESS.parse::<IpAddr>().unwrap(), 24).unwrap();
}

/// The device `a` and its address.
fn scope() -> Scope {
    Scope { interfaces: Some(vec!["a".to_owned()]), addresses: Some(vec![ADDRESS.parse().unwrap()]) }
}

/// A watcher that receives no reports from the kernel.
fn deaf() -> Ground {
    let socket = system::reports(SockProtocol::NetlinkRoute, 0).unwrap();
    Ground { socket, ..Ground::watch(scope()).unwrap() }
}

#[test]
fn what_lasts_is_seen_though_it_is_not_told() {
    apart(|rtnl| {
        pair(rtnl);
        let mut ground = deaf();
        assert_eq!(ground.changes(), [""; 0]);
        rtnl.set_mtu("a", 1400).unwrap();
        assert_eq!(ground.changes(), ["the MTU of a went from 1500 to 1400 bytes"]);
        rtnl.set_down("b").unwrap();
        assert_eq!(ground.changes(), ["a lost its carrier"]);
        rtnl.set_up("b").unwrap();
        assert_eq!(ground.changes(), [""; 0]);
        rtnl.set_down("a").unwrap();
        assert_eq!(ground.changes(), ["a was set down"]);
        assert_eq!(ground.changes(), [""; 0], "it is said once");
        let index = rtnl.link("a").unwrap().index;
        rtnl.del_address(index, ADDRESS.parse().unwrap(), 24).unwrap();
        assert_eq!(ground.changes(), [format!("a lost its address {ADDRESS}")]);
        rtnl.delete_link("a").unwrap();
        assert_eq!(ground.changes(), ["a was removed, or moved to another network namespace"]);
        assert_eq!(ground.changes(), [""; 0]);
    });
}

/// A change that was reverted is reported. A change that the kernel reported and that is also seen at the end is
/// reported once.
#[test]
fn what_is_told_and_seen_is_said_once() {
    apart(|rtnl| {
        pair(rtnl);
        let mut ground = Ground::watch(scope()).unwrap();
        rtnl.set_down("a").unwrap();
        rtnl.set_up("a").unwrap();
        assert_eq!(ground.changes(), ["a was set down"]);
        let index = rtnl.link("a").unwrap().index;
        rtnl.del_address(index, ADDRESS.parse().unwrap(), 24).unwrap();
        assert_eq!(ground.changes(), [format!("a lost its address {ADDRESS}")]);
        rtnl.add_address(index, ADDRESS.parse::<IpAddr>().unwrap(), 24).unwrap();
        assert_eq!(ground.changes(), [""; 0]);
        rtnl.delete_link("a").unwrap();
        assert_eq!(ground.changes(), ["a was removed, or moved to another network namespace"]);
    });
}

/// The kernel takes a device down before it removes it, and reports both; a request in between waits for the removal.
#[test]
fn a_device_that_is_being_removed_is_said_to_be() {
    apart(|rtnl| {
        for round in 0..10 {
            pair(rtnl);
            let mut ground = Ground::watch(scope()).unwrap();
            let removed = AtomicBool::new(false);
            thread::scope(|threads| {
                threads.spawn(|| {
                    Rtnl::new().delete_link("a").unwrap();
                    removed.store(true, Ordering::Release);
                });
                loop {
                    let over = removed.load(Ordering::Acquire);
                    let said = ground.changes();
                    if !said.is_empty() {
                        assert_eq!(said, ["a was removed, or moved to another network namespace"], "round {round}");
                        break;
                    }
                    assert!(!over, "round {round}: nothing is said");
                }
            });
        }
    });
}
