use super::*;
use proptest::prelude::*;
use std::process::Command;

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
    let switch = |group, key: &str| Setting::Ethtool { interface: "eth0".into(), group, key: key.into() };
    let queue = |queue, key: &str| Setting::QueueCoalesce { interface: "eth0".into(), queue, key: key.into() };
    let fields = Setting::HashFields { interface: "eth0".into(), flow: "udp4".into() };
    let rule = Setting::FlowRule { interface: "eth0".into(), location: 15 };
    for (setting, value, command) in [
        (Setting::sysctl("net.core.netdev_budget"), "600", "sysctl -w net.core.netdev_budget=600"),
        (Setting::file("/proc/irq/40/smp_affinity_list"), "2", "echo 2 > /proc/irq/40/smp_affinity_list"),
        (coalesce("rx-usecs"), "8", "ethtool -C eth0 rx-usecs 8"),
        (coalesce("adaptive-rx"), "0", "ethtool -C eth0 adaptive-rx off"),
        (table.clone(), "0,1,2,0,1,2,0,1", "ethtool -X eth0 equal 3"),
        (table, "0,0,1", "# eth0 RSS table: 0,0,1"),
        (
            Setting::Interrupt { interface: "eth0".into(), name: "eth0-TxRx-3".into() },
            "2",
            "echo 2 > /proc/irq/$(name=eth0-TxRx-3 awk '$NF \"\" == ENVIRON[\"name\"] { print $1 + 0 }' \
             /proc/interrupts)/smp_affinity_list",
        ),
        (Setting::Mtu { interface: "eth0".into() }, "9000", "ip link set dev eth0 mtu 9000"),
        (switch(Group::Pause, "rx"), "off", "ethtool -A eth0 rx off"),
        (switch(Group::HeaderSplit, "tcp-data-split"), "on", "ethtool -G eth0 tcp-data-split on"),
        (queue(2, "rx-usecs"), "8", "ethtool --per-queue eth0 queue_mask 0x4 --coalesce rx-usecs 8"),
        (queue(37, "adaptive-rx"), "0", "ethtool --per-queue eth0 queue_mask 0x2000000000 --coalesce adaptive-rx off"),
        (fields.clone(), "sdfn", "ethtool -N eth0 rx-flow-hash udp4 sdfn"),
        (fields, "-", "# eth0 hashed fields udp4: -"),
        (Setting::RssKey { interface: "eth0".into() }, "6d5a56", "ethtool -X eth0 hkey 6d:5a:56"),
        (rule.clone(), "udp4 dst-port 53 action 2", "ethtool -N eth0 flow-type udp4 dst-port 53 action 2 loc 15"),
        (rule, "none", "ethtool -N eth0 delete 15"),
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
    assert!(namespace_keeper(namespace().unwrap()).is_some());
    assert_eq!(namespace_keeper(1), None);
    let named = Keeper::Name("a b".to_owned()).inside("netcliff tune undo");
    assert_eq!(named, "ip netns exec 'a b' netcliff tune undo");
    assert_eq!(Keeper::Process("7".to_owned()).inside("ls"), "nsenter --target 7 --net ls");
}

/// The words that a minimal shell parses from commands, with its tools replaced by functions; the commands may have no
/// other effect.
fn words_of(commands: &[String]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let tool = |name: &str| format!("{name}() {{ printf '%s\\0' {name} \"$@\"; }}\n");
    let tools: String = ["ethtool", "ip", "sysctl", "id"].map(tool).concat();
    let script = tools + &commands.join("\n");
    let output = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}\n{script}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{script}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// The name in a form that no terminal interprets: without control characters.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_shell_gets_the_words_that_are_meant(name in "(?s).{1,15}", key in "(?s).{1,9}", value in "(?s).{0,30}") {
        let interface = name.clone();
        let offload = Setting::Ethtool { interface: interface.clone(), group: Group::Features, key: key.clone() };
        let commands = [
            offload.command(&value),
            Setting::Mtu { interface }.command(&value),
            Setting::sysctl("net.core.rmem_max").command(&value),
        ];
        let sysctl = format!("net.core.rmem_max={value}");
        let wanted = ["ethtool", "-K", &name, &key, &value, "ip", "link", "set", "dev", &name, "mtu", &value, "sysctl", "-w", &sysctl];
        prop_assert_eq!(words_of(&commands), wanted.map(shown));
    }

    /// Commands with redirections write the right value to the right file, and find an interrupt by its name.
    #[test]
    fn a_file_gets_the_line_that_is_meant(name in "[^/\\s\\p{Cc}]{1,15}", value in "[^/\\p{Cc}]{0,30}") {
        prop_assume!(!matches!(name.as_str(), "." | ".."));
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        let here = dir.path().join("here");
        let file = format!("/sys/class/net/{name}/threaded");
        fs::create_dir_all(root.join(&file[1..]).parent().unwrap()).unwrap();
        fs::create_dir_all(root.join("proc/irq/91")).unwrap();
        fs::create_dir_all(&here).unwrap();
        let interrupts = format!("           CPU0\n 40:  1  IR-PCI-MSI  other\n 91:  7  IR-PCI-MSI  {name}\n");
        fs::write(root.join("proc/interrupts"), interrupts).unwrap();
        let commands = [
            Setting::file(file.as_str()).command(&value),
            Setting::Interrupt { interface: name.clone(), name: name.clone() }.command("3"),
        ];
        let there = |text: &str| text.replace("/sys/", &format!("{}/sys/", root.display())).replace("/proc/", &format!("{}/proc/", root.display()));
        let output = Command::new("sh").args(["-c", &there(&commands.join("\n"))]).current_dir(&here).output().unwrap();
        prop_assert!(output.stderr.is_empty(), "{}\n{}", String::from_utf8_lossy(&output.stderr), commands.join("\n"));
        prop_assert_eq!(fs::read_to_string(root.join(&file[1..])).unwrap(), value + "\n");
        prop_assert_eq!(fs::read_to_string(root.join("proc/irq/91/smp_affinity_list")).unwrap(), "3\n");
        prop_assert_eq!(fs::read_dir(here).unwrap().count(), 0);
    }
}
