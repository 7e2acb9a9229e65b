//! Any text as a query over a few items; what must hold is in `tests/support/oracle.rs`.

#![no_main]

#[path = "../../tests/support/oracle.rs"]
mod oracle;
#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|text: &str| oracle::run(text));
