//! The values of headers: the parser of each form, and the message that refuses another text.

use orrery_model::{Error, Result};

/// The value of a header, and the name of the header for error messages.
pub(crate) struct Value<'a> {
    pub(crate) name: &'static str,
    pub(crate) text: &'a str,
}

impl Value<'_> {
    /// Returns a part of the value under the same name.
    pub(crate) fn with<'b>(&self, text: &'b str) -> Value<'b> {
        Value {
            name: self.name,
            text,
        }
    }

    /// Returns a 400 that names the header and the value.
    pub(crate) fn invalid(&self, expected: &str) -> Error {
        Error::bad(format!(
            "The value '{}' specified for the header '{}' is invalid. {expected}",
            self.text, self.name
        ))
    }

    /// Returns a 400 for a value that asks for something that is not offered.
    pub(crate) fn refused(&self) -> Error {
        Error::unsupported(format_args!(
            "The value '{}' of the header '{}'",
            self.text, self.name
        ))
    }

    /// Parses a boolean. Clients write it as a number or as a word in any case.
    pub(crate) fn boolean(&self) -> Result<bool> {
        match self.text {
            "1" => Ok(true),
            "0" => Ok(false),
            t if t.eq_ignore_ascii_case("true") => Ok(true),
            t if t.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.invalid("It must be true or false.")),
        }
    }

    /// Parses a whole number from `min` to `max`.
    pub(crate) fn number(&self, min: i64, max: i64) -> Result<i64> {
        match self.text.parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(self.invalid(&format!("It must be a whole number from {min} to {max}."))),
        }
    }

    /// Parses one of several words, which are compared without regard to case.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        for (word, value) in words {
            if word.eq_ignore_ascii_case(self.text) {
                return Ok(*value);
            }
        }
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Err(self.invalid(&format!("It must be one of: {}.", words.join(", "))))
    }

    /// Returns the parts of a list that is separated by commas.
    pub(crate) fn list(&self) -> impl Iterator<Item = &str> {
        self.text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    }

    /// Parses a list of at most one name.
    pub(crate) fn one_name(&self) -> Result<Option<String>> {
        let mut names = self.list();
        let name = names.next().map(str::to_owned);
        match names.next() {
            None => Ok(name),
            Some(_) => Err(self.invalid("Only one name may be given.")),
        }
    }
}
