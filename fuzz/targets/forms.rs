#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::http::fuzzing::forms(data));
