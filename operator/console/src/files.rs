//! The built files of the pages: embedded in the program, or read from a directory while the pages
//! are being written.
//!
//! The name of a file contains a hash of its content, so browsers may keep it forever; only
//! `index.html` keeps its name. Compressed copies (`.br`, `.gz`) stand beside the embedded files.

use bytes::Bytes;
use http::{HeaderMap, header};
use rust_embed::RustEmbed;
use std::borrow::Cow;
use std::path::PathBuf;

#[derive(RustEmbed)]
#[folder = "dist"]
struct Built;

/// The page that loads all others.
const INDEX: &str = "index.html";

/// A file as it is sent.
pub(crate) struct File {
    /// Content, compressed if `encoding` is set.
    pub(crate) data: Bytes,
    /// Value of the header `content-type`.
    pub(crate) content_type: &'static str,
    /// Value of the header `content-encoding`.
    pub(crate) encoding: Option<&'static str>,
}

/// The source of the files.
pub(crate) struct Files {
    /// Directory in place of the embedded files.
    pub(crate) directory: Option<PathBuf>,
}

impl Files {
    /// Returns the text of the page that loads all others; `None` if it was not built.
    pub(crate) fn index(&self) -> Option<String> {
        let data = self.read(INDEX)?;
        Some(String::from_utf8_lossy(&data).into_owned())
    }

    /// Returns a file in the encoding that the browser prefers; `None` for names without a file.
    pub(crate) fn find(&self, name: &str, headers: &HeaderMap) -> Option<File> {
        let content_type = content_type(name)?;
        for (encoding, suffix) in [("br", "br"), ("gzip", "gz")] {
            if accepts(headers, encoding)
                && let Some(data) = self.read(&format!("{name}.{suffix}"))
            {
                return Some(File {
                    data: shared(data),
                    content_type,
                    encoding: Some(encoding),
                });
            }
        }
        let data = self.read(name)?;
        Some(File {
            data: shared(data),
            content_type,
            encoding: None,
        })
    }

    fn read(&self, name: &str) -> Option<Cow<'static, [u8]>> {
        // Only plain names exist, so that no name leaves the directory.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.starts_with('.') || !name.bytes().all(is_plain) {
            return None;
        }
        match &self.directory {
            Some(directory) => std::fs::read(directory.join(name)).ok().map(Cow::Owned),
            None => Built::get(name).map(|file| file.data),
        }
    }
}

fn shared(data: Cow<'static, [u8]>) -> Bytes {
    match data {
        Cow::Borrowed(data) => Bytes::from_static(data),
        Cow::Owned(data) => Bytes::from(data),
    }
}

/// Returns the type of a file that pages load; `None` for other files, such as the manifest.
fn content_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1 {
        "css" => Some("text/css; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_the_directory_and_only_files_of_pages_are_sent() {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = directory.path().join("dist");
        std::fs::create_dir(&inner).expect("created");
        for (name, text) in [
            ("../secret.js", "s"),
            ("main.js", "m"),
            ("manifest.json", "{}"),
        ] {
            std::fs::write(inner.join(name), text).expect("written");
        }
        let files = Files {
            directory: Some(inner),
        };
        let none = HeaderMap::new();
        assert!(files.find("main.js", &none).is_some());
        for name in [
            "../secret.js",
            "..%2fsecret.js",
            "/main.js",
            "manifest.json",
            ".js",
            "",
        ] {
            assert!(files.find(name, &none).is_none(), "{name}");
        }
    }

    #[test]
    fn the_pages_are_embedded() {
        let files = Files { directory: None };
        let index = files.index().expect("built");
        assert!(index.contains("{{nonce}}"), "{index}");
    }

    #[test]
    fn an_encoding_of_quality_0_is_not_accepted() {
        let headers = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                header::ACCEPT_ENCODING,
                http::HeaderValue::from_static(value),
            );
            headers
        };
        assert!(accepts(&headers("gzip, br;q=0.5"), "br"));
        assert!(!accepts(&headers("gzip, br;q=0"), "br"));
        assert!(!accepts(&headers("gzip"), "br"));
        assert!(!accepts(&HeaderMap::new(), "br"));
    }
}
