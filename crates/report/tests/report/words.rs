//! Checks wording: phrases that were replaced by the usual words of the field do not come back in screens, documents,
//! help and comments.

use std::path::{Path, PathBuf};

use crate::links::pages;
use crate::sources::{project, rust_files};

/// Phrases of our own, each with its replacement.
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

/// Words of our own that documents and screens do not use, each with its replacement. Comments may still have them.
const HOUSE: &[(&str, &str)] = &[
    ("told", "reported, described, known"),
    ("so many", "N, the number of"),
    ("likewise", "the noun again"),
    ("at the most", "at most"),
    ("the same of", "the noun again"),
    ("is none", "is not, has no"),
    ("are none", "are not, have no"),
    ("beside", "besides, next to, with, during"),
    ("meanwhile", "during, until then"),
    ("held up", "delayed"),
    ("as experienced", "with outside pauses"),
];

/// Snapshots of screens. Snapshots of the reference come from doc comments.
fn screens() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["crates/report/tests/report/snapshots", "crates/cli/tests/cli/snapshots"] {
        let entries = std::fs::read_dir(project().join(folder)).expect("a folder of snapshots");
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    found
}

/// Rust files of all crates, tests left out.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(project().join("crates")).expect("crates") {
        rust_files(&entry.expect("an entry").path().join("src"), &mut found);
    }
    found
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Places of the phrases in a text: `path:line: "phrase": write instead`.
fn phrases_in(path: &Path, text: &str, phrases: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let found = phrases.iter().filter(|(phrase, _)| is_in(line, phrase));
        wrong.extend(
            found.map(|(phrase, instead)| format!("{}:{}: {phrase:?}: write {instead}", path.display(), number + 1)),
        );
    }
    wrong
}

#[test]
fn replaced_words_do_not_come_back() {
    let places: Vec<PathBuf> = pages().into_iter().chain(screens()).chain(sources()).collect();
    assert!(places.len() > 500, "only {} files", places.len());
    let wrong: Vec<String> = places.iter().flat_map(|path| phrases_in(path, &text(path), REPLACED)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn documents_and_screens_are_in_plain_words() {
    let is_screen =
        |path: &PathBuf| !path.file_name().is_some_and(|name| name.to_string_lossy().contains("reference__"));
    // ARCHITECTURE.md is left out: like comments, it is for developers.
    let documents = pages().into_iter().filter(|page| !page.ends_with("ARCHITECTURE.md"));
    let shown = documents.chain(screens().into_iter().filter(is_screen));
    let mut wrong: Vec<String> = shown.flat_map(|path| phrases_in(&path, &text(&path).to_lowercase(), HOUSE)).collect();
    for path in sources() {
        wrong.extend(phrases_in(&path, &literals(&text(&path)).to_lowercase(), HOUSE));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The string literals of a Rust file at their places, without `{..}`; all else is blank. Text after `mod tests {` is
/// left out.
fn literals(source: &str) -> String {
    let source = source.split("mod tests {").next().unwrap_or_default();
    let mut shown = String::new();
    let mut letters = source.chars().peekable();
    let (mut quoted, mut raw, mut hashed, mut braces) = (false, false, false, 0);
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => shown.push('\n'),
            '\\' if quoted && !raw => {
                // A line break inside a literal stays, so that line numbers remain right.
                shown.push(if letters.next() == Some('\n') { '\n' } else { ' ' });
            }
            '"' if quoted && (!hashed || letters.peek() == Some(&'#')) => {
                (quoted, braces) = (false, 0);
                shown.push(' ');
            }
            '"' if !quoted && !['\'', '\\'].contains(&before) => {
                quoted = true;
                hashed = before == '#';
                raw = hashed || before == 'r';
            }
            '/' if !quoted && letters.peek() == Some(&'/') => {
                letters.by_ref().find(|letter| *letter == '\n');
                shown.push('\n');
            }
            '{' if quoted => braces += 1,
            '}' if quoted => braces = (braces - 1).max(0),
            _ if quoted && braces == 0 => shown.push(letter),
            _ => {}
        }
        before = letter;
    }
    shown
}

#[test]
fn literals_are_found_in_their_lines() {
    let source = "// \"told\"\nlet told = \"one {told}\"; '\"'\nf(r#\"two \"three\" \"#, \"four \\\n  five\\\"\")\nmod tests { \"six\"";
    assert_eq!(literals(source), "\none  \ntwo \"three\"  four \n  five  \n");
}

/// Every reference is one that a reader can open: an existing page or script of the project, or a paper with author and
/// year.
#[test]
fn references_open_somewhere() {
    let mut files = Vec::new();
    for folder in ["crates", "experiments", "scripts", "bench", "web/src", "contrib", "fuzz/src", "fuzz/fuzz_targets"] {
        files_below(&project().join(folder), &mut files);
    }
    assert!(files.len() > 500, "only {} files", files.len());
    let mut wrong = Vec::new();
    for path in files.iter().filter(|path| !path.ends_with("report/words.rs")) {
        for (number, line) in text(path).lines().enumerate() {
            let numbered = |word: &str, digits: &str| {
                line.split(word)
                    .skip(1)
                    .any(|rest| rest.starts_with(digits) && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
            };
            let cited = is_in(line, "THEORY")
                || numbered("seed", " 00")
                || ["issue", "Issue"].iter().any(|word| numbered(word, " "));
            if cited {
                wrong.push(format!("{}:{}: cite a page of docs/theory or a paper", path.display(), number + 1));
            }
            for named in line.split(|c: char| !(c.is_alphanumeric() || "/-_.".contains(c))) {
                let named = named.trim_end_matches('.');
                let a_page = named.starts_with("docs/") && named.ends_with(".md") || named.starts_with("bench/");
                if a_page && !project().join(named).exists() && !named.contains("/results") {
                    wrong.push(format!("{}:{}: there is no {named}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files of code, scripts and experiments at or below a folder.
fn files_below(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
            files_below(&path, into);
        } else if path
            .extension()
            .is_some_and(|ending| ["rs", "ts", "sh", "py", "toml"].iter().any(|one| ending == *one))
        {
            into.push(path);
        }
    }
}

/// The list of words (docs/reference/words.md) has the terms that pages print and a reader may look up.
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

/// Whether a line contains a phrase as whole words: `highway back` and `be hadron` do not.
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
