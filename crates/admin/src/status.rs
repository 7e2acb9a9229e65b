//! Version, uptime and data size of the server.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_model::object;

/// Response of [`read`].
pub(crate) const STATUS: Schema = Schema {
    name: "Status",
    members: &[
        required("version", ValueType::Text, "version of the program"),
        required("uptimeSeconds", COUNT, "seconds since the process started"),
        required("account", ValueType::Text, "name of the account"),
        optional(
            "dataDirectory",
            ValueType::Text,
            "path of the data directory; absent if the data is in memory",
        ),
        required("databases", COUNT, "number of databases"),
        required("containers", COUNT, "number of containers"),
        required(
            "partitions",
            COUNT,
            "number of physical partitions of all containers",
        ),
        required(
            "items",
            COUNT,
            "number of durably stored items in all containers",
        ),
        required("bytes", COUNT, "size of the items' JSON texts in bytes"),
        required(
            "storeBytes",
            COUNT,
            "approximate size of the store in bytes",
        ),
    ],
};

/// Returns the status; counts the items of every physical partition.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let engine = call.engine();
    let containers = engine.every_container();
    let mut partitions: u64 = 0;
    let mut items = 0;
    let mut bytes = 0;
    for container in &containers {
        for partition in engine.partition_inventory(container)? {
            partitions += 1;
            items += partition.items;
            bytes += partition.bytes;
        }
    }

    let mut status = object! {
        "version" => env!("CARGO_PKG_VERSION"),
        "uptimeSeconds" => call.components.started.elapsed().as_secs(),
        "account" => call.components.gateway.account_name(),
    };
    if let Some(directory) = &call.components.data_dir {
        status.set("dataDirectory", directory.display().to_string());
    }
    status.set("databases", engine.database_count());
    status.set("containers", containers.len());
    status.set("partitions", partitions);
    status.set("items", items);
    status.set("bytes", bytes);
    status.set("storeBytes", engine.store_bytes());
    Answer::json(200, status)
}
