//! An item as JSON, one line for each property, with what is a copy and what has changed marked by
//! a sign, words and a colour.

use super::{escaped, rendered};
use askama::Template;
use serde_json::Value;

/// Characters of a text that are shown.
const TEXT_CHARS: usize = 72;

/// The reason for which a property is marked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Mark {
    /// The value is a copy; the words name its source, e.g. `username in users`.
    Copy(String),
    /// The value has changed; the words are the value before.
    Changed(String),
}

/// An item with its caption and marks.
pub(crate) struct Item<'a> {
    caption: &'a str,
    item: &'a Value,
    marks: Vec<(&'a str, Mark)>,
    is_new: bool,
}

#[derive(Template)]
#[template(path = "lesson/parts/item.html")]
struct View<'a> {
    caption: &'a str,
    is_new: bool,
    lines: Vec<Line>,
}

struct Line {
    name: String,
    /// The value as markup.
    value: String,
    comma: &'static str,
    /// `copy`, `changed`, or empty.
    class: &'static str,
    words: String,
}

impl<'a> Item<'a> {
    /// Returns an item without marks. `caption` says what it is and where it lies, e.g. `post in
    /// posts`.
    pub(crate) fn new(caption: &'a str, item: &'a Value) -> Self {
        Self {
            caption,
            item,
            marks: Vec::new(),
            is_new: false,
        }
    }

    /// Marks a property as a copy of `source`, e.g. `username in users`.
    pub(crate) fn copy(mut self, property: &'a str, source: &str) -> Self {
        self.marks.push((property, Mark::Copy(source.to_owned())));
        self
    }

    /// Marks every property whose value differs from that of `before`.
    pub(crate) fn changed_from(mut self, before: &Value) -> Self {
        let Some(properties) = self.item.as_object() else {
            return self;
        };
        for (name, value) in properties {
            if *value != before[name.as_str()] && !name.starts_with('_') {
                let was = shown(&before[name.as_str()]);
                self.marks.push((name.as_str(), Mark::Changed(was)));
            }
        }
        self
    }

    /// Marks the whole item as new.
    pub(crate) fn new_item(mut self) -> Self {
        self.is_new = true;
        self
    }

    /// Returns the markup. Properties of the database itself, whose names begin with an underscore,
    /// and the time to live are left out.
    pub(crate) fn html(&self) -> String {
        let mut lines = Vec::new();
        for (name, value) in self.item.as_object().into_iter().flatten() {
            if name.starts_with('_') || name == "ttl" {
                continue;
            }
            // The change of a copied property is what a reader looks for.
            let marks = || self.marks.iter().filter(|(marked, _)| marked == name);
            let is_change = |(_, mark): &&&(&str, Mark)| matches!(mark, Mark::Changed(_));
            let mark = marks().find(|mark| is_change(&mark)).or(marks().next());
            let (class, words) = match mark {
                Some((_, Mark::Copy(source))) => ("copy", format!("copy of {source}")),
                Some((_, Mark::Changed(was))) => ("changed", format!("was {was}")),
                None => ("", String::new()),
            };
            lines.push(Line {
                name: name.clone(),
                value: escaped(&shown(value)),
                comma: ",",
                class,
                words,
            });
        }
        if let Some(last) = lines.last_mut() {
            last.comma = "";
        }
        rendered(&View {
            caption: self.caption,
            is_new: self.is_new,
            lines,
        })
    }
}

/// Returns a value as JSON; a long text ends with an ellipsis, and a list is a count.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().count() > TEXT_CHARS => {
            let start: String = text.chars().take(TEXT_CHARS).collect();
            format!(
                "{}…\"",
                Value::from(start).to_string().trim_end_matches('"')
            )
        }
        Value::Array(values) if values.len() > 3 => format!("[ {} values ]", values.len()),
        Value::Null => "null".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn copies_and_changes_are_marked_in_words_and_system_properties_are_left_out() {
        let before = json!({"id": "p", "userUsername": "mira", "commentCount": 1, "_etag": "a"});
        let after = json!({"id": "p", "userUsername": "mira", "commentCount": 2, "_etag": "b"});
        let html = Item::new("post", &after)
            .copy("userUsername", "username in users")
            .copy("commentCount", "the number of comments")
            .changed_from(&before)
            .html();
        assert!(html.contains("copy of username in users"), "{html}");
        assert!(html.contains("was 1") && !html.contains("_etag"), "{html}");
        assert!(!html.contains("copy of the number"), "{html}");
    }

    #[test]
    fn values_are_text_and_never_markup() {
        let item = json!({"id": "<script>alert(1)</script>", "content": "x".repeat(200)});
        let html = Item::new("post", &item).html();
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"));
        assert!(
            html.contains(&format!("{}…&quot;", "x".repeat(TEXT_CHARS))),
            "{html}"
        );
    }
}
