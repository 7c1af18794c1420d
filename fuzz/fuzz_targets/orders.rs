//! See `netcliff_fuzz::orders`. `scripts/attack/fuzz.sh orders`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netcliff_fuzz::orders::run(bytes));
