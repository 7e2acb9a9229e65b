//! Reading of the application's pages: forms, links, elements with an id, texts.
//!
//! The pages come from templates of this project, so a scan for tags is enough: attributes are
//! quoted with `"`, and `<` in texts is escaped.

/// A form of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Path to which the form is sent.
    pub(crate) action: String,
    /// Names and values of the fields, in the order of the page.
    pub(crate) fields: Vec<(String, String)>,
}

impl Form {
    /// Returns the form with another value of a field, which is added if the form does not have it.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        match self.fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.fields.push((name.to_owned(), value.to_owned())),
        }
        self
    }
}

/// A tag with its attributes as text, and the position after the tag.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    end: usize,
}

/// Returns the next tag at or after `from`; a tag that closes has a name with `/`.
fn next_tag(html: &str, from: usize) -> Option<Tag<'_>> {
    let start = from + html.get(from..)?.find('<')?;
    let end = start + html[start..].find('>')?;
    let inside = html[start + 1..end].trim_end_matches('/');
    let name_end = inside
        .find(|c: char| c.is_ascii_whitespace())
        .unwrap_or(inside.len());
    Some(Tag {
        name: &inside[..name_end],
        attributes: &inside[name_end..],
        end: end + 1,
    })
}

/// Returns the value of an attribute.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        let at = rest.find(&format!("{name}=\""))?;
        let is_whole = rest[..at].ends_with(|c: char| c.is_ascii_whitespace());
        let value = &rest[at + name.len() + 2..];
        if is_whole {
            return Some(unescape(&value[..value.find('"')?]));
        }
        rest = value;
    }
}

/// Replaces the character references that templates write.
pub(crate) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find(';') else { break };
        let reference = &rest[1..end];
        let character = match reference {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            other => number_of(other).and_then(char::from_u32),
        };
        match character {
            Some(character) => plain.push(character),
            None => plain.push_str(&rest[..=end]),
        }
        rest = &rest[end + 1..];
    }
    plain.push_str(rest);
    plain
}

/// Returns the number of a character reference such as `#39` or `#x27`.
fn number_of(reference: &str) -> Option<u32> {
    let digits = reference.strip_prefix('#')?;
    match digits.strip_prefix(['x', 'X']) {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Returns the forms of a page that are sent with POST.
pub(crate) fn forms(html: &str) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    let mut open = false;
    let mut at = 0;
    while let Some(tag) = next_tag(html, at) {
        at = tag.end;
        let named = || attribute(tag.attributes, "name");
        match tag.name {
            "form" => {
                open = attribute(tag.attributes, "method").as_deref() == Some("post");
                if open {
                    forms.push(Form {
                        action: attribute(tag.attributes, "action").unwrap_or_default(),
                        fields: Vec::new(),
                    });
                }
            }
            "/form" => open = false,
            "input" if open => {
                let value = attribute(tag.attributes, "value").unwrap_or_default();
                if let (Some(form), Some(name)) = (forms.last_mut(), named()) {
                    form.fields.push((name, value));
                }
            }
            "textarea" if open => {
                let end = html[at..].find("</textarea").map_or(html.len(), |n| at + n);
                if let (Some(form), Some(name)) = (forms.last_mut(), named()) {
                    form.fields.push((name, unescape(&html[at..end])));
                }
                at = end;
            }
            _ => {}
        }
    }
    forms
}

/// Returns the first form whose action ends with `suffix`.
pub(crate) fn form(html: &str, suffix: &str) -> Option<Form> {
    forms(html)
        .into_iter()
        .find(|form| form.action.ends_with(suffix))
}

/// Returns the paths of all links, in the order of the page.
pub(crate) fn links(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(tag) = next_tag(html, at) {
        at = tag.end;
        if tag.name == "a"
            && let Some(path) = attribute(tag.attributes, "href")
        {
            found.push(path);
        }
    }
    found
}

/// Returns the path of the link to the next page of a list.
pub(crate) fn next_page(html: &str) -> Option<String> {
    let mut at = 0;
    while let Some(tag) = next_tag(html, at) {
        at = tag.end;
        if tag.name == "a" && attribute(tag.attributes, "rel").as_deref() == Some("next") {
            return attribute(tag.attributes, "href");
        }
    }
    None
}

/// Returns the values of `datetime` of all `time` elements inside the first element with the id
/// `id`, up to the next element with the tag `until`.
pub(crate) fn times(html: &str, id: &str, until: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Some(start) = html.find(&format!("id=\"{id}\"")) else {
        return found;
    };
    let mut at = start;
    while let Some(tag) = next_tag(html, at) {
        at = tag.end;
        if tag.name == until {
            break;
        }
        if tag.name == "time" {
            found.extend(attribute(tag.attributes, "datetime"));
        }
    }
    found
}

/// Returns the text of the first `h1`, without tags.
pub(crate) fn heading(html: &str) -> Option<String> {
    let start = html.find("<h1")?;
    let start = start + html[start..].find('>')? + 1;
    let end = start + html[start..].find("</h1>")?;
    let mut text = String::new();
    let mut rest = &html[start..end];
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('>')? + 1..];
    }
    text.push_str(rest);
    Some(unescape(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<form method="get" action="/search"><input name="q" value="x"></form>
        <h1 id="title">A &amp; <b>B</b></h1>
        <ol id="posts"><li><a href="/v3/posts/p">T</a><time datetime="2026-01-02">x</time></li></ol>
        <p><time datetime="2025-01-01">y</time></p>
        <form class="form" method="post" action="/v3/posts/p/comments" data-enhance>
        <input type="hidden" name="csrf" value="a&#34;b">
        <input data-name="no" name="token" value="t"/>
        <textarea id="content" name="content" rows="3">1 &lt; 2</textarea>
        <button class="primary">Comment</button></form>
        <a class="button" href="/v3?after=1&amp;n=2" rel="next">Older</a>"#;

    #[test]
    fn a_form_is_read_with_its_fields() {
        assert_eq!(forms(PAGE).len(), 1);
        let form = form(PAGE, "/comments").expect("a form");
        assert_eq!(form.action, "/v3/posts/p/comments");
        let fields: Vec<(&str, &str)> = form
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            fields,
            [("csrf", "a\"b"), ("token", "t"), ("content", "1 < 2")]
        );
        let changed = form.with("content", "c").with("intent", "publish");
        assert_eq!(changed.fields[2].1, "c");
        assert_eq!(changed.fields.len(), 4);
    }

    #[test]
    fn links_times_and_headings_are_found() {
        assert_eq!(links(PAGE)[0], "/v3/posts/p");
        assert_eq!(next_page(PAGE).as_deref(), Some("/v3?after=1&n=2"));
        assert_eq!(times(PAGE, "posts", "/ol"), ["2026-01-02"]);
        assert_eq!(heading(PAGE).as_deref(), Some("A & B"));
        assert_eq!(unescape("&nbsp;&#x27;&unknown"), "&nbsp;'&unknown");
    }
}
