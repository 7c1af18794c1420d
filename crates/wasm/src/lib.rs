//! The model and the simulator as functions that a browser calls: a question as JSON in, an answer as JSON out.
//!
//! Questions use the command line's notation (`napi:weight=64`, `120kpps`, `application=2us`). Answers have the types
//! of `--json` (docs/json.md) and, with the same seed, the same figures. [`question`] defines the settings of
//! questions, [`answers`] computes the answers; the functions here only convert. Every function returns
//! `{"ok": ANSWER}` or `{"error": {"part": ..., "text": ...}}`, where `part` names the invalid input (`set.0`,
//! `scheme`, `rates`, ...) and `text` is the command line's message.

pub mod answers;
pub mod captures;
pub mod question;
mod reading;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::wasm_bindgen;

use question::Refused;

/// Parses the question, and writes the answer, or the reason why it has no answer.
fn through<Q: DeserializeOwned, A: Serialize>(question: &str, answer: impl FnOnce(Q) -> Result<A, Refused>) -> String {
    let asked = serde_json::from_str(question).map_err(|error| Refused::of("question", error));
    written(asked.and_then(answer))
}

/// Writes the answer, or the reason for its absence.
fn written<A: Serialize>(answer: Result<A, Refused>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    enum Reply<A> {
        Ok(A),
        Error(Refused),
    }
    let reply = match answer {
        Ok(answer) => Reply::Ok(answer),
        Err(refused) => Reply::Error(refused),
    };
    serde_json::to_string(&reply)
        .unwrap_or_else(|error| serde_json::json!({"error": {"part": "answer", "text": error.to_string()}}).to_string())
}

/// Returns version, presets and keys of hosts. Takes `{}`.
#[wasm_bindgen]
pub fn about(question: &str) -> String {
    through(question, answers::about)
}

/// Checks a question and returns it in netcliff's own notation: [`answers::Checked`].
#[wasm_bindgen]
pub fn check(question: &str) -> String {
    through(question, answers::check)
}

/// Evaluates the model at the loads of a sweep: [`answers::Curve`].
#[wasm_bindgen]
pub fn predict(question: &str) -> String {
    through(question, answers::predict)
}

/// Computes the cliff by the model, and the bottleneck beyond it: [`answers::Fall`].
#[wasm_bindgen]
pub fn cliff(question: &str) -> String {
    through(question, answers::cliff)
}

/// Like `netcliff predict --cliff --sensitivities --json`.
#[wasm_bindgen]
pub fn sensitivities(question: &str) -> String {
    through(question, answers::sensitivities)
}

/// Like `netcliff simulate --packets N --seed N --json`. Each call is one complete run; for a longer run, call it again
/// with more packets.
#[wasm_bindgen]
pub fn simulate(question: &str) -> String {
    through(question, answers::simulate)
}

/// Simulates a load within milliseconds, e.g. while the user moves a slider: [`answers::CurvePoint`].
#[wasm_bindgen]
pub fn preview(question: &str) -> String {
    through(question, answers::preview)
}

/// Searches for the cliff by simulation, for settings without a model: [`answers::SimulatedCliff`].
#[wasm_bindgen]
pub fn simulated_cliff(question: &str) -> String {
    through(question, answers::simulated_cliff)
}

/// Simulates a short run event by event: [`answers::Moments`].
#[wasm_bindgen]
pub fn trace(question: &str) -> String {
    through(question, answers::trace)
}

/// Returns the output lines of `netcliff predict --rates ... --json`, one record per load.
#[wasm_bindgen]
pub fn records(question: &str) -> String {
    through(question, answers::records)
}

/// Parses a file dropped onto the page: a record, an experiment or a host. Otherwise returns what is wrong in it.
#[wasm_bindgen]
pub fn read(question: &str) -> String {
    through(question, reading::read)
}

/// Stores a capture (pcap, pcapng) for questions that name it (`trace:NAME`), and returns a summary:
/// [`captures::Taken`].
#[wasm_bindgen]
pub fn capture(name: &str, bytes: &[u8]) -> String {
    written(captures::take(name, bytes).map_err(|why| Refused::of("file", why)))
}
