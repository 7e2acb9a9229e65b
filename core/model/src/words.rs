//! Words for messages: the name that a mistyped name was probably meant to be, and long values cut
//! to a length that fits into a sentence.
//!
//! Everything here costs a little time and is used when an error is made, not before.

use std::borrow::Cow;

/// The most characters of a client's value that a message repeats.
pub const SHOWN_CHARS: usize = 64;

/// Returns the candidate that `word` was probably meant to be, or `None` if no candidate is near:
/// one that differs in upper and lower case only, else the one with the fewest mistyped characters,
/// at most a third of the characters of the word.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.chars().count() > SHOWN_CHARS {
        return None;
    }
    let lower = word.to_lowercase();
    let allowed = lower.chars().count() / 3;
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = match candidate.to_lowercase() {
            other if other == lower => 0,
            other => strsim::osa_distance(&lower, &other).max(1),
        };
        if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns ` Did you mean 'name'?` for the nearest candidate, or an empty text.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, candidates) {
        Some(name) => format!(" Did you mean '{}'?", shortened(name)),
        None => String::new(),
    }
}

/// Returns the form of a word for a count: that of one, or that of many.
pub fn plural<'t>(count: usize, one: &'t str, many: &'t str) -> &'t str {
    if count == 1 { one } else { many }
}

/// Returns a text of at most [`SHOWN_CHARS`] characters, with `…` in place of what was cut off.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a text of at most `chars` characters. In a longer text, `…` takes the place of what is
/// cut out before the last quarter, because a message ends with the remedy.
pub fn bounded(text: &str, chars: usize) -> Cow<'_, str> {
    // A text has at least as many bytes as characters.
    if text.len() <= chars {
        return Cow::Borrowed(text);
    }
    let count = text.chars().count();
    if count <= chars {
        return Cow::Borrowed(text);
    }
    let at_the_end = chars / 4;
    let at_the_start = chars - at_the_end - 1;
    let start: String = text.chars().take(at_the_start).collect();
    let end: String = text.chars().skip(count - at_the_end).collect();
    Cow::Owned(format!("{start}…{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_text_keeps_its_start_and_its_end() {
        assert_eq!(bounded("äöü", 3), "äöü");
        let text = format!("{}end", "ä".repeat(100));
        let cut = bounded(&text, 16);
        assert_eq!(cut, format!("{}…äend", "ä".repeat(11)));
        assert_eq!(cut.chars().count(), 16);
    }

    #[test]
    fn a_name_in_another_case_or_with_a_slip_is_recognised() {
        let names = ["partitionKey", "indexingPolicy", "defaultTtl"];
        assert_eq!(nearest("PartitionKey", names), Some("partitionKey"));
        assert_eq!(nearest("indexPolicy", names), Some("indexingPolicy"));
        assert_eq!(nearest("defautlTtl", names), Some("defaultTtl"));
        assert_eq!(nearest("color", names), None);
        assert_eq!(nearest("C", ["c"]), Some("c"));
        assert_eq!(nearest("d", ["c"]), None);
        assert_eq!(did_you_mean("color", names), "");
        assert_eq!(
            did_you_mean("PARTITIONKEY", names),
            " Did you mean 'partitionKey'?"
        );
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = "ü".repeat(SHOWN_CHARS + 1);
        assert_eq!(shortened(&long), format!("{}…", "ü".repeat(SHOWN_CHARS)));
        assert_eq!(nearest(&long, [long.as_str()]), None);
    }
}
