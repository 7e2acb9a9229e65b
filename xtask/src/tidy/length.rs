//! A ratchet on the length of Rust files: over the limit only what is on the list, and the list only shrinks.
//!
//! `xtask/tidy-long-files.txt` holds `path length` lines. A listed file may not grow; when it has shrunk, its entry must
//! be lowered to the new length, and removed once the file is within the limit.

use super::Tree;

const LIST: &str = "xtask/tidy-long-files.txt";
const LINES_MAX: usize = 900;

pub fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let mut listed = Vec::new();
    for line in tree
        .text(LIST)
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line
            .split_once(' ')
            .and_then(|(path, length)| Some((path, length.trim().parse::<usize>().ok()?)))
        {
            Some(entry) => listed.push(entry),
            None => found.push(format!("{LIST}: `{line}` is not `path length`")),
        }
    }
    for (path, allowed) in &listed {
        let Some(text) = tree.text(path) else {
            found.push(format!(
                "{LIST}: {path} is not there any more, remove its entry"
            ));
            continue;
        };
        let lines = text.lines().count();
        if lines > *allowed {
            found.push(format!("{path} has grown from {allowed} to {lines} lines: look for the second subject in it"));
        } else if lines <= LINES_MAX {
            found.push(format!(
                "{LIST}: {path} has {lines} lines and needs no entry any more"
            ));
        } else if lines < *allowed {
            found.push(format!(
                "{LIST}: {path} has shrunk to {lines} lines, lower its entry"
            ));
        }
    }
    for (path, text) in tree
        .ending(".rs")
        .filter(|(path, _)| !listed.iter().any(|(entry, _)| entry == path))
    {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            found.push(format!(
                "{path} has {lines} lines, over {LINES_MAX}: look for the second subject in it"
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    fn judged(list: &str, lines: usize) -> Vec<String> {
        let text = "x\n".repeat(lines);
        complaints(&tree(&[(LIST, list), ("a.rs", text.as_str())]))
    }

    #[test]
    fn a_file_within_the_limit_passes_and_one_line_more_does_not() {
        assert!(judged("", LINES_MAX).is_empty());
        assert_eq!(judged("", LINES_MAX + 1).len(), 1);
    }

    #[test]
    fn a_listed_file_may_stay_but_not_grow() {
        assert!(judged("a.rs 1000", 1000).is_empty());
        assert!(judged("a.rs 1000", 1001)[0].contains("has grown from 1000 to 1001"));
    }

    #[test]
    fn an_entry_follows_its_file_down_and_goes_with_it() {
        assert!(judged("a.rs 1000", 950)[0].contains("lower its entry"));
        assert!(judged("a.rs 1000", 900)[0].contains("needs no entry"));
        assert!(judged("b.rs 1000", 10)[0].contains("not there any more"));
    }

    #[test]
    fn an_entry_that_is_none_is_a_complaint() {
        assert!(judged("# a comment\na.rs many", 10)[0].contains("is not `path length`"));
    }
}
