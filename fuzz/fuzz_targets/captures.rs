//! See `netcliff_fuzz::captures`. `scripts/attack/fuzz.sh captures`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netcliff_fuzz::captures::run(bytes));
