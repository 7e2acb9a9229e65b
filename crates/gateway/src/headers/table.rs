//! The table of request headers, sorted by name.

use super::value::Value;
use super::{Ask, Content, FeedMode, Format, IndexMetrics, MaxItems, RangeName, Strategy};
use crate::date;
use crate::options::Consistency;
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::{Error, Json, Result, limits};

/// A request header that the server knows.
pub struct Header {
    /// Its name, in lower case.
    pub name: &'static str,
    /// What it does, or why it changes nothing.
    pub effect: &'static str,
    pub(super) read: Read,
}

type Read = fn(&mut Ask, &Value<'_>) -> Result<()>;

/// Every request header that the server knows, sorted by name.
pub fn known_headers() -> &'static [Header] {
    HEADERS
}

/// The entry of `name` (in lower case).
pub(super) fn find(name: &str) -> Option<&'static Header> {
    HEADERS.binary_search_by(|header| header.name.cmp(name)).ok().map(|at| &HEADERS[at])
}

const fn header(name: &'static str, effect: &'static str, read: Read) -> Header {
    Header { name, effect, read }
}

/// Read before this table: the signature covers it, or it belongs to HTTP.
const ELSEWHERE: Read = |_, _| Ok(());
/// Checked for its form; changes nothing.
const BOOLEAN_HINT: Read = |_, v| v.boolean().map(|_| ());
/// The service itself ignores bad values here.
const FREE_HINT: Read = |_, _| Ok(());
const REFUSED_IF_TRUE: Read = |_, v| v.refuse_if_true();

/// How clients may want bodies to be encoded.
const FORMATS: &[(&str, Format)] =
    &[("JsonText", Format::JsonText), ("CosmosBinary", Format::CosmosBinary), ("HybridRow", Format::HybridRow)];

/// The API versions of the service, the newest last.
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

static HEADERS: &[Header] = &[
    header("a-im", "makes a read feed a change feed, of latest versions or of all", |a, v| {
        let modes = [("Incremental Feed", FeedMode::LatestVersion), ("Full-Fidelity Feed", FeedMode::AllVersions)];
        a.change_feed = Some(v.one_of(&modes)?);
        Ok(())
    }),
    header("authorization", "the signature or token", ELSEWHERE),
    header("content-encoding", "only identity: compressed bodies are refused", |_, v| {
        if v.text.eq_ignore_ascii_case("identity") { Ok(()) } else { Err(v.refused()) }
    }),
    header("content-type", "tells a query from an item", |a, v| {
        let essence = v.text.split(';').next().unwrap_or_default().trim();
        a.content = match essence {
            t if t.eq_ignore_ascii_case("application/query+json") => Content::Query,
            t if t.eq_ignore_ascii_case("application/sql") => Content::Sql,
            _ => Content::Json,
        };
        Ok(())
    }),
    header("date", "signed if there is no x-ms-date", ELSEWHERE),
    header("if-match", "the etag that a write needs", |a, v| {
        a.if_match = Some(v.text.to_owned());
        Ok(())
    }),
    header("if-modified-since", "where a change feed starts", |a, v| {
        a.if_modified_since = Some(date::parse(v.text).ok_or_else(|| v.invalid("It must be an RFC 1123 date."))?);
        Ok(())
    }),
    header("if-none-match", "the etag that a reader has, or where a change feed goes on", |a, v| {
        a.if_none_match = Some(v.text.to_owned());
        Ok(())
    }),
    header("prefer", "return=minimal leaves out the bodies of writes", |a, v| {
        a.minimal |= v.text.split([',', ';']).any(|part| part.trim().eq_ignore_ascii_case("return=minimal"));
        Ok(())
    }),
    header("x-ms-activity-id", "echoed", ELSEWHERE),
    header("x-ms-consistency-level", "weakens the account's level", |a, v| {
        let levels = Consistency::ALL.map(|level| (level.name(), level));
        a.consistency = Some(v.one_of(&levels)?);
        Ok(())
    }),
    header("x-ms-continuation", "where the page before ended", |a, v| {
        a.continuation = Some(v.text.to_owned());
        Ok(())
    }),
    header("x-ms-cosmos-allow-tentative-writes", "nothing: there is one write region", BOOLEAN_HINT),
    header("x-ms-cosmos-batch-atomic", "makes all operations of a batch take place, or none", |a, v| {
        a.batch_atomic = v.boolean()?;
        Ok(())
    }),
    header("x-ms-cosmos-batch-continue-on-error", "lets bulk go on after an operation that failed", |a, v| {
        a.batch_continue_on_error = v.boolean()?;
        Ok(())
    }),
    header("x-ms-cosmos-batch-ordered", "nothing: operations are always carried out in order", BOOLEAN_HINT),
    header("x-ms-cosmos-changefeed-wire-format-version", "the form in which all versions come", |a, v| {
        a.versions_format = v.one_of(&[("2021-09-15", true)])?;
        Ok(())
    }),
    header("x-ms-cosmos-correlated-activityid", "nothing: pages are not logged together", FREE_HINT),
    header("x-ms-cosmos-intended-collection-rid", "400/1024 if the container is another by now", |a, v| {
        a.intended_container = Some(v.text.to_owned());
        Ok(())
    }),
    header("x-ms-cosmos-is-batch-request", "makes a POST a batch of operations", |a, v| {
        a.batch = v.boolean()?;
        Ok(())
    }),
    header("x-ms-cosmos-is-query-plan-request", "asks for the plan of a query", |a, v| {
        a.plan = v.boolean()?;
        Ok(())
    }),
    header("x-ms-cosmos-migrate-offer-to-autopilot", "refused if true", REFUSED_IF_TRUE),
    header("x-ms-cosmos-migrate-offer-to-manual-throughput", "refused if true", REFUSED_IF_TRUE),
    header("x-ms-cosmos-offer-autopilot-settings", "autoscale throughput of a new container or database", |a, v| {
        a.autoscale_max = Some(autoscale_max(v)?);
        Ok(())
    }),
    header("x-ms-cosmos-populateindexmetrics", "reports the index's use in base64", |a, v| {
        if v.boolean()? {
            a.index_metrics = Some(IndexMetrics::Base64);
        }
        Ok(())
    }),
    header("x-ms-cosmos-populateindexmetrics-v2", "reports the index's use percent-encoded", |a, v| {
        if v.boolean()? {
            a.index_metrics = Some(IndexMetrics::PercentEncoded);
        }
        Ok(())
    }),
    header("x-ms-cosmos-populatequeryadvice", "reports the advisor's rules that the query runs into", |a, v| {
        a.query_advice = v.boolean()?;
        Ok(())
    }),
    header("x-ms-cosmos-priority-level", "checked; nothing else: no request is put behind another", |_, v| {
        v.one_of(&[("High", ()), ("Low", ())])
    }),
    header("x-ms-cosmos-query-optimisticdirectexecute", "a query that one range answers alone", |a, v| {
        a.single_range = v.boolean()?;
        Ok(())
    }),
    header("x-ms-cosmos-query-version", "nothing: plans have one form", FREE_HINT),
    header("x-ms-cosmos-read-consistency-strategy", "like the consistency level", |a, v| {
        a.strategy = Some(v.one_of(&[
            ("Eventual", Strategy::Eventual),
            ("Session", Strategy::Session),
            ("LatestCommitted", Strategy::LatestCommitted),
            ("GlobalStrong", Strategy::GlobalStrong),
        ])?);
        Ok(())
    }),
    header("x-ms-cosmos-supported-query-features", "what the client can merge itself", |a, v| {
        a.query_features = v.text.to_owned();
        Ok(())
    }),
    header("x-ms-cosmos-supported-serialization-formats", "must allow JSON text for queries", |a, v| {
        let formats = v.text.split(',').map(|part| v.with(part.trim()).one_of(FORMATS)).collect::<Result<Vec<_>>>()?;
        a.reads_no_text = !formats.contains(&Format::JsonText);
        Ok(())
    }),
    header("x-ms-cosmos-throughput-bucket", "checked; nothing else: buckets do not divide a budget here", |_, v| {
        v.number(1, 5).map(|_| ())
    }),
    header("x-ms-cosmos-workload-id", "nothing: workloads are not told apart", FREE_HINT),
    header("x-ms-date", "signed", ELSEWHERE),
    header("x-ms-dedicatedgateway-bypass-cache", "nothing: there is no cache to pass by", BOOLEAN_HINT),
    header("x-ms-dedicatedgateway-max-age", "nothing: every answer is fresh", |_, v| v.number(0, i64::MAX).map(|_| ())),
    header("x-ms-documentdb-collection-rid", "nothing: a hint for routing", FREE_HINT),
    header("x-ms-documentdb-content-serialization-format", "must be JSON text for queries", |a, v| {
        a.format = Some(v.one_of(FORMATS)?);
        Ok(())
    }),
    header("x-ms-documentdb-expiry-seconds", "how long the tokens of permissions live", |a, v| {
        let (least, most) = (*limits::TOKEN_SECONDS.start(), *limits::TOKEN_SECONDS.end());
        a.token_seconds = Some(v.number(least as i64, most as i64)?.unsigned_abs());
        Ok(())
    }),
    header("x-ms-documentdb-is-upsert", "makes a create an upsert", |a, v| {
        a.upsert = v.boolean()?;
        Ok(())
    }),
    header("x-ms-documentdb-isquery", "makes a POST a query", |a, v| {
        a.query = v.boolean()?;
        Ok(())
    }),
    header("x-ms-documentdb-partitionkey", "the logical partition", |a, v| {
        a.partition_key = Some(PartitionKey::from_header(v.text)?);
        Ok(())
    }),
    header("x-ms-documentdb-partitionkeyrangeid", "the physical partition", |a, v| {
        a.range = Some(range_name(v)?);
        Ok(())
    }),
    header("x-ms-documentdb-populatepartitionstatistics", "refused if true", REFUSED_IF_TRUE),
    header("x-ms-documentdb-populatequerymetrics", "reports what a query did", |a, v| {
        a.query_metrics = v.boolean()?;
        Ok(())
    }),
    header("x-ms-documentdb-populatequotainfo", "reports quota and index progress on a container read", |a, v| {
        a.quota = v.boolean()?;
        Ok(())
    }),
    header("x-ms-documentdb-post-trigger-exclude", "takes a post-trigger out again", |a, v| {
        a.excluded_triggers.extend(v.list().map(str::to_owned));
        Ok(())
    }),
    header("x-ms-documentdb-post-trigger-include", "the post-trigger of a write", |a, v| {
        a.post_trigger = v.one_name()?;
        Ok(())
    }),
    header("x-ms-documentdb-pre-trigger-exclude", "takes a pre-trigger out again", |a, v| {
        a.excluded_triggers.extend(v.list().map(str::to_owned));
        Ok(())
    }),
    header("x-ms-documentdb-pre-trigger-include", "the pre-trigger of a write", |a, v| {
        a.pre_trigger = v.one_name()?;
        Ok(())
    }),
    header("x-ms-documentdb-query-emit-traces", "nothing: there are no traces to add", FREE_HINT),
    header("x-ms-documentdb-query-enable-low-precision-order-by", "nothing: every order is exact", FREE_HINT),
    header("x-ms-documentdb-query-enable-scan", "nothing: a query may always scan", FREE_HINT),
    header("x-ms-documentdb-query-enablecrosspartition", "lets a query ask every partition", |a, v| {
        a.cross_partition = v.boolean()?;
        Ok(())
    }),
    header("x-ms-documentdb-query-iscontinuationexpected", "nothing: pages end where they must", BOOLEAN_HINT),
    header("x-ms-documentdb-query-parallelizecrosspartitionquery", "nothing: the server decides", BOOLEAN_HINT),
    header("x-ms-documentdb-responsecontinuationtokenlimitinkb", "bounds continuations", |a, v| {
        a.continuation_limit_kb = Some(usize::try_from(v.number(1, i64::from(i32::MAX))?).unwrap_or(usize::MAX));
        Ok(())
    }),
    header("x-ms-documentdb-script-enable-logging", "returns what a procedure logs", |a, v| {
        a.script_logging = v.boolean()?;
        Ok(())
    }),
    header("x-ms-end-epk", "where the stretch of hash space ends", |a, v| {
        a.end_epk = Some(Epk::from_hex(v.text)?);
        Ok(())
    }),
    header("x-ms-indexing-directive", "Exclude leaves an item out of the index", |a, v| {
        a.leave_out_of_index = v.one_of(&[("Default", false), ("Include", false), ("Exclude", true)])?;
        Ok(())
    }),
    header("x-ms-max-item-count", "rows of a page", |a, v| {
        a.max_items = match v.number(-1, i64::from(i32::MAX))? {
            -1 => MaxItems::ServerChooses,
            0 => MaxItems::Default,
            n => MaxItems::AtMost(usize::try_from(n).unwrap_or(usize::MAX)),
        };
        Ok(())
    }),
    header("x-ms-noretry-449", "nothing: the server never repeats a write by itself", BOOLEAN_HINT),
    header("x-ms-offer-throughput", "manual throughput of a new container or database", |a, v| {
        a.manual_throughput = Some(manual_throughput(v)?);
        Ok(())
    }),
    header("x-ms-offer-type", "nothing: throughput is a number", FREE_HINT),
    header("x-ms-read-key-type", "must speak of effective partition keys", |_, v| {
        v.one_of(&[("EffectivePartitionKeyRange", ()), ("EffectivePartitionKey", ())])
    }),
    header("x-ms-session-token", "what a read must have seen", |a, v| {
        a.session = Some(match a.session.take() {
            Some(before) => format!("{before},{}", v.text),
            None => v.text.to_owned(),
        });
        Ok(())
    }),
    header("x-ms-start-epk", "where the stretch of hash space begins", |a, v| {
        a.start_epk = Some(Epk::from_hex(v.text)?);
        Ok(())
    }),
    header("x-ms-version", "must be a version of the service", |_, v| {
        if VERSIONS.contains(&v.text) {
            return Ok(());
        }
        Err(v.invalid(&format!("The versions known are {}.", VERSIONS.join(", "))))
    }),
    header("x-orrery-explain", "reports how each partition was searched, percent-encoded", |a, v| {
        a.explain = v.boolean()?;
        Ok(())
    }),
];

fn range_name(v: &Value<'_>) -> Result<RangeName> {
    let (container, number) = match v.text.split_once(',') {
        Some((container, number)) => (Some(container.trim().to_owned()), number.trim()),
        None => (None, v.text),
    };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(v.invalid("It must be a number, or a container's resource id, a comma and a number."));
    }
    Ok(RangeName { container, id: number.parse().ok() })
}

fn manual_throughput(v: &Value<'_>) -> Result<u32> {
    let fits = |n: &u32| (400..=1_000_000).contains(n) && n.is_multiple_of(100);
    v.text.parse().ok().filter(fits).ok_or_else(|| {
        v.invalid(
            "The offer should have valid throughput values between 400 and 1000000 inclusive in increments of 100.",
        )
    })
}

fn autoscale_max(v: &Value<'_>) -> Result<u32> {
    let invalid =
        || v.invalid("It must be JSON with 'maxThroughput' between 1000 and 1000000 inclusive in increments of 1000.");
    let settings = parse(v.text.as_bytes()).map_err(|_| invalid())?;
    let percent = settings.get("autoUpgradePolicy").and_then(|p| p.get("throughputPolicy"));
    if percent.and_then(|p| p.get("incrementPercent")).and_then(Json::as_f64).unwrap_or(0.0) != 0.0 {
        return Err(Error::unsupported("An autoscale policy that raises the maximum by itself (incrementPercent)"));
    }
    let max = settings.get("maxThroughput").and_then(Json::as_i64).and_then(|n| u32::try_from(n).ok());
    max.filter(|n| (1000..=1_000_000).contains(n) && n.is_multiple_of(1000)).ok_or_else(invalid)
}
