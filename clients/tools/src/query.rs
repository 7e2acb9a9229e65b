//! Runs a query against any endpoint and collects rows and costs.
//!
//! The query goes to the whole container first. A server that leaves the merge of several physical
//! partitions to its clients refuses it with 400/1004. Then the query plan tells if the rows of the
//! partitions can follow one another. If they can, each partition is asked in turn, and `TOP`,
//! `OFFSET` and `LIMIT` are counted here; a query that sorts, groups, aggregates or removes
//! duplicates over partitions is an error that says so.
//!
//! A [`Cursor`] hands out the rows in portions, so that a person can read on.

use orrery_client::{Client, ClientError, PartitionKey, QueryPage, QueryText, Scope};
use orrery_model::words::plural;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

/// Sub-status of a query whose rows the client has to merge.
const CLIENT_MERGES: u32 = 1004;
/// Merges that this module does, as servers name them in supported features.
const OWN_FEATURES: &str = "OffsetAndLimit, Top";
/// The name of no merge.
const NO_FEATURES: &str = "None";
/// Merges that clients can do, as servers name them.
pub(crate) const ALL_FEATURES: &str = "Aggregate,Distinct,GroupBy,MultipleOrderBy,OffsetAndLimit,\
                                       OrderBy,Top,NonValueAggregate,CompositeAggregate,CountIf,\
                                       DCount,MultipleAggregates";
/// Words of [`merges`] that this module counts itself.
const COUNTED: [&str; 3] = ["TOP", "OFFSET", "LIMIT"];

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
    /// Asks this server for the physical partitions of each page.
    pub counts_partitions: bool,
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
    /// Ids of the physical partitions that were asked, as far as the server tells them.
    pub asked: BTreeSet<String>,
    /// True if the bounds ended the query before its last row.
    pub is_cut: bool,
    /// Metrics of the pages, if they were asked for: titles and texts.
    pub explanations: Vec<(String, String)>,
    /// Hints of this server for a query that probably asks for something else, if it was asked for
    /// its plan.
    pub hints: BTreeSet<String>,
}

impl QueryOutcome {
    /// Returns the costs in one line; `partitions` says how many physical partitions there were.
    pub fn costs(&self, partitions: &str) -> String {
        let items = self.rows.len();
        format!(
            "{items} {}, {:.2} RU, {:.1} ms, {partitions} physical {}, {} {}",
            plural(items, "item", "items"),
            self.charge,
            self.elapsed.as_secs_f64() * 1000.0,
            plural(self.partitions, "partition", "partitions"),
            self.pages,
            plural(self.pages, "page", "pages")
        )
    }
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
    Cursor::new(options.clone())
        .fetch(client, &mut outcome)
        .await?;
    Ok(outcome)
}

/// One request scope of a query.
#[derive(Debug, Clone)]
enum Part {
    Key(PartitionKey),
    Container,
    Range(String),
}

impl Part {
    fn scope(&self) -> Scope<'_> {
        match self {
            Self::Key(key) => Scope::Key(key),
            Self::Container => Scope::Container,
            Self::Range(id) => Scope::Range(id),
        }
    }
}

/// A query and its position. A fetch that is dropped before its end leaves the position where the
/// last complete page ended.
#[derive(Debug)]
pub struct Cursor {
    options: QueryOptions,
    /// Scopes that are left, the current one first; `None` before the first request.
    parts: Option<VecDeque<Part>>,
    partitions: usize,
    /// Position in the current scope.
    position: Option<String>,
    /// Rows that were read and not yet handed out.
    waiting: VecDeque<Box<RawValue>>,
    /// Rows that OFFSET still leaves out, and rows that TOP or LIMIT still allow, if they are
    /// counted here.
    skip: usize,
    allowed: Option<usize>,
}

impl Cursor {
    /// Creates a cursor before the first row. No request is sent.
    pub fn new(options: QueryOptions) -> Self {
        Self {
            options,
            parts: None,
            partitions: 0,
            position: None,
            waiting: VecDeque::new(),
            skip: 0,
            allowed: None,
        }
    }

    /// Returns true if no row is left.
    pub fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.parts.as_ref().is_some_and(VecDeque::is_empty)
    }

    /// Adds the next rows to `outcome`, within the bounds of the options, which count for each
    /// call, and their costs.
    ///
    /// # Errors
    /// [`QueryError::NeedsMerge`], and failures of requests; `outcome` holds what was read before.
    pub async fn fetch(
        &mut self,
        client: &Client,
        outcome: &mut QueryOutcome,
    ) -> Result<(), QueryError> {
        if self.parts.is_none() {
            self.open(client).await?;
        }
        outcome.partitions = self.partitions;
        loop {
            // Rows that an earlier page left over come first.
            let max = self.options.max_rows.unwrap_or(usize::MAX);
            while outcome.rows.len() < max
                && let Some(row) = self.waiting.pop_front()
            {
                outcome.rows.push(row);
            }
            let bound = self.options.max_charge;
            let is_expensive = bound.is_some_and(|bound| outcome.charge >= bound);
            let part = self.parts.as_ref().and_then(|parts| parts.front().cloned());
            if outcome.rows.len() >= max || is_expensive {
                outcome.is_cut = !self.is_done();
                return Ok(());
            }
            let Some(part) = part else {
                return Ok(());
            };

            // The page is no longer than the rows that are wanted; more of them would be charged.
            let left = match self.options.max_rows {
                Some(max) => max.saturating_sub(outcome.rows.len()),
                None => 0,
            };
            match self.page(client, &part, left, outcome).await {
                Err(error) if needs_merge(&error) && matches!(part, Part::Container) => {
                    self.split(client).await?;
                }
                done => done?,
            }
        }
    }

    /// Finds the physical partitions of the scope.
    async fn open(&mut self, client: &Client) -> Result<(), QueryError> {
        let part = match &self.options.partition_key {
            Some(key) => {
                self.partitions = 1;
                Part::Key(key.clone())
            }
            None => {
                let ranges = client.fresh_ranges(&self.options.container).await?;
                self.partitions = ranges.len();
                Part::Container
            }
        };
        self.parts = Some(VecDeque::from([part]));
        Ok(())
    }

    /// Replaces the whole container by its physical partitions, if the plan of the query allows it.
    async fn split(&mut self, client: &Client) -> Result<(), QueryError> {
        let (container, query) = (&self.options.container, &self.options.query);
        let plan = plan(client, container, query, OWN_FEATURES).await?;
        let info = &plan["queryInfo"];
        let merges = merges(info);
        if merges.iter().any(|merge| !COUNTED.contains(&&**merge)) {
            return Err(QueryError::NeedsMerge(merges));
        }

        // For OFFSET the plan states a query that leaves out no row in each partition.
        let rewritten = info["rewrittenQuery"].as_str().unwrap_or_default();
        let count = |name: &str| info[name].as_u64().and_then(|n| usize::try_from(n).ok());
        self.skip = count("offset").unwrap_or(0);
        if self.skip > 0 && rewritten.is_empty() {
            return Err(QueryError::NeedsMerge(merges));
        }
        self.allowed = count("limit").into_iter().chain(count("top")).min();
        if !rewritten.is_empty() {
            self.options.query.text = rewritten.to_owned();
        }
        let ranges = client.ranges(&self.options.container).await?;
        let parts = ranges.iter().map(|range| Part::Range(range.id.clone()));
        self.parts = Some(parts.collect());
        Ok(())
    }

    /// Reads one page of at most `size` rows; 0 leaves the size to the server.
    async fn page(
        &mut self,
        client: &Client,
        part: &Part,
        size: usize,
        outcome: &mut QueryOutcome,
    ) -> Result<(), ClientError> {
        let options = &self.options;
        let headers = match options.explains {
            true => EXPLAINING.map(|name| (name, "True".to_owned())).to_vec(),
            false if options.counts_partitions => vec![(EXPLAINING_PLAN, "True".to_owned())],
            false => Vec::new(),
        };
        let position = self.position.as_deref();
        let (container, query) = (&options.container, &options.query);
        let page = client
            .query_page(container, query, part.scope(), size, position, headers)
            .await?;
        outcome.charge += page.answer.charge();
        outcome.elapsed += page.answer.elapsed;
        outcome.pages += 1;
        let plan = explanation(&page);
        outcome.asked.extend(asked(&plan, part));
        outcome.hints.extend(texts_of(&plan["hints"]));
        if options.explains {
            let found = explanations(&page, outcome.pages);
            outcome.explanations.extend(found);
        }

        // TOP, OFFSET and LIMIT over partitions are counted here.
        let skipped = self.skip.min(page.rows.len());
        self.skip -= skipped;
        let rows = page.rows.into_iter().skip(skipped);
        let before = self.waiting.len();
        self.waiting
            .extend(rows.take(self.allowed.unwrap_or(usize::MAX)));
        if let Some(allowed) = &mut self.allowed {
            *allowed -= self.waiting.len() - before;
        }
        self.position = page.continuation;
        if let Some(parts) = &mut self.parts {
            if self.allowed == Some(0) {
                parts.clear();
            } else if self.position.is_none() {
                parts.pop_front();
            }
        }
        Ok(())
    }
}

/// Fails if the rows of several physical partitions cannot follow one another as they are.
///
/// # Errors
/// [`QueryError::NeedsMerge`], and failures of requests.
pub(crate) async fn refuse_merge(
    client: &Client,
    container: &str,
    query: &QueryText,
) -> Result<(), QueryError> {
    let plan = plan(client, container, query, NO_FEATURES).await?;
    let merges = merges(&plan["queryInfo"]);
    match merges.is_empty() {
        true => Ok(()),
        false => Err(QueryError::NeedsMerge(merges)),
    }
}

/// Returns the plan of a query for a client that does the merges in `features`. A server may refuse
/// the plan to such a client; its plan for a client that does all merges names those of the query.
async fn plan(
    client: &Client,
    container: &str,
    query: &QueryText,
    features: &str,
) -> Result<Value, ClientError> {
    if let Ok(answer) = client.query_plan(container, query, features).await {
        return answer.json();
    }
    let answer = client.query_plan(container, query, ALL_FEATURES).await?;
    answer.json()
}

/// Returns true if the server leaves the merge of a query's rows to its clients.
pub(crate) fn needs_merge(error: &ClientError) -> bool {
    let refusal = error.refusal();
    refusal.is_some_and(|r| r.status == 400 && r.sub_status == CLIENT_MERGES)
}

/// Returns the plan of this server for a page, null if there is none.
fn explanation(page: &QueryPage) -> Value {
    let plan = page.answer.header(EXPLANATION).map(percent_decoded);
    let plan = plan.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    plan.unwrap_or_default()
}

/// Returns the texts of a list.
fn texts_of(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the ids of the physical partitions that a plan tells or that the page was asked of.
fn asked(plan: &Value, part: &Part) -> Vec<String> {
    if let Part::Range(id) = part {
        return vec![id.clone()];
    }
    let ranges = plan["ranges"].as_array().into_iter().flatten();
    ranges
        .filter_map(|range| range["range"].as_str().map(str::to_owned))
        .collect()
}

/// Request header that asks this server for its plan; other servers ignore it.
const EXPLAINING_PLAN: &str = "x-orrery-explain";
/// Response header with the plan.
const EXPLANATION: &str = "x-orrery-explanation";

/// Request headers that ask for metrics.
const EXPLAINING: [&str; 4] = [
    "x-ms-documentdb-populatequerymetrics",
    "x-ms-cosmos-populateindexmetrics-v2",
    "x-ms-cosmos-populatequeryadvice",
    EXPLAINING_PLAN,
];

/// Response headers with metrics, and their titles.
const METRICS: [(&str, &str); 4] = [
    ("x-ms-documentdb-query-metrics", "query metrics"),
    ("x-ms-cosmos-index-utilization", "index"),
    ("x-ms-cosmos-query-advice", "advice"),
    (EXPLANATION, "plan"),
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
    // The one abbreviation among the names is `VMExecutionTime`.
    for c in name.replace("VM", "vm").chars() {
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
            metric("VMExecutionTimeInMs=0.07"),
            "vm execution time: 0.07 ms"
        );
        assert_eq!(
            metric("retrievedDocumentCount=3"),
            "retrieved document count: 3"
        );
        assert_eq!(percent_decoded("a%20b%"), "a b%");
    }
}
