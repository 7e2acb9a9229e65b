//! The table of requests in the meter drawer: requests with the same operation, container and text
//! form one row, with the partitions that they asked and the items that they read.

use crate::frame::path_name;
use crate::squares::name_of;
use crate::text;
use askama::Template;
use orrery_blog::{Charge, Model, Operation, RequestRecord};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// Requests that a row lists one by one.
const LISTED_MAX: usize = 200;
/// Items that a row lists.
const ITEMS_MAX: usize = 40;

/// A table of requests with its sum.
#[derive(Template)]
#[template(path = "requests.html")]
pub(crate) struct RequestTable {
    caption: &'static str,
    rows: Vec<Row>,
    sum_label: &'static str,
    pub(crate) sum_charge: String,
    sum_ms: String,
}

/// Requests with the same operation, container and text.
pub(crate) struct Row {
    pub(crate) operation: &'static str,
    pub(crate) count: usize,
    pub(crate) container: String,
    /// The SQL, or the name of a procedure or trigger.
    pub(crate) text: String,
    pub(crate) parameters: String,
    /// The partition key of a single request; otherwise words.
    pub(crate) key: String,
    pub(crate) has_key: bool,
    /// The sum without separators.
    pub(crate) plain_charge: String,
    pub(crate) items: String,
    pub(crate) index_use: String,
    pub(crate) status: u16,
    pub(crate) is_success: bool,
    pub(crate) charge: String,
    pub(crate) ms: String,
    /// The single requests, if there are several: text, charge, time.
    pub(crate) listed: Vec<(String, String, String)>,
    /// Throttled attempts.
    pub(crate) throttled: usize,
    /// Names of the squares of the partitions that were asked, separated by spaces.
    pub(crate) asks: String,
    /// The items that were read: address, id, size.
    pub(crate) read: Vec<(String, String, String)>,
    /// Words for the items that are not listed.
    pub(crate) more: String,
}

/// The place of a table of requests.
pub(crate) struct Place<'a> {
    /// The model whose containers the items are in; `None` for the application's own.
    pub(crate) model: Option<Model>,
    /// The name of the square of each partition.
    pub(crate) squares: &'a HashMap<(String, String), String>,
}

impl RequestTable {
    /// Returns the table of `records`. `sum` has the label, charge and time of the last row.
    pub(crate) fn of(
        caption: &'static str,
        records: &[RequestRecord],
        place: &Place<'_>,
        sum: (&'static str, Charge, f64),
    ) -> Self {
        let (sum_label, charge, ms) = sum;
        Self {
            caption,
            rows: rows(records, place),
            sum_label,
            sum_charge: text::charge(charge),
            sum_ms: text::milliseconds(ms),
        }
    }
}

/// Returns the names of the containers of the records, without repetition.
pub(crate) fn container_names(records: &[RequestRecord]) -> String {
    let names: BTreeSet<&str> = records.iter().map(container_name).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn container_name(record: &RequestRecord) -> &str {
    name_of(&record.container)
}

/// Groups records by the row that shows them, in the order of the first record of each row.
pub(crate) fn grouped(records: &[RequestRecord]) -> Vec<Vec<&RequestRecord>> {
    let mut groups: Vec<(String, Vec<&RequestRecord>)> = Vec::new();
    for record in records {
        let (text, _) = described(record);
        let key = format!(
            "{} {} {} {text}",
            record.operation, record.container, record.status
        );
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn rows(records: &[RequestRecord], place: &Place<'_>) -> Vec<Row> {
    let groups = grouped(records);
    groups.iter().map(|members| row(members, place)).collect()
}

/// Returns the names of the squares that a group asked, in hash order of each container.
fn squares_of(members: &[&RequestRecord], place: &Place<'_>) -> String {
    let mut names = BTreeSet::new();
    for record in members {
        let partition = (container_name(record).to_owned(), record.range.clone());
        names.extend(place.squares.get(&partition).map(String::as_str));
    }
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// Returns address, id and size of the items that a group read, and words for those left out.
fn items_of(
    members: &[&RequestRecord],
    place: &Place<'_>,
) -> (Vec<(String, String, String)>, String) {
    let Some(model) = place.model else {
        return (Vec::new(), String::new());
    };
    let mut read = Vec::new();
    for record in members {
        let container = container_name(record);
        for item in &record.read {
            let (id, key) = (&item.id, &item.key);
            let address = format!("/{}/items/{container}/{key}/{id}", path_name(model));
            let bytes = text::counted(item.bytes as u64, "byte", "bytes");
            let listed = (address, id.clone(), bytes);
            if read.len() < ITEMS_MAX && !read.contains(&listed) {
                read.push(listed);
            }
        }
    }
    let all: usize = members.iter().map(|record| item_count(record)).sum();
    let more = match all > read.len() && !read.is_empty() {
        true => format!(
            "{} of {} items are listed.",
            read.len(),
            text::count(all as u64)
        ),
        false => String::new(),
    };
    (read, more)
}

/// Returns the row of a group, which has at least one record.
fn row(members: &[&RequestRecord], place: &Place<'_>) -> Row {
    let first = members[0];
    let (text, parameters) = described(first);
    let charge = members.iter().map(|record| record.charge.0).sum();
    let items: usize = members.iter().map(|record| item_count(record)).sum();
    let used: Vec<f64> = members
        .iter()
        .filter_map(|record| record.index_use)
        .collect();
    let longest = members.iter().map(|record| record.ms).fold(0.0, f64::max);
    let (read, more) = items_of(members, place);
    Row {
        asks: squares_of(members, place),
        read,
        more,
        operation: operation_name(first.operation),
        count: members.len(),
        container: container_name(first).to_owned(),
        text,
        parameters: match members.len() {
            1 => parameters,
            _ => String::new(),
        },
        key: keys(members),
        has_key: members.len() == 1 && first.key.is_some(),
        plain_charge: Charge(charge).to_string(),
        items: items.to_string(),
        index_use: match used.is_empty() {
            true => String::new(),
            false => {
                let mean = used.iter().sum::<f64>() / used.len() as f64;
                format!("{:.0} %", mean * 100.0)
            }
        },
        status: first.status,
        is_success: first.status < 400,
        charge: text::charge(Charge(charge)),
        ms: text::milliseconds(longest),
        listed: listed(members),
        throttled: members.iter().map(|record| record.throttled).sum(),
    }
}

/// Returns partition key or partition, charge and time of each request of a group of several.
fn listed(members: &[&RequestRecord]) -> Vec<(String, String, String)> {
    let mut listed = Vec::new();
    if members.len() < 2 {
        return listed;
    }
    for record in members.iter().take(LISTED_MAX) {
        let name = match &record.key {
            Some(key) => key.clone(),
            None => format!("partition {}", record.range),
        };
        let charge = text::charge(record.charge);
        listed.push((name, charge, text::milliseconds(record.ms)));
    }
    listed
}

/// Returns the number of items of an answer: of a list as stated, otherwise one.
fn item_count(record: &RequestRecord) -> usize {
    record.items.unwrap_or(usize::from(record.status < 300))
}

/// Returns the partition keys of a group, or the number of partitions.
fn keys(members: &[&RequestRecord]) -> String {
    let keys: BTreeSet<&str> = members
        .iter()
        .filter_map(|record| record.key.as_deref())
        .collect();
    let ranges: BTreeSet<&str> = members.iter().map(|record| record.range.as_str()).collect();
    match (keys.len(), ranges.len()) {
        (0, 1) => "1 partition".into(),
        (0, partitions) => format!("{partitions} partitions"),
        (1, _) => keys.into_iter().collect(),
        (keys, _) => format!("{keys} keys"),
    }
}

/// Returns the text of a record and its parameters. The parameters of a query are apart from the
/// SQL, so that equal queries form one row.
fn described(record: &RequestRecord) -> (String, String) {
    match record.operation {
        Operation::Query => {}
        Operation::Execute => return (record.text.clone(), String::new()),
        // A trigger is named; the id of an item is its partition key or of no interest in a group.
        Operation::Upsert if record.text == "truncateFeed" => {
            return (record.text.clone(), String::new());
        }
        _ => return (String::new(), record.text.clone()),
    }
    let Ok(body) = serde_json::from_str::<Value>(&record.text) else {
        return (record.text.clone(), String::new());
    };
    let mut parameters = Vec::new();
    for parameter in body["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default();
        parameters.push(format!("{name} = {}", parameter["value"]));
    }
    let text = body["query"].as_str().unwrap_or_default().to_owned();
    // The counts of comments and of likes are two different requests to a reader.
    (text, parameters.join(", "))
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "Read item",
        Operation::Create => "Create item",
        Operation::Upsert => "Upsert item",
        Operation::Replace => "Replace item",
        Operation::Delete => "Delete item",
        Operation::Query => "Query",
        Operation::Execute => "Procedure",
        Operation::ChangeFeed => "Change feed",
        Operation::Metadata => "Metadata",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::meter::ReadItem;

    fn rows_of(records: &[RequestRecord]) -> Vec<Row> {
        let posts = |range: &str| ("posts".to_owned(), range.to_owned());
        let squares = HashMap::from([
            (posts("0"), "posts-0".to_owned()),
            (posts("1"), "posts-1".to_owned()),
        ]);
        let place = Place {
            model: Some(Model::V1),
            squares: &squares,
        };
        rows(records, &place)
    }

    fn record(operation: Operation, text: &str, key: Option<&str>, range: &str) -> RequestRecord {
        RequestRecord {
            operation,
            container: "dbs/blog-v1/colls/posts".into(),
            text: text.into(),
            key: key.map(str::to_owned),
            range: range.into(),
            status: 200,
            charge: Charge(283),
            ms: 1.5,
            items: Some(3),
            index_use: Some(1.0),
            throttled: 0,
            read: vec![ReadItem {
                key: "k".into(),
                id: "i".into(),
                bytes: 512,
            }],
        }
    }

    #[test]
    fn equal_queries_with_other_parameters_form_one_row() {
        let query = |id: &str| {
            let text = format!(
                r#"{{"query":"SELECT 1","parameters":[{{"name":"@postId","value":"{id}"}}]}}"#
            );
            record(Operation::Query, &text, Some(id), "0")
        };
        let rows = rows_of(&[
            query("a"),
            query("b"),
            record(Operation::Read, "a", Some("a"), "1"),
        ]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].count, rows[0].charge.as_str()), (2, "5.66"));
        assert_eq!(
            (rows[0].key.as_str(), rows[0].items.as_str()),
            ("2 keys", "6")
        );
        assert_eq!(rows[0].listed.len(), 2);
        assert_eq!(rows[1].text, "");
        assert_eq!(
            (rows[0].asks.as_str(), rows[1].asks.as_str()),
            ("posts-0", "posts-1")
        );
    }

    #[test]
    fn a_row_lists_each_item_once_and_says_how_many_are_left_out() {
        let read = record(Operation::Query, "{}", None, "0");
        let rows = rows_of(&[read.clone(), read]);
        let address = "/v1/items/posts/k/i".to_owned();
        assert_eq!(
            rows[0].read,
            [(address, "i".to_owned(), "512 bytes".to_owned())]
        );
        assert_eq!(rows[0].more, "1 of 6 items are listed.");
    }
}
