#![no_main]

#[path = "../read.rs"]
mod read;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| read::decode_in_every_form(bytes));
