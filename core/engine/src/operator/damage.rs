//! Damaged blocks of the store with the containers and partitions that they belong to.

use crate::Engine;
use orrery_storage::{Damage, DamagedContents, PartitionId, ScrubProgress};
use std::sync::Arc;

/// A damaged block of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// The path of the file.
    pub file: String,
    /// Offset of the block in the file, in bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub bytes: u64,
    /// The fault of the block.
    pub fault: String,
    /// The former contents of the block.
    pub contents: DamagedBlockContents,
    /// The physical partitions that take no writes because of the damage.
    pub partitions: Vec<DamagedPartition>,
}

/// The former contents of a damaged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedBlockContents {
    /// Items, or rows that belong to them.
    Items,
    /// Index entries.
    Index,
    /// Databases, containers and their settings.
    Catalog,
    /// The index, filter or metadata of a file; nothing is lost.
    Auxiliary,
    /// Nothing that is needed, or records that were written anew; nothing is lost.
    Restored,
}

impl DamagedBlockContents {
    /// Returns the word for the operator.
    pub fn name(self) -> &'static str {
        match self {
            DamagedBlockContents::Items => "items",
            DamagedBlockContents::Index => "index entries",
            DamagedBlockContents::Catalog => "catalog",
            DamagedBlockContents::Auxiliary => "file structure",
            DamagedBlockContents::Restored => "nothing lost",
        }
    }
}

/// A physical partition that takes no writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPartition {
    /// The id of the database.
    pub database: String,
    /// The id of the container.
    pub container: String,
    /// The partition key range id that clients see.
    pub range_id: u32,
}

impl DamagedBlock {
    /// Returns the partitions as text, as in `dbs/shop/colls/orders/pkranges/3`.
    pub fn partition_paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for partition in &self.partitions {
            paths.push(format!(
                "dbs/{}/colls/{}/pkranges/{}",
                partition.database, partition.container, partition.range_id
            ));
        }
        paths
    }
}

impl Engine {
    /// Returns the damaged blocks of the store.
    pub fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        let damage = self.store.damage();
        damage.iter().map(|damage| self.describe(damage)).collect()
    }

    /// Returns the number of damaged blocks of the store.
    pub fn damaged_block_count(&self) -> usize {
        self.store.damage().len()
    }

    /// Passes each damaged block to `report`: the known ones now, others when they are found.
    pub fn report_damage(self: &Arc<Self>, report: impl Fn(&DamagedBlock) + Send + Sync + 'static) {
        // The store belongs to the engine, so it must not keep the engine alive.
        let engine = Arc::downgrade(self);
        self.store.report_damage(Box::new(move |damage| {
            if let Some(engine) = engine.upgrade() {
                report(&engine.describe(damage));
            }
        }));
    }

    /// Returns the progress of the regular check of all blocks, if the store has one.
    pub fn scrub_progress(&self) -> Option<ScrubProgress> {
        self.store.scrub_progress()
    }

    /// Adds names to the damage of a block.
    fn describe(&self, damage: &Damage) -> DamagedBlock {
        let storage_ids = damage.partitions();
        let mut partitions = Vec::new();
        for container in self.every_container() {
            for partition in container.partitions().iter() {
                if storage_ids.contains(&partition.storage_id) {
                    partitions.push(DamagedPartition {
                        database: container.database_id().to_owned(),
                        container: container.id().to_owned(),
                        range_id: partition.id,
                    });
                }
            }
        }
        let contents = match &damage.contents {
            DamagedContents::Auxiliary => DamagedBlockContents::Auxiliary,
            DamagedContents::Restored => DamagedBlockContents::Restored,
            DamagedContents::Keys { .. } if storage_ids.contains(&PartitionId(0)) => {
                DamagedBlockContents::Catalog
            }
            DamagedContents::Keys { is_index: true, .. } => DamagedBlockContents::Index,
            DamagedContents::Keys { .. } => DamagedBlockContents::Items,
        };
        DamagedBlock {
            file: damage.file.display().to_string(),
            offset: damage.offset,
            bytes: damage.bytes,
            fault: damage.fault.clone(),
            contents,
            partitions,
        }
    }
}
