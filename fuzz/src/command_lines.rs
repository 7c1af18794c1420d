//! Any command line is refused with a message, or read. The points of `predict` and `simulate` that were read are
//! unchanged after they are written as text and read again, and the model refuses them or returns a sound outcome.

use netcliff_core::{Engine, EngineFailure, Fidelity, Point};
use netcliff_model::ModelEngine;

/// Further words are ignored: they would only take time.
const MOST_WORDS: usize = 24;
/// The first points of a sweep, which the model evaluates. Each takes up to 0.1 s.
const POINTS: usize = 2;

/// Reads each line of the input as one word of a command line without the program's name.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let words: Vec<&str> = text.lines().take(MOST_WORDS).collect();
    // An input may not name files of this machine.
    if words.iter().any(|word| word.contains('/') || word.contains("..") || word.contains('~')) {
        return;
    }
    let read = netcliff::points_of(std::iter::once("netcliff").chain(words.iter().copied()));
    let points = match read {
        Ok(points) => points,
        Err(told) => return assert!(!told.trim().is_empty(), "{words:?} is refused without a word"),
    };
    for point in points.iter().take(POINTS) {
        written(point);
        for fidelity in [Fidelity::Paper, Fidelity::Exact] {
            if let Err(EngineFailure::Unsound { unsound, .. }) = ModelEngine::new(fidelity).evaluate(point) {
                panic!("{unsound}: {point:?}");
            }
        }
    }
}

/// Records store points, so a point that is written and read again must be unchanged.
fn written(point: &Point) {
    let text = serde_json::to_string(point).expect("a point is written");
    let again: Point = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&again, point, "{text}");
}
