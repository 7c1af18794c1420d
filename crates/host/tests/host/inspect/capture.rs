//! A capture gives the same inspection as the host, and contains nothing that identifies the host.

use crate::inspect::common::{base, files};
use netcliff_host::{
    inspect::{Direction, Inspection, capture},
    nic::{self, Nic},
};
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

#[test]
fn the_base_is_read_as_it_was_written() {
    let dir = base().lay();
    let host = Inspection::of_capture(dir.path()).unwrap();
    assert_eq!(host.host.cpu.packages, Some(2));
    assert_eq!(host.node_cpus(1), [4, 5, 6, 7, 12, 13, 14, 15]);
    assert_eq!(host.core_of(9), [1, 9]);
    let sizes: Vec<_> =
        host.host.cpu.caches.iter().map(|cache| (cache.level, cache.size_bytes, cache.shared.len())).collect();
    assert_eq!(sizes, [(1, Some(32 << 10), 2), (2, Some(1 << 20), 2), (3, Some(11 << 20), 2)]);

    let port = host.port("eth1").unwrap();
    assert_eq!((port.nic.numa_node, port.nic.pcie.map(|slot| slot.lanes)), (Some(0), Some(8)));
    assert_eq!(port.irqs.len(), 5, "the link interrupt included");
    assert_eq!(port.queue_irqs().count(), 4);
    let third = &port.irqs[2];
    assert_eq!((third.number, third.direction, third.queue), (52, Some(Direction::Both), Some(2)));
    assert_eq!(third.counts, BTreeMap::from([(2, 3000)]));
    assert_eq!(port.queues.len(), 8);
    assert!(port.queues.iter().all(|path| path.irq == Some(50 + path.queue) && path.cpus == [path.queue]));

    let growth = host.growth.unwrap();
    assert_eq!((growth.seconds, growth.of("eth0", "rx_packets")), (1.0, 1000));
    assert_eq!(growth.softnet[0].processed, 1000);
}

/// If the kernel does not report the queues' interrupts, they are derived from the names that drivers give their
/// interrupts.
#[test]
fn without_netdev_netlink_names_tell_the_queues() {
    let empty = serde_json::json!([]);
    let dir = base().nic("eth0", "/queues", empty.clone()).nic("eth0", "/napis", empty).lay();
    let host = Inspection::of_capture(dir.path()).unwrap();
    let queues = &host.port("eth0").unwrap().queues;
    assert_eq!(queues.len(), 8);
    assert!(queues.iter().all(|path| path.irq == Some(40 + path.queue) && path.napi_id.is_none()));
}

#[test]
fn a_capture_of_a_capture_is_the_same_host() {
    let dir = base().file("proc/612/comm", "irqbalance\n").file("proc/modules", "nf_tables 1 0 - Live 0x0\n").lay();
    let first = Inspection::of_capture(dir.path()).unwrap();
    let nics = capture::answers(dir.path()).unwrap();
    let again = tempfile::tempdir().unwrap();
    capture::write(dir.path(), &nics, again.path()).unwrap();
    capture::write_later(&dir.path().join(capture::LATER), &nics, again.path()).unwrap();
    let mut second = Inspection::of_capture(again.path()).unwrap();
    for (port, of) in second.ports.iter_mut().zip(&first.ports) {
        port.nic.mac = of.nic.mac.clone();
    }
    assert_eq!(first, second);
}

/// The inspection of a capture of this host equals the inspection of the host, except for values that change during the
/// tests and values that a capture alters or omits.
#[test]
fn a_capture_of_this_host_says_what_the_host_says() {
    let still = |inspection: &Inspection| {
        let mut host = inspection.clone();
        host.counters = Default::default();
        host.host.load = Default::default();
        host.host.memory_available_bytes = None;
        host.host.softnet.clear();
        host.host.kernel.command_line = None;
        // The name is read from the processor (CPUID), not from a file.
        host.host.hypervisor = None;
        host.network.conntrack_entries = None;
        // Paths are written by another function, with made-up destinations.
        host.network.narrow_paths.clear();
        // Tests that run at the same time change sysctls.
        host.host.sysctls.clear();
        // Other tests make and remove links.
        host.ports.retain(|port| port.nic.is_physical());
        for port in &mut host.ports {
            port.nic.mac = None;
            port.nic.rss = None;
            port.irqs.iter_mut().for_each(|irq| irq.counts.clear());
        }
        host
    };
    let dir = tempfile::tempdir().unwrap();
    let nics: Vec<Nic> = nic::ask_all().unwrap();
    assert!(capture::write(Path::new("/"), &nics, dir.path()).unwrap() > 50);
    let captured = Inspection::of_capture(dir.path()).unwrap();
    let host = Inspection::of_this_host(Duration::ZERO).unwrap();
    assert_eq!(still(&captured), still(&host));
}

#[test]
fn a_capture_names_nobody() {
    let secrets = ["02:00:00:00:00:77", "5ec2e7", "b10c-uuid", "sneaky", "hunter2", "PF0XYZ"];
    let rss = serde_json::json!({"hash_function": 1, "indirection": [0], "key_bytes": 3, "key": "5ec2e7"});
    let host = base()
        .nic("eth0", "/mac", "02:00:00:00:00:77")
        .nic("eth1", "/mac", "02:00:00:00:00:77")
        .nic("eth0", "/rss", rss)
        .file("proc/cmdline", "root=UUID=b10c-uuid isolcpus=3 rd.luks.key=hunter2 mitigations=off\n")
        .file("proc/99/comm", "sneaky\n")
        .file("proc/modules", "sneaky 1 0 - Live 0x0\nnf_tables 1 0 - Live 0x0\n")
        .file("proc/cpuinfo", "processor\t: 0\nmodel name\t: X\nSerial\t\t: PF0XYZ\n\nprocessor\t: 1\nSerial: PF0XYZ\n")
        .lay();
    let nics = capture::answers(host.path()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    capture::write(host.path(), &nics, dir.path()).unwrap();
    for (path, text) in files(dir.path()) {
        for secret in secrets {
            assert!(!text.contains(secret), "{path} holds {secret}");
        }
    }
    assert_eq!(fs::read_to_string(dir.path().join("proc/cmdline")).unwrap(), "isolcpus=3 mitigations=off\n");
    let macs: Vec<_> = capture::answers(dir.path()).unwrap().into_iter().map(|nic| nic.mac).collect();
    assert_eq!(macs[0], macs[1], "equal addresses stay equal");
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    let error = Inspection::of_capture(dir.path()).unwrap_err().to_string();
    assert!(error.contains("netlink.json") && error.contains("--capture"), "{error}");
    fs::write(dir.path().join("netlink.json"), "{").unwrap();
    assert!(Inspection::of_capture(dir.path()).is_err());
    let error = capture::write(Path::new("/"), &[], dir.path()).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
}

#[test]
fn an_unknown_interface_is_told_with_those_that_there_are() {
    let mut host = Inspection::of_capture(base().lay().path()).unwrap();
    let error = host.only("eth7").unwrap_err();
    assert!(error.contains("eth7") && error.contains("eth0, eth1"), "{error}");
    host.only("eth1").unwrap();
    assert_eq!(host.main_ports().len(), 1);
}
