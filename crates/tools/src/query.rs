//! Runs a query against any endpoint and collects rows and costs.
//!
//! The query goes to the whole container first. A server that leaves the merge of several physical
//! partitions to its clients refuses it with 400/1004. Then the query plan tells if the rows of the
//! partitions can follow one another. If they can, each partition is asked in turn; a query that
//! sorts, groups, aggregates, limits or removes duplicates over partitions is an error that says
//! so.

use orrery_client::{Client, ClientError, PartitionKey, QueryPage, QueryText, Scope};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;
use std::time::Duration;

/// Sub-status of a query whose rows the client has to merge.
const CLIENT_MERGES: u32 = 1004;
/// Merges that this module does not do, as servers name them in supported features.
const NO_FEATURES: &str = "None";
/// Merges that clients can do, as servers name them.
pub(crate) const ALL_FEATURES: &str = "Aggregate,Distinct,GroupBy,MultipleOrderBy,OffsetAndLimit,\
                                       OrderBy,Top,NonValueAggregate,CompositeAggregate,CountIf,\
                                       DCount,MultipleAggregates";

/// A query with its bounds.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Link of the container.
    pub container: String,
    /// The query and its parameters.
    pub query: QueryText,
    /// The logical partition; `None` for all.
    pub partition_key: Option<PartitionKey>,
    /// Rows at most; `None` for all.
    pub max_rows: Option<usize>,
    /// Request units after which no further page is asked for.
    pub max_charge: Option<f64>,
    /// Asks for metrics of the query, of the index and of the plan.
    pub explains: bool,
}

/// The rows of a query, and their costs.
#[derive(Debug, Default)]
pub struct QueryOutcome {
    /// The rows.
    pub rows: Vec<Box<RawValue>>,
    /// Request units.
    pub charge: f64,
    /// Time of the requests.
    pub elapsed: Duration,
    /// Pages.
    pub pages: usize,
    /// Physical partitions in the query's scope.
    pub partitions: usize,
    /// True if the bounds ended the query before its last row.
    pub is_cut: bool,
    /// Metrics of the pages, if they were asked for: titles and texts.
    pub explanations: Vec<(String, String)>,
}

/// The failure of a query.
#[derive(Debug)]
pub enum QueryError {
    /// A request failed.
    Client(ClientError),
    /// The server leaves a merge to its clients that this client does not do.
    NeedsMerge(Vec<String>),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::NeedsMerge(parts) => write!(
                f,
                "this server leaves the merge of physical partitions to its clients, and this \
                 query needs one for {}; name the partition key, or take an SDK",
                parts.join(", ")
            ),
        }
    }
}

impl std::error::Error for QueryError {}

impl From<ClientError> for QueryError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Runs a query.
///
/// # Errors
/// [`QueryError::NeedsMerge`], and failures of requests.
pub async fn run(client: &Client, options: &QueryOptions) -> Result<QueryOutcome, QueryError> {
    let mut outcome = QueryOutcome::default();
    if let Some(key) = &options.partition_key {
        outcome.partitions = 1;
        collect(
            client,
            options,
            &options.query,
            Scope::Key(key),
            &mut outcome,
        )
        .await?;
        return Ok(outcome);
    }
    let ranges = client.fresh_ranges(&options.container).await?;
    outcome.partitions = ranges.len();
    let whole = collect(
        client,
        options,
        &options.query,
        Scope::Container,
        &mut outcome,
    )
    .await;
    match whole {
        Ok(_) => return Ok(outcome),
        Err(error) if needs_merge(&error) => {}
        Err(error) => return Err(error.into()),
    }

    refuse_merge(client, &options.container, &options.query).await?;
    for range in ranges.iter() {
        let scope = Scope::Range(&range.id);
        if !collect(client, options, &options.query, scope, &mut outcome).await? {
            break;
        }
    }
    Ok(outcome)
}

/// Fails if the rows of several physical partitions cannot follow one another.
///
/// # Errors
/// [`QueryError::NeedsMerge`], and failures of requests.
pub(crate) async fn refuse_merge(
    client: &Client,
    container: &str,
    query: &QueryText,
) -> Result<(), QueryError> {
    // A server may refuse a plan for a client without features, and give the merges in its plan for
    // a client with all of them.
    let plan: Value = match client.query_plan(container, query, NO_FEATURES).await {
        Ok(answer) => answer.json()?,
        Err(_) => {
            let answer = client.query_plan(container, query, ALL_FEATURES).await?;
            answer.json()?
        }
    };
    let merges = merges(&plan["queryInfo"]);
    match merges.is_empty() {
        true => Ok(()),
        false => Err(QueryError::NeedsMerge(merges)),
    }
}

/// Returns true if the server leaves the merge of a query's rows to its clients.
pub(crate) fn needs_merge(error: &ClientError) -> bool {
    let refusal = error.refusal();
    refusal.is_some_and(|r| r.status == 400 && r.sub_status == CLIENT_MERGES)
}

/// Collects the pages of one scope. Returns false if the bounds are reached.
async fn collect(
    client: &Client,
    options: &QueryOptions,
    query: &QueryText,
    scope: Scope<'_>,
    outcome: &mut QueryOutcome,
) -> Result<bool, ClientError> {
    let mut position: Option<String> = None;
    loop {
        let left = options
            .max_rows
            .map(|max| max.saturating_sub(outcome.rows.len()));
        let is_dear = options.max_charge.is_some_and(|max| outcome.charge >= max);
        if left == Some(0) || is_dear {
            outcome.is_cut = true;
            return Ok(false);
        }
        let headers = match options.explains {
            true => EXPLAINING.map(|name| (name, "True".to_owned())).to_vec(),
            false => Vec::new(),
        };
        let size = left.unwrap_or(0);
        let page = client
            .query_page(
                &options.container,
                query,
                scope,
                size,
                position.as_deref(),
                headers,
            )
            .await?;
        outcome.charge += page.answer.charge();
        outcome.elapsed += page.answer.elapsed;
        outcome.pages += 1;
        if options.explains {
            outcome
                .explanations
                .extend(explanations(&page, outcome.pages));
        }
        position = page.continuation;
        let rows = page.rows.into_iter();
        outcome.rows.extend(rows.take(left.unwrap_or(usize::MAX)));
        if position.is_none() {
            return Ok(true);
        }
    }
}

/// Request headers that ask for metrics.
const EXPLAINING: [&str; 4] = [
    "x-ms-documentdb-populatequerymetrics",
    "x-ms-cosmos-populateindexmetrics-v2",
    "x-ms-cosmos-populatequeryadvice",
    "x-orrery-explain",
];

/// Response headers with metrics, and their titles.
const METRICS: [(&str, &str); 4] = [
    ("x-ms-documentdb-query-metrics", "query metrics"),
    ("x-ms-cosmos-index-utilization", "index"),
    ("x-ms-cosmos-query-advice", "advice"),
    ("x-orrery-explanation", "plan"),
];

fn explanations(page: &QueryPage, number: usize) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (header, title) in METRICS {
        let Some(text) = page.answer.header(header) else {
            continue;
        };
        let text = match title {
            "query metrics" => text.split(';').map(metric).collect::<Vec<_>>().join("\n"),
            _ => in_lines(&percent_decoded(text)),
        };
        found.push((format!("{title}, page {number}"), text));
    }
    found
}

/// Returns a metric such as `totalExecutionTimeInMs=0.19` in words:
/// `total execution time: 0.19 ms`.
fn metric(text: &str) -> String {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let (name, unit) = match name.strip_suffix("InMs") {
        Some(name) => (name, " ms"),
        None if name.to_ascii_lowercase().ends_with("size") => (name, " bytes"),
        None => (name, ""),
    };
    let mut words = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    format!("{words}: {value}{unit}")
}

/// Returns JSON with indentation, and other text as it is.
fn in_lines(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| text.to_owned()),
        Err(_) => text.to_owned(),
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the merges over partitions that a query's plan asks for.
fn merges(info: &Value) -> Vec<String> {
    let is_set = |name: &str| match &info[name] {
        Value::Null => false,
        Value::String(text) => text != "None" && !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(is_true) => *is_true,
        Value::Number(_) => true,
    };
    let parts = [
        ("orderBy", "ORDER BY"),
        ("aggregates", "aggregates"),
        ("groupByAliasToAggregateType", "aggregates"),
        ("groupByExpressions", "GROUP BY"),
        ("distinctType", "DISTINCT"),
        ("top", "TOP"),
        ("offset", "OFFSET"),
        ("limit", "LIMIT"),
        ("dCountInfo", "COUNT of DISTINCT"),
        ("hasNonStreamingOrderBy", "ORDER BY of distances or ranks"),
    ];
    let mut needed: Vec<String> = Vec::new();
    for (name, word) in parts {
        if is_set(name) && !needed.iter().any(|given| given == word) {
            needed.push(word.to_owned());
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_tells_what_must_be_merged() {
        let info = json!({"distinctType": "None", "top": null, "orderBy": ["Ascending"],
            "limit": 5, "aggregates": []});
        assert_eq!(merges(&info), ["ORDER BY", "LIMIT"]);
        assert!(merges(&json!({"distinctType": "None"})).is_empty());
    }

    #[test]
    fn metrics_are_told_in_words() {
        assert_eq!(
            metric("totalExecutionTimeInMs=0.19"),
            "total execution time: 0.19 ms"
        );
        assert_eq!(
            metric("retrievedDocumentCount=3"),
            "retrieved document count: 3"
        );
        assert_eq!(percent_decoded("a%20b%"), "a b%");
    }
}
