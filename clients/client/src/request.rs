//! One request: method, path, headers and body. The signed parts follow from the path.

use bytes::Bytes;
use http::Method;

/// A header as name and value.
pub type Header = (&'static str, String);

/// A request to the database.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) method: Method,
    /// Path without its first slash, not yet escaped.
    pub(crate) path: String,
    /// Query string, escaped; empty for none.
    pub(crate) query: &'static str,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Bytes,
    /// True if the request may be sent again although the server may have carried it out.
    pub(crate) is_repeatable: bool,
}

impl Request {
    /// Creates a request for a path without its first slash, for example
    /// `dbs/shop/colls/orders/docs`. The path is not escaped; the empty path is the account. A
    /// request with GET or HEAD is repeated after a broken connection.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        let is_repeatable = method == Method::GET || method == Method::HEAD;
        Self {
            method,
            path: path.into(),
            query: "",
            headers: Vec::new(),
            body: Bytes::new(),
            is_repeatable,
        }
    }

    /// Creates the request for the addresses at which clients of the direct mode find what is above
    /// containers. It is signed as the list of databases.
    pub fn master_addresses() -> Self {
        Self {
            query: "$resolveFor=dbs&$filter=protocol%20eq%20rntbd",
            ..Self::new(Method::GET, "addresses")
        }
    }

    /// Adds a header. A header given here replaces the client's own of the same name, except
    /// `authorization`.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets the body, which is JSON unless a header says otherwise.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Allows the client to send the request again after a broken connection: to carry it out twice
    /// has the effect of once.
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns method and path, for messages.
    pub(crate) fn operation(&self) -> String {
        format!("{} /{}", self.method, self.path)
    }

    /// Returns the resource type and the link that the signature covers.
    ///
    /// The path of a feed ends with a resource type and is signed with the link of its parent. An
    /// offer is signed with its resource id alone, in lower case, and an operation on a container
    /// as the container.
    pub(crate) fn signed_parts(&self) -> (String, String) {
        let segments: Vec<&str> = self.path.split('/').filter(|s| !s.is_empty()).collect();
        match segments.as_slice() {
            [] => (String::new(), String::new()),
            ["addresses"] => ("dbs".to_owned(), String::new()),
            ["offers", rid] => ("offers".to_owned(), rid.to_lowercase()),
            ["dbs", _, "colls", _, "operations", _] => {
                ("colls".to_owned(), segments[..4].join("/"))
            }
            [parent @ .., feed] if segments.len() % 2 == 1 => {
                ((*feed).to_owned(), parent.join("/"))
            }
            [.., resource_type, _] => ((*resource_type).to_owned(), segments.join("/")),
            [_] => (String::new(), String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_parts_follow_from_the_path() {
        for (path, resource_type, link) in [
            ("", "", ""),
            ("dbs", "dbs", ""),
            ("dbs/shop", "dbs", "dbs/shop"),
            ("dbs/shop/colls", "colls", "dbs/shop"),
            (
                "dbs/shop/colls/orders/docs",
                "docs",
                "dbs/shop/colls/orders",
            ),
            (
                "dbs/shop/colls/orders/docs/O 1",
                "docs",
                "dbs/shop/colls/orders/docs/O 1",
            ),
            ("offers", "offers", ""),
            ("offers/AbC=", "offers", "abc="),
            (
                "dbs/shop/colls/orders/operations/partitionkeydelete",
                "colls",
                "dbs/shop/colls/orders",
            ),
        ] {
            let request = Request::new(Method::GET, path);
            let expected = (resource_type.to_owned(), link.to_owned());
            assert_eq!(request.signed_parts(), expected, "{path}");
        }
    }
}
