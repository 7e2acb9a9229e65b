//! The partition key ranges of a container.
//!
//! Clients use this path in two ways: some repeat the request with the etag until the answer is
//! 304, others read once. The current etag is therefore answered with 304 and everything else with
//! the whole list; only a client that asks for pages gets pages.

use super::Progress;
use crate::call::Call;
use crate::feed::{FeedKind, envelope};
use crate::headers::{MaxItems, RequestHeaders};
use crate::reply::Reply;
use bytes::Bytes;
use orrery_engine::request::{Charge, RangeInfo};
use orrery_engine::{Container, Engine};
use orrery_model::partition_key::Epk;
use orrery_model::{Error, Json, Result, Rid, object};

pub(super) fn read(engine: &Engine, call: &Call, container: &Container) -> Result<Progress> {
    let (ranges, etag) = engine.partition_key_ranges(container)?;
    let etag = if etag.starts_with('"') {
        etag
    } else {
        format!("\"{etag}\"")
    };
    let mut reply = if is_current(call.headers.if_none_match.as_deref(), &etag) {
        Reply::empty(304).with_rows(0, None)
    } else {
        let (page, continuation) = page(&ranges, &call.headers)?;
        let rows: Vec<Bytes> = page
            .iter()
            .map(|range| row(container.rid(), range, ranges.len(), &etag))
            .collect();
        let body = envelope(Some(container.rid()), FeedKind::Ranges, &rows);
        Reply::json(200, body).with_rows(rows.len(), continuation.as_deref())
    };
    reply.charge = Charge(100);
    Ok(Progress::Complete(reply.with_etag(&etag)))
}

/// Returns the ranges of a page and the continuation of the next page. A continuation is the EPK at
/// which the next range starts: a split keeps this EPK as the border of a range.
fn page<'a>(
    ranges: &'a [RangeInfo],
    headers: &RequestHeaders,
) -> Result<(&'a [RangeInfo], Option<String>)> {
    let rest = match &headers.continuation {
        None => ranges,
        Some(border) => {
            let border =
                Epk::from_hex(border).map_err(|_| Error::bad("Invalid Continuation Token."))?;
            &ranges[ranges.partition_point(|range| range.range.min < border)..]
        }
    };
    // A client that follows the list as a change feed gets the whole list at once.
    let count = match headers.max_items {
        MaxItems::AtMost(count) if headers.change_feed.is_none() => count.min(rest.len()),
        _ => rest.len(),
    };
    let continuation = rest.get(count).map(|next| next.range.min.to_string());
    Ok((&rest[..count], continuation))
}

/// Returns true if the etag of the client is the current one, with or without quotes.
fn is_current(if_none_match: Option<&str>, etag: &str) -> bool {
    if_none_match.is_some_and(|known| known.trim_matches('"') == etag.trim_matches('"'))
}

/// Returns a range as JSON. `count` is the number of ranges of the container.
fn row(container: Rid, range: &RangeInfo, count: usize, etag: &str) -> Bytes {
    let parents: Vec<Json> = range
        .parents
        .iter()
        .map(|id| Json::from(id.to_string()))
        .collect();
    let database = container.database_part();
    let row = object! {
        "_rid" => range.rid.to_string(),
        "id" => range.id.to_string(),
        "_etag" => etag,
        "minInclusive" => range.range.min.to_string(),
        "maxExclusive" => range.range.max.to_string(),
        "ridPrefix" => range.id,
        "_self" => format!("dbs/{database}/colls/{container}/pkranges/{}/", range.rid),
        "throughputFraction" => 1.0 / count as f64,
        "status" => if range.is_splitting { "splitting" } else { "online" },
        "parents" => parents,
        "ownedArchivalPKRangeIds" => Vec::new(),
        // Ranges have no time of change; clients only check that the member exists.
        "_ts" => 0,
        "_lsn" => range.lsn,
    };
    Json::Object(row).to_text().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;
    use orrery_model::partition_key::EpkRange;
    use orrery_model::rid::ChildKind;

    #[test]
    fn a_range_is_written_as_clients_parse_it() {
        let container = Rid::parse("hy5tAOrJ4DU=").expect("a rid");
        let rid = Rid::child(container, ChildKind::Range, 2);
        let range = RangeInfo {
            id: 0,
            rid,
            range: EpkRange::all(),
            parents: vec![7],
            lsn: 1,
            is_splitting: false,
        };
        let json = parse(&row(container, &range, 2, "\"11\"")).expect("JSON");
        let text = |name: &str| {
            json.get(name)
                .and_then(|v| v.as_str())
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(text("id"), "0");
        assert_eq!(
            (text("minInclusive"), text("maxExclusive")),
            (String::new(), "FF".into())
        );
        assert_eq!(
            text("_self"),
            format!("dbs/hy5tAA==/colls/hy5tAOrJ4DU=/pkranges/{rid}/")
        );
        assert_eq!(
            json.get("parents").map(Json::to_text),
            Some("[\"7\"]".into())
        );
        assert_eq!(
            json.get("throughputFraction").and_then(Json::as_f64),
            Some(0.5)
        );
    }

    #[test]
    fn only_the_current_etag_is_not_modified() {
        assert!(is_current(Some("\"1\""), "\"1\""));
        assert!(is_current(Some("1"), "\"1\""));
        assert!(!is_current(Some("\"0\""), "\"1\""));
        assert!(!is_current(None, "\"1\""));
    }
}
