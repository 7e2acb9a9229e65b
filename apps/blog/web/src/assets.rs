//! The built style sheet, scripts and icons, embedded in the program.
//!
//! `manifest.json` maps a name (`blog.css`) to the file with the hash of its content in its name.
//! Such a file never changes, so browsers may keep it forever. A name without hash leads to the
//! current file. Compressed copies (`.br`, `.gz`) are made by the build and sent to browsers that
//! accept them.

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use rust_embed::RustEmbed;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

#[derive(RustEmbed)]
#[folder = "dist"]
struct Built;

/// Names to file names.
static MANIFEST: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let file = Built::get("manifest.json");
    let parsed = file.and_then(|file| serde_json::from_slice(&file.data).ok());
    parsed.unwrap_or_default()
});

/// Returns the path of the asset `name`.
pub(crate) fn path(name: &str) -> String {
    let file = MANIFEST.get(name).map_or(name, String::as_str);
    format!("/assets/{file}")
}

/// `GET /assets/{name}`
pub(crate) async fn show(Path(name): Path<String>, headers: HeaderMap) -> Response {
    if let Some(file) = MANIFEST.get(&name)
        && *file != name
    {
        return Redirect::temporary(&format!("/assets/{file}")).into_response();
    }
    let is_public = MANIFEST.values().any(|file| *file == name);
    let Some(file) = Built::get(&name).filter(|_| is_public) else {
        return (StatusCode::NOT_FOUND, "There is no such file.").into_response();
    };
    let (data, encoding) = best_encoding(&name, file.data, &headers);
    let etag = format!("\"{name}{}\"", encoding.unwrap_or_default());
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .any(|known| known.as_bytes() == etag.as_bytes());
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(data.into_owned()))
    };
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, content_type(&name));
    out.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    out.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        out.insert(header::ETAG, etag);
    }
    if let Some(encoding) = encoding {
        out.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// Returns the compressed copy of a file that the browser accepts, or the file itself.
fn best_encoding(
    name: &str,
    plain: Cow<'static, [u8]>,
    headers: &HeaderMap,
) -> (Cow<'static, [u8]>, Option<&'static str>) {
    for (encoding, extension) in [("br", "br"), ("gzip", "gz")] {
        if !accepts(headers, encoding) {
            continue;
        }
        if let Some(file) = Built::get(&format!("{name}.{extension}")) {
            return (file.data, Some(encoding));
        }
    }
    (plain, None)
}

/// Returns true if `Accept-Encoding` names the encoding with a quality above 0.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let Some(accepted) = accepted.and_then(|value| value.to_str().ok()) else {
        return false;
    };
    for part in accepted.split(',') {
        let mut parameters = part.split(';').map(str::trim);
        if parameters.next() != Some(encoding) {
            continue;
        }
        let quality = parameters.find_map(|parameter| parameter.strip_prefix("q="));
        return quality.is_none_or(|quality| quality.parse().unwrap_or(0.0) > 0.0);
    }
    false
}

fn content_type(name: &str) -> HeaderValue {
    HeaderValue::from_static(match name.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        _ => "application/octet-stream",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_that_pages_name_is_built() {
        for name in ["blog.css", "blog.js", "theme.js", "icon.svg", "icons.svg"] {
            let path = path(name);
            let file = path.trim_start_matches("/assets/");
            assert!(Built::get(file).is_some(), "{name}");
        }
    }

    #[test]
    fn an_encoding_of_quality_0_is_not_accepted() {
        let headers = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            headers
        };
        assert!(accepts(&headers("gzip, br;q=0.5"), "br"));
        assert!(!accepts(&headers("gzip, br;q=0"), "br"));
        assert!(!accepts(&headers("gzip"), "br"));
        assert!(!accepts(&HeaderMap::new(), "br"));
    }
}
