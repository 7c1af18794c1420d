//! Any file of results is refused, or compared with itself and shown. A comparison with itself never fails, and no page
//! contains a control character.

use netcliff_core::{Finding, Record};
use netcliff_lab::compare::{Measured, compare};
use netcliff_report::{Style, csv, html, table, terminal};
use serde::de::DeserializeOwned;

use super::plans::plain;

/// Reads the input as the output of `netcliff ... --json`.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(read) = Measured::of_json("fuzzed", text)
        && let Ok(found) = compare(&read, &read, Some(0.05))
    {
        assert!(!found.failed, "slower than itself: {text}");
        plain(&terminal::compare(&found, Style::default()));
        plain(&html::compare(&found));
    }
    if let Some(finding) = read::<Finding>(text) {
        plain(&terminal::finding(&finding, Style::default()));
        plain(&html::finding(&finding));
    }
    if let Some(record) = read::<Record>(text) {
        let records = [record];
        plain(&table::outcomes(&records, Style::default()));
        plain(&csv::records(&records));
    }
    // These are the pages of `results show`.
    show(text, |found| terminal::rr(&found, Style::default()));
    show(text, |found| terminal::stream(&found, Style::default()));
    show(text, |found| terminal::rfc2544(&found, Style::default()));
    show(text, |found| terminal::forwarding(&found, Style::default()));
    show(text, |found| terminal::transfers(&found, Style::default()));
    show(text, |found| html::rfc2544(&found));
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

fn show<T: DeserializeOwned>(text: &str, page: impl Fn(T) -> String) {
    if let Some(found) = read(text) {
        plain(&page(found));
    }
}
