//! Version, uptime, data size and damage of the server.

use crate::call::{Answer, Call};
use crate::continuous_backup::CONTINUOUS_BACKUP;
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_engine::{DamagedBlock, Engine};
use orrery_model::{Json, Kind, Object, object};

/// A damaged block of the store.
const DAMAGED_BLOCK: Schema = Schema {
    name: "DamagedBlock",
    members: &[
        required("file", ValueType::Text, "path of the damaged file"),
        required("offset", COUNT, "offset of the block in the file in bytes"),
        required("bytes", COUNT, "length of the block in bytes"),
        required("fault", ValueType::Text, "fault of the block"),
        required(
            "contents",
            ValueType::OneOf(&[
                "items",
                "index entries",
                "catalog",
                "file structure",
                "nothing lost",
            ]),
            "contents of the block before the damage",
        ),
        required(
            "readOnlyPartitions",
            ValueType::TextList,
            "resource paths of the physical partitions that take no writes, as in \
             dbs/{db}/colls/{coll}/pkranges/{id}",
        ),
    ],
};

/// The regular check of all blocks of the store.
const SCRUB: Schema = Schema {
    name: "Scrub",
    members: &[
        required(
            "checkedBytes",
            COUNT,
            "bytes that were checked since the server started",
        ),
        required(
            "passCheckedBytes",
            COUNT,
            "bytes that the current or last pass has checked",
        ),
        required("passBytes", COUNT, "bytes that a pass checks"),
        required(
            "completedPasses",
            COUNT,
            "passes that were completed since the server started",
        ),
        optional(
            "secondsSincePass",
            COUNT,
            "seconds since the last pass was completed; absent if none was",
        ),
    ],
};

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
        required(
            "damagedBlocks",
            ValueType::ObjectList(&DAMAGED_BLOCK),
            "damaged blocks of the store",
        ),
        optional(
            "scrub",
            ValueType::Object(&SCRUB),
            "regular check of all blocks; absent if the data is in memory",
        ),
        optional(
            "continuousBackup",
            ValueType::Object(&CONTINUOUS_BACKUP),
            "continuous backup; absent if there is none",
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
        let inventory = match engine.partition_inventory(container) {
            // A cluster that is away is listed by itself.
            Err(error) if error.kind() == Kind::Unavailable => continue,
            inventory => inventory?,
        };
        for partition in inventory {
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
    let damaged = engine.damaged_blocks();
    let damaged: Vec<Json> = damaged.iter().map(damaged_block).collect();
    status.set("damagedBlocks", damaged);
    if let Some(scrub) = scrub(engine) {
        status.set("scrub", scrub);
    }
    if let Some(backups) = &call.components.continuous_backup {
        status.set("continuousBackup", backups.to_json());
    }
    Answer::json(200, status)
}

fn damaged_block(block: &DamagedBlock) -> Json {
    let paths: Vec<Json> = block
        .partition_paths()
        .into_iter()
        .map(Json::from)
        .collect();
    let block = object! {
        "file" => block.file.clone(),
        "offset" => block.offset,
        "bytes" => block.bytes,
        "fault" => block.fault.clone(),
        "contents" => block.contents.name(),
        "readOnlyPartitions" => paths,
    };
    block.into()
}

fn scrub(engine: &Engine) -> Option<Object> {
    let progress = engine.scrub_progress()?;
    let mut scrub = object! {
        "checkedBytes" => progress.checked_bytes,
        "passCheckedBytes" => progress.pass_checked_bytes,
        "passBytes" => progress.pass_bytes,
        "completedPasses" => progress.passes,
    };
    if let Some(seconds) = progress.seconds_since_pass {
        scrub.set("secondsSincePass", seconds);
    }
    Some(scrub)
}
