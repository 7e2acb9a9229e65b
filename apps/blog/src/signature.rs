//! Signing a request with the master key, and the spelling of what is signed.
//!
//! The signature covers method, resource type, link and date; the link is signed as it reads, and escaped only in the
//! path. Keys of logical partitions travel in a header, and so in pure ASCII.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use sha2::Sha256;
use std::fmt::Write as _;

/// Characters that a path segment and a token carry unescaped.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// The `authorization` header of a request.
pub(crate) fn authorization(
    key: &[u8],
    method: &str,
    kind: &str,
    link: &str,
    date: &str,
) -> String {
    let token = format!(
        "type=master&ver=1.0&sig={}",
        signature(key, method, kind, link, date)
    );
    utf8_percent_encode(&token, UNESCAPED).to_string()
}

/// The header that names a logical partition: a JSON array in pure ASCII.
pub(crate) fn key_header(key: &str) -> (&'static str, String) {
    let mut text = String::new();
    for unit in json!([key]).to_string().encode_utf16() {
        match u8::try_from(unit) {
            Ok(ascii) if ascii < 0x7f => text.push(char::from(ascii)),
            _ => write!(text, "\\u{unit:04x}").unwrap_or_default(),
        }
    }
    ("x-ms-documentdb-partitionkey", text)
}

/// A path as it goes over the wire: every segment escaped, with a first slash.
pub(crate) fn escaped_path(path: &str) -> String {
    path.split('/').fold(
        String::with_capacity(path.len() + 8),
        |mut escaped, segment| {
            escaped.push('/');
            escaped.extend(utf8_percent_encode(segment, UNESCAPED));
            escaped
        },
    )
}

/// A time as HTTP writes it: `Thu, 27 Apr 2017 00:51:12 GMT`.
pub(crate) fn http_date(time: jiff::Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The signature of a request: HMAC-SHA256 over method, resource type, link and date, in base64.
fn signature(key: &[u8], method: &str, kind: &str, link: &str, date: &str) -> String {
    let text = format!(
        "{}\n{kind}\n{link}\n{}\n\n",
        method.to_lowercase(),
        date.to_lowercase()
    );
    // HMAC takes a key of any length, so this cannot fail; an empty signature would be refused by every server.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(text.as_bytes());
    BASE64.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATOR_KEY: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    #[test]
    fn signatures_agree_with_the_published_vectors() {
        let date = "Thu, 27 Apr 2017 00:51:12 GMT";
        let key = BASE64.decode(EMULATOR_KEY).unwrap();
        for (method, kind, link, expected) in [
            (
                "GET",
                "",
                "",
                "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=",
            ),
            (
                "POST",
                "dbs",
                "",
                "CHjhNtQltyEuPdWLf2/f+hSkSlYg+7UuFlwMyv8L7mI=",
            ),
            (
                "GET",
                "dbs",
                "dbs/blog",
                "5eRDPOzrfTc/sMFo1/syR2b/i956iQcTIM93P6GRHAI=",
            ),
            (
                "POST",
                "colls",
                "dbs/blog",
                "0uF3JRbdbzYa9bS+xfRbTj4eSZGXKIb17vmE3ORe/rQ=",
            ),
            (
                "POST",
                "docs",
                "dbs/blog/colls/posts",
                "md9cVDFYdxfs/Bcz9bGzy1M+iNX44fo9EoiHmJWb8H8=",
            ),
            (
                "GET",
                "docs",
                "dbs/blog/colls/posts/docs/p1",
                "ARkX7fC3jjnNdOtq3lkxRceA11gnXRoKfTFJsscv9bE=",
            ),
            (
                "GET",
                "pkranges",
                "dbs/blog/colls/posts",
                "LVR8aALep1UJ/jGti5BQLMSaUWLHB7ttFGnd9GB0GAk=",
            ),
        ] {
            assert_eq!(
                signature(&key, method, kind, link, date),
                expected,
                "{method} {kind} {link}"
            );
        }
        let docs_key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
        let key = BASE64.decode(docs_key).unwrap();
        let signed = signature(&key, "GET", "dbs", "dbs/ToDoList", date);
        assert_eq!(signed, "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c=");
    }

    #[test]
    fn dates_are_written_as_http_wants_them() {
        let time = jiff::Timestamp::from_second(1_493_254_272).unwrap();
        assert_eq!(http_date(time), "Thu, 27 Apr 2017 00:51:12 GMT");
    }

    #[test]
    fn keys_and_paths_travel_in_ascii() {
        assert_eq!(key_header("a\"é😀").1, r#"["a\"\u00e9\ud83d\ude00"]"#);
        assert_eq!(
            escaped_path("dbs/a b/colls/+é"),
            "/dbs/a%20b/colls/%2B%C3%A9"
        );
    }
}
