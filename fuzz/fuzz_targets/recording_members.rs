//! `cargo +nightly fuzz run recording_members`: see ../src/lib.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cohabit_fuzz::recording_members(data));
