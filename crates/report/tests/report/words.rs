//! The words of the field: phrases that were replaced in what people see do not come back.

use std::path::Path;

/// Phrases of our own, each with what is written instead.
const REPLACED: &[(&str, &str)] = &[
    ("NOT HAD", "NOT MEASURED"),
    ("Not had", "Not measured"),
    ("not had", "not measured"),
    ("was had", "was measured, or: method"),
    ("WHAT BINDS", "BOTTLENECK"),
    ("What binds", "Bottleneck"),
    ("What was asked", "Configuration"),
    ("What to try", "Suggestions"),
    ("HIGHEST RATE", "BOUNDS"),
    ("costs in meaning", "limits the result"),
    ("predicted on paper", "predicted by the model"),
];

/// Every snapshot of what the commands print and of the pages.
#[test]
fn replaced_words_do_not_come_back() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for folder in ["tests/report/snapshots", "../cli/tests/cli/snapshots"] {
        for entry in std::fs::read_dir(here.join(folder)).expect("a folder of snapshots") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a snapshot is text");
            seen += 1;
            for (phrase, instead) in REPLACED {
                assert!(!text.contains(phrase), "{}: {phrase:?}: write {instead}", path.display());
            }
        }
    }
    assert!(seen > 40, "only {seen} snapshots");
}
