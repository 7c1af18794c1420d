//! Attacks on netcliff's outputs: files that are not regular files, readers that stop, characters that control a
//! terminal, full disks, state directories of other users. Each test creates everything in its own directory, devices
//! too.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::running::namespaces_of;
use crate::common::{Home, refusal};
use netcliff_testkit::{Need, has, has_all, has_program};
use nix::fcntl::{FcntlArg, fcntl};

const PATIENCE: Duration = Duration::from_secs(30);
/// A control character of each kind: C0, DEL, C1, and characters that change the direction of text.
const EVIL: &str = "\u{1b}[31m\u{7}\u{7f}\u{85}\u{9b}2J\u{202e}\u{2066}\u{200f}\u{2028}";

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

/// A path of each kind that a program may be requested to write: a pipe, a link to a file, a device of the test if one
/// can be made.
#[test]
fn nothing_but_a_regular_file_is_replaced() {
    let home = Home::new();
    let db = home.stored();
    let (pipe, link, file, null) = (home.path("pipe"), home.path("link"), home.path("file"), home.path("null"));
    let dir = home.path("out");
    fs::create_dir(&dir).unwrap();
    let foreign = home.file("page.new", "another's");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("file", &link).unwrap();
    let made = Command::new("mknod").args([null.to_str().unwrap(), "c", "1", "3"]).output().unwrap().status.success();
    // A file system without devices refuses to open it.
    let has_device = made && fs::OpenOptions::new().write(true).open(&null).is_ok();
    let before = names(&home.path(""));
    let commands: [&[&str]; 4] = [
        &["watch", "--once", "--interval", "100ms", "--metrics-file"],
        &["watch", "--once", "--json", "--interval", "100ms", "--record"],
        &["results", "show", "--db", &db, "--html"],
        &["results", "export", "--db", &db, "1", "--force", "-o"],
    ];
    for command in commands {
        let to = |path: &Path| -> Vec<String> {
            command.iter().map(|word| (*word).to_owned()).chain([path.display().to_string()]).collect()
        };
        let expected = if command.contains(&"--metrics-file") { "netcliff_" } else { "" };
        // Output to a link is written to the link's file, which keeps its mode. A pipe gets all output and stays a
        // pipe; so does a device.
        home.netcliff(to(&link)).assert().success();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{command:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.len() > 10 && text.contains(expected) && mode(&file) == 0o640, "{command:?}: {text}");
        let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
        home.netcliff(to(&pipe)).assert().success();
        let read = reader.wait_with_output().unwrap().stdout;
        assert!(read.len() > 10 && fs::metadata(&pipe).unwrap().file_type().is_fifo(), "{command:?}");
        if has_device {
            home.netcliff(to(&null)).assert().success();
            assert!(fs::metadata(&null).unwrap().file_type().is_char_device(), "{command:?}");
        }
        // A path at which no file can be made is refused with a sentence.
        let output = home.netcliff(to(&dir.join("no/such"))).output().unwrap();
        assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("no/such"), "{command:?}");
    }
    assert_eq!(names(&home.path("")), before, "no file is left beside");
    assert_eq!(fs::read_to_string(foreign).unwrap(), "another's");
    // Netcliff does not wait for a pipe that nobody reads: a signal ends it at once.
    let begun = Instant::now();
    let args = ["watch", "--once", "--interval", "1s", "--metrics-file", pipe.to_str().unwrap()];
    let mut watch = home.command(args).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(Command::new("kill").args(["-TERM", &watch.id().to_string()]).status().unwrap().success());
    assert!(crate::common::bed::within(Duration::from_secs(3), || watch.try_wait().unwrap().is_some()));
    let told = String::from_utf8_lossy(&watch.wait_with_output().unwrap().stderr).into_owned();
    assert!(told.contains("nobody reads") && begun.elapsed() < PATIENCE, "{told}");
}

/// If the disk is full, the old file stays and no other file is left. An import that does not fit stores no run.
#[test]
fn a_full_disk_leaves_what_was_there() {
    if !has_all(&[Need::Root, Need::Tmpfs]) || !has_program("unshare") {
        return;
    }
    let home = Home::new();
    let db = home.stored();
    let json = home.text("run.json");
    // Many records, of which only the first fit on the disk. Unlike an exported file, this one does not contain the
    // number of its objects.
    let rows = home.stdout(["results", "show", "1", "--json", "--db", &db]);
    let row = rows.lines().last().unwrap().to_owned() + "\n";
    fs::write(&json, rows + &row.repeat(400)).unwrap();
    let disk = home.path("disk");
    fs::create_dir(&disk).unwrap();
    let (disk, netcliff) = (disk.display(), env!("CARGO_BIN_EXE_netcliff"));
    let script = format!(
        "mount -t tmpfs -o size=160k none {disk} || exit 1\n\
         {netcliff} results list --db {disk}/r.db >/dev/null 2>&1\n\
         {netcliff} results import --db {disk}/r.db {json} {json} 2>&1; echo \"ended $?\"\n\
         {netcliff} results list --json --db {disk}/r.db\n\
         echo old > {disk}/page; cp {disk}/page {disk}/prom; head -c 1m /dev/zero > {disk}/fill 2>/dev/null\n\
         {netcliff} results show --db {db} --html {disk}/page; echo \"ended $?\"\n\
         {netcliff} results show --db {db} --html {disk}/new; echo \"ended $?\"\n\
         {netcliff} watch --once --metrics-file {disk}/prom; echo \"ended $?\"\n\
         cat {disk}/page {disk}/prom; ls -A {disk}\n"
    );
    let script = home.file("full.sh", script);
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", &script]);
    let template = home.command(["--version"]);
    template.get_envs().for_each(|(name, value)| _ = value.map(|value| command.env(name, value)));
    let told = String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned();
    assert_eq!(told.lines().filter(|line| line.starts_with("ended")).collect::<Vec<_>>(), ["ended 1"; 4], "{told}");
    assert!(!told.contains("\"id\"") && told.contains("full"), "no run is kept: {told}");
    assert!(told.contains("old\nold\nfill\npage\nprom\n"), "{told}");
}

/// A pipe whose reader never reads: the run ends on time and restores the host's settings, and SIGTERM ends it within
/// three seconds.
#[test]
fn a_reader_that_stops_holds_no_testbed() {
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    for command in ["stream", "rr"] {
        let args = [command, "--testbed", "netns", "--time", "1s", "--repeats", "1", "-i", "1ms"];
        let (reader, mut writer) = std::io::pipe().unwrap();
        // Fill the pipe before the run starts.
        fill(&mut writer);
        let errors = writer.try_clone().unwrap();
        let mut child = home.command(args).stdin(Stdio::null()).stdout(writer).stderr(errors).spawn().unwrap();
        let bed = || !namespaces_of(child.id()).is_empty();
        assert!(crate::common::bed::within(PATIENCE, bed), "{command}: no testbed");
        let journal = home.state().join("journal");
        let is_back = || namespaces_of(child.id()).is_empty() && names(&journal).is_empty();
        assert!(crate::common::bed::within(Duration::from_secs(10), is_back), "{command}: the host is not set back");
        assert!(child.try_wait().unwrap().is_none(), "{command}: its page waits for the reader");
        end_by_signal(&mut child, command);
        let rescued = names(&home.path("")).into_iter().find(|name| name.starts_with("netcliff-stdout-"));
        let page = fs::read_to_string(home.path(&rescued.expect("the page that nobody read"))).unwrap();
        assert!(page.lines().count() > 5, "{command}: {page}");
        // The same, with a signal during the measurement.
        let args = [&args[..4], &["60s"], &args[5..]].concat();
        let (second, mut writer) = std::io::pipe().unwrap();
        fill(&mut writer);
        let mut child = home.command(&args).stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        let bed = || !namespaces_of(child.id()).is_empty();
        assert!(crate::common::bed::within(PATIENCE, bed), "{command}: no testbed");
        std::thread::sleep(Duration::from_millis(1500));
        let space = child.id();
        end_by_signal(&mut child, command);
        assert!(namespaces_of(space).is_empty(), "{command}");
        drop((reader, second));
    }
}

/// `drops` also ends by a signal if its reader has stopped.
#[test]
fn a_reader_that_stops_holds_no_tracer() {
    let home = Home::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    fill(&mut writer);
    let args = ["drops", "--interval", "100ms", "--json"];
    let mut child = home.command(args).stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none());
    end_by_signal(&mut child, "drops");
    drop(reader);
}

/// Writes until a writer would wait.
fn fill(writer: &mut std::io::PipeWriter) {
    use std::io::Write;
    // The default size of a pipe. With less the call would never return, and the test would be stopped.
    writer.write_all(&[b'x'; 65536]).unwrap();
}

fn end_by_signal(child: &mut std::process::Child, what: &str) {
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let ended = crate::common::bed::within(Duration::from_secs(3), || child.try_wait().unwrap().is_some());
    if !ended {
        let _ = child.kill();
    }
    assert!(ended, "{what}: SIGTERM did not end it");
}

/// Lines that were not read are counted where they are missing, and the page comes anyway.
#[test]
fn lines_that_are_missing_are_counted() {
    let home = Home::new();
    let args = ["rr", "--transport", "unix", "--time", "1500ms", "--repeats", "1", "-i", "1ms"];
    let (mut reader, writer) = std::io::pipe().unwrap();
    // The smallest size that the kernel accepts, so that few lines fit.
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    let mut child = home.command(args).stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    // A reader that pauses, and goes on.
    std::thread::sleep(Duration::from_secs(3));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut reader, &mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let at = text.find("lines are missing").unwrap_or_else(|| panic!("none is missing: {text}"));
    assert!(text[at..].lines().count() > 5, "the page comes after it: {text}");
}

/// No output of a forged store controls a terminal, in any form, and output for a build server is valid XML.
#[test]
fn control_characters_end_at_the_outlet() {
    if !has_program("python3") {
        return;
    }
    let home = Home::new();
    let db = home.stored();
    let forge = "import sqlite3,sys,json\nc=sqlite3.connect(sys.argv[1])\nevil=sys.argv[2]\n\
                 def deep(v):\n if isinstance(v,dict): return {k:(deep(w) if k!='engine' else w) for k,w in v.items()}\n \
                 return v\n\
                 for i,j in c.execute('select id,json from record').fetchall():\n r=json.loads(j)\n \
                 r['provenance']['command']=evil\n r['provenance']['version']=evil\n \
                 c.execute('update record set json=? where id=?',(json.dumps(r),i))\n\
                 for k in ('command','name','kind'):\n \
                 c.execute(f'update run set {k}=?',(evil if k!='kind' else 'run',))\n\
                 c.commit()\n";
    let forged = Command::new("python3").args(["-c", forge, &db, EVIL]).output().unwrap();
    assert!(forged.status.success(), "{}", String::from_utf8_lossy(&forged.stderr));
    let unseen = |c: char| netcliff_core::quote::is_unseen(c) && c != '\n' && c != '\t';
    let (junit, html, bigger) = (home.text("junit.xml"), home.text("page.html"), home.text("bigger.json"));
    for args in [
        &["results", "list"][..],
        &["results", "list", "--json"],
        &["results", "show"],
        &["results", "show", "--verbose"],
        &["results", "show", "--json"],
        &["results", "show", "--csv"],
        &["results", "show", "--html", &html],
        &["compare", "1", "1", "--junit", &junit, "--html", &html, "--benchmark-bigger", &bigger],
        &["compare", "1", "1", "--json"],
        &["results", "export", "--all", "-o", &home.text("all")],
    ] {
        let output = home.netcliff([args, &["--db", &db]].concat()).output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(!text.contains(unseen), "{args:?}: {text:?}");
            if args.contains(&"--json") {
                text.lines().for_each(|line| _ = serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
            }
        }
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let exported = names(&home.path("all")).into_iter().map(|name| home.text(&format!("all/{name}")));
    for file in [junit, html, bigger].into_iter().chain(exported) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains(unseen), "{file}");
    }
    let parse = "import sys,xml.dom.minidom as m; m.parse(sys.argv[1])";
    let parsed = Command::new("python3").args(["-c", parse, &home.text("junit.xml")]).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    // The JSON contains the stored text, escaped.
    let list = home.stdout(["results", "list", "--json", "--db", &db]);
    let run: serde_json::Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    assert_eq!(run["command"], EVIL);
}

/// A name from elsewhere is not used as a path: neither a forged kind nor a name leaves the directory. One damaged run
/// does not prevent the export of others.
#[test]
fn a_forged_kind_is_no_path() {
    if !has_program("python3") {
        return;
    }
    let home = Home::new();
    let db = home.stored();
    home.netcliff(["run", &home.text("points.toml"), "--db", &db, "--packets", "1000"]).assert().success();
    let forge = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1])\n\
                 c.execute(\"update run set kind='../../evil/'||id\")\n\
                 c.execute(\"insert into run (kind,state,started_unix_s,command,document) values ('stream','done',1,'x','{')\")\n\
                 c.commit()\n";
    let forged = Command::new("python3").args(["-c", forge, &db]).output().unwrap();
    assert!(forged.status.success(), "{}", String::from_utf8_lossy(&forged.stderr));
    let output = home.netcliff(["results", "export", "--all", "--db", &db, "-o", &home.text("all")]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("run 3 not written") && told.contains("1 run was not written"), "{told}");
    let files = names(&home.path("all"));
    assert!(files.iter().all(|name| name.contains("evil") && !name.contains('/')) && !files.is_empty(), "{files:?}");
}

/// A directory that the user owns is not changed: if others can enter it, it keeps its mode and gets a subdirectory of
/// netcliff's own.
#[test]
fn a_shared_state_directory_stays_as_it_is() {
    let home = Home::new();
    for of_the_users in [0o1777, 0o755, 0o750] {
        let dir = home.path(&format!("shared-{of_the_users:o}"));
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(of_the_users)).unwrap();
        let mut command = home.command(["tune", "undo"]);
        assert!(command.env("NETCLIFF_STATE_DIR", &dir).output().unwrap().status.success());
        assert_eq!((mode(&dir), mode(&dir.join("netcliff"))), (of_the_users, 0o700));
        assert_eq!(names(&dir), ["netcliff"]);
    }
    let relative = home.command(["tune", "undo"]).env("NETCLIFF_STATE_DIR", "here").output().unwrap();
    let told = String::from_utf8_lossy(&relative.stderr).into_owned();
    assert!(relative.status.code() == Some(1) && told.contains("relative"), "{told}");
}

/// A store is a regular file, readable only by this user if it is new. No file is made next to something that is not a
/// store.
#[test]
fn a_device_is_no_store() {
    let home = Home::new();
    let (pipe, zero, link) = (home.text("pipe"), home.text("zero"), home.text("link"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("/dev/zero", &link).unwrap();
    let _ = Command::new("mknod").args([zero.as_str(), "c", "1", "5"]).output().unwrap();
    let before = names(&home.path(""));
    for path in [&pipe, &link, &zero].into_iter().filter(|path| Path::new(path).exists()) {
        for command in
            [&["results", "list"][..], &["predict", "--rate", "1kpps"], &["rr", "--transport", "unix", "--save"]]
        {
            let code = if command[0] == "predict" { continue } else { 1 };
            let what = if *path == pipe { "a pipe" } else { "a device" };
            refusal(&home, &[command, &["--db", path]].concat(), code, &[what, "--db FILE"]).unwrap();
        }
    }
    let left: Vec<String> = names(&home.path("")).into_iter().filter(|name| !before.contains(name)).collect();
    assert!(left.iter().all(|name| name == "state"), "{left:?}");
    let db = home.text("new/of/ours.db");
    let experiment = home.experiment();
    home.netcliff(["run", &experiment, "--db", &db]).assert().success();
    assert_eq!((mode(Path::new(&db)), mode(&home.path("new")), mode(&home.path("new/of"))), (0o600, 0o700, 0o700));
    // A store that exists keeps the mode that its user gave it.
    fs::set_permissions(&db, fs::Permissions::from_mode(0o644)).unwrap();
    home.netcliff(["results", "list", "--db", &db]).assert().success();
    assert_eq!(mode(Path::new(&db)), 0o644);
}

#[test]
fn a_version_that_cannot_be_written_is_a_failure() {
    let home = Home::new();
    for args in [&["--version"][..], &["--help"], &["find", "--help"], &["completions", "bash"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = home.command(args).stdout(full).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains("No space left"), "{args:?}: {told}");
    }
}

/// The kernel accepts any bytes as the name of an interface. A name that is not UTF-8 is shown with U+FFFD and hides no
/// other interface. No script contains it.
#[test]
fn an_interface_whose_name_is_no_text_is_counted() {
    use std::os::unix::ffi::OsStrExt;
    if !has(Need::Netns) {
        return;
    }
    let home = Home::new();
    let space = format!("ncname-{}", std::process::id());
    let name = std::ffi::OsStr::from_bytes(b"h\xff\x1b0");
    let ip = |args: &[&std::ffi::OsStr]| Command::new("ip").args(args).status().unwrap().success();
    let word = std::ffi::OsStr::new;
    assert!(ip(&["netns", "add", &space].map(word)));
    let made = ip(&[
        &["-n", &space, "link", "add"].map(word)[..],
        &[name],
        &["type", "veth", "peer", "name", "hok"].map(word),
    ]
    .concat())
        && ip(&[&["-n", &space, "link", "set"].map(word)[..], &[name, word("up")]].concat())
        && ip(&["-n", &space, "link", "set", "hok", "up"].map(word));
    let inside = |args: &[&str]| {
        let netcliff = home.command(args);
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &space]).arg(netcliff.get_program()).args(netcliff.get_args());
        command.envs(netcliff.get_envs().filter_map(|(name, value)| Some((name, value?)))).output().unwrap()
    };
    let watch = inside(&["watch", "--once", "--interval", "100ms", "--metrics-file", "/dev/stdout"]);
    let plan = inside(&["tune", "plan", "--objective", "throughput", "--script"]);
    assert!(ip(&["netns", "delete", &space].map(word)) && made);
    let text = String::from_utf8(watch.stdout).expect("UTF-8");
    for name in ["h\u{fffd}\u{fffd}0", "hok"] {
        let sample = format!("netcliff_interface_packets_total{{interface=\"{name}\"");
        assert!(text.contains(&sample), "{text}{}", String::from_utf8_lossy(&watch.stderr));
    }
    // There is no script for an interface whose name a script cannot contain.
    let (script, told) = (String::from_utf8_lossy(&plan.stdout), String::from_utf8_lossy(&plan.stderr));
    let is_refused = plan.status.code() == Some(2) && told.contains("a script cannot hold");
    assert!(is_refused || !script.contains('\u{fffd}'), "{script}{told}");
}
