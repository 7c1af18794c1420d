//! The model and the simulator as functions that a browser calls: a question as JSON in, an answer as JSON out.
//!
//! Questions have the texts of the command line (`napi:weight=64`, `120kpps`, `application=2us`), answers the types of
//! `--json` (docs/json.md), and at the same seed the same figures. [`question`] has what may be asked, [`answers`] what is answered;
//! here are only the doors. Every door returns `{"ok": ANSWER}` or `{"error": {"part": ..., "text": ...}}`, where `part` is what was
//! being read (`set.0`, `scheme`, `rates`, ...) and `text` the sentence that the command line shows.

pub mod answers;
pub mod captures;
pub mod question;
mod reading;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wasm_bindgen::prelude::wasm_bindgen;

use question::Refused;

/// Reads the question, and writes the answer or why there is none.
fn through<Q: DeserializeOwned, A: Serialize>(question: &str, answer: impl FnOnce(Q) -> Result<A, Refused>) -> String {
    let asked = serde_json::from_str(question).map_err(|error| Refused::of("question", error));
    written(asked.and_then(answer))
}

/// Writes the answer or why there is none.
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

/// What can be asked: version, presets, keys of hosts. Takes `{}`.
#[wasm_bindgen]
pub fn about(question: &str) -> String {
    through(question, answers::about)
}

/// Checks a question and says how netcliff writes it: [`answers::Checked`].
#[wasm_bindgen]
pub fn check(question: &str) -> String {
    through(question, answers::check)
}

/// The model at the loads of a sweep: [`answers::Curve`].
#[wasm_bindgen]
pub fn predict(question: &str) -> String {
    through(question, answers::predict)
}

/// The cliff by the model, and the bottleneck past it: [`answers::Fall`].
#[wasm_bindgen]
pub fn cliff(question: &str) -> String {
    through(question, answers::cliff)
}

/// As `netcliff predict --cliff --sensitivities --json`.
#[wasm_bindgen]
pub fn sensitivities(question: &str) -> String {
    through(question, answers::sensitivities)
}

/// As `netcliff simulate --packets N --seed N --json`: one whole run, so that a caller who wants more asks again with more packets and
/// one who wants no more does not ask.
#[wasm_bindgen]
pub fn simulate(question: &str) -> String {
    through(question, answers::simulate)
}

/// A load in simulation within milliseconds, for what moves with a slider: [`answers::CurvePoint`].
#[wasm_bindgen]
pub fn preview(question: &str) -> String {
    through(question, answers::preview)
}

/// The cliff in simulation, where the model has none: [`answers::SimulatedCliff`].
#[wasm_bindgen]
pub fn simulated_cliff(question: &str) -> String {
    through(question, answers::simulated_cliff)
}

/// A short run moment by moment: [`answers::Moments`].
#[wasm_bindgen]
pub fn trace(question: &str) -> String {
    through(question, answers::trace)
}

/// Lines of `netcliff predict --rates ... --json`, one record a load.
#[wasm_bindgen]
pub fn records(question: &str) -> String {
    through(question, answers::records)
}

/// What a file holds that was dropped onto the page: a record, an experiment or a host, or what is wrong in it.
#[wasm_bindgen]
pub fn read(question: &str) -> String {
    through(question, reading::read)
}

/// Keeps a capture (pcap, pcapng) for questions that name it (`trace:NAME`), and says what it holds: [`captures::Taken`].
#[wasm_bindgen]
pub fn capture(name: &str, bytes: &[u8]) -> String {
    written(captures::take(name, bytes).map_err(|why| Refused::of("file", why)))
}
