//! LIKE patterns: `%` any run, `_` one character, `[a-f]` one of a set, `[^a-f]` none of it.
//!
//! Matching takes at most text times pattern steps: of several `%` only the last one met is ever retried. Where both are
//! long that is long too, so the clock is looked at meanwhile.

use crate::error::QueryError;

/// Steps of matching between two reports, and how many of them are one turn.
const STEPS_BETWEEN: u64 = 8192;
const STEPS_A_TURN: u64 = 8;

/// A pattern, ready to match.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Implementation,
    One,
    Literal(char),
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// What an index can make of a pattern.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PatternKind {
    /// No wildcard.
    Exact(String),
    /// A prefix and then `%`.
    Prefix(String),
    Other,
}

impl Pattern {
    pub fn new(text: &str, escape: Option<char>) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut parts = Vec::with_capacity(chars.len());
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            at += 1;
            parts.push(match c {
                _ if Some(c) == escape && at < chars.len() => {
                    at += 1;
                    Part::Literal(chars[at - 1])
                }
                '%' => Part::Implementation,
                '_' => Part::One,
                '[' => match set(&chars, at) {
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

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_within(text, &mut |_| Ok(())).unwrap_or(false)
    }

    /// Whether the whole text matches; tells `watch` every so often how many steps were taken, and ends with its error.
    pub fn matches_within(
        &self,
        text: &str,
        watch: &mut dyn FnMut(u64) -> Result<(), QueryError>,
    ) -> Result<bool, QueryError> {
        let least = self
            .parts
            .iter()
            .filter(|p| **p != Part::Implementation)
            .count();
        if least > text.len() {
            return Ok(false);
        }
        let mut steps = 0;
        let mut rest = text.chars();
        let mut part = 0;
        // Where to go on if the run before `part` must take one more character.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            steps += 1;
            if steps == STEPS_BETWEEN {
                watch(STEPS_BETWEEN / STEPS_A_TURN)?;
                steps = 0;
            }
            if self.parts.get(part) == Some(&Part::Implementation) {
                part += 1;
                if part == self.parts.len() {
                    return Ok(true);
                }
                retry = Some((part, rest.clone()));
                continue;
            }
            let mut ahead = rest.clone();
            let fits = match (self.parts.get(part), ahead.next()) {
                (None, None) => return Ok(true),
                (Some(part), Some(c)) => part.fits(c),
                _ => false,
            };
            if fits {
                rest = ahead;
                part += 1;
                continue;
            }
            let Some((from, mut place)) = retry.take() else {
                return Ok(false);
            };
            if place.next().is_none() {
                return Ok(false);
            }
            rest = place.clone();
            part = from;
            retry = Some((from, place));
        }
    }

    pub fn kind(&self) -> PatternKind {
        let literals = |parts: &[Part]| {
            parts
                .iter()
                .map(|p| {
                    if let Part::Literal(c) = p {
                        Some(*c)
                    } else {
                        None
                    }
                })
                .collect::<Option<String>>()
        };
        match self.parts.split_last() {
            Some((Part::Implementation, before)) => {
                literals(before).map_or(PatternKind::Other, PatternKind::Prefix)
            }
            _ => literals(&self.parts).map_or(PatternKind::Other, PatternKind::Exact),
        }
    }
}

impl Part {
    fn fits(&self, c: char) -> bool {
        match self {
            Part::Implementation => false,
            Part::One => true,
            Part::Literal(l) => *l == c,
            Part::Set { negated, ranges } => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) != *negated
            }
        }
    }
}

/// A set whose `[` stands just before `at`; `None` if it is never closed.
fn set(chars: &[char], at: usize) -> Option<(Part, usize)> {
    let negated = chars.get(at) == Some(&'^');
    let mut at = at + usize::from(negated);
    let mut ranges = Vec::new();
    let first = at;
    loop {
        let c = *chars.get(at)?;
        if c == ']' && at > first {
            return Some((Part::Set { negated, ranges }, at + 1));
        }
        let dash = chars.get(at + 1) == Some(&'-');
        match chars.get(at + 2) {
            Some(&to) if dash && to != ']' => {
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
    fn wildcards_sets_and_escapes() {
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
