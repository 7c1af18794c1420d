//! Tests plans as files: each kind of file is read by a parser of its grammar, and by the system's own tool if it is
//! installed.

use crate::inspect::common::{Overlay, base};
use netcliff_core::inspection::Objective;
use netcliff_host::{
    inspect::Inspection,
    setting::Setting,
    tune::{Plan, Wish, permanent, plan},
};
use netcliff_testkit::has_program;
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

/// A host with something to set of every kind, and its plans for each objective.
fn plans() -> (Inspection, Vec<Plan>) {
    let host: Overlay = base()
        .nic("eth0", "/coalesce/adaptive-rx", 1)
        .nic("eth0", "/channels/combined", 2)
        .nic("eth0", "/rings/rx", 64)
        .nic("eth0", "/features/rx-lro", true)
        .nic("eth0", "/features/rx-checksum", false)
        .nic("eth1", "/rss/indirection", vec![0_u32; 8])
        .file("sys/class/net/eth0/queues/rx-0/rps_cpus", "000e\n")
        .file("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "schedutil\n")
        .file("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n")
        .file("proc/sys/net/core/busy_poll", "0\n")
        .file("proc/sys/net/ipv4/tcp_rmem", "4096 131072 524288\n")
        .irq(53, "7");
    let dir = host.lay();
    let inspection = Inspection::of_capture(dir.path()).unwrap();
    let plans = Objective::ALL.map(|objective| {
        let wish = Wish { mtu_bytes: Some(9000), ..Wish::new(objective) };
        plan(&inspection, &wish).unwrap()
    });
    (inspection, plans.into())
}

/// Whether a tool accepts its input, and the tool's output; `None`, with a message, if it is not installed.
fn tool(program: &str, args: &[&str]) -> Option<(bool, String)> {
    if !has_program(program) {
        return None;
    }
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let told = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// Lines that are not comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn shells_accept(dir: &Path, name: &str, text: &str) {
    let file = write(dir, name, text);
    for (shell, args) in
        [("bash", vec!["-n", &file]), ("dash", vec!["-n", &file]), ("shellcheck", vec!["-s", "sh", &file])]
    {
        if let Some((accepted, told)) = tool(shell, &args) {
            assert!(accepted, "{shell}: {told}\n{text}");
        }
    }
}

#[test]
fn sysctl_files_hold_every_sysctl_and_name_the_rest() {
    let (_, plans) = plans();
    let dir = tempfile::tempdir().unwrap();
    for plan in &plans {
        let file = permanent::sysctl_d(plan);
        let read: BTreeMap<&str, &str> = lines(&file.text).map(|line| line.split_once(" = ").unwrap()).collect();
        let wanted: BTreeMap<&str, &str> = plan
            .steps
            .iter()
            .filter(|step| step.proposal.command.starts_with("sysctl -w "))
            .map(|step| (step.proposal.name.as_str(), step.proposal.new.as_str()))
            .collect();
        assert_eq!(read, wanted);
        assert_eq!(file.left_out.len() + wanted.len(), plan.steps.len());
        assert_eq!(file.text.matches("# not here: ").count(), file.left_out.len());
        let path = write(dir.path(), "90-netcliff.conf", &file.text);
        let Some((_, told)) = tool("sysctl", &["--dry-run", "-p", &path]) else { continue };
        if told.contains("unrecognized option") {
            continue;
        }
        // The tool prints what it has understood, also for keys that this host lacks.
        for (name, value) in wanted {
            assert!(told.contains(&format!("{name} = {value}")) || told.contains("No such file"), "{name}: {told}");
        }
    }
}

/// udev(7): `KEY{attribute}OPERATOR"value"` with commas; only the keys that netcliff writes.
fn udev_word(word: &str) -> Result<(), String> {
    let wrong = || format!("{word:?} is no udev expression");
    let (left, value) = word.split_once('"').ok_or_else(wrong)?;
    let value = value.strip_suffix('"').ok_or_else(wrong)?;
    let matches = ["ACTION==", "SUBSYSTEM==", "KERNEL==", "KERNELS=="];
    let attribute = left.strip_prefix("ATTR{").and_then(|rest| rest.strip_suffix("}="));
    let known = matches.contains(&left) || left == "RUN+=" || attribute.is_some_and(|name| !name.is_empty());
    let program = left != "RUN+=" || value.starts_with('/');
    (known && program && !value.is_empty() && !value.contains('"')).then_some(()).ok_or_else(wrong)
}

#[test]
fn udev_rules_are_in_the_grammar_of_udev() {
    let (inspection, plans) = plans();
    let dir = tempfile::tempdir().unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for plan in &plans {
        let file = permanent::udev(plan, &inspection);
        for line in lines(&file.text) {
            let words: Vec<&str> = line.split(", ").collect();
            words.iter().for_each(|word| udev_word(word).unwrap());
            assert_eq!(words[0], "ACTION==\"add\"");
            let action = words.last().unwrap();
            assert!(!action.contains("=="), "{line}");
            kinds.insert(action.split(['=', '+', '{']).next().unwrap().to_owned());
            // The rule identifies the device by its bus address, because its name may change.
            assert!(!line.contains("eth0") || !line.contains("SUBSYSTEM==\"net\""), "{line}");
        }
        assert_eq!(lines(&file.text).count() + file.left_out.len(), plan.steps.len());
        for name in &file.left_out {
            let sysctl = plan
                .steps
                .iter()
                .any(|step| step.proposal.name == *name && step.proposal.command.starts_with("sysctl -w "));
            assert!(
                name.contains(" interrupt ") || sysctl || name.contains("RSS table") || name.contains("NAPI"),
                "{name} is left out"
            );
        }
        let path = write(dir.path(), "90-netcliff.rules", &file.text);
        match tool("udevadm", &["verify", "--no-summary", &path]) {
            Some((accepted, told)) if !told.contains("Unknown command") => assert!(accepted, "{told}"),
            _ => {}
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["ATTR", "RUN"]);
    assert!(udev_word("ATTR{mtu}==1500").is_err() && udev_word("RUN+=\"ethtool\"").is_err(), "the reader is strict");
}

/// Checks that a tuned plugin accepts a line (tuned/plugins: main, net, script, sysctl, sysfs).
fn tuned_line(section: &str, key: &str, value: &str) -> Result<(), String> {
    let words: Vec<&str> = value.split(' ').collect();
    let pairs = |keys: &[&str]| words.len().is_multiple_of(2) && words.iter().step_by(2).all(|key| keys.contains(key));
    let fine = match (section, key) {
        ("main", "summary") => true,
        ("sysctl", key) => key.starts_with("net.") || key.starts_with("kernel."),
        ("sysfs", key) => key.starts_with("/sys/") && words.len() == 1,
        ("script", "script") => value.starts_with("${i:PROFILE_DIR}/"),
        (net, "type") if net.starts_with("net_") => value == "net",
        (net, "devices") => net == format!("net_{value}"),
        (_, "mtu") => value.parse::<u32>().is_ok(),
        (_, "coalesce") => pairs(&["adaptive-rx", "adaptive-tx", "rx-usecs", "rx-frames", "tx-usecs", "tx-frames"]),
        (_, "ring") => pairs(&["rx", "tx"]),
        (_, "channels") => pairs(&["rx", "tx", "other", "combined"]),
        (_, "features") => pairs(&["lro", "gro", "tso", "gso", "rx"]),
        _ => false,
    };
    fine.then_some(()).ok_or_else(|| format!("[{section}] {key}={value}"))
}

#[test]
fn tuned_profiles_use_what_its_plugins_take() {
    let (inspection, plans) = plans();
    let dir = tempfile::tempdir().unwrap();
    for plan in &plans {
        let profile = permanent::tuned(plan, &inspection);
        let mut section = "";
        for line in lines(&profile.conf) {
            match line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
                Some(name) => section = name,
                None => {
                    let (key, value) = line.split_once('=').unwrap();
                    tuned_line(section, key, value).unwrap();
                }
            }
        }
        // tuned reads the file with this parser and only this delimiter.
        let conf = write(dir.path(), "tuned.conf", &profile.conf);
        let read = "import configparser,sys; c=configparser.ConfigParser(delimiters=('='),inline_comment_prefixes=('#'),\
                    strict=True,interpolation=None); c.optionxform=str; c.read_file(open(sys.argv[1])); assert c['main']";
        if let Some((accepted, told)) = tool("python3", &["-c", read, &conf]) {
            assert!(accepted, "{told}");
        }
        let script = profile.script.expect("interrupts need it");
        shells_accept(dir.path(), permanent::TUNED_SCRIPT, &script);
        assert!(script.contains("start)") && script.contains("stop)"), "{script}");
    }
    assert!(tuned_line("net_eth0", "coalesce", "rx-usecs").is_err() && tuned_line("net_eth0", "speed", "1").is_err());
}

/// Runs the script with the kernel's files and the tools replaced: each setting is made once, and interrupts are found
/// by their present number.
#[test]
fn scripts_do_what_the_plan_says() {
    let (inspection, plans) = plans();
    for plan in &plans {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_string_lossy().into_owned();
        let text = permanent::script(plan, &inspection);
        shells_accept(dir.path(), "tune.sh", &text);
        let here = text.replace("/proc/", &format!("{root}/proc/")).replace(" /sys/", &format!(" {root}/sys/"));
        // At this boot the interrupt eth1-TxRx-3 has the number 91.
        fs::create_dir_all(dir.path().join("proc/irq/91")).unwrap();
        write(
            dir.path(),
            "proc/interrupts",
            "      CPU0\n  53:  7  IR-PCI-MSI  other\n  91:  7  IR-PCI-MSI  eth1-TxRx-3\n",
        );
        for step in &plan.steps {
            if let Some(path) = step.proposal.command.split(" > ").nth(1).filter(|path| !path.starts_with("/proc/irq/"))
            {
                fs::create_dir_all(Path::new(&format!("{root}{path}")).parent().unwrap()).unwrap();
            }
        }
        for stub in ["ethtool", "sysctl", "ip"] {
            let stub = write(dir.path(), stub, &format!("#!/bin/sh\necho \"$(basename \"$0\") $*\" >> {root}/calls\n"));
            fs::set_permissions(stub, fs::Permissions::from_mode(0o755)).unwrap();
        }
        // NAPI instances are found by their ids of this boot: instance n has the id 700 + n.
        let ids =
            (0..4).rev().map(|n| format!("{{\"ifindex\": 2, \"id\": {}}}", 700 + n)).collect::<Vec<_>>().join(", ");
        let ynl = format!(
            "#!/bin/sh\ncase \"$*\" in *--dump*) echo '[{ids}]' ;; *) echo \"ynl $*\" >> {root}/calls ;; esac\n"
        );
        let ynl = write(dir.path(), "ynl", &ynl);
        fs::set_permissions(ynl, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["eth0", "eth1"] {
            fs::create_dir_all(dir.path().join("sys/class/net").join(name)).unwrap();
            write(dir.path(), &format!("sys/class/net/{name}/ifindex"), "2\n");
        }
        let file = write(dir.path(), "here.sh", &here);
        let path = format!("{root}:{}", std::env::var("PATH").unwrap());
        let output = Command::new("sh").arg(&file).env("PATH", path).output().unwrap();
        assert!(output.status.success(), "{}\n{here}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_to_string(dir.path().join("proc/irq/91/smp_affinity_list")).unwrap(), "3\n");
        let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
        for step in &plan.steps {
            let command = &step.proposal.command;
            match command.split_once(" > ") {
                Some((_, path)) if !path.starts_with("/proc/irq/") => {
                    let set = fs::read_to_string(format!("{root}{path}")).unwrap();
                    assert_eq!(set.trim(), step.proposal.new, "{path}");
                }
                Some(_) => {}
                None if command.starts_with("ynl") => {
                    let Setting::Napi { place, key, .. } = &step.setting else { panic!("{step:?}") };
                    let set = format!("{{\"id\": {}, \"{}\": {}}}", 700 + place, key.name(), step.proposal.new);
                    assert!(calls.contains(&set), "{set} is not in\n{calls}");
                }
                None => assert!(calls.contains(&command.replace('\'', "")), "{command} is not in\n{calls}"),
            }
        }
    }
}
