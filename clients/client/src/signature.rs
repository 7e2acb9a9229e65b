//! Signatures with the master key, and the encoding of paths, dates and texts in headers.
//!
//! The signature covers method, resource type, link and date. The signed link is not escaped; the
//! path of the request is. JSON in a header, such as a partition key, is sent in ASCII.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::Sha256;
use std::fmt::Write as _;

/// Characters that are not escaped in a path segment or token, besides letters and digits: those
/// that RFC 3986 calls unreserved.
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Returns the value of the `authorization` header.
pub fn authorization(
    key: &[u8],
    method: &str,
    resource_type: &str,
    link: &str,
    date: &str,
) -> String {
    let token = format!(
        "type=master&ver=1.0&sig={}",
        signature(key, method, resource_type, link, date)
    );
    escaped_token(&token)
}

/// Returns a token of any kind as the value of the `authorization` header.
pub fn escaped_token(token: &str) -> String {
    utf8_percent_encode(token, UNESCAPED).to_string()
}

/// Returns a JSON text in ASCII, for a header: other characters stand as `\uXXXX`.
pub fn ascii_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for unit in json.encode_utf16() {
        match u8::try_from(unit) {
            Ok(ascii) if ascii < 0x7f => text.push(char::from(ascii)),
            _ => write!(text, "\\u{unit:04x}").unwrap_or_default(),
        }
    }
    text
}

/// Returns the escaped path with a first slash.
pub fn escaped_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len() + 8);
    for segment in path.split('/') {
        escaped.push('/');
        escaped.extend(utf8_percent_encode(segment, UNESCAPED));
    }
    escaped
}

/// Returns a time in the format of HTTP headers: `Thu, 27 Apr 2017 00:51:12 GMT`.
pub fn http_date(time: jiff::Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Returns the signature of a request in base64: HMAC-SHA256 over method, resource type, link and
/// date.
fn signature(key: &[u8], method: &str, resource_type: &str, link: &str, date: &str) -> String {
    let text = format!(
        "{}\n{resource_type}\n{link}\n{}\n\n",
        method.to_lowercase(),
        date.to_lowercase()
    );
    // HMAC accepts keys of any length, so this branch is never taken. Every server would refuse an
    // empty signature.
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

    /// The key of the example in the documentation of the REST API.
    const DOCUMENTATION_KEY: &str =
        "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";

    #[test]
    fn signatures_agree_with_the_published_vectors() {
        let date = "Thu, 27 Apr 2017 00:51:12 GMT";
        let key = BASE64.decode(EMULATOR_KEY).unwrap();
        for (method, resource_type, link, expected) in [
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
                signature(&key, method, resource_type, link, date),
                expected,
                "{method} {resource_type} {link}"
            );
        }
        let key = BASE64.decode(DOCUMENTATION_KEY).unwrap();
        let signed = signature(&key, "GET", "dbs", "dbs/ToDoList", date);
        assert_eq!(signed, "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c=");
    }

    #[test]
    fn dates_have_the_format_of_http_headers() {
        let time = jiff::Timestamp::from_second(1_493_254_272).unwrap();
        assert_eq!(http_date(time), "Thu, 27 Apr 2017 00:51:12 GMT");
    }

    #[test]
    fn texts_of_headers_and_paths_are_encoded_in_ascii() {
        assert_eq!(ascii_json("[\"é😀\"]"), r#"["\u00e9\ud83d\ude00"]"#);
        assert_eq!(
            escaped_path("dbs/a b/colls/+é"),
            "/dbs/a%20b/colls/%2B%C3%A9"
        );
    }
}
