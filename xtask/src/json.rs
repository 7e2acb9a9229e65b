//! A reader of JSON for the output of cargo.
//!
//! Promises: a text that is no JSON is refused with the place of its fault.
//! Leaves out: the values of numbers, and writing.

use std::str::Chars;

/// A value. An object keeps the order of its members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Number,
    Boolean(bool),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Returns the member of this name; `Null` if there is none.
    pub(crate) fn get(&self, name: &str) -> &Value {
        if let Value::Object(members) = self
            && let Some((_, value)) = members.iter().find(|(known, _)| known == name)
        {
            return value;
        }
        &Value::Null
    }

    /// Returns the text; `None` for a value of another kind.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the values of a list; none for a value of another kind.
    pub(crate) fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns true for the value `true` alone.
    pub(crate) fn is_true(&self) -> bool {
        *self == Value::Boolean(true)
    }
}

/// Returns the value of a text.
///
/// # Errors
/// The expected piece, and the text that begins with the fault.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { rest: text.chars() };
    let value = reader.value()?;
    reader.skip_space();
    match reader.rest.as_str() {
        "" => Ok(value),
        _ => Err(reader.fault("the end")),
    }
}

struct Reader<'t> {
    rest: Chars<'t>,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Value, String> {
        self.skip_space();
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.list(),
            Some('"') => Ok(Value::Text(self.string()?)),
            Some('t') => self.word("true", Value::Boolean(true)),
            Some('f') => self.word("false", Value::Boolean(false)),
            Some('n') => self.word("null", Value::Null),
            Some('-' | '0'..='9') => {
                while self.peek().is_some_and(is_of_number) {
                    self.rest.next();
                }
                Ok(Value::Number)
            }
            _ => Err(self.fault("a value")),
        }
    }

    fn object(&mut self) -> Result<Value, String> {
        let mut members = Vec::new();
        self.expect('{')?;
        while !self.ends_with('}', members.is_empty())? {
            let name = self.string()?;
            self.skip_space();
            self.expect(':')?;
            members.push((name, self.value()?));
        }
        Ok(Value::Object(members))
    }

    fn list(&mut self) -> Result<Value, String> {
        let mut items = Vec::new();
        self.expect('[')?;
        while !self.ends_with(']', items.is_empty())? {
            items.push(self.value()?);
        }
        Ok(Value::List(items))
    }

    /// Reads the end of a list or object, or else the comma before a further element.
    fn ends_with(&mut self, end: char, is_empty: bool) -> Result<bool, String> {
        self.skip_space();
        if self.peek() == Some(end) {
            self.rest.next();
            return Ok(true);
        }
        if !is_empty {
            self.expect(',')?;
            self.skip_space();
        }
        Ok(false)
    }

    fn string(&mut self) -> Result<String, String> {
        let mut text = String::new();
        self.expect('"')?;
        loop {
            match self.rest.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(character) => text.push(character),
                None => return Err(self.fault("the end of a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        match self.rest.next() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some('u') => self.code_point(),
            Some(character @ ('"' | '\\' | '/')) => Ok(character),
            _ => Err(self.fault("an escape")),
        }
    }

    /// Reads four hexadecimal digits; a half of a pair becomes the replacement character.
    fn code_point(&mut self) -> Result<char, String> {
        let mut number = 0;
        for _ in 0..4 {
            let digit = self.rest.next().and_then(|digit| digit.to_digit(16));
            number = number * 16 + digit.ok_or_else(|| self.fault("a hexadecimal digit"))?;
        }
        Ok(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        for character in word.chars() {
            self.expect(character)?;
        }
        Ok(value)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.peek() != Some(wanted) {
            return Err(self.fault(&format!("`{wanted}`")));
        }
        self.rest.next();
        Ok(())
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.rest.next();
        }
    }

    fn fault(&self, expected: &str) -> String {
        let rest: String = self.rest.clone().take(40).collect();
        format!("no JSON: {expected} is missing before `{rest}`")
    }
}

fn is_of_number(character: char) -> bool {
    character.is_ascii_digit() || "+-.eE".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_items_and_texts_are_found_by_name() {
        let text = r#" {"a": [{"b": "x\n\u00e4\"/"}, -1.5e3, null], "c": true, "d": {}} "#;
        let value = parse(text).unwrap();
        let items = value.get("a").items();
        assert_eq!(items[0].get("b").text(), Some("x\nä\"/"));
        assert_eq!(items[1..], [Value::Number, Value::Null]);
        assert!(value.get("c").is_true() && !value.get("d").is_true());
        assert_eq!(value.get("d").get("e"), &Value::Null);
    }

    #[test]
    fn a_text_that_is_no_json_is_refused_with_its_place() {
        for (text, fault) in [
            ("{\"a\" 1}", "`:` is missing before `1}`"),
            ("[1 2]", "`,` is missing before `2]`"),
            ("[1] 2", "the end is missing before `2`"),
            ("\"a", "the end of a string is missing before ``"),
            ("", "a value is missing before ``"),
        ] {
            assert_eq!(parse(text), Err(format!("no JSON: {fault}")));
        }
    }
}
