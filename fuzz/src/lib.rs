//! The fuzz targets, most in a module each. A target is a function that tests the program with one input (any bytes).
//! The targets do not depend on libFuzzer, so that other programs can run them with inputs too.

pub mod bytes;
pub mod captures;
pub mod command_lines;
pub mod control;
pub mod model;
pub mod orders;
pub mod plans;
pub mod points;
pub mod records;
pub mod sim;

use serde_json::{Value, json};

/// Tests the program with one input. It panics if the program is at fault.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its corpus (`fuzz/corpus/NAME`).
pub const TARGETS: [(&str, Target); 9] = [
    ("captures", captures::run),
    ("command_lines", command_lines::run),
    ("control", control::run),
    ("model", model::run),
    ("orders", orders::run),
    ("pages", pages),
    ("plans", plans::run),
    ("records", records::run),
    ("sim", sim::run),
];

/// Any file that is opened on the explorer's page is read or refused with a message, and the settings read from it can
/// be evaluated or are refused. This target is not in [`records`], because the tests of `crates/cli` compile that file
/// and do not depend on `netcliff-wasm`.
pub fn pages(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for name in ["fuzzed.json", "fuzzed.toml"] {
        let reply = netcliff_wasm::read(&json!({ "name": name, "text": text }).to_string());
        let reply: Value = serde_json::from_str(&reply).expect("JSON");
        let Some(content) = reply.get("ok") else {
            assert!(reply["error"]["text"].as_str().is_some_and(|said| !said.is_empty()));
            continue;
        };
        let set = content["set"].as_array().cloned().unwrap_or_default();
        let scheme = &content["finding"]["setup"]["scheme"];
        let setting = json!({ "host": "pentium4-2530mhz", "set": set, "scheme": scheme });
        netcliff_wasm::check(&json!({ "setting": setting, "rates": "10kpps..90kpps:3" }).to_string());
    }
}
