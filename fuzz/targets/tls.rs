#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::net::fuzzing::tls(data));
