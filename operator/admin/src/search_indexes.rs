//! The vector and full-text indexes of a container: sizes, progress, and the share of the nearest
//! vectors that an approximate index finds.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::query_predictions::AMOUNT;
use crate::schema::{COUNT, Member, Schema, ValueType, joined, optional, required};
use orrery_engine::{
    RECALL_SAMPLE_MAX, SearchIndexFigures, SearchIndexKind, SearchIndexPart, SearchIndexState,
    SearchIndexStatus,
};
use orrery_model::{Json, Object, object};

/// Vectors of a measurement that names no number.
const SAMPLE_DEFAULT: u64 = 20;

const FIGURES: [Member; 10] = [
    required(
        "state",
        ValueType::OneOf(&[
            "exact", "complete", "removing", "building", "training", "indexing",
        ]),
        "exact: all vectors are compared, because the type is flat or they are few; complete: the \
         index has taken in its items; removing: quantised vectors of an earlier type go away; \
         building: vectors are being quantised and linked; training: the quantiser is about to be \
         trained; indexing: the items are being indexed after a change of the policy",
    ),
    optional(
        "percent",
        ValueType::Integer(0, 100),
        "part that is done; absent while rows are removed",
    ),
    required("entries", COUNT, "vectors or texts in the index"),
    required(
        "quantised",
        COUNT,
        "vectors that are quantised as they are now; 0 for other indexes",
    ),
    required(
        "waiting",
        COUNT,
        "vectors that are still to be quantised; queries compare them meanwhile",
    ),
    required("words", COUNT, "words of all texts; 0 for vector indexes"),
    required("vectorBytes", COUNT, "bytes of the rows of whole vectors"),
    required("codeBytes", COUNT, "bytes of the rows of quantised vectors"),
    required(
        "listBytes",
        COUNT,
        "bytes of the lists of neighbours of a diskANN index",
    ),
    required(
        "estimated",
        ValueType::Boolean,
        "true if a figure was estimated from a part of the rows",
    ),
];
const PART_MEMBERS: [Member; 11] = joined(
    [required(
        "partition",
        ValueType::Text,
        "partition key range id",
    )],
    FIGURES,
);
const INDEX_MEMBERS: [Member; 17] = joined(
    [
        required("path", ValueType::Text, "path, as in the indexing policy"),
        required(
            "type",
            ValueType::OneOf(&["flat", "quantizedFlat", "diskANN", "fullText"]),
            "type of a vector index as in the indexing policy, or fullText",
        ),
        optional(
            "dataType",
            ValueType::Text,
            "data type of the components of vectors",
        ),
        optional("dimensions", COUNT, "number of components of a vector"),
        optional(
            "distanceFunction",
            ValueType::Text,
            "distance function of vectors",
        ),
        optional("language", ValueType::Text, "language of texts"),
        required(
            "partitions",
            ValueType::ObjectList(&PART),
            "the index in each physical partition",
        ),
    ],
    FIGURES,
);

/// A search index in a physical partition.
const PART: Schema = Schema {
    name: "SearchIndexPart",
    members: &PART_MEMBERS,
};

/// A search index of a container.
const INDEX: Schema = Schema {
    name: "SearchIndex",
    members: &INDEX_MEMBERS,
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "SearchIndexes",
    members: &[required(
        "indexes",
        ValueType::ObjectList(&INDEX),
        "vector indexes and then full-text indexes of the newest indexing policy; the figures are \
         sums over the physical partitions",
    )],
};

/// Body of [`recall`].
pub(crate) const RECALL_REQUEST: Schema = Schema {
    name: "RecallRequest",
    members: &[
        required(
            "path",
            ValueType::Text,
            "path of a vector index, as in the indexing policy",
        ),
        optional(
            "sample",
            ValueType::Integer(1, RECALL_SAMPLE_MAX as i64),
            "most vectors of the container to search; 20 if absent",
        ),
    ],
};

/// Response of [`recall`].
pub(crate) const RECALL: Schema = Schema {
    name: "Recall",
    members: &[
        required("path", ValueType::Text, "path of the index"),
        required(
            "sample",
            COUNT,
            "vectors of the container that were searched; fewer than asked for if there are no \
             more, or if the time was over",
        ),
        required(
            "wanted",
            COUNT,
            "nearest vectors that were looked for: ten for each vector of the sample",
        ),
        required("found", COUNT, "those of them that the index found"),
        optional(
            "recall",
            ValueType::Number(0.0, 1.0),
            "found divided by wanted; absent if there are no vectors",
        ),
        required(
            "indexMs",
            AMOUNT,
            "mean milliseconds of a query by the index",
        ),
        required(
            "exactMs",
            AMOUNT,
            "mean milliseconds of a query that compares all vectors",
        ),
    ],
};

/// Lists the search indexes of a container.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let mut indexes: Vec<Json> = Vec::new();
    for index in call.engine().search_indexes(&container, &call.cancel)? {
        indexes.push(index_json(&index).into());
    }
    Answer::json(200, object! { "indexes" => indexes })
}

/// Measures a vector index.
pub(crate) fn recall(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let path = call.text("path").unwrap_or_default();
    let sample = call.unsigned("sample").unwrap_or(SAMPLE_DEFAULT);
    let engine = call.engine();
    let estimate = engine.vector_recall(&container, path, sample, &call.cancel)?;
    let mut json = object! {
        "path" => path,
        "sample" => estimate.sample,
        "wanted" => estimate.wanted,
        "found" => estimate.found,
        "indexMs" => estimate.index_ms,
        "exactMs" => estimate.exact_ms,
    };
    if estimate.wanted > 0 {
        json.set("recall", estimate.found as f64 / estimate.wanted as f64);
    }
    Answer::json(200, json)
}

/// Returns the JSON form of an index.
fn index_json(index: &SearchIndexStatus) -> Object {
    let mut json = object! { "path" => index.path.as_str() };
    match &index.kind {
        SearchIndexKind::Vector {
            type_name,
            data_type,
            dimensions,
            function,
        } => {
            json.set("type", *type_name);
            json.set("dataType", *data_type);
            json.set("dimensions", *dimensions);
            json.set("distanceFunction", *function);
        }
        SearchIndexKind::Text { language } => {
            json.set("type", "fullText");
            json.set("language", language.as_str());
        }
    }
    set_figures(index.state, index.percent, &index.figures, &mut json);
    let partitions: Vec<Json> = index.partitions.iter().map(part_json).collect();
    json.set("partitions", partitions);
    json
}

/// Returns the JSON form of an index in a partition.
fn part_json(part: &SearchIndexPart) -> Json {
    let mut json = object! { "partition" => part.partition.to_string() };
    set_figures(part.state, part.percent, &part.figures, &mut json);
    json.into()
}

fn set_figures(
    state: SearchIndexState,
    percent: Option<u8>,
    figures: &SearchIndexFigures,
    json: &mut Object,
) {
    let state = match state {
        SearchIndexState::Exact => "exact",
        SearchIndexState::Complete => "complete",
        SearchIndexState::Removing => "removing",
        SearchIndexState::Building => "building",
        SearchIndexState::Training => "training",
        SearchIndexState::Indexing => "indexing",
    };
    json.set("state", state);
    if let Some(percent) = percent {
        json.set("percent", u64::from(percent));
    }
    for (name, figure) in [
        ("entries", figures.entries),
        ("quantised", figures.quantised),
        ("waiting", figures.waiting),
        ("words", figures.words),
        ("vectorBytes", figures.vector_bytes),
        ("codeBytes", figures.code_bytes),
        ("listBytes", figures.list_bytes),
    ] {
        json.set(name, figure);
    }
    json.set("estimated", figures.is_estimated);
}
