//! The responses of providers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| notify_server::fuzzing::answers(data));
