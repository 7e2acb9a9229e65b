//! The check of the catalog against the partitions of the store: the ranges of each container, and
//! the key spaces that no container uses.

use super::findings::{Check, Finding, FindingPlace, Findings, Watch};
use crate::Engine;
use crate::catalog::{Container, orphans, storage_ids};
use crate::errors::storage_failure;
use crate::operator::DamagedPartition;
use crate::partition::keys::{self, CATALOG_PARTITION};
use orrery_model::Result;
use orrery_model::partition_key::Epk;
use orrery_storage::{Direction, PartitionId, Snapshot};
use std::collections::HashMap;
use std::ops::Bound;

/// Checks that the ranges of a container cover the hash space without overlap.
pub(super) fn check_ranges(container: &Container, findings: &mut Findings) {
    let mut add = |detail: String| {
        let place = FindingPlace::Container {
            database: container.database_id().to_owned(),
            container: container.id().to_owned(),
        };
        findings.add(finding(Check::Ranges, place, String::new(), detail));
    };
    let mut end = Epk::min();
    for partition in container.partitions().iter() {
        let range = &partition.range;
        if range.min != end {
            add(format!(
                "the partition key range {} begins at {}, and the one before ends at {end}",
                partition.id, range.min
            ));
        }
        end = range.max.clone();
    }
    if end != Epk::max() {
        add(format!(
            "the last partition key range ends at {end}, before the end of the hashes"
        ));
    }
}

impl Engine {
    /// Checks that each key space of the store belongs to one container, one snapshot, the catalog
    /// or nothing any more, and reads the key spaces of snapshots.
    pub(super) fn check_key_spaces(
        &self,
        findings: &mut Findings,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        // No container comes or goes meanwhile.
        let (used, orphans, present) = self.catalog().while_unchanged(|| {
            let used = storage_ids(&*self.store)?;
            let orphans = orphans(&*self.store)?;
            let present = self.store.partitions().map_err(storage_failure)?;
            Ok((used, orphans, present))
        })?;
        for id in present.unwrap_or_default() {
            if !used.contains(&id) && !orphans.contains(&id) {
                let detail = format!("no container uses the partition {id} of the store");
                let place = FindingPlace::Store;
                findings.add(finding(Check::KeySpaces, place, String::new(), detail));
            }
        }

        let mut users: HashMap<PartitionId, String> = HashMap::new();
        for container in self.every_container() {
            for partition in container.partitions().iter() {
                let user = FindingPlace::of(&container, partition).to_string();
                if let Some(other) = users.insert(partition.storage_id, user.clone()) {
                    let id = partition.storage_id;
                    let detail = format!("{user} and {other} use the partition {id} of the store");
                    let place = FindingPlace::Store;
                    findings.add(finding(Check::KeySpaces, place, String::new(), detail));
                }
            }
        }
        let of_snapshots = used.iter().filter(|id| !users.contains_key(*id));
        for id in of_snapshots {
            self.read_key_space(*id, findings, watch);
        }
        Ok(())
    }

    /// Reads the rows of the catalog or of a partition of a snapshot.
    fn read_key_space(&self, id: PartitionId, findings: &mut Findings, watch: &mut Watch<'_>) {
        let what = match id {
            CATALOG_PARTITION => "of the catalog".to_owned(),
            _ => format!("of partition {id} of the store, a copy in a snapshot,"),
        };
        let before = findings.count();
        let mut add = |check, key: &[u8], detail: String| {
            let key = key.iter().map(|byte| format!("{byte:02X}")).collect();
            findings.add(finding(check, FindingPlace::Store, key, detail));
        };
        let snapshot = match self.store.snapshot(id) {
            Ok(snapshot) => snapshot,
            Err(error) => return add(Check::Unreadable, &[], format!("the rows {what}: {error}")),
        };
        for row in rows_of(snapshot.as_ref()) {
            match row {
                Ok((key, value)) => {
                    if id != CATALOG_PARTITION && keys::kept(&key).is_none() {
                        add(
                            Check::UnknownRow,
                            &key,
                            format!("a row {what} has an unknown key"),
                        );
                    }
                    if !watch.read(1, (key.len() + value.len()) as u64, before) {
                        return;
                    }
                }
                Err(error) => {
                    return add(Check::Unreadable, &[], format!("the rows {what}: {error}"));
                }
            }
        }
    }

    /// Adds the damaged blocks that the store knows, of one container or of all data. A rebuild
    /// mends those of partitions whose items can be read.
    pub(super) fn add_damaged_blocks(&self, only: Option<&Container>, findings: &mut Findings) {
        for block in self.damaged_blocks() {
            let is_of = |container: &Container| {
                let of_container = |one: &DamagedPartition| {
                    one.database == container.database_id() && one.container == container.id()
                };
                block.partitions.iter().any(of_container)
            };
            if only.is_some_and(|container| !is_of(container)) {
                continue;
            }
            let paths = block.partition_paths();
            let can_be_rebuilt =
                !paths.is_empty() && paths.iter().all(|path| findings.can_be_rebuilt(path));
            let partitions = match paths.is_empty() {
                true => String::new(),
                false => format!(" of {}", paths.join(", ")),
            };
            let detail = format!(
                "byte {}: {}; {}{partitions}",
                block.offset,
                block.fault,
                block.contents.name()
            );
            findings.add(Finding {
                can_be_rebuilt,
                ..finding(Check::Block, FindingPlace::Store, block.file, detail)
            });
        }
    }
}

fn rows_of(snapshot: &dyn Snapshot) -> orrery_storage::Rows<'_> {
    snapshot.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward)
}

/// Creates a finding that a rebuild of a partition does not mend.
fn finding(check: Check, place: FindingPlace, key: String, detail: String) -> Finding {
    Finding {
        check,
        place,
        key,
        item: None,
        detail,
        can_be_rebuilt: false,
    }
}
