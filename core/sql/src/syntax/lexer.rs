//! The lexer: from text to tokens.
//!
//! Spans are byte offsets; errors convert them to characters. The lexer also accepts `.5`, `5.`,
//! `0x1F` and `\'`, about which the descriptions of the language disagree.

use super::ast::Span;
use crate::error::QueryError;
use orrery_model::json::Number;

/// A token and its position.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    /// A name that is not a reserved word.
    Identifier,
    /// A reserved word, in capitals.
    Keyword(&'static str),
    /// `@name`
    Parameter,
    /// A number literal, as a double. [`number`] has the exact value.
    Number(f64),
    /// A string literal, with its escape sequences resolved.
    String(String),
    /// An operator or a punctuation mark.
    Symbol(&'static str),
    /// The client's filter placeholder, see [`super::ast::Kind::FilterPlaceholder`].
    FilterPlaceholder,
    /// The end of the text.
    End,
}

/// Words that cannot be identifiers.
pub(crate) const RESERVED: &[&str] = &[
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

/// Operators and punctuation marks, the longest first, so that `>>>` is not read as `>`.
pub(super) const SYMBOLS: &[&str] = &[
    ">>>", "<<", ">>", "<=", ">=", "<>", "!=", "||", "??", "=", "<", ">", "+", "-", "*", "/", "%",
    "&", "|", "^", "~", "?", ":", ",", ".", "(", ")", "[", "]", "{", "}",
];

const FILTER_PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";

/// Returns true if a name is a reserved word and cannot be an identifier.
pub(super) fn is_reserved(name: &str) -> bool {
    reserved(name).is_some()
}

/// Returns all tokens of a text. The last token is `End`.
///
/// # Errors
/// [`QueryError::Compile`] with SC1010 for an invalid token, SC1011 and SC1012 for an invalid
/// number or string, SC1002 for an unclosed comment.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    let mut tokens = Vec::with_capacity(text.len() / 4 + 1);
    loop {
        lexer.skip_whitespace_and_comments()?;
        let start = lexer.at;
        let kind = lexer.token()?;
        let is_end = kind == TokenKind::End;
        tokens.push(Token {
            kind,
            span: (start, lexer.at),
        });
        if is_end {
            return Ok(tokens);
        }
    }
}

/// Returns the reserved word that a name is, in capitals.
fn reserved(word: &str) -> Option<&'static str> {
    // The longest reserved word, UNDEFINED, has nine letters.
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
    /// Returns the byte at a distance from the current position; 0 behind the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_whitespace_and_comments(&mut self) -> Result<(), QueryError> {
        loop {
            match self.peek(0) {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                // `-- comment` up to the end of the line.
                b'-' if self.peek(1) == b'-' => {
                    let rest = &self.bytes[self.at..];
                    self.at += rest
                        .iter()
                        .position(|&b| b == b'\n' || b == b'\r')
                        .unwrap_or(rest.len());
                }
                // `/* comment */`; such comments do not nest.
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

    /// Reads the token at the current position.
    fn token(&mut self) -> Result<TokenKind, QueryError> {
        let start = self.at;
        let byte = self.peek(0);
        if start == self.bytes.len() {
            return Ok(TokenKind::End);
        }
        // The first bytes decide the kind of the token.
        if byte.is_ascii_alphabetic() || byte == b'_' {
            self.skip_word();
            let word = &self.text[start..self.at];
            return Ok(reserved(word).map_or(TokenKind::Identifier, TokenKind::Keyword));
        }
        if byte == b'@' && (self.peek(1).is_ascii_alphanumeric() || self.peek(1) == b'_') {
            self.at += 1;
            self.skip_word();
            return Ok(TokenKind::Parameter);
        }
        if byte.is_ascii_digit() || (byte == b'.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if byte == b'"' || byte == b'\'' {
            return self.string(byte);
        }
        // The placeholder comes before the symbols, because it begins with `{`.
        let rest = &self.text[start..];
        if rest.starts_with(FILTER_PLACEHOLDER) {
            self.at += FILTER_PLACEHOLDER.len();
            return Ok(TokenKind::FilterPlaceholder);
        }
        if let Some(symbol) = SYMBOLS.iter().find(|s| rest.starts_with(**s)) {
            self.at += symbol.len();
            return Ok(TokenKind::Symbol(symbol));
        }
        self.at += rest.chars().next().map_or(1, char::len_utf8);
        Err(self.invalid_token(start))
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

    /// Reads a decimal or hexadecimal number, behind which no word may follow at once.
    fn number(&mut self) -> Result<TokenKind, QueryError> {
        let start = self.at;
        let value = self.digits();
        let end = self.at;
        self.skip_word();
        if self.at > end || value.is_infinite() {
            return Err(self.invalid(start, "SC1011", "numeric value token"));
        }
        Ok(TokenKind::Number(value))
    }

    /// Reads the digits of a number; too many become an infinity.
    fn digits(&mut self) -> f64 {
        let start = self.at;
        // `0x1F`
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
        // A dot after digits is always a decimal point.
        if self.peek(0) == b'.' {
            self.at += 1;
            self.skip_digits();
        }
        let sign_length = usize::from(matches!(self.peek(1), b'+' | b'-'));
        if (self.peek(0) | 32) == b'e' && self.peek(1 + sign_length).is_ascii_digit() {
            self.at += 1 + sign_length;
            self.skip_digits();
        }
        self.text[start..self.at].parse().unwrap_or(f64::INFINITY)
    }

    /// Reads a string literal with its opening quote at the current position.
    fn string(&mut self, quote: u8) -> Result<TokenKind, QueryError> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            // Copy everything up to the next quote or escape sequence, control characters included.
            // `peek` returns 0 behind the end of the text too.
            let plain = self.at;
            while self.at < self.bytes.len() && self.peek(0) != b'\\' && self.peek(0) != quote {
                self.at += 1;
            }
            value.push_str(&self.text[plain..self.at]);
            if self.at >= self.bytes.len() {
                return Err(self.invalid(start, "SC1012", "string literal token"));
            }
            let byte = self.peek(0);
            self.at += 1;
            if byte == quote {
                return Ok(TokenKind::String(value));
            }
            match self.escape() {
                Some(c) => value.push(c),
                None => {
                    self.skip_string(quote);
                    return Err(self.invalid(start, "SC1012", "string literal token"));
                }
            }
        }
    }

    /// Moves behind the end of a string with an invalid escape sequence.
    fn skip_string(&mut self, quote: u8) {
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            self.at += 1;
            if byte == quote {
                return;
            }
            self.at += usize::from(byte == b'\\');
        }
    }

    /// Reads the part of an escape sequence after the backslash. Returns `None` if it is invalid.
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
            b'u' => self.utf16_escape()?,
            _ => {
                self.at -= 1;
                return None;
            }
        })
    }

    /// Reads the four digits after `\u`, and a second `\u....` if the first is a high surrogate. An
    /// unpaired surrogate becomes the replacement character, as in a conversion of invalid UTF-16.
    fn utf16_escape(&mut self) -> Option<char> {
        let first = self.hex4()?;
        if !(0xD800..0xDC00).contains(&first) {
            // `from_u32` refuses a low surrogate.
            return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if self.peek(0) != b'\\' || self.peek(1) != b'u' {
            return Some(char::REPLACEMENT_CHARACTER);
        }
        let after_first = self.at;
        self.at += 2;
        let second = self.hex4()?;
        if !(0xDC00..0xE000).contains(&second) {
            // The second escape sequence is a character of its own and is read again.
            self.at = after_first;
            return Some(char::REPLACEMENT_CHARACTER);
        }
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        // `from_str_radix` would accept a sign.
        if digits.starts_with('+') {
            return None;
        }
        let value = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(value)
    }

    /// Makes the error SC1010 for the text from `start` to the current position.
    fn invalid_token(&self, start: usize) -> QueryError {
        self.invalid(start, "SC1010", "token")
    }

    /// Makes an error for the text from `start` to the current position, which is no valid `what`.
    fn invalid(&self, start: usize, code: &'static str, what: &str) -> QueryError {
        let mut end = self.at.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        let token = &self.text[start..end];
        let message = format!("Syntax error, invalid {what} '{token}'.");
        QueryError::at(code, message, character_range(self.text, (start, end)))
    }
}

/// Returns the value of a number literal. Integers are exact; `double` is the value of any other
/// number.
pub(super) fn number(text: &str, double: f64) -> Number {
    let digits = text.trim_start_matches('0');
    let is_integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if is_integer && let Some(exact) = Number::from_text(digits) {
        return exact;
    }
    Number::from(double)
}

/// Makes the error SC1002 at the end of the text.
pub(super) fn end_of_file(text: &str) -> QueryError {
    let end = text.chars().count();
    QueryError::at(
        "SC1002",
        "Syntax error, unexpected end-of-file.",
        (end, end),
    )
}

/// Converts a span of bytes to the range of characters that errors contain.
pub(crate) fn character_range(text: &str, span: Span) -> Span {
    let characters_before =
        |offset: usize| text.get(..offset).map_or(offset, |t| t.chars().count());
    (characters_before(span.0), characters_before(span.1))
}
