//! The log: lines on standard error, as text for people or JSON for collectors.
//!
//! A line is a level, a sentence and named values. There is nothing to configure per module and no background thread;
//! a line that cannot be written is lost, because a log must not stop the server.

use orrery_model::json::write_string;
use std::io::Write;
use std::sync::Mutex;

/// How much is logged; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Failures of the server itself.
    Error,
    /// Requests that failed on our side.
    Warn,
    /// Start and end.
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
    /// `2026-01-01T00:00:00Z warn sentence name=value`
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
    /// A log of `level` that writes to `sink`.
    pub fn new(level: LogLevel, format: LogFormat, sink: impl Write + Send + 'static) -> Self {
        Log {
            level,
            format,
            sink: Mutex::new(Box::new(sink)),
        }
    }

    /// Whether lines of `level` are written.
    pub fn is_enabled(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    /// Writes a line. `now_ms` is in milliseconds since 1970.
    pub fn write(
        &self,
        now_ms: u64,
        level: LogLevel,
        sentence: &str,
        fields: &[(&str, Field<'_>)],
    ) {
        if !self.is_enabled(level) {
            return;
        }
        let time = jiff::Timestamp::from_millisecond(i64::try_from(now_ms).unwrap_or(i64::MAX))
            .map(|t| t.to_string())
            .unwrap_or_default();
        let line = match self.format {
            LogFormat::Text => text_line(&time, level, sentence, fields),
            LogFormat::Json => json_line(&time, level, sentence, fields),
        };
        // A poisoned lock only means that another line was cut short.
        let mut sink = self
            .sink
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = sink.write_all(&line);
        let _ = sink.flush();
    }
}

fn text_line(time: &str, level: LogLevel, sentence: &str, fields: &[(&str, Field<'_>)]) -> Vec<u8> {
    let mut line = format!("{time} {:5} {}", level.name(), sentence.escape_debug());
    for (name, value) in fields {
        line.push_str(&match value {
            Field::Text(text)
                if text.chars().all(|c| c.is_ascii_graphic() && c != '"') && !text.is_empty() =>
            {
                format!(" {name}={text}")
            }
            Field::Text(text) => format!(" {name}={text:?}"),
            Field::Number(number) => format!(" {name}={number}"),
        });
    }
    line.push('\n');
    line.into_bytes()
}

fn json_line(time: &str, level: LogLevel, sentence: &str, fields: &[(&str, Field<'_>)]) -> Vec<u8> {
    let mut line = Vec::new();
    let first = [
        ("time", Field::Text(time)),
        ("level", Field::Text(level.name())),
        ("message", Field::Text(sentence)),
    ];
    for (i, (name, value)) in first.iter().chain(fields).enumerate() {
        line.push(if i == 0 { b'{' } else { b',' });
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
    fn a_text_line_stays_one_line_whatever_a_client_sends() {
        let line = text_line(
            "T",
            LogLevel::Warn,
            "failed",
            &[("id", Field::Text("a\nb"))],
        );
        assert_eq!(line, b"T warn  failed id=\"a\\nb\"\n");
    }

    #[test]
    fn a_json_line_is_json() {
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
