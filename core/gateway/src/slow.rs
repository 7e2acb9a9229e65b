//! The slow-request log: a line at level warn for each request that took too long, with the text of
//! its query.
//!
//! Promises: a request that is not slow costs one comparison. The line has the form of the query,
//! in which placeholders stand for its values, unless the operator asks for the values.
//! Leaves out: contents of items and partition keys, which no line has.

use crate::call::Call;
use crate::log::Field;
use crate::request_log::RequestRecord;
use orrery_model::{Json, Object};

/// The bytes of the text of a query, and of its parameters, that a line has.
const TEXT_BYTES: usize = 4_096;

/// The settings of the slow-request log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequests {
    /// The duration from which a request is logged, in microseconds.
    pub min_microseconds: u64,
    /// True if a line has the text of the query as sent, and its parameters.
    pub shows_values: bool,
}

/// The text of a query and its parameters, as a line shows them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShownQuery {
    text: String,
    parameters: Option<String>,
}

impl SlowRequests {
    /// Returns true if a request of this duration is logged.
    pub(crate) fn covers(self, microseconds: u64) -> bool {
        microseconds >= self.min_microseconds
    }

    /// Returns the query of a request as its line shows it; `None` if the request is no query.
    pub(crate) fn query(self, record: &RequestRecord, call: Option<&Call>) -> Option<ShownQuery> {
        let query = record.query.as_ref()?;
        if !self.shows_values {
            return Some(ShownQuery {
                text: query.form.clone().unwrap_or_default(),
                parameters: None,
            });
        }
        let sent = call?.query_text().ok()?;
        let mut parameters = Object::new();
        for (name, value) in sent.parameters {
            parameters.set(&name, value);
        }
        let parameters = Json::Object(parameters).to_text();
        Some(ShownQuery {
            text: shortened(&sent.text).to_owned(),
            parameters: Some(shortened(&parameters).to_owned()),
        })
    }
}

/// Returns the beginning of a text.
fn shortened(text: &str) -> &str {
    let mut end = TEXT_BYTES.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the fields of the line of a slow request.
pub(crate) fn fields<'a>(
    record: &'a RequestRecord,
    query: Option<&'a ShownQuery>,
) -> Vec<(&'static str, Field<'a>)> {
    let mut fields = vec![
        ("op", Field::Text(record.operation)),
        ("db", Field::Text(&record.database)),
        ("coll", Field::Text(&record.container)),
        ("status", Field::Number(f64::from(record.status))),
        ("substatus", Field::Number(f64::from(record.sub_status))),
        ("ru", Field::Number(record.charge.as_ru())),
        ("ms", Field::Number(record.microseconds as f64 / 1000.0)),
        ("partitions", Field::Number(record.partition_count as f64)),
        ("activityId", Field::Text(&record.activity_id)),
    ];
    if let Some(figures) = &record.query {
        fields.push(("retrieved", Field::Number(figures.retrieved as f64)));
        fields.push(("output", Field::Number(figures.output as f64)));
    }
    if let Some(query) = query {
        fields.push(("query", Field::Text(&query.text)));
        if let Some(parameters) = &query.parameters {
            fields.push(("parameters", Field::Text(parameters)));
        }
    }
    fields
}
