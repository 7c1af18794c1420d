//! All targets in one program, so that they are compiled and linked once. The environment variable NETCLIFF_FUZZ names
//! the target to run.
//!
//! `scripts/attack/fuzz.sh TARGET`, or `NETCLIFF_FUZZ=model cargo +nightly fuzz run targets fuzz/corpus/model`

#![no_main]

use std::sync::LazyLock;

use netcliff_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("NETCLIFF_FUZZ").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.map(|(_, run)| *run).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
        eprintln!("NETCLIFF_FUZZ is {name:?}: expected one of {}", names.join(", "));
        std::process::exit(2)
    })
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (*TARGET)(bytes));
