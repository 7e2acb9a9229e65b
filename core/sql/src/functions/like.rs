//! LIKE patterns: `%` matches any characters, `_` one character, `[a-f]` one character of a set,
//! and `[^a-f]` one character outside it.
//!
//! Matching takes at most as many steps as text length times pattern length: of several `%` only
//! the last one reached is extended. That can be long for long texts and patterns, so the steps are
//! reported while matching runs.

use crate::error::QueryError;

/// Steps between two reports.
const STEPS_PER_REPORT: u64 = 8192;
/// Steps that count as one iteration of the time limit.
const STEPS_PER_ITERATION: u64 = 8;

/// A parsed pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    /// `%`
    AnyCharacters,
    /// `_`
    OneCharacter,
    Literal(char),
    /// `[a-f]` or `[^a-f]`, with the first and last character of each range.
    Set {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// The kind of a pattern, by which an index is searched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatternKind {
    /// A pattern without wildcards.
    Exact(String),
    /// A prefix followed by `%`.
    Prefix(String),
    Other,
}

impl Pattern {
    /// Parses a pattern. A character after the escape character is a literal.
    pub(crate) fn new(text: &str, escape: Option<char>) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut parts = Vec::with_capacity(chars.len());
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            at += 1;
            parts.push(match c {
                // An escape character at the end of the pattern stands for itself.
                _ if Some(c) == escape && at < chars.len() => {
                    at += 1;
                    Part::Literal(chars[at - 1])
                }
                '%' => Part::AnyCharacters,
                '_' => Part::OneCharacter,
                // A bracket that is never closed stands for itself.
                '[' => match parse_set(&chars, at) {
                    Some((part, after)) => {
                        at = after;
                        part
                    }
                    None => Part::Literal('['),
                },
                other => Part::Literal(other),
            });
        }
        Pattern { parts }
    }

    /// Returns true if the whole text matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.matches_within(text, &mut |_| Ok(())).unwrap_or(false)
    }

    /// Returns true if the whole text matches. Every [`STEPS_PER_REPORT`] steps, `report` gets the
    /// number of iterations that they count as.
    ///
    /// # Errors
    /// The error of `report`, which ends the matching.
    pub(crate) fn matches_within(
        &self,
        text: &str,
        report: &mut dyn FnMut(u64) -> Result<(), QueryError>,
    ) -> Result<bool, QueryError> {
        // Every part except `%` needs at least one byte of the text.
        let min_length = self
            .parts
            .iter()
            .filter(|p| **p != Part::AnyCharacters)
            .count();
        if min_length > text.len() {
            return Ok(false);
        }

        let mut steps = 0;
        let mut rest = text.chars();
        let mut part = 0;
        // The part after the last `%`, and the text at which it was tried. If a later part does not
        // match, the `%` takes one more character and matching continues from there.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            steps += 1;
            if steps == STEPS_PER_REPORT {
                report(STEPS_PER_REPORT / STEPS_PER_ITERATION)?;
                steps = 0;
            }
            if self.parts.get(part) == Some(&Part::AnyCharacters) {
                part += 1;
                if part == self.parts.len() {
                    return Ok(true);
                }
                retry = Some((part, rest.clone()));
                continue;
            }
            let mut after = rest.clone();
            let is_match = match (self.parts.get(part), after.next()) {
                (None, None) => return Ok(true),
                (Some(part), Some(c)) => part.matches(c),
                _ => false,
            };
            if is_match {
                rest = after;
                part += 1;
                continue;
            }
            let Some((retry_part, mut retry_text)) = retry.take() else {
                return Ok(false);
            };
            if retry_text.next().is_none() {
                return Ok(false);
            }
            rest = retry_text.clone();
            part = retry_part;
            retry = Some((retry_part, retry_text));
        }
    }

    /// Returns the kind of the pattern.
    pub(crate) fn kind(&self) -> PatternKind {
        let (parts, is_prefix) = match self.parts.split_last() {
            Some((Part::AnyCharacters, before)) => (before, true),
            _ => (&self.parts[..], false),
        };
        let mut literals = String::new();
        for part in parts {
            let Part::Literal(c) = part else {
                return PatternKind::Other;
            };
            literals.push(*c);
        }
        if is_prefix {
            PatternKind::Prefix(literals)
        } else {
            PatternKind::Exact(literals)
        }
    }
}

impl Part {
    /// Returns true if the part matches one character.
    fn matches(&self, c: char) -> bool {
        match self {
            Part::AnyCharacters => false,
            Part::OneCharacter => true,
            Part::Literal(literal) => *literal == c,
            Part::Set { is_negated, ranges } => {
                let is_in_set = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                is_in_set != *is_negated
            }
        }
    }
}

/// Parses a set whose `[` stands just before `at`. Returns the place after it, or `None` if the set
/// is never closed. A `]` as the first character belongs to the set.
fn parse_set(chars: &[char], at: usize) -> Option<(Part, usize)> {
    let is_negated = chars.get(at) == Some(&'^');
    let mut at = at + usize::from(is_negated);
    let mut ranges = Vec::new();
    let first = at;
    loop {
        let c = *chars.get(at)?;
        if c == ']' && at > first {
            return Some((Part::Set { is_negated, ranges }, at + 1));
        }
        let has_dash = chars.get(at + 1) == Some(&'-');
        match chars.get(at + 2) {
            Some(&to) if has_dash && to != ']' => {
                ranges.push((c, to));
                at += 3;
            }
            _ => {
                ranges.push((c, c));
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_by_wildcards_sets_and_escapes() {
        let cases: &[(&str, &str, bool)] = &[
            ("abc", "abc", true),
            ("abc", "ab", false),
            ("a%", "abc", true),
            ("%c", "abc", true),
            ("%b%", "abc", true),
            ("%b%b%", "abc", false),
            ("a_c", "abc", true),
            ("a_c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[^a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("100[%]", "100%", true),
            ("100[%]", "1000", false),
            ("[[]x", "[x", true),
            ("a]", "a]", true),
            ("[ab", "[ab", true),
            ("%", "", true),
            ("", "", true),
            ("a.c", "abc", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Pattern::new(pattern, None).matches(text),
                *expected,
                "{text} LIKE {pattern}"
            );
        }
        assert!(Pattern::new("100!%", Some('!')).matches("100%"));
        assert!(!Pattern::new("100!%", Some('!')).matches("1000"));
    }

    #[test]
    fn kinds_tell_what_an_index_can_do() {
        assert_eq!(
            Pattern::new("abc", None).kind(),
            PatternKind::Exact("abc".into())
        );
        assert_eq!(
            Pattern::new("abc%", None).kind(),
            PatternKind::Prefix("abc".into())
        );
        assert_eq!(Pattern::new("%abc", None).kind(), PatternKind::Other);
    }
}
