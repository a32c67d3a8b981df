//! The event stream.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_client::fuzzing::sse(data));
