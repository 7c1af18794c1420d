use super::*;

#[test]
fn values_are_compared_as_the_kernel_means_them() {
    for (a, b) in [("4096\t131072 1", "4096 131072\t1"), ("00000003", "3"), ("00000000,00000000", "0"), ("0-3", "0-3")]
    {
        assert!(same(a, b), "{a:?} {b:?}");
    }
    assert!(same("0,00000003", "3") && same("00000001,00000000", "1,00000000"));
    // Lists of CPUs and RSS tables begin with 0, too.
    assert!(!same("0,2", "2") && !same("0,1", "1") && !same("0,0,1", "0,1"));
    assert!(!same("64", "50") && !same("on", "off") && !same("1 2", "12"));
}

#[test]
fn only_the_kernels_files_are_touched() {
    for path in ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/self/mem"] {
        let error = Setting::file(path).write("x").unwrap_err().to_string();
        assert!(error.contains("not touched"), "{error}");
    }
}

#[test]
fn commands_people_can_type() {
    let coalesce = |key: &str| Setting::Ethtool { interface: "eth0".into(), group: Group::Coalesce, key: key.into() };
    let link = Setting::Link { interface: "eth0".into() };
    let table = Setting::RssTable { interface: "eth0".into() };
    for (setting, value, command) in [
        (Setting::sysctl("net.core.netdev_budget"), "600", "sysctl -w net.core.netdev_budget='600'"),
        (Setting::file("/proc/irq/40/smp_affinity_list"), "2", "echo '2' > /proc/irq/40/smp_affinity_list"),
        (coalesce("rx-usecs"), "8", "ethtool -C eth0 rx-usecs 8"),
        (coalesce("adaptive-rx"), "0", "ethtool -C eth0 adaptive-rx off"),
        (table.clone(), "0,1,2,0,1,2,0,1", "ethtool -X eth0 equal 3"),
        (table, "0,0,1", "# RSS table of eth0: 0,0,1"),
        (
            Setting::Interrupt { interface: "eth0".into(), name: "eth0-TxRx-3".into() },
            "2",
            "echo '2' > /proc/irq/$(awk '$NF == \"eth0-TxRx-3\" { print $1 + 0 }' /proc/interrupts)/smp_affinity_list",
        ),
        (Setting::Mtu { interface: "eth0".into() }, "9000", "ip link set dev eth0 mtu 9000"),
        (link.clone(), "100 half", "ethtool -s eth0 speed 100 duplex half autoneg off"),
        (link, "auto TP,100baseT/Half", "ethtool -s eth0 autoneg on advertise TP on 100baseT/Half on"),
        (
            Setting::HardwareStamps { interface: "eth0".into() },
            "transmit=on receive=all",
            "hwstamp_ctl -i eth0 -t 1 -r 1",
        ),
    ] {
        assert_eq!(setting.command(value), command);
    }
}

#[test]
fn what_belongs_to_a_namespace() {
    assert!(Setting::sysctl("net.core.rmem_max").is_of_namespace());
    assert!(!Setting::sysctl("kernel.numa_balancing").is_of_namespace());
    let queue = Setting::file("/sys/class/net/eth0/queues/rx-0/rps_cpus");
    assert_eq!(queue.interface(), Some("eth0"));
    assert!(namespace_exists(namespace().unwrap()));
    assert!(!namespace_exists(1));
}
