//! `netcliff tune`: plans for a captured host; apply, undo and try on a veth in a namespace that the test makes.

use crate::common::{Home, say};
use crate::schema::printed;
use netcliff_testkit::{Need, has, has_program, not_applicable, skip};
use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// A namespace with a veth pair, made and removed by `ip`.
struct Bed(String);

impl Bed {
    /// Makes the testbed. `None` if this is not possible; a line reports it.
    fn new(name: &str) -> Option<Bed> {
        if !has(Need::Netns) {
            return None;
        }
        let bed = Bed(format!("nctune-{}-{name}", std::process::id()));
        let made = bed.ip(&["netns", "add", &bed.0])
            && bed.ip(&["-n", &bed.0, "link", "add", "v0", "numrxqueues", "2", "type", "veth", "peer", "name", "v1"])
            && ["v0", "v1"].iter().all(|link| bed.ip(&["-n", &bed.0, "link", "set", link, "up"]));
        assert!(made, "the namespace of the test cannot be made");
        Some(bed)
    }

    fn ip(&self, args: &[&str]) -> bool {
        Command::new("ip").args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Runs `netcliff` inside the namespace.
    fn inside(&self, home: &Home, args: &[&str]) -> Command {
        let netcliff = home.command(args);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(netcliff.get_program()).args(netcliff.get_args());
        for (name, value) in netcliff.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    fn mtu(&self) -> String {
        let output = Command::new("ip").args(["-n", &self.0, "-o", "link", "show", "v0"]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split("mtu ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.ip(&["netns", "delete", &self.0]);
    }
}

/// The router of the host crate's tests with some bad settings.
fn router(home: &Home) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/fixtures");
    let tree = fs::read_to_string(format!("{fixtures}/router.tree")).unwrap();
    for section in tree.split("== ").skip(1) {
        let (path, text) = section.split_once('\n').unwrap();
        write(home, path, &text.replace("\"rx-lro\": false", "\"rx-lro\": true"));
    }
    write(home, "proc/irq/43/smp_affinity_list", "7\n");
    write(home, "proc/sys/net/ipv4/tcp_rmem", "4096 131072 524288\n");
    home.text("router")
}

fn write(home: &Home, path: &str, text: &str) {
    let path = home.path("router").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_plan_for_people_shells_and_sysctl() {
    let home = Home::new();
    let dir = router(&home);
    let plan = |more: &[&str]| {
        home.stdout([&["tune", "plan", "--objective", "throughput", "--if", "eth0", "--from", &dir][..], more].concat())
    };
    let profile = home.text("profile");
    let said = plan(&["--tuned", &profile]);
    assert_eq!(said, format!("{profile}/tuned.conf\n{profile}/netcliff.sh\n"));
    assert_eq!(plan(&["--tuned", &profile]), said, "its own profile is written anew");
    fs::create_dir(home.path("other")).unwrap();
    fs::write(home.path("other/tuned.conf"), "[main]\nsummary=mine\n").unwrap();
    let args = ["tune", "plan", "--objective", "cpu", "--from", &dir, "--tuned", &home.text("other")];
    let refused = home.netcliff(args).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(fs::read_to_string(home.path("other/tuned.conf")).unwrap().contains("mine"));
    let file = |name: &str| fs::read_to_string(home.path("profile").join(name)).unwrap();
    let page: String = [
        ("tune_plan", plan(&[])),
        ("tune_script", plan(&["--script"])),
        ("tune_sysctl_d", plan(&["--sysctl-d"])),
        ("tune_udev", plan(&["--udev"])),
        ("tune_tuned_conf", file("tuned.conf")),
        ("tune_tuned_script", file("netcliff.sh")),
    ]
    .iter()
    .map(|(name, text)| format!("#### {name}\n{}\n", text.trim_end()))
    .collect();
    insta::assert_snapshot!("tune_plan", page);
    let json = printed(plan(&["--json"]), "");
    assert_eq!(json["objective"], "throughput");
    assert_eq!(json["steps"][0]["setting"]["kind"], "ethtool");
    // It is a plan for another machine.
    let file = home.file("plan.json", plan(&["--json"]));
    let output = home.netcliff(["tune", "apply", "--yes", "--plan", &file]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("make a new plan"), "{said}");
}

#[test]
fn wrong_usage_is_told() {
    let home = Home::new();
    for (args, words) in [
        (&["tune", "plan"][..], "--objective"),
        (&["tune", "plan", "--objective", "cpu", "--if", "nosuch0"], "nosuch0"),
        (&["tune", "plan", "--objective", "cpu", "--rtt", "0s"], "--rtt"),
        (&["tune", "apply", "--plan", "/nonexistent"], "/nonexistent"),
        (&["tune", "try", "--objective", "cpu"], "give a COMMAND behind --, or --experiment FILE"),
        (&["inspect", "--json", "--capture", "/nonexistent/x"], "--json"),
        (&["tune", "plan", "--objective", "cpu", "--mtu", "7"], "68"),
        (&["tune", "plan", "--objective", "cpu", "--spare", "77777"], "CPU 77777 is not online"),
    ] {
        let output = home.netcliff(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

const MTU: [&str; 7] = ["--objective", "cpu", "--if", "v0", "--mtu", "1400", "--yes"];

#[test]
fn applied_and_undone() {
    let Some(bed) = Bed::new("apply") else { return };
    let home = Home::new();
    let unasked =
        bed.inside(&home, &[&["tune", "apply"][..], &MTU[..6]].concat()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(unasked.status.code(), Some(2), "{unasked:?}");
    assert_eq!(bed.mtu(), "1500");

    let applied = bed.inside(&home, &[&["tune", "apply"][..], &MTU].concat()).output().unwrap();
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(String::from_utf8_lossy(&applied.stdout), "v0 MTU: 1500 -> 1400\n");
    assert_eq!(bed.mtu(), "1400");
    let undone = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(String::from_utf8_lossy(&undone.stdout), "v0 MTU back to 1500\n");
    assert_eq!(bed.mtu(), "1500");
    let again = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    assert!(again.status.success() && again.stdout.is_empty(), "{again:?}");
}

#[test]
fn tried_in_turns_and_kept_only_when_better() {
    let Some(bed) = Bed::new("try") else { return };
    let home = Home::new();
    let wish = &MTU[..6];
    // The measured figure is the MTU itself, so that the trial's result is exact.
    let command = "cat /sys/class/net/v0/mtu";
    let attempt = |more: &[&str]| {
        let args = [&["tune", "try", "--rounds", "3"][..], wish, more, &["--", "sh", "-c", command]].concat();
        bed.inside(&home, &args).output().unwrap()
    };
    let lower = attempt(&["--keep", "--json"]);
    assert!(lower.status.success(), "{lower:?}");
    let json = printed(&lower.stdout, &lower.stderr);
    assert_eq!(json["trial"]["with"], serde_json::json!([1400.0, 1400.0, 1400.0]));
    assert_eq!((json["trial"]["verdict"].as_str(), json["kept"].as_bool()), (Some("better"), Some(true)));
    assert_eq!(bed.mtu(), "1400");
    assert!(bed.inside(&home, &["tune", "undo"]).status().unwrap().success());
    let higher = attempt(&["--keep", "--higher"]);
    assert_eq!(higher.status.code(), Some(1), "{higher:?}");
    let said = String::from_utf8_lossy(&higher.stdout);
    let figures =
        "  without the settings  1500\n  with the settings     1400\n  difference            -100 (in every round)\n";
    let title = "Worse: the last number printed (higher is better), means over 3 rounds\n";
    assert!(said.starts_with(&format!("{title}{figures}Settings tried:\n")), "{said}");
    assert!(said.contains("\n  v0 MTU: 1500 -> 1400\n") && said.ends_with("\nEverything was set back.\n"), "{said}");
    let rounds = String::from_utf8_lossy(&higher.stderr);
    assert!(rounds.contains("round 1 of 3, without the settings: 1500\n"), "{rounds}");
    assert!(rounds.contains("round 3 of 3, with the settings: 1400\n"), "{rounds}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let args = [&["tune", "try", "--rounds", "2"][..], wish, &["--", "echo", "7"]].concat();
    let same = bed.inside(&home, &args).output().unwrap();
    assert!(String::from_utf8_lossy(&same.stdout).starts_with("Not decided, no difference in any round: "), "{same:?}");
    assert_eq!(bed.mtu(), "1500");
    // The command's messages are printed only if it fails.
    let failed = |script: &str, more: &[&str]| {
        let args = [&["tune", "try"][..], wish, more, &["--", "sh", "-c", script]].concat();
        let failing = bed.inside(&home, &args).output().unwrap();
        assert_eq!((failing.status.code(), bed.mtu().as_str()), (Some(1), "1500"), "{failing:?}");
        String::from_utf8_lossy(&failing.stderr).into_owned()
    };
    let said = failed("echo no such thing >&2; false", &[]);
    let last = "last messages of sh:\n  no such thing\n";
    assert!(said.contains(last) && said.contains("; no setting was changed"), "{said}");
    let said = failed("echo hidden >&2; [ $(cat /sys/class/net/v0/mtu) = 1500 ] && echo 1", &[]);
    assert!(said.contains("; the settings were set back"), "{said}");
    let said = failed("echo '{\"latency\": {\"p99_s\": 1e-5}}'; echo hidden >&2", &["--metric", "/p99_s"]);
    let named = "has no number at /p99_s; it has, for example, /latency/p99_s; no setting was changed";
    assert!(said.contains(named) && !said.contains("hidden"), "{said}");
}

/// An experiment measures instead of a command: each round is a separate run, which shares the lock.
#[test]
fn tried_with_an_experiment() {
    let Some(bed) = Bed::new("experiment") else { return };
    let home = Home::new();
    let file = home.file(
        "short.toml",
        "title = \"t\"\nkind = \"transfer\"\nrepeats = 2\ntime = \"100ms\"\nwarmup = \"50ms\"\n[vary]\nblock = [\"64KiB\"]\n",
    );
    let args = [&["tune", "try", "--rounds", "2", "--json", "--experiment", &file][..], &MTU[..6]].concat();
    let output = bed.inside(&home, &args).output().unwrap();
    let json = printed(&output.stdout, &output.stderr);
    for side in ["with", "without"] {
        let rates: Vec<f64> = json["trial"][side].as_array().unwrap().iter().filter_map(|rate| rate.as_f64()).collect();
        assert!(rates.len() == 2 && rates.iter().all(|bps| *bps > 1e6), "{json}");
    }
    assert_eq!(json["kept"], false);
    assert_eq!(bed.mtu(), "1500");
    // The runs are in the store, to be looked at and compared.
    assert_eq!(home.json_lines(["results", "list", "--json"]).len(), 4);
    // A formula measures nothing: refused before anything is set.
    let roofline = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/roofline.toml");
    let args = [&["tune", "try", "--experiment", roofline][..], &MTU[..6]].concat();
    let output = bed.inside(&home, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("measures nothing"), "{output:?}");
}

/// While one netcliff measures, another one neither measures nor changes anything.
#[test]
fn two_at_once() {
    let Some(bed) = Bed::new("two") else { return };
    let home = Home::new();
    let started = home.text("started");
    let slow = format!("touch {started}; sleep 0.5; echo 1");
    let args = [&["tune", "try", "--rounds", "2"][..], &MTU[..6], &["--", "sh", "-c", &slow]].concat();
    let mut first = bed.inside(&home, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !home.path("started").exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it measured");
        thread::sleep(Duration::from_millis(5));
    }
    let second = bed.inside(&home, &[&["tune", "apply"][..], &MTU].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another netcliff run (pid ") && said.contains("wait for it"), "{said}");
    first.wait().unwrap();
    assert_eq!(bed.mtu(), "1500");
}

/// A netcliff in a script shares the lock of the one that measures by it; one that is left in the background does not.
#[test]
fn scripts_share_the_lock() {
    let Some(bed) = Bed::new("script") else { return };
    let home = Home::new();
    let own = env!("CARGO_BIN_EXE_netcliff");
    let attempt = |script: &str| {
        let args = [&["tune", "try", "--rounds", "2"][..], &MTU[..6], &["--", "sh", "-c", script]].concat();
        bed.inside(&home, &args).output().unwrap()
    };
    // It gets the lock, finds nothing of its own to undo, and does not change the settings under test.
    let shared = attempt(&format!("{own} tune undo 2>&1 | grep -q 'nothing to set back' && cat /sys/class/net/v0/mtu"));
    assert_eq!(shared.status.code(), Some(0), "{shared:?}");
    let difference = "  difference            -100 (in every round)\n";
    assert!(String::from_utf8_lossy(&shared.stdout).contains(difference), "{shared:?}");
    // The shell that starts this netcliff has ended when netcliff requests the lock. The measured command continues.
    let said = home.path("said");
    let background = format!("(sleep 0.3; {own} tune undo > {} 2>&1) > /dev/null 2>&1 &\n", said.display());
    let left = attempt(&format!("sh {}; sleep 1; echo 1", home.file("left.sh", background)));
    assert_eq!(left.status.code(), Some(1), "undecided, as nothing was measured: {left:?}");
    let said = fs::read_to_string(said).unwrap_or_default();
    assert!(said.contains("must not leave a netcliff in the background"), "{said}");
    assert_eq!(bed.mtu(), "1500");
}

/// Several figures of one run are decided together.
#[test]
fn several_figures() {
    let Some(bed) = Bed::new("figures") else { return };
    let home = Home::new();
    let command = "m=$(cat /sys/class/net/v0/mtu); echo \"{\\\"small\\\": $m, \\\"large\\\": $((10000 - m))}\"";
    let attempt = |metrics: &[&str]| {
        let metrics: Vec<&str> = metrics.iter().flat_map(|metric| ["--metric", metric]).collect();
        let args = [&["tune", "try", "--rounds", "2"][..], &metrics, &MTU[..6], &["--", "sh", "-c", command]].concat();
        bed.inside(&home, &args).output().unwrap()
    };
    let better = attempt(&["/small", "/large:higher"]);
    let said = String::from_utf8_lossy(&better.stdout);
    assert_eq!(better.status.code(), Some(0), "{better:?}");
    let large = "/large (higher is better): better\n  without the settings  8500\n  with the settings     8600\n";
    assert!(said.starts_with("Better: 2 figures together, means over 2 rounds\n") && said.contains(large), "{said}");
    let mixed = attempt(&["/small", "/large:lower"]);
    assert_eq!(mixed.status.code(), Some(1), "{mixed:?}");
    assert!(String::from_utf8_lossy(&mixed.stdout).starts_with("Mixed, better by some"), "{mixed:?}");
    let wrong = attempt(&["small"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("/latency/p99_s"), "{wrong:?}");
}

/// A signal ends the measuring command with all processes that it started, and the settings are restored.
#[test]
fn a_signal_sets_back() {
    let Some(bed) = Bed::new("signal") else { return };
    // The first run is one without the settings.
    let with = "[ $(cat /sys/class/net/v0/mtu) = 1400 ] || { echo 1; exit; }; touch $0; ";
    for (signal, sleep) in [("TERM", "sleep 918273; echo 1"), ("INT", "exec sleep 918273")] {
        let script = format!("{with}{sleep}");
        let home = Home::new();
        let started = home.text("started");
        let args = [&["tune", "try", "--rounds", "3"][..], &MTU[..6], &["--", "sh", "-c", &script, &started]].concat();
        let mut child = bed.inside(&home, &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while !home.path("started").exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it measured");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(bed.mtu(), "1400");
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let ended = crate::common::bed::within(Duration::from_secs(8), || {
            fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()).all(|entry| {
                !fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(b"sleep\x00918273"))
            })
        });
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{signal}: {said}");
        assert!(ended, "{signal}: what measured runs on: {said}");
        assert!(said.contains("everything was set back"), "{signal}: {said}");
        assert_eq!(bed.mtu(), "1500", "{signal}");
        assert_eq!(fs::read_dir(home.state().join("journal")).unwrap().count(), 0, "{signal}");
    }
}

/// A plan for another number of queues is refused, and so is an MTU below 1280 bytes on an interface with IPv6.
#[test]
fn a_plan_for_other_queues_and_an_mtu_that_costs_ipv6() {
    let Some(bed) = Bed::new("queues") else { return };
    let home = Home::new();
    let address = |space: &str| {
        let output = Command::new("ip").args(["-n", space, "-6", "-o", "addr", "show", "dev", "v0"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    if address(&bed.0).is_empty() {
        skip(Need::Ipv6, "v0 has no IPv6 address");
    } else {
        let wish = ["tune", "apply", "--yes", "--objective", "cpu", "--if", "v0", "--mtu", "1000"];
        let refused = bed.inside(&home, &wish).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("--mtu: v0 has IPv6") && said.contains("1280 and more"), "{said}");
        assert_eq!(bed.mtu(), "1500");
    }
    let args = ["tune", "plan", "--json", "--objective", "cpu", "--if", "v0", "--mtu", "1400"];
    let plan = home.file("plan.json", bed.inside(&home, &args).output().unwrap().stdout);
    if !has_program("ethtool") {
        return;
    }
    assert!(bed.ip(&["netns", "exec", &bed.0, "ethtool", "-L", "v0", "rx", "1"]), "the channels of a veth can be set");
    let apply = |file: &str| bed.inside(&home, &["tune", "apply", "--yes", "--plan", file]).output().unwrap();
    let refused = apply(&plan);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("1 of 2 receive queues") && said.contains("2 of 2 receive queues"), "{said}");
    assert_eq!(bed.mtu(), "1500");
}

/// Results of a value out of range, an interface that disappears, a damaged journal and a missing right.
#[test]
fn faults() {
    let Some(bed) = Bed::new("faults") else { return };
    let home = Home::new();
    // A VLAN cannot be longer than its link.
    if has(Need::Vlan) {
        assert!(bed.ip(&["-n", &bed.0, "link", "add", "link", "v0", "name", "v2", "type", "vlan", "id", "5"]));
        let apply = ["tune", "apply", "--yes", "--objective", "cpu", "--if", "v2", "--mtu", "9000"];
        let out_of_range = bed.inside(&home, &apply).output().unwrap();
        let said = String::from_utf8_lossy(&out_of_range.stderr);
        assert_eq!(out_of_range.status.code(), Some(1), "{said}");
        assert!(said.contains("v2 MTU could not be set to 9000") && said.contains("everything was set back"), "{said}");
    }

    // An interface that was renamed after the change.
    assert!(bed.inside(&home, &[&["tune", "apply"][..], &MTU].concat()).status().unwrap().success());
    for change in
        [&["link", "set", "v0", "down"][..], &["link", "set", "v0", "name", "was0"], &["link", "set", "was0", "up"]]
    {
        assert!(bed.ip(&[&["-n", &bed.0], change].concat()));
    }
    let undone = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    let said = String::from_utf8_lossy(&undone.stdout);
    assert!(undone.status.success() && said.contains("v0 is called was0 now"), "{undone:?}");
    for change in
        [&["link", "set", "was0", "down"][..], &["link", "set", "was0", "name", "v0"], &["link", "set", "v0", "up"]]
    {
        assert!(bed.ip(&[&["-n", &bed.0], change].concat()));
    }
    assert_eq!(bed.mtu(), "1500");

    // From outside its namespace: the printed command that undoes the change can be copied.
    assert!(bed.inside(&home, &[&["tune", "apply"][..], &MTU].concat()).status().unwrap().success());
    let outside = home.netcliff(["tune", "undo"]).output().unwrap();
    let said = String::from_utf8_lossy(&outside.stdout);
    let command = format!("`ip netns exec {} netcliff tune undo` sets it back", bed.0);
    assert!(outside.status.code() == Some(1) && said.contains(&command), "{outside:?}");
    assert!(bed.inside(&home, &["tune", "undo"]).status().unwrap().success());
    assert_eq!(bed.mtu(), "1500");

    // A plan whose interface is there when it is made and gone when it is applied.
    let plan = bed.inside(&home, &["tune", "plan", "--json", "--objective", "cpu", "--if", "v0", "--mtu", "1400"]);
    let plan = { plan }.output().unwrap();
    let file = home.file("plan.json", &plan.stdout);
    assert!(bed.inside(&home, &[&["tune", "apply"][..], &MTU].concat()).status().unwrap().success());
    assert!(bed.ip(&["-n", &bed.0, "link", "del", "v0"]));
    let undone = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    assert!(String::from_utf8_lossy(&undone.stdout).contains("v0 MTU is not there any more"), "{undone:?}");
    let gone = bed.inside(&home, &["tune", "apply", "--yes", "--plan", &file]).output().unwrap();
    let said = String::from_utf8_lossy(&gone.stderr);
    assert_eq!(gone.status.code(), Some(2), "{said}");
    assert!(said.contains("the plan is for v0, which is not there; make a new plan"), "{said}");

    // Damaged: the rest is undone, and the damage is reported.
    fs::create_dir_all(home.state().join("tuned")).unwrap();
    fs::write(home.state().join("tuned/000001.jsonl"), "\u{1}\u{2}garbage\nmore\n").unwrap();
    let damaged = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    let said = String::from_utf8_lossy(&damaged.stderr);
    assert_eq!(damaged.status.code(), Some(1), "{said}");
    assert!(said.contains("is damaged") && said.contains("tuned/000001.damaged"), "{said}");
    assert!(home.state().join("tuned/000001.damaged").exists());

    // A journal of a killed run whose first line is damaged: only its name shows the owner.
    fs::create_dir_all(home.state().join("journal")).unwrap();
    fs::write(home.state().join("journal/999999999-1.jsonl"), "garbage\nmore\n").unwrap();
    let damaged = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    let said = String::from_utf8_lossy(&damaged.stderr);
    assert_eq!(damaged.status.code(), Some(1), "{said}");
    assert!(said.contains("journal/999999999-1.damaged") && !said.contains("nothing to set back"), "{said}");
    let again = bed.inside(&home, &["tune", "undo"]).output().unwrap();
    assert!(again.status.success(), "said once: {again:?}");
}

/// Without root, a plan can be made, and applying it reports what is missing.
#[test]
fn without_root() {
    let home = Home::new();
    let dir = router(&home);
    // All users may enter the directory and write the journal, but not change another user's files.
    let as_nobody = |args: &[&str]| {
        let netcliff = home.command(args);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(netcliff.get_program()).args(netcliff.get_args()).current_dir("/");
        for (name, value) in netcliff.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.output()
    };
    for path in [home.path(""), home.path("router")] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).unwrap();
    }
    match as_nobody(&["--version"]) {
        Ok(output) if output.status.success() => {}
        other => return skip(Need::Kernel, format!("nobody cannot run this binary: {other:?}")),
    }
    let planned = as_nobody(&["tune", "plan", "--objective", "cpu", "--from", &dir]).unwrap();
    assert!(planned.status.success(), "{planned:?}");
    assert!(as_nobody(&["tune", "plan", "--objective", "throughput"]).unwrap().status.success());
    let seen = as_nobody(&["inspect"]).unwrap();
    assert!(seen.status.success(), "{seen:?}");
    assert!(
        String::from_utf8_lossy(&seen.stdout).contains("not root: what only root may read is left out"),
        "{seen:?}"
    );
    let applied = as_nobody(&["tune", "apply", "--yes", "--objective", "latency"]).unwrap();
    let said = String::from_utf8_lossy(&applied.stderr);
    if said.contains("nothing to change") {
        return not_applicable("this host has nothing to change for latency");
    }
    assert_eq!(applied.status.code(), Some(1), "{said}");
    assert!(said.contains("could not be set") && said.contains("(it takes ") && said.contains("root"), "{said}");
    assert!(said.contains("nothing was changed") || said.contains("set back"), "{said}");
}

/// Whenever it is killed, the next call leaves the host either as before or as requested.
#[test]
fn kill_9_at_any_point() {
    let Some(bed) = Bed::new("kill") else { return };
    let mut applied = 0;
    let mut killed_between = 0;
    for delay_ms in (0..48).step_by(4) {
        let home = Home::new();
        let mut child = bed
            .inside(&home, &[&["tune", "apply"][..], &MTU].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(delay_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let kept = fs::read_dir(home.state().join("tuned")).is_ok_and(|mut files| files.next().is_some());
        let open = fs::read_dir(home.state().join("journal")).is_ok_and(|mut files| files.next().is_some());
        killed_between += usize::from(open);
        let undone = bed.inside(&home, &["tune", "undo"]).output().unwrap();
        assert!(undone.status.success(), "after {delay_ms} ms: {undone:?}");
        assert_eq!(bed.mtu(), "1500", "after {delay_ms} ms: {undone:?}");
        applied += usize::from(kept);
    }
    say(&format!("killed 12 times: {applied} after it had applied, {killed_between} with an open journal"));
}
