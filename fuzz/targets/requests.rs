//! The bodies and queries of requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_core::fuzzing::requests(data));
