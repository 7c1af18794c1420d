//! Any file that is opened on the explorer's page is read or refused with a message, and the settings read from it can
//! be evaluated or are refused. This target is separate from `records`, because the tests of `crates/cli` compile that
//! file and do not depend on `netcliff-wasm`.

use serde_json::{Value, json};

/// Reads the input as the text of a file.
pub fn run(bytes: &[u8]) {
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
