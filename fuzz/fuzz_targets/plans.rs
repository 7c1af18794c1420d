//! See `netcliff_fuzz::plans`. `scripts/attack/fuzz.sh plans`

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netcliff_fuzz::plans::run(bytes));
