//! The queries that run now, and their cancellation.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{Schema, ValueType, optional, required};
use orrery_gateway::RunningQuery;
use orrery_model::{Json, Object, object};

/// A query that runs.
pub(crate) const QUERY: Schema = Schema {
    name: "RunningQuery",
    members: &[
        required(
            "number",
            ValueType::Integer(1, i64::MAX),
            "number of the query since the server started",
        ),
        optional(
            "db",
            ValueType::Text,
            "id of the database; absent for a query of databases or throughput",
        ),
        optional(
            "coll",
            ValueType::Text,
            "id of the container; absent for a query of databases, containers or throughput",
        ),
        optional(
            "form",
            ValueType::Text,
            "text of the query with ? in place of values, shortened to 1 KB; absent for a text \
             with an invalid token",
        ),
        required(
            "ms",
            ValueType::Number(0.0, f64::MAX),
            "time in milliseconds since the query began",
        ),
        required("activityId", ValueType::Text, "activity id"),
        optional("userAgent", ValueType::Text, "user agent of the client"),
        required("client", ValueType::Text, "address of the client"),
        required(
            "fromConsole",
            ValueType::Boolean,
            "true for a query of this server's own console",
        ),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "RunningQueries",
    members: &[required(
        "queries",
        ValueType::ObjectList(&QUERY),
        "queries that run, the longest first",
    )],
};

/// Lists the queries that run.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let mut queries: Vec<Json> = Vec::new();
    for query in call.components.gateway.running_queries() {
        queries.push(query_json(&query).into());
    }
    Answer::json(200, object! { "queries" => queries })
}

/// Cancels a query.
pub(crate) fn cancel(call: &Call) -> Result<Answer, Problem> {
    let text = call.path_parameter(0);
    let number: Option<u64> = text.parse().ok();
    let cancelled = number.and_then(|number| call.components.gateway.cancel_query(number));
    match cancelled {
        Some(query) => Answer::json(200, query_json(&query)),
        None => Err(Problem::not_found(format!(
            "no query '{text}' runs: the query has ended, or never began"
        ))),
    }
}

/// Returns the JSON form of a query.
fn query_json(query: &RunningQuery) -> Object {
    let mut json = object! {
        "number" => query.number,
        "ms" => query.age.as_secs_f64() * 1000.0,
        "activityId" => query.activity_id.as_str(),
        "client" => query.client.to_string(),
        "fromConsole" => query.is_from_console,
    };
    let texts = [
        ("db", query.database.as_str()),
        ("coll", query.container.as_str()),
        ("form", query.form.as_deref().unwrap_or_default()),
        ("userAgent", query.user_agent.as_str()),
    ];
    for (name, text) in texts {
        if !text.is_empty() {
            json.set(name, text);
        }
    }
    json
}
