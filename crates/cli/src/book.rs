//! Tests of the examples in the documentation: the real parser reads the commands, and experiment files are run in
//! simulation.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use clap::Parser;
use netcliff_core::experiment::{Experiment, checks};
use netcliff_core::{EngineKind, Provenance};
use netcliff_lab::run::{Answer, Changes, Plan, compute};

use crate::args::Cli;
use crate::habits;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages to test: README.md and docs. The results are excluded, because they quote commands of older versions.
fn pages() -> Vec<(PathBuf, String)> {
    let mut found = vec![root().join("README.md")];
    let mut open = vec![root().join("docs")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory of the book") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                _ if path.is_dir() && !path.ends_with("results") => open.push(path),
                Some(extension) if extension == "md" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found.into_iter().map(|path| (path.clone(), std::fs::read_to_string(&path).expect("a page"))).collect()
}

/// The fenced blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let after = page.split(&fence).skip(1);
    after.map(|rest| rest.split("\n```").next().unwrap_or_default()).collect()
}

/// The words of the first command in a line, parsed as by a shell: without quotes, up to a comment, a pipe or the next
/// command.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.push(letter),
            (None, '\'' | '"') => (quote, begun) = (Some(letter), true),
            (None, '#') if word.is_empty() && !begun => break,
            (None, '|' | ';' | '&' | '>') => break,
            (None, ' ') => {
                if begun || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, _) => word.push(letter),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

#[test]
fn every_command_of_the_book_is_read() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (path, page) in pages() {
        for line in blocks(&page, "sh")
            .into_iter()
            .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>())
        {
            let words = words(&line);
            let words = words.strip_prefix(&["sudo".to_owned()]).unwrap_or(&words);
            if words.first().is_none_or(|first| first != "netcliff") {
                continue;
            }
            seen += 1;
            let error = Cli::try_parse_from(habits::joined(words.iter().map(Into::into))).err();
            if let Some(error) = error.filter(clap::Error::use_stderr) {
                wrong.push(format!("{}: {line}\n{error}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} commands");
}

/// Also compares the marks (expected values) of each experiment with the curves that they name. Experiments that need
/// hosts or devices are only parsed.
#[test]
fn every_experiment_of_the_book_runs() {
    let mut ran = 0;
    for (path, page) in pages() {
        for text in blocks(&page, "toml") {
            if !text.contains("[traffic]") && !text.contains("kind = ") {
                continue;
            }
            let name = path.display().to_string();
            let experiment = Experiment::from_toml(&name, text).unwrap_or_else(|error| panic!("{error}"));
            let Experiment::Grid(grid) = &experiment else { continue };
            if !grid.devices.is_empty() {
                continue;
            }
            let changes = Changes { engines: vec![EngineKind::Sim], packets: Some(1000), ..Changes::default() };
            let plan = Arc::new(Plan::new(&name, text, grid, &changes).expect("a plan"));
            let all = (0..plan.tasks.len()).collect();
            let answers = Mutex::new(std::collections::BTreeMap::new());
            compute(&plan, all, 2, &Provenance::default(), &Arc::new(AtomicBool::new(false)), |index, answer| {
                if let Answer::Had(record) = answer {
                    answers.lock().expect("no panic").insert(index, record.outcome);
                }
            });
            let answers = answers.into_inner().expect("no panic");
            assert_eq!(answers.len(), plan.tasks.len(), "{name}: points without an answer");
            let curves = grid.curves(&plan.tasks, |task| answers.get(&task.index));
            for mark in experiment.marks().expect("marks") {
                assert!(!checks(&mark, &curves).is_empty(), "{name}: mark \"{}\" is compared with nothing", mark.label);
            }
            ran += 1;
        }
    }
    assert!(ran > 0, "no experiment");
}
