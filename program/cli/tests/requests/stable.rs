//! Placeholders for values that differ from run to run.
//!
//! Promises: equal values have equal placeholders and different values have different ones, in the
//! order in which a script shows them: `<etag 1>` is unchanged as long as it is `<etag 1>`. A value
//! is replaced wherever it stands, also inside links and error messages. Times, activity ids and
//! resource tokens have one placeholder each.
//!
//! Leaves out: values that are the same in every run, such as charges and positions.

use crate::program::Answer;
use orrery_model::Json;
use std::collections::BTreeMap;

/// Members of bodies with values that differ, and the words of their placeholders.
const MEMBERS: &[(&str, &str)] = &[("_rid", "rid"), ("_etag", "etag")];
/// The member with a resource token, which is another one in each second.
pub(super) const TOKEN: &str = "_token";
/// Text in a resource token before the part that differs.
const SIGNATURE: &str = "&sig=";
/// Members of bodies with times.
const TIMES: &[&str] = &["_ts", "_cts", "crts", "nowSeconds", "takenMilliseconds"];
/// Headers with such values.
const HEADERS: &[(&str, &str)] = &[
    ("x-ms-content-path", "rid"),
    ("etag", "etag"),
    ("x-ms-continuation", "continuation"),
];
/// A shorter value is shown as it is: the etag of a change feed, for example, is a position.
const LENGTH_MIN: usize = 8;
/// Resource ids are base64 of at least three bytes without a remainder.
const RID_LENGTH_UNIT: usize = 4;
/// Length of a date in a header: `Thu, 01 Jan 1970 00:00:00 GMT`.
const DATE_LENGTH: usize = 29;

/// The values that were seen, and the placeholders that stand for them.
#[derive(Default)]
pub(super) struct Stable {
    values: Vec<Value>,
    /// Placeholders of each word that are in use.
    counts: BTreeMap<&'static str, usize>,
}

struct Value {
    text: String,
    placeholder: Placeholder,
}

enum Placeholder {
    Fixed(String),
    /// The word of a placeholder that gets its number when it is shown first.
    Word(&'static str),
}

impl Stable {
    /// Sets the text that stands for a value.
    pub(super) fn set(&mut self, text: &str, placeholder: &str) {
        self.add(text, Placeholder::Fixed(placeholder.to_owned()));
    }

    /// Notes the values of an answer.
    pub(super) fn note(&mut self, answer: &Answer) {
        if let Some(id) = answer.header("x-ms-activity-id") {
            self.set(id, "<activity id>");
        }
        for (name, word) in HEADERS {
            if let Some(value) = answer.header(name) {
                self.note_value(value, word);
            }
        }
        if let Some(token) = answer.header("x-ms-session-token") {
            self.note_session(token);
        }
        if let Ok(body) = orrery_model::json::parse(&answer.body) {
            self.note_members(&body);
        }
    }

    /// Notes the versions of the ranges in a session token, `RANGE:VERSION#LSN,…`: versions are
    /// times. The positions are the same in every run.
    fn note_session(&mut self, token: &str) {
        for range in token.split(',') {
            let version = range
                .split_once(':')
                .and_then(|(_, rest)| rest.split_once('#'));
            if let Some((version, _)) = version {
                self.note_value(version, "version");
            }
        }
    }

    fn note_members(&mut self, value: &Json) {
        match value {
            Json::Array(elements) => elements.iter().for_each(|e| self.note_members(e)),
            Json::Object(members) => {
                for (name, value) in members.iter() {
                    let word = MEMBERS.iter().find(|(member, _)| *member == name);
                    match (word, value) {
                        (Some((_, word)), Json::String(text)) => self.note_value(text, word),
                        (None, Json::String(text)) if name == TOKEN => {
                            let end = text.split_once(SIGNATURE).map_or(&**text, |parts| parts.1);
                            self.set(end, "<token>");
                        }
                        _ => self.note_members(value),
                    }
                }
            }
            _ => {}
        }
    }

    fn note_value(&mut self, text: &str, word: &'static str) {
        let text = text.trim_matches('"');
        let is_rid =
            word == "rid" && !text.is_empty() && text.len().is_multiple_of(RID_LENGTH_UNIT);
        if is_rid || (word != "rid" && text.len() >= LENGTH_MIN) {
            self.add(text, Placeholder::Word(word));
        }
    }

    fn add(&mut self, text: &str, placeholder: Placeholder) {
        if self.values.iter().any(|value| value.text == text) {
            return;
        }
        let text = text.to_owned();
        self.values.push(Value { text, placeholder });
        // The longest value is looked for first: one value may contain another.
        self.values
            .sort_by_key(|value| usize::MAX - value.text.len());
    }

    /// Returns a text with placeholders in place of values.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = after_date(rest) {
                out.push_str("<date>");
                rest = after;
                continue;
            }
            let is_word = out.ends_with(is_alphanumeric);
            let found = self.values.iter().position(|value| {
                let after = rest.strip_prefix(value.text.as_str());
                // A short value is no part of a word.
                after.is_some_and(|after| !is_word && !after.starts_with(is_alphanumeric))
            });
            match found {
                Some(at) => {
                    rest = &rest[self.values[at].text.len()..];
                    out.push_str(&self.placeholder(at));
                }
                None => {
                    out.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        out
    }

    /// Returns a value with placeholders in its strings.
    pub(super) fn strings(&mut self, value: Json) -> Json {
        match value {
            Json::String(text) => Json::from(self.text(&text)),
            Json::Array(elements) => {
                let elements: Vec<Json> = elements.into_iter().map(|e| self.strings(e)).collect();
                Json::Array(elements)
            }
            Json::Object(members) => {
                let placed = |(name, value)| (name, self.strings(value));
                Json::Object(members.into_iter().map(placed).collect())
            }
            other => other,
        }
    }

    fn placeholder(&mut self, at: usize) -> String {
        let word = match &self.values[at].placeholder {
            Placeholder::Fixed(text) => return text.clone(),
            Placeholder::Word(word) => *word,
        };
        let count = self.counts.entry(word).or_default();
        *count += 1;
        let text = format!("<{word} {count}>");
        self.values[at].placeholder = Placeholder::Fixed(text.clone());
        text
    }
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// Returns the text after the date with which a text begins.
fn after_date(text: &str) -> Option<&str> {
    let (date, after) = text.split_at_checked(DATE_LENGTH)?;
    let pattern = "Aaa, 00 Aaa 0000 00:00:00 AAA";
    let fits = |(found, wanted): (char, char)| match wanted {
        'A' | 'a' => found.is_ascii_alphabetic(),
        '0' => found.is_ascii_digit(),
        other => found == other,
    };
    let is_date = date.chars().zip(pattern.chars()).all(fits);
    (is_date && date.to_ascii_lowercase().ends_with("gmt")).then_some(after)
}

/// Returns a body whose times are replaced.
pub(super) fn without_times(value: Json) -> Json {
    match value {
        Json::Array(elements) => {
            let elements: Vec<Json> = elements.into_iter().map(without_times).collect();
            Json::Array(elements)
        }
        Json::Object(members) => {
            let stable = |(name, value): (String, Json)| match value {
                Json::Number(_) if TIMES.contains(&name.as_str()) => (name, Json::from("<time>")),
                value => (name, without_times(value)),
            };
            Json::Object(members.into_iter().map(stable).collect())
        }
        other => other,
    }
}

#[test]
fn equal_values_have_equal_placeholders_in_the_order_of_showing() {
    let mut stable = Stable::default();
    stable.note_value("\"0000-first\"", "etag");
    stable.note_value("\"0000-second\"", "etag");
    stable.note_value("AAAAAA==", "rid");
    let text = "0000-second, 0000-first, 0000-second, dbs/AAAAAA==/";
    assert_eq!(
        stable.text(text),
        "<etag 1>, <etag 2>, <etag 1>, dbs/<rid 1>/"
    );
}

#[test]
fn a_value_that_contains_another_is_replaced_whole() {
    let mut stable = Stable::default();
    stable.note_value("00000000", "rid");
    stable.note_value("00000000-1", "etag");
    assert_eq!(stable.text("00000000-1 00000000"), "<etag 1> <rid 1>");
}

#[test]
fn short_values_stay_and_dates_go() {
    let mut stable = Stable::default();
    stable.note_value("\"5\"", "etag");
    let text = "5 at thu, 01 jan 1970 00:00:00 gmt, Thu, 01 Jan";
    assert_eq!(stable.text(text), "5 at <date>, Thu, 01 Jan");
}

#[test]
fn a_short_resource_id_is_no_part_of_a_word() {
    let mut stable = Stable::default();
    stable.note_value("from", "rid");
    let text = "offers/from/ is from, not fromage";
    assert_eq!(stable.text(text), "offers/<rid 1>/ is <rid 1>, not fromage");
}
