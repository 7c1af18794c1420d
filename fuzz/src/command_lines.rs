//! Any command line is refused in words or read; the points of `predict` and `simulate` come back from their text as they are, and
//! the model refuses them or gives a sound outcome.

use netcliff_core::{Engine, EngineFailure, Fidelity, Point};
use netcliff_model::ModelEngine;

/// Longer ones only take longer.
const MOST_WORDS: usize = 24;
/// Points of a sweep that are answered: each takes up to a tenth of a second.
const POINTS: usize = 2;

/// The words of a command line, one a line, the program's name left out.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let words: Vec<&str> = text.lines().take(MOST_WORDS).collect();
    // Files of this machine are not for the input to name.
    if words.iter().any(|word| word.contains('/') || word.contains("..") && word.contains('~')) {
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

/// A point is kept in records: it is read again as it was.
fn written(point: &Point) {
    let text = serde_json::to_string(point).expect("a point is written");
    let again: Point = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(&again, point, "{text}");
}
