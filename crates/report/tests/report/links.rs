//! Links of the documents: each linked file, heading and page exists, and the book has every page. Uses no network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::sources::project;

/// Every Markdown file of the project that people read.
pub fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for place in ["", "docs", "bench", "experiments"] {
        markdown(&project().join(place), !place.is_empty(), &mut found);
    }
    found.sort();
    assert!(found.len() > 25, "only {} pages", found.len());
    found
}

fn markdown(folder: &Path, deep: bool, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() && deep {
            markdown(&path, true, into);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            into.push(path);
        }
    }
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A page without code: without fenced blocks and text in backticks.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut kept = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The targets of `[..](target)`. A target with a space is a formula after an interval, not a link.
fn targets(page: &str) -> Vec<String> {
    let prose = prose(page);
    let found = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
    found.filter(|target| !target.contains(' ')).collect()
}

/// The anchors of a page's headings, as GitHub and mdbook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in page.lines() {
        fenced ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let again = seen.entry(anchor.clone()).or_default();
        found.insert(if *again == 0 { anchor } else { format!("{anchor}-{again}") });
        *again += 1;
    }
    found
}

/// The error of a link on the page at `path`. `None` if the link is right.
fn problem(path: &Path, page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = if file.is_empty() { path.to_owned() } else { path.parent().expect("a folder").join(file) };
    if !linked.exists() {
        return Some(format!("{target}: no such file"));
    }
    let is_page = linked.extension().is_some_and(|ending| ending == "md");
    let docs = normal(&project().join("docs"));
    // scripts/doc.sh copies the experiments into the book.
    let in_book =
        [docs.clone(), normal(&project().join("experiments"))].iter().any(|folder| normal(&linked).starts_with(folder));
    if normal(path).starts_with(&docs) && (!in_book || (is_page && !normal(&linked).starts_with(&docs))) {
        return Some(format!("{target}: the book has pages of docs/ and files of experiments/ only"));
    }
    let other = if file.is_empty() {
        page.to_owned()
    } else if is_page {
        text(&linked)
    } else {
        String::new()
    };
    (!anchor.is_empty() && is_page && !anchors(&other).contains(anchor)).then(|| format!("{target}: no such heading"))
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut kept = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            kept.pop();
        } else {
            kept.push(part);
        }
    }
    kept
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in pages() {
        let page = text(&path);
        for target in targets(&page) {
            seen += 1;
            wrong.extend(problem(&path, &page, &target).map(|problem| format!("{}: {problem}", path.display())));
        }
    }
    assert!(seen > 60, "only {seen} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_links_are_found() {
    let path = project().join("docs/theory/README.md");
    let said = |target: &str| problem(&path, "# One\n## Two words, three\n## One\n", target);
    for good in [
        "host.md",
        "#one",
        "#one-1",
        "#two-words-three",
        "../json.md#json",
        "../../experiments/mlfrr.toml",
        "https://example.org/x.md",
    ] {
        assert_eq!(said(good), None, "{good}");
    }
    for wrong in ["no-such.md", "#none", "../json.md#no-such-heading", "../../README.md", "../../Cargo.toml"] {
        assert!(said(wrong).is_some(), "{wrong}");
    }
    assert_eq!(targets("[a](b.md) `[c](d.md)` [e](f.md#g)\n```sh\n[h](i)\n```\n"), ["b.md", "f.md#g"]);
}

#[test]
fn the_book_has_every_page() {
    let docs = project().join("docs");
    let listed: BTreeSet<PathBuf> =
        targets(&text(&docs.join("SUMMARY.md"))).iter().map(|target| normal(&docs.join(target))).collect();
    let of_docs = pages().into_iter().map(|path| normal(&path)).filter(|path| path.starts_with(normal(&docs)));
    let missing: Vec<PathBuf> =
        of_docs.filter(|path| !path.ends_with("SUMMARY.md") && !listed.contains(path)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not list {missing:?}");
}

/// A page that the book fills in says, when read in a clone, which command builds it and where its text is. README and
/// the first page name that command, too.
#[test]
fn frames_say_what_fills_them() {
    let frames: Vec<PathBuf> = pages().into_iter().filter(|path| text(path).contains("{{#include")).collect();
    assert!(frames.len() >= 4, "only {frames:?}");
    for path in frames {
        let page = text(&path);
        let said = page.split("{{#include").next().expect("a beginning");
        assert!(said.contains("`make book`") && said.contains("target/book/index.html"), "{}", path.display());
        let named = said.split('`').skip(1).step_by(2).filter(|code| code.contains("/snapshots"));
        let named: Vec<&str> = named.collect();
        assert!(!named.is_empty(), "{}: where is its text?", path.display());
        named.iter().for_each(|place| assert!(project().join(place).exists(), "{}: {place}", path.display()));
    }
    for page in ["README.md", "docs/README.md"] {
        let said = text(&project().join(page));
        assert!(said.contains("`make book`") && said.contains("target/book/index.html"), "{page}");
    }
}
