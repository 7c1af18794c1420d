//! See `netcliff_fuzz::records`. `scripts/attack/fuzz.sh records`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netcliff_fuzz::records::run(bytes));
