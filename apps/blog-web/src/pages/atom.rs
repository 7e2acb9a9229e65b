//! Atom feeds: the newest posts of the site, and of a user.

use crate::frame::path_name;
use crate::pages::read::{Subject, read};
use crate::trouble::Trouble;
use crate::visit::Visit;
use atom_syndication::{Entry, Feed, FixedDateTime, Link, Person, Text};
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::Value;

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
    let page = format!("{base}/{}{}", path_name(model), subject.path());
    let title = match items.head["username"].as_str() {
        Some(name) => format!("Posts of {}", in_xml(name)),
        None => "Orrery Blog: newest posts".to_owned(),
    };
    let entries: Vec<Entry> = items
        .list
        .items
        .iter()
        .map(|post| entry(post, &base, &path_name(model)))
        .collect();
    let updated = entries.iter().map(|entry| entry.updated).max();
    let feed = Feed {
        title: Text::plain(title),
        id: page.clone(),
        updated: updated.unwrap_or_default(),
        links: vec![
            link(&page, "alternate"),
            link(&format!("{page}/feed.atom"), "self"),
        ],
        entries,
        ..Feed::default()
    };
    let mut response = feed.to_string().into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/atom+xml; charset=utf-8"),
    );
    Ok(visit.finished(response))
}

fn entry(post: &Value, base: &str, model: &str) -> Entry {
    let text = |name: &str| post[name].as_str().unwrap_or_default();
    let address = format!("{base}/{model}/posts/{}", text("id"));
    let created: FixedDateTime = text("creationDate").parse().unwrap_or_default();
    Entry {
        title: Text::plain(in_xml(text("title"))),
        // The id is the same in every model, since the post is.
        id: format!("urn:uuid:{}", text("id")),
        updated: created,
        published: Some(created),
        authors: vec![Person {
            name: in_xml(text("userUsername")),
            ..Person::default()
        }],
        links: vec![link(&address, "alternate")],
        summary: Some(Text::plain(in_xml(&crate::text::shortened(text(
            "content",
        ))))),
        ..Entry::default()
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

fn link(address: &str, relation: &str) -> Link {
    Link {
        href: address.to_owned(),
        rel: relation.to_owned(),
        ..Link::default()
    }
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
        let post = serde_json::json!({"id": "p", "title": text, "content": text});
        let feed = Feed {
            entries: vec![entry(&post, "http://localhost", "v3")],
            ..Feed::default()
        };
        assert!(feed.to_string().parse::<Feed>().is_ok());
    }
}
