//! `netcliff tune`: plans for a captured host; apply, undo and try on a veth in a namespace of the test's own.

mod common;

use common::{Home, say};
use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// A namespace with a veth pair, made and removed by `ip`.
struct Bed(String);

impl Bed {
    /// None, told on the terminal, where it cannot be made.
    fn new(name: &str) -> Option<Bed> {
        let bed = Bed(format!("nctune-{}-{name}", std::process::id()));
        let made = bed.ip(&["netns", "add", &bed.0])
            && bed.ip(&["-n", &bed.0, "link", "add", "v0", "numrxqueues", "2", "type", "veth", "peer", "name", "v1"])
            && ["v0", "v1"].iter().all(|link| bed.ip(&["-n", &bed.0, "link", "set", link, "up"]));
        if !made {
            say("SKIPPED: no network namespaces here (root and iproute2 are needed)");
            return None;
        }
        Some(bed)
    }

    fn ip(&self, args: &[&str]) -> bool {
        Command::new("ip").args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// `netcliff` inside.
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

/// The router of the host crate's tests with a few things set badly.
fn router(home: &Home) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/fixtures");
    let tree = fs::read_to_string(format!("{fixtures}/router.tree")).unwrap();
    let answers = fs::read_to_string(format!("{fixtures}/router.netlink.json")).unwrap();
    for section in tree.split("== ").skip(1) {
        let (path, text) = section.split_once('\n').unwrap();
        write(home, path, text);
    }
    write(home, "netlink.json", &answers.replace("\"rx-lro\": false", "\"rx-lro\": true"));
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
    insta::assert_snapshot!("tune_plan", plan(&[]));
    insta::assert_snapshot!("tune_script", plan(&["--script"]));
    insta::assert_snapshot!("tune_sysctl_d", plan(&["--sysctl-d"]));
    let json: serde_json::Value = serde_json::from_str(&plan(&["--json"])).unwrap();
    assert_eq!(json["objective"], "throughput");
    assert_eq!(json["steps"][0]["setting"]["kind"], "ethtool");
    // It is a plan for another machine.
    let file = home.file("plan.json", plan(&["--json"]));
    let output = home.netcliff(["tune", "apply", "--yes", "--plan", &file]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("make a new plan"), "{told}");
}

#[test]
fn wrong_usage_is_told() {
    let home = Home::new();
    for (args, words) in [
        (&["tune", "plan"][..], "--objective"),
        (&["tune", "plan", "--objective", "cpu", "--if", "nosuch0"], "nosuch0"),
        (&["tune", "plan", "--objective", "cpu", "--rtt", "0s"], "--rtt"),
        (&["tune", "apply", "--plan", "/nonexistent"], "/nonexistent"),
        (&["tune", "try", "--objective", "cpu"], "COMMAND"),
        (&["tune", "plan", "--objective", "cpu", "--mtu", "7"], "68"),
    ] {
        let output = home.netcliff(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
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
    // A measurement that knows: the MTU itself.
    let command = "cat /sys/class/net/v0/mtu";
    let attempt = |more: &[&str]| {
        let args = [&["tune", "try", "--rounds", "3"][..], wish, more, &["--", "sh", "-c", command]].concat();
        bed.inside(&home, &args).output().unwrap()
    };
    let lower = attempt(&["--keep", "--json"]);
    assert!(lower.status.success(), "{lower:?}");
    let json: serde_json::Value = serde_json::from_slice(&lower.stdout).unwrap();
    assert_eq!(json["trial"]["with"], serde_json::json!([1400.0, 1400.0, 1400.0]));
    assert_eq!((json["trial"]["verdict"].as_str(), json["kept"].as_bool()), (Some("better"), Some(true)));
    assert_eq!(bed.mtu(), "1400");
    assert!(bed.inside(&home, &["tune", "undo"]).status().unwrap().success());
    let higher = attempt(&["--keep", "--higher"]);
    assert_eq!(higher.status.code(), Some(1), "{higher:?}");
    assert!(String::from_utf8_lossy(&higher.stdout).contains("worse; everything was set back"), "{higher:?}");
    assert_eq!(bed.mtu(), "1500");
    let failing = bed.inside(&home, &[&["tune", "try"][..], wish, &["--", "false"]].concat()).output().unwrap();
    assert_eq!(failing.status.code(), Some(1));
    assert_eq!(bed.mtu(), "1500");
}

/// Whenever it is killed, the next call leaves the host either as it was or as it was asked to be.
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
