//! What the server is and holds.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Shape, Value, may, must};
use orrery_model::object;

/// What [`read`] gives.
pub(crate) const SHAPE: Shape = Shape {
    name: "Status",
    members: &[
        must("version", Value::Text, "the version of the program"),
        must("uptimeSeconds", COUNT, "seconds since the process began"),
        must("account", Value::Text, "the name of the account"),
        may(
            "dataDirectory",
            Value::Text,
            "where the data are; left out if they are in memory",
        ),
        must("databases", COUNT, "databases"),
        must("containers", COUNT, "containers"),
        must("partitions", COUNT, "physical partitions of all containers"),
        must("items", COUNT, "items of all containers, as stored durably"),
        must("bytes", COUNT, "bytes of their JSON texts"),
        must("storeBytes", COUNT, "bytes that the store takes, about"),
    ],
};

/// Counts what there is.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let engine = call.engine();
    let containers = engine.every_container();
    let (mut partitions, mut items, mut bytes) = (0, 0, 0);
    for container in &containers {
        for partition in engine.partition_inventory(container)? {
            partitions += 1;
            items += partition.items;
            bytes += partition.bytes;
        }
    }
    let mut status = object! {
        "version" => env!("CARGO_PKG_VERSION"),
        "uptimeSeconds" => call.parts.started.elapsed().as_secs(),
        "account" => call.parts.gateway.account_name(),
    };
    if let Some(directory) = &call.parts.data_dir {
        status.set("dataDirectory", directory.display().to_string());
    }
    status.set("databases", engine.database_count());
    status.set("containers", containers.len());
    status.set("partitions", partitions as u64);
    status.set("items", items);
    status.set("bytes", bytes);
    status.set("storeBytes", engine.store_bytes());
    Answer::json(200, status)
}
