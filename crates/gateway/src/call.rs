//! One request in our words: its path, what its headers ask, its body; and how these name databases, containers, keys
//! and scopes.

use crate::auth::Caller;
use crate::headers::{Content, RequestHeaders};
use crate::options::Account;
use crate::route::{Path, Target};
use bytes::Bytes;
use orrery_engine::request::{Id, PageRequest, Scope};
use orrery_engine::{Container, Database, Engine};
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, EpkRange, PartitionKey};
use orrery_model::{Error, Json, Kind, Object, Result};
use std::sync::Arc;

/// A request whose sender and headers have been checked.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) path: Path,
    pub(crate) target: Target,
    pub(crate) headers: RequestHeaders,
    pub(crate) body: Bytes,
    pub(crate) account: Arc<Account>,
    /// The scheme and host by which the client came.
    pub(crate) scheme: &'static str,
    pub(crate) host: Option<String>,
}

/// A query as a client sent it.
pub(crate) struct QueryText {
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, Json)>,
    /// `resumeFilter`: where a client that merges resumes an ORDER BY.
    pub(crate) resume_filter: Option<Json>,
}

impl Call {
    /// The database of the path.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn database(&self, engine: &Engine) -> Result<Arc<Database>> {
        self.path.database(engine).map(|(database, _)| database)
    }

    /// Whether ids in the path are resource ids.
    pub(crate) fn by_rid(&self, engine: &Engine) -> bool {
        self.path.is_by_rid(engine)
    }

    /// The container of the path.
    ///
    /// # Errors
    /// 404 if it is missing, 404/1003 if its database is; 400/1024 if it is not the one that the client means.
    pub(crate) fn container(&self, engine: &Engine) -> Result<Arc<Container>> {
        let found = self.path.container(engine)?;
        match &self.headers.intended_container {
            Some(intended) if *intended != found.rid().to_string() => Err(Error::new(
                Kind::ContainerRidMismatch,
                format!(
                    "The container's resource id is '{}' and not '{intended}' as the client believes.",
                    found.rid()
                ),
            )),
            _ => Ok(found),
        }
    }

    /// The item or script of the path.
    ///
    /// # Errors
    /// 404 if the path is by resource id and this is none.
    pub(crate) fn child_id(&self, engine: &Engine) -> Result<Id<'_>> {
        self.path.child_id(engine).ok_or_else(Error::not_found)
    }

    /// The key that an operation on one logical partition must name.
    ///
    /// # Errors
    /// 400 if it does not.
    pub(crate) fn required_key(&self, container: &Container) -> Result<PartitionKey> {
        match &self.headers.partition_key {
            Some(key) => Ok(key.clone()),
            None if container.partition_key().is_system_key() => Ok(PartitionKey::new(Vec::new())),
            None => Err(Error::bad(
                "PartitionKey value must be supplied for this operation (header x-ms-documentdb-partitionkey).",
            )),
        }
    }

    /// The key of the header, where `[]` on a container with a key of its own means none.
    pub(crate) fn optional_key(&self, container: &Container) -> Option<&PartitionKey> {
        let system_key = container.partition_key().is_system_key();
        self.headers
            .partition_key
            .as_ref()
            .filter(|key| !key.is_empty() || system_key)
    }

    /// The part of a container that a feed covers: as [`Call::scope`], but `[]` is a key, and mostly not one of the
    /// container's, and a range that does not hold the key named too has nothing of it.
    ///
    /// # Errors
    /// As [`Call::scope`], and 400/1001 for `[]`.
    pub(crate) fn feed_scope(&self, container: &Container) -> Result<Scope> {
        // Clients that go from range to range with a key want each item once.
        if let (Some(key), Some(id)) = (self.optional_key(container), self.range_id(container)?)
            && lies_elsewhere(container, key, id)
        {
            return Ok(Scope::Range {
                id,
                within: Some(container.partition_key().epk_range(key)),
            });
        }
        let scope = self.scope(container)?;
        if self.headers.partition_key.is_some() && self.optional_key(container).is_none() {
            return Err(Error::partition_key_mismatch());
        }
        Ok(scope)
    }

    /// The part of a container that a query covers. Of a key and a range the key says more, but the range must exist.
    ///
    /// # Errors
    /// 410 for a range of another container or one that is gone; 400 for a stretch that ends before it begins, or lies
    /// outside of the key that is named too.
    pub(crate) fn scope(&self, container: &Container) -> Result<Scope> {
        let within = self.within()?;
        let range = self.range_id(container)?;
        match (self.optional_key(container), range) {
            (Some(key), _) => key_scope(container, key, within),
            (None, Some(id)) => Ok(Scope::Range { id, within }),
            (None, None) => Ok(within.map_or(Scope::Everything, Scope::Epk)),
        }
    }

    /// The physical partition that the headers name.
    ///
    /// # Errors
    /// 410.
    pub(crate) fn range_id(&self, container: &Container) -> Result<Option<u32>> {
        let Some(range) = &self.headers.range else {
            return Ok(None);
        };
        if range
            .container
            .as_ref()
            .is_some_and(|rid| *rid != container.rid().to_string())
        {
            return Err(Error::new(
                Kind::NameCacheIsStale,
                "The partition key range belongs to another container: this one was replaced.",
            ));
        }
        let exists = range.id.filter(|id| container.has_range(*id));
        let gone = || {
            Error::new(
                Kind::PartitionKeyRangeGone,
                "The requested partition key range does not exist.",
            )
        };
        exists.map(Some).ok_or_else(gone)
    }

    fn within(&self) -> Result<Option<EpkRange>> {
        let (start, end) = (&self.headers.start_epk, &self.headers.end_epk);
        if start.is_none() && end.is_none() {
            return Ok(None);
        }
        let min = start.clone().unwrap_or_else(Epk::min);
        let max = end.clone().unwrap_or_else(Epk::max);
        if max < min {
            return Err(Error::bad(
                "The header 'x-ms-end-epk' is less than 'x-ms-start-epk'.",
            ));
        }
        Ok(Some(EpkRange::new(min, max)))
    }

    /// The page that is asked for.
    pub(crate) fn page(&self) -> PageRequest {
        PageRequest {
            max_items: self.headers.max_items.limit(),
            continuation: self.headers.continuation.clone(),
            continuation_limit_kb: self.headers.continuation_limit_kb,
        }
    }

    /// The body as a JSON object.
    ///
    /// # Errors
    /// 400 if it is something else.
    pub(crate) fn object(&self) -> Result<Object> {
        match parse_body(&self.body)? {
            Json::Object(object) => Ok(object),
            _ => Err(Error::bad(
                "The input content is invalid: the body is not a JSON object.",
            )),
        }
    }

    /// The body as a query: text alone, or JSON with text and parameters.
    ///
    /// # Errors
    /// 400 if it is something else.
    pub(crate) fn query_text(&self) -> Result<QueryText> {
        if self.headers.content == Content::Sql {
            let text = std::str::from_utf8(&self.body)
                .map_err(|_| Error::bad("The query text is not UTF-8."))?;
            return Ok(QueryText {
                text: text.to_owned(),
                parameters: Vec::new(),
                resume_filter: None,
            });
        }
        let body = self.object()?;
        let text = body.get("query").and_then(Json::as_str).ok_or_else(|| {
            Error::bad("The input content is invalid because the required properties - 'query; ' - are missing")
        })?;
        let resume_filter = body
            .get("resumeFilter")
            .filter(|filter| **filter != Json::Null)
            .cloned();
        if resume_filter
            .as_ref()
            .is_some_and(|filter| filter.as_object().is_none())
        {
            return Err(Error::bad(
                "The member 'resumeFilter' of a query must be an object.",
            ));
        }
        let parameters = match body.get("parameters") {
            None | Some(Json::Null) => Vec::new(),
            Some(list) => list
                .as_array()
                .ok_or_else(bad_parameters)?
                .iter()
                .map(parameter)
                .collect::<Result<_>>()?,
        };
        Ok(QueryText {
            text: text.to_owned(),
            parameters,
            resume_filter,
        })
    }
}

fn key_scope(container: &Container, key: &PartitionKey, within: Option<EpkRange>) -> Result<Scope> {
    let Some(within) = within else {
        return Ok(Scope::Key(key.clone()));
    };
    let of_key = container.partition_key().epk_range(key);
    if within.contains_range(&of_key)
        || within.contains(&container.partition_key().epk(key)) && is_whole(container, key)
    {
        return Ok(Scope::Key(key.clone()));
    }
    let both = of_key.intersection(&within);
    both.map(Scope::Epk).ok_or_else(|| {
        Error::bad("The partition key lies outside of the effective key range named too.")
    })
}

/// Whether a partition of this id is there and holds nothing of the key.
fn lies_elsewhere(container: &Container, key: &PartitionKey, id: u32) -> bool {
    let of_key = container.partition_key().epk_range(key);
    !key.is_empty()
        && container
            .range_of(id)
            .is_some_and(|range| range.intersection(&of_key).is_none())
}

fn is_whole(container: &Container, key: &PartitionKey) -> bool {
    container.partition_key().check(key).is_ok()
}

/// The body as JSON.
///
/// # Errors
/// 400 if it is none.
pub(crate) fn parse_body(body: &[u8]) -> Result<Json> {
    parse(body).map_err(|error| Error::bad(format!("The input content is invalid: {error}.")))
}

fn bad_parameters() -> Error {
    Error::bad(
        "The member 'parameters' of a query must be an array of objects with a 'name' and a 'value'.",
    )
}

fn parameter(parameter: &Json) -> Result<(String, Json)> {
    let name = parameter
        .get("name")
        .and_then(Json::as_str)
        .filter(|n| n.starts_with('@'))
        .ok_or_else(bad_parameters)?;
    let value = parameter.get("value").ok_or_else(bad_parameters)?;
    Ok((name.to_owned(), value.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(content: Content, body: &'static str) -> Call {
        let headers = RequestHeaders {
            content,
            ..RequestHeaders::default()
        };
        let path = Path::parse("/dbs/d/colls/c/docs").expect("a path");
        let account = Arc::default();
        let (caller, body) = (Caller::ReadOnlyKey, Bytes::from(body));
        Call {
            caller,
            path,
            target: Target::Items,
            headers,
            body,
            account,
            scheme: "http",
            host: None,
        }
    }

    #[test]
    fn a_query_is_json_or_bare_text() {
        let query = call(
            Content::Query,
            r#"{"query":"SELECT 1","parameters":[{"name":"@a","value":null}]}"#,
        );
        let query = query.query_text().expect("a query");
        assert_eq!(query.text, "SELECT 1");
        assert_eq!(query.parameters, [("@a".to_owned(), Json::Null)]);
        assert_eq!(
            call(Content::Sql, "SELECT 2")
                .query_text()
                .expect("a query")
                .text,
            "SELECT 2"
        );
        for none in [
            r#"{"query":"q"}"#,
            r#"{"query":"q","parameters":null}"#,
            r#"{"query":"q","parameters":[]}"#,
        ] {
            assert!(
                call(Content::Query, none)
                    .query_text()
                    .expect(none)
                    .parameters
                    .is_empty()
            );
        }
    }

    #[test]
    fn a_body_that_is_no_query_is_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"query":1}"#,
            r#"{"query":"q","parameters":{}}"#,
            r#"{"query":"q","parameters":[{"name":"a","value":1}]}"#,
            r#"{"query":"q","parameters":[{"name":"@a"}]}"#,
            r#"{"query":"q","resumeFilter":[1]}"#,
        ] {
            let error = call(Content::Query, body)
                .query_text()
                .map(|q| q.text)
                .expect_err(body);
            assert_eq!(error.status(), 400);
        }
    }

    #[test]
    fn a_stretch_of_hash_space_has_defaults_and_an_order() {
        let mut c = call(Content::Json, "");
        assert_eq!(c.within().expect("none"), None);
        c.headers.end_epk = Some(Epk::from_hex("1F").expect("hex"));
        assert_eq!(c.within().expect("one").expect("a range").min, Epk::min());
        c.headers.start_epk = Some(Epk::from_hex("2F").expect("hex"));
        assert_eq!(c.within().expect_err("backwards").status(), 400);
    }
}
