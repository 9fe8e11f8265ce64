//! `cargo +nightly fuzz run topology`: see ../src/lib.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cohabit_fuzz::topology(data));
