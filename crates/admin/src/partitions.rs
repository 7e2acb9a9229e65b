//! The physical partitions of a container: what each holds, what it may spend and what it served, in one answer.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Member, Shape, Value, joined, must};
use crate::throughput::{SERVED, show_served};
use orrery_model::{Json, object};

const HELD: [Member; 8] = [
    must(
        "id",
        Value::Text,
        "the partition key range id that clients see",
    ),
    must(
        "parents",
        Value::Texts,
        "the ids of the ranges it came from",
    ),
    must(
        "minInclusive",
        Value::Text,
        "where its stretch of the hash space begins, in hexadecimal digits",
    ),
    must("maxExclusive", Value::Text, "where it ends"),
    must("lsn", COUNT, "its last durable commit"),
    must("items", COUNT, "items"),
    must("bytes", COUNT, "bytes of their JSON texts"),
    must(
        "indexBytes",
        COUNT,
        "bytes of the index entries' rows, keys and values",
    ),
];
const MEMBERS: [Member; 15] = joined(HELD, SERVED);

/// A physical partition.
pub(crate) const PARTITION: Shape = Shape {
    name: "Partition",
    members: &MEMBERS,
};

/// What [`list`] gives.
pub(crate) const LIST: Shape = Shape {
    name: "Partitions",
    members: &[must(
        "partitions",
        Value::Objects(&PARTITION),
        "the partitions, in order of their ranges",
    )],
};

/// The partitions of a container.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let partitions = call.engine().partition_inventory(&container)?;
    let partitions = partitions.into_iter().map(|partition| {
        let parents: Vec<Json> = partition
            .parents
            .iter()
            .map(|id| id.to_string().into())
            .collect();
        let mut shown = object! {
            "id" => partition.id.to_string(),
            "parents" => parents,
            "minInclusive" => partition.range.min.to_string(),
            "maxExclusive" => partition.range.max.to_string(),
            "lsn" => partition.lsn,
            "items" => partition.items,
            "bytes" => partition.bytes,
            "indexBytes" => partition.index_bytes,
        };
        show_served(&partition.throughput, &mut shown);
        Json::from(shown)
    });
    Answer::json(
        200,
        object! { "partitions" => partitions.collect::<Vec<Json>>() },
    )
}
