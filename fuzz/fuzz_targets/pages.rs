//! See `netcliff_fuzz::pages`. `scripts/attack/fuzz.sh pages`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netcliff_fuzz::pages::run(bytes));
