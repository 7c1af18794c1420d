use super::*;
use std::{fs, path::Path};

/// Creates a directory tree from a fixture: `== path` starts a file.
fn tree(fixture: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for section in fixture.split("== ").skip(1) {
        let (path, text) = section.split_once('\n').unwrap();
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn physical() -> Inventory {
    Inventory::read(tree(include_str!("../../tests/fixtures/physical.tree")).path())
}

fn virtual_machine() -> Inventory {
    Inventory::read(tree(include_str!("../../tests/fixtures/virtual.tree")).path())
}

#[test]
fn a_physical_host() {
    let host = physical();
    assert_eq!(host.cpu.online, (0..8).collect::<Vec<_>>());
    assert_eq!(host.cpu.smt_siblings, [[0, 4], [1, 5]]);
    assert_eq!(host.cpu.smt_active, Some(true));
    assert_eq!(host.cpu.packages, Some(1));
    assert_eq!(host.cpu.signature.as_deref(), Some("6/158/9"));
    assert_eq!(host.cpu.governors, ["performance", "powersave"]);
    assert_eq!(host.cpu.frequency_max_hz, Some(4_200_000_000));
    assert_eq!(host.cpu.boost, Some(true));
    let states: Vec<&str> = host.cpu.idle_states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(states, ["POLL", "C1E", "C10"], "by number, not by name");
    assert!(host.cpu.idle_states[2].disabled);
    assert_eq!(host.kernel.hz, Some(250));
    assert_eq!(host.kernel.preemption.as_deref(), Some("voluntary"));
    assert_eq!(host.kernel.isolated_cpus.as_deref(), Some("2-3"));
    assert_eq!(host.hypervisor, None);
    assert_eq!(host.memory_total_bytes, Some(16_303_428 * 1024));
    assert_eq!(host.load.irqbalance_pid, Some(612));
    assert_eq!(host.load.average, Some([1.52, 0.40, 0.10]));
    assert_eq!(host.load.steal_share, Some(0.01));
}

#[test]
fn limits_of_a_physical_host() {
    let expected = [
        Limitation::NotRoot,
        Limitation::IrqbalanceRunning { pid: 612 },
        Limitation::OtherLoad { load_average: 1.52 },
        Limitation::FrequencyScaling { governor: "powersave".into() },
        Limitation::SlowClock { clocksource: "hpet".into() },
        Limitation::SmtActive,
    ];
    assert_eq!(physical().limits(), expected);
    for limit in expected {
        let sentence = limit.to_string();
        assert!(sentence.len() > 30 && !sentence.contains("  "), "{sentence:?}");
    }
}

#[test]
fn a_busy_machine_is_warned_of_before_it_is_measured() {
    let load = |minute: f64| Load { average: Some([minute, 0.1, 0.1]), ..Load::default() };
    assert!(load(3.2).warning(2).unwrap().starts_with("load average 3.2 on 2 CPUs, programs that ended"));
    assert!(load(0.6).warning(1).unwrap().starts_with("load average 0.6 on 1 CPU, "));
    assert_eq!(load(1.0).warning(2), None);
    assert_eq!(load(3.2).warning(8), None);
    assert_eq!(Load::default().warning(1), None);
}

#[test]
fn a_captured_virtual_machine() {
    let host = virtual_machine();
    assert_eq!(host.cpu.online, [0, 1]);
    assert!(host.cpu.smt_siblings.is_empty() && host.cpu.governors.is_empty());
    assert_eq!(host.cpu.idle_driver.as_deref(), Some("none"));
    assert_eq!(host.kernel.hz, Some(250));
    assert_eq!(host.kernel.preemption.as_deref(), Some("none"));
    assert_eq!(host.sysctls["net.core.netdev_max_backlog"], "1000");
    assert_eq!(host.sysctls["net.ipv4.udp_mem"].split(' ').count(), 3);
    assert_eq!(host.softnet.len(), 2);
    assert!(host.root);
    let limits = host.limits();
    assert!(limits.contains(&Limitation::VirtualMachine { kind: "unnamed hypervisor".into() }));
    assert!(limits.contains(&Limitation::FewCores { n: 2 }));
    assert!(limits.contains(&Limitation::NoPerfCounters));
}

#[test]
fn an_empty_tree_gives_an_empty_inventory() {
    let root = tempfile::tempdir().unwrap();
    let host = Inventory::read(root.path());
    assert_eq!(host, Inventory::default());
}

#[test]
fn this_host_can_be_read() {
    let host = Inventory::of_this_host();
    assert!(!host.cpu.online.is_empty());
    assert!(host.kernel.release.is_some() && host.memory_total_bytes.is_some());
    assert!(host.sysctls.contains_key("net.core.netdev_budget") || !Path::new("/proc/sys/net/core").exists());
}

#[test]
fn what_lasts_is_said_in_a_few_words() {
    let said = |limitation: Limitation| lasting(&limitation.to_string());
    assert_eq!(
        said(Limitation::VirtualMachine { kind: "KVMKVMKVM".into() }).as_deref(),
        Some("a virtual machine (KVM)")
    );
    assert_eq!(said(Limitation::VirtualMachine { kind: "else".into() }).as_deref(), Some("a virtual machine (else)"));
    assert_eq!(said(Limitation::FewCores { n: 2 }).as_deref(), Some("2 CPUs"));
    assert_eq!(said(Limitation::NoPerfCounters).as_deref(), Some("no hardware performance counters"));
    for of_this_run in
        [Limitation::OtherLoad { load_average: 3.0 }, Limitation::StolenTime { share: 0.1 }, Limitation::NotRoot]
    {
        assert_eq!(said(of_this_run), None);
    }
}

/// A bare root (chroot) has at most /proc.
#[test]
fn without_sysfs_procfs_names_the_cpus() {
    let root = tempfile::tempdir().unwrap();
    assert!(online_cpus(root.path()).is_empty());
    std::fs::create_dir(root.path().join("proc")).unwrap();
    let cpuinfo = "processor\t: 0\nmodel name\t: processor of a kind\n\nprocessor\t: 2\n";
    std::fs::write(root.path().join("proc/cpuinfo"), cpuinfo).unwrap();
    assert_eq!(online_cpus(root.path()), [0, 2]);
}
