//! `netcliff inspect` on a captured host and on this one.

use crate::common::Home;
use crate::schema::printed;
use std::fs;

/// The router of the host crate's tests, laid out as a capture with one interrupt on the far node.
fn router(home: &Home) -> String {
    let dir = captured(home, "router");
    for file in ["smp_affinity_list", "effective_affinity_list"] {
        let path = home.path("router").join("proc/irq/43").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "7\n").unwrap();
    }
    dir
}

/// A fixture of the host crate, laid out as a capture.
fn captured(home: &Home, name: &str) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/fixtures");
    let tree = fs::read_to_string(format!("{fixtures}/{name}.tree")).unwrap();
    let dir = home.path(name);
    let write = |path: &str, text: &str| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for section in tree.split("== ").skip(1) {
        let (path, text) = section.split_once('\n').unwrap();
        write(path, text);
    }
    home.text(name)
}

/// An e1000 of QEMU, whose capture has no affinity of its interrupts.
#[test]
fn an_affinity_that_is_not_told_is_said() {
    let home = Home::new();
    let page = home.stdout(["inspect", "--from", &captured(&home, "e1000")]);
    let words = page.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("on an unknown CPU") && !words.contains("on CPU ;"), "{page}");
    assert!(words.contains("ids of rx 0: 8193, tx 0: 8193"), "{page}");
}

#[test]
fn the_page_of_a_captured_router() {
    let home = Home::new();
    let dir = router(&home);
    insta::assert_snapshot!("inspect_router", home.stdout(["inspect", "--from", &dir, "--if", "eth0", "-v"]));
    let brief = home.stdout(["inspect", "--from", &dir, "--if", "eth0"]);
    assert!(brief.contains("INTERFACE eth0") && !brief.contains("STACK") && brief.lines().count() <= 40, "{brief}");
}

#[test]
fn json_holds_what_was_read_and_what_looks_wrong() {
    let home = Home::new();
    let dir = router(&home);
    let text = home.stdout(["inspect", "--from", &dir, "--json"]);
    let whole = printed(&text, "");
    assert_eq!(whole["remarks"][0]["rule"], "irq-remote-node");
    assert_eq!(whole["remarks"][0]["severity"], "warning");
    assert_eq!(whole["ports"][0]["queues"][3]["cpus"], serde_json::json!([7]));
    assert_eq!(whole["host"]["cpu"]["packages"], 2);
    let scheme = "napi:weight=64,budget=300,budget_time=2ms,min_gap=25us";
    assert_eq!(whole["schemes"][0], serde_json::json!({"interface": "eth0", "scheme": scheme}));
    assert_eq!(text.lines().count(), 1);
}

/// For a device that no scheme describes, the page has the reason in place of the scheme, and names what the driver
/// does not report.
#[test]
fn a_device_without_a_scheme_says_why() {
    let home = Home::new();
    let words = |page: &str| page.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let dir = captured(&home, "e1000e");
    let page = words(&home.stdout(["inspect", "--from", &dir]));
    assert!(
        page.contains("netcliff scheme none describes it: rx-usecs 3 is e1000e's word for a gap that follows the load"),
        "{page}"
    );
    let answers = home.path("e1000e").join("netlink.json");
    let fixed = fs::read_to_string(&answers).unwrap().replace("\"rx-usecs\": 3", "\"rx-usecs\": 50");
    fs::write(answers, fixed).unwrap();
    let page = words(&home.stdout(["inspect", "--from", &dir]));
    assert!(
        page.replace(", min_gap", ",min_gap")
            .contains(",gro_normal_batch=8,min_gap=50us not reported the timers RDTR and RADV"),
        "{page}"
    );
}

#[test]
fn this_host_can_be_captured_and_looked_at() {
    let home = Home::new();
    let dir = home.text("capture");
    let made = home.netcliff(["inspect", "--capture", &dir, "--watch", "0s"]).output().unwrap();
    assert!(made.status.success() && made.stdout.is_empty(), "{made:?}");
    let page = home.stdout(["inspect", "-v", "--from", &dir]);
    for heading in ["HOST", "STACK", "WHAT LOOKS WRONG"] {
        assert!(page.contains(heading), "{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
}

#[test]
fn wrong_usage_is_told() {
    let home = Home::new();
    for (args, words) in [
        (&["inspect", "--if", "nosuch0", "--watch", "0s"][..], "nosuch0"),
        (&["inspect", "nosuch1", "--watch", "0s"], "nosuch1"),
        (&["inspect", "lo", "--if", "lo"], "cannot be used with"),
        (&["inspect", "--from", "/nonexistent"], "--capture DIR"),
        (&["inspect", "--rtt", "0s"], "above 0"),
        (&["inspect", "--objective", "speed"], "throughput"),
    ] {
        let output = home.netcliff(args).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
}
