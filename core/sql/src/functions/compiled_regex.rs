//! Compiled regular expressions: flags, limits and the cache of one page.
//!
//! Matching takes time linear in the text. Patterns that have no such automaton, for example
//! patterns with back-references or look-around, do not compile, and the calling function is
//! undefined.
//!
//! Linear time can still be long: a pattern with thousands of states can take 100 microseconds for
//! each byte of the text where its automaton cannot be made deterministic in little memory.
//! [`CompiledRegex::is_quick_on`] detects such a combination before the match runs.
//!
//! This file does not know the functions of the query language; `pattern.rs` holds them.

use regex::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::DFA;
use regex_automata::hybrid::regex::{Cache, Regex as LazyRegex};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchErrorKind};
use std::collections::HashMap;

/// Memory limit of one compiled pattern, in bytes.
const COMPILED_BYTES: usize = 1 << 20;
/// Largest number of patterns that one page keeps compiled. A query with more patterns computes
/// them from its items.
const MAX_CACHED: usize = 64;
/// Largest product of automaton states and text bytes that is matched without a deterministic
/// automaton; about one second of work.
const MAX_SLOW_STEPS: usize = 30_000_000;
/// Largest number of automaton states of a pattern that may run on every string of an index.
const MAX_INDEX_SCAN_STATES: usize = 1_000;

/// A compiled pattern.
pub(crate) struct CompiledRegex {
    pub(super) regex: Regex,
    /// The same pattern as a lazily built deterministic automaton. Its search fails, instead of
    /// becoming slow, when the automaton outgrows its memory without being reused.
    probe: LazyRegex,
    cache: Cache,
}

/// The compiled patterns of one page, by pattern and flags. `None` stands for a pattern that does
/// not compile.
#[derive(Default)]
pub(crate) struct RegexCache(HashMap<(String, String), Option<CompiledRegex>>);

impl RegexCache {
    /// Takes a pattern out of the cache, or compiles it. [`RegexCache::put`] returns it to the
    /// cache.
    pub(super) fn take(&mut self, key: &(String, String)) -> Option<CompiledRegex> {
        // A full cache is emptied: the query computes its patterns, so old ones are rarely reused.
        if self.0.len() >= MAX_CACHED && !self.0.contains_key(key) {
            self.0.clear();
        }
        match self.0.remove(key) {
            Some(compiled) => compiled,
            None => compile(&key.0, &key.1),
        }
    }

    pub(super) fn put(&mut self, key: (String, String), compiled: Option<CompiledRegex>) {
        self.0.insert(key, compiled);
    }
}

/// Compiles a pattern for an index scan. Returns `None` for a bad pattern or an unknown flag. The
/// boolean is false if the pattern is too large to run on many strings.
pub(crate) fn compile_for_index_scan(pattern: &str, flags: &str) -> Option<(Regex, bool)> {
    let compiled = compile(pattern, flags)?;
    let is_small = compiled.states() <= MAX_INDEX_SCAN_STATES;
    Some((compiled.regex, is_small))
}

/// Compiles a pattern with flags out of `m`, `s`, `i` and `x`. Returns `None` for a bad pattern or
/// an unknown flag.
fn compile(pattern: &str, flags: &str) -> Option<CompiledRegex> {
    if !flags.chars().all(|c| "msix".contains(c)) {
        return None;
    }
    let multi_line = flags.contains('m');
    let dot_matches_new_line = flags.contains('s');
    let case_insensitive = flags.contains('i');
    let ignore_whitespace = flags.contains('x');

    let regex = RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES)
        .dfa_size_limit(COMPILED_BYTES)
        .multi_line(multi_line)
        .dot_matches_new_line(dot_matches_new_line)
        .case_insensitive(case_insensitive)
        .ignore_whitespace(ignore_whitespace)
        .build()
        .ok()?;

    // The probe reads the same syntax. It gives up when its cache was cleared three times and each
    // state served fewer than ten bytes since the last time.
    let syntax = syntax::Config::new()
        .multi_line(multi_line)
        .dot_matches_new_line(dot_matches_new_line)
        .case_insensitive(case_insensitive)
        .ignore_whitespace(ignore_whitespace);
    let automaton = DFA::config()
        .cache_capacity(COMPILED_BYTES)
        .skip_cache_capacity_check(true)
        .minimum_cache_clear_count(Some(3))
        .minimum_bytes_per_state(Some(10))
        .unicode_word_boundary(true);
    let probe = LazyRegex::builder()
        .syntax(syntax)
        .thompson(thompson::Config::new())
        .dfa(automaton)
        .build(pattern)
        .ok()?;
    let cache = probe.create_cache();
    Some(CompiledRegex {
        regex,
        probe,
        cache,
    })
}

impl CompiledRegex {
    fn states(&self) -> usize {
        self.probe.forward().get_nfa().states().len()
    }

    /// Returns true if the text can be matched in acceptable time.
    pub(super) fn is_quick_on(&mut self, text: &str) -> bool {
        match self.probe.try_search(&mut self.cache, &Input::new(text)) {
            Ok(_) => true,
            Err(error) => match error.kind() {
                // The automaton quits at a word boundary among non-ASCII letters, which it cannot
                // express, and gives up when it grows without reuse. The slower engine of `regex`
                // then costs about one step for each state and byte.
                MatchErrorKind::Quit { .. } | MatchErrorKind::GaveUp { .. } => {
                    self.states().saturating_mul(text.len()) <= MAX_SLOW_STEPS
                }
                _ => false,
            },
        }
    }
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
        let random_letters: String = (0..200_000).map(letter).collect();
        let is_quick =
            |pattern: &str, text: &str| compile(pattern, "").expect(pattern).is_quick_on(text);
        for pattern in [
            "(a|b|ab)*c",
            "^(a+)+$",
            "(x+x+)+y",
            r"\w+@\w+\.com",
            "[ab]*a[ab]{8}c",
            r"\bab\b",
        ] {
            assert!(is_quick(pattern, &random_letters), "{pattern}");
        }
        assert!(!is_quick("[ab]*a[ab]{2000}c", &random_letters));
        assert!(is_quick("[ab]*a[ab]{2000}c", &random_letters[..1000]));
        let words = "é ".repeat(200_000);
        assert!(is_quick(r"\ba\b", &words));
        assert!(!is_quick(r"\b\w{20}\b", &words));
    }

    #[test]
    fn patterns_that_are_too_large_do_not_compile() {
        assert!(compile(r"\b(\w{1,300}\b){3}z", "").is_none());
        assert!(compile("a{1000}{1000}", "").is_none());
        assert!(compile("(a", "").is_none() && compile("a", "q").is_none());
    }
}
