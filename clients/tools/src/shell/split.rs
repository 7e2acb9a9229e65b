//! Splits the lines of a script or a terminal into statements.
//!
//! | statement | begins with | ends with |
//! |---|---|---|
//! | query | `SELECT` | `;`, or an empty line |
//! | command | any other word, with or without `.` | its line; an empty line if a bracket is open |
//!
//! A `;` inside of a text in quotation marks or a comment ends nothing. Lines between statements
//! that are empty or begin with `--` or `#` are left out. The end of the input ends a statement.

/// A statement and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The statement without the `;` at its end.
    pub text: String,
    /// Line on which it begins, from 1.
    pub line: usize,
}

impl Statement {
    /// Returns true if the statement is a query for the server.
    pub fn is_query(&self) -> bool {
        is_query(&self.text)
    }
}

/// The place of the scanner in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Plain,
    /// A text that ends with this character.
    Quoted(char),
    /// A comment from `/*` to `*/`.
    Comment,
}

/// The splitter between two lines.
#[derive(Debug)]
pub struct Splitter {
    /// The lines read so far.
    lines: usize,
    /// The open statement; empty between statements.
    open: String,
    /// Line on which the open statement begins.
    begin: usize,
    inside: Inside,
    /// Open brackets of a command.
    depth: usize,
}

impl Default for Splitter {
    fn default() -> Self {
        Self {
            lines: 0,
            open: String::new(),
            begin: 0,
            inside: Inside::Plain,
            depth: 0,
        }
    }
}

impl Splitter {
    /// Adds a line and returns the statements that end on it.
    pub fn push(&mut self, line: &str) -> Vec<Statement> {
        self.lines += 1;
        let mut found = Vec::new();
        if !self.open.is_empty() && line.trim().is_empty() {
            found.extend(self.end());
            return found;
        }
        let mut rest = line;
        loop {
            // Between statements, empty lines and comments are left out.
            if self.open.is_empty() {
                rest = rest.trim_start();
                if rest.is_empty() || rest.starts_with("--") || rest.starts_with('#') {
                    return found;
                }
                self.begin = self.lines;
            }
            let is_query = match self.open.is_empty() {
                true => is_query(rest),
                false => is_query(&self.open),
            };
            let end = match is_query {
                true => self.scan_query(rest),
                false => self.scan_command(rest),
            };
            if !self.open.is_empty() {
                self.open.push('\n');
            }
            let Some(end) = end else {
                self.open.push_str(rest);
                return found;
            };
            self.open.push_str(&rest[..end]);
            found.extend(self.end());
            rest = rest[end..].trim_start_matches(';');
        }
    }

    /// Ends the input and returns the open statement.
    pub fn end(&mut self) -> Option<Statement> {
        self.inside = Inside::Plain;
        self.depth = 0;
        let text = std::mem::take(&mut self.open);
        let text = text.trim().trim_end_matches(';').trim_end();
        (!text.is_empty()).then(|| Statement {
            text: text.to_owned(),
            line: self.begin,
        })
    }

    /// Returns true within a statement.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the place of the `;` that ends the query.
    fn scan_query(&mut self, text: &str) -> Option<usize> {
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match (self.inside, c) {
                (Inside::Plain, ';') => return Some(at),
                (Inside::Plain, '\'' | '"') => self.inside = Inside::Quoted(c),
                (Inside::Plain, '-') if text[at..].starts_with("--") => return None,
                (Inside::Plain, '/') if text[at..].starts_with("/*") => {
                    self.inside = Inside::Comment;
                    chars.next();
                }
                (Inside::Quoted(_), '\\') => {
                    chars.next();
                }
                (Inside::Quoted(end), _) if c == end => self.inside = Inside::Plain,
                (Inside::Comment, '*') if text[at..].starts_with("*/") => {
                    self.inside = Inside::Plain;
                    chars.next();
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the end of the line, unless a bracket is open there.
    fn scan_command(&mut self, text: &str) -> Option<usize> {
        let mut chars = text.chars();
        let mut quote = None;
        while let Some(c) = chars.next() {
            match (quote, c) {
                (Some(_), '\\') => {
                    chars.next();
                }
                (Some(end), _) if c == end => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(c),
                (None, '{' | '[') => self.depth += 1,
                (None, '}' | ']') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        (self.depth == 0).then_some(text.len())
    }
}

/// Returns true if a text begins with the word that begins queries.
pub(super) fn is_query(text: &str) -> bool {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    text[..end.unwrap_or(text.len())].eq_ignore_ascii_case("select")
}

/// Returns true if every statement of a text is complete.
pub fn is_complete(text: &str) -> bool {
    let mut splitter = Splitter::default();
    for line in text.split('\n') {
        splitter.push(line);
    }
    !splitter.is_open()
}

/// Returns the statements of a text.
pub fn statements(text: &str) -> Vec<Statement> {
    let mut splitter = Splitter::default();
    let mut found: Vec<Statement> = Vec::new();
    for line in text.lines() {
        found.extend(splitter.push(line));
    }
    found.extend(splitter.end());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(usize, String)> {
        let found = statements(text).into_iter();
        found.map(|found| (found.line, found.text)).collect()
    }

    #[test]
    fn a_query_ends_with_a_semicolon_or_an_empty_line() {
        let text = "SELECT 1;\n\nselect c.a\nFROM c\n\nSELECT 2; SELECT 3\n";
        let expected = [
            (1, "SELECT 1"),
            (3, "select c.a\nFROM c"),
            (6, "SELECT 2"),
            (6, "SELECT 3"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(split(text), expected);
    }

    #[test]
    fn a_semicolon_in_a_text_or_a_comment_ends_nothing() {
        for text in [
            "SELECT ';\\';' FROM c",
            "SELECT \";\" /* ; */ FROM c",
            "SELECT 1 -- ;\nFROM c",
            "SELECT 1 /* ;\n; */ FROM c",
        ] {
            assert_eq!(split(&format!("{text};")), [(1, text.to_owned())]);
        }
    }

    #[test]
    fn a_command_is_one_line_or_goes_on_in_brackets() {
        let text = "# note\n.use shop;\nput {\"id\":\"}\",\n\"a\":[1,\n2]}\n-- note\nls";
        let expected = [
            (2, ".use shop"),
            (3, "put {\"id\":\"}\",\n\"a\":[1,\n2]}"),
            (7, "ls"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(split(text), expected);
        assert_eq!(split(".get it's\n.put {\n\n.ls").len(), 3);
    }

    #[test]
    fn a_text_is_complete_if_nothing_is_open() {
        assert!(!is_complete("SELECT 1"));
        assert!(is_complete("SELECT 1\n"));
        assert!(is_complete("SELECT 1;"));
        assert!(!is_complete("SELECT ';"));
        assert!(is_complete(".ls") && is_complete(""));
        assert!(!is_complete(".put {"));
    }
}
