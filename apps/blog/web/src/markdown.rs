//! Markdown to HTML that is safe to show.
//!
//! Promises:
//! 1. HTML in the text is shown as text.
//! 2. The result has no script, no style, no image and no form; a link leads to `http`, `https`,
//!    `mailto` or a place of this site, and has `rel="nofollow ugc noopener"`.
//! 3. The work is proportional to the length of the text: nesting beyond a depth is dropped, and a
//!    text whose tables would have many more cells than the text has characters has no tables.
//! 4. Long texts do not keep other visitors waiting: [`Renderer`] renders a few at a time, on
//!    threads of their own.
//!
//! A page has its own first heading, so headings are one level lower. An image becomes a link.

use pulldown_cmark::{
    Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, html,
};
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Nested elements above which further nesting is dropped.
const DEPTH_MAX: usize = 24;
/// The schemes of links that are shown as links.
const SCHEMES: &[&str] = &["http", "https", "mailto"];

/// Bytes of a text that is rendered at once.
const SHORT_BYTES: usize = 4 * 1024;
/// Cells of tables for each byte of a text. A row may leave its last cells out, so a text with one
/// wide row and many short ones would become much longer.
const CELLS_PER_BYTE: usize = 4;

const LINK_END: Event<'_> = Event::InlineHtml(CowStr::Borrowed("</a>"));

/// Renders texts of visitors.
pub(crate) struct Renderer {
    /// Places for long texts: half of the cores, so that the others answer requests.
    places: Arc<Semaphore>,
}

impl Renderer {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            places: Arc::new(Semaphore::new((cores / 2).max(1))),
        }
    }

    /// Returns the HTML of a Markdown text. A long text waits until a place is free; it keeps the
    /// place to its end, also if the visitor has left.
    pub(crate) async fn html(&self, text: String) -> String {
        if text.len() <= SHORT_BYTES {
            return to_html(&text);
        }
        // The semaphore is never closed.
        let place = self.places.clone().acquire_owned().await;
        let work = move || {
            let html = to_html(&text);
            drop(place);
            html
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(html) => html,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

/// Returns the HTML of a Markdown text.
///
/// The writer of pulldown-cmark writes the tags of its own elements and escapes texts. So the
/// result is safe if no event of HTML and no element beyond [`is_shown_element`] reaches the
/// writer, and if [`link_start`] writes the start of each link.
pub(crate) fn to_html(text: &str) -> String {
    let mut options = Options::ENABLE_STRIKETHROUGH;
    options.set(Options::ENABLE_TABLES, has_bounded_tables(text));
    let mut events = Vec::new();
    // The end of each open element, or none if the element is not shown.
    let mut open: Vec<Option<Event<'_>>> = Vec::new();
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(tag) => {
                // The depth is tested first: it bounds the search for an open link.
                if !has_room(&open, &tag) || is_nested_link(&open, &tag) || !is_shown_element(&tag)
                {
                    open.push(None);
                    continue;
                }
                let (start, end) = shown(tag);
                events.push(start);
                open.push(Some(end));
            }
            Event::End(_) => events.extend(open.pop().flatten()),
            Event::Html(html) | Event::InlineHtml(html) => events.push(Event::Text(html)),
            // The line breaks of plain text are meant.
            Event::SoftBreak => events.push(Event::HardBreak),
            Event::Text(_) | Event::Code(_) | Event::HardBreak | Event::Rule => events.push(event),
            // Extensions that are not enabled.
            _ => {}
        }
    }
    let mut rendered = String::new();
    html::push_html(&mut rendered, events.into_iter());
    rendered
}

/// Returns true if the cells of all tables are in proportion to the text. A table ends at an empty
/// line, and has at most as many columns as its widest line.
fn has_bounded_tables(text: &str) -> bool {
    let (mut cells, mut columns, mut lines) = (0_usize, 0, 0);
    for line in text.lines() {
        if line.trim().is_empty() {
            cells = cells.saturating_add(columns * lines);
            (columns, lines) = (0, 0);
            continue;
        }
        lines += 1;
        let bars = line.bytes().filter(|byte| *byte == b'|').count();
        columns = columns.max(bars + 1);
    }
    cells.saturating_add(columns * lines) <= CELLS_PER_BYTE * text.len()
}

/// Returns true if an element may be opened inside of the open ones. A table needs room for its
/// rows and cells, without which it would be no table.
fn has_room(open: &[Option<Event<'_>>], tag: &Tag<'_>) -> bool {
    match tag {
        Tag::Table(_) => open.len() + 2 < DEPTH_MAX,
        _ => open.len() < DEPTH_MAX,
    }
}

/// Returns true if an element would become a link inside of a link, as an image in a link does.
fn is_nested_link(open: &[Option<Event<'_>>], tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Link { .. } | Tag::Image { .. }) && open.contains(&Some(LINK_END))
}

/// Returns true if the start and the end of the element are shown. The text inside is shown always.
fn is_shown_element(tag: &Tag<'_>) -> bool {
    match tag {
        Tag::Paragraph
        | Tag::Heading { .. }
        | Tag::BlockQuote(_)
        | Tag::CodeBlock(_)
        | Tag::List(_)
        | Tag::Item
        | Tag::Emphasis
        | Tag::Strong
        | Tag::Strikethrough
        | Tag::Table(_)
        | Tag::TableHead
        | Tag::TableRow
        | Tag::TableCell => true,
        Tag::Link {
            link_type,
            dest_url,
            ..
        }
        | Tag::Image {
            link_type,
            dest_url,
            ..
        } => is_safe_address(&address_of(*link_type, dest_url)),
        _ => false,
    }
}

/// Returns the start and the end of the element that is shown for `tag`.
fn shown(tag: Tag<'_>) -> (Event<'_>, Event<'_>) {
    let tag = match tag {
        Tag::Heading { level, .. } => Tag::Heading {
            level: lowered(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        },
        // The info text would become a class.
        Tag::CodeBlock(_) => Tag::CodeBlock(CodeBlockKind::Indented),
        Tag::Link {
            link_type,
            dest_url,
            title,
            ..
        }
        | Tag::Image {
            link_type,
            dest_url,
            title,
            ..
        } => {
            let start = link_start(&address_of(link_type, &dest_url), &title);
            return (Event::InlineHtml(CowStr::from(start)), LINK_END);
        }
        // An alignment would become a style.
        Tag::Table(alignments) => Tag::Table(vec![Alignment::None; alignments.len()]),
        other => other,
    };
    let end = tag.to_end();
    (Event::Start(tag), Event::End(end))
}

/// Returns the address of a link. A mail address in angle brackets has no scheme of its own.
fn address_of(link_type: LinkType, dest_url: &str) -> Cow<'_, str> {
    match link_type {
        LinkType::Email => Cow::Owned(format!("mailto:{dest_url}")),
        _ => Cow::Borrowed(dest_url),
    }
}

/// Returns the start tag of a link.
fn link_start(address: &str, title: &str) -> String {
    let mut tag = String::from("<a href=\"");
    tag.push_str(&attribute(address));
    if !title.is_empty() {
        tag.push_str("\" title=\"");
        tag.push_str(&attribute(title));
    }
    tag.push_str("\" rel=\"nofollow ugc noopener\">");
    tag
}

/// Returns a text as the value of an attribute in double quotes.
fn attribute(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns true if an address has one of [`SCHEMES`], or none and so leads to a place of this site.
///
/// A browser drops control characters anywhere and white space before a scheme, so an address with
/// one of these is refused. It encodes a space behind the scheme, which changes nothing.
fn is_safe_address(address: &str) -> bool {
    let is_refused = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if address.starts_with(' ') || address.chars().any(is_refused) {
        return false;
    }
    // Two slashes name another host, and browsers read a backslash as a slash.
    if address.starts_with(['/', '\\']) {
        return !address[1..].starts_with(['/', '\\']);
    }
    let end = address.find(['/', '?', '#', '\\']).unwrap_or(address.len());
    match address[..end].split_once(':') {
        Some((scheme, _)) => SCHEMES
            .iter()
            .any(|known| known.eq_ignore_ascii_case(scheme)),
        None => true,
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
                "=\"https://a.example/\"",
            ),
            ("[x](https://a.example/\"onmouseover=\"x)", "\"onmouseover"),
            ("[x](/ '\"><script>')", "<script"),
            ("[x](java&#9;script:alert(1))", "<a"),
            ("[x](<java script:alert(1)>)", "<a"),
            ("[x](&#1;javascript:alert(1))", "<a"),
            ("[x](vbscript:x)", "<a"),
            ("[x](//b.example/)", "<a"),
            ("[x](/\\\\b.example/)", "<a"),
            ("```\"><script>\nx\n```", "<script"),
            ("# x {#id .class onclick=y}", "<h2 "),
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
    fn links_lead_to_known_schemes_or_to_places_of_this_site() {
        for address in [
            "https://a.example/?b=c&d#e:f",
            "HTTP://a.example",
            "mailto:a@b.example",
            "/v3/posts/1",
            "posts/a:b",
            "#place",
            "?page=2:3",
        ] {
            let html = to_html(&format!("[x]({address})"));
            let link = format!("<a href=\"{}\" rel=", attribute(address));
            assert!(html.contains(&link), "{address}: {html}");
        }
        let titled = to_html("[x](/a 'b \" & c')");
        assert!(
            titled.contains("<a href=\"/a\" title=\"b &quot; &amp; c\" rel="),
            "{titled}"
        );
        let image = to_html("![a *picture*](/x.png)");
        assert!(image.contains("<a href=\"/x.png\""), "{image}");
        let mail = to_html("<a@b.example>");
        assert!(
            mail.contains("<a href=\"mailto:a@b.example\" rel="),
            "{mail}"
        );
        let spaced = to_html("[x](<https://a.example/a b>)");
        assert!(
            spaced.contains("<a href=\"https://a.example/a b\""),
            "{spaced}"
        );
        assert_eq!(to_html("[x](data:y)"), "<p>x</p>\n");
        assert_eq!(to_html("[![x](/a)](/b)").matches("<a ").count(), 1);
    }

    /// Pieces of texts that open and close every kind of element, and of attacks.
    const PIECES: &[&str] = &[
        "# ",
        "> ",
        "- ",
        "1. ",
        "```",
        "`",
        "**",
        "*",
        "~~",
        "[",
        "](",
        ")",
        "![",
        "<",
        ">",
        "\"",
        "'",
        "&",
        "javascript:",
        "https://a.example/",
        "data:",
        "<script>",
        "</p>",
        "<img src=x ",
        "onerror=x",
        "<!--",
        "-->",
        "<![CDATA[",
        "<?x",
        "|a|b|\n|:-:|-|\n",
        "\n",
        "\n\n",
        "    ",
        "\u{0}",
        "\u{1}",
        "&#1;",
        "&lt;",
        "{#id}",
        "[^1]",
        "$",
        "a",
        "ä",
    ];

    /// Returns the tags of an HTML text: the texts between `<` and `>`.
    fn tags(html: &str) -> Vec<&str> {
        let mut tags = Vec::new();
        for part in html.split('<').skip(1) {
            let (tag, _) = part.split_once('>').expect("a tag ends");
            tags.push(tag);
        }
        tags
    }

    /// Returns true if a tag is the start of a link with a safe address, perhaps a title, and no
    /// other attribute.
    fn is_allowed_link(tag: &str) -> bool {
        let Some(rest) = tag.strip_prefix("a href=\"") else {
            return false;
        };
        let Some(attributes) = rest.strip_suffix("\" rel=\"nofollow ugc noopener\"") else {
            return false;
        };
        let (address, title) = match attributes.split_once("\" title=\"") {
            Some((address, title)) => (address, title),
            None => (attributes, ""),
        };
        let address = address.replace("&quot;", "\"").replace("&#39;", "'");
        let address = address.replace("&lt;", "<").replace("&gt;", ">");
        is_safe_address(&address.replace("&amp;", "&")) && !title.contains('"')
    }

    /// Returns true if a tag is one that a post may have.
    fn is_allowed(tag: &str) -> bool {
        const PLAIN: &[&str] = &[
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
        let name = tag.trim_start_matches('/').trim_end_matches(" /");
        let is_link = tag == "/a" || is_allowed_link(tag);
        let start = name.strip_prefix("ol start=\"");
        let number = start.and_then(|start| start.strip_suffix('"'));
        let is_numbered = number.is_some_and(|number| number.parse::<u64>().is_ok());
        PLAIN.contains(&name) || is_link || is_numbered
    }

    #[test]
    fn random_texts_result_in_allowed_tags_only() {
        // A linear congruential generator: the same texts at each run.
        let mut state: u64 = 1;
        for case in 0..20_000 {
            let mut text = String::new();
            for _ in 0..case % 40 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text.push_str(PIECES[(state >> 33) as usize % PIECES.len()]);
            }
            let html = to_html(&text);
            for tag in tags(&html) {
                assert!(is_allowed(tag), "{text:?}: <{tag}>");
            }
        }
    }

    #[test]
    fn a_table_is_not_much_longer_than_its_text() {
        let wide = |columns: usize, rows: usize| {
            let head = "|a".repeat(columns);
            let line = "|-".repeat(columns);
            format!("{head}\n{line}\n{}", "|x\n".repeat(rows))
        };
        assert!(to_html(&wide(20, 20)).contains("<table>"));
        let text = wide(500, 500);
        let html = to_html(&text);
        assert!(!html.contains("<table>"), "{} bytes", html.len());
        assert!(html.len() < 20 * text.len(), "{} bytes", html.len());
        // A full table of the greatest length is one, and a wide line beside a table does no harm.
        let full = "|a|b|c|d\n|-|-|-|-\n".to_owned() + &"|1|2|3|4\n".repeat(10_000);
        assert_eq!(to_html(&full).matches("<td>").count(), 40_000);
        let beside = format!(
            "{}\n\n{}",
            "|".repeat(300),
            "|a|b|\n|-|-|\n|1|2|\n".repeat(3)
        );
        assert!(to_html(&beside).contains("<table>"));
    }

    #[tokio::test]
    async fn long_texts_are_rendered_a_few_at_a_time_and_short_ones_at_once() {
        let renderer = Renderer {
            places: Arc::new(Semaphore::new(1)),
        };
        let place = renderer.places.clone().acquire_owned().await;
        let long = "word ".repeat(SHORT_BYTES);
        let mut waiting = Box::pin(renderer.html(long));
        let short = tokio::select! {
            biased;
            _ = &mut waiting => String::new(),
            html = renderer.html("*short*".to_owned()) => html,
        };
        assert_eq!(short, "<p><em>short</em></p>\n");
        drop(place);
        assert!(waiting.await.starts_with("<p>word word"));
    }

    #[test]
    fn deep_nesting_is_cut() {
        let html = to_html(&format!("{}x", "> ".repeat(50_000)));
        assert!(html.matches("<blockquote>").count() <= DEPTH_MAX);
        assert!(html.contains('x'));
        // The search for an open link stays within the depth.
        let links = format!("{}{}", "> ".repeat(20_000), "[](a)".repeat(10_000));
        assert!(!to_html(&links).contains("<a "));
        let table = format!(
            "{}|a|b|\n{}|-|-|\n",
            "> ".repeat(DEPTH_MAX - 1),
            "> ".repeat(DEPTH_MAX - 1)
        );
        assert!(!to_html(&table).contains("<table"));
    }
}
