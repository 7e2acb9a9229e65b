//! Markdown to HTML that is safe to show.
//!
//! Promises:
//! 1. HTML in the text is shown as text.
//! 2. The result has no script, no style, no image and no form; a link leads to `http`, `https`,
//!    `mailto` or a place of this site, and has `rel="nofollow ugc noopener"`.
//! 3. The work is proportional to the length of the text: nesting beyond a depth is dropped.
//!
//! A page has its own first heading, so headings are one level lower. An image becomes a link.

use ammonia::Builder;
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::collections::HashSet;
use std::sync::LazyLock;

/// Nested elements above which further nesting is dropped.
const DEPTH_MAX: usize = 24;

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    let mut cleaner = Builder::default();
    cleaner
        .tags(HashSet::from(tags))
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .link_rel(Some("nofollow ugc noopener"));
    cleaner
});

/// Returns the HTML of a Markdown text.
pub(crate) fn to_html(text: &str) -> String {
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let mut events = Vec::new();
    // One entry for each open element: true if the element is shown.
    let mut open: Vec<bool> = Vec::new();
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(tag) => {
                let is_shown = open.len() < DEPTH_MAX && tag != Tag::HtmlBlock;
                open.push(is_shown);
                if is_shown {
                    events.push(Event::Start(shown_start(tag)));
                }
            }
            Event::End(tag) => {
                if open.pop() == Some(true) {
                    events.push(Event::End(shown_end(tag)));
                }
            }
            Event::Html(html) | Event::InlineHtml(html) => events.push(Event::Text(html)),
            // The line breaks of plain text are meant.
            Event::SoftBreak => events.push(Event::HardBreak),
            other => events.push(other),
        }
    }
    let mut rendered = String::new();
    html::push_html(&mut rendered, events.into_iter());
    CLEANER.clean(&rendered).to_string()
}

/// Returns the element that is shown for `tag`.
fn shown_start(tag: Tag<'_>) -> Tag<'_> {
    match tag {
        Tag::Heading {
            level,
            id,
            classes,
            attrs,
        } => Tag::Heading {
            level: lowered(level),
            id,
            classes,
            attrs,
        },
        Tag::Image {
            link_type,
            dest_url,
            title,
            id,
        } => Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        },
        other => other,
    }
}

fn shown_end(tag: TagEnd) -> TagEnd {
    match tag {
        TagEnd::Heading(level) => TagEnd::Heading(lowered(level)),
        TagEnd::Image => TagEnd::Link,
        other => other,
    }
}

fn lowered(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_and_scripts_are_shown_as_text() {
        for (text, forbidden) in [
            ("<script>alert(1)</script>", "<script"),
            ("a <img src=x onerror=alert(1)> b", "<img"),
            ("<div style='x'>\n\n**b**", "<div"),
            ("[x](javascript:alert(1))", "javascript:"),
            ("[x](JaVaScRiPt:alert(1))", "cript:"),
            ("[x](data:text/html,x)", "data:"),
            ("![x](https://a.example/x.png)", "<img"),
            (
                "<https://a.example/\"onmouseover=\"x>",
                "href=\"https://a.example/\"",
            ),
        ] {
            let html = to_html(text);
            assert!(!html.contains(forbidden), "{text}: {html}");
        }
        assert!(to_html("<script>x</script>").contains("&lt;script&gt;"));
    }

    #[test]
    fn text_keeps_its_structure_with_headings_one_level_lower() {
        let html = to_html("# One\n\n**bold** and `code`\n\n```\nSELECT *\n```\n\n- a\n- b");
        for part in [
            "<h2>One</h2>",
            "<strong>bold</strong>",
            "<pre><code>",
            "<li>a</li>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(to_html("plain words."), "<p>plain words.</p>\n");
        let link = to_html("[x](https://a.example/)");
        assert!(link.contains("rel=\"nofollow ugc noopener\""), "{link}");
    }

    #[test]
    fn deep_nesting_is_cut() {
        let html = to_html(&format!("{}x", "> ".repeat(50_000)));
        assert!(html.matches("<blockquote>").count() <= DEPTH_MAX);
        assert!(html.contains('x'));
    }
}
