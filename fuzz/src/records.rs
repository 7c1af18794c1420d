//! Any results of a file are refused, or compared and shown: against themselves nothing is better or worse, and no page has a
//! control character in it.

use netcliff_core::{Finding, Record};
use netcliff_lab::compare::{Measured, compare};
use netcliff_report::{Style, csv, html, table, terminal};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::plans::plain;

/// What `netcliff ... --json` prints.
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
    opened(text);
    // As `results show` does.
    show(text, |found| terminal::rr(&found, Style::default()));
    show(text, |found| terminal::stream(&found, Style::default()));
    show(text, |found| terminal::rfc2544(&found, Style::default()));
    show(text, |found| terminal::forwarding(&found, Style::default()));
    show(text, |found| terminal::transfers(&found, Style::default()));
    show(text, |found| html::rfc2544(&found));
}

/// As the explorer opens it: the engine answers or refuses, and is asked what the file set.
fn opened(text: &str) {
    let asked = serde_json::json!({ "name": "fuzzed.json", "text": text });
    let reply: Value = serde_json::from_str(&netcliff_wasm::read(&asked.to_string())).expect("JSON");
    let Some(content) = reply.get("ok") else {
        assert!(reply["error"]["text"].as_str().is_some_and(|said| !said.is_empty()));
        return;
    };
    let set = content["set"].as_array().cloned().unwrap_or_default();
    let setting =
        serde_json::json!({ "host": "pentium4-2530mhz", "set": set, "scheme": content["finding"]["setup"]["scheme"] });
    netcliff_wasm::check(&serde_json::json!({ "setting": setting, "rates": "10kpps..90kpps:3" }).to_string());
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

fn show<T: DeserializeOwned>(text: &str, page: impl Fn(T) -> String) {
    if let Some(found) = read(text) {
        plain(&page(found));
    }
}
