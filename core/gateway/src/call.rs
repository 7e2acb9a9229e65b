//! A checked request, and what its path, headers and body name: databases, containers, partition
//! keys, EPK ranges, pages and queries.

use crate::account::{Account, AccountRegions};
use crate::auth::Caller;
use crate::direct::DirectPlaces;
use crate::headers::{Content, RequestHeaders};
use crate::route::{Path, Target};
use bytes::Bytes;
use orrery_engine::request::{Id, PageRequest, ReadOptions, Scope};
use orrery_engine::{Cancel, Container, Database, Engine};
use orrery_model::json::parse;
use orrery_model::memory::AnswerMemory;
use orrery_model::partition_key::{Epk, EpkRange, PartitionKey};
use orrery_model::{Error, Json, Kind, Object, Result};
use std::sync::Arc;

/// A request whose sender and headers have been checked.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    pub(crate) path: Path,
    pub(crate) target: Target,
    pub(crate) headers: Box<RequestHeaders>,
    pub(crate) body: Bytes,
    pub(crate) account: Arc<Account>,
    /// The regions that take the place of those of the account.
    pub(crate) regions: Option<AccountRegions>,
    /// The scheme by which the client connected.
    pub(crate) scheme: &'static str,
    /// The host that the client used.
    pub(crate) host: Option<String>,
    /// The query string of a request for addresses.
    pub(crate) query: Option<String>,
    /// The places of a fleet, for a request for addresses.
    pub(crate) places: Option<DirectPlaces>,
    /// Set when the client no longer waits for the answer.
    pub(crate) cancel: Cancel,
    /// The memory of the answer, until the answer has a body.
    pub(crate) answer: Arc<AnswerMemory>,
}

/// A query as the client sent it.
pub(crate) struct QueryText {
    pub(crate) text: String,
    pub(crate) parameters: Vec<(String, Json)>,
    /// `resumeFilter`: the position from which a client that merges partitions resumes an ORDER BY.
    pub(crate) resume_filter: Option<Json>,
}

impl Call {
    /// Returns the database of the path.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) fn database(&self, engine: &Engine) -> Result<Arc<Database>> {
        self.path.database(engine).map(|(database, _)| database)
    }

    /// Returns true if the ids in the path are resource ids.
    pub(crate) fn by_rid(&self, engine: &Engine) -> bool {
        self.path.is_by_rid(engine)
    }

    /// Returns the container of the path.
    ///
    /// # Errors
    /// 404 if the container is missing, 404/1003 if its database is missing; 400/1024 if its
    /// resource id is not the one that the client expects, and 410/1000 if the resource id is not
    /// the one that a client of the direct mode has read.
    pub(crate) fn container(&self, engine: &Engine) -> Result<Arc<Container>> {
        let found = self.path.container(engine)?;
        if let Some(cached) = &self.headers.cached_container
            && *cached != found.rid().to_string()
        {
            return Err(Error::new(
                Kind::NameCacheIsStale,
                format!(
                    "The container's resource id is '{}' and not '{cached}' as the client has \
                     read it: the container was replaced.",
                    found.rid()
                ),
            ));
        }
        match &self.headers.intended_container {
            Some(intended) if *intended != found.rid().to_string() => Err(Error::new(
                Kind::ContainerRidMismatch,
                format!(
                    "The container's resource id is '{}' and not '{intended}' as the client \
                     believes.",
                    found.rid()
                ),
            )),
            _ => Ok(found),
        }
    }

    /// Returns the id of the item or script that the path addresses.
    ///
    /// # Errors
    /// 404 if the path is by resource ids and this id is not one.
    pub(crate) fn child_id(&self, engine: &Engine) -> Result<Id<'_>> {
        self.path.child_id(engine).ok_or_else(Error::not_found)
    }

    /// Returns the partition key of an operation on one logical partition.
    ///
    /// # Errors
    /// 400 if the request names none and the container has a partition key of its own.
    pub(crate) fn required_key(&self, container: &Container) -> Result<PartitionKey> {
        match &self.headers.partition_key {
            Some(key) => Ok(key.clone()),
            None if container.partition_key().is_system_key() => Ok(PartitionKey::new(Vec::new())),
            None => Err(Error::bad(
                "PartitionKey value must be supplied for this operation (header \
                 x-ms-documentdb-partitionkey).",
            )
            .with_help(format!(
                "The container's partition key is {}: name its value beside the id.",
                container.partition_key().shown_paths()
            ))),
        }
    }

    /// Returns the partition key that a request names for an item that it creates.
    ///
    /// # Errors
    /// 400/1001 in the service's words if the request names none.
    pub(crate) fn key_of_new_item(&self, container: &Container) -> Result<PartitionKey> {
        self.headers.partition_key.clone().ok_or_else(|| {
            let error = Error::new(
                Kind::PartitionKeyMismatch,
                "The partition key supplied in x-ms-partitionkey header has fewer components than \
                 defined in the the collection.",
            );
            error.with_help(format!(
                "The request has no header x-ms-documentdb-partitionkey: send the item's value at \
                 {} in brackets, such as [\"a\"]. SDKs send it by themselves.",
                container.partition_key().shown_paths()
            ))
        })
    }

    /// Returns the partition key of the header. `[]` means none, unless the container was created
    /// without a partition key.
    pub(crate) fn optional_key(&self, container: &Container) -> Option<&PartitionKey> {
        let key = self.headers.partition_key.as_ref()?;
        if key.is_empty() && !container.partition_key().is_system_key() {
            return None;
        }
        Some(key)
    }

    /// Returns the part of a container that a feed covers. Differs from [`Call::scope`] in two
    /// points: `[]` is a partition key, which the container may not have; and a physical partition
    /// that does not contain the key gives an empty feed.
    ///
    /// # Errors
    /// As [`Call::scope`], and 400/1001 for `[]` on a container with a partition key of its own.
    pub(crate) fn feed_scope(&self, container: &Container) -> Result<Scope> {
        // Some clients read a logical partition by asking every physical partition for the key.
        // Each item must be in the answer of one of them only.
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

    /// Returns the part of a container that a query covers. If the request names a partition key
    /// and a physical partition, the key decides, but the physical partition must exist.
    ///
    /// # Errors
    /// 410 for a physical partition that does not exist or belongs to another container; 400 for an
    /// EPK range that ends before it starts, or does not overlap the partition key.
    pub(crate) fn scope(&self, container: &Container) -> Result<Scope> {
        let within = self.epk_range()?;
        let range = self.range_id(container)?;
        match (self.optional_key(container), range) {
            (Some(key), _) => key_scope(container, key, within),
            (None, Some(id)) => Ok(Scope::Range { id, within }),
            (None, None) => Ok(within.map_or(Scope::Everything, Scope::Epk)),
        }
    }

    /// Returns the id of the physical partition that the headers name.
    ///
    /// # Errors
    /// 410 if the physical partition does not exist or belongs to another container.
    pub(crate) fn range_id(&self, container: &Container) -> Result<Option<u32>> {
        let Some(range) = &self.headers.range else {
            return Ok(None);
        };
        if let Some(rid) = &range.container
            && *rid != container.rid().to_string()
        {
            return Err(Error::new(
                Kind::NameCacheIsStale,
                "The partition key range belongs to another container: this one was replaced.",
            ));
        }
        match range.id {
            Some(id) if container.has_range(id) => Ok(Some(id)),
            _ => Err(Error::new(
                Kind::PartitionKeyRangeGone,
                "The requested partition key range does not exist.",
            )),
        }
    }

    /// Returns the EPK range that the headers name. A missing start or end is that of the whole
    /// hash space.
    fn epk_range(&self) -> Result<Option<EpkRange>> {
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

    /// Returns the options of a read, whose answer is counted as it grows.
    pub(crate) fn read_options(&self) -> ReadOptions<'_> {
        ReadOptions {
            answer: Some(&self.answer),
            ..self.headers.read_options()
        }
    }

    /// Returns the options of a query or read feed, which ends when the client no longer waits.
    pub(crate) fn cancellable_read(&self) -> ReadOptions<'_> {
        ReadOptions {
            cancel: Some(&self.cancel),
            ..self.read_options()
        }
    }

    /// Returns the memory for the item in the answer to a write; `None` if the client wants none.
    pub(crate) fn answer_of_write(&self) -> Option<Arc<AnswerMemory>> {
        (!self.headers.wants_minimal).then(|| self.answer.clone())
    }

    /// Returns the page that the headers ask for.
    pub(crate) fn page(&self) -> PageRequest {
        PageRequest {
            max_items: self.headers.max_items.limit(),
            continuation: self.headers.continuation.clone(),
            continuation_limit_kb: self.headers.continuation_limit_kb,
        }
    }

    /// Parses the body as a JSON object.
    ///
    /// # Errors
    /// 400 if the body is not a JSON object.
    pub(crate) fn object(&self) -> Result<Object> {
        match parse_body(&self.body)? {
            Json::Object(object) => Ok(object),
            _ => Err(
                Error::bad("The input content is invalid: the body is not a JSON object.")
                    .with_help("Send an object in braces: {…}."),
            ),
        }
    }

    /// Parses the body as a query: plain text, or JSON with text and parameters.
    ///
    /// # Errors
    /// 400 if the body is not a query.
    pub(crate) fn query_text(&self) -> Result<QueryText> {
        // Old clients send the text alone, with the content type application/sql.
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
            Error::bad(
                "The input content is invalid because the required properties - 'query; ' - are \
                 missing",
            )
        })?;

        let resume_filter = match body.get("resumeFilter") {
            None | Some(Json::Null) => None,
            Some(filter @ Json::Object(_)) => Some(filter.clone()),
            Some(_) => {
                return Err(Error::bad(
                    "The member 'resumeFilter' of a query must be an object.",
                ));
            }
        };
        let parameters = match body.get("parameters") {
            None | Some(Json::Null) => Vec::new(),
            Some(Json::Array(list)) => list.iter().map(parameter).collect::<Result<_>>()?,
            Some(_) => return Err(bad_parameters()),
        };
        Ok(QueryText {
            text: text.to_owned(),
            parameters,
            resume_filter,
        })
    }
}

/// Returns the part of a container that belongs to a partition key, and to an EPK range if the
/// request names one too.
fn key_scope(container: &Container, key: &PartitionKey, within: Option<EpkRange>) -> Result<Scope> {
    let Some(within) = within else {
        return Ok(Scope::Key(key.clone()));
    };
    let definition = container.partition_key();
    let key_range = definition.epk_range(key);
    // A prefix of a hierarchical key covers a range of EPKs; a complete key has a single EPK.
    let is_complete = definition.check(key).is_ok();
    if within.contains_range(&key_range) || is_complete && within.contains(&definition.epk(key)) {
        return Ok(Scope::Key(key.clone()));
    }
    match key_range.intersection(&within) {
        Some(overlap) => Ok(Scope::Epk(overlap)),
        None => Err(Error::bad(
            "The partition key lies outside of the effective key range named too.",
        )),
    }
}

/// Returns true if a physical partition with this id exists and contains nothing of the key.
fn lies_elsewhere(container: &Container, key: &PartitionKey, id: u32) -> bool {
    if key.is_empty() {
        return false;
    }
    let key_range = container.partition_key().epk_range(key);
    match container.range_of(id) {
        Some(range) => range.intersection(&key_range).is_none(),
        None => false,
    }
}

/// Parses a body as JSON.
///
/// # Errors
/// 400 if the body is not JSON.
pub(crate) fn parse_body(body: &[u8]) -> Result<Json> {
    parse(body).map_err(|error| {
        let (line, column) = error.place(body);
        Error::bad(format!(
            "The input content is invalid: {error} (line {line}, column {column})."
        ))
    })
}

fn bad_parameters() -> Error {
    Error::bad(
        "The member 'parameters' of a query must be an array of objects with a 'name' and a \
         'value'.",
    )
}

/// Reads one parameter of a query. Its name starts with `@`.
fn parameter(parameter: &Json) -> Result<(String, Json)> {
    match (parameter.get("name"), parameter.get("value")) {
        (Some(Json::String(name)), Some(value)) if name.starts_with('@') => {
            Ok((name.clone(), value.clone()))
        }
        _ => Err(bad_parameters()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::memory::MemoryBudget;

    fn call(content: Content, body: &'static str) -> Call {
        let headers = RequestHeaders {
            content,
            ..RequestHeaders::default()
        };
        let path = Path::parse("/dbs/d/colls/c/docs").expect("a path");
        let account = Arc::default();
        let (caller, body) = (Caller::ReadOnlyKey, Bytes::from(body));
        Call {
            regions: None,
            query: None,
            places: None,
            caller,
            path,
            target: Target::Items,
            headers: Box::new(headers),
            body,
            account,
            scheme: "http",
            host: None,
            cancel: Cancel::default(),
            answer: Arc::new(AnswerMemory::new(&MemoryBudget::unlimited())),
        }
    }

    #[test]
    fn a_query_is_json_or_plain_text() {
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
    fn a_body_that_is_not_a_query_is_refused() {
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
    fn an_epk_range_has_defaults_and_must_not_end_before_it_starts() {
        let mut c = call(Content::Json, "");
        assert_eq!(c.epk_range().expect("none"), None);
        c.headers.end_epk = Some(Epk::from_hex("1F").expect("hex"));
        assert_eq!(
            c.epk_range().expect("one").expect("a range").min,
            Epk::min()
        );
        c.headers.start_epk = Some(Epk::from_hex("2F").expect("hex"));
        assert_eq!(c.epk_range().expect_err("backwards").status(), 400);
    }
}
