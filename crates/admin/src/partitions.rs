//! The physical partitions of a container: data, budget and served requests of each.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Member, Schema, ValueType, joined, required};
use crate::throughput::{USAGE, set_usage};
use orrery_engine::PartitionInventory;
use orrery_model::{Json, Object, object};

const STORED: [Member; 9] = [
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
];
const MEMBERS: [Member; 16] = joined(STORED, USAGE);

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

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "Partitions",
    members: &[required(
        "partitions",
        ValueType::ObjectList(&PARTITION),
        "physical partitions in order of their EPK ranges",
    )],
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
    Answer::json(200, object! { "partitions" => partitions })
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
    };
    set_usage(&partition.throughput, &mut json);
    json
}
