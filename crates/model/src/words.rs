//! Words for messages: the name that a mistyped name was probably meant to be, and long values cut
//! to a length that fits into a sentence.
//!
//! Everything here costs a little time and is used when an error is made, not before.

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

/// Returns a text of at most [`SHOWN_CHARS`] characters, with `…` in place of what was cut off.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
