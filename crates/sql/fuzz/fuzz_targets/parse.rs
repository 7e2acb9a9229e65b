//! Any text through the front of the query language; what must hold is in `tests/support/oracle.rs`.

#![no_main]

#[path = "../../tests/support/oracle.rs"]
mod oracle;
#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|text: &str| oracle::front(text));
