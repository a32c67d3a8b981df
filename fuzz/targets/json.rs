//! The reader of JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_core::fuzzing::json(data));
