//! `cargo +nightly fuzz run documents`: see ../src/lib.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cohabit_fuzz::document(data));
