//! `-i`: one line for each interval while `stream` and `rr` run.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::Home;
use crate::schema::printed;

/// Lines of a text about an interval, such as `  0.00-0.20 s ...`.
fn intervals(text: &str) -> Vec<&str> {
    let span = |line: &&str| {
        let word = line.split_whitespace().next().unwrap_or_default();
        let ends = word.split_once('-').map(|(from, to)| (from.parse::<f64>(), to.parse::<f64>()));
        line.starts_with("  ") && matches!(ends, Some((Ok(from), Ok(to))) if from < to)
    };
    text.lines().filter(span).collect()
}

const COMMANDS: [(&[&str], &str); 4] = [
    (&["stream", "--time", "600ms", "--repeats", "2"], "retr"),
    (&["stream", "--channel", "udp", "--flows", "2", "--threads", "1", "--time", "600ms", "--repeats", "2"], "lost"),
    (&["rr", "--testbed", "loopback", "--time", "600ms", "--repeats", "2"], "responses"),
    (&["rr", "--testbed", "loopback", "--rate", "500", "--time", "600ms", "--repeats", "2"], "requested"),
];

/// The lines are on stdout before the page, as in iperf3, with a heading for each repeat. Without `-i` there are no
/// lines.
#[test]
fn lines_come_before_the_page() {
    let home = Home::new();
    for (command, column) in COMMANDS {
        let output = home.netcliff([command, &["-i", "0.2"]].concat()).output().unwrap();
        let (page, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command:?}: {told}");
        // Three intervals per repeat. On a busy machine, an interval that was seen late is merged with the next one.
        let lines = intervals(&page);
        assert!((2..=8).contains(&lines.len()), "{command:?}: {page}");
        assert_eq!(page.lines().filter(|line| line.starts_with("  interval ")).count(), 2, "{command:?}: {page}");
        assert!(page.contains(column) && intervals(&told).is_empty(), "{command:?}: {page}\n{told}");
        let (lines, rest) = page.split_once("netcliff 0").expect("a page");
        assert!(lines.contains("  0.00-") && intervals(rest).is_empty(), "{command:?}: {page}");
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{command:?}: {page}");
        assert!(intervals(&home.stdout(command)).is_empty(), "{command:?}");
    }
}

/// With --json stdout is JSON alone.
#[test]
fn json_stays_alone_on_stdout() {
    let home = Home::new();
    for (command, _) in [COMMANDS[0], COMMANDS[2]] {
        let output = home.netcliff([command, &["-i", "0.2", "--json"]].concat()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        printed(&output.stdout, &output.stderr);
        assert!(intervals(&told).len() >= 2, "{command:?}: {told}");
    }
}

/// Lines of `--live` as JSON objects.
fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn event(line: &Value) -> &str {
    line["event"].as_str().unwrap_or_default()
}

/// Keys of each event, as docs/json.md has them.
const KEYS: [(&str, &[&str]); 15] = [
    ("begin", &["schema", "command", "command_line", "version"]),
    ("message", &["message"]),
    ("stage", &["stage"]),
    ("repeat", &[]),
    ("interval", &["from_s", "to_s"]),
    ("trial", &["load_pps"]),
    ("record", &["record"]),
    ("size", &["frame"]),
    ("search", &["frame", "round", "rounds"]),
    ("point", &["point", "points", "state", "record", "why"]),
    ("moment", &["bottleneck", "moment"]),
    ("drops", &["drops"]),
    ("path", &["path"]),
    ("dropped", &["lines"]),
    ("result", &["partial", "result"]),
];

/// All lines are objects of the documented form, the first one begins, and the last one is the result.
fn documented(command: &[&str], lines: &[Value]) {
    of_the_form(command, lines);
    let last = lines.last().expect("lines");
    assert_eq!((event(last), &last["partial"]), ("result", &json!(false)), "{last}");
}

/// All lines are objects of the documented form, and the first one begins.
fn of_the_form(command: &[&str], lines: &[Value]) {
    for line in lines {
        let (_, keys) = KEYS.iter().find(|(name, _)| *name == event(line)).unwrap_or_else(|| panic!("{line}"));
        assert!(line["unix_s"].is_f64() && line["elapsed_s"].is_f64(), "{line}");
        assert!(keys.iter().all(|key| line.get(key).is_some()), "{command:?}: {line}");
    }
    let first = lines.first().expect("lines");
    assert_eq!((event(first), &first["schema"], &first["command"]), ("begin", &json!(1), &json!(command[0])));
}

/// Checks that the lines on stderr, next to the object of --json, have the documented form and contain these events.
pub fn documented_beside(stderr: &str, command: &str, names: &[&str]) {
    let text: String = stderr.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    let lines = events(&text);
    of_the_form(&[command], &lines);
    for name in names {
        assert!(lines.iter().any(|line| event(line) == *name), "{name}: {text}");
    }
}

#[test]
fn events_are_lines_with_the_result_at_the_end() {
    let home = Home::new();
    for (command, _) in COMMANDS {
        let lines = events(&home.stdout([command, &["-i", "0.2", "--live"]].concat()));
        documented(command, &lines);
        let of = |name: &str| lines.iter().filter(|line| event(line) == name).count();
        assert_eq!(of("repeat"), 2, "{command:?}");
        assert!((2..=8).contains(&of("interval")), "{command:?}");
        let rows = lines.last().and_then(|line| line["result"]["rows"].as_array().cloned()).expect("rows");
        assert_eq!(rows.len(), 1, "{command:?}");
    }
    // With --json, the lines are on stderr and stdout is as without them.
    let output = home.netcliff([COMMANDS[0].0, &["--live", "--json"]].concat()).output().unwrap();
    printed(&output.stdout, &output.stderr);
    let told = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.iter().any(|line| line.contains("\"event\":\"interval\"")), "{told}");
    let run = ["run", "fig-7a", "--engine", "model", "--live", "--no-such"];
    assert_eq!(home.netcliff(run).output().unwrap().status.code(), Some(2));
    let command = ["run", "fig-7a", "--engine", "model", "--live"];
    let lines = events(&home.stdout(command));
    documented(&command, &lines);
    assert!(lines.iter().any(|line| event(line) == "point" && line["state"] == "done"), "points");
    let moments = events(&home.stdout(["watch", "--live", "--once", "--interval", "100ms"]));
    assert!(moments.iter().any(|line| event(line) == "moment"), "{moments:?}");
    let drops = events(&home.stdout(["drops", "--live", "--time", "300ms", "--interval", "100ms"]));
    assert!(drops.iter().filter(|line| event(line) == "drops").count() >= 2, "{drops:?}");
    assert!(drops.iter().all(|line| KEYS.iter().any(|(name, _)| *name == event(line))), "{drops:?}");
}

/// An error is the last line too, with the text that is on stderr.
#[test]
fn an_error_is_the_last_line() {
    let home = Home::new();
    let out = home.netcliff(["stream", "--to", "127.0.0.1:1", "--live"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let lines = events(&String::from_utf8_lossy(&out.stdout));
    let last = lines.last().expect("a line");
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!((event(last), &last["usage"]), ("error", &json!(false)), "{last}");
    assert!(
        said.contains(last["message"].as_str().expect("a message").get(..20).expect("a sentence")),
        "{last} {said}"
    );
}

/// If a reader closes its pipe, a command that only writes lines ends, and a command that measures continues. Neither
/// is a failure.
#[test]
fn every_command_outlives_its_reader() {
    let home = Home::new();
    let commands: [(&[&str], bool); 5] = [
        (&["rr", "--testbed", "loopback", "--time", "500ms", "--repeats", "1", "-i", "10ms"], true),
        (&["run", "fig-7a", "--engine", "model"], false),
        (&["watch", "--interval", "100ms"], false),
        (&["drops", "--interval", "100ms", "--time", "10s"], false),
        (&["drops", "--interval", "100ms", "--time", "10s", "--method", "counters"], false),
    ];
    for (command, is_kept) in commands {
        let more: &[&str] = if is_kept { &["--live", "--save"] } else { &["--live"] };
        let mut run = home.command([command, more].concat());
        let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netcliff starts");
        drop(run.stdout.take());
        let begin = std::time::Instant::now();
        let ended = run.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
        assert!(begin.elapsed() < Duration::from_secs(60), "{command:?}");
    }
    let runs = home.json_lines(["results", "list", "--json"]);
    assert!(runs.iter().any(|run| run["kind"] == "rr" && run["state"] == "done"), "{runs:?}");
}

/// A reader that closes its pipe, and one that does not read until the end: the measurement does not change, is stored,
/// and ends on time.
#[test]
fn readers_that_leave_or_do_not_read_change_nothing() {
    let home = Home::new();
    let command = ["stream", "--time", "700ms", "--repeats", "1", "-i", "1ms", "--live", "--save"];
    let spawn =
        || home.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netcliff starts");
    let mut leaves = spawn();
    drop(leaves.stdout.take());
    let ended = leaves.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let mut slow = spawn();
    let mut out = slow.stdout.take().expect("piped");
    std::thread::sleep(Duration::from_millis(2500));
    let mut text = String::new();
    out.read_to_string(&mut text).expect("text");
    assert!(slow.wait().expect("it ends").success());
    let lines = events(&text);
    documented(&command, &lines);
    let runs = home.json_lines(["results", "list", "--json"]);
    assert_eq!(runs.iter().map(|run| run["state"].as_str()).collect::<Vec<_>>(), [Some("done"); 2]);
}
