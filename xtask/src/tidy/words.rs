//! Words that say that something is unfinished, skipped or waited for by the clock.
//!
//! The words are put together from halves, so that this file does not accuse itself.

use super::Tree;

/// A word, in which files it is forbidden, whether only in tests, and why.
struct Word {
    word: &'static str,
    ending: &'static str,
    in_tests_only: bool,
    why: &'static str,
}

const WORDS: &[Word] = &[
    Word {
        word: concat!("to", "do!("),
        ending: ".rs",
        in_tests_only: false,
        why: "finish it or refuse clearly",
    },
    Word {
        word: concat!("unimple", "mented!("),
        ending: ".rs",
        in_tests_only: false,
        why: "finish it or refuse clearly",
    },
    Word {
        word: concat!("#[ig", "nore"),
        ending: ".rs",
        in_tests_only: false,
        why: "assert what happens today",
    },
    Word {
        word: concat!("thread::", "sleep"),
        ending: ".rs",
        in_tests_only: true,
        why: "wait for the event",
    },
    Word {
        word: concat!("time::", "sleep"),
        ending: ".rs",
        in_tests_only: true,
        why: "wait for the event",
    },
    Word {
        word: concat!("time.", "sleep"),
        ending: ".py",
        in_tests_only: false,
        why: "wait for the event",
    },
    Word {
        word: concat!("asyncio.", "sleep"),
        ending: ".py",
        in_tests_only: false,
        why: "wait for the event",
    },
    Word {
        word: concat!("mark.", "skip"),
        ending: ".py",
        in_tests_only: false,
        why: "assert what happens today",
    },
    Word {
        word: concat!("mark.", "xfail"),
        ending: ".py",
        in_tests_only: false,
        why: "assert what happens today",
    },
    Word {
        word: concat!("test.", "skip("),
        ending: ".js",
        in_tests_only: false,
        why: "assert what happens today",
    },
    Word {
        word: concat!("test.", "only("),
        ending: ".js",
        in_tests_only: false,
        why: "the others count too",
    },
];

pub fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for Word {
        word,
        ending,
        in_tests_only,
        why,
    } in WORDS
    {
        for (path, text) in tree.ending(ending) {
            let tests_begin = if *in_tests_only {
                first_line_of_tests(path, text)
            } else {
                0
            };
            for (place, line) in text.lines().enumerate().skip(tests_begin) {
                if line.contains(word) {
                    found.push(format!("{path}:{} says `{word}`: {why}", place + 1));
                }
            }
        }
    }
    found
}

/// Where the tests of a Rust file begin, counted from 0: a file of tests at its start, another at its test module.
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
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn a_forbidden_word_is_named_with_its_line() {
        let text = format!("fn a() {{\n    {})\n}}\n", concat!("to", "do!("));
        let found = complaints(&tree(&[("crates/a/src/lib.rs", text.as_str())]));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("crates/a/src/lib.rs:2 says"),
            "{found:?}"
        );
    }

    #[test]
    fn sleeping_is_forbidden_in_tests_and_only_there() {
        let nap = concat!("std::thread::", "sleep(d);\n");
        assert!(complaints(&tree(&[("crates/a/src/lib.rs", nap)])).is_empty());
        assert_eq!(
            complaints(&tree(&[("crates/a/tests/slow.rs", nap)])).len(),
            1
        );
        assert_eq!(
            complaints(&tree(&[("crates/a/src/b/tests.rs", nap)])).len(),
            1
        );
        let inline = format!("{nap}#[cfg(test)]\nmod tests {{ {nap} }}");
        assert_eq!(
            complaints(&tree(&[("crates/a/src/lib.rs", inline.as_str())])).len(),
            1
        );
    }

    #[test]
    fn a_suite_in_another_language_may_not_sleep_either() {
        let text = format!("{}(1)\n", concat!("time.", "sleep"));
        assert_eq!(
            complaints(&tree(&[("conformance/python/test_a.py", text.as_str())])).len(),
            1
        );
    }
}
