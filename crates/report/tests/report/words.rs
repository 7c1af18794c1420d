//! The words of the field: phrases that were replaced do not come back, on screens, in documents, in help and in comments.

use std::path::PathBuf;

use crate::links::pages;
use crate::sources::{project, rust_files};

/// Phrases of our own, each with what is written instead.
const REPLACED: &[(&str, &str)] = &[
    ("NOT HAD", "NOT MEASURED"),
    ("Not had", "Not measured"),
    ("not had", "not measured"),
    ("was had", "was measured, or: method"),
    ("were had", "were measured"),
    ("be had", "be measured, or: is available"),
    ("WHAT BINDS", "BOTTLENECK"),
    ("What binds", "Bottleneck"),
    ("what binds", "the bottleneck"),
    ("What was asked", "Configuration"),
    ("What to try", "Suggestions"),
    ("HIGHEST RATE", "BOUNDS"),
    ("in meaning", "limits the result"),
    ("on paper", "by the model, predicted"),
    ("On paper", "By the model, predicted"),
    ("way there", "request, or: there"),
    ("way back", "response, undo"),
    ("hardly meant", "probably a mistake"),
    ("given away", "wasted"),
    ("taken in by", "received by"),
    ("bits let through", "frame bits"),
    ("its doing", "caused by it"),
    ("had no time left", "were fully busy"),
    ("by a safe way", "over an encrypted channel"),
    ("takes root", "needs root"),
    ("lie to each other", "where they go"),
    ("passed over", "skipped, rejected"),
    ("not ours to choose", "chosen by, left to"),
    ("sign of life", "heartbeat"),
    ("signs of life", "heartbeats"),
    ("stranger", "unauthenticated peer, pending connection"),
    ("Stranger", "unauthenticated peer, pending connection"),
    ("rooms of the code", "crates, modules"),
    ("not told", "not reported, unknown, or: not distinguished"),
];

/// What the phrases are looked for in; the history tells what was, and raw output is as it was printed.
fn places() -> Vec<PathBuf> {
    let root = project();
    let mut found: Vec<PathBuf> = pages().into_iter().collect();
    for folder in ["crates/report/tests/report/snapshots", "crates/cli/tests/cli/snapshots"] {
        let entries = std::fs::read_dir(root.join(folder)).expect("a folder of snapshots");
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    for entry in std::fs::read_dir(root.join("crates")).expect("crates") {
        rust_files(&entry.expect("an entry").path().join("src"), &mut found);
    }
    found
}

#[test]
fn replaced_words_do_not_come_back() {
    let places = places();
    assert!(places.len() > 500, "only {} files", places.len());
    let mut wrong = Vec::new();
    for path in places {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for (number, line) in text.lines().enumerate() {
            let found = REPLACED.iter().filter(|(phrase, _)| is_in(line, phrase));
            wrong
                .extend(found.map(|(phrase, instead)| {
                    format!("{}:{}: {phrase:?}: write {instead}", path.display(), number + 1)
                }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Terms that pages print and a reader would look for.
#[test]
fn terms_of_pages_are_in_the_list_of_words() {
    let list = std::fs::read_to_string(project().join("docs/reference/words.md")).expect("the list");
    let terms: Vec<&str> = list.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).collect();
    for term in ["service demand", "turns of the loop", "pause budget", "roofline", "trial duration", "settling time"] {
        assert!(terms.contains(&term), "{term}: {terms:?}");
    }
    let demand = list.lines().find(|line| line.starts_with("| service demand")).expect("it is there");
    assert!(["`stream`", "`rr`", "`find`"].iter().all(|command| demand.contains(command)), "{demand}");
}

/// A phrase as words of their own: `highway back` and `be hadron` are none.
fn is_in(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let ends = [line[..at].chars().next_back(), line[at + phrase.len()..].chars().next()];
        ends.iter().all(|letter| letter.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_'))
    })
}

#[test]
fn phrases_are_words_of_their_own() {
    assert!(is_in("a figure not had.", "not had"));
    assert!(!is_in("not hadron", "not had") && !is_in("taken_in_by", "in_by"));
}
