//! Queries and cursors of listings.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_server::fuzzing::cursors(data));
