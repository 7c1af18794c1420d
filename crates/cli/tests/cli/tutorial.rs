//! Runs docs/tutorial.md command by command with the built program, on namespaces: each command succeeds, and the shown
//! output has the form of the printed one.

use std::path::{Path, PathBuf};
use std::process::Command;

use netcliff_testkit::{Need, has, has_program};

use crate::common::Home;

/// The namespace that the page makes.
const NAMESPACE: &str = "practice";

/// Texts of a `find` on a machine on which other programs took the sender's CPU.
const NO_CLIFF: [&str; 2] = ["No cliff was measured", "trials do not count: "];

/// A block of commands with the output that the page shows of it.
struct Step {
    commands: String,
    shown: Option<String>,
}

/// The page's ```sh blocks in order. A comment `<!-- test: COMMAND -->` before a block replaces its commands here.
fn steps(page: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let mut instead: Option<String> = None;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->")) {
            instead = Some(command.to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let block = block.join("\n");
            match language {
                "sh" => found.push(Step { commands: instead.take().unwrap_or(block), shown: None }),
                "text" => found.last_mut().expect("commands before their output").shown = Some(block),
                other => panic!("a block of {other:?}"),
            }
        }
    }
    found
}

/// The part of a shown line that does not depend on the run: its start, up to the first figure or gap.
fn form(line: &str) -> &str {
    let indent = line.len() - line.trim_start().len();
    let end = line[indent..].find(|letter: char| letter.is_ascii_digit()).map_or(line.len(), |at| indent + at);
    let end = line[indent..end].find("  ").map_or(end, |gap| indent + gap);
    line[..end].trim_end()
}

/// The first shown line that the output lacks. Shown lines must be in the output in the same order. `None` if no line
/// is missing.
fn missing<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut rest = printed.lines();
    shown
        .lines()
        .filter(|line| *line != "..." && !form(line).is_empty())
        .find(|line| !rest.any(|one| one.starts_with(form(line))))
}

/// Removes the namespace that the page makes, also if a command fails.
struct Practice;

impl Drop for Practice {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", NAMESPACE]).stderr(std::process::Stdio::null()).status();
    }
}

/// Runs a step's commands in one shell. Returns the output, or what went wrong.
fn play(home: &Home, step: &Step) -> Result<String, String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_netcliff"));
    let folder = program.parent().expect("a folder").display().to_string();
    let like = home.command(["--version"]);
    let mut shell = Command::new("bash");
    shell.args(["-euc", &step.commands]).current_dir(home.path(""));
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap_or_default()));
    let output = shell.output().map_err(|error| format!("bash: {error}"))?;
    let [printed, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if !output.status.success() {
        return Err(format!("{}: {}\n{printed}{said}", step.commands, output.status));
    }
    match missing(step.shown.as_deref().unwrap_or_default(), &printed) {
        Some(line) => Err(format!("{}: the page shows {line:?}, which is not printed:\n{printed}", step.commands)),
        None => Ok(printed),
    }
}

#[test]
fn the_tutorial_runs() {
    let able = has(Need::Netns) && has(Need::Cpus) && has_program("ip") && has_program("bash");
    if !able || Path::new("/run/netns").join(NAMESPACE).exists() {
        return;
    }
    let _turn = netcliff_testkit::turn(netcliff_testkit::Shared::Cpus);
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial.md"))
        .expect("the tutorial");
    let home = Home::new();
    let _practice = Practice;
    let steps = steps(&page);
    assert!(steps.len() >= 8, "only {} steps", steps.len());
    let mut calibrated = true;
    for step in &steps {
        if step.commands.contains("last-find") && !calibrated {
            continue;
        }
        match play(&home, step) {
            Ok(_) => {}
            Err(said)
                if step.commands.contains("netcliff find") && NO_CLIFF.iter().all(|phrase| said.contains(phrase)) =>
            {
                netcliff_testkit::skip(Need::Quiet, "a short find saw no cliff: most of its trials were void");
                calibrated = false;
            }
            Err(said) => panic!("{said}"),
        }
    }
}

#[test]
fn the_form_of_output_is_compared() {
    assert_eq!(form("Cliff 207 kpps (186-223)"), "Cliff");
    assert_eq!(form("  kernel          6.18.44, 250 Hz"), "  kernel");
    assert_eq!(form("    latency p50        62.9 us"), "    latency p");
    assert_eq!(missing("HOST\n  CPU   1\n...\nSTACK", "x\nHOST\n  CPU  2 of y\n  more\nSTACK\n"), None);
    assert_eq!(missing("STACK\nHOST", "HOST\nSTACK\n"), Some("HOST"), "in order");
    let page = "<!-- test: true -->\n```sh\nfalse\n```\n```text\na\n```\n```sh\necho b\n```\n";
    let found: Vec<(String, Option<String>)> =
        steps(page).into_iter().map(|step| (step.commands, step.shown)).collect();
    assert_eq!(found, [("true".into(), Some("a".into())), ("echo b".into(), None)]);
}
