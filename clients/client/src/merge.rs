//! Query plans, and the merge of rows from several partitions that a plan describes.
//!
//! The merge does no I/O: [`Merge::next_step`] returns the next row, or the partition whose next
//! page it needs first. It holds at most one page of each partition.

use crate::scope::{PartitionKeyRange, QueryText};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::cmp::Ordering;
use std::collections::{HashSet, VecDeque};

/// The placeholder for a resume condition in the rewritten text of an ordered query. This client
/// never resumes a query and replaces the placeholder by `true`.
const ORDER_BY_FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// Members of `queryInfo` that describe merges which this client does not support.
const UNSUPPORTED_MERGES: [&str; 5] = [
    "aggregates",
    "groupByExpressions",
    "groupByAliases",
    "dCountInfo",
    "hasNonStreamingOrderBy",
];

/// Returns the text of a row in one spelling of its strings and numbers.
fn normalized(row: &str) -> String {
    match serde_json::from_str::<Value>(row) {
        Ok(value) => value.to_string(),
        Err(_) => row.to_owned(),
    }
}

/// A row of an ordered query: the rewritten text wraps each row together with its ORDER BY values.
#[derive(Deserialize)]
struct OrderedRow {
    #[serde(rename = "orderByItems")]
    keys: Vec<Value>,
    /// Absent if the row has no value: such a row is left out.
    #[serde(default, deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
}

/// Reads a value that is there, `null` too.
fn present<'de, D>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A parsed query plan.
#[derive(Debug, Default)]
pub struct Plan {
    /// The query text for each partition.
    text: String,
    /// For each ORDER BY expression, true if its order is descending.
    descending: Vec<bool>,
    distinct: bool,
    top: Option<usize>,
    offset: usize,
    limit: Option<usize>,
    /// The parts of the hash space to query. Empty for the whole space.
    ranges: Vec<QueryRange>,
}

/// A range of effective partition keys in a query plan; `min` is always inclusive.
#[derive(Debug)]
struct QueryRange {
    min: String,
    max: String,
    is_max_inclusive: bool,
}

impl QueryRange {
    fn overlaps(&self, range: &PartitionKeyRange) -> bool {
        let begins_before_end = self.min < range.max;
        let ends_after_start =
            range.min < self.max || (self.is_max_inclusive && range.min == self.max);
        begins_before_end && ends_after_start
    }
}

impl Plan {
    /// Parses the query plan of the query `original`.
    ///
    /// # Errors
    /// A description, if the plan is malformed or requires a merge that the client does not
    /// support.
    pub(crate) fn from_json(plan: &Value, original: &str) -> Result<Self, String> {
        let info = plan
            .get("queryInfo")
            .filter(|info| info.is_object())
            .ok_or("no queryInfo")?;
        for name in UNSUPPORTED_MERGES {
            if is_set(&info[name]) {
                return Err(format!(
                    "the client does not support the merge for {name}: {}",
                    info[name]
                ));
            }
        }

        // A plan without a rewritten query leaves the original text unchanged.
        let text = match info["rewrittenQuery"].as_str() {
            Some(rewritten) if !rewritten.is_empty() => rewritten.replace(ORDER_BY_FILTER, "true"),
            _ => original.to_owned(),
        };
        let order = info["orderBy"].as_array().into_iter().flatten();
        let distinct = match info["distinctType"].as_str() {
            Some(distinct_type) => distinct_type != "None",
            None => false,
        };
        let number = |name: &str| info[name].as_u64().and_then(|n| usize::try_from(n).ok());

        let mut ranges = Vec::new();
        for range in plan["queryRanges"].as_array().into_iter().flatten() {
            let (Some(min), Some(max)) = (range["min"].as_str(), range["max"].as_str()) else {
                return Err(format!("a query range without two strings: {range}"));
            };
            ranges.push(QueryRange {
                min: min.to_owned(),
                max: max.to_owned(),
                is_max_inclusive: range["isMaxInclusive"].as_bool().unwrap_or(false),
            });
        }
        Ok(Self {
            text,
            descending: order.map(|direction| direction == "Descending").collect(),
            distinct,
            top: number("top"),
            offset: number("offset").unwrap_or(0),
            limit: number("limit"),
            ranges,
        })
    }

    /// Returns true if the query must be sent to the partition of `range`.
    pub fn includes(&self, range: &PartitionKeyRange) -> bool {
        self.ranges.is_empty() || self.ranges.iter().any(|queried| queried.overlaps(range))
    }

    /// Returns the query for each partition, with the parameters of the query `original`.
    pub fn rewritten(&self, original: &QueryText) -> QueryText {
        QueryText {
            text: self.text.clone(),
            parameters: original.parameters.clone(),
        }
    }

    /// Returns the number of rows after which the merge ends; `None` if it reads all rows.
    pub(crate) fn rows_max(&self) -> Option<usize> {
        self.top
            .or(self.limit.map(|limit| self.offset.saturating_add(limit)))
    }
}

/// Returns true unless a member of `queryInfo` is missing, null, false or empty.
fn is_set(member: &Value) -> bool {
    match member {
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        other => other.as_bool().unwrap_or(false),
    }
}

/// The result of one step of a merge.
pub(crate) enum MergeStep {
    /// The next row.
    Row(Box<RawValue>),
    /// The merge needs the next page of a partition: its index and continuation.
    Fetch(usize, String),
    /// There are no more rows.
    Done,
}

/// The merge of several physical partitions into one sequence of rows.
pub(crate) struct Merge<'a> {
    plan: &'a Plan,
    partitions: Vec<PartitionRows>,
    /// Rows still to skip, for OFFSET.
    to_skip: usize,
    /// Rows still to return, for TOP or LIMIT.
    to_return: usize,
    /// The rows returned or skipped so far, for DISTINCT.
    seen: HashSet<String>,
}

/// The rows of one partition that the merge has not used yet.
#[derive(Default)]
struct PartitionRows {
    /// Each row with its ORDER BY values.
    rows: VecDeque<(Vec<Value>, Box<RawValue>)>,
    /// The continuation of the next page; `None` after the last page.
    continuation: Option<String>,
}

impl<'a> Merge<'a> {
    /// Creates a merge of `partitions` partitions without rows.
    pub(crate) fn new(plan: &'a Plan, partitions: usize) -> Self {
        Self {
            plan,
            partitions: (0..partitions).map(|_| PartitionRows::default()).collect(),
            to_skip: plan.offset,
            to_return: plan.top.or(plan.limit).unwrap_or(usize::MAX),
            seen: HashSet::new(),
        }
    }

    /// Adds the next page of a partition: its rows, and the continuation of the page after it.
    ///
    /// # Errors
    /// A description, if a row does not have the ORDER BY values that the plan requires.
    pub(crate) fn add_page(
        &mut self,
        partition: usize,
        rows: Vec<Box<RawValue>>,
        continuation: Option<String>,
    ) -> Result<(), String> {
        let partition = &mut self.partitions[partition];
        partition.continuation = continuation;
        let keys = self.plan.descending.len();
        for row in rows {
            if keys == 0 {
                partition.rows.push_back((Vec::new(), row));
                continue;
            }
            let row: OrderedRow = serde_json::from_str(row.get())
                .map_err(|e| format!("a row of an ordered query has another form: {e}"))?;
            if row.keys.len() != keys {
                return Err(format!(
                    "{} order keys where the plan has {keys}",
                    row.keys.len(),
                ));
            }
            if let Some(payload) = row.payload {
                partition.rows.push_back((row.keys, payload));
            }
        }
        Ok(())
    }

    /// Returns the next row, or the page that is needed to find it.
    pub(crate) fn next_step(&mut self) -> MergeStep {
        while self.to_return > 0 {
            if let Some((partition, continuation)) = self.missing_page() {
                return MergeStep::Fetch(partition, continuation);
            }
            let Some(row) = self.pop_smallest() else {
                return MergeStep::Done;
            };
            // DISTINCT comes before OFFSET and LIMIT: repeated rows do not count for them.
            if self.plan.distinct && !self.seen.insert(normalized(row.get())) {
                continue;
            }
            if self.to_skip > 0 {
                self.to_skip -= 1;
                continue;
            }
            self.to_return -= 1;
            return MergeStep::Row(row);
        }
        MergeStep::Done
    }

    /// Returns a partition whose next page is needed before a row can be chosen, and takes its
    /// continuation. An ordered merge compares the first rows of all partitions; any other merge
    /// uses the partitions one after another.
    fn missing_page(&mut self) -> Option<(usize, String)> {
        let is_ordered = !self.plan.descending.is_empty();
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            if partition.rows.is_empty() {
                if let Some(continuation) = partition.continuation.take() {
                    return Some((index, continuation));
                }
            } else if !is_ordered {
                return None;
            }
        }
        None
    }

    /// Removes and returns the smallest first row of all partitions in the order of the plan. Of
    /// equal rows, the row of the first partition is chosen.
    fn pop_smallest(&mut self) -> Option<Box<RawValue>> {
        let partitions = self.partitions.iter_mut();
        let with_rows = partitions.filter(|partition| !partition.rows.is_empty());
        let smallest = with_rows
            .min_by(|a, b| compare_keys(&a.rows[0].0, &b.rows[0].0, &self.plan.descending))?;
        let (_, row) = smallest.rows.pop_front()?;
        Some(row)
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

/// Compares two values in the order of the query language: undefined, null, false, true, numbers,
/// strings, arrays, objects. Arrays and objects are compared by their JSON text.
fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
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

    fn as_sent(row: &Value) -> Box<RawValue> {
        RawValue::from_string(row.to_string()).unwrap()
    }

    /// Merges partitions with the given pages. Returns the rows, and the partitions in the order in
    /// which further pages were requested.
    fn merged(plan: &Plan, mut pages: Vec<VecDeque<Vec<Value>>>) -> (Vec<Value>, Vec<usize>) {
        let mut merge = Merge::new(plan, pages.len());
        let mut add_page = |merge: &mut Merge<'_>, partition: usize| {
            let rows = pages[partition].pop_front().unwrap_or_default();
            let rows = rows.iter().map(as_sent).collect();
            let continuation = (!pages[partition].is_empty()).then(|| "more".to_owned());
            merge.add_page(partition, rows, continuation).unwrap();
        };
        for partition in 0..merge.partitions.len() {
            add_page(&mut merge, partition);
        }
        let (mut out, mut fetched) = (Vec::new(), Vec::new());
        loop {
            match merge.next_step() {
                MergeStep::Row(row) => out.push(serde_json::from_str(row.get()).unwrap()),
                MergeStep::Fetch(partition, _) => {
                    fetched.push(partition);
                    add_page(&mut merge, partition);
                }
                MergeStep::Done => return (out, fetched),
            }
        }
    }

    #[test]
    fn an_ordered_merge_fetches_a_page_only_when_it_needs_a_row_of_the_page() {
        let plan = Plan {
            descending: vec![true],
            top: Some(5),
            ..Plan::default()
        };
        let pages = vec![
            VecDeque::from([rows(&[9, 8]), rows(&[7, 1])]),
            VecDeque::from([rows(&[6, 5]), rows(&[4])]),
            VecDeque::from([rows(&[])]),
        ];
        let (out, fetched) = merged(&plan, pages);
        assert_eq!(out, [9, 8, 7, 6, 5]);
        assert_eq!(
            fetched,
            [0],
            "partition 1 still had a row when the merge was complete"
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
        let pages = vec![
            VecDeque::from([rows(&[1, 4, 6])]),
            VecDeque::from([rows(&[2, 3, 5])]),
        ];
        assert_eq!(merged(&plan, pages).0, [3, 4]);
    }

    #[test]
    fn distinct_returns_equal_rows_of_several_partitions_once() {
        let plan = Plan {
            distinct: true,
            ..Plan::default()
        };
        let pages = vec![
            VecDeque::from([vec![json!("a"), json!("b")], vec![json!("a")]]),
            VecDeque::from([vec![json!("b"), json!(1)]]),
        ];
        assert_eq!(merged(&plan, pages).0, [json!("a"), json!("b"), json!(1)]);
    }

    #[test]
    fn equal_values_in_two_spellings_are_one_row_of_distinct() {
        let plan = Plan {
            distinct: true,
            ..Plan::default()
        };
        let mut merge = Merge::new(&plan, 1);
        let sent = [r#""\u00e9""#, "\"é\"", "100.0", "1e2"];
        let rows = sent.map(|text| RawValue::from_string(text.to_owned()).unwrap());
        merge.add_page(0, rows.into(), None).unwrap();
        let mut out = Vec::new();
        while let MergeStep::Row(row) = merge.next_step() {
            out.push(row.get().to_owned());
        }
        assert_eq!(out, [sent[0], sent[2]]);
    }

    #[test]
    fn an_ordered_row_without_a_value_is_left_out_and_null_is_a_value() {
        let plan = Plan {
            descending: vec![false],
            ..Plan::default()
        };
        let keys = |key: i64| json!([{"item": key}]);
        let pages = vec![VecDeque::from([vec![
            json!({"_rid": "x", "orderByItems": keys(1)}),
            json!({"_rid": "x", "orderByItems": keys(2), "payload": null}),
            json!({"_rid": "x", "orderByItems": keys(3), "payload": 3}),
        ]])];
        assert_eq!(merged(&plan, pages).0, [json!(null), json!(3)]);
    }

    #[test]
    fn values_of_different_types_have_a_total_order() {
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
    fn a_plan_gives_the_text_the_order_and_the_partitions() {
        let query = "SELECT TOP 100 * FROM c ORDER BY c.creationDate DESC";
        let rewritten =
            "SELECT TOP 100 c._rid … WHERE ({documentdb-formattableorderbyquery-filter})";
        let plan = json!({
            "queryInfo": {
                "distinctType": "None",
                "top": 100,
                "orderBy": ["Descending"],
                "aggregates": [],
                "groupByAliasToAggregateType": {},
                "dCountInfo": null,
                "hasNonStreamingOrderBy": false,
                "rewrittenQuery": rewritten,
            },
            "queryRanges": [
                {"min": "1F", "max": "1F", "isMinInclusive": true, "isMaxInclusive": true},
            ],
        });
        let plan = Plan::from_json(&plan, query).unwrap();
        assert_eq!(plan.text, "SELECT TOP 100 c._rid … WHERE (true)");
        assert_eq!(
            (plan.rows_max(), plan.descending.as_slice()),
            (Some(100), [true].as_slice())
        );
        let range = |min: &str, max: &str| PartitionKeyRange {
            id: "0".into(),
            min: min.into(),
            max: max.into(),
            parents: vec![],
        };
        assert!(plan.includes(&range("1F", "2F")) && plan.includes(&range("", "FF")));
        assert!(!plan.includes(&range("", "1F")) && !plan.includes(&range("2F", "FF")));
    }

    #[test]
    fn a_plan_that_needs_another_kind_of_merge_is_refused() {
        let query = "SELECT VALUE COUNT(1) FROM c";
        let plan = json!({"queryInfo": {"aggregates": ["Count"], "rewrittenQuery": "…"}});
        assert!(
            Plan::from_json(&plan, query)
                .unwrap_err()
                .contains("aggregates")
        );
    }
}
