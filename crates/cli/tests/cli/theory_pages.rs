//! The commands that docs/theory names really run, and the tests that it names exist.

use std::path::{Path, PathBuf};

use crate::common::Home;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages' texts in backticks that begin with `command`, as words.
fn quoted(command: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(project().join("docs/theory")).expect("docs/theory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(&path).expect("a page");
            let codes = text.split('`').skip(1).step_by(2).filter(|code| code.starts_with(command));
            found.extend(codes.map(|code| code.split_whitespace().map(str::to_owned).collect::<Vec<String>>()));
        }
    }
    found
}

#[test]
fn commands_run() {
    let home = Home::new();
    let commands = quoted("netcliff predict --");
    assert!(commands.len() >= 6, "{commands:?}");
    for words in &commands {
        home.stdout(&words[1..]);
    }
}

/// All Rust sources of the model, tests included, with their paths: what a test filter matches.
fn sources(dir: &Path, into: &mut String) {
    for entry in std::fs::read_dir(dir).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&path.file_stem().unwrap_or_default().to_string_lossy());
            into.push('\n');
            let text = std::fs::read_to_string(&path).expect("a source");
            text.lines().filter(|line| line.contains("fn ")).for_each(|line| {
                into.push_str(line);
                into.push('\n');
            });
        }
    }
}

#[test]
fn named_tests_exist() {
    let mut names = String::new();
    sources(&project().join("crates/model/src"), &mut names);
    sources(&project().join("crates/model/tests"), &mut names);
    let commands = quoted("cargo test -p netcliff-model");
    assert!(commands.len() >= 8, "{commands:?}");
    for words in commands {
        let filter = words.last().expect("a command has words");
        // A module (`ticks::`) is a file; a test is a function in one (`theory::NAME`).
        let name = filter.trim_end_matches("::").rsplit("::").next().unwrap_or_default();
        assert!(name == "netcliff-model" || name == "NAME" || names.contains(name), "{words:?}");
    }
    let page = std::fs::read_to_string(project().join("docs/theory/misprints.md")).expect("misprints.md");
    let cells = page.lines().filter(|line| line.starts_with("| ")).filter_map(|line| line.rsplit('|').nth(1));
    for cell in cells {
        for name in cell.split('`').skip(1).step_by(2).filter(|name| !name.contains(' ')) {
            let is_there = names.contains(name) || project().join(name).is_file();
            assert!(is_there, "misprints.md names a test or program that is not there: {name}");
        }
    }
}
