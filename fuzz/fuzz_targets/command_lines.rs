//! See `netcliff_fuzz::command_lines`. `scripts/attack/fuzz.sh command_lines`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netcliff_fuzz::command_lines::run(bytes));
