//! Words that mark a test as skipped, or a test that waits for the clock.
//!
//! Leaves out: macros of unfinished code, which clippy refuses.
//!
//! The words are put together from halves, so that this file does not contain them.

use super::tree::Tree;

/// A word that may not stand in files of one kind.
struct Word {
    word: &'static str,
    /// End of the paths of the files that are searched.
    ending: &'static str,
    /// True if the word is allowed outside of tests.
    in_tests_only: bool,
    /// The remedy, which ends the complaint.
    remedy: &'static str,
}

const WORDS: &[Word] = &[
    Word {
        word: concat!("#[ig", "nore"),
        ending: ".rs",
        in_tests_only: false,
        remedy: "assert what happens today",
    },
    Word {
        word: concat!("thread::", "sleep"),
        ending: ".rs",
        in_tests_only: true,
        remedy: "wait for the event",
    },
    Word {
        word: concat!("time::", "sleep"),
        ending: ".rs",
        in_tests_only: true,
        remedy: "wait for the event",
    },
    Word {
        word: concat!("time.", "sleep"),
        ending: ".py",
        in_tests_only: false,
        remedy: "wait for the event",
    },
    Word {
        word: concat!("asyncio.", "sleep"),
        ending: ".py",
        in_tests_only: false,
        remedy: "wait for the event",
    },
    Word {
        word: concat!("mark.", "skip"),
        ending: ".py",
        in_tests_only: false,
        remedy: "assert what happens today",
    },
    Word {
        word: concat!("mark.", "xfail"),
        ending: ".py",
        in_tests_only: false,
        remedy: "assert what happens today",
    },
    Word {
        word: concat!("test.", "skip("),
        ending: ".js",
        in_tests_only: false,
        remedy: "assert what happens today",
    },
    Word {
        word: concat!("test.", "only("),
        ending: ".js",
        in_tests_only: false,
        remedy: "all tests of the file must run",
    },
];

/// Returns every place that has one of the words.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for entry in WORDS {
        for (path, text) in tree.ending(entry.ending) {
            let first = match entry.in_tests_only {
                true => first_line_of_tests(path, text),
                false => 0,
            };
            for (place, line) in text.lines().enumerate().skip(first) {
                if line.contains(entry.word) {
                    let number = place + 1;
                    let Word { word, remedy, .. } = entry;
                    found.push(format!("{path}:{number} contains `{word}`: {remedy}"));
                }
            }
        }
    }
    found
}

/// Returns the line, counted from 0, at which the tests of a Rust file begin: the first line of a
/// file of tests, or else the line of the test module.
fn first_line_of_tests(path: &str, text: &str) -> usize {
    let is_file_of_tests =
        path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs");
    if is_file_of_tests {
        return 0;
    }
    text.lines()
        .position(|line| line.contains("#[cfg(test)]"))
        .unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_word_is_named_with_its_line() {
        let text = format!("#[test]\n{}]\nfn a() {{}}\n", concat!("#[ig", "nore"));
        let found = complaints(&Tree::of(&[("core/a/src/lib.rs", text.as_str())]));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("core/a/src/lib.rs:2 contains"),
            "{found:?}"
        );
    }

    #[test]
    fn sleeping_is_forbidden_in_tests_and_only_there() {
        let nap = concat!("std::thread::", "sleep(d);\n");
        assert!(complaints(&Tree::of(&[("core/a/src/lib.rs", nap)])).is_empty());
        assert_eq!(
            complaints(&Tree::of(&[("core/a/tests/slow.rs", nap)])).len(),
            1
        );
        assert_eq!(
            complaints(&Tree::of(&[("core/a/src/b/tests.rs", nap)])).len(),
            1
        );
        let inline = format!("{nap}#[cfg(test)]\nmod tests {{ {nap} }}");
        assert_eq!(
            complaints(&Tree::of(&[("core/a/src/lib.rs", inline.as_str())])).len(),
            1
        );
    }

    #[test]
    fn a_suite_in_another_language_may_not_sleep_either() {
        let text = format!("{}(1)\n", concat!("time.", "sleep"));
        assert_eq!(
            complaints(&Tree::of(&[(
                "conformance/sdk/python/test_a.py",
                text.as_str()
            )]))
            .len(),
            1
        );
    }
}
