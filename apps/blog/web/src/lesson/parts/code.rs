//! A query as a reader sees it: keywords in bold, parameters with their values below.

use super::{escaped, rendered};
use askama::Template;
use serde_json::Value;

/// Words of SQL in bold.
const KEYWORDS: [&str; 14] = [
    "SELECT", "TOP", "VALUE", "FROM", "WHERE", "AND", "OR", "NOT", "IN", "ORDER", "BY", "DESC",
    "ASC", "COUNT",
];

#[derive(Template)]
#[template(path = "lesson/parts/query.html")]
struct View {
    /// Markup.
    text: String,
    parameters: Vec<(String, String)>,
}

/// Returns the markup of a query with its parameters.
pub(crate) fn query(text: &str, parameters: &[(String, Value)]) -> String {
    let named = |(name, value): &(String, Value)| (name.clone(), value.to_string());
    rendered(&View {
        text: with_bold_keywords(text),
        parameters: parameters.iter().map(named).collect(),
    })
}

/// Returns the text of a query as markup. Texts in quotation marks keep their words as they are.
fn with_bold_keywords(text: &str) -> String {
    let mut markup = String::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for character in text.chars().chain(['\n']) {
        if character.is_ascii_alphanumeric() || character == '_' {
            word.push(character);
            continue;
        }
        if !is_quoted && KEYWORDS.contains(&word.as_str()) {
            markup.push_str(&format!("<b>{word}</b>"));
        } else {
            markup.push_str(&escaped(&word));
        }
        word.clear();
        is_quoted ^= character == '\'';
        markup.push_str(&escaped(&character.to_string()));
    }
    markup.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_bold_except_within_texts() {
        let html = query(
            "SELECT * FROM c WHERE c.type = 'AND' AND c.n < @n",
            &[("@n".to_owned(), Value::from("<b>"))],
        );
        assert!(html.contains("<b>SELECT</b> * <b>FROM</b> c"), "{html}");
        assert!(
            html.contains("&#39;AND&#39; <b>AND</b> c.n &lt; @n"),
            "{html}"
        );
        assert!(html.contains("@n") && !html.contains("\"<b>\""), "{html}");
    }
}
