//! The values of headers: how each form of text is read, and the sentence that refuses another.

use orrery_model::{Error, Result};

/// A header's value, and its name for error messages.
pub(crate) struct Value<'a> {
    pub(crate) name: &'static str,
    pub(crate) text: &'a str,
}

impl Value<'_> {
    /// A part of the value, under the same header.
    pub(crate) fn with<'b>(&self, text: &'b str) -> Value<'b> {
        Value {
            name: self.name,
            text,
        }
    }

    /// A 400 that names the header and the value.
    pub(crate) fn invalid(&self, expected: &str) -> Error {
        Error::bad(format!(
            "The value '{}' specified for the header '{}' is invalid. {expected}",
            self.text, self.name
        ))
    }

    /// A 400 that says that what is asked for is not offered.
    pub(crate) fn refused(&self) -> Error {
        Error::unsupported(format_args!(
            "The value '{}' of the header '{}'",
            self.text, self.name
        ))
    }

    /// Booleans come in every spelling.
    pub(crate) fn boolean(&self) -> Result<bool> {
        match self.text {
            "1" => Ok(true),
            "0" => Ok(false),
            t if t.eq_ignore_ascii_case("true") => Ok(true),
            t if t.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.invalid("It must be true or false.")),
        }
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn number(&self, least: i64, most: i64) -> Result<i64> {
        self.text
            .parse()
            .ok()
            .filter(|n| (least..=most).contains(n))
            .ok_or_else(|| {
                self.invalid(&format!(
                    "It must be a whole number from {least} to {most}."
                ))
            })
    }

    /// One of these words, in any case of letters.
    pub(crate) fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        words
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(self.text))
            .map(|(_, t)| *t)
            .ok_or_else(|| {
                let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                self.invalid(&format!("It must be one of: {}.", words.join(", ")))
            })
    }

    /// The parts of a list separated by commas.
    pub(crate) fn list(&self) -> impl Iterator<Item = &str> {
        self.text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
    }

    /// At most one name of a list.
    pub(crate) fn one_name(&self) -> Result<Option<String>> {
        let mut names = self.list();
        let name = names.next().map(str::to_owned);
        match names.next() {
            None => Ok(name),
            Some(_) => Err(self.invalid("Only one name may be given.")),
        }
    }
}
