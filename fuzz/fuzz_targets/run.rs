//! Runs any text as a query over a few items; the checks are in `tests/support/oracle.rs`.

#![no_main]

#[path = "../../core/sql/tests/support/oracle.rs"]
mod oracle;
#[path = "../../core/sql/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|text: &str| oracle::check_run(text));
