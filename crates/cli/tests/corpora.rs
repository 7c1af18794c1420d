//! The kept inputs of the fuzz targets (`fuzz/corpus`), each through the function that its target runs. No libFuzzer and no nightly
//! Rust are needed; `scripts/attack/fuzz.sh` looks for new ones.

// Targets that are not replayed here use the rest of it.
#[allow(dead_code)]
#[path = "../../../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../../../fuzz/src/captures.rs"]
mod captures;
#[path = "../../../fuzz/src/command_lines.rs"]
mod command_lines;
#[path = "../../../fuzz/src/orders.rs"]
mod orders;
#[path = "../../../fuzz/src/plans.rs"]
mod plans;
#[path = "../../../fuzz/src/records.rs"]
mod records;

use std::path::Path;

/// All inputs of a target; a panic names the one that it came of.
fn replay(target: &str, run: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = dir.read_dir().expect("a corpus").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no inputs in {}", dir.display());
    for file in &files {
        let input = std::fs::read(file).expect("an input");
        let outcome = std::panic::catch_unwind(|| run(&input));
        assert!(outcome.is_ok(), "{target} fails with {}", file.display());
    }
}

#[test]
fn orders_are_refused_or_begun_and_ended() {
    replay("orders", orders::run);
}

#[test]
fn plans_are_refused_or_written_as_they_are() {
    replay("plans", plans::run);
}

#[test]
fn captures_are_refused_or_read() {
    replay("captures", captures::run);
}

#[test]
fn records_are_refused_or_shown() {
    replay("records", records::run);
}

#[test]
fn command_lines_are_refused_or_answered() {
    replay("command_lines", command_lines::run);
}
