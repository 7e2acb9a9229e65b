//! The forms in which consumers write their leases.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_model::partition_key::Epk;
use std::fmt;

/// The depth to which the state of an SDK's feed is searched for positions.
const DEPTH: usize = 8;

/// A lease on a range of a change feed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    pub id: String,
    /// The consumer.
    pub group: String,
    pub owner: Option<String>,
    pub range: LeaseRange,
    /// The LSN up to which changes are processed.
    pub continuation: Option<u64>,
    /// True if a lease without a position begins with the oldest change.
    pub starts_at_beginning: bool,
    /// True if the range was split or merged and its changes are processed.
    pub is_gone: bool,
    /// Seconds since 1970.
    pub renewed: u64,
}

/// The range of a lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LeaseRange {
    /// A partition key range id.
    Partition(String),
    /// From the first EPK to before the second.
    Epk(Epk, Epk),
}

impl fmt::Display for LeaseRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LeaseRange::Partition(id) => f.write_str(id),
            LeaseRange::Epk(min, max) => write!(f, "{min}-{max}"),
        }
    }
}

/// The meaning of an item of a lease container.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reading {
    Lease(Lease),
    /// The sign of life of an owner of leases.
    Worker {
        id: String,
        renewed: u64,
    },
    /// Not a lease of the container, with the reason.
    Foreign(&'static str),
}

/// Reads an item. `container` is the resource id of the container whose feed is consumed.
pub(super) fn read(item: &Json, container: &str) -> Reading {
    let Some(id) = text(item, "id") else {
        return Reading::Foreign("an item without an id");
    };
    if item.get("pipeline").is_some() {
        return pipeline_lease(item, id, container);
    }
    if id.ends_with(".info") || id.ends_with(".lock") {
        return Reading::Foreign("a mark of the change feed processor");
    }
    let token = text(item, "LeaseToken").or_else(|| text(item, "PartitionId"));
    let (Some(token), Some((group, _))) = (token, id.split_once("..")) else {
        return Reading::Foreign("not a lease in a known form");
    };
    if !group.ends_with(&format!("_{container}")) {
        return Reading::Foreign("a lease of another container");
    }
    let Some(range) = sdk_range(item, &token) else {
        return Reading::Foreign("a lease whose range cannot be read");
    };
    Reading::Lease(Lease {
        group: group.to_owned(),
        owner: text(item, "Owner").filter(|owner| !owner.is_empty()),
        range,
        continuation: text(item, "ContinuationToken").and_then(|token| sdk_position(&token)),
        starts_at_beginning: false,
        is_gone: false,
        renewed: seconds(item),
        id,
    })
}

/// Reads an item of the pipelines of the reference blog.
fn pipeline_lease(item: &Json, id: String, container: &str) -> Reading {
    let pipeline = text(item, "pipeline").unwrap_or_default();
    if pipeline == "workers" {
        let renewed = seconds(item);
        return Reading::Worker { id, renewed };
    }
    match text(item, "container") {
        None => return Reading::Foreign("not a lease in a known form"),
        Some(other) if other != container => {
            return Reading::Foreign("a lease of another container");
        }
        Some(_) => {}
    }
    let position = text(item, "position");
    Reading::Lease(Lease {
        group: pipeline,
        owner: text(item, "owner"),
        range: LeaseRange::Partition(id.clone()),
        continuation: position.as_deref().and_then(etag_position),
        starts_at_beginning: position.is_none(),
        is_gone: item.get("gone").and_then(Json::as_bool) == Some(true),
        renewed: seconds(item),
        id,
    })
}

fn text(item: &Json, name: &str) -> Option<String> {
    item.get(name).and_then(Json::as_str).map(str::to_owned)
}

/// Returns the time of the last write, which every renewal of a lease is.
fn seconds(item: &Json) -> u64 {
    let seconds = item.get("_ts").and_then(Json::as_i64).unwrap_or(0);
    u64::try_from(seconds).unwrap_or(0)
}

/// Returns the range of an SDK's lease: its EPK range if the lease has one, otherwise the partition
/// key range id that is its token.
fn sdk_range(item: &Json, token: &str) -> Option<LeaseRange> {
    let range = item.get("FeedRange").and_then(|range| range.get("Range"));
    let bounds = match range {
        Some(range) => (text(range, "min")?, text(range, "max")?),
        // A token without a hyphen is a number.
        None => match token.split_once('-') {
            Some((min, max)) => (min.to_owned(), max.to_owned()),
            None => return Some(LeaseRange::Partition(token.to_owned())),
        },
    };
    let min = Epk::from_hex(&bounds.0).ok()?;
    let max = Epk::from_hex(&bounds.1).ok()?;
    (min <= max).then_some(LeaseRange::Epk(min, max))
}

/// Returns the LSN of an etag of a change feed: `"12"` with its quotes.
fn etag_position(etag: &str) -> Option<u64> {
    etag.trim_matches('"').parse().ok()
}

/// Returns the LSN of a continuation of an SDK: an etag, or the state of a feed in JSON, plain or
/// in base64, of which the lowest position counts.
fn sdk_position(token: &str) -> Option<u64> {
    if let Some(position) = etag_position(token) {
        return Some(position);
    }
    let state = match parse(token.as_bytes()) {
        Ok(state) => state,
        Err(_) => parse(&STANDARD.decode(token).ok()?).ok()?,
    };
    lowest_position(&state, DEPTH)
}

/// Returns the lowest position among the members `token` of a state.
fn lowest_position(state: &Json, depth: usize) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    let mut lowest: Option<u64> = None;
    let mut add = |position: Option<u64>| {
        if let Some(position) = position {
            lowest = Some(lowest.map_or(position, |lowest| lowest.min(position)));
        }
    };
    match state {
        Json::Array(elements) => {
            for element in elements {
                add(lowest_position(element, depth));
            }
        }
        Json::Object(members) => {
            for (name, value) in members.iter() {
                match value {
                    Json::String(token) if name.eq_ignore_ascii_case("token") => {
                        add(etag_position(token));
                    }
                    other => add(lowest_position(other, depth)),
                }
            }
        }
        _ => {}
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    const RID: &str = "XP0mAJ3H-AA=";

    fn reading(text: &str) -> Reading {
        read(&parse(text.as_bytes()).expect("JSON"), RID)
    }

    fn lease(text: &str) -> Lease {
        match reading(text) {
            Reading::Lease(lease) => lease,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn leases_of_the_sdks_are_read_by_partition_and_by_epk_range() {
        let by_partition = lease(
            r#"{"id":"app_XP0mAA==_XP0mAJ3H-AA=..3","LeaseToken":"3","Owner":"host-1",
                "ContinuationToken":"\"12\"","_ts":1767225600}"#,
        );
        assert_eq!(by_partition.range, LeaseRange::Partition("3".into()));
        assert_eq!(by_partition.group, "app_XP0mAA==_XP0mAJ3H-AA=");
        assert_eq!(by_partition.owner.as_deref(), Some("host-1"));
        assert_eq!(
            (by_partition.continuation, by_partition.renewed),
            (Some(12), 1_767_225_600)
        );

        let by_range = lease(
            r#"{"id":"app_XP0mAA==_XP0mAJ3H-AA=..-1F","version":1,"LeaseToken":"-1F","Owner":null,
                "FeedRange":{"Range":{"min":"","max":"1F"}},"ContinuationToken":null}"#,
        );
        assert_eq!(by_range.range.to_string(), "-1F");
        assert_eq!((by_range.continuation, by_range.owner), (None, None));
        let without_range =
            lease(r#"{"id":"_XP0mAJ3H-AA=..0F-1F","LeaseToken":"0F-1F","Owner":""}"#);
        assert_eq!(without_range.range, by_epk("0F", "1F"));
    }

    fn by_epk(min: &str, max: &str) -> LeaseRange {
        let epk = |text| Epk::from_hex(text).expect("hexadecimal digits");
        LeaseRange::Epk(epk(min), epk(max))
    }

    #[test]
    fn a_continuation_is_an_etag_or_the_state_of_a_feed() {
        let state = r#"{"V":1,"Rid":"x","Continuation":[
            {"token":"\"17\"","range":{"min":"","max":"1F"}},
            {"token":"\"9\"","range":{"min":"1F","max":"FF"}}]}"#;
        let encoded = STANDARD.encode(state);
        for (token, expected) in [
            ("12", Some(12)),
            ("\"12\"", Some(12)),
            (state, Some(9)),
            (encoded.as_str(), Some(9)),
            ("", None),
            ("not a token", None),
            (r#"{"token":{"token":[]}}"#, None),
        ] {
            assert_eq!(sdk_position(token), expected, "{token}");
        }
        let deep = format!("{}{}", "[".repeat(50), "]".repeat(50));
        assert_eq!(sdk_position(&deep), None);
    }

    #[test]
    fn leases_and_workers_of_the_pipelines_are_read() {
        let read = lease(
            r#"{"id":"3","pipeline":"blog-v3.posts","container":"XP0mAJ3H-AA=","parents":["0"],
                "owner":"w1","position":null,"gone":false,"_ts":5}"#,
        );
        assert!(read.starts_at_beginning && !read.is_gone);
        assert_eq!(
            (read.group.as_str(), read.range.to_string()),
            ("blog-v3.posts", "3".into())
        );
        let worker = reading(r#"{"id":"w1","pipeline":"workers","stats":{},"_ts":9}"#);
        let renewed = Reading::Worker {
            id: "w1".into(),
            renewed: 9,
        };
        assert_eq!(worker, renewed);
    }

    #[test]
    fn other_items_are_foreign_with_their_reason() {
        for (text, part) in [
            (r#"{"id":"app_a_XP0mAJ3H-AA=.info"}"#, "mark"),
            (r#"{"id":"app_a_XP0mAJ3H-AA=.lock","ttl":60}"#, "mark"),
            (
                r#"{"id":"app_a_other..0","LeaseToken":"0"}"#,
                "another container",
            ),
            (
                r#"{"id":"3","pipeline":"p","container":"other"}"#,
                "another container",
            ),
            (r#"{"id":"3","pipeline":7}"#, "known form"),
            (r#"{"id":"a post","title":"x"}"#, "known form"),
            (r#"{"id":"_XP0mAJ3H-AA=..x","LeaseToken":"zz-1F"}"#, "range"),
            (r#"{"LeaseToken":"0"}"#, "without an id"),
            ("[]", "without an id"),
        ] {
            match reading(text) {
                Reading::Foreign(reason) => assert!(reason.contains(part), "{text}: {reason}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
