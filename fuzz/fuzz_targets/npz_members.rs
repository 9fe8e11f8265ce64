//! `cargo +nightly fuzz run npz_members`: see ../src/lib.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cohabit_fuzz::npz_members(data));
