//! Excerpts: the beginning of a text in lists.
//!
//! V3 stores excerpts in its short copies of posts; V1 and V2 make them when a list is shown. A
//! query pays for each KB that it loads, so a longer excerpt makes Q3 and Q6 of V3 more expensive:
//! with the article's 35 characters they cost 6.61 and 16.63 RU, with 120 characters about 7.0 and
//! 18.1 RU. 120 characters, which fill two lines on a phone, are the most for which Q3 stays
//! within 10 % of the article's 6.46 RU; the tests of `pricing` check both.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Characters of the longest excerpt, with the sign `…` at its end.
pub const EXCERPT_CHARS_MAX: usize = 120;
/// Bytes of a text that are read for its excerpt: a long text costs no more than a short one.
const READ_BYTES_MAX: usize = 4 * 1024;

/// Returns the beginning of a Markdown text as plain text: without signs of Markdown, in one line,
/// with at most [`EXCERPT_CHARS_MAX`] characters. A longer text is cut between two words and ends
/// with `…`.
pub fn excerpt(markdown: &str) -> String {
    let beginning = prefix(markdown, READ_BYTES_MAX);
    let text = plain(beginning);
    let is_whole = beginning.len() == markdown.len();
    if is_whole && text.chars().count() <= EXCERPT_CHARS_MAX {
        return text;
    }
    let mut short = cut(&text).to_owned();
    if !short.is_empty() {
        short.push('…');
    }
    short
}

/// Returns the plain text of a Markdown text, with one space in place of every gap.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Text(words)
            | Event::Code(words)
            | Event::Html(words)
            | Event::InlineHtml(words) => text.push_str(&words),
            Event::SoftBreak | Event::HardBreak | Event::Rule => text.push(' '),
            // Elements inside of a line do not separate words.
            Event::Start(Tag::Emphasis | Tag::Strong | Tag::Strikethrough)
            | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough)
            | Event::Start(Tag::Link { .. } | Tag::Image { .. })
            | Event::End(TagEnd::Link | TagEnd::Image) => {}
            Event::Start(_) | Event::End(_) => text.push(' '),
            // Extensions that are not enabled.
            _ => {}
        }
    }
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Returns the beginning of `text` with room for one more character. It ends at a word, unless the
/// last word is very long, as all words are in languages without spaces.
fn cut(text: &str) -> &str {
    let mut ends = text.char_indices().skip(EXCERPT_CHARS_MAX - 1);
    let Some((end, _)) = ends.next() else {
        return text;
    };
    let beginning = &text[..end];
    let is_at_word = text[end..].starts_with(' ');
    let at_word = match beginning.rfind(' ') {
        Some(space) if !is_at_word && space >= end / 2 => &beginning[..space],
        _ => whole_signs(text, end),
    };
    let is_mark = |letter: char| letter == ' ' || ",;:.–-".contains(letter);
    at_word.trim_end_matches(is_mark)
}

/// Returns the beginning of `text` up to `end` without a sign that continues after `end`, such as
/// an emoji of several characters.
fn whole_signs(text: &str, end: usize) -> &str {
    let mut end = end;
    while let Some(next) = text[end..].chars().next()
        && (is_continuation(next) || text[..end].ends_with('\u{200d}'))
        && let Some(last) = text[..end].chars().next_back()
    {
        end -= last.len_utf8();
    }
    &text[..end]
}

/// Returns true for a character that is shown as a part of the one before.
fn is_continuation(letter: char) -> bool {
    matches!(
        letter,
        '\u{300}'..='\u{36f}'
            | '\u{64b}'..='\u{65f}'
            | '\u{200d}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{1f3fb}'..='\u{1f3ff}'
    )
}

/// Returns the first bytes of a text, up to the end of a character.
fn prefix(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_markdown_are_left_out_and_paragraphs_become_one_line() {
        let text =
            "# Bread\n\nSalt **matters**: *two* spoons, `one` pot.\n\n- flour\n- [water](/w)\n";
        assert_eq!(
            excerpt(text),
            "Bread Salt matters: two spoons, one pot. flour water"
        );
        assert_eq!(
            excerpt("> quoted\nwords\n\n---\n\n1. first"),
            "quoted words first"
        );
        assert_eq!(excerpt("<b>shown</b> as text"), "<b>shown</b> as text");
        assert_eq!(excerpt(""), "");
        assert_eq!(excerpt("***"), "");
    }

    #[test]
    fn a_long_text_is_cut_between_two_words() {
        let short = excerpt(&"seven words, and then seven more words; ".repeat(9));
        assert!(short.ends_with('…'), "{short}");
        assert!(short.chars().count() <= EXCERPT_CHARS_MAX);
        let last = short.trim_end_matches('…').rsplit(' ').next();
        assert!(
            ["seven", "words", "and", "then", "more"].contains(&last.unwrap_or_default()),
            "{short}"
        );
        // A text of just the greatest length is whole.
        let whole = "x".repeat(EXCERPT_CHARS_MAX);
        assert_eq!(excerpt(&whole), whole);
    }

    #[test]
    fn texts_without_spaces_are_cut_between_signs() {
        let chinese = excerpt(&"面包".repeat(500));
        assert_eq!(chinese.chars().count(), EXCERPT_CHARS_MAX);
        let family = "👩\u{200d}👧\u{200d}👦";
        let emoji = excerpt(&family.repeat(60));
        let signs = emoji.trim_end_matches('…');
        assert_eq!(signs.replace(family, ""), "", "{emoji}");
        let arabic = excerpt(&"الخبز في الصباح ".repeat(40));
        assert!(arabic.ends_with('…'));
    }

    #[test]
    fn the_excerpt_of_an_excerpt_of_words_is_the_same() {
        let long = "Some **words** about bread, and a few more. ".repeat(20);
        let short = excerpt(&long);
        assert_eq!(excerpt(&short), short);
    }

    #[test]
    fn a_text_of_a_megabyte_is_read_at_its_beginning_only() {
        let text = format!("A beginning. {}", "ä".repeat(1_000_000));
        assert_eq!(excerpt(&text).chars().count(), EXCERPT_CHARS_MAX);
    }
}
