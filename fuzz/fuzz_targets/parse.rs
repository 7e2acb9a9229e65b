//! Compiles, plans and prints any text; the checks are in `tests/support/oracle.rs`.

#![no_main]

#[path = "../../core/sql/tests/support/oracle.rs"]
mod oracle;
#[path = "../../core/sql/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|text: &str| oracle::check_compile_plan_and_print(text));
