//! Predictions for a container: the recorded requests under another partition key, throughput or
//! indexing policy, on copies in memory; and the properties that could be a partition key.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::query_predictions::{
    AMOUNT, PARAMETER, SAMPLE, SAMPLE_ITEMS, parameters, partition_key, problem, rounded,
    sample_json,
};
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_engine::request::Throughput;
use orrery_model::{Json, Object, object};
use orrery_prediction::{
    Column, GivenQuery, LargestKey, Prediction, PredictionClass, PredictionSide, Proposal,
    key_candidates, predict,
};

const SHARE: ValueType = ValueType::Number(0.0, 1.0);
const PARTITIONS: ValueType = ValueType::Integer(1, 100);

/// A query to judge beside the recorded ones.
const QUERY: Schema = Schema {
    name: "PredictionGivenQuery",
    members: &[
        required("text", ValueType::Text, "SQL text of the query"),
        optional(
            "parameters",
            ValueType::ObjectList(&PARAMETER),
            "parameters of the query",
        ),
        optional(
            "weight",
            ValueType::Number(0.0, WEIGHT_MAX),
            "number of executions for which the query stands; 1 if absent",
        ),
        optional(
            "partitionKey",
            ValueType::Text,
            "partition key of the request under the settings as they are, as in the header \
             x-ms-documentdb-partitionkey; absent: the request names none",
        ),
    ],
};

/// Body of [`run`].
pub(crate) const PROPOSAL: Schema = Schema {
    name: "PredictionProposal",
    members: &[
        optional(
            "partitionKey",
            ValueType::AnyObject,
            "proposed partition key definition, as in the body of a container; absent keeps it",
        ),
        optional(
            "indexingPolicy",
            ValueType::AnyObject,
            "proposed indexing policy, as in the body of a container; absent keeps it",
        ),
        optional(
            "throughput",
            ValueType::Integer(400, 1_000_000),
            "proposed RU/s in steps of 100; absent keeps the throughput",
        ),
        optional(
            "autoscaleMaxThroughput",
            ValueType::Integer(1_000, 1_000_000),
            "proposed maximum RU/s of autoscale in steps of 1000; not together with throughput",
        ),
        optional(
            "physicalPartitions",
            PARTITIONS,
            "number of physical partitions; absent: as many as data and throughput need",
        ),
        optional(
            "sampleItems",
            SAMPLE_ITEMS,
            "most items to copy; 20000 if absent",
        ),
        optional(
            "recorded",
            ValueType::Boolean,
            "false to leave out the recorded requests; true if absent",
        ),
        optional(
            "queries",
            ValueType::ObjectList(&QUERY),
            "queries to judge beside the recorded requests, at most 50",
        ),
    ],
};

/// The most executions that a given query stands for.
const WEIGHT_MAX: f64 = 1e12;

/// The most queries of a request.
const QUERIES_MAX: usize = 50;

/// A large logical partition.
const LARGEST: Schema = Schema {
    name: "PredictionLargestKey",
    members: &[
        required(
            "key",
            ValueType::Text,
            "partition key as the text of a JSON array",
        ),
        required(
            "bytes",
            COUNT,
            "bytes of its items, scaled to the container",
        ),
        required("share", SHARE, "share of the bytes of the container"),
    ],
};

/// A container under some settings.
const SIDE: Schema = Schema {
    name: "PredictionSide",
    members: &[
        required(
            "partitionKey",
            ValueType::TextList,
            "paths of the partition key",
        ),
        optional(
            "throughput",
            COUNT,
            "RU/s, of autoscale the maximum; absent if the container shares the throughput of its \
             database",
        ),
        required("autoscale", ValueType::Boolean, "true for autoscale"),
        required("ru", AMOUNT, "charge of all recorded and given requests"),
        required(
            "fanOut",
            AMOUNT,
            "physical partitions that a request asks on average",
        ),
        required(
            "ruShares",
            ValueType::NumberList,
            "share of the charge at each physical partition, in the order of the EPK ranges",
        ),
        required("hottestShare", SHARE, "largest of ruShares"),
        required(
            "partitionBytes",
            ValueType::NumberList,
            "bytes of the items of each physical partition",
        ),
        optional(
            "throttledShare",
            SHARE,
            "share of requests that are answered with 429 at the rates of the last ten minutes \
             with requests; a refused request is not repeated. Absent without recorded requests",
        ),
        required("itemBytes", COUNT, "bytes of the items"),
        required("indexBytes", COUNT, "bytes of the index entries"),
        required(
            "distinctKeys",
            COUNT,
            "different partition keys among the copied items",
        ),
        required(
            "largestKeys",
            ValueType::ObjectList(&LARGEST),
            "largest logical partitions, the largest first",
        ),
        required(
            "keyLimitBytes",
            COUNT,
            "bytes that one logical partition may have",
        ),
        required(
            "conflicts",
            COUNT,
            "copied items whose id or unique key another item of their logical partition has",
        ),
        required(
            "refused",
            COUNT,
            "copied items that cannot be stored for another reason",
        ),
    ],
};

/// The mean of repeated requests.
const COLUMN: Schema = Schema {
    name: "PredictionColumn",
    members: &[
        required("ru", AMOUNT, "mean charge of the repeated requests"),
        required(
            "partitions",
            AMOUNT,
            "mean number of physical partitions that a repeated request asked",
        ),
    ],
};

/// The requests of one kind.
const CLASS: Schema = Schema {
    name: "PredictionClass",
    members: &[
        required(
            "kind",
            ValueType::OneOf(&[
                "pointRead",
                "create",
                "upsert",
                "replace",
                "patch",
                "delete",
                "batch",
                "script",
                "feed",
                "query",
            ]),
            "kind of the requests",
        ),
        optional(
            "text",
            ValueType::Text,
            "text of a query, with ? in place of values",
        ),
        required(
            "count",
            AMOUNT,
            "number of requests; of queries, of executions",
        ),
        optional(
            "recordedRu",
            AMOUNT,
            "mean of the recorded charges; absent for a given query",
        ),
        required(
            "current",
            ValueType::Object(&COLUMN),
            "repeated with the settings as they are",
        ),
        required(
            "proposed",
            ValueType::Object(&COLUMN),
            "repeated with the proposed settings",
        ),
        required(
            "predictedRu",
            AMOUNT,
            "predicted mean charge: the recorded one, changed as the repeated requests change",
        ),
        required("repeated", COUNT, "number of repeated requests"),
        optional("note", ValueType::Text, "what limits the prediction"),
    ],
};

/// Response of [`run`].
pub(crate) const PREDICTION: Schema = Schema {
    name: "Prediction",
    members: &[
        required(
            "sample",
            ValueType::Object(&SAMPLE),
            "items that were copied",
        ),
        required("current", ValueType::Object(&SIDE), "settings as they are"),
        required("proposed", ValueType::Object(&SIDE), "proposed settings"),
        required(
            "classes",
            ValueType::ObjectList(&CLASS),
            "kinds of requests, the most expensive in total first",
        ),
        required(
            "words",
            ValueType::TextList,
            "the prediction in sentences, the most important first",
        ),
    ],
};

/// A property that could be a partition key.
const CANDIDATE: Schema = Schema {
    name: "KeyCandidate",
    members: &[
        required(
            "path",
            ValueType::Text,
            "path, as in a partition key definition",
        ),
        required("values", COUNT, "number of different values"),
        required(
            "largest",
            SHARE,
            "share of the items that have the most frequent value",
        ),
        required(
            "present",
            SHARE,
            "share of the items that have the property",
        ),
    ],
};

/// Response of [`candidates`].
pub(crate) const CANDIDATES: Schema = Schema {
    name: "KeyCandidates",
    members: &[
        required("items", COUNT, "items of the sample"),
        required(
            "candidates",
            ValueType::ObjectList(&CANDIDATE),
            "properties with scalars, those with the most values first",
        ),
    ],
};

/// Lists the properties that could be the partition key of a container.
pub(crate) fn candidates(call: &Call) -> Result<Answer, Problem> {
    let found = key_candidates(call.engine(), &*call.container()?)?;
    let mut candidates: Vec<Json> = Vec::with_capacity(found.candidates.len());
    for candidate in &found.candidates {
        let json = object! {
            "path" => candidate.path.as_str(),
            "values" => candidate.values,
            "largest" => fine(candidate.largest),
            "present" => fine(candidate.present),
        };
        candidates.push(json.into());
    }
    Answer::json(
        200,
        object! { "items" => found.items, "candidates" => candidates },
    )
}

/// Predicts a container under proposed settings.
pub(crate) fn run(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let proposal = proposal(call)?;
    let prediction =
        predict(call.engine(), &container, &proposal, &call.cancel).map_err(problem)?;
    Answer::json(200, prediction_json(&prediction))
}

/// Reads the proposal from the arguments.
fn proposal(call: &Call) -> Result<Proposal, Problem> {
    let throughput = match (
        call.integer("throughput"),
        call.integer("autoscaleMaxThroughput"),
    ) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request(
                "the body: state either 'throughput' or 'autoscaleMaxThroughput', not both",
            ));
        }
        (Some(ru), None) => Some(Throughput::manual(ru)?),
        (None, Some(max)) => Some(Throughput::autoscale(max, None)?),
        (None, None) => None,
    };
    let given = call.list("queries");
    if given.len() > QUERIES_MAX {
        return Err(Problem::bad_request(format!(
            "the body, 'queries': at most {QUERIES_MAX} queries, not {}",
            given.len()
        )));
    }
    let mut queries = Vec::with_capacity(given.len());
    for query in given {
        queries.push(given_query(query)?);
    }
    let partitions = call.unsigned("physicalPartitions");
    Ok(Proposal {
        partition_key: call.arguments.get("partitionKey").cloned(),
        indexing_policy: call.arguments.get("indexingPolicy").cloned(),
        throughput,
        physical_partitions: partitions.and_then(|count| u32::try_from(count).ok()),
        sample_items: call.unsigned("sampleItems"),
        uses_recorded: call
            .arguments
            .get("recorded")
            .and_then(Json::as_bool)
            .unwrap_or(true),
        queries,
    })
}

/// Reads a given query.
fn given_query(query: &Json) -> Result<GivenQuery, Problem> {
    let text = |name: &str| query.get(name).and_then(Json::as_str);
    let list = query.get("parameters").and_then(Json::as_array);
    Ok(GivenQuery {
        text: text("text").unwrap_or_default().to_owned(),
        parameters: parameters(list.unwrap_or_default()),
        weight: query.get("weight").and_then(Json::as_f64).unwrap_or(1.0),
        partition_key: text("partitionKey").map(partition_key).transpose()?,
    })
}

fn prediction_json(prediction: &Prediction) -> Object {
    let mut classes: Vec<Json> = Vec::with_capacity(prediction.classes.len());
    for class in &prediction.classes {
        classes.push(class_json(class).into());
    }
    let words: Vec<Json> = prediction
        .words
        .iter()
        .map(|sentence| sentence.as_str().into())
        .collect();
    object! {
        "sample" => sample_json(&prediction.sample),
        "current" => side_json(&prediction.current),
        "proposed" => side_json(&prediction.proposed),
        "classes" => classes,
        "words" => words,
    }
}

fn side_json(side: &PredictionSide) -> Object {
    let paths: Vec<Json> = side
        .key_paths
        .iter()
        .map(|path| path.as_str().into())
        .collect();
    let shares: Vec<Json> = side
        .ru_shares
        .iter()
        .map(|share| fine(*share).into())
        .collect();
    let bytes: Vec<Json> = side
        .partition_bytes
        .iter()
        .map(|bytes| (*bytes).into())
        .collect();
    let largest: Vec<Json> = side
        .keys
        .largest
        .iter()
        .map(|key| largest_json(key).into())
        .collect();
    let mut json = object! {
        "partitionKey" => paths,
        "autoscale" => side.is_autoscale,
        "ru" => rounded(side.ru),
        "fanOut" => rounded(side.fan_out),
        "ruShares" => shares,
        "hottestShare" => fine(side.hottest_share()),
        "partitionBytes" => bytes,
        "itemBytes" => side.item_bytes,
        "indexBytes" => side.index_bytes,
        "distinctKeys" => side.keys.distinct,
        "largestKeys" => largest,
        "keyLimitBytes" => side.keys.limit_bytes,
        "conflicts" => side.conflicts,
        "refused" => side.refused,
    };
    if let Some(ru) = side.ru_per_second {
        json.set("throughput", ru);
    }
    if let Some(share) = side.throttled {
        json.set("throttledShare", fine(share));
    }
    json
}

fn largest_json(key: &LargestKey) -> Object {
    object! {
        "key" => key.key.to_text(),
        "bytes" => key.bytes,
        "share" => fine(key.share.min(1.0)),
    }
}

fn class_json(class: &PredictionClass) -> Object {
    let mut json = object! {
        "kind" => class.kind.name(),
        "count" => rounded(class.count),
        "current" => column_json(class.current),
        "proposed" => column_json(class.proposed),
        "predictedRu" => rounded(class.predicted_ru),
        "repeated" => class.repeated,
    };
    if !class.text.is_empty() {
        json.set("text", class.text.as_str());
    }
    if let Some(ru) = class.recorded_ru {
        json.set("recordedRu", rounded(ru));
    }
    if let Some(note) = &class.note {
        json.set("note", note.as_str());
    }
    json
}

fn column_json(column: Column) -> Object {
    object! { "ru" => rounded(column.ru), "partitions" => rounded(column.partitions) }
}

/// Rounds a share to a hundredth of a percent.
fn fine(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}
