//! Predictions for a query: its cost with the indexing policy as it is and as proposed, measured on
//! copies in memory; and the reasons for its charge.
//!
//! Charges are in request units. The handlers read the container from snapshots: nothing is charged
//! to the container, and nothing is written.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Member, Schema, ValueType, optional, required};
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Json, Object, limits, object};
use orrery_prediction::{
    Failure, MeasuredQuery, QueryToMeasure, Reason, SAMPLE_ITEMS_MAX, SampleSummary, explain,
    predict_query,
};

pub(crate) const AMOUNT: ValueType = ValueType::Number(0.0, f64::MAX);
pub(crate) const SAMPLE_ITEMS: ValueType = ValueType::Integer(1, SAMPLE_ITEMS_MAX as i64);

/// A parameter of a query.
pub(crate) const PARAMETER: Schema = Schema {
    name: "QueryParameter",
    members: &[
        required("name", ValueType::Text, "name with its @"),
        required("value", ValueType::Anything, "value"),
    ],
};

/// Members that describe a query.
const QUERY_MEMBERS: [Member; 5] = [
    required("text", ValueType::Text, "SQL text of the query"),
    optional(
        "parameters",
        ValueType::ObjectList(&PARAMETER),
        "parameters of the query",
    ),
    optional(
        "partitionKey",
        ValueType::Text,
        "partition key as in the header x-ms-documentdb-partitionkey; absent: the query may \
         ask every physical partition",
    ),
    optional(
        "maxItems",
        ValueType::Integer(1, 1_000),
        "rows wanted on a page",
    ),
    optional(
        "pages",
        ValueType::Integer(1, 20),
        "pages to read; 1 if absent",
    ),
];

/// Body of [`why`].
pub(crate) const QUERY: Schema = Schema {
    name: "QueryToMeasure",
    members: &QUERY_MEMBERS,
};

/// Body of [`run`].
pub(crate) const PROPOSAL: Schema = Schema {
    name: "QueryProposal",
    members: &[
        QUERY_MEMBERS[0],
        QUERY_MEMBERS[1],
        QUERY_MEMBERS[2],
        QUERY_MEMBERS[3],
        QUERY_MEMBERS[4],
        required(
            "indexingPolicy",
            ValueType::AnyObject,
            "proposed indexing policy, as in the body of a container",
        ),
        optional(
            "sampleItems",
            SAMPLE_ITEMS,
            "most items to copy; 20000 if absent",
        ),
    ],
};

/// The items on which figures were measured.
pub(crate) const SAMPLE: Schema = Schema {
    name: "PredictionSample",
    members: &[
        required("items", COUNT, "copied items"),
        required("containerItems", COUNT, "items of the container"),
        required("containerBytes", COUNT, "bytes of the container's items"),
        required(
            "complete",
            ValueType::Boolean,
            "true if all items of the container were copied",
        ),
    ],
};

/// A reason for the charge of a query.
const REASON: Schema = Schema {
    name: "ChargeReason",
    members: &[
        required(
            "code",
            ValueType::OneOf(&[
                "request",
                "fanOut",
                "discarded",
                "loaded",
                "index",
                "rows",
                "arrays",
                "functions",
            ]),
            "short name of the reason",
        ),
        required("text", ValueType::Text, "the reason in words"),
        required("ru", AMOUNT, "request units"),
        optional(
            "remedy",
            ValueType::Object(&REMEDY),
            "what would make the query cheaper",
        ),
    ],
};

/// Change that would make a query cheaper.
const REMEDY: Schema = Schema {
    name: "ChargeRemedy",
    members: &[
        required("text", ValueType::Text, "the remedy in words"),
        required(
            "compositeIndexes",
            ValueType::AnyList,
            "composite indexes to add, each as in compositeIndexes of an indexing policy",
        ),
        required(
            "includedPaths",
            ValueType::TextList,
            "paths to include in the index",
        ),
    ],
};

/// The measurement of a query.
pub(crate) const SIDE: Schema = Schema {
    name: "MeasuredQuery",
    members: &[
        optional(
            "error",
            ValueType::Text,
            "the reason for which the query was refused; the figures are then 0",
        ),
        required("ru", AMOUNT, "request charge of the pages that were read"),
        required("pages", COUNT, "pages that were read"),
        required(
            "complete",
            ValueType::Boolean,
            "true if the last page was read",
        ),
        required("rows", COUNT, "rows returned"),
        required("retrieved", COUNT, "items loaded"),
        required(
            "partitions",
            COUNT,
            "physical partitions that the first page asked",
        ),
        required(
            "containerPartitions",
            COUNT,
            "physical partitions of the container",
        ),
        required(
            "indexBytes",
            COUNT,
            "bytes of the index entries of the measured items",
        ),
        optional(
            "plan",
            ValueType::AnyObject,
            "access path, work and charge at each physical partition, as in x-orrery-explain",
        ),
        optional(
            "indexMetrics",
            ValueType::AnyObject,
            "used and possible indexes, as in x-ms-cosmos-index-utilization",
        ),
        required(
            "why",
            ValueType::ObjectList(&REASON),
            "reasons for the charge, the most expensive first; they add up to the charge except \
             for rounding",
        ),
    ],
};

/// Response of [`run`].
pub(crate) const PREDICTION: Schema = Schema {
    name: "QueryPrediction",
    members: &[
        required(
            "sample",
            ValueType::Object(&SAMPLE),
            "items on which both were measured",
        ),
        required(
            "now",
            ValueType::Object(&SIDE),
            "with the indexing policy as it is",
        ),
        required(
            "proposed",
            ValueType::Object(&SIDE),
            "with the proposed indexing policy",
        ),
    ],
};

/// Measures a query with the indexing policy as it is and as proposed.
pub(crate) fn run(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let policy = call.arguments.get("indexingPolicy").cloned();
    let policy = policy.unwrap_or_else(|| Object::new().into());
    let prediction = predict_query(
        call.engine(),
        &container,
        &query_to_measure(call)?,
        &policy,
        call.unsigned("sampleItems"),
        &call.cancel,
    )
    .map_err(problem)?;
    Answer::json(
        200,
        object! {
            "sample" => sample_json(&prediction.sample),
            "now" => side_json(&prediction.now),
            "proposed" => side_json(&prediction.proposed),
        },
    )
}

/// Measures a query on the container and returns the reasons for its charge.
pub(crate) fn why(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let side = explain(
        call.engine(),
        &container,
        &query_to_measure(call)?,
        &call.cancel,
    )?;
    Answer::json(200, side_json(&side))
}

/// Reads a query from the arguments.
fn query_to_measure(call: &Call) -> Result<QueryToMeasure, Problem> {
    let size = |name| {
        call.unsigned(name)
            .and_then(|size| usize::try_from(size).ok())
    };
    Ok(QueryToMeasure {
        text: call.text("text").unwrap_or_default().to_owned(),
        parameters: parameters(call.list("parameters")),
        partition_key: call.text("partitionKey").map(partition_key).transpose()?,
        // As in a request without the header.
        max_items: size("maxItems").or(Some(limits::PAGE_ITEMS_DEFAULT)),
        pages: size("pages").unwrap_or(1),
    })
}

/// Reads the parameters of a query.
pub(crate) fn parameters(list: &[Json]) -> Vec<(String, Json)> {
    let mut parameters = Vec::with_capacity(list.len());
    for parameter in list {
        let name = parameter
            .get("name")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let value = parameter.get("value").cloned().unwrap_or(Json::Null);
        parameters.push((name.to_owned(), value));
    }
    parameters
}

/// Reads a partition key in the form of its header.
pub(crate) fn partition_key(text: &str) -> Result<PartitionKey, Problem> {
    PartitionKey::from_header(text).map_err(|_| {
        Problem::bad_request(format!(
            "the body, 'partitionKey': '{text}' is not a JSON array of values. Write it as in \
             the header, for example [\"a\"]"
        ))
    })
}

/// Returns the response for a prediction that failed.
pub(crate) fn problem(failure: Failure) -> Problem {
    let message = failure.to_string();
    match failure {
        Failure::Busy => {
            Problem::new(429, "PredictionRuns", message).with_header("retry-after", "5")
        }
        Failure::Time(_) => Problem::new(408, "PredictionTimeout", message),
        Failure::Memory => Problem::new(429, "PredictionMemory", message),
        Failure::Engine(error) => error.into(),
    }
}

/// Returns the JSON form of a sample.
pub(crate) fn sample_json(sample: &SampleSummary) -> Object {
    object! {
        "items" => sample.items,
        "containerItems" => sample.container_items,
        "containerBytes" => sample.container_bytes,
        "complete" => sample.is_complete(),
    }
}

/// Returns the JSON form of a measured query.
fn side_json(side: &MeasuredQuery) -> Object {
    let why: Vec<Json> = side
        .why
        .iter()
        .map(|reason| reason_json(reason).into())
        .collect();
    let mut json = object! {
        "ru" => side.charge.as_ru(),
        "pages" => side.pages as u64,
        "complete" => side.is_whole,
        "rows" => side.rows,
        "retrieved" => side.retrieved,
        "partitions" => side.partitions,
        "containerPartitions" => side.partitions_of_container,
        "indexBytes" => side.index_bytes,
        "why" => why,
    };
    if let Some(error) = &side.error {
        json.set("error", error.as_str());
    }
    if let Some(plan) = &side.plan {
        json.set("plan", plan.clone());
    }
    if let Some(metrics) = &side.index_metrics {
        json.set("indexMetrics", metrics.clone());
    }
    json
}

/// Returns the JSON form of a reason.
fn reason_json(reason: &Reason) -> Object {
    let mut json = object! {
        "code" => reason.code,
        "text" => reason.text.as_str(),
        "ru" => rounded(reason.ru),
    };
    if let Some(remedy) = &reason.remedy {
        let paths: Vec<Json> = remedy
            .included_paths
            .iter()
            .map(|path| path.as_str().into())
            .collect();
        json.set(
            "remedy",
            object! {
                "text" => remedy.text.as_str(),
                "compositeIndexes" => remedy.composite_indexes.clone(),
                "includedPaths" => paths,
            },
        );
    }
    json
}

/// Rounds to hundredths.
pub(crate) fn rounded(amount: f64) -> f64 {
    (amount * 100.0).round() / 100.0
}
