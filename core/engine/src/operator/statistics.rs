//! Statistics of the physical partitions of a container: the member `statistics` of a container
//! that is read with `x-ms-documentdb-populatepartitionstatistics`.
//!
//! Items and sizes are exact. Logical partitions are listed from a gigabyte on, as the service
//! does; their sizes are estimated from their share of the items, so that only one item of each is
//! read.

use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::keys::{self, EpkPrefix};
use crate::partition::row_reader::read_row;
use crate::partition::{Partition, retry_if_moved, scan};
use orrery_model::json::parse;
use orrery_model::{Error, Json, Result, object};
use orrery_storage::{Direction, Snapshot};
use std::collections::HashMap;

/// Bytes from which on a logical partition is listed.
const LARGE_BYTES: u64 = 1 << 30;

/// Returns the statistics of all partitions, in order of their ranges.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn of_container(container: &Container) -> Result<Json> {
    retry_if_moved(|| {
        let partitions = container.partitions();
        let rows = partitions
            .iter()
            .map(|partition| of_partition(container, partition, LARGE_BYTES));
        rows.collect::<Result<Vec<_>>>().map(Json::Array)
    })
}

fn of_partition(container: &Container, partition: &Partition, large_bytes: u64) -> Result<Json> {
    let snapshot = partition.snapshot_while_completing()?;
    let counters = Partition::counters(snapshot.as_ref())?;
    // A partition below the limit has no logical partition above it.
    let large = match counters.bytes >= large_bytes {
        true => large_keys(
            container,
            snapshot.as_ref(),
            counters.bytes / counters.items.max(1),
            large_bytes,
        )?,
        false => Vec::new(),
    };
    Ok(Json::Object(object! {
        "id" => partition.id.to_string(),
        "sizeInKB" => counters.bytes.div_ceil(1024),
        "documentCount" => counters.items,
        "partitionKeys" => large,
    }))
}

/// Returns the logical partitions with at least the listed size if each item has `item_bytes`, the
/// largest first.
fn large_keys(
    container: &Container,
    snapshot: &dyn Snapshot,
    item_bytes: u64,
    large_bytes: u64,
) -> Result<Vec<Json>> {
    let mut items: HashMap<EpkPrefix, (u64, keys::ItemNumber)> = HashMap::new();
    for entry in scan(snapshot, &keys::naturals_from(0), Direction::Forward) {
        let (key, epk_prefix) = entry?;
        let number = keys::read_natural(&key).ok_or_else(damaged)?;
        let epk_prefix: EpkPrefix = epk_prefix[..].try_into().map_err(|_| damaged())?;
        items.entry(epk_prefix).or_insert((0, number)).0 += 1;
    }
    let mut large: Vec<_> = items
        .into_iter()
        .filter(|(_, (count, _))| count * item_bytes >= large_bytes)
        .collect();
    large.sort_by_key(|(epk_prefix, (count, _))| (std::cmp::Reverse(*count), *epk_prefix));
    large
        .into_iter()
        .map(|(epk_prefix, (count, number))| {
            named(container, snapshot, epk_prefix, number, count * item_bytes)
        })
        .collect()
}

/// Describes a logical partition by the partition key of one of its items.
fn named(
    container: &Container,
    snapshot: &dyn Snapshot,
    epk_prefix: EpkPrefix,
    number: keys::ItemNumber,
    bytes: u64,
) -> Result<Json> {
    let row = read_row(epk_prefix, number, |key| {
        snapshot.get(key).map_err(storage_failure)
    })?
    .ok_or_else(damaged)?;
    let item = parse(&row.body).map_err(|_| damaged())?;
    let key = container
        .partition_key()
        .extract(item.as_object().ok_or_else(damaged)?)?;
    Ok(Json::Object(
        object! { "partitionKey" => key.to_json(), "sizeInKB" => bytes.div_ceil(1024) },
    ))
}

fn damaged() -> Error {
    Error::internal("a row in natural order leads to no item")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Id, WriteOperation, WriteOptions};
    use crate::{Engine, EngineOptions};
    use orrery_model::world::SeededWorld;
    use orrery_script::{HostCommand, PoolOptions};
    use orrery_storage::MemoryStore;
    use std::sync::Arc;

    /// Creates an engine with a database, which never runs scripts.
    fn engine() -> Engine {
        let command = HostCommand {
            program: "no-such-program".into(),
            arguments: Vec::new(),
        };
        let options = EngineOptions::new(PoolOptions::new(command));
        let world = Arc::new(SeededWorld::new(1_767_225_600_000, 1));
        let engine =
            Engine::open(Arc::new(MemoryStore::new()), options, world).expect("the engine opens");
        engine
            .create_database(&object! { "id" => "db" }, None)
            .result
            .expect("a database");
        engine
    }

    #[test]
    fn large_logical_partitions_are_named_the_largest_first() {
        let engine = engine();
        let database = engine.database(Id::Name("db")).expect("the database");
        let key = object! { "paths" => vec![Json::from("/pk")], "kind" => "Hash", "version" => 2 };
        let body = object! { "id" => "c", "partitionKey" => key };
        engine
            .create_container(&database, &body, None)
            .result
            .expect("a container");
        let container = engine
            .container(Id::Name("db"), Id::Name("c"))
            .expect("the container");
        for (pk, items) in [("\"many\"", 9), ("null", 6), ("\"few\"", 2)] {
            for n in 0..items {
                let item = format!("{{\"id\":\"i{n}\",\"pk\":{pk}}}");
                let options = WriteOptions::default();
                let written = engine.write_item(
                    &container,
                    &WriteOperation::Create,
                    Some(item.as_bytes()),
                    &options,
                );
                written.wait().result.expect("written");
            }
        }
        let partition = &container.partitions()[0];
        let bytes = container.counters().expect("counted").bytes;
        let item_bytes = bytes / 17;
        let keys = |large_bytes: u64| -> Vec<String> {
            let statistics = of_partition(&container, partition, large_bytes).expect("statistics");
            let large = statistics
                .get("partitionKeys")
                .and_then(Json::as_array)
                .expect("a list");
            large
                .iter()
                .map(|entry| {
                    entry
                        .get("partitionKey")
                        .map(Json::to_text)
                        .unwrap_or_default()
                })
                .collect()
        };
        assert_eq!(keys(5 * item_bytes), [r#"["many"]"#, "[null]"]);
        assert_eq!(keys(8 * item_bytes), [r#"["many"]"#]);
        assert!(keys(bytes + 1).is_empty());
    }
}
