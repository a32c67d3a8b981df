//! The stored chunks of outcomes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_server::fuzzing::outcomes(data));
