//! Rust source as text: which bytes are code, comments and literals, and which words it has.
//!
//! A scanner for the rules of `tidy`, not a parser: it knows comments, strings, characters and
//! lifetimes. Macros are read as the code they look like.
//!
//! Promises: the pieces of a text are in order and cover it; a text that is no Rust gives some
//! answer and no panic.

use std::ops::Range;

/// The kind of a piece of a source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Code without comments and literals.
    Code,
    /// A line comment without its line end, or a block comment.
    Comment,
    /// A string, byte string or character with its quotes.
    Literal,
}

/// Returns the pieces of a source text, in order.
pub(crate) fn pieces(text: &str) -> Vec<(Kind, Range<usize>)> {
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let mut code_start = 0;
    let mut at = 0;
    while at < bytes.len() {
        let Some((kind, end)) = comment_or_literal(text, at) else {
            at += 1;
            continue;
        };
        if code_start < at {
            pieces.push((Kind::Code, code_start..at));
        }
        pieces.push((kind, at..end));
        at = end;
        code_start = end;
    }
    if code_start < bytes.len() {
        pieces.push((Kind::Code, code_start..bytes.len()));
    }
    pieces
}

/// Returns the kind and the end of the comment or literal that begins at this byte, if one does.
fn comment_or_literal(text: &str, at: usize) -> Option<(Kind, usize)> {
    let bytes = text.as_bytes();
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let length = rest.iter().position(|&byte| byte == b'\n');
        return Some((Kind::Comment, at + length.unwrap_or(rest.len())));
    }
    if rest.starts_with(b"/*") {
        return Some((Kind::Comment, at + block_comment_length(rest)));
    }
    if rest[0] == b'"' {
        return Some((Kind::Literal, at + string_length(rest)));
    }
    if rest[0] == b'\'' {
        return Some((Kind::Literal, at + character_length(text, at)?));
    }
    // A raw string begins with a letter, which must not be the end of a longer word.
    let begins_word = at == 0 || !is_word_byte(bytes[at - 1]);
    if begins_word && let Some(length) = raw_string_length(rest) {
        return Some((Kind::Literal, at + length));
    }
    None
}

/// Returns the length of the block comment that begins here; such comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of the character literal that begins here; `None` for a lifetime.
fn character_length(text: &str, at: usize) -> Option<usize> {
    let mut characters = text[at + 1..].char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        // The escaped character may be a quote, so the search for the end begins behind it.
        characters.next()?;
        let (offset, _) = characters.find(|(_, character)| *character == '\'')?;
        return Some(offset + 2);
    }
    let (offset, second) = characters.next()?;
    (second == '\'').then_some(offset + 2)
}

/// Returns the length of the raw string that begins here, if one does: `r"…"`, `br#"…"#`, `cr"…"`.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = usize::from(matches!(rest[0], b'b' | b'c'));
    if rest.get(prefix) != Some(&b'r') {
        return None;
    }
    let after_r = &rest[prefix + 1..];
    let hashes = after_r.iter().take_while(|&&byte| byte == b'#').count();
    if after_r.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let body = prefix + 1 + hashes + 1;
    let found = rest[body..]
        .windows(end.len())
        .position(|window| window == end);
    Some(found.map_or(rest.len(), |offset| body + offset + end.len()))
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the text with comments and literals replaced by spaces; line ends stay, so that lines
/// keep their numbers.
pub(crate) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (kind, range) in pieces(text) {
        let piece = &text[range];
        if kind == Kind::Code {
            code.push_str(piece);
            continue;
        }
        for character in piece.chars() {
            code.push(if character == '\n' { '\n' } else { ' ' });
        }
    }
    code
}

/// Returns the words of a text: runs of letters, digits and underscores, with their byte offsets.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .map(move |word| {
            let start = at;
            // The separator behind the word is one character, which may have several bytes.
            at += word.len();
            at += text[at..].chars().next().map_or(0, char::len_utf8);
            (start, word)
        })
        .filter(|(_, word)| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, &str)> {
        let pieces = pieces(text);
        let joined: String = pieces
            .iter()
            .map(|(_, range)| &text[range.clone()])
            .collect();
        assert_eq!(joined, text);
        pieces
            .into_iter()
            .filter(|(kind, _)| *kind != Kind::Code)
            .map(|(kind, range)| (kind, &text[range]))
            .collect()
    }

    #[test]
    fn comments_are_found_and_block_comments_nest() {
        assert_eq!(
            found("a // b\nc /* d /* e */ f */ g"),
            [
                (Kind::Comment, "// b"),
                (Kind::Comment, "/* d /* e */ f */")
            ]
        );
    }

    #[test]
    fn strings_end_at_their_own_quote() {
        assert_eq!(
            found(r##"x("a\"//", r#"b"c"#, br"d", 'e', '\'', b'f', "ü")"##),
            [
                (Kind::Literal, r#""a\"//""#),
                (Kind::Literal, r##"r#"b"c"#"##),
                (Kind::Literal, r#"br"d""#),
                (Kind::Literal, "'e'"),
                (Kind::Literal, r"'\''"),
                (Kind::Literal, "'f'"),
                (Kind::Literal, "\"ü\""),
            ]
        );
    }

    #[test]
    fn a_lifetime_is_no_literal() {
        assert_eq!(found("fn f<'a>(x: &'a str, r: &'static u8) {}"), []);
    }

    #[test]
    fn a_text_that_ends_early_gives_pieces_all_the_same() {
        for text in [
            "\"a", "/* a", "r#\"a", "'", "'\\", "b", "fn", "fn f(", "fn f() {",
        ] {
            found(text);
        }
    }

    #[test]
    fn words_have_their_offsets() {
        let words: Vec<(usize, &str)> = words("ä-b_c: d").collect();
        assert_eq!(words, [(0, "ä"), (3, "b_c"), (8, "d")]);
    }
}
