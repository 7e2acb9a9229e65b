//! Text to tokens.
//!
//! Spans are byte offsets; they become characters only when an error is told. Accepted beyond the recorded grammars,
//! because sources disagree and it is harmless: `.5`, `5.`, `0x1F`, `\'`.

use super::ast::Span;
use crate::error::QueryError;
use orrery_model::json::Number;

/// A token and its place.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Identifier,
    /// A reserved word, in capitals.
    Word(&'static str),
    /// With its `@`.
    Parameter,
    Number(f64),
    /// Its value, escapes resolved.
    String(String),
    Sign(&'static str),
    /// The client's filter placeholder, see [`super::ast::Kind::FilterPlaceholder`].
    FilterPlaceholder,
    End,
}

/// Words that are never identifiers.
pub(super) const RESERVED: &[&str] = &[
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CONVERT",
    "CROSS",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXISTS",
    "FALSE",
    "FOR",
    "FROM",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "RIGHT",
    "SELECT",
    "SET",
    "THEN",
    "TOP",
    "TRUE",
    "UDF",
    "UNDEFINED",
    "UPDATE",
    "VALUE",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Longest first, so that `>>>` is not read as `>`.
pub(super) const SIGNS: &[&str] = &[
    ">>>", "<<", ">>", "<=", ">=", "<>", "!=", "||", "??", "=", "<", ">", "+", "-", "*", "/", "%",
    "&", "|", "^", "~", "?", ":", ",", ".", "(", ")", "[", "]", "{", "}",
];

const FILTER_PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";

/// Whether a name could not stand as an identifier because it is a word of the language.
pub(super) fn is_reserved(name: &str) -> bool {
    reserved(name).is_some()
}

/// All tokens, the last one `End`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    let mut tokens = Vec::with_capacity(text.len() / 4 + 1);
    loop {
        lexer.skip_blank()?;
        let start = lexer.at;
        let kind = lexer.token()?;
        let end = kind == TokenKind::End;
        tokens.push(Token {
            kind,
            span: (start, lexer.at),
        });
        if end {
            return Ok(tokens);
        }
    }
}

fn reserved(word: &str) -> Option<&'static str> {
    // The longest reserved word has nine letters.
    if word.len() > 9 {
        return None;
    }
    RESERVED
        .iter()
        .find(|r| r.eq_ignore_ascii_case(word))
        .copied()
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blank(&mut self) -> Result<(), QueryError> {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'-' if self.peek(1) == b'-' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest
                        .iter()
                        .position(|&b| b == b'\n' || b == b'\r')
                        .unwrap_or(rest.len());
                }
                b'/' if self.peek(1) == b'*' => {
                    let close = self.text[self.at + 2..].find("*/");
                    let Some(length) = close else {
                        return Err(end_of_file(self.text));
                    };
                    self.at += length + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    fn token(&mut self) -> Result<TokenKind, QueryError> {
        let start = self.at;
        let byte = self.peek(0);
        if start == self.bytes.len() {
            return Ok(TokenKind::End);
        }
        if byte.is_ascii_alphabetic() || byte == b'_' {
            self.skip_word();
            let word = &self.text[start..self.at];
            return Ok(reserved(word).map_or(TokenKind::Identifier, TokenKind::Word));
        }
        if byte == b'@' && (self.peek(1).is_ascii_alphanumeric() || self.peek(1) == b'_') {
            self.at += 1;
            self.skip_word();
            return Ok(TokenKind::Parameter);
        }
        if byte.is_ascii_digit() || (byte == b'.' && self.peek(1).is_ascii_digit()) {
            return Ok(TokenKind::Number(self.number()));
        }
        if byte == b'"' || byte == b'\'' {
            return self.string(byte);
        }
        let rest = &self.text[start..];
        if rest.starts_with(FILTER_PLACEHOLDER) {
            self.at += FILTER_PLACEHOLDER.len();
            return Ok(TokenKind::FilterPlaceholder);
        }
        if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
            self.at += sign.len();
            return Ok(TokenKind::Sign(sign));
        }
        self.at += rest.chars().next().map_or(1, char::len_utf8);
        Err(self.invalid(start))
    }

    fn skip_word(&mut self) {
        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
            self.at += 1;
        }
    }

    fn skip_digits(&mut self) {
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    fn number(&mut self) -> f64 {
        let start = self.at;
        if self.peek(0) == b'0' && (self.peek(1) | 32) == b'x' && self.peek(2).is_ascii_hexdigit() {
            self.at += 2;
            let mut value = 0.0;
            while let Some(digit) = char::from(self.peek(0)).to_digit(16) {
                value = value * 16.0 + f64::from(digit);
                self.at += 1;
            }
            return value;
        }
        self.skip_digits();
        // In `1.a` the dot would belong to a path, but a path on a number is never anything but undefined.
        if self.peek(0) == b'.' {
            self.at += 1;
            self.skip_digits();
        }
        let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
        if (self.peek(0) | 32) == b'e' && self.peek(1 + sign).is_ascii_digit() {
            self.at += 1 + sign;
            self.skip_digits();
        }
        // Too large a literal is an infinity, as in the services' own arithmetic.
        self.text[start..self.at].parse().unwrap_or(f64::INFINITY)
    }

    fn string(&mut self, quote: u8) -> Result<TokenKind, QueryError> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            let plain = self.at;
            while !matches!(self.peek(0), b'\\' | 0..=0x1F) && self.peek(0) != quote {
                self.at += 1;
            }
            value.push_str(&self.text[plain..self.at]);
            if self.at >= self.bytes.len() {
                return Err(end_of_file(self.text));
            }
            let byte = self.peek(0);
            self.at += 1;
            if byte == quote {
                return Ok(TokenKind::String(value));
            }
            if byte != b'\\' {
                return Err(self.invalid(start));
            }
            match self.escape() {
                Some(c) => value.push(c),
                None if self.at >= self.bytes.len() => return Err(end_of_file(self.text)),
                None => return Err(self.invalid(start)),
            }
        }
    }

    /// What stands after a backslash.
    fn escape(&mut self) -> Option<char> {
        let byte = self.peek(0);
        self.at += 1;
        Some(match byte {
            b'"' | b'\'' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex4()?;
                if !(0xD800..0xDC00).contains(&first) {
                    // A lone low surrogate is no character; it is replaced, as when reading broken UTF-16.
                    return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                if self.peek(0) != b'\\' || self.peek(1) != b'u' {
                    return Some(char::REPLACEMENT_CHARACTER);
                }
                let next = self.at;
                self.at += 2;
                let second = self.hex4()?;
                if !(0xDC00..0xE000).contains(&second) {
                    // A lone high surrogate; what follows is a character of its own.
                    self.at = next;
                    return Some(char::REPLACEMENT_CHARACTER);
                }
                char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))?
            }
            _ => {
                self.at -= 1;
                return None;
            }
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let value = u32::from_str_radix(digits, 16)
            .ok()
            .filter(|_| !digits.starts_with('+'))?;
        self.at += 4;
        Some(value)
    }

    fn invalid(&self, start: usize) -> QueryError {
        let mut end = self.at.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        let token = &self.text[start..end];
        let message = format!("Syntax error, invalid token '{token}'.");
        QueryError::at("SC1010", message, characters(self.text, (start, end)))
    }
}

/// The value of a number literal, whole numbers kept exactly.
pub(super) fn number(text: &str, double: f64) -> Number {
    let digits = text.trim_start_matches('0');
    let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let exact = if whole {
        Number::from_text(digits)
    } else {
        None
    };
    exact.unwrap_or_else(|| Number::from(double))
}

/// SC1002 at the end of the text.
pub(super) fn end_of_file(text: &str) -> QueryError {
    let end = text.chars().count();
    QueryError::at(
        "SC1002",
        "Syntax error, unexpected end-of-file.",
        (end, end),
    )
}

/// A span of bytes as a span of characters, as errors tell it.
pub(crate) fn characters(text: &str, span: Span) -> Span {
    let count = |to: usize| text.get(..to).map_or(to, |t| t.chars().count());
    (count(span.0), count(span.1))
}
