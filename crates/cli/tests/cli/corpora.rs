//! Runs the inputs that fuzzing stored (`fuzz/corpus/*.tar.zst`) through the function of their target. Neither
//! libFuzzer nor nightly Rust is needed. `scripts/attack/fuzz.sh` searches for new inputs, and unpacks the archives.

// Fuzz targets that are not replayed here use the remaining functions of these modules.
#[allow(dead_code)]
#[path = "../../../../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../../../../fuzz/src/captures.rs"]
mod captures;
#[path = "../../../../fuzz/src/command_lines.rs"]
mod command_lines;
#[path = "../../../../fuzz/src/orders.rs"]
mod orders;
#[path = "../../../../fuzz/src/plans.rs"]
mod plans;
#[path = "../../../../fuzz/src/records.rs"]
mod records;

use std::io::Read;
use std::path::Path;

/// Runs all inputs in a target's archive. A panic names the input that caused it.
fn replay(target: &str, run: fn(&[u8])) {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fuzz/corpus/{target}.tar.zst"));
    let packed = std::fs::File::open(&archive).unwrap_or_else(|error| panic!("{}: {error}", archive.display()));
    let unpacked = ruzstd::decoding::StreamingDecoder::new(packed).expect("an archive packed by zstd");
    let mut inputs = 0;
    for entry in tar::Archive::new(unpacked).entries().expect("a tar archive") {
        let mut entry = entry.expect("an input");
        let mut input = Vec::new();
        entry.read_to_end(&mut input).expect("an input's bytes");
        let outcome = std::panic::catch_unwind(|| run(&input));
        assert!(outcome.is_ok(), "{target} fails with {}", entry.path().expect("its name").display());
        inputs += 1;
    }
    assert!(inputs > 0, "no inputs in {}", archive.display());
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
