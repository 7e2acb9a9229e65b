//! The log: lines on standard error, as text for people or as JSON for log collectors.
//!
//! A line has a level, a message and named values. There are no settings per module and no
//! background thread. A line that cannot be written is lost, because the log must not stop the
//! server.

use orrery_model::json::write_string;
use orrery_model::sync::lock;
use std::io::Write;
use std::sync::Mutex;

/// The severity of a line. A log of a level contains the lines of this level and of those before
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures of the server itself.
    Error,
    /// Requests that failed because of the server.
    Warn,
    /// Start and stop of the server, and refusals that its operator should know of, once each.
    Info,
    /// One line for each request.
    Debug,
}

impl LogLevel {
    fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// `2026-01-01T00:00:00Z warn message name=value`
    Text,
    /// One JSON object.
    Json,
}

/// A value of a log line.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// Text.
    Text(&'a str),
    /// A number.
    Number(f64),
}

/// Writes log lines.
pub struct Log {
    level: LogLevel,
    format: LogFormat,
    sink: Mutex<Box<dyn Write + Send>>,
}

impl Log {
    /// Creates a log of `level` that writes to `sink`.
    pub fn new(level: LogLevel, format: LogFormat, sink: impl Write + Send + 'static) -> Self {
        Log {
            level,
            format,
            sink: Mutex::new(Box::new(sink)),
        }
    }

    /// Returns true if lines of `level` are written.
    pub fn is_enabled(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    /// Writes a line. `now_ms` is in milliseconds since 1970.
    pub fn write(&self, now_ms: u64, level: LogLevel, message: &str, fields: &[(&str, Field<'_>)]) {
        if !self.is_enabled(level) {
            return;
        }
        let timestamp =
            jiff::Timestamp::from_millisecond(i64::try_from(now_ms).unwrap_or(i64::MAX));
        let time = timestamp
            .map(|time| format!("{time:.3}"))
            .unwrap_or_default();
        let line = match self.format {
            LogFormat::Text => text_line(&time, level, message, fields),
            LogFormat::Json => json_line(&time, level, message, fields),
        };
        let mut sink = lock(&self.sink);
        let _ = sink.write_all(&line);
        let _ = sink.flush();
    }
}

/// Returns a line as text. Values that could break the line or its fields are quoted.
fn text_line(time: &str, level: LogLevel, message: &str, fields: &[(&str, Field<'_>)]) -> Vec<u8> {
    let mut line = format!("{time} {:5} ", level.name());
    for character in message.chars() {
        match character.is_control() {
            true => line.extend(character.escape_debug()),
            false => line.push(character),
        }
    }
    for (name, value) in fields {
        let field = match value {
            Field::Text(text) if is_plain(text) => format!(" {name}={text}"),
            Field::Text(text) => format!(" {name}={text:?}"),
            Field::Number(number) => format!(" {name}={number}"),
        };
        line.push_str(&field);
    }
    line.push('\n');
    line.into_bytes()
}

/// Returns true if a text needs no quotes.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '"')
}

/// Returns a line as a JSON object.
fn json_line(time: &str, level: LogLevel, message: &str, fields: &[(&str, Field<'_>)]) -> Vec<u8> {
    let mut line = Vec::new();
    let first = [
        ("time", Field::Text(time)),
        ("level", Field::Text(level.name())),
        ("message", Field::Text(message)),
    ];
    for (n, (name, value)) in first.iter().chain(fields).enumerate() {
        line.push(if n == 0 { b'{' } else { b',' });
        write_string(name, &mut line);
        line.push(b':');
        match value {
            Field::Text(text) => write_string(text, &mut line),
            Field::Number(number) if number.is_finite() => {
                line.extend_from_slice(number.to_string().as_bytes())
            }
            Field::Number(_) => line.extend_from_slice(b"null"),
        }
    }
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_line_stays_one_line_for_any_value() {
        let line = text_line(
            "T",
            LogLevel::Warn,
            "failed",
            &[("id", Field::Text("a\nb"))],
        );
        assert_eq!(line, b"T warn  failed id=\"a\\nb\"\n");
    }

    #[test]
    fn a_json_line_is_valid_json() {
        let line = json_line(
            "T",
            LogLevel::Debug,
            "re\"quest",
            &[("status", Field::Number(200.0))],
        );
        let json = orrery_model::json::parse(&line).expect("it parses");
        assert_eq!(
            json.get("message").and_then(|m| m.as_str()),
            Some("re\"quest")
        );
        assert_eq!(json.get("status").and_then(|s| s.as_i64()), Some(200));
    }
}
