//! Atom feeds (RFC 4287): the newest posts of the site, and of a user.

use crate::frame::path_name;
use crate::pages::read::{Subject, read};
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;

/// A feed. The template escapes the texts.
#[derive(Template)]
#[template(path = "feed.xml")]
struct Feed {
    title: String,
    /// Address of the page that shows the same posts, which is the id of the feed too.
    page: String,
    updated: Timestamp,
    entries: Vec<Entry>,
}

/// A post in a feed.
struct Entry {
    title: String,
    id: String,
    created: Timestamp,
    author: String,
    address: String,
    summary: String,
}

/// `GET /{v}/feed.atom`
pub(crate) async fn site(mut visit: Visit, Path(v): Path<String>) -> Response {
    let result = show(&mut visit, &v, Subject::Front).await;
    visit.answer(result).await
}

/// `GET /{v}/users/{id}/feed.atom`
pub(crate) async fn user(mut visit: Visit, Path((v, id)): Path<(String, String)>) -> Response {
    let result = show(&mut visit, &v, Subject::User(id)).await;
    visit.answer(result).await
}

async fn show(visit: &mut Visit, v: &str, subject: Subject) -> Result<Response, Trouble> {
    let model = visit.enter(v)?;
    let items = read(visit, model, &subject).await?;
    let base = base_url(visit);
    let title = match items.head["username"].as_str() {
        Some(name) => format!("Posts of {}", in_xml(name)),
        None => "Orrery Blog: newest posts".to_owned(),
    };
    let mut entries = Vec::new();
    for post in &items.list.items {
        entries.push(entry(post, &base, &path_name(model)));
    }
    let updated = entries.iter().map(|entry| entry.created).max();
    let feed = Feed {
        title,
        page: format!("{base}/{}{}", path_name(model), subject.path()),
        updated: updated.unwrap_or(Timestamp::UNIX_EPOCH),
        entries,
    };
    let Ok(text) = feed.render() else {
        return Ok(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    };
    let mut response = text.into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/atom+xml; charset=utf-8"),
    );
    Ok(visit.finished(response))
}

fn entry(post: &Value, base: &str, model: &str) -> Entry {
    let text = |name: &str| post[name].as_str().unwrap_or_default();
    let created: Option<Timestamp> = text("creationDate").parse().ok();
    Entry {
        title: in_xml(text("title")),
        // The id is the same in every model, since the post is.
        id: in_xml(&format!("urn:uuid:{}", text("id"))),
        created: created.unwrap_or(Timestamp::UNIX_EPOCH),
        author: in_xml(text("userUsername")),
        address: in_xml(&format!("{base}/{model}/posts/{}", text("id"))),
        summary: in_xml(&crate::text::excerpt_of(post)),
    }
}

/// Returns a text without the characters that XML 1.0 excludes (production `Char`), which no
/// escape can express: a reader of the feed would refuse the whole feed.
fn in_xml(text: &str) -> String {
    let is_allowed = |c: &char| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => *c >= ' ',
    };
    text.chars().filter(is_allowed).collect()
}

/// Returns the address of the site as the reader of the feed named it.
fn base_url(visit: &Visit) -> String {
    let host = visit.headers.get(header::HOST);
    let host = host
        .and_then(|host| host.to_str().ok())
        .unwrap_or("localhost");
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
    match host.bytes().all(is_host) {
        true => format!("http://{host}"),
        false => "http://localhost".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_xml_excludes_are_left_out() {
        let text = "a\u{fffe}b\u{ffff}c\u{1}d\u{fdd0}\u{1ffff}\tä";
        assert_eq!(in_xml(text), "abcd\u{fdd0}\u{1ffff}\tä");
    }

    #[test]
    fn a_feed_has_the_elements_that_rfc_4287_requires_and_escapes_texts() {
        let post = serde_json::json!({
            "id": "7", "title": "<b> & \"c\"", "content": "1 < 2\u{1}", "userUsername": "d'e",
            "creationDate": "2026-11-02T03:04:05.678Z",
        });
        let entries = vec![entry(&post, "http://localhost:8083", "v3")];
        let feed = Feed {
            title: "Posts of d'e".to_owned(),
            page: "http://localhost:8083/v3".to_owned(),
            updated: entries[0].created,
            entries,
        };
        let expected = r#"<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <title>Posts of d&#39;e</title>
  <id>http://localhost:8083/v3</id>
  <updated>2026-11-02T03:04:05.678Z</updated>
  <link href="http://localhost:8083/v3" rel="alternate"/>
  <link href="http://localhost:8083/v3/feed.atom" rel="self"/>
  <entry>
    <title>&#60;b&#62; &#38; &#34;c&#34;</title>
    <id>urn:uuid:7</id>
    <updated>2026-11-02T03:04:05.678Z</updated>
    <published>2026-11-02T03:04:05.678Z</published>
    <author><name>d&#39;e</name></author>
    <link href="http://localhost:8083/v3/posts/7" rel="alternate"/>
    <summary>1 &#60; 2</summary>
  </entry>
</feed>"#;
        assert_eq!(feed.render().unwrap(), expected);
    }
}
