//! The targets of the query language: the text of a query, checked by [`oracle`].

#[cfg(test)]
mod dictionary;
mod oracle;
#[path = "../../core/sql/tests/support/mod.rs"]
mod support;

/// Checks a text as a query that is compiled, planned and printed.
pub(crate) fn check_parse(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        oracle::check_compile_plan_and_print(text);
    }
}

/// Checks a text as a query that is run over a few items.
pub(crate) fn check_run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        oracle::check_run(text);
    }
}
