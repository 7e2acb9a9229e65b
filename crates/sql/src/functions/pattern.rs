//! Regular expressions, in linear time and of limited size. A pattern that cannot be had so, back-references and
//! look-around among them, is a bad pattern: the function gives undefined.

use super::{Arguments, Cost, Function, Run};
use crate::run::frame::Context;
use orrery_model::json::Json;
use regex::{Regex, RegexBuilder};
use std::collections::HashMap;

/// Bytes that a compiled pattern may take.
const COMPILED_BYTES: usize = 1 << 20;
/// Patterns that one page keeps compiled; more than these are a query that makes patterns from data.
const CACHED: usize = 64;

const fn with_pattern(
    names: &'static [&'static str],
    doc: &'static str,
    run: fn(&mut Context<'_>, Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    Function { names, arity: (2, 3), cost: Cost::Scan, doc, run: Run::Context(run) }
}

pub(super) const TABLE: &[Function] = &[
    with_pattern(&["REGEXMATCH", "REGEX_MATCH"], "whether the pattern is found; flags m s i x", |cx, a| {
        with_regex(cx, a, |regex, text| Json::Bool(regex.is_match(text)))
    })
    .cost(Cost::IndexScan),
    with_pattern(&["REGEXEXTRACT", "REGEX_EXTRACT"], "the first match of the pattern", |cx, a| {
        with_regex(cx, a, |regex, text| regex.find(text).map(|m| Json::from(m.as_str())))?
    }),
    with_pattern(&["REGEXEXTRACTALL", "REGEX_EXTRACT_ALL"], "all matches of the pattern, as an array", |cx, a| {
        with_regex(cx, a, |regex, text| Json::Array(regex.find_iter(text).map(|m| Json::from(m.as_str())).collect()))
    }),
];

/// The patterns of a page.
#[derive(Default)]
pub(crate) struct RegexCache(HashMap<(String, String), Option<Regex>>);

/// Compiles a pattern; `None` for bad patterns and unknown flags.
pub(crate) fn compile(pattern: &str, flags: &str) -> Option<Regex> {
    if !flags.chars().all(|c| "msix".contains(c)) {
        return None;
    }
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED_BYTES).dfa_size_limit(COMPILED_BYTES);
    builder.multi_line(flags.contains('m')).dot_matches_new_line(flags.contains('s'));
    builder.case_insensitive(flags.contains('i')).ignore_whitespace(flags.contains('x'));
    builder.build().ok()
}

fn with_regex<T>(cx: &mut Context<'_>, a: Arguments<'_, '_>, use_it: impl FnOnce(&Regex, &str) -> T) -> Option<T> {
    let (text, pattern, flags) = (a.text(0)?, a.text(1)?, a.text_or(2, "")?);
    let cache = &mut cx.regexes.0;
    let key = (pattern.to_owned(), flags.to_owned());
    if cache.len() >= CACHED && !cache.contains_key(&key) {
        cache.clear();
    }
    let regex = cache.entry(key).or_insert_with(|| compile(pattern, flags));
    Some(use_it(regex.as_ref()?, text))
}
