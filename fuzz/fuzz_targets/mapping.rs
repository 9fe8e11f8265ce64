//! `cargo +nightly fuzz run mapping`: see ../src/lib.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cohabit_fuzz::mapping(data));
