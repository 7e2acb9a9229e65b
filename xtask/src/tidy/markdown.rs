//! Markdown as text: the pieces in backticks and the targets of links, with their lines.
//!
//! Leaves out: fenced blocks, whose content is a sample.

/// A line of a Markdown text outside of fenced blocks, with its number from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(place, line)| {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            return None;
        }
        (!is_fenced).then_some((place + 1, line))
    })
}

/// Returns the pieces of a line that stand between single backticks.
pub(super) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the targets of the links of a line: `[text](target)`.
pub(super) fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_block_has_no_lines() {
        let text = "a\n```sh\nb\n```\nc\n";
        assert_eq!(lines(text).collect::<Vec<_>>(), [(1, "a"), (5, "c")]);
    }

    #[test]
    fn quoted_pieces_and_links_are_found() {
        let line = "See `a::b` in [the `c` page](docs/c.md#d), or [e](https://e.org).";
        assert_eq!(quoted(line).collect::<Vec<_>>(), ["a::b", "c"]);
        assert_eq!(
            link_targets(line).collect::<Vec<_>>(),
            ["docs/c.md#d", "https://e.org"]
        );
    }
}
