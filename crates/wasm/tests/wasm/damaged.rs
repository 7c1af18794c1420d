//! Damaged records opened by the page give an answer or an error message, never a panic, which would end the engine.
//! The fuzz target `pages` tests the same for longer.

use std::path::Path;

use netcliff_core::math::SplitMix64;
use serde_json::{Value, json};

struct Dice(SplitMix64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.draw() % bound as u64) as usize
    }
}

/// Values that no field expects.
const STRANGE: [&str; 10] =
    ["null", "-1", "1e308", "-0.0", "1e-320", "[]", "{}", "\"\"", "\"<img src=x>\"", "18446744073709551616"];

/// Damages an ASCII text at one random place.
fn wound(text: &str, dice: &mut Dice) -> String {
    let at = dice.below(text.len());
    match dice.below(4) {
        0 => text[..at].to_owned(),
        1 => format!("{}{}{}", &text[..at], char::from(32 + dice.below(95) as u8), &text[at + 1..]),
        2 => format!("{}{}", &text[..at], &text[(at + 1 + dice.below(200)).min(text.len())..]),
        _ => {
            // The value after the next colon.
            let Some(colon) = text[at..].find(':').map(|found| at + found + 1) else { return String::new() };
            let length = text[colon..].find([',', '}', ']']).unwrap_or(0);
            format!("{}{}{}", &text[..colon], STRANGE[dice.below(STRANGE.len())], &text[colon + length..])
        }
    }
}

#[test]
fn damaged_records_are_refused_or_read() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/tests/data/find.json");
    let whole: Value = serde_json::from_str(&std::fs::read_to_string(file).expect("a record")).expect("JSON");
    let whole: String = whole.to_string().chars().filter(char::is_ascii).collect();
    let mut dice = Dice(SplitMix64(23));
    let (mut read, mut refused) = (0, 0);
    for _ in 0..200 {
        let mut text = whole.clone();
        for _ in 0..=dice.below(3) {
            if !text.is_empty() {
                text = wound(&text, &mut dice);
            }
        }
        let reply = netcliff_wasm::read(&json!({ "name": "damaged.json", "text": text }).to_string());
        let reply: Value = serde_json::from_str(&reply).expect("JSON");
        let Some(content) = reply.get("ok") else {
            assert!(!reply["error"]["text"].as_str().expect("a sentence").is_empty());
            refused += 1;
            continue;
        };
        read += 1;
        // If the damaged file can be opened, a question with its contents is answered or refused with a message.
        let setting = json!({
            "host": "pentium4-2530mhz",
            "set": content["set"].as_array().cloned().unwrap_or_default(),
            "scheme": content["finding"]["setup"]["scheme"],
        });
        let checked = netcliff_wasm::check(&json!({ "setting": setting, "rates": "10kpps..90kpps:3" }).to_string());
        let checked: Value = serde_json::from_str(&checked).expect("JSON");
        assert!(checked.get("ok").is_some() || checked.get("error").is_some(), "{checked}");
    }
    assert!(read > 10 && refused > 10, "{read} read, {refused} refused");
}
