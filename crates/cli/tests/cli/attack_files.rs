//! Attacks by the files that netcliff reads, and by objects at the paths where it writes: files from elsewhere,
//! generated files, the state directory, the store, signals. Each of them once succeeded. scripts/attack contains
//! attacks that take longer than seconds.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::running::{Running, namespaces_of};
use crate::common::{Home, refusal, refusals};
use netcliff_testkit::{Need, has, has_all, has_program, not_applicable};

const PATIENCE: Duration = Duration::from_secs(30);
/// Texts that a shell, udev or tuned would take for more than a name. A kernel accepts each as an interface name.
const EVIL: [&str; 6] = ["$(id>PWN)", "`id>PWN`", ";id>PWN;", "\",RUN+=\"x", "'\"$@*?[a]", "a|id>PWN"];

/// A capture of the router of the host crate's tests, with another name for its interface.
fn capture(home: &Home, name: &str, interface: &str) -> String {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../host/tests/fixtures");
    let tree = fs::read_to_string(format!("{fixtures}/router.tree")).unwrap();
    let root = home.path(name);
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let quoted = serde_json::to_string(interface).unwrap();
    for section in tree.split("== ").skip(1) {
        let (path, text) = section.split_once('\n').unwrap();
        let text = match path {
            "netlink.json" => text.replace("\"rx-lro\": false", "\"rx-lro\": true").replace("\"eth0\"", &quoted),
            _ => text.replace("eth0", interface),
        };
        write(&path.replace("/eth0/", &format!("/{interface}/")), &text);
    }
    write("proc/sys/net/ipv4/tcp_rmem", "4096 131072 524288\n");
    home.text(name)
}

/// Runs a script in a shell whose tools only record how they are called. Checks that the script wrote nothing else.
fn run_bare(home: &Home, script: &str) -> Vec<Vec<String>> {
    let dir = home.path("bare");
    let (bin, here) = (dir.join("bin"), dir.join("here"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&here).unwrap();
    let calls = dir.join("calls");
    let _ = fs::remove_file(&calls);
    for tool in ["ethtool", "sysctl", "ip", "ynl", "hwstamp_ctl", "id"] {
        // One line for each call, with tabs between the words, because no name contains a tab.
        let stub = format!("#!/bin/sh\n{{ printf '%s\\t' {tool} \"$@\"; echo; }} >> {}\n", calls.display());
        let path = bin.join(tool);
        fs::write(&path, stub).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Replace the kernel's paths by files of the test, so that nothing of this machine is written.
    let root = dir.display().to_string();
    let text = script.replace("/proc/", &format!("{root}/proc/")).replace("/sys/", &format!("{root}/sys/"));
    fs::create_dir_all(dir.join("proc")).unwrap();
    fs::write(dir.join("proc/interrupts"), "  91:  7  IR-PCI-MSI  other\n").unwrap();
    let file = home.file("bare.sh", text.replace("set -e\n", ""));
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let ended = Command::new("sh").arg(&file).current_dir(&here).env_clear().env("PATH", path).output().expect("sh");
    let left: Vec<_> = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?} was made by\n{script}\n{}", String::from_utf8_lossy(&ended.stderr));
    let calls = fs::read_to_string(&calls).unwrap_or_default();
    calls.lines().map(|line| line.trim_end_matches('\t').split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn names_from_a_capture_are_words_in_every_file_that_is_generated() {
    let home = Home::new();
    for (place, name) in EVIL.iter().enumerate() {
        let dir = capture(&home, &format!("capture-{place}"), name);
        let interface = format!("--if={name}");
        let plan = |more: &[&str]| {
            let args = ["tune", "plan", "--objective", "throughput", &interface, "--from", &dir];
            home.stdout([&args[..], more].concat())
        };
        let profile = home.text(&format!("profile-{place}"));
        plan(&["--tuned", &profile]);
        let tuned = fs::read_to_string(format!("{profile}/netcliff.sh")).unwrap();
        let people = plan(&["--json"]);
        let people: serde_json::Value = serde_json::from_str(&people).unwrap();
        let commands: Vec<&str> =
            people["steps"].as_array().unwrap().iter().filter_map(|step| step["command"].as_str()).collect();
        assert!(!commands.is_empty());
        for script in [plan(&["--script"]), format!("set -- start\n{tuned}"), commands.join("\n")] {
            let calls = run_bare(&home, &script);
            assert!(calls.iter().all(|call| call[0] != "id"), "{name}: {calls:?}\n{script}");
            let lro = ["ethtool", "-K", name, "rx-lro", "off"];
            assert!(calls.iter().any(|call| call == &lro), "{name}: {calls:?}\n{script}");
        }
        let rules = plan(&["--udev"]);
        for rule in rules.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = rule.split(", ").collect();
            assert!(words.iter().all(|word| word.matches('"').count() == 2), "{name}: {rule}");
            assert!(!rule.contains("PWN") && !rule.contains(&format!("KERNEL==\"{name}")), "{name}: {rule}");
        }
        let conf = fs::read_to_string(format!("{profile}/tuned.conf")).unwrap();
        let setting = |line: &&str| !line.starts_with('#');
        assert!(
            !conf.lines().filter(setting).any(|line| line.contains("PWN") || line.contains(name)),
            "{name}: {conf}"
        );
    }
    // The kernel refuses such interface names. In a script, they would end a line or a word.
    for name in ["x rx 2; id >P9 #", "x\nid >PWN", "a/../../b"] {
        let dir = capture(&home, "refused", name);
        refusal(&home, &["tune", "plan", "--objective", "cpu", "--from", &dir], 2, &["no name of an interface"])
            .unwrap();
    }
}

/// Writes a plan for this host that contains the given setting, as an attacker could write it.
fn plan_file(home: &Home, name: &str, setting: &str, more: &str) -> String {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus: Vec<u32> = online
        .trim()
        .split(',')
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u32>().unwrap()..=last.parse().unwrap()
        })
        .collect();
    let text = format!(
        "{{\"objective\":\"latency\",\"machine\":{{\"online\":{cpus:?},\"interfaces\":{{}}}},\"notes\":[],\"steps\":[{{\
         \"setting\":{setting},\"old\":\"0\",\"new\":\"1\",\"source\":\"none\",{more}}}]}}"
    );
    home.file(name, text)
}

#[test]
fn a_plan_writes_only_what_netcliff_sets_and_is_shown_as_what_it_is() {
    let home = Home::new();
    let words = "\"name\":\"harmless\",\"command\":\"echo harmless\",\"reason\":\"x\\nid >PWN\"";
    for file in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/../kernel/core_pattern", "/sys/power/state"] {
        let plan = plan_file(&home, "bad.json", &format!("{{\"kind\":\"file\",\"path\":\"{file}\"}}"), words);
        let said = ["step 1", "not applied", "does not set the file"];
        refusal(&home, &["tune", "apply", "--yes", "--plan", &plan], 2, &said).unwrap();
    }
    // A permitted setting: the confirmation shows what will be done, not the file's description of it.
    let setting = "{\"kind\":\"file\",\"path\":\"/proc/sys/net/core/busy_read\"}";
    let plan = plan_file(&home, "fine.json", setting, words);
    let told = refusal(&home, &["tune", "apply", "--plan", &plan], 2, &["--yes"]).unwrap();
    assert!(!told.contains("harmless"), "{told}");
}

#[test]
fn what_never_ends_or_never_begins_is_no_file() {
    let home = Home::new();
    let pipe = home.text("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let begun = Instant::now();
    for file in ["/dev/zero", "/dev/urandom", &pipe] {
        let sizes = home.text("sizes.csv");
        let captured = home.text("captured.pcap");
        for link in [&sizes, &captured] {
            let _ = fs::remove_file(link);
            symlink(file, link).unwrap();
        }
        let what = if file == pipe { "is a pipe" } else { "is a device" };
        refusals(
            &home,
            2,
            &[
                (&["run", file], &[what]),
                (&["predict", "--rate", "1kpps", "--host", file], &[what]),
                (&["simulate", "--rate", "1kpps", "--size", &sizes], &[what]),
                (&["simulate", "--arrivals", &format!("trace:{captured}")], &[what]),
                (&["tune", "apply", "--yes", "--plan", file], &[what]),
            ],
        );
        let compared = home.netcliff(["compare", file, file]).output().unwrap();
        let told = String::from_utf8_lossy(&compared.stderr).into_owned();
        assert!(!compared.status.success() && told.contains(what), "{told}");
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn a_wrong_host_file_is_named_and_not_printed() {
    let home = Home::new();
    let json = format!("{{\"calibration\":{{}},\"long\":\"{}\"}}", "x".repeat(60_000));
    let host = home.file("found.json", json);
    let told = refusal(&home, &["predict", "--rate", "1kpps", "--host", &host], 2, &["found.json", "`find`"]).unwrap();
    assert!(told.len() < 1000, "{} bytes", told.len());
    let host = home.file("noise.toml", "y".repeat(60_000));
    let told = refusal(&home, &["predict", "--rate", "1kpps", "--host", &host], 2, &["noise.toml"]).unwrap();
    assert!(told.len() < 1000, "{} bytes", told.len());
}

/// Root uses no state directory that belongs to user nobody, and no lock that is a link.
#[test]
fn root_obeys_no_state_directory_of_others() {
    // Only root can change the owner of a directory.
    if !has(Need::Root) {
        return;
    }
    let home = Home::new();
    let state = home.state();
    fs::create_dir(&state).unwrap();
    let chown = |who: &str| {
        assert!(Command::new("chown").args([who, &state.display().to_string()]).status().unwrap().success())
    };
    chown("65534");
    let told = refusal(&home, &["tune", "undo"], 1, &["belongs to", "65534"]).unwrap();
    assert!(told.contains("NETCLIFF_STATE_DIR"), "{told}");
    chown("0");
    let precious = home.file("precious", "root's own");
    symlink(&precious, state.join("lock")).unwrap();
    refusal(&home, &["tune", "undo"], 1, &["lock"]).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "root's own");
    fs::remove_file(state.join("lock")).unwrap();
    // Others can enter the directory: it stays as it is, and netcliff uses a subdirectory of its own.
    home.netcliff(["tune", "undo"]).assert().success();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let own = state.join("netcliff");
    assert_eq!((mode(&state), mode(&own), mode(&own.join("lock"))), (0o755, 0o700, 0o600));
}

/// The kernel names the process that has the lock. On request, another netcliff waits for it.
#[test]
fn a_lock_that_is_taken_is_waited_for() {
    let home = Home::new();
    home.netcliff(["tune", "undo"]).assert().success();
    let lock = home.state().join("lock").display().to_string();
    let taken = home.text("taken");
    let script = format!("touch {taken}; sleep 3");
    let mut holder = Command::new("flock").args([&lock, "sh", "-c", &script]).spawn().expect("flock of util-linux");
    assert!(crate::common::bed::within(PATIENCE, || Path::new(&taken).exists()));
    refusal(&home, &["tune", "undo"], 1, &["another netcliff run (pid ", "--wait"]).unwrap();
    let waited = home.netcliff(["tune", "undo", "--wait=30s"]).output().unwrap();
    let told = String::from_utf8_lossy(&waited.stderr).into_owned();
    assert!(
        waited.status.success()
            && told.contains("waiting for another netcliff run (pid ")
            && told.contains("at most 30 s"),
        "{told}"
    );
    assert!(holder.wait().unwrap().success());
    refusal(&home, &["tune", "undo", "--wait=1000000h"], 2, &["--wait"]).unwrap();
}

#[test]
fn a_run_whose_store_is_full_can_be_continued() {
    if !has_all(&[Need::Root, Need::Tmpfs]) || !has_program("unshare") {
        return;
    }
    let home = Home::new();
    let experiment = home.file(
        "points.toml",
        "title = \"Full\"\nengines = [\"model\"]\nschemes = [\"interrupt\", \"disable-enable\"]\n[host]\npreset = \"pentium4-2530mhz\"\n\
         [traffic]\nrates = \"1kpps..100kpps:40\"\n[figure]\ny = \"throughput_pps\"\n",
    );
    let disk = home.path("disk");
    fs::create_dir(&disk).unwrap();
    let (disk, netcliff) = (disk.display(), env!("CARGO_BIN_EXE_netcliff"));
    let script = format!(
        "mount -t tmpfs -o size=120k none {disk} || exit 1\n\
         {netcliff} run {experiment} --db {disk}/r.db --json >/dev/null 2>{disk}.said; echo \"ended $?\"\n\
         {netcliff} results list --json --db {disk}/r.db\n\
         mount -o remount,size=20m {disk}\n\
         {netcliff} run {experiment} --resume --db {disk}/r.db --json >/dev/null 2>>{disk}.said; echo \"ended $?\"\n\
         {netcliff} results list --json --db {disk}/r.db\n"
    );
    let script = home.file("full.sh", script);
    let template = home.command(["--version"]);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", &script]);
    template.get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = fs::read_to_string(format!("{disk}.said")).unwrap_or_default();
    let ended: Vec<&str> = told.lines().filter(|line| line.starts_with("ended")).collect();
    assert_eq!(ended, ["ended 1", "ended 0"], "{told}\n{said}");
    let runs: Vec<serde_json::Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(runs.len(), 2, "one run, listed twice: {told}");
    assert_eq!(runs[0]["id"], runs[1]["id"]);
    assert!(runs[0]["state"] != "done" && runs[1]["state"] == "done", "{told}");
    assert!(runs[0]["records"].as_u64() < runs[1]["records"].as_u64() && runs[1]["records"] == 80, "{told}");
}

#[test]
fn no_cell_of_a_forged_store_steers_the_terminal() {
    if !has_program("python3") {
        return;
    }
    let home = Home::new();
    let db = home.stored();
    let forge = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\n\
                 for column in ('kind','command','name'):\n c.execute(f'update run set {column}=?',('\\x1b]0;x\\x07\\nfake',))\n\
                 c.commit()\n";
    assert!(Command::new("python3").args(["-c", forge, &db]).status().expect("python3").success());
    for args in [
        &["results", "list", "--db", &db][..],
        &["results", "show", "1", "--db", &db],
        &["compare", "1", "1", "--db", &db],
    ] {
        let output = home.netcliff(args).output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        assert!(
            !all.iter().any(|byte| matches!(byte, 0x1b | 0x07)),
            "{args:?}: {}",
            String::from_utf8_lossy(&all).escape_debug()
        );
    }
    assert_eq!(home.stdout(["results", "list", "--db", &db]).lines().count(), 2, "a run is a line");
}

/// A database may contain programs: views and columns that are computed on reading, and triggers that write on writing.
#[test]
fn a_store_that_computes_is_refused() {
    if !has_program("python3") {
        return;
    }
    let home = Home::new();
    let endless = "with recursive n(i) as (select 1 union all select i+1 from n)";
    let view = format!("alter table run rename to r; create view run as {endless} select r.* from r, n");
    for (name, forgery) in [
        ("view.db", view.as_str()),
        ("trigger.db", "create trigger t after insert on run begin delete from run; end"),
        ("column.db", "alter table run add column x text as (printf('%.*c', 900000000, 'x'))"),
    ] {
        let db = home.text(name);
        home.netcliff(["predict", "--rate", "10kpps", "--db", &db]).assert().success();
        let forge = "import sqlite3,sys\nsqlite3.connect(sys.argv[1]).executescript(sys.argv[2])";
        assert!(Command::new("python3").args(["-c", forge, &db, forgery]).status().expect("python3").success());
        for args in [&["results", "list", "--db", &db][..], &["predict", "--rate", "10kpps", "--db", &db]] {
            let ended = Running::start(&home, args).end(PATIENCE);
            assert_eq!(ended.status.code(), Some(1), "{args:?}: {}", ended.stderr);
            assert!(ended.stderr.contains("which netcliff did not make"), "{args:?}: {}", ended.stderr);
        }
    }
}

/// A profile is written into a directory that others may have made.
#[test]
fn a_profile_follows_no_link_that_lies_in_its_directory() {
    let home = Home::new();
    let capture = capture(&home, "router", "eth0");
    let dir = home.path("profile");
    fs::create_dir(&dir).unwrap();
    let theirs = home.file("precious", "precious\n");
    for name in ["tuned.conf", "netcliff.sh"] {
        symlink(if name == "tuned.conf" { "nothing" } else { &theirs }, dir.join(name)).unwrap();
    }
    let args = ["tune", "plan", "--objective", "cpu", "--from", &capture, "--tuned", &dir.display().to_string()];
    home.netcliff(args).assert().success();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "precious\n");
    assert!(fs::symlink_metadata(dir.join("nothing")).is_err(), "a link to nothing is not followed");
    assert!(fs::symlink_metadata(dir.join("tuned.conf")).unwrap().is_file());
    assert!(fs::metadata(dir.join("netcliff.sh")).unwrap().permissions().mode() & 0o100 != 0);
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_stays_one() {
    let home = Home::new();
    let experiment = home.experiment();
    let (link, target) = (home.path("link.html"), home.path("page.html"));
    symlink("page.html", &link).unwrap();
    home.netcliff(["run", &experiment, "--html", &link.display().to_string()]).assert().success();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(target).unwrap().contains("<html"));
}

/// Ctrl-\ leaves nothing behind. Ctrl-C is tested with each command.
#[test]
fn ctrl_backslash_leaves_nothing_behind() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    let mut running = Running::start(&home, &["rr", "--testbed", "netns", "--time", "20s"]);
    let pid = running.pid();
    assert!(crate::common::bed::within(PATIENCE, || !namespaces_of(pid).is_empty()));
    running.signal("QUIT");
    running.until("stopping", PATIENCE);
    let ended = running.end(PATIENCE);
    assert!(ended.status.code().is_some(), "{:?}", ended.status);
    assert_eq!(namespaces_of(pid), [""; 0]);
}

/// Without HOME, a user's directories are not in the temporary directory. The test runs netcliff as another user, if
/// that user can execute this binary.
#[test]
fn without_a_home_nothing_lies_in_the_temporary_directory() {
    if !has(Need::Root) || !has_program("setpriv") {
        return;
    }
    let home = Home::new();
    let template = home.command(["results", "list"]);
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(template.get_program()).args(args);
        command.env_clear().current_dir("/").output()
    };
    match run(&["--version"]) {
        Ok(output) if output.status.success() => {}
        _ => {
            return not_applicable("nobody may not enter the directory of this binary");
        }
    }
    let place = Path::new("/tmp/.local/share/netcliff");
    let before = place.exists();
    let output = run(&["results", "list"]).unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("/tmp/"), "{told}");
    assert_eq!(place.exists(), before);
}
