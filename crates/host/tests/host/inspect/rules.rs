//! Tests every rule of the inspection on captured hosts: one capture that triggers the rule and one that does not.
//!
//! The base is a router with two NUMA nodes for which no rule reports anything; each case replaces a few files. A
//! capture is a directory, so a case can be examined with `netcliff inspect --from`.

use crate::inspect::common::{Overlay, base};
use netcliff_core::inspection::{Objective, Remark, Severity};
use netcliff_host::inspect::{
    Inspection, ProgramMemory, page,
    rules::{self, Aim},
};
use netcliff_host::spaces::FarEnd;
use serde_json::json;
use std::collections::BTreeSet;

/// The remarks of all rules on a capture.
fn remarks(overlay: &Overlay, aim: Aim) -> Vec<Remark> {
    let dir = overlay.lay();
    rules::check(&Inspection::of_capture(dir.path()).unwrap(), &aim)
}

/// Checks that a rule reports something on a capture, with this severity and these words.
fn triggers(rule: &str, severity: Severity, overlay: &Overlay, aim: Aim, says: &[&str]) {
    let all = remarks(overlay, aim);
    let found: Vec<&Remark> = all.iter().filter(|remark| remark.rule == rule).collect();
    assert!(!found.is_empty(), "{rule} says nothing; others: {all:#?}");
    let remark = found[0];
    assert_eq!(remark.severity, severity, "{remark:#?}");
    let text = format!("{} {}", remark.evidence, remark.commands.join(" "));
    for word in says {
        assert!(text.contains(word), "{rule}: {word:?} is not in {text:?}");
    }
    let own: BTreeSet<&str> = all.iter().map(|remark| remark.rule.as_str()).collect();
    assert!(own.len() <= 2, "the overlay for {rule} triggers more than its own: {own:?}");
}

/// Checks that a rule reports nothing on a capture.
fn silent(rule: &str, overlay: &Overlay, aim: Aim) {
    let all = remarks(overlay, aim);
    assert!(all.iter().all(|remark| remark.rule != rule), "{all:#?}");
}

fn aim(objective: Objective) -> Aim {
    Aim { objective: Some(objective), ..Aim::default() }
}

#[test]
fn nothing_is_wrong_with_the_base() {
    for objective in [None, Some(Objective::Cpu), Some(Objective::Throughput), Some(Objective::Latency)] {
        assert_eq!(remarks(&base(), Aim { objective, ..Aim::default() }), [], "{objective:?}");
    }
}

#[test]
fn every_rule_is_documented_and_named_once() {
    let page = include_str!("../../../../../docs/inspect.md");
    let ids: Vec<&str> = rules::all().map(|rule| rule.id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    for rule in rules::all() {
        assert!(page.contains(&format!("| `{}` |", rule.id)), "docs/inspect.md: no row for {}", rule.id);
        assert!(rule.why.len() > 20 && rule.source.len() > 8, "{}", rule.id);
    }
    let (_, rows) = page.split_once("\n## Rules\n").expect("the table of rules");
    assert_eq!(rows.matches("\n| `").count(), ids.len(), "docs/inspect.md has a row without a rule");
}

/// Only the interface that the page is about has a warning: one of several without a link may be a spare one.
#[test]
fn link_down() {
    let unplugged = base().nic("eth0", "/operational_state", "down");
    triggers("link-down", Severity::Note, &unplugged, Aim::default(), &["no carrier", "ethtool eth0", "cable"]);
    silent("link-down", &base().nic("eth0", "/operational_state", "unknown"), Aim::default());
    // An interface that is down is not on a page with others.
    let off = base().nic("eth0", "/up", false);
    silent("link-down", &off, Aim::default());
    let of_eth0 = |overlay: &Overlay, far_end: Option<FarEnd>| {
        let mut host = Inspection::of_capture(overlay.lay().path()).unwrap();
        host.only("eth0").unwrap();
        host.ports[0].far_end = far_end;
        let all = rules::check(&host, &Aim::default());
        all.into_iter().find(|remark| remark.rule == "link-down").expect("a remark")
    };
    let remark = of_eth0(&off, None);
    assert_eq!((remark.severity, remark.commands[0].as_str()), (Severity::Warning, "ip link set dev eth0 up"));
    assert_eq!(remark.evidence, "the link is administratively down");
    assert_eq!(of_eth0(&unplugged, None).severity, Severity::Warning);
    let far = FarEnd { netns: "b".into(), name: "vb0".into(), mtu_bytes: 1500, is_up: false };
    let veth = base().nic("eth0", "/operational_state", "lower-layer-down");
    let remark = of_eth0(&veth, Some(far));
    assert_eq!(remark.evidence, "the far end of the veth pair, vb0 in netns b, is administratively down");
    assert_eq!(remark.commands, ["ip link set dev vb0 up  # in netns b"]);
}

#[test]
fn link_speed() {
    let slow = base().nic("eth0", "/speed_mbps", 1000);
    triggers("link-speed", Severity::Warning, &slow, Aim::default(), &["1Gbit/s", "10Gbit/s", "ethtool -s eth0"]);
}

#[test]
fn link_duplex() {
    let half = base().nic("eth0", "/duplex", "half");
    triggers("link-duplex", Severity::Fault, &half, Aim::default(), &["half duplex, negotiated"]);
}

#[test]
fn pcie_narrow() {
    let narrow = base().file("sys/class/net/eth0/device/current_link_width", "2\n");
    triggers("pcie-narrow", Severity::Fault, &narrow, Aim::default(), &["generation 2 x2", "can use generation 2 x8"]);
    // A quarter of the lanes is enough for a quarter of the speed.
    let enough = base()
        .file("sys/class/net/eth0/device/current_link_width", "2\n")
        .nic("eth0", "/speed_mbps", 2500)
        .nic("eth0", "/speed_supported_mbps", 2500);
    silent("pcie-narrow", &enough, Aim::default());
    // Neither the speed nor the slot of a paravirtual device is compared.
    silent("pcie-narrow", &narrow.nic("eth0", "/driver", "vmxnet3"), Aim::default());
    silent("link-speed", &base().nic("eth0", "/speed_mbps", 1000).nic("eth0", "/driver", "vmxnet3"), Aim::default());
}

#[test]
fn mtu_mismatch() {
    let routed = base().nic("eth1", "/mtu_bytes", 9000);
    triggers("mtu-mismatch", Severity::Warning, &routed, Aim::default(), &["9000", "1500", "routes between"]);
    let apart = base().nic("eth1", "/mtu_bytes", 9000).file("proc/sys/net/ipv4/ip_forward", "0\n");
    silent("mtu-mismatch", &apart, Aim::default());
    let bridged = base()
        .nic("eth0", "/master", 9)
        .nic("eth1", "/master", 9)
        .nic("eth0", "/mtu_bytes", 9000)
        .file("proc/sys/net/ipv4/ip_forward", "0\n");
    triggers("mtu-mismatch", Severity::Warning, &bridged, Aim::default(), &["ports of one bridge"]);
}

#[test]
fn irq_one_cpu() {
    let all_on_one = (0..4).fold(base(), |base, queue| base.irq(40 + queue, "0"));
    triggers(
        "irq-one-cpu",
        Severity::Fault,
        &all_on_one,
        Aim::default(),
        &["4 queue interrupts all on CPU 0", "echo 2 > /proc/irq/42/smp_affinity_list"],
    );
}

/// The masks allow four CPUs, and the kernel does not report which CPU takes the interrupt: it is derived from the
/// counts.
#[test]
fn irq_one_cpu_by_counts() {
    let names = (0..16).map(|cpu| format!("CPU{cpu} ")).collect::<String>();
    let table = |second: u32| {
        let row = |queue: u32| {
            let rest = "0 ".repeat(14);
            format!("{}: {} {second} {rest} PCI-MSI eth0-TxRx-{queue}\n", 40 + queue, 5000 + queue)
        };
        format!("{names}\n{}", (0..4).map(row).collect::<String>())
    };
    let masks = (0..4).fold(base(), |base, queue| base.irq(40 + queue, "0-3"));
    let one = masks.file("proc/interrupts", &table(0));
    let says = ["4 queue interrupts all on CPU 0 by their counts, although their masks allow 0-3"];
    triggers("irq-one-cpu", Severity::Fault, &one, Aim::default(), &says);
    silent("irq-one-cpu", &masks.file("proc/interrupts", &table(4000)), Aim::default());
    // Since boot two CPUs took the interrupts; while watching only CPU 0 took them.
    let later = |first: u32| {
        let row = |queue: u32| {
            let rest = "0 ".repeat(14);
            format!("{}: {} 4000 {rest} PCI-MSI eth0-TxRx-{queue}\n", 40 + queue, first + queue)
        };
        format!("{names}\n{}", (0..4).map(row).collect::<String>())
    };
    let shared = masks.file("proc/interrupts", &table(4000));
    triggers(
        "irq-one-cpu",
        Severity::Fault,
        &shared.file("later/proc/interrupts", &later(5900)),
        Aim::default(),
        &says,
    );
    silent("irq-one-cpu", &shared.file("later/proc/interrupts", &later(5020)), Aim::default());
}

/// A mask that has no effect: the interrupt is assigned to CPU 2, but while watching CPU 0 takes it.
#[test]
fn irq_mask() {
    let names = (0..16).map(|cpu| format!("CPU{cpu} ")).collect::<String>();
    let table = |first: u32, third: u32| {
        let rest = "0 ".repeat(13);
        format!("{names}\n 42: {first} 0 {third} {rest} PCI-MSI eth0-TxRx-2\n")
    };
    let before = base().file("proc/interrupts", &table(9000, 100));
    let astray = before.file("later/proc/interrupts", &table(9600, 103));
    triggers(
        "irq-mask",
        Severity::Warning,
        &astray,
        Aim::default(),
        &["interrupt 42 (eth0-TxRx-2) belongs on CPU 2", "CPU 0 600", "CPU 2 3", "/proc/irq/42/smp_affinity_list"],
    );
    // Interrupts that CPU 0 took before the mask was set do not contradict the mask; a few interrupts do not either.
    silent("irq-mask", &before.file("later/proc/interrupts", &table(9000, 900)), Aim::default());
    silent("irq-mask", &before.file("later/proc/interrupts", &table(9020, 103)), Aim::default());
    silent("irq-mask", &before, Aim::default());
}

/// Programs of a host with two nodes; the device is on node 0.
#[test]
fn memory_remote_node() {
    let dir = base().lay();
    let mut host = Inspection::of_capture(dir.path()).unwrap();
    let program = |pid, name: &str, bytes: &[(u32, u64)]| ProgramMemory {
        pid,
        name: name.to_owned(),
        bytes: bytes.iter().copied().collect(),
    };
    let remarks = |host: &Inspection| -> Vec<Remark> {
        rules::check(host, &Aim::default()).into_iter().filter(|remark| remark.rule == "memory-remote-node").collect()
    };
    host.programs = vec![
        program(812, "memcached", &[(0, 256 << 20), (1, 768 << 20)]),
        program(813, "near", &[(0, 768 << 20), (1, 256 << 20)]),
        program(814, "small", &[(1, 8 << 20)]),
    ];
    let found = remarks(&host);
    assert_eq!(found.len(), 2, "a remark an interface: {found:#?}");
    assert_eq!((found[0].severity, found[0].interface.as_deref()), (Severity::Warning, Some("eth0")));
    assert_eq!(
        found[0].evidence,
        "memcached (pid 812) has 75 % of its 1024 MiB on other NUMA nodes than node 0 of the device"
    );
    assert_eq!(found[0].commands[0], "migratepages 812 1 0");
    host.programs.remove(0);
    assert_eq!(remarks(&host), []);
    // With devices on both nodes it is not known which device a program uses.
    host.programs = vec![program(812, "memcached", &[(1, 768 << 20)])];
    host.ports.iter_mut().find(|port| port.nic.name == "eth1").unwrap().nic.numa_node = Some(1);
    assert_eq!(remarks(&host), []);
}

#[test]
fn services_disturb() {
    let running = base().file("proc/812/comm", "tuned\n").file("proc/813/comm", "gnome-shell\n");
    let says = ["tuned (pid 812) sets governor", "gnome-shell (pid 813) draws", "systemctl stop"];
    triggers("services-disturb", Severity::Note, &running, Aim::default(), &says);
    silent("services-disturb", &base().file("proc/814/comm", "sshd\n"), Aim::default());
}

/// The default of igb: TCP is hashed with ports, UDP without.
#[test]
fn rss_ports() {
    let fields = |udp: &str| {
        base().nic(
            "eth0",
            "/hash_fields",
            json!({ "tcp4": "sdfn", "udp4": udp, "tcp6": "sdfn", "udp6": udp, "sctp4": "sd" }),
        )
    };
    triggers(
        "rss-ports",
        Severity::Warning,
        &fields("sd"),
        Aim::default(),
        &[
            "UDP 4-tuple not hashed: the queue of udp4, udp6 is chosen by addresses only (sd); the interface has 4 receive queues",
            "ethtool -N eth0 rx-flow-hash udp4 sdfn",
        ],
    );
    silent("rss-ports", &fields("sdfn"), Aim::default());
    silent("rss-ports", &base(), Aim::default());
    let one = fields("sd").nic("eth0", "/channels/combined", 1).equal_rss("eth0", 1);
    silent("rss-ports", &one, Aim::default());
    let host = Inspection::of_capture(fields("-").lay().path()).unwrap();
    let sheet = serde_json::to_string(&page::sheet(&host, Vec::new())).unwrap();
    assert!(sheet.contains("tcp4 tcp6 by addresses and ports (sdfn)") && sheet.contains("none for "), "{sheet}");
}

#[test]
fn irq_remote_node() {
    let far = base().irq(43, "7");
    triggers(
        "irq-remote-node",
        Severity::Warning,
        &far,
        Aim::default(),
        &["1 of 4 queue interrupts", "node 0", "echo 3 > /proc/irq/43/smp_affinity_list"],
    );
}

#[test]
fn irq_smt_pair() {
    // CPU 8 is the SMT sibling of CPU 0; CPU 3 has no queue.
    let paired = base().irq(43, "8");
    triggers("irq-smt-pair", Severity::Warning, &paired, Aim::default(), &["CPUs 0,8"]);
}

#[test]
fn irqbalance_pinning() {
    let running = base().file("proc/612/comm", "irqbalance\n");
    triggers("irqbalance-pinning", Severity::Warning, &running, Aim::default(), &["pid 612", "--banirq=40"]);
    let free = (40..44).chain(50..54).fold(running, |base, irq| base.irq(irq, "0-15"));
    silent("irqbalance-pinning", &free, Aim::default());
}

#[test]
fn queues_few() {
    let two = base().nic("eth0", "/channels/combined", 2).equal_rss("eth0", 2);
    triggers(
        "queues-few",
        Severity::Warning,
        &two,
        Aim::default(),
        &["2 receive queues for 4 cores", "ethtool -L eth0 combined 4"],
    );
}

#[test]
fn queues_many() {
    let many = base().nic("eth0", "/channels/combined", 32).equal_rss("eth0", 32);
    triggers("queues-many", Severity::Note, &many, Aim::default(), &["32 receive queues for 16 usable CPUs"]);
}

#[test]
fn rss_skew() {
    let two_of_four = base().equal_rss("eth0", 2);
    triggers("rss-skew", Severity::Warning, &two_of_four, Aim::default(), &["2 queues without any", "equal 4"]);
    let one_of_four = base().equal_rss("eth0", 1);
    triggers("rss-skew", Severity::Fault, &one_of_four, Aim::default(), &["128 of 128"]);
    let three = base().nic("eth0", "/channels/combined", 3).equal_rss("eth0", 3);
    silent("rss-skew", &three, Aim::default());
}

#[test]
fn ring_small() {
    let small = base().nic("eth0", "/rings/rx", 256);
    // 10 Gbit/s / (84 x 8 bit) = 14.88 M/s; 25 us + 2 us.
    triggers("ring-small", Severity::Warning, &small, Aim::default(), &["256 slots", "402", "ethtool -G eth0 rx 512"]);
    let slow = base().nic("eth0", "/rings/rx", 256).nic("eth0", "/speed_mbps", 1000);
    silent("ring-small", &slow, Aim::default());
}

#[test]
fn coalesce_adaptive() {
    let adaptive = base().nic("eth0", "/coalesce/adaptive-rx", 1);
    triggers("coalesce-adaptive", Severity::Warning, &adaptive, aim(Objective::Latency), &["adaptive-rx off"]);
    silent("coalesce-adaptive", &adaptive, aim(Objective::Throughput));
    // For igb `rx-usecs` 3 is not a delay, and its driver would refuse 8.
    let word = base().nic("eth0", "/rings/rx", 4096).nic("eth0", "/driver", "igb").nic(
        "eth0",
        "/coalesce",
        json!({ "rx-usecs": 3 }),
    );
    let says = ["rx-usecs 3 is no delay", "up to 250 us", "ethtool -C eth0 rx-usecs 10"];
    triggers("coalesce-adaptive", Severity::Warning, &word, aim(Objective::Latency), &says);
    silent("coalesce-adaptive", &word.nic("eth0", "/coalesce/rx-usecs", 20), aim(Objective::Latency));
}

#[test]
fn ring_drops() {
    let file = "sys/class/net/eth0/statistics/rx_missed_errors";
    let rising = base().file(file, "10\n").file(&format!("later/{file}"), "35\n");
    triggers("ring-drops", Severity::Fault, &rising, Aim::default(), &["25 in 1.0 s", "ethtool -G eth0 rx 4096"]);
    // One packet in a hundred was lost since boot, none while watching.
    let past = base().file(file, "20000\n").file(&format!("later/{file}"), "20000\n");
    let says = ["20000 since boot, none in the last", "act only if the count grows"];
    triggers("ring-drops", Severity::Note, &past, Aim::default(), &says);
    silent("ring-drops", &base().file(file, "10\n").file(&format!("later/{file}"), "10\n"), Aim::default());
}

/// A line of softnet_stat.
fn softnet(processed: u32, dropped: u32, squeezed: u32) -> String {
    let zeros = "00000000 ".repeat(6);
    format!("{processed:08x} {dropped:08x} {squeezed:08x} {zeros}00000000 00000000 00000000 00000000\n")
}

#[test]
fn softnet_drops() {
    let file = "proc/net/softnet_stat";
    let rising = base().file(file, &softnet(1_000_000, 4, 0)).file(&format!("later/{file}"), &softnet(1_000_900, 9, 0));
    triggers("softnet-drops", Severity::Fault, &rising, Aim::default(), &["5 in 1.0 s", "netdev_max_backlog=2000"]);
    let still = base().file(file, &softnet(1_000_000, 4, 0)).file(&format!("later/{file}"), &softnet(1_000_900, 4, 0));
    silent("softnet-drops", &still, Aim::default());
}

#[test]
fn time_squeeze() {
    let file = "proc/net/softnet_stat";
    let rising = base().file(file, &softnet(1_000_000, 0, 4)).file(&format!("later/{file}"), &softnet(1_000_900, 0, 6));
    triggers("time-squeeze", Severity::Warning, &rising, Aim::default(), &["2 in 1.0 s", "netdev_budget=600"]);
    let still = base().file(file, &softnet(1_000_000, 0, 4)).file(&format!("later/{file}"), &softnet(1_000_900, 0, 4));
    silent("time-squeeze", &still, Aim::default());
    // A budget of 65535 packets takes longer than the time limit, so a larger budget would change nothing.
    let wide = rising
        .file("proc/sys/net/core/netdev_budget", "65535\n")
        .file("proc/sys/net/core/netdev_budget_usecs", "2000\n");
    triggers(
        "time-squeeze",
        Severity::Warning,
        &wide,
        Aim::default(),
        &["only the time limit can end a round", "netdev_budget_usecs=4000"],
    );
    let findings = format!("{:?}", remarks(&wide, Aim::default()));
    assert!(!findings.contains("netdev_budget=131070"), "{findings}");
}

#[test]
fn idle_deep() {
    let states = "sys/devices/system/cpu/cpu0/cpuidle";
    let deep = base()
        .file(&format!("{states}/state2/name"), "C6\n")
        .file(&format!("{states}/state2/latency"), "133\n")
        .file(&format!("{states}/state2/disable"), "0\n");
    // A longer wake-up also means a larger burst at the ring.
    triggers("idle-deep", Severity::Note, &deep, Aim::default(), &["C6 (133 us)", "state2/disable"]);
    triggers("idle-deep", Severity::Warning, &deep, aim(Objective::Latency), &["C6 (133 us)"]);
    silent("idle-deep", &deep, aim(Objective::Cpu));
    silent("idle-deep", &deep.file(&format!("{states}/state2/disable"), "1\n"), aim(Objective::Latency));
}

#[test]
fn governor_powersave() {
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let lowest = base().file(&format!("{policy}/scaling_governor"), "powersave\n");
    triggers("governor-powersave", Severity::Fault, &lowest, Aim::default(), &["acpi-cpufreq", "lowest frequency"]);
    let follows = lowest.file(&format!("{policy}/scaling_driver"), "intel_pstate\n");
    triggers("governor-powersave", Severity::Note, &follows, Aim::default(), &["follows the load"]);
    triggers("governor-powersave", Severity::Warning, &follows, aim(Objective::Latency), &["performance"]);
}

#[test]
fn gro_off() {
    let off = base().nic("eth0", "/features/rx-gro", false);
    triggers("gro-off", Severity::Warning, &off, Aim::default(), &["ethtool -K eth0 gro on"]);
}

#[test]
fn conntrack_router() {
    let tracking = base()
        .file("proc/modules", "nf_conntrack 180224 1 - Live 0x0\n")
        .file("proc/sys/net/netfilter/nf_conntrack_count", "812\n")
        .file("proc/sys/net/netfilter/nf_conntrack_max", "262144\n");
    triggers("conntrack-router", Severity::Warning, &tracking, Aim::default(), &["812 of at most 262144"]);
    let full = tracking.file("proc/sys/net/netfilter/nf_conntrack_count", "262000\n");
    triggers("conntrack-router", Severity::Fault, &full, Aim::default(), &["nf_conntrack_max=524288"]);
    // A full connection table drops a server's connections, too. On a server a table that is not full is not reported.
    let off = ("proc/sys/net/ipv4/ip_forward", "0\n");
    triggers(
        "conntrack-router",
        Severity::Fault,
        &full.file(off.0, off.1),
        Aim::default(),
        &["262000 of at most 262144"],
    );
    let room = full.file("proc/sys/net/netfilter/nf_conntrack_count", "812\n");
    silent("conntrack-router", &room.file(off.0, off.1), Aim::default());
}

#[test]
fn socket_bdp() {
    // 10 Gbit/s x 20 ms = 25 MB, over 6 MB and 4 MB.
    let far = Aim { rtt_s: 20e-3, ..Aim::default() };
    triggers("socket-bdp", Severity::Warning, &base(), far, &["25000000 bytes", "tcp_rmem='4096 131072 25000000'"]);
    let raised = base()
        .file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432\n")
        .file("proc/sys/net/ipv4/tcp_wmem", "4096\t131072\t33554432\n");
    silent("socket-bdp", &raised, far);
}

#[test]
fn mtu_path() {
    let ip = |fails: u32, made: u32| {
        format!("Ip: Forwarding FragFails FragCreates ReasmReqds\nIp: 1 {fails} {made} 7\nIcmp: InMsgs\nIcmp: 3\n")
    };
    let six = |fails: u32| format!("Ip6ReasmReqds                   \t2\nIp6FragFails                    \t{fails}\n");
    let host = |fails: u32, made: u32, fails_six: u32| {
        base()
            .file("proc/net/snmp", &ip(5, 9))
            .file("later/proc/net/snmp", &ip(fails, made))
            .file("proc/net/snmp6", &six(1))
            .file("later/proc/net/snmp6", &six(fails_six))
    };
    triggers(
        "mtu-path",
        Severity::Warning,
        &host(5, 13, 1),
        Aim::default(),
        &["4 fragments made (FragCreates)", "tracepath"],
    );
    triggers(
        "mtu-path",
        Severity::Fault,
        &host(7, 9, 4),
        Aim::default(),
        &["5 packets lost because they were too long"],
    );
    silent("mtu-path", &host(5, 9, 1), Aim::default());
}

#[test]
fn mtu_narrow() {
    let path = |mtu: u32, known: &str, interface_mtu: u32| {
        format!(
            r#"[{{"destination": "192.0.2.1", "interface": "eth0", "interface_mtu_bytes": {interface_mtu}, "mtu_bytes": {mtu},
                "known": "{known}"}}]"#
        )
    };
    let host = |text: &str| base().file("paths.json", text);
    triggers(
        "mtu-narrow",
        Severity::Note,
        &host(&path(1400, "discovery", 1500)),
        Aim::default(),
        &[
            "MTU 1400 instead of 1500 bytes on the path to 192.0.2.1 by eth0",
            "path MTU discovery",
            "tracepath -n 192.0.2.1",
        ],
    );
    let jumbo = host(&path(1500, "route", 9000));
    triggers(
        "mtu-narrow",
        Severity::Warning,
        &jumbo,
        Aim::default(),
        &["MTU 1500 instead of 9000", "the route says so"],
    );
    let many: Vec<String> = (1..=5)
        .map(|n| {
            format!(r#"{{"destination": "192.0.2.{n}", "interface_mtu_bytes": 1500, "mtu_bytes": 1300, "known": "connections"}}"#)
        })
        .collect();
    let many = host(&format!("[{}]", many.join(",")));
    triggers("mtu-narrow", Severity::Note, &many, Aim::default(), &["TCP connections", "2 more"]);
    silent("mtu-narrow", &host("[]"), Aim::default());
    silent("mtu-narrow", &base(), Aim::default());
}

#[test]
fn idle_states_of_every_cpu() {
    let state =
        |cpu: u32, off: u32| (format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state2/disable"), format!("{off}\n"));
    let deep = base()
        .file("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C6\n")
        .file("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133\n");
    let with = |states: &[(u32, u32)]| {
        states.iter().fold(deep.clone(), |host, (cpu, off)| {
            let (path, text) = state(*cpu, *off);
            host.file(&path, &text)
        })
    };
    // The idle state is disabled on CPU 0 and enabled on other CPUs.
    triggers(
        "idle-deep",
        Severity::Note,
        &with(&[(0, 1), (1, 0), (2, 0)]),
        Aim::default(),
        &["C6 (133 us, on CPUs 1-2)"],
    );
    triggers("idle-deep", Severity::Note, &with(&[(0, 0), (1, 0)]), Aim::default(), &["C6 (133 us)"]);
    silent("idle-deep", &with(&[(0, 1), (1, 1)]), aim(Objective::Latency));
}

#[test]
fn selinux() {
    triggers("selinux", Severity::Note, &base().file("sys/fs/selinux/enforce", "1\n"), Aim::default(), &["enforcing"]);
    silent("selinux", &base().file("sys/fs/selinux/enforce", "0\n"), Aim::default());
}

/// A network namespace shows only some sysctls: the others get no default value, no change of them is proposed, and the
/// page names them.
#[test]
fn sysctls_that_cannot_be_read() {
    let file = "proc/net/softnet_stat";
    let rising = base().file(file, &softnet(1_000_000, 4, 4)).file(&format!("later/{file}"), &softnet(1_000_900, 9, 9));
    let core = ["netdev_budget", "netdev_budget_usecs", "netdev_max_backlog", "dev_weight"];
    let host = core.iter().fold(rising, |host, name| host.without(&format!("proc/sys/net/core/{name}")));
    silent("softnet-drops", &host, Aim::default());
    silent("time-squeeze", &host, Aim::default());
    let dir = host.lay();
    let sheet = page::sheet(&Inspection::of_capture(dir.path()).unwrap(), Vec::new());
    let facts: Vec<&(String, String)> = sheet.sections.iter().flat_map(|section| &section.facts).collect();
    assert!(facts.iter().all(|(name, fact)| name != "softirq" && !fact.contains("? ")), "{facts:?}");
    let told = sheet.not_had.iter().find(|line| line.contains("net.core.netdev_budget, ")).expect("named");
    assert!(told.contains("net.core.netdev_max_backlog"), "{told}");
}
