//! Words that this project has replaced: invented names, and metaphors in prose.
//!
//! The words of the code are those of the service and of the field; `docs/glossary.md` defines the
//! others. A word of [`WORDS`] has a plain replacement, which the complaint names.
//!
//! ```text
//! Name   an identifier of Rust code, whole:           `Manner`
//! Part   a part of an identifier, in any case:        `prey` in `prey_of`, `PreyList`
//! Prose  a word or phrase, in any case: in comments and strings of Rust, and anywhere in
//!        documents, scripts and manifests
//! ```

use super::tree::Tree;
use crate::rust_text::{Kind, pieces, words};

/// The places in which a word is looked for.
enum Scope {
    Name,
    Part,
    Prose,
}

use Scope::{Name, Part, Prose};

/// A retired word: scope, word, replacement. A word of the scopes `Part` and `Prose` is written in
/// lower case.
type Entry = (Scope, &'static str, &'static str);

const WORDS: &[Entry] = &[
    (Name, "Ask", "PartitionQuery, RequestHeaders"),
    (Name, "Ground", "a noun for the data that it holds"),
    (Name, "Manner", "AdmissionOptions"),
    (Name, "Mint", "TokenSigner"),
    (Name, "PlainKind", "AccessResourceKind"),
    (Name, "Room", "ScriptHost, ResponseBudget"),
    (Name, "Spot", "RequestTarget, IndexPosition"),
    (Name, "Stretch", "EpkRange, TypeBand"),
    (Name, "Stretches", "PolicyGenerations"),
    (Name, "Workshop", "InterpreterFactory"),
    (Name, "WhatIf", "Prediction"),
    (Name, "took_place", "is_committed"),
    (Name, "wait_settled", "wait_durable"),
    (Name, "what_if", "prediction"),
    (Part, "chore", "task, command"),
    (Part, "clearing", "delete_by_key"),
    (Part, "dear", "expensive"),
    (Part, "dearer", "more_expensive"),
    (Part, "dearest", "most_expensive"),
    (Part, "doomed", "a word for what is deleted and when"),
    (Part, "foretold", "expected_charge"),
    (Part, "heirs", "successors"),
    (Part, "homes", "storage ids"),
    (Part, "manieth", "sequence number"),
    (Part, "prey", "fault_target"),
    (Part, "rehearsal", "prediction"),
    // The former paths of the management API have `what-if`, so the word alone is not refused.
    (Prose, "a what-if", "a prediction"),
    (Prose, "the what-if", "the prediction"),
    (Prose, "chore", "task, command"),
    (Prose, "chores", "tasks, commands"),
    (Prose, "dear", "expensive"),
    (Prose, "dearer", "more expensive"),
    (Prose, "dearest", "most expensive"),
    (Prose, "doomed", "to be deleted"),
    (Prose, "everybody", "every client, every request"),
    (Prose, "foretold", "expected"),
    (Prose, "heir", "successor"),
    (Prose, "heirs", "successors"),
    (Prose, "holder of the lease", "leaseholder"),
    (Prose, "holders of the lease", "leaseholders"),
    (Prose, "house rule", "rule of this repository"),
    (Prose, "house rules", "rules of this repository"),
    (Prose, "made room", "freed space, removed an entry"),
    (Prose, "make room", "free space, remove an entry"),
    (Prose, "making room", "freeing space"),
    (Prose, "neighbour", "adjacent partition"),
    (Prose, "node with the lease", "leaseholder"),
    (Prose, "prey", "fault target"),
    (Prose, "rehearsal", "prediction"),
    (Prose, "rooms", "modules, files"),
    (Prose, "sends on", "forwards"),
    (Prose, "sent on to", "forwarded to"),
    (Prose, "sends requests on to", "forwards requests to"),
    (Prose, "somebody", "another request"),
];

/// Files in which prose is judged as a whole.
const PROSE_ENDINGS: &[&str] = &[".md", ".py", ".js", ".go", ".java", ".toml", "/run"];
/// This file, which has to name the words.
const TABLE: &str = "xtask/src/tidy/retired.rs";

/// Returns every place that has a retired word.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    judge(tree, WORDS)
}

fn judge(tree: &Tree, table: &[Entry]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        if path == TABLE {
            continue;
        }
        let mut add = |offset: usize, word: &str, replacement: &str| {
            let line = text[..offset].matches('\n').count() + 1;
            found.push(format!("{path}:{line}: `{word}` is retired: {replacement}"));
        };
        if path.ends_with(".rs") {
            for (kind, range) in pieces(text) {
                let piece = &text[range.clone()];
                match kind {
                    Kind::Code => judge_names(table, piece, |at, word, replacement| {
                        add(range.start + at, word, replacement);
                    }),
                    Kind::Comment | Kind::Literal => {
                        judge_prose(table, piece, |at, word, replacement| {
                            add(range.start + at, word, replacement);
                        })
                    }
                }
            }
        } else if PROSE_ENDINGS.iter().any(|ending| path.ends_with(ending)) {
            judge_prose(table, text, add);
        }
    }
    found
}

/// Calls `add` with the offset, the word and the replacement of each retired identifier.
fn judge_names(table: &[Entry], code: &str, mut add: impl FnMut(usize, &str, &str)) {
    for (at, identifier) in words(code) {
        for (scope, word, replacement) in table {
            let is_retired = match scope {
                Name => identifier == *word,
                Part => parts(identifier).iter().any(|part| part == word),
                Prose => false,
            };
            if is_retired {
                add(at, identifier, replacement);
            }
        }
    }
}

/// Calls `add` with the offset, the word and the replacement of each retired word or phrase.
fn judge_prose(table: &[Entry], text: &str, mut add: impl FnMut(usize, &str, &str)) {
    // Lower case of ASCII only, which keeps the offsets.
    let lower = text.to_ascii_lowercase();
    for (scope, word, replacement) in table {
        if !matches!(scope, Prose) {
            continue;
        }
        for (at, _) in lower.match_indices(word) {
            let before = lower[..at].chars().next_back();
            let behind = lower[at + word.len()..].chars().next();
            if !is_word_character(before) && !is_word_character(behind) {
                add(at, word, replacement);
            }
        }
    }
}

fn is_word_character(character: Option<char>) -> bool {
    character.is_some_and(|character| character.is_alphanumeric() || character == '_')
}

/// Returns the parts of an identifier in lower case: those of `snake_case` and of `CamelCase`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_upper = true;
    for character in identifier.chars() {
        let starts_part = character.is_uppercase() && !was_upper;
        was_upper = character.is_uppercase();
        if character == '_' || starts_part {
            parts.push(String::new());
        }
        if character != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(character.to_lowercase());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Entry] = &[
        (Name, "Manner", "AdmissionOptions"),
        (Part, "prey", "fault_target"),
        (Prose, "chore", "task"),
        (Prose, "house rules", "rules"),
        (Prose, "how-manieth", "sequence number"),
    ];

    fn judged(path: &str, text: &str) -> Vec<String> {
        judge(&Tree::of(&[(path, text)]), TABLE)
    }

    #[test]
    fn a_retired_name_is_found_in_code_and_only_as_a_whole() {
        assert_eq!(
            judged("a.rs", "fn f() {}\nstruct Manner;\n"),
            ["a.rs:2: `Manner` is retired: AdmissionOptions"]
        );
        assert!(
            judged(
                "a.rs",
                "struct Manners; // Manner\nconst A: &str = \"Manner\";"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_part_is_found_in_snake_case_and_in_camel_case() {
        for name in ["prey", "prey_of", "next_prey", "PreyList", "MyPrey", "PREY"] {
            assert_eq!(
                judged("a.rs", &format!("let {name} = 1;")).len(),
                1,
                "{name}"
            );
        }
        assert!(judged("a.rs", "let osprey = 1;").is_empty());
    }

    #[test]
    fn prose_is_judged_in_comments_strings_and_documents() {
        assert_eq!(
            judged("a.rs", "/// A Chore.\nfn f() { g(\"chore\") }").len(),
            2
        );
        assert_eq!(
            judged("docs/a.md", "The house rules, and a chore.").len(),
            2
        );
        assert_eq!(judged("a.py", "# the how-manieth try\n").len(), 1);
        assert!(judged("docs/a.md", "Chorelike; house\nrules").is_empty());
    }

    #[test]
    fn predictions_and_high_charges_have_one_word_each() {
        let of = |path: &str, text: &str| judge(&Tree::of(&[(path, text)]), WORDS);
        for name in [
            "what_if",
            "WhatIf",
            "begin_rehearsal",
            "dearest_first",
            "IsDear",
        ] {
            assert_eq!(of("a.rs", &format!("let {name} = 1;")).len(), 1, "{name}");
        }
        for text in ["The what-if tab", "a dear query", "dearer", "the dearest"] {
            assert_eq!(of("docs/a.md", text).len(), 1, "{text}");
        }
        assert!(of("a.rs", "const FORMER: &str = \"/colls/{coll}/what-if\";").is_empty());
    }

    #[test]
    fn words_in_prose_are_written_in_lower_case() {
        for (scope, word, _) in WORDS {
            let is_lower = *word == word.to_lowercase();
            assert!(is_lower || matches!(scope, Name), "{word}");
        }
    }
}
