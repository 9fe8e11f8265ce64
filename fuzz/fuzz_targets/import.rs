//! `cargo +nightly fuzz run import`: see ../src/lib.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cohabit_fuzz::import_any(data));
