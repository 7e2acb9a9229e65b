//! What a query plan asks a client to do, and the merge of several partitions' rows that follows from it.
//!
//! The merge is a plain machine without I/O: [`Merge::step`] gives the next row, or names the partition whose next page it
//! needs first. It holds at most one page of each partition.

use crate::client::Range;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};

const ORDER_BY_FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// One page of a partition's rows.
pub(crate) struct Page {
    pub(crate) rows: Vec<Value>,
    pub(crate) continuation: Option<String>,
}

/// What a query plan says.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The text to send to each partition.
    pub(crate) text: String,
    /// One entry per ORDER BY expression: whether it descends.
    descending: Vec<bool>,
    distinct: bool,
    top: Option<usize>,
    offset: usize,
    limit: Option<usize>,
    /// Effective partition keys to ask: min, max, whether max belongs to it.
    ranges: Vec<(String, String, bool)>,
}

impl Plan {
    pub(crate) fn read(plan: &Value, original: &str) -> Result<Self, String> {
        let info = plan
            .get("queryInfo")
            .filter(|v| v.is_object())
            .ok_or("no queryInfo")?;
        let filled = |name: &str| match &info[name] {
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            other => other.as_bool().unwrap_or(false),
        };
        for refused in [
            "aggregates",
            "groupByExpressions",
            "groupByAliases",
            "dCountInfo",
            "hasNonStreamingOrderBy",
        ] {
            if filled(refused) {
                return Err(format!(
                    "the blog's client does not merge what {refused} asks for: {}",
                    info[refused]
                ));
            }
        }
        let number = |name: &str| info[name].as_u64().and_then(|n| usize::try_from(n).ok());
        let order = info["orderBy"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let rewritten = info["rewrittenQuery"]
            .as_str()
            .filter(|text| !text.is_empty());
        let mut ranges = Vec::new();
        for range in plan["queryRanges"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
        {
            let (Some(min), Some(max)) = (range["min"].as_str(), range["max"].as_str()) else {
                return Err(format!("a query range that is no pair of texts: {range}"));
            };
            ranges.push((
                min.to_owned(),
                max.to_owned(),
                range["isMaxInclusive"].as_bool().unwrap_or(false),
            ));
        }
        Ok(Self {
            text: rewritten.map_or_else(
                || original.to_owned(),
                |text| text.replace(ORDER_BY_FILTER, "true"),
            ),
            descending: order.iter().map(|way| way == "Descending").collect(),
            distinct: info["distinctType"]
                .as_str()
                .is_some_and(|kind| kind != "None"),
            top: number("top"),
            offset: number("offset").unwrap_or(0),
            limit: number("limit"),
            ranges,
        })
    }

    pub(crate) fn covers(&self, range: &Range) -> bool {
        let meets = |(min, max, inclusive): &(String, String, bool)| {
            min.as_str() < range.max.as_str()
                && (range.min < *max || (*inclusive && range.min == *max))
        };
        self.ranges.is_empty() || self.ranges.iter().any(meets)
    }

    /// Rows that the merge reads before it stops.
    pub(crate) fn needed(&self) -> Option<usize> {
        self.top
            .or(self.limit.map(|limit| self.offset.saturating_add(limit)))
    }
}

/// What comes next in a merge.
pub(crate) enum Step {
    Row(Value),
    /// Get the next page of a lane, from a continuation.
    Fetch(usize, String),
    Done,
}

/// Merges the streams ("lanes") of several physical partitions into one.
pub(crate) struct Merge<'a> {
    plan: &'a Plan,
    lanes: Vec<Lane>,
    /// Rows still to skip and to give.
    skip: usize,
    left: usize,
    seen: HashSet<String>,
}

#[derive(Default)]
struct Lane {
    rows: VecDeque<(Vec<Value>, Value)>,
    continuation: Option<String>,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(plan: &'a Plan, lanes: usize) -> Self {
        let left = plan.top.or(plan.limit).unwrap_or(usize::MAX);
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        Self {
            plan,
            lanes,
            skip: plan.offset,
            left,
            seen: HashSet::new(),
        }
    }

    pub(crate) fn fill(&mut self, lane: usize, page: Page) -> Result<(), String> {
        let lane = &mut self.lanes[lane];
        lane.continuation = page.continuation;
        for mut row in page.rows {
            if self.plan.descending.is_empty() {
                lane.rows.push_back((Vec::new(), row));
                continue;
            }
            let Value::Array(keys) = row["orderByItems"].take() else {
                return Err("a row of an ordered query without orderByItems".into());
            };
            if keys.len() != self.plan.descending.len() {
                return Err(format!(
                    "{} order keys where the plan has {}",
                    keys.len(),
                    self.plan.descending.len()
                ));
            }
            lane.rows.push_back((keys, row["payload"].take()));
        }
        Ok(())
    }

    pub(crate) fn step(&mut self) -> Step {
        while self.left > 0 {
            // An ordered merge needs the head of every lane; any other takes lane after lane.
            let ordered = !self.plan.descending.is_empty();
            for (index, lane) in self.lanes.iter_mut().enumerate() {
                if !lane.rows.is_empty() {
                    if ordered { continue } else { break }
                }
                if let Some(continuation) = lane.continuation.take() {
                    return Step::Fetch(index, continuation);
                }
            }
            let heads = self
                .lanes
                .iter()
                .enumerate()
                .filter(|(_, lane)| !lane.rows.is_empty());
            let next = heads.min_by(|(_, a), (_, b)| {
                compare_keys(&a.rows[0].0, &b.rows[0].0, &self.plan.descending)
            });
            let Some((index, _)) = next else {
                return Step::Done;
            };
            let Some((_, row)) = self.lanes[index].rows.pop_front() else {
                return Step::Done;
            };
            if self.plan.distinct && !self.seen.insert(row.to_string()) {
                continue;
            }
            if self.skip > 0 {
                self.skip -= 1;
                continue;
            }
            self.left -= 1;
            return Step::Row(row);
        }
        Step::Done
    }
}

fn compare_keys(a: &[Value], b: &[Value], descending: &[bool]) -> Ordering {
    for ((a, b), descending) in a.iter().zip(b).zip(descending) {
        let order = compare(a.get("item"), b.get("item"));
        if order.is_ne() {
            return if *descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

/// The order of the query language: undefined, null, false, true, numbers, strings; arrays and objects by their text.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let rank = |v: Option<&Value>| match v {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(_)) => 2,
        Some(Value::Number(_)) => 3,
        Some(Value::String(_)) => 4,
        Some(Value::Array(_)) => 5,
        Some(Value::Object(_)) => 6,
    };
    match (a, b) {
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => a
            .as_f64()
            .unwrap_or_default()
            .total_cmp(&b.as_f64().unwrap_or_default()),
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
            (Some(a), Some(b)) => a.to_string().cmp(&b.to_string()),
            _ => Ordering::Equal,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(keys: &[i64]) -> Vec<Value> {
        keys.iter()
            .map(|k| json!({"_rid": "x", "orderByItems": [{"item": k}], "payload": k}))
            .collect()
    }

    /// Runs a merge whose lanes hold these pages, and notes which lanes had to be asked again.
    fn merged(plan: &Plan, mut lanes: Vec<VecDeque<Vec<Value>>>) -> (Vec<Value>, Vec<usize>) {
        let mut merge = Merge::new(plan, lanes.len());
        let mut fill = |merge: &mut Merge<'_>, lane: usize| {
            let rows = lanes[lane].pop_front().unwrap_or_default();
            let continuation = (!lanes[lane].is_empty()).then(|| "more".to_owned());
            merge.fill(lane, Page { rows, continuation }).unwrap();
        };
        for lane in 0..merge.lanes.len() {
            fill(&mut merge, lane);
        }
        let (mut out, mut asked) = (Vec::new(), Vec::new());
        loop {
            match merge.step() {
                Step::Row(row) => out.push(row),
                Step::Fetch(lane, _) => {
                    asked.push(lane);
                    fill(&mut merge, lane);
                }
                Step::Done => return (out, asked),
            }
        }
    }

    #[test]
    fn an_ordered_merge_fetches_a_second_page_only_where_it_needs_a_row_of_it() {
        let plan = Plan {
            descending: vec![true],
            top: Some(5),
            ..Plan::default()
        };
        let lanes = vec![
            VecDeque::from([rows(&[9, 8]), rows(&[7, 1])]),
            VecDeque::from([rows(&[6, 5]), rows(&[4])]),
            VecDeque::from([rows(&[])]),
        ];
        let (out, asked) = merged(&plan, lanes);
        assert_eq!(out, [9, 8, 7, 6, 5]);
        assert_eq!(
            asked,
            [0],
            "the second lane still had a row when the fifth was given"
        );
    }

    #[test]
    fn offset_and_limit_are_counted_after_the_merge() {
        let plan = Plan {
            descending: vec![false],
            offset: 2,
            limit: Some(2),
            ..Plan::default()
        };
        let lanes = vec![
            VecDeque::from([rows(&[1, 4, 6])]),
            VecDeque::from([rows(&[2, 3, 5])]),
        ];
        assert_eq!(merged(&plan, lanes).0, [3, 4]);
    }

    #[test]
    fn distinct_rows_of_several_partitions_are_given_once() {
        let plan = Plan {
            distinct: true,
            ..Plan::default()
        };
        let lanes = vec![
            VecDeque::from([vec![json!("a"), json!("b")], vec![json!("a")]]),
            VecDeque::from([vec![json!("b"), json!(1)]]),
        ];
        assert_eq!(merged(&plan, lanes).0, [json!("a"), json!("b"), json!(1)]);
    }

    #[test]
    fn values_of_different_types_have_one_order() {
        let ordered = [
            None,
            Some(json!(null)),
            Some(json!(false)),
            Some(json!(true)),
            Some(json!(-1)),
            Some(json!(2.5)),
            Some(json!("B")),
            Some(json!("a")),
            Some(json!([1])),
            Some(json!({"a": 1})),
        ];
        for pair in ordered.windows(2) {
            assert_eq!(
                compare(pair[0].as_ref(), pair[1].as_ref()),
                Ordering::Less,
                "{pair:?}"
            );
        }
    }

    #[test]
    fn a_plan_names_the_text_the_order_and_the_partitions() {
        let query = "SELECT TOP 100 * FROM c ORDER BY c.creationDate DESC";
        let plan = json!({"queryInfo": {"distinctType": "None", "top": 100, "orderBy": ["Descending"], "aggregates": [],
            "groupByAliasToAggregateType": {}, "dCountInfo": null, "hasNonStreamingOrderBy": false,
            "rewrittenQuery": "SELECT TOP 100 c._rid … WHERE ({documentdb-formattableorderbyquery-filter})"},
            "queryRanges": [{"min": "1F", "max": "1F", "isMinInclusive": true, "isMaxInclusive": true}]});
        let plan = Plan::read(&plan, query).unwrap();
        assert_eq!(plan.text, "SELECT TOP 100 c._rid … WHERE (true)");
        assert_eq!(
            (plan.needed(), plan.descending.as_slice()),
            (Some(100), [true].as_slice())
        );
        let range = |min: &str, max: &str| Range {
            id: "0".into(),
            min: min.into(),
            max: max.into(),
            parents: vec![],
        };
        assert!(plan.covers(&range("1F", "2F")) && plan.covers(&range("", "FF")));
        assert!(!plan.covers(&range("", "1F")) && !plan.covers(&range("2F", "FF")));
    }

    #[test]
    fn a_plan_that_needs_another_kind_of_merge_is_refused() {
        let query = "SELECT VALUE COUNT(1) FROM c";
        let plan = json!({"queryInfo": {"aggregates": ["Count"], "rewrittenQuery": "…"}});
        assert!(Plan::read(&plan, query).unwrap_err().contains("aggregates"));
    }
}
