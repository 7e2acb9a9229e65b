//! The table of request headers, sorted by name. `cargo xtask compat` generates the table in
//! `docs/compat.md` from it.

use super::value::Value;
use super::{
    Content, FeedMode, Format, IndexMetrics, MaxItems, RangeName, RequestHeaders, Strategy,
};
use crate::account::Consistency;
use crate::date;
use orrery_engine::request::{Bucket, IndexingDirective, Priority, Throughput, increment_percent};
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::{Error, Json, Result, limits};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A request header that the server knows.
pub struct Header {
    /// The name, in lower case.
    pub name: &'static str,
    /// The effect of the header, or the reason why it has none.
    pub effect: &'static str,
    /// The values that are refused, and the error; empty if none is refused.
    pub refusal: &'static str,
    /// Parses a value into the field of [`RequestHeaders`].
    pub(super) read: Read,
}

type Read = fn(&mut RequestHeaders, &Value<'_>) -> Result<()>;

/// Returns every request header that the server knows, sorted by name.
pub fn known_headers() -> &'static [Header] {
    HEADERS
}

/// The rows by name. Every header of every request is looked up, and a binary search of the table
/// takes several times as long.
static BY_NAME: LazyLock<HashMap<&'static str, &'static Header>> =
    LazyLock::new(|| HEADERS.iter().map(|header| (header.name, header)).collect());

/// Returns the row of `name` (in lower case).
pub(super) fn find(name: &str) -> Option<&'static Header> {
    BY_NAME.get(name).copied()
}

/// Creates a row for a header of which no value is refused.
const fn header(name: &'static str, effect: &'static str, read: Read) -> Header {
    Header {
        name,
        effect,
        refusal: "",
        read,
    }
}

/// Creates a row for a header of which some values are refused.
const fn checked(
    name: &'static str,
    effect: &'static str,
    refusal: &'static str,
    read: Read,
) -> Header {
    Header {
        name,
        effect,
        refusal,
        read,
    }
}

/// Ignores a header that is read elsewhere: the signature covers it, or it belongs to HTTP.
const ELSEWHERE: Read = |_, _| Ok(());
/// Checks the form of a boolean that has no effect.
const BOOLEAN_HINT: Read = |_, v| v.boolean().map(|_| ());
/// Ignores a header whose invalid values the service ignores too.
const FREE_HINT: Read = |_, _| Ok(());

/// The encodings of bodies that clients name.
const FORMATS: &[(&str, Format)] = &[
    ("JsonText", Format::JsonText),
    ("CosmosBinary", Format::CosmosBinary),
    ("HybridRow", Format::HybridRow),
];

/// The versions of the protocol, the newest last.
const VERSIONS: &[&str] = &[
    "2014-08-21",
    "2015-04-08",
    "2015-06-03",
    "2015-08-06",
    "2015-12-16",
    "2016-05-30",
    "2016-07-11",
    "2016-11-14",
    "2017-01-19",
    "2017-02-22",
    "2017-05-03",
    "2017-11-15",
    "2018-06-18",
    "2018-08-31",
    "2018-09-17",
    "2018-12-31",
    "2019-10-14",
    "2020-07-15",
    "2020-11-05",
    "2024-05-15",
    "2024-06-06",
];

/// Returns true for a version of the protocol.
pub(crate) fn is_known_version(text: &str) -> bool {
    VERSIONS.contains(&text)
}

/// The first version that shows a partition key in containers that were created without one.
const SYSTEM_KEY_VERSION: &str = "2018-12-31";

/// The first version whose indexing policies have no kinds of indexes at the included paths, and
/// lists of composite and spatial indexes in their place.
const INDEX_LISTS_VERSION: &str = "2018-09-17";

/// The first version whose clients ask for the plan of a query in a request of its own.
const PLAN_REQUEST_VERSION: &str = "2018-12-31";

/// The first version whose session tokens have a version and several LSNs.
const LONG_TOKEN_VERSION: &str = "2018-06-18";

static HEADERS: &[Header] = &[
    checked(
        "a-im",
        "turns a read feed into a change feed, of latest versions or of all versions",
        "neither `Incremental Feed` nor `Full-Fidelity Feed`: 400; the latter without its wire \
         format, or on a container that keeps no versions: 400 by name",
        |a, v| {
            let modes = [
                ("Incremental Feed", FeedMode::LatestVersion),
                ("Full-Fidelity Feed", FeedMode::AllVersions),
            ];
            a.change_feed = Some(v.one_of(&modes)?);
            Ok(())
        },
    ),
    checked(
        "authorization",
        "the signature or token",
        "missing, malformed or wrong: 401; shared access signatures, and directory identities \
         without `--entra`: 401 by name",
        ELSEWHERE,
    ),
    checked(
        "content-encoding",
        "only identity: compressed bodies are not supported",
        "any other: 400 by name",
        |_, v| {
            if v.text.eq_ignore_ascii_case("identity") {
                Ok(())
            } else {
                Err(v.refused())
            }
        },
    ),
    header(
        "content-type",
        "distinguishes a query from an item",
        |a, v| {
            let essence = v.text.split(';').next().unwrap_or_default().trim();
            a.content = match essence {
                t if t.eq_ignore_ascii_case("application/query+json") => Content::Query,
                t if t.eq_ignore_ascii_case("application/sql") => Content::Sql,
                _ => Content::Json,
            };
            Ok(())
        },
    ),
    header(
        "date",
        "part of the signature if there is no x-ms-date",
        ELSEWHERE,
    ),
    header(
        "if-match",
        "the etag that the resource of a write must have",
        |a, v| {
            a.if_match = Some(v.text.to_owned());
            Ok(())
        },
    ),
    checked(
        "if-modified-since",
        "the start of a change feed",
        "not a date: 400",
        |a, v| {
            a.if_modified_since =
                Some(date::parse(v.text).ok_or_else(|| v.invalid("It must be an RFC 1123 date."))?);
            Ok(())
        },
    ),
    checked(
        "if-none-match",
        "the etag that the client has, or the position from which a change feed continues",
        "not a number on a change feed: 400",
        |a, v| {
            a.if_none_match = Some(v.text.to_owned());
            Ok(())
        },
    ),
    header(
        "prefer",
        "return=minimal omits the bodies of replies to writes",
        |a, v| {
            a.wants_minimal |= v
                .text
                .split([',', ';'])
                .any(|part| part.trim().eq_ignore_ascii_case("return=minimal"));
            Ok(())
        },
    ),
    header("x-ms-activity-id", "returned in the reply", ELSEWHERE),
    checked(
        "x-ms-consistency-level",
        "weakens the consistency level of the account",
        "stronger than the level of the account: 400",
        |a, v| {
            let levels = Consistency::ALL.map(|level| (level.name(), level));
            a.consistency = Some(v.one_of(&levels)?);
            Ok(())
        },
    ),
    header(
        "x-ms-continuation",
        "the end of the previous page",
        |a, v| {
            a.continuation = Some(v.text.to_owned());
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-allow-tentative-writes",
        "nothing: there is one write region",
        "neither true nor false: 400",
        BOOLEAN_HINT,
    ),
    checked(
        "x-ms-cosmos-batch-atomic",
        "runs all operations of a batch, or none",
        "neither true nor false: 400",
        |a, v| {
            a.is_atomic_batch = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-batch-continue-on-error",
        "continues bulk after an operation that failed",
        "neither true nor false: 400",
        |a, v| {
            a.continues_on_error = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-batch-ordered",
        "nothing: operations always run in order",
        "neither true nor false: 400",
        BOOLEAN_HINT,
    ),
    checked(
        "x-ms-cosmos-changefeed-wire-format-version",
        "the format of a change feed of all versions",
        "not `2021-09-15`: 400",
        |a, v| {
            a.reads_versions_format = v.one_of(&[("2021-09-15", true)])?;
            Ok(())
        },
    ),
    header(
        "x-ms-cosmos-correlated-activityid",
        "nothing: the pages of a query are logged separately",
        FREE_HINT,
    ),
    header(
        "x-ms-cosmos-intended-collection-rid",
        "the resource id that the container must have; else 400/1024",
        |a, v| {
            a.intended_container = Some(v.text.to_owned());
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-is-batch-request",
        "turns a POST into a batch of operations",
        "neither true nor false: 400",
        |a, v| {
            a.is_batch = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-is-query-plan-request",
        "asks for the plan of a query",
        "neither true nor false: 400",
        |a, v| {
            a.is_query_plan = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-migrate-offer-to-autopilot",
        "changes the offer to autoscale",
        "neither true nor false: 400; together with the opposite header: 400",
        |a, v| {
            a.migrates_to_autoscale = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-migrate-offer-to-manual-throughput",
        "changes the offer to manual throughput",
        "neither true nor false: 400; together with the opposite header: 400",
        |a, v| {
            a.migrates_to_manual = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-offer-autopilot-settings",
        "autoscale throughput of a new container or database",
        "not 1,000 to 1,000,000 in steps of 1,000: 400; together with manual throughput: 400",
        |a, v| {
            a.autoscale = Some(autoscale(v)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-populateindexmetrics",
        "reports the use of the index, in base64",
        "neither true nor false: 400",
        |a, v| {
            if v.boolean()? {
                a.index_metrics = Some(IndexMetrics::V1);
            }
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-populateindexmetrics-v2",
        "reports on the first page which indexes serve or would serve the query",
        "neither true nor false: 400",
        |a, v| {
            if v.boolean()? {
                a.index_metrics = Some(IndexMetrics::V2);
            }
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-populatequeryadvice",
        "reports the rules of the query advisor that apply to the query",
        "neither true nor false: 400",
        |a, v| {
            a.wants_query_advice = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-priority-level",
        "Low is refused before High when the budget is short, with \
         `--priority-based-execution`",
        "neither High nor Low: 400",
        |a, v| {
            a.admission.priority = v.one_of(&[("High", Priority::High), ("Low", Priority::Low)])?;
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-query-optimisticdirectexecute",
        "marks a query that one physical partition can answer",
        "neither true nor false: 400",
        |a, v| {
            a.is_single_range = v.boolean()?;
            Ok(())
        },
    ),
    header(
        "x-ms-cosmos-query-version",
        "nothing: plans have one form",
        FREE_HINT,
    ),
    checked(
        "x-ms-cosmos-read-consistency-strategy",
        "the consistency of a read, in the place of the level; Default counts as absent",
        "GlobalStrong on an account of another level: 400",
        |a, v| {
            // The change feed processor of the Java SDK sends Default with every page.
            a.strategy = v.one_of(&[
                ("Default", None),
                ("Eventual", Some(Strategy::Eventual)),
                ("Session", Some(Strategy::Session)),
                ("LatestCommitted", Some(Strategy::LatestCommitted)),
                ("GlobalStrong", Some(Strategy::GlobalStrong)),
            ])?;
            Ok(())
        },
    ),
    header(
        "x-ms-cosmos-supported-query-features",
        "the query features that the client can merge; a client that does not name them gets no \
         plan that needs them",
        |a, v| {
            a.query_features = Some(v.text.to_owned());
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-supported-serialization-formats",
        "must include JSON text for queries",
        "a list with anything but JsonText, CosmosBinary and HybridRow: 400; one without JsonText \
         on a query of items: 400 by name",
        |a, v| {
            let formats = v
                .text
                .split(',')
                .map(|part| v.with(part.trim()).one_of(FORMATS))
                .collect::<Result<Vec<_>>>()?;
            a.reads_no_text = !formats.contains(&Format::JsonText);
            Ok(())
        },
    ),
    checked(
        "x-ms-cosmos-throughput-bucket",
        "the throughput bucket, whose limit, if it has one, applies to the request",
        "not 1 to 5: 400",
        |a, v| {
            a.admission.bucket = u8::try_from(v.number(1, i64::from(Bucket::MAX))?)
                .ok()
                .and_then(Bucket::new);
            Ok(())
        },
    ),
    header(
        "x-ms-cosmos-workload-id",
        "nothing: workloads are not distinguished",
        FREE_HINT,
    ),
    checked(
        "x-ms-date",
        "part of the signature",
        "outside of the time window: 403",
        ELSEWHERE,
    ),
    checked(
        "x-ms-dedicatedgateway-bypass-cache",
        "nothing: there is no cache",
        "neither true nor false: 400",
        BOOLEAN_HINT,
    ),
    checked(
        "x-ms-dedicatedgateway-max-age",
        "nothing: every reply is current",
        "not a number: 400",
        |_, v| v.number(0, i64::MAX).map(|_| ()),
    ),
    header(
        "x-ms-documentdb-collection-rid",
        "nothing: a hint for routing",
        FREE_HINT,
    ),
    checked(
        "x-ms-documentdb-content-serialization-format",
        "must be JSON text for queries",
        "not the name of a format: 400; another than JsonText on a query of items: 400 by name",
        |a, v| {
            a.format = Some(v.one_of(FORMATS)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-expiry-seconds",
        "the lifetime of resource tokens, in seconds",
        "not 10 to 86400: 400",
        |a, v| {
            let (min, max) = (*limits::TOKEN_SECONDS.start(), *limits::TOKEN_SECONDS.end());
            a.token_seconds = Some(v.number(min as i64, max as i64)?.unsigned_abs());
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-is-upsert",
        "turns a create into an upsert",
        "of a database or container: 400 by name",
        |a, v| {
            a.is_upsert = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-isquery",
        "turns a POST into a query",
        "neither true nor false: 400",
        |a, v| {
            a.is_query = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-partitionkey",
        "the partition key",
        "not a JSON array of components: 400",
        |a, v| {
            a.partition_key = Some(PartitionKey::from_header(v.text)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-partitionkeyrangeid",
        "the physical partition; if it does not contain the partition key of the request, a feed \
         is \
         empty",
        "not a number: 400; no such range: 410/1002; of another container: 410/1000",
        |a, v| {
            a.range = Some(range_name(v)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-populatepartitionstatistics",
        "adds statistics to the read of a container",
        "neither true nor false: 400",
        |a, v| {
            a.wants_statistics = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-populatequerymetrics",
        "reports the work of a query",
        "neither true nor false: 400",
        |a, v| {
            a.wants_query_metrics = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-populatequotainfo",
        "reports the quota and the progress of the index on the read of a container",
        "neither true nor false: 400",
        |a, v| {
            a.wants_quota = v.boolean()?;
            Ok(())
        },
    ),
    header(
        "x-ms-documentdb-post-trigger-exclude",
        "excludes a post-trigger",
        |a, v| {
            a.excluded_triggers.extend(v.list().map(str::to_owned));
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-post-trigger-include",
        "the post-trigger of a write",
        "two names, or a write of another resource than an item: 400",
        |a, v| {
            a.post_trigger = v.one_name()?;
            Ok(())
        },
    ),
    header(
        "x-ms-documentdb-pre-trigger-exclude",
        "excludes a pre-trigger",
        |a, v| {
            a.excluded_triggers.extend(v.list().map(str::to_owned));
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-pre-trigger-include",
        "the pre-trigger of a write",
        "two names, or a write of another resource than an item: 400",
        |a, v| {
            a.pre_trigger = v.one_name()?;
            Ok(())
        },
    ),
    header(
        "x-ms-documentdb-query-emit-traces",
        "nothing: there are no traces",
        FREE_HINT,
    ),
    header(
        "x-ms-documentdb-query-enable-low-precision-order-by",
        "nothing: every ORDER BY is exact",
        FREE_HINT,
    ),
    header(
        "x-ms-documentdb-query-enable-scan",
        "nothing: a query may always scan",
        FREE_HINT,
    ),
    checked(
        "x-ms-documentdb-query-enablecrosspartition",
        "allows a query over several partitions",
        "missing on such a query: 400",
        |a, v| {
            a.allows_cross_partition = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-query-iscontinuationexpected",
        "nothing: the server decides where a page ends",
        "neither true nor false: 400",
        BOOLEAN_HINT,
    ),
    checked(
        "x-ms-documentdb-query-parallelizecrosspartitionquery",
        "with `--cross-partition-queries refuse`, leaves a query over several partitions to the \
         client; else nothing, because the server merges",
        "neither true nor false: 400",
        |a, v| {
            a.fans_out = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-responsecontinuationtokenlimitinkb",
        "limits the size of continuations, in KiB",
        "below 1: 400; smaller than the continuation: 400",
        |a, v| {
            a.continuation_limit_kb = Some(continuation_limit_kb(v)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-documentdb-script-enable-logging",
        "returns the log of a stored procedure",
        "neither true nor false: 400",
        |a, v| {
            a.wants_script_log = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-end-epk",
        "the end of an EPK range",
        "not hexadecimal, or before the start: 400",
        |a, v| {
            a.end_epk = Some(Epk::from_hex(v.text)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-exclude-system-properties",
        "stores an item without `_self` and `_attachments`, or reads an item so that was stored so",
        "neither true nor false: 400; true on a list, a query, a change feed, a batch or a patch \
         of items: 400 by name",
        |a, v| {
            a.leaves_out_links = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-ms-indexing-directive",
        "Include indexes an item whose container does not index automatically; Exclude is the \
         same as Default, because an automatic policy indexes every item",
        "not Default, Include or Exclude: 400",
        |a, v| {
            a.indexing = v.one_of(&[
                ("Default", IndexingDirective::Default),
                ("Include", IndexingDirective::Include),
                ("Exclude", IndexingDirective::Exclude),
            ])?;
            Ok(())
        },
    ),
    checked(
        "x-ms-max-item-count",
        "the largest number of rows of a page; -1 for as many as the limits of a page allow",
        "below -1, or not a 32-bit number: 400",
        |a, v| {
            a.max_items = match v.number(-1, i64::from(i32::MAX))? {
                -1 => MaxItems::ServerChooses,
                0 => MaxItems::Default,
                n => MaxItems::AtMost(usize::try_from(n).unwrap_or(usize::MAX)),
            };
            Ok(())
        },
    ),
    checked(
        "x-ms-noretry-449",
        "nothing: the server never repeats a write",
        "neither true nor false: 400",
        BOOLEAN_HINT,
    ),
    checked(
        "x-ms-offer-throughput",
        "manual throughput of a new container or database",
        "not 400 to 1,000,000 in steps of 100: 400; together with autoscale: 400",
        |a, v| {
            a.manual_throughput = Some(manual_throughput(v)?);
            Ok(())
        },
    ),
    header(
        "x-ms-offer-type",
        "nothing: the levels S1 to S3 are retired, and throughput is a number",
        FREE_HINT,
    ),
    checked(
        "x-ms-read-key-type",
        "must speak of effective partition keys",
        "any other: 400",
        |_, v| {
            v.one_of(&[
                ("EffectivePartitionKeyRange", ()),
                ("EffectivePartitionKey", ()),
            ])
        },
    ),
    checked(
        "x-ms-session-token",
        "the writes that a read must include",
        "malformed: 400; ahead of the server: 404/1002",
        |a, v| {
            a.session_token = Some(match a.session_token.take() {
                Some(before) => format!("{before},{}", v.text),
                None => v.text.to_owned(),
            });
            Ok(())
        },
    ),
    checked(
        "x-ms-start-epk",
        "the start of an EPK range",
        "not hexadecimal, or after the end: 400",
        |a, v| {
            a.start_epk = Some(Epk::from_hex(v.text)?);
            Ok(())
        },
    ),
    checked(
        "x-ms-version",
        "a version of the service; before 2018-06-18 session tokens have the short form, before \
         2018-09-17 included paths show kinds of indexes, and before 2018-12-31 containers without \
         a partition key show none, and a query that the client cannot merge is refused \
         without the sub-status 1004",
        "not a version of the service: 400",
        |a, v| {
            if is_known_version(v.text) {
                // Dates sort as text.
                a.has_short_tokens = v.text < LONG_TOKEN_VERSION;
                a.hides_system_keys = v.text < SYSTEM_KEY_VERSION;
                a.shows_index_kinds = v.text < INDEX_LISTS_VERSION;
                a.takes_plan_from_refusal = v.text < PLAN_REQUEST_VERSION;
                return Ok(());
            }
            Err(v.invalid(&format!("The versions known are {}.", VERSIONS.join(", "))))
        },
    ),
    checked(
        "x-orrery-as-client",
        "counts a request of the server's own console among those of clients in the heat map, the \
         top keys and the forms of queries; without effect on other requests",
        "neither true nor false: 400",
        |a, v| {
            a.counts_as_client = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-orrery-explain",
        "reports the access path in each physical partition, percent-encoded",
        "neither true nor false: 400",
        |a, v| {
            a.wants_explanation = v.boolean()?;
            Ok(())
        },
    ),
    checked(
        "x-orrery-explain-charge",
        "reports the parts of the charge, percent-encoded",
        "neither true nor false: 400",
        |a, v| {
            a.wants_charge_parts = v.boolean()?;
            Ok(())
        },
    ),
];

/// Parses the name of a partition key range: `0` or `containerRid,0`.
fn range_name(v: &Value<'_>) -> Result<RangeName> {
    let (container, number) = match v.text.split_once(',') {
        Some((container, number)) => (Some(container.trim().to_owned()), number.trim()),
        None => (None, v.text),
    };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(
            v.invalid("It must be a number, or a container's resource id, a comma and a number.")
        );
    }
    Ok(RangeName {
        container,
        id: number.parse().ok(),
    })
}

/// Parses the size that a continuation may have, in KiB. Clients look for the service's words about
/// a size of 0, in which no continuation has room, and about a negative one.
fn continuation_limit_kb(v: &Value<'_>) -> Result<usize> {
    match v.text.parse::<i32>() {
        Ok(0) => Err(Error::bad(
            "The continuation token limit specified is not large enough. Set the header \
             'x-ms-documentdb-responsecontinuationtokenlimitinkb' to 1 or more.",
        )),
        Ok(negative) if negative < 0 => Err(v.invalid(
            "Please pass in a valid continuation token size limit which must be a positive \
             integer.",
        )),
        _ => {
            let kilobytes = v.number(1, i64::from(i32::MAX))?;
            Ok(usize::try_from(kilobytes).unwrap_or(usize::MAX))
        }
    }
}

/// Parses manual throughput, in request units per second.
fn manual_throughput(v: &Value<'_>) -> Result<Throughput> {
    match v.text.parse() {
        Ok(throughput) => Throughput::manual(throughput),
        Err(_) => Err(v.invalid("It must be a whole number.")),
    }
}

/// Parses the settings of autoscale, as JSON.
fn autoscale(v: &Value<'_>) -> Result<Throughput> {
    let invalid = || v.invalid("It must be JSON with a whole number 'maxThroughput'.");
    let settings = parse(v.text.as_bytes()).map_err(|_| invalid())?;
    let max = settings
        .get("maxThroughput")
        .and_then(Json::as_i64)
        .ok_or_else(invalid)?;
    Throughput::autoscale(max, increment_percent(&settings)?)
}
