//! Checks every Markdown file of the project: tables render as tables, and links lead to existing files and headings.
//! Links to other hosts are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pulldown_cmark::{BrokenLink, CowStr, Event, Options, Parser, Tag, TagEnd};

const LEFT_OUT: [&str; 4] = ["target", ".git", "node_modules", "corpus"];

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's directory")
}

fn markdown_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("it can be read").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !LEFT_OUT.iter().any(|left_out| name == *left_out) {
                markdown_below(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

/// Contents of a page: its faults, its links, and the anchors of its headings.
#[derive(Default)]
struct Page {
    faults: Vec<String>,
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut unresolved = Vec::new();
    let on_broken = |link: BrokenLink<'_>| {
        // `[text]` alone is not a link; `[text][name]` without a definition is a broken link.
        let shown = &text[link.span.clone()];
        if shown.contains("][") {
            unresolved.push(format!("{shown}: no such reference"));
        }
        None::<(CowStr<'_>, CowStr<'_>)>
    };
    let parser = Parser::new_with_broken_link_callback(
        text,
        Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_STRIKETHROUGH,
        Some(on_broken),
    );
    let (mut in_code, mut heading) = (false, None::<String>);
    for (event, span) in parser.into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.to_string())
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                page.anchors.insert(anchor);
            }
            Event::Start(Tag::Table(columns)) => page.faults.extend(ragged_rows(&text[span], columns.len())),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                } else if !in_code && is_row(line_of(text, span.start)) && words.trim_start().starts_with('|') {
                    page.faults.push(format!("a row outside of a table: {}", line_of(text, span.start)));
                }
            }
            _ => {}
        }
    }
    page.faults.extend(unresolved);
    page
}

/// Rows with more or fewer cells than the table has columns: GitHub silently drops or adds cells.
fn ragged_rows(table: &str, columns: usize) -> Vec<String> {
    let rows = table.lines().filter(|row| is_row(row) && cells(row) != columns);
    rows.map(|row| format!("{} cells in a table of {columns}: {}", cells(row), row.trim())).collect()
}

fn is_row(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.len() > 1
}

/// Number of cells in a row, separated by bars that are not escaped.
fn cells(row: &str) -> usize {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = if row.ends_with("\\|") { row } else { row.strip_suffix('|').unwrap_or(row) };
    1 + row.replace("\\|", "").matches('|').count()
}

fn line_of(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[start..].lines().next().unwrap_or_default()
}

/// A heading's anchor as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn tables_are_tables_and_links_lead_somewhere() {
    let root = project();
    let mut files = Vec::new();
    markdown_below(&root, &mut files);
    assert!(files.len() > 20, "only {} Markdown files below {}", files.len(), root.display());
    let pages: BTreeMap<PathBuf, Page> = files
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("it is UTF-8");
            let page = read(&text);
            (file, page)
        })
        .collect();
    let mut faults = Vec::new();
    for (file, page) in &pages {
        let shown = file.strip_prefix(&root).expect("below the project").display();
        faults.extend(page.faults.iter().map(|fault| format!("{shown}: {fault}")));
        let broken = page.links.iter().filter_map(|link| leads_nowhere(&pages, file, page, link));
        faults.extend(broken.map(|fault| format!("{shown}: {fault}")));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn leads_nowhere(pages: &BTreeMap<PathBuf, Page>, file: &Path, page: &Page, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = file.parent().expect("a file is in a directory").join(path);
    let target = if path.is_empty() { file.to_path_buf() } else { target };
    let Ok(target) = target.canonicalize() else { return Some(format!("{link}: no such file")) };
    let anchors = if path.is_empty() { Some(&page.anchors) } else { pages.get(&target).map(|page| &page.anchors) };
    match (anchor, anchors) {
        (Some(anchor), Some(anchors)) if !anchors.contains(anchor) => Some(format!("{link}: no such heading")),
        _ => None,
    }
}

#[test]
fn faults_are_seen() {
    let fault = |text: &str| read(text).faults;
    assert!(fault("| a | b |\n| --- | --- |\n| 1 | 2 |\n").is_empty());
    assert!(fault("| a | b |\n| --- | --- |\n| `x\\|y` | 2 |\n").is_empty());
    assert!(fault("```\n| no table |\n```\n").is_empty());
    assert_eq!(fault("| a | b |\n| --- | --- |\n| 1 | 2 | 3 |\n").len(), 1);
    assert_eq!(fault("text\n\n| lost | row |\n").len(), 1);
    assert_eq!(fault("text.\n| lost | row |\n| and | one |\n").len(), 2);
    assert_eq!(fault("see [there][nowhere]\n").len(), 1);
    let page = read("# Add a scheme, now\n[x](#add-a-scheme-now) [y](#other)\n");
    assert_eq!(page.links, ["#add-a-scheme-now", "#other"]);
    let pages = BTreeMap::new();
    let lost: Vec<_> = page
        .links
        .iter()
        .filter_map(|link| {
            leads_nowhere(&pages, Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path(), &page, link)
        })
        .collect();
    assert_eq!(lost, ["#other: no such heading"]);
}
