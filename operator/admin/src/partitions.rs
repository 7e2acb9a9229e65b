//! The physical partitions of a container: data, budget and served requests of each.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Member, Schema, ValueType, joined, optional, required};
use crate::throughput::{RU, USAGE, set_usage};
use orrery_engine::request::PartitionSecond;
use orrery_engine::{Container, PartitionInventory};
use orrery_model::{Json, Object, object};

const STORED: [Member; 10] = [
    required(
        "id",
        ValueType::Text,
        "partition key range id, as clients see it",
    ),
    required(
        "parents",
        ValueType::TextList,
        "ids of the partition key ranges from which this one was split or merged",
    ),
    required(
        "minInclusive",
        ValueType::Text,
        "start of the EPK range, in hexadecimal digits",
    ),
    required(
        "maxExclusive",
        ValueType::Text,
        "end of the EPK range, in hexadecimal digits",
    ),
    required("lsn", COUNT, "LSN of the last durable commit"),
    required("items", COUNT, "number of items"),
    required("bytes", COUNT, "size of the items' JSON texts in bytes"),
    required(
        "indexBytes",
        COUNT,
        "size of the index entries' rows in bytes, keys and values",
    ),
    required(
        "largestKeys",
        ValueType::ObjectList(&LARGE_KEY),
        "largest logical partitions, the largest first; none while the partition is smaller than \
         half of the limit on a logical partition",
    ),
    required(
        "lastMinute",
        ValueType::ObjectList(&SECOND),
        "seconds of the last minute that had requests, the oldest first",
    ),
];
const MEMBERS: [Member; 17] = joined(STORED, USAGE);

/// One second of a physical partition.
const SECOND: Schema = Schema {
    name: "PartitionSecond",
    members: &[
        required("second", COUNT, "second since 1970-01-01 UTC"),
        required("requestUnits", RU, "sum of the request charges"),
        required("requests", COUNT, "requests carried out"),
        required(
            "throttled",
            COUNT,
            "requests refused with 429 because the budget was spent",
        ),
        required(
            "wouldThrottle",
            COUNT,
            "requests that would have been refused if the budget were enforced",
        ),
    ],
};

/// A logical partition.
pub(crate) const LARGE_KEY: Schema = Schema {
    name: "LargeKey",
    members: &[
        required("epk", ValueType::Text, "EPK, in hexadecimal digits"),
        required(
            "key",
            ValueType::Text,
            "partition key as the text of a JSON array; empty if no item has the key",
        ),
        required("bytes", COUNT, "size of the items' JSON texts in bytes"),
    ],
};

/// A physical partition.
pub(crate) const PARTITION: Schema = Schema {
    name: "Partition",
    members: &MEMBERS,
};

/// A physical partition that exists or existed.
const LINEAGE: Schema = Schema {
    name: "PartitionLineage",
    members: &[
        required("id", ValueType::Text, "partition key range id"),
        required(
            "parents",
            ValueType::TextList,
            "ids of the direct predecessors: one after a split, several after a merge",
        ),
        required(
            "minInclusive",
            ValueType::Text,
            "start of the EPK range, in hexadecimal digits",
        ),
        required(
            "maxExclusive",
            ValueType::Text,
            "end of the EPK range, in hexadecimal digits",
        ),
        required(
            "createdMilliseconds",
            COUNT,
            "time of the data at the creation, in milliseconds since 1970-01-01 UTC",
        ),
        optional(
            "replacedMilliseconds",
            COUNT,
            "time of the data when a split or merge replaced the partition; absent while it exists",
        ),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "Partitions",
    members: &[
        required(
            "partitions",
            ValueType::ObjectList(&PARTITION),
            "physical partitions in order of their EPK ranges",
        ),
        required(
            "lineage",
            ValueType::ObjectList(&LINEAGE),
            "every physical partition that exists or existed, in order of creation",
        ),
        required(
            "physicalPartitionBytesMax",
            COUNT,
            "bytes of items beyond which a physical partition is split",
        ),
        required(
            "logicalPartitionBytesMax",
            COUNT,
            "bytes of items that a logical partition may have",
        ),
    ],
};

/// Lists the physical partitions of a container.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let partitions: Vec<Json> = call
        .engine()
        .partition_inventory(&container)?
        .iter()
        .map(|partition| partition_json(partition).into())
        .collect();
    Answer::json(
        200,
        object! {
            "partitions" => partitions,
            "lineage" => lineage_json(&container),
            "physicalPartitionBytesMax" => container.partition_bytes_max(),
            "logicalPartitionBytesMax" => container.logical_partition_bytes_max(),
        },
    )
}

/// Returns every physical partition that a container has or had as a JSON array.
fn lineage_json(container: &Container) -> Vec<Json> {
    let mut lineage = Vec::new();
    for range in container.lineage().values() {
        let parents: Vec<Json> = range
            .parents
            .iter()
            .map(|id| id.to_string().into())
            .collect();
        let mut json = object! {
            "id" => range.id.to_string(),
            "parents" => parents,
            "minInclusive" => range.range.min.to_string(),
            "maxExclusive" => range.range.max.to_string(),
            "createdMilliseconds" => range.since_ms,
        };
        if let Some(replaced_ms) = range.until_ms {
            json.set("replacedMilliseconds", replaced_ms);
        }
        lineage.push(json.into());
    }
    lineage
}

/// Returns the JSON form of a physical partition.
fn partition_json(partition: &PartitionInventory) -> Object {
    let parents: Vec<Json> = partition
        .parents
        .iter()
        .map(|id| id.to_string().into())
        .collect();
    let mut largest_keys: Vec<Json> = Vec::with_capacity(partition.largest_keys.len());
    for large in &partition.largest_keys {
        let key = large.key.as_ref().map(Json::to_text).unwrap_or_default();
        let large = object! {
            "epk" => large.epk.as_str(),
            "key" => key,
            "bytes" => large.bytes,
        };
        largest_keys.push(large.into());
    }
    let seconds: Vec<Json> = partition
        .throughput
        .seconds
        .iter()
        .map(second_json)
        .collect();
    let mut json = object! {
        "id" => partition.id.to_string(),
        "parents" => parents,
        "minInclusive" => partition.range.min.to_string(),
        "maxExclusive" => partition.range.max.to_string(),
        "lsn" => partition.lsn,
        "items" => partition.items,
        "bytes" => partition.bytes,
        "indexBytes" => partition.index_bytes,
        "largestKeys" => largest_keys,
        "lastMinute" => seconds,
    };
    set_usage(&partition.throughput, &mut json);
    json
}

/// Returns the JSON form of one second of a physical partition.
fn second_json(second: &PartitionSecond) -> Json {
    let json = object! {
        "second" => second.second,
        "requestUnits" => second.charged.as_ru(),
        "requests" => second.requests,
        "throttled" => second.throttled,
        "wouldThrottle" => second.would_throttle,
    };
    json.into()
}
