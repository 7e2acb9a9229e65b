//! A configuration file: its keys with their values and lines.
//!
//! Promises: a file with a fault is refused as a whole; each fault is told with its line, and what
//! to write instead if that is known.

use super::{KeyKind, keys};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use orrery_client::files::{OPTION_FILE_BYTES_MAX, read_bounded};
use orrery_server::Failure;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration file whose keys and values are valid one by one.
#[derive(Debug)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) entries: Vec<Entry>,
}

/// A key of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Long name of the option.
    pub(super) key: String,
    /// Line of the key, from 1 on.
    pub(super) line: usize,
    pub(super) value: Value,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A flag.
    Flag(bool),
    /// The texts of the values: one, or those of an array.
    Texts(Vec<String>),
}

/// A fault of a file.
#[derive(Debug)]
struct Fault {
    line: usize,
    text: String,
}

impl SettingsFile {
    /// Reads a file and checks each of its keys.
    ///
    /// # Errors
    /// [`Failure::Usage`] with all faults of the file.
    pub(super) fn read(path: &Path, start: &Command) -> Result<Self, Failure> {
        let cannot_read = |cause: String| {
            Failure::Usage(format!(
                "cannot read the configuration file {}: {cause}; name an existing file with \
                 --config or ORRERY_CONFIG",
                path.display()
            ))
        };
        let bytes = read_bounded(path, OPTION_FILE_BYTES_MAX)
            .map_err(|error| cannot_read(error.to_string()))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| cannot_read("it is not UTF-8".to_owned()))?;
        match entries(&text, start) {
            Ok(entries) => Ok(SettingsFile {
                path: path.to_owned(),
                entries,
            }),
            Err(faults) => Err(unusable(path, &faults)),
        }
    }
}

/// Returns the failure that lists the faults of a file.
fn unusable(path: &Path, faults: &[Fault]) -> Failure {
    let mut message = format!("the configuration file {} cannot be used:", path.display());
    for fault in faults {
        // Writing to a string cannot fail.
        let _ = write!(message, "\n  line {}: {}", fault.line, fault.text);
    }
    message.push_str("\n'orrery config show' lists all keys with their values");
    Failure::Usage(message)
}

/// Returns the failure of a file with one fault.
pub(super) fn unusable_line(path: &Path, line: usize, text: String) -> Failure {
    unusable(path, &[Fault { line, text }])
}

/// Returns the keys of a file, in the order of their lines.
fn entries(text: &str, start: &Command) -> Result<Vec<Entry>, Vec<Fault>> {
    let line_of = |offset: usize| 1 + text.bytes().take(offset).filter(|b| *b == b'\n').count();
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        let text = format!("this is not TOML: {}", error.message());
        vec![Fault { line, text }]
    })?;

    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for (key, value) in table.into_inner() {
        let line = line_of(key.span().start);
        let key = key.into_inner().into_owned();
        match checked(&key, &value, start) {
            Ok(value) => entries.push(Entry { key, line, value }),
            Err(text) => faults.push(Fault { line, text }),
        }
    }
    entries.sort_by_key(|entry| entry.line);
    faults.sort_by_key(|fault| fault.line);
    match faults.is_empty() {
        true => Ok(entries),
        false => Err(faults),
    }
}

/// Returns the value of a key, or the fault of either.
fn checked(key: &str, value: &Spanned<DeValue<'_>>, start: &Command) -> Result<Value, String> {
    let Some((_, option)) = keys(start).find(|(known, _)| *known == key) else {
        return Err(unknown(key, start));
    };
    // An option that hides its variable takes a secret.
    if option.is_hide_env_values_set() {
        return Err(format!(
            "'{key}' is a secret, which does not stand in this file: name a file that holds it, \
             or set its variable in the environment"
        ));
    }
    let value = value_of(key, option, value.get_ref())?;
    for option in options(key, &value) {
        if let Some(text) = refused_value(key, option, start) {
            return Err(text);
        }
    }
    Ok(value)
}

/// Returns the sentence about a key that is no option.
fn unknown(key: &str, start: &Command) -> String {
    match suggestion(key, start) {
        Some(known) => format!("there is no setting '{key}'; did you mean '{known}'?"),
        None => format!("there is no setting '{key}'"),
    }
}

/// Returns the key that was meant: the option of a variable, or the option that clap suggests.
fn suggestion(key: &str, start: &Command) -> Option<String> {
    let of_variable = keys(start).find(|(_, option)| {
        let variable = option.get_env().and_then(|name| name.to_str());
        variable.is_some_and(|name| name.eq_ignore_ascii_case(key))
    });
    if let Some((known, _)) = of_variable {
        return Some(known.to_owned());
    }
    let key = key.replace('_', "-").to_ascii_lowercase();
    if let Some((known, _)) = keys(start).find(|(known, _)| *known == key) {
        return Some(known.to_owned());
    }
    let error = start
        .clone()
        .try_get_matches_from(["start", &format!("--{key}")]);
    let error = error.err()?;
    match error.get(ContextKind::SuggestedArg)? {
        ContextValue::String(option) => {
            let known = option.trim_start_matches('-').split(' ').next()?;
            let is_key = keys(start).any(|(key, _)| key == known);
            is_key.then(|| known.to_owned())
        }
        _ => None,
    }
}

/// Returns the value of an option, or the sentence about its type.
fn value_of(key: &str, option: &Arg, value: &DeValue<'_>) -> Result<Value, String> {
    let kind = KeyKind::of(option);
    let wanted = match kind {
        KeyKind::Flag => "true or false",
        KeyKind::One => "a text or a number",
        KeyKind::Many => "a text or an array of texts",
    };
    let found = value.type_str();
    let wrong = || format!("'{key}' must be {wanted}, not of the type {found}");
    match (kind, value) {
        (KeyKind::Flag, DeValue::Boolean(value)) => Ok(Value::Flag(*value)),
        (KeyKind::Flag, _) => Err(wrong()),
        (KeyKind::Many, DeValue::Array(values)) => {
            let texts = values.iter().map(|value| scalar(value.get_ref()));
            texts
                .collect::<Option<_>>()
                .map(Value::Texts)
                .ok_or_else(wrong)
        }
        // A boolean is the natural mistake at an option whose values are on and off.
        (_, DeValue::Boolean(value)) if takes_on_and_off(option) => {
            let word = if *value { "on" } else { "off" };
            Err(format!("'{key}' must be a text: write {key} = \"{word}\""))
        }
        (_, value) => match scalar(value) {
            Some(text) => Ok(Value::Texts(vec![text])),
            None => Err(wrong()),
        },
    }
}

fn takes_on_and_off(option: &Arg) -> bool {
    let values = option.get_possible_values();
    let has = |name: &str| values.iter().any(|value| value.get_name() == name);
    has("on") && has("off")
}

/// Returns the text of a value as it would stand on the command line.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            let number = i128::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

/// Returns a key and its value as options of the command line.
pub(super) fn options(key: &str, value: &Value) -> Vec<OsString> {
    match value {
        Value::Flag(true) => vec![format!("--{key}").into()],
        Value::Flag(false) => Vec::new(),
        Value::Texts(texts) => {
            let option = |text: &String| format!("--{key}={text}").into();
            texts.iter().map(option).collect()
        }
    }
}

/// Returns the sentence about a value that the option refuses.
fn refused_value(key: &str, option: OsString, start: &Command) -> Option<String> {
    let line = [OsString::from("start"), option];
    let error = start.clone().try_get_matches_from(line).err()?;
    let is_value = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::NoEquals
    );
    (is_value && names_key(&error, key)).then(|| sentence(&error))
}

/// Returns true if an error of clap is about an option.
pub(super) fn names_key(error: &clap::Error, key: &str) -> bool {
    let is_key = |text: &String| {
        let name = text.trim_start_matches('-').split([' ', '=']).next();
        name == Some(key)
    };
    [ContextKind::InvalidArg, ContextKind::PriorArg]
        .into_iter()
        .any(|kind| match error.get(kind) {
            Some(ContextValue::String(text)) => is_key(text),
            Some(ContextValue::Strings(texts)) => texts.iter().any(is_key),
            _ => false,
        })
}

/// Returns what an error of clap says, without advice about the command line.
pub(super) fn sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = first.lines().map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::start_command;
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let faults = entries(text, &start_command()).expect_err(text);
        faults
            .iter()
            .map(|fault| format!("{}: {}", fault.line, fault.text))
            .collect()
    }

    #[test]
    fn values_become_options_of_the_command_line() {
        let text = "spin = 0x10\nmemory = true\nburst-capacity = false\nregion = ['A', \"B\"]\n\
                    logical-partition-limit = '20MB'";
        let entries = entries(text, &start_command()).expect("a file");
        let line: Vec<OsString> = entries
            .iter()
            .flat_map(|entry| options(&entry.key, &entry.value))
            .collect();
        assert_eq!(
            line,
            [
                "--spin=16",
                "--memory",
                "--region=A",
                "--region=B",
                "--logical-partition-limit=20MB"
            ]
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_key_that_was_meant() {
        assert_eq!(
            faults("# a comment\n\nspin = 1\ndata-dri = 'd'\ndata_dir = 'd'\nORRERY_LISTEN = 'x'"),
            [
                "4: there is no setting 'data-dri'; did you mean 'data-dir'?",
                "5: there is no setting 'data_dir'; did you mean 'data-dir'?",
                "6: there is no setting 'ORRERY_LISTEN'; did you mean 'listen'?"
            ]
        );
        assert_eq!(faults("config = 'x'"), ["1: there is no setting 'config'"]);
        assert_eq!(faults("[tls]\ncert = 'x'").len(), 1);
    }

    #[test]
    fn a_value_of_a_wrong_type_or_out_of_range_is_refused_with_its_line() {
        let faults = faults("memory = 'yes'\nspin = [1]\nenforce-throughput = true\nspin = 1\n");
        assert!(faults[0].contains("duplicate key"), "{faults:?}");
        let faults = self::faults(
            "memory = 'yes'\nspin = [1]\nenforce-throughput = true\nthroughput = 450\n\
             profile = 'old'\nregion = [1979-05-27]\nlisten = 'here'",
        );
        assert_eq!(
            faults[0],
            "1: 'memory' must be true or false, not of the type string"
        );
        assert_eq!(
            faults[1],
            "2: 'spin' must be a text or a number, not of the type array"
        );
        assert_eq!(
            faults[2],
            "3: 'enforce-throughput' must be a text: write enforce-throughput = \"on\""
        );
        assert!(
            faults[3].starts_with("4: invalid value '450' for '--throughput"),
            "{faults:?}"
        );
        assert!(
            faults[4].contains("[possible values: modern, y2019]"),
            "{faults:?}"
        );
        assert!(faults[5].starts_with("6: 'region' must be"), "{faults:?}");
        assert!(
            faults[6].starts_with("7: invalid value 'here'"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_text_that_is_not_toml_is_refused_with_its_line() {
        let faults = faults("spin = 1\nlisten = 127.0.0.1:8081\n");
        assert!(faults[0].starts_with("2: this is not TOML"), "{faults:?}");
    }
}
