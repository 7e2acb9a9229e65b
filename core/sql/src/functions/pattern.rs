//! REGEXMATCH, REGEXEXTRACT and REGEXEXTRACTALL.
//!
//! A pattern that does not compile makes the function undefined. A pattern that is too slow on a
//! text is an error; see `compiled_regex.rs` for the limits.

use super::{Arguments, Function, IndexUse, MeteredFunction, metered};
use crate::error::QueryError;
use crate::run::frame::Context;
use orrery_model::json::Json;
use regex::Regex;

/// Loop iterations that one call counts for, apart from the bytes of the text.
const CALL_ITERATIONS: u64 = 16;

const fn with_pattern(
    names: &'static [&'static str],
    doc: &'static str,
    run: MeteredFunction,
) -> Function {
    metered(names, (2, 3), doc, run)
}

pub(super) const TABLE: &[Function] = &[
    with_pattern(
        &["REGEXMATCH", "REGEX_MATCH"],
        "true if the pattern occurs in the text; flags m s i x",
        |cx, a| {
            with_regex(cx, a, |_, regex, text| {
                Ok(Some(Json::Bool(regex.is_match(text))))
            })
        },
    )
    .index_use(IndexUse::IndexScan),
    with_pattern(
        &["REGEXEXTRACT", "REGEX_EXTRACT"],
        "the first match of the pattern",
        |cx, a| {
            with_regex(cx, a, |_, regex, text| {
                Ok(regex.find(text).map(|m| Json::from(m.as_str())))
            })
        },
    ),
    with_pattern(
        &["REGEXEXTRACTALL", "REGEX_EXTRACT_ALL"],
        "all matches of the pattern, as an array",
        |cx, a| with_regex(cx, a, extract_all),
    ),
];

fn extract_all(
    cx: &mut Context<'_>,
    regex: &Regex,
    text: &str,
) -> Result<Option<Json>, QueryError> {
    let mut matches = Vec::new();
    let mut bytes = cx.held_bytes;
    for part in regex.find_iter(text) {
        // The search for the next match may read the rest of the text.
        cx.count_bytes(text.len() - part.start())?;
        bytes = bytes.saturating_add(32 + part.len());
        cx.check_memory(bytes)?;
        matches.push(Json::from(part.as_str()));
    }
    Ok(Some(Json::Array(matches)))
}

/// Calls `apply` with the compiled pattern (argument 1, flags in argument 2) and the text (argument
/// 0). Returns `None` if an argument has the wrong type or the pattern does not compile.
fn with_regex(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    apply: impl FnOnce(&mut Context<'_>, &Regex, &str) -> Result<Option<Json>, QueryError>,
) -> Result<Option<Json>, QueryError> {
    let (Some(text), Some(pattern), Some(flags)) = (a.text(0), a.text(1), a.text_or(2, "")) else {
        return Ok(None);
    };
    let key = (pattern.to_owned(), flags.to_owned());
    let Some(mut compiled) = cx.regexes.take(&key) else {
        cx.regexes.put(key, None);
        return Ok(None);
    };
    // The cost of a pattern on a text is known only afterwards, so each call counts for several
    // iterations.
    cx.count_iterations(CALL_ITERATIONS)?;
    if !compiled.is_quick_on(text) {
        let message = "A regular expression of the query takes too long on a text of this length.";
        return Err(QueryError::Plan(message.into()));
    }
    let result = apply(cx, &compiled.regex, text);
    cx.regexes.put(key, Some(compiled));
    result
}
