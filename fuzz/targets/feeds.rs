//! Feeds, their dates and their HTML.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_server::fuzzing::feeds(data));
