//! One recorded request, and how it is made from a request and its reply.

use crate::call::Call;
use crate::direct::Transport;
use crate::metrics::RequestKind;
use crate::reply::Reply;
use crate::route::Path;
use http::request::Parts;
use orrery_engine::request::{Charge, ChargePart};
use orrery_engine::{Engine, query_form};
use orrery_model::Error;
use orrery_model::work::{QueryWork, Step};
use std::net::SocketAddr;

/// The bytes of a path, of the form of a query and of a user agent that are kept.
const PATH_BYTES: usize = 1_024;
const FORM_BYTES: usize = 4_096;
const USER_AGENT_BYTES: usize = 256;
/// The physical partitions that a record lists; their number is exact.
const PARTITIONS_LISTED: usize = 64;

/// The reason for which a request is recorded: the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordReason {
    /// The request was answered with 429.
    Throttled,
    /// The request was answered with another status from 400 on, or with none.
    Failed,
    /// The charge reached the threshold.
    Expensive,
    /// The duration reached the threshold.
    Slow,
    /// All requests were recorded.
    Followed,
}

impl RecordReason {
    /// All reasons, in the order in which they count.
    pub const ALL: [RecordReason; 5] = [
        RecordReason::Throttled,
        RecordReason::Failed,
        RecordReason::Expensive,
        RecordReason::Slow,
        RecordReason::Followed,
    ];

    /// Returns the name of the reason.
    pub fn name(self) -> &'static str {
        match self {
            RecordReason::Throttled => "throttled",
            RecordReason::Failed => "failed",
            RecordReason::Expensive => "expensive",
            RecordReason::Slow => "slow",
            RecordReason::Followed => "followed",
        }
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// The number of the record; later records have higher numbers.
    pub number: u64,
    /// The reason for which the request was recorded.
    pub reason: RecordReason,
    /// The time of the answer in milliseconds since 1970.
    pub time_ms: u64,
    /// The name of the operation, `unknown` if it was not known.
    pub operation: &'static str,
    /// The type of the addressed resource.
    pub resource_type: &'static str,
    /// The transport by which the request came.
    pub transport: Transport,
    /// The method.
    pub method: String,
    /// The id of the database; empty without one.
    pub database: String,
    /// The id of the container; empty without one.
    pub container: String,
    /// The id of the item, script or other resource; empty without one.
    pub id: String,
    /// The path as sent, shortened.
    pub path: String,
    /// The ids of the physical partitions that were asked, the first ones.
    pub partitions: Vec<u32>,
    /// The number of physical partitions that were asked.
    pub partition_count: u64,
    /// The status; 0 if a fault rule left the request without an answer.
    pub status: u16,
    /// The sub-status; 0 for none.
    pub sub_status: u32,
    /// The code word of an error.
    pub code: Option<&'static str>,
    /// The charge.
    pub charge: Charge,
    /// The parts of the charge, which add up to it.
    pub charge_parts: Vec<ChargePart>,
    /// The duration in microseconds.
    pub microseconds: u64,
    /// The activity id.
    pub activity_id: String,
    /// The user agent of the client, shortened; empty without one.
    pub user_agent: String,
    /// The address of the client.
    pub client: SocketAddr,
    /// True for a request of this server's own console.
    pub is_from_console: bool,
    /// The figures of a query; `None` for other requests.
    pub query: Option<QueryRecord>,
}

/// The figures of a recorded query.
#[derive(Clone, Debug, Default)]
pub struct QueryRecord {
    /// The text without values, shortened; `None` for a text that has no form.
    pub form: Option<String>,
    /// Items loaded.
    pub retrieved: u64,
    /// Rows returned.
    pub output: u64,
}

/// A request and its reply, from which a record is made.
pub(crate) struct Finished<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) head: &'a Parts,
    pub(crate) call: Option<&'a Call>,
    pub(crate) reply: &'a Reply,
    pub(crate) microseconds: u64,
    pub(crate) activity_id: &'a str,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) is_from_console: bool,
}

impl RequestRecord {
    /// Makes the record of a request.
    pub(crate) fn of(
        finished: &Finished<'_>,
        reason: RecordReason,
        time_ms: u64,
        engine: &Engine,
    ) -> Self {
        let Finished {
            kind,
            head,
            call,
            reply,
            ..
        } = *finished;
        let [database, container, id] = container_names(head, call, engine);
        let user_agent = head.headers.get(http::header::USER_AGENT);
        let user_agent = user_agent.and_then(|value| value.to_str().ok());
        let (partitions, partition_count) = partitions_of(reply);
        RequestRecord {
            number: 0,
            reason,
            time_ms,
            operation: kind.operation_name(),
            resource_type: kind.resource_type(),
            transport: Transport::of(head),
            method: head.method.as_str().to_owned(),
            database,
            container,
            id,
            path: shortened(head.uri.path(), PATH_BYTES),
            partitions,
            partition_count,
            status: reply.status,
            sub_status: reply.error.as_ref().map_or(0, Error::sub_status),
            code: reply.error.as_ref().map(|error| error.kind().code()),
            charge: reply.charge,
            charge_parts: reply.charge_parts(engine),
            microseconds: finished.microseconds,
            activity_id: finished.activity_id.to_owned(),
            user_agent: shortened(user_agent.unwrap_or_default(), USER_AGENT_BYTES),
            client: finished.client,
            is_from_console: finished.is_from_console,
            query: query_of(kind, call, reply),
        }
    }

    /// Returns the bytes that the record takes, approximately.
    pub(super) fn bytes(&self) -> usize {
        let query = match &self.query {
            Some(query) => query.form.as_ref().map_or(0, String::len),
            None => 0,
        };
        let texts = [
            &self.method,
            &self.database,
            &self.container,
            &self.id,
            &self.path,
            &self.activity_id,
            &self.user_agent,
        ];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let lists = self.partitions.len() * size_of::<u32>()
            + self.charge_parts.len() * size_of::<ChargePart>();
        size_of::<Self>() + texts + lists + query
    }

    /// Creates a record without contents.
    #[cfg(test)]
    pub(super) fn empty(reason: RecordReason) -> Self {
        RequestRecord {
            number: 0,
            reason,
            time_ms: 0,
            operation: "read_item",
            resource_type: "docs",
            transport: Transport::Http,
            method: "GET".into(),
            database: String::new(),
            container: String::new(),
            id: String::new(),
            path: String::new(),
            partitions: Vec::new(),
            partition_count: 0,
            status: 200,
            sub_status: 0,
            code: None,
            charge: Charge(100),
            charge_parts: Vec::new(),
            microseconds: 1,
            activity_id: String::new(),
            user_agent: String::new(),
            client: SocketAddr::from(([127, 0, 0, 1], 1)),
            is_from_console: false,
            query: None,
        }
    }
}

/// Returns the ids of the database, of the container and of the resource below. Resource ids become
/// names if the resources exist.
pub(crate) fn container_names(head: &Parts, call: Option<&Call>, engine: &Engine) -> [String; 3] {
    let parsed;
    let path = match call {
        Some(call) => &call.path,
        None => match Path::parse(head.uri.path()) {
            Ok(path) => {
                parsed = path;
                &parsed
            }
            Err(_) => return [String::new(), String::new(), String::new()],
        },
    };
    names_of(path, engine)
}

/// As [`container_names`], for a path.
pub(crate) fn names_of(path: &Path, engine: &Engine) -> [String; 3] {
    let id = |n: usize| shortened(path.id(n), PATH_BYTES);
    if !path.is_in_database() {
        return [String::new(), String::new(), id(0)];
    }
    let mut database = id(0);
    if path.is_by_rid(engine)
        && let Ok((found, _)) = path.database(engine)
    {
        database = found.id().to_owned();
    }
    if !path.is_in_container() {
        return [database, String::new(), id(1)];
    }
    let mut container = id(1);
    if path.is_by_rid(engine)
        && let Ok(found) = path.container(engine)
    {
        container = found.id().to_owned();
    }
    [database, container, id(2)]
}

/// Returns the first physical partitions that were asked, and their number.
fn partitions_of(reply: &Reply) -> (Vec<u32>, u64) {
    let mut partitions: Vec<u32> = Vec::new();
    for work in query_works(&reply.work.steps) {
        partitions.extend(work.partition);
    }
    partitions.sort_unstable();
    partitions.dedup();
    // A request at one partition, or a query that began no work there.
    if partitions.is_empty()
        && let Some(position) = reply.position
    {
        partitions.push(position.range_id);
    }
    let count = partitions.len() as u64;
    partitions.truncate(PARTITIONS_LISTED);
    (partitions, count)
}

/// Returns the number of physical partitions that were asked.
pub(crate) fn partition_count(reply: &Reply) -> u64 {
    // Most requests ask one partition, and no list is made for them.
    match query_works(&reply.work.steps).next() {
        Some(_) => partitions_of(reply).1,
        None => u64::from(reply.position.is_some()),
    }
}

/// Returns the rows of a page; `None` for an answer that is no page.
pub(crate) fn returned_rows(reply: &Reply) -> Option<u64> {
    let rows = reply.headers.get("x-ms-item-count")?;
    rows.to_str().ok()?.parse().ok()
}

/// Returns the figures of a query; `None` for a request that is none.
fn query_of(kind: RequestKind, call: Option<&Call>, reply: &Reply) -> Option<QueryRecord> {
    let RequestKind::Operation(operation) = kind else {
        return None;
    };
    if !operation.is_query() {
        return None;
    }
    let text = call.and_then(|call| call.query_text().ok());
    let form = text.and_then(|query| query_form(&query.text));
    let mut query = QueryRecord {
        form: form.map(|form| shortened(&form, FORM_BYTES)),
        ..QueryRecord::default()
    };
    for work in query_works(&reply.work.steps) {
        query.retrieved += work.loaded_items;
        query.output += work.returned_rows;
    }
    Some(query)
}

/// Returns the work of queries among steps. The repetition at a second replica is the same work.
fn query_works(steps: &[Step]) -> impl Iterator<Item = &QueryWork> {
    steps.iter().filter_map(|step| match step {
        Step::Query(work) => Some(work),
        _ => None,
    })
}

/// Returns the beginning of a text, of at most so many bytes.
fn shortened(text: &str, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

impl QueryRecord {
    /// Returns the rows returned for each item loaded, at most 1: the index hit ratio.
    pub fn index_hit_ratio(&self) -> f64 {
        match self.retrieved {
            0 => 1.0,
            retrieved => (self.output as f64 / retrieved as f64).min(1.0),
        }
    }
}
