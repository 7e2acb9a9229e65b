//! The requests that a node may answer from its own copy of the data, and the answers of the copy
//! that a client may get.
//!
//! A copy lags behind the leaseholder. A node therefore answers only reads at the levels Session,
//! ConsistentPrefix and Eventual, and of these only what the copy can answer as the
//! leaseholder could have answered a moment before. All else goes to the leaseholder, and so does
//! each request to which the copy has no final answer.

use http::{HeaderMap, Method};

/// The freshness that a read asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The client sees its own writes: a copy must have reached the session token.
    Session,
    /// Any state of the past.
    Any,
}

/// Returns the freshness of a request that a copy may answer; `None` for a request that the
/// leaseholder must answer. `account` is the name of the consistency level of the account.
///
/// Only reads of items: databases, containers and their ranges are asked for after a change, and a
/// client must not get an older state then. A change feed goes to the leaseholder too: its
/// continuations may be ahead of the copy.
pub fn freshness(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    account: &str,
) -> Option<Freshness> {
    let path = path.trim_matches('/');
    let segments: Vec<&str> = path.split('/').collect();
    let is_of_items = matches!(
        segments.as_slice(),
        ["dbs", _, "colls", _, "docs"] | ["dbs", _, "colls", _, "docs", _]
    );
    let is_read = match *method {
        Method::GET | Method::HEAD => true,
        Method::POST => is_query(headers),
        _ => false,
    };
    if !is_of_items || !is_read || headers.contains_key("a-im") {
        return None;
    }

    // A client may name the level in one of two headers. A value that is not known is refused by
    // the leaseholder.
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    let level = match text("x-ms-cosmos-read-consistency-strategy") {
        Some(strategy) if !strategy.eq_ignore_ascii_case("Default") => strategy,
        _ => text("x-ms-consistency-level").unwrap_or(account),
    };
    let is = |name: &str| level.eq_ignore_ascii_case(name);
    if is("Session") {
        Some(Freshness::Session)
    } else if is("ConsistentPrefix") || is("Eventual") {
        Some(Freshness::Any)
    } else {
        None
    }
}

/// Returns true if a client may get an answer of the copy; false if the leaseholder must be asked.
///
/// The copy may not know yet what the client has written: an item, a container, a permission, or
/// the range that a continuation names. Only an answer that no later write explains is final.
pub fn is_final(freshness: Freshness, status: u16, sub_status: u32) -> bool {
    match status {
        200..=299 | 304 | 412 | 413 | 429 => true,
        404 => freshness == Freshness::Any && sub_status == 0,
        _ => false,
    }
}

/// Returns true for the headers of a query or of a query plan.
pub fn is_query(headers: &HeaderMap) -> bool {
    [
        "x-ms-documentdb-isquery",
        "x-ms-documentdb-query",
        "x-ms-cosmos-is-query-plan-request",
    ]
    .iter()
    .filter_map(|name| headers.get(*name))
    .any(|value| value.as_bytes().eq_ignore_ascii_case(b"true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    const LEVEL: &str = "x-ms-consistency-level";
    const STRATEGY: &str = "x-ms-cosmos-read-consistency-strategy";
    const QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "True");
    const ITEMS: &str = "/dbs/d/colls/c/docs";
    const ITEM: &str = "GET /dbs/d/colls/c/docs/i";

    fn of(request: &str, headers: &[(&'static str, &'static str)], account: &str) -> &'static str {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let method = method.parse().expect("a method");
        match freshness(&method, path, &map, account) {
            Some(Freshness::Session) => "session",
            Some(Freshness::Any) => "any",
            None => "none",
        }
    }

    #[test]
    fn reads_at_weak_levels_may_be_answered_by_a_copy() {
        let post = format!("POST {ITEMS}");
        type Headers = &'static [(&'static str, &'static str)];
        let table: &[(&str, Headers, &str, &str)] = &[
            // Kinds of requests.
            ("GET /dbs/d/colls/c/docs/i", &[], "Session", "session"),
            ("HEAD /dbs/d/colls/c/docs/i", &[], "Session", "session"),
            ("GET /dbs/d/colls/c/docs", &[], "Session", "session"),
            ("GET dbs/d/colls/c/docs/", &[], "Session", "session"),
            ("GET /dbs/d/colls/c/pkranges", &[], "Session", "none"),
            ("GET /dbs/d/colls/c", &[], "Session", "none"),
            ("GET /dbs", &[], "Session", "none"),
            ("GET /", &[], "Session", "none"),
            ("GET /offers", &[], "Session", "none"),
            ("GET /dbsx", &[], "Session", "none"),
            ("GET /_node/hello", &[], "Session", "none"),
            (
                "GET /dbs/d/colls/c/docs",
                &[("a-im", "Incremental feed")],
                "Session",
                "none",
            ),
            (&post, &[], "Session", "none"),
            (&post, &[QUERY], "Session", "session"),
            (
                &post,
                &[("x-ms-documentdb-isquery", "false")],
                "Session",
                "none",
            ),
            (
                &post,
                &[("x-ms-cosmos-is-query-plan-request", "true")],
                "Eventual",
                "any",
            ),
            ("POST /dbs/d/colls/c/sprocs/s", &[], "Eventual", "none"),
            ("PUT /dbs/d/colls/c/docs/i", &[QUERY], "Eventual", "none"),
            ("PATCH /dbs/d/colls/c/docs/i", &[], "Eventual", "none"),
            ("DELETE /dbs/d/colls/c/docs/i", &[], "Eventual", "none"),
            // Levels of the account and of the request.
            (ITEM, &[], "Strong", "none"),
            (ITEM, &[], "BoundedStaleness", "none"),
            (ITEM, &[], "ConsistentPrefix", "any"),
            (ITEM, &[], "Eventual", "any"),
            (ITEM, &[(LEVEL, "eventual")], "Strong", "any"),
            (ITEM, &[(LEVEL, "Session")], "Strong", "session"),
            (ITEM, &[(LEVEL, "Strong")], "Session", "none"),
            (ITEM, &[(LEVEL, "Weak")], "Session", "none"),
            (ITEM, &[(LEVEL, "")], "Session", "none"),
            (ITEM, &[(STRATEGY, "Eventual")], "Session", "any"),
            (ITEM, &[(STRATEGY, "Session")], "Strong", "session"),
            (ITEM, &[(STRATEGY, "LatestCommitted")], "Session", "none"),
            (ITEM, &[(STRATEGY, "GlobalStrong")], "Eventual", "none"),
            (
                ITEM,
                &[(STRATEGY, "Default"), (LEVEL, "Eventual")],
                "Session",
                "any",
            ),
        ];
        for (request, headers, account, expected) in table {
            let found = of(request, headers, account);
            assert_eq!(found, *expected, "{request} {headers:?} {account}");
        }
    }

    #[test]
    fn an_answer_that_a_later_write_may_explain_is_not_final() {
        use Freshness::{Any, Session};
        let table = [
            (200, 0, true, true),
            (206, 0, true, true),
            (304, 0, true, true),
            (400, 0, false, false),
            (400, 1024, false, false),
            (401, 0, false, false),
            (403, 0, false, false),
            (403, 3, false, false),
            (404, 0, false, true),
            (404, 1002, false, false),
            (404, 1003, false, false),
            (408, 0, false, false),
            (410, 0, false, false),
            (410, 1002, false, false),
            (412, 0, true, true),
            (413, 0, true, true),
            (429, 3200, true, true),
            (449, 0, false, false),
            (500, 0, false, false),
            (503, 0, false, false),
        ];
        for (status, sub_status, at_session, at_any) in table {
            let found = [Session, Any].map(|level| is_final(level, status, sub_status));
            assert_eq!(found, [at_session, at_any], "{status}/{sub_status}");
        }
    }
}
