//! The parts that chapters share, each rendered by the server: an item as JSON, a query, the code
//! of a script, and the frame of a picture.
//!
//! A part is a value with a method `html`, whose result a template inserts with `|safe`: texts of
//! visitors and of the database are escaped in it.

mod code;
mod item;
mod picture;
mod script;

pub(crate) use code::query;
pub(crate) use item::Item;
pub(crate) use picture::{Picture, Table};
pub(crate) use script::Script;

use askama::Template;

/// Returns the markup of a part. A part that does not render leaves a gap, not an error page.
pub(crate) fn rendered(part: &impl Template) -> String {
    part.render().unwrap_or_default()
}

/// Returns text as markup.
pub(crate) fn escaped(text: &str) -> String {
    let mut markup = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            '"' => markup.push_str("&quot;"),
            '\'' => markup.push_str("&#39;"),
            other => markup.push(other),
        }
    }
    markup
}
