//! `orrery repair --rebuild-index`: partitions whose rows are not those that follow from their
//! items get these rows anew.

use super::{close, open, wait_for_check};
use crate::management::print;
use crate::verify::verified;
use orrery_engine::request::Id;
use orrery_engine::{Engine, FindingPlace, Verification};
use orrery_server::Failure;
use orrery_server::engine::store_folder;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// A physical partition: database, container, and partition key range id.
type Place = (String, String, u32);

/// Verifies the data, makes the partitions anew that have differences, and verifies again.
///
/// # Errors
/// [`Failure::Data`] if differences are left.
pub(super) fn run(directory: &Path) -> Result<(), Failure> {
    let engine = open(&store_folder(directory), false)?;
    wait_for_check(&engine);
    let before = verified(&engine, None)?;
    if before.progress.findings == 0 {
        close(&engine)?;
        return print("Every row is as it must be: nothing to rebuild.\n");
    }
    let mut text = String::new();
    let mut found = before;
    let mut tried: BTreeSet<Place> = BTreeSet::new();
    // A verification names a part of many differences, so the next one may name further partitions.
    loop {
        let places = places(&engine, &found);
        let new: Vec<Place> = places.difference(&tried).cloned().collect();
        if new.is_empty() {
            break;
        }
        for place in new {
            let _ = writeln!(text, "  {}", rebuild(&engine, &place));
            tried.insert(place);
        }
        // The old rows go first, and with them the damaged blocks that hold them.
        let destroyed = engine.destroy_deleted();
        destroyed.map_err(|error| Failure::Data(format!("cannot remove the old rows: {error}")))?;
        found = verified(&engine, None)?;
    }
    close(&engine)?;
    print(&format!("Rebuilt partitions:\n{text}"))?;
    match found.progress.findings {
        0 => print("Every row is as it must be now.\n"),
        left => Err(Failure::Data(format!(
            "{left} differences are left; 'orrery verify --data-dir {}' lists them. Restore a \
             backup for what follows from nothing else",
            directory.display()
        ))),
    }
}

/// Returns the partitions with differences that a rebuild mends, and those with damaged blocks.
fn places(engine: &Engine, found: &Verification) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    for finding in found
        .findings
        .iter()
        .filter(|finding| finding.can_be_rebuilt)
    {
        if let FindingPlace::Partition {
            database,
            container,
            range_id,
        } = &finding.place
        {
            places.insert((database.clone(), container.clone(), *range_id));
        }
    }
    for block in engine.damaged_blocks() {
        for of_block in block.partitions {
            places.insert((of_block.database, of_block.container, of_block.range_id));
        }
    }
    places
}

/// Rebuilds a partition. Returns the result in words.
fn rebuild(engine: &Engine, (database, container, range_id): &Place) -> String {
    let path = format!("dbs/{database}/colls/{container}/pkranges/{range_id}");
    let container = engine.container(Id::Name(database), Id::Name(container));
    let rebuilt = container.and_then(|container| engine.rebuild_partition(&container, *range_id));
    match rebuilt {
        Ok((items, new_id)) => format!("{path}: {items} items, now pkranges/{new_id}"),
        Err(error) => format!("{path}: not rebuilt: {}", error.operator_text()),
    }
}
