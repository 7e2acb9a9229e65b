//! Regular expressions, in linear time and of limited size. A pattern that cannot be had so, back-references and
//! look-around among them, is a bad pattern: the function gives undefined.
//!
//! Linear is not yet quick: a pattern with thousands of states can take a hundred microseconds for each byte where its
//! automaton cannot be made deterministic in little memory. Such a pattern fails on such a text, with an error.

use super::{Arguments, Cost, Function, Run};
use crate::error::QueryError;
use crate::run::frame::Context;
use orrery_model::json::Json;
use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::DFA;
use regex_automata::hybrid::regex::{Cache, Regex as Probe};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchErrorKind};
use std::collections::HashMap;

/// Bytes that a compiled pattern may take.
const COMPILED_BYTES: usize = 1 << 20;
/// Patterns that one page keeps compiled; more than these are a query that makes patterns from data.
const CACHED: usize = 64;
/// States of an automaton times bytes of a text that are gone through the slow way: about a second.
const SLOW_STEPS: usize = 30_000_000;
/// Turns that a call counts for, apart from the bytes it goes through.
const CALL_TURNS: u64 = 16;
/// States that the automaton of a pattern may have to be tried on all strings of an index.
const STATES_IN_SCANS: usize = 1_000;

const fn with_pattern(
    names: &'static [&'static str],
    doc: &'static str,
    run: fn(&mut Context<'_>, Arguments<'_, '_>) -> Result<Option<Json>, QueryError>,
) -> Function {
    Function {
        names,
        arity: (2, 3),
        cost: Cost::Scan,
        doc,
        run: Run::Watched(run),
    }
}

pub(super) const TABLE: &[Function] = &[
    with_pattern(
        &["REGEXMATCH", "REGEX_MATCH"],
        "whether the pattern is found; flags m s i x",
        |cx, a| {
            with_regex(cx, a, |_, regex, text| {
                Ok(Some(Json::Bool(regex.is_match(text))))
            })
        },
    )
    .cost(Cost::IndexScan),
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
    let (mut found, mut bytes) = (Vec::new(), cx.made);
    for part in regex.find_iter(text) {
        // To find the next match the rest of the text may have been gone through.
        cx.bytes(text.len() - part.start())?;
        bytes = bytes.saturating_add(32 + part.len());
        cx.fits(bytes)?;
        found.push(Json::from(part.as_str()));
    }
    Ok(Some(Json::Array(found)))
}

/// A pattern, ready to match.
pub(crate) struct Pattern {
    regex: Regex,
    /// The same as a lazily made deterministic automaton that gives up where it grows without use.
    probe: Probe,
    cache: Cache,
}

/// The patterns of a page.
#[derive(Default)]
pub(crate) struct RegexCache(HashMap<(String, String), Option<Pattern>>);

/// A pattern for an index scan; `None` for bad patterns and unknown flags. The flag is false where the pattern is not
/// fit to be tried on many strings.
pub(crate) fn for_scan(pattern: &str, flags: &str) -> Option<(Regex, bool)> {
    compile(pattern, flags).map(|pattern| {
        let fit = pattern.states() <= STATES_IN_SCANS;
        (pattern.regex, fit)
    })
}

fn compile(pattern: &str, flags: &str) -> Option<Pattern> {
    if !flags.chars().all(|c| "msix".contains(c)) {
        return None;
    }
    let [lines, dots, any_case, spaced] = ['m', 's', 'i', 'x'].map(|flag| flags.contains(flag));
    let mut builder = RegexBuilder::new(pattern);
    builder
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(COMPILED_BYTES);
    builder
        .multi_line(lines)
        .dot_matches_new_line(dots)
        .case_insensitive(any_case)
        .ignore_whitespace(spaced);
    let regex = builder.build().ok()?;
    let syntax = syntax::Config::new()
        .multi_line(lines)
        .dot_matches_new_line(dots);
    let automaton = DFA::config()
        .cache_capacity(COMPILED_BYTES)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(3))
        .minimum_bytes_per_state(Some(10))
        .unicode_word_boundary(true);
    let probe = Probe::builder()
        .syntax(syntax.case_insensitive(any_case).ignore_whitespace(spaced))
        .thompson(thompson::Config::new())
        .dfa(automaton)
        .build(pattern)
        .ok()?;
    let cache = probe.create_cache();
    Some(Pattern {
        regex,
        probe,
        cache,
    })
}

impl Pattern {
    fn states(&self) -> usize {
        self.probe.forward().get_nfa().states().len()
    }

    /// Whether the text can be gone through in acceptable time.
    fn is_quick_on(&mut self, text: &str) -> bool {
        match self.probe.try_search(&mut self.cache, &Input::new(text)) {
            Ok(_) => true,
            // Word boundaries among letters beyond ASCII have no automaton; all else gave up.
            Err(error)
                if matches!(
                    error.kind(),
                    MatchErrorKind::Quit { .. } | MatchErrorKind::GaveUp { .. }
                ) =>
            {
                self.states().saturating_mul(text.len()) <= SLOW_STEPS
            }
            Err(_) => false,
        }
    }
}

fn with_regex(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    use_it: impl FnOnce(&mut Context<'_>, &Regex, &str) -> Result<Option<Json>, QueryError>,
) -> Result<Option<Json>, QueryError> {
    let (Some(text), Some(pattern), Some(flags)) = (a.text(0), a.text(1), a.text_or(2, "")) else {
        return Ok(None);
    };
    let cache = &mut cx.regexes.0;
    let key = (pattern.to_owned(), flags.to_owned());
    if cache.len() >= CACHED && !cache.contains_key(&key) {
        cache.clear();
    }
    let compiled = cache
        .remove(&key)
        .unwrap_or_else(|| compile(pattern, flags));
    let Some(mut compiled) = compiled else {
        cache.insert(key, None);
        return Ok(None);
    };
    // What a pattern costs on a text shows only afterwards: a call is worth a look at the clock.
    cx.turns(CALL_TURNS)?;
    if !compiled.is_quick_on(text) {
        let message = "A regular expression of the query takes too long on a text of this length.";
        return Err(QueryError::Plan(message.into()));
    }
    let made = use_it(cx, &compiled.regex, text);
    cx.regexes.0.insert(key, Some(compiled));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_is_slow_on_a_long_text_is_told_from_one_that_is_not() {
        let letter = |n: u64| {
            if orrery_model::world::split_mix(n) & 1 == 0 {
                'a'
            } else {
                'b'
            }
        };
        let noise: String = (0..200_000).map(letter).collect();
        let quick =
            |pattern: &str, text: &str| compile(pattern, "").expect(pattern).is_quick_on(text);
        for pattern in [
            "(a|b|ab)*c",
            "^(a+)+$",
            "(x+x+)+y",
            r"\w+@\w+\.com",
            "[ab]*a[ab]{8}c",
            r"\bab\b",
        ] {
            assert!(quick(pattern, &noise), "{pattern}");
        }
        assert!(!quick("[ab]*a[ab]{2000}c", &noise));
        assert!(quick("[ab]*a[ab]{2000}c", &noise[..1000]));
        let words = "é ".repeat(200_000);
        assert!(quick(r"\ba\b", &words));
        assert!(!quick(r"\b\w{20}\b", &words));
    }

    #[test]
    fn patterns_that_are_too_large_are_bad() {
        assert!(compile(r"\b(\w{1,300}\b){3}z", "").is_none());
        assert!(compile("a{1000}{1000}", "").is_none());
        assert!(compile("(a", "").is_none() && compile("a", "q").is_none());
    }
}
