//! The meter drawer: every request to the database that a page caused, with sums.
//!
//! Requests with the same operation, container and text form one row. The sum of the rows is the
//! price of the page and equals the charges of the responses. After a write, the rows of the write
//! come first, and the prices include the write. The requests of the application itself are listed
//! apart.

use crate::consequences::Consequences;
use crate::frame::path_name;
use crate::text;
use crate::visit::Visit;
use askama::Template;
use orrery_blog::client::PartitionKeyRange;
use orrery_blog::writes::ModelCost;
use orrery_blog::{Charge, Model, Operation, RequestRecord};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Requests that a row lists one by one.
const LISTED_MAX: usize = 200;
/// Width of the picture of the partitions.
const PICTURE_WIDTH: f64 = 256.0;
/// The first two bytes of the highest effective partition key.
const HASH_SPACE: f64 = 16_384.0;

/// The data of `drawer.html`.
pub(crate) struct Drawer {
    /// Names of the article's requests, e.g. `C3 Q2 Q4`.
    pub(crate) codes: String,
    pub(crate) requests: String,
    pub(crate) charge: String,
    pub(crate) ms: String,
    pub(crate) is_open: bool,
    /// The same page in each present model; empty if the page belongs to no model.
    pub(crate) prices: Vec<Price>,
    /// Link that measures the page in every model; empty if all prices are known.
    pub(crate) measure: String,
    pub(crate) partitions: Option<Partitions>,
    pub(crate) page_table: RequestTable,
    pub(crate) own_table: RequestTable,
    pub(crate) own_requests: u64,
    /// Containers of the application's own requests.
    pub(crate) own_containers: String,
    /// The work of the pipelines after a write.
    pub(crate) consequences: Option<Consequences>,
    /// The sums for scripts, without separators.
    pub(crate) plain_charge: String,
    pub(crate) plain_requests: usize,
    pub(crate) plain_ms: String,
    pub(crate) session_pages: String,
    pub(crate) session_requests: String,
    pub(crate) session_charge: String,
}

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

/// The price of the page in one model.
pub(crate) struct Price {
    /// `v3`
    pub(crate) name: String,
    /// `V3`
    pub(crate) label: String,
    pub(crate) href: String,
    pub(crate) is_current: bool,
    /// The charge in RU, or words if it was not measured.
    pub(crate) figure: String,
    /// The charge without unit and separators; empty if it was not measured.
    pub(crate) plain: String,
    /// Length of the bar in percent.
    pub(crate) width: String,
}

/// The picture of the physical partitions of `posts`.
pub(crate) struct Partitions {
    pub(crate) cells: Vec<Cell>,
    pub(crate) asked: usize,
    /// Ids of the asked partitions, or `none`.
    pub(crate) asked_ids: String,
}

/// A physical partition.
pub(crate) struct Cell {
    pub(crate) id: String,
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) is_lit: bool,
    pub(crate) hash_range: String,
    pub(crate) requests: usize,
    pub(crate) charge: String,
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
}

/// The requests of a page with their sums; after a write, those of the write come first.
struct PageCost {
    codes: String,
    records: Vec<RequestRecord>,
    requests: usize,
    charge: Charge,
    ms: f64,
}

impl PageCost {
    fn of(visit: &Visit, model: Model) -> Self {
        let page = visit.cost();
        let mut cost = Self {
            codes: visit.codes.join(" "),
            records: visit.meter.records(),
            requests: page.requests,
            charge: page.ru,
            ms: page.ms,
        };
        if let Some(receipt) = &visit.written
            && let Some(write) = write_cost(visit, model)
        {
            cost.codes = format!("{} {}", receipt.operation.code(), cost.codes);
            cost.records = [write.records.clone(), cost.records].concat();
            cost.requests += write.measurement.requests;
            cost.charge.0 += write.measurement.ru.0;
            cost.ms += write.measurement.ms;
        }
        cost
    }
}

/// Returns the cost of the write after which the page is shown. `None` for a receipt without
/// records, which was read from the journal: the sum of the rows would not be the sum of the page.
fn write_cost(visit: &Visit, model: Model) -> Option<&ModelCost> {
    let cost = visit.written.as_ref()?.cost(model)?;
    (!cost.records.is_empty()).then_some(cost)
}

impl Drawer {
    pub(crate) async fn of(visit: &Visit) -> Self {
        let model = visit.shown_model();
        let PageCost {
            codes,
            records,
            requests,
            charge,
            ms,
        } = PageCost::of(visit, model);
        let ranges = partitions_of(visit, model).await;
        let prices = prices(visit);
        let is_unknown = prices.iter().any(|price| price.width.is_empty());
        let own = visit.own.measurement(visit.started.elapsed());
        let own_records = visit.own.records();
        // A script that asks for a part of a page again shows no page.
        let sum = match visit.headers.contains_key("x-part") {
            true => visit.state.sessions.sum(&visit.secret),
            false => {
                let cost = visit.cost();
                visit.state.sessions.add_page(&visit.secret, 1, &cost)
            }
        };
        Self {
            codes,
            requests: text::counted(requests as u64, "request", "requests"),
            charge: text::charge(charge),
            ms: text::milliseconds(ms),
            is_open: visit.query.contains_key("done") || visit.query.contains_key("measure"),
            measure: match &visit.page {
                Some(page) if is_unknown && visit.model.is_some() => {
                    format!("/{}{page}?measure=all", path_name(model))
                }
                _ => String::new(),
            },
            prices,
            partitions: ranges.map(|ranges| picture(&ranges, &records, &posts_of(visit, model))),
            page_table: RequestTable {
                caption: "Requests of this page",
                rows: rows(&records),
                sum_label: "This page",
                sum_charge: text::charge(charge),
                sum_ms: text::milliseconds(ms),
            },
            own_requests: own.requests as u64,
            own_containers: container_names(&own_records),
            own_table: RequestTable {
                caption: "Requests of the application itself",
                rows: rows(&own_records),
                sum_label: "The application",
                sum_charge: text::charge(own.ru),
                sum_ms: text::milliseconds(own_records.iter().map(|record| record.ms).sum()),
            },
            consequences: visit
                .written
                .as_ref()
                .map(|receipt| Consequences::of(&visit.state, receipt, model)),
            plain_charge: charge.to_string(),
            plain_requests: requests,
            plain_ms: format!("{ms:.1}"),
            session_pages: text::counted(sum.pages, "page", "pages"),
            session_requests: text::counted(sum.requests, "request", "requests"),
            session_charge: text::charge(sum.charge),
        }
    }
}

/// Returns the partition key ranges of `posts`, if the page belongs to a model and the database
/// answers.
async fn partitions_of(visit: &Visit, model: Model) -> Option<Arc<Vec<PartitionKeyRange>>> {
    visit.model?;
    let blog = visit.blog(model);
    blog.client().ranges(&posts_of(visit, model)).await.ok()
}

/// Returns the link of the container `posts`.
fn posts_of(visit: &Visit, model: Model) -> String {
    format!(
        "dbs/{}/colls/posts",
        visit.state.site.blog(model).database()
    )
}

/// Returns the price of the page in each present model.
fn prices(visit: &Visit) -> Vec<Price> {
    let (Some(page), Some(current)) = (&visit.page, visit.model) else {
        return Vec::new();
    };
    let known = visit.state.prices_of(page);
    let price_in = |model: Model| -> Option<Charge> {
        let mut charge = match model == current {
            true => visit.cost().ru,
            false => known[model as usize]?,
        };
        if let Some(write) = write_cost(visit, model) {
            charge.0 += write.measurement.ru.0;
        }
        Some(charge)
    };
    let models = visit.state.site.models();
    let highest = models.iter().filter_map(|model| price_in(*model)).max();
    let highest = highest.unwrap_or_default().0.max(1) as f64;
    let mut prices = Vec::new();
    for model in models {
        let name = path_name(model);
        let charge = price_in(model);
        prices.push(Price {
            href: format!("/{name}{page}"),
            label: model.to_string(),
            name,
            is_current: model == current,
            figure: match charge {
                Some(charge) => format!("{} RU", text::charge(charge)),
                None => "not measured".into(),
            },
            plain: charge.map(|charge| charge.to_string()).unwrap_or_default(),
            width: match charge {
                Some(charge) => {
                    let width = charge.0 as f64 * 100.0 / highest;
                    format!("{:.1}", width.max(0.5))
                }
                None => String::new(),
            },
        });
    }
    prices
}

/// Returns the picture of the partitions of the container `posts`.
fn picture(ranges: &[PartitionKeyRange], records: &[RequestRecord], posts: &str) -> Partitions {
    let mut cells = Vec::new();
    let mut asked_ids = Vec::new();
    for range in ranges {
        let (mut requests, mut charge) = (0, Charge::default());
        for record in records {
            if record.container == posts && record.range == range.id {
                requests += 1;
                charge.0 += record.charge.0;
            }
        }
        if requests > 0 {
            asked_ids.push(range.id.as_str());
        }
        let (from, to) = (place(&range.min, 0.0), place(&range.max, PICTURE_WIDTH));
        // A gap between the cells makes the borders visible; between narrow cells it is narrower.
        let gap = ((to - from) / 8.0).clamp(0.0, 1.0);
        cells.push(Cell {
            id: range.id.clone(),
            x: format!("{:.1}", from + gap),
            width: format!("{:.1}", (to - from - 2.0 * gap).max(0.1)),
            is_lit: requests > 0,
            hash_range: format!(
                "{}–{}",
                hash_prefix(&range.min, "00"),
                hash_prefix(&range.max, "FF")
            ),
            requests,
            charge: text::charge(charge),
        });
    }
    Partitions {
        asked: asked_ids.len(),
        asked_ids: match asked_ids.is_empty() {
            true => "none".into(),
            false => asked_ids.join(", "),
        },
        cells,
    }
}

/// Returns the horizontal place of an effective partition key in the picture. `otherwise` is the
/// place of a border that is not a key: the beginning or the end of the hash space.
fn place(key: &str, otherwise: f64) -> f64 {
    let prefix = format!("{key:0<4}");
    match prefix
        .get(..4)
        .map(|digits| u32::from_str_radix(digits, 16))
    {
        Some(Ok(number)) if !key.is_empty() && f64::from(number) < HASH_SPACE => {
            f64::from(number) / HASH_SPACE * PICTURE_WIDTH
        }
        _ => otherwise,
    }
}

fn hash_prefix(key: &str, if_empty: &str) -> String {
    match key.get(..key.len().min(4)) {
        Some(prefix) if !prefix.is_empty() => prefix.to_owned(),
        _ => if_empty.to_owned(),
    }
}

/// Returns the names of the containers of the records, without repetition.
fn container_names(records: &[RequestRecord]) -> String {
    let names: BTreeSet<&str> = records.iter().map(container_name).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn container_name(record: &RequestRecord) -> &str {
    record.container.rsplit('/').next().unwrap_or_default()
}

/// Groups records into rows, in the order of the first record of each row.
fn rows(records: &[RequestRecord]) -> Vec<Row> {
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
    groups.iter().map(|(_, members)| row(members)).collect()
}

/// Returns the row of a group, which has at least one record.
fn row(members: &[&RequestRecord]) -> Row {
    let first = members[0];
    let (text, parameters) = described(first);
    let charge = members.iter().map(|record| record.charge.0).sum();
    let items: usize = members.iter().map(|record| item_count(record)).sum();
    let used: Vec<f64> = members
        .iter()
        .filter_map(|record| record.index_use)
        .collect();
    let longest = members.iter().map(|record| record.ms).fold(0.0, f64::max);
    let mut listed = Vec::new();
    if members.len() > 1 {
        for record in members.iter().take(LISTED_MAX) {
            let name = match &record.key {
                Some(key) => key.clone(),
                None => format!("partition {}", record.range),
            };
            let charge = text::charge(record.charge);
            listed.push((name, charge, text::milliseconds(record.ms)));
        }
    }
    Row {
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
            true => "–".into(),
            false => {
                let mean = used.iter().sum::<f64>() / used.len() as f64;
                format!("{:.0} %", mean * 100.0)
            }
        },
        status: first.status,
        is_success: first.status < 400,
        charge: text::charge(Charge(charge)),
        ms: text::milliseconds(longest),
        listed,
        throttled: members.iter().map(|record| record.throttled).sum(),
    }
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
        let rows = rows(&[
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
    }

    #[test]
    fn the_picture_shows_asked_partitions_in_hash_order() {
        let range = |id: &str, min: &str, max: &str| PartitionKeyRange {
            id: id.into(),
            min: min.into(),
            max: max.into(),
            parents: Vec::new(),
        };
        let ranges = [range("1", "", "1FFF"), range("2", "1FFF", "FF")];
        let records = [record(Operation::Read, "a", Some("a"), "2")];
        let picture = picture(&ranges, &records, "dbs/blog-v1/colls/posts");
        assert_eq!((picture.asked, picture.asked_ids.as_str()), (1, "2"));
        assert_eq!(picture.cells[0].x, "1.0");
        assert_eq!(picture.cells[1].x, "129.0");
        assert!(!picture.cells[0].is_lit && picture.cells[1].is_lit);
        assert_eq!(picture.cells[1].hash_range, "1FFF–FF");
    }
}
