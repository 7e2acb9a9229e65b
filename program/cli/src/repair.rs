//! `orrery repair`: says which commits and blocks a damaged data directory lost, and opens the
//! directory without the commits if the user accepts the loss.
//!
//! Without `--accept-loss` a damaged log stays as it is, and a directory with a complete one is
//! opened as by a start: an unfinished write at its end is cut, and damaged blocks are recorded.
//! With `--accept-loss`, the bytes that are cut off are first copied to a new folder in the data
//! directory, together with the report that is printed. With `--clock`, a complete directory gets
//! the present time for everything that is dated later than the clock of the machine; with
//! `--rebuild-index`, everything that follows from the items is made anew where it is not as it
//! must be (`repair/rebuild.rs`).

mod rebuild;

use crate::command::RepairArguments;
use crate::management::print;
use crate::script_host;
use orrery_engine::{ClockRepair, Engine, EngineOptions, LostWrites};
use orrery_model::world::World;
use orrery_script::PoolOptions;
use orrery_server::engine::{open_on, store_folder};
use orrery_server::{Failure, SystemWorld, data_dir, private_file};
use orrery_storage::{LocalOptions, LocalStore, LogKeeping, Loss, Store};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The rate at which all blocks are checked, in bytes per second.
const CHECKED_BYTES_PER_SECOND: u64 = 1 << 30;
/// The time between two looks at the end of this check.
const CHECK_POLL: Duration = Duration::from_millis(20);
/// The largest number of ids that the report lists for a partition.
const IDS_LISTED: usize = 1_000;

/// Checks a data directory, and accepts its loss if the arguments say so.
///
/// # Errors
/// [`Failure::Data`] if the directory is damaged and the loss is not accepted, or cannot be.
pub(crate) fn run(arguments: &RepairArguments) -> Result<(), Failure> {
    private_file::restrict_new_files();
    let directory = data_dir::locate(arguments.data_dir.as_deref(), data_dir::SERVER)?;
    let folder = store_folder(&directory);
    let loss = LocalStore::examine(&folder).map_err(|error| Failure::Data(error.to_string()))?;
    let Some(loss) = loss else {
        return match (arguments.clock, arguments.rebuild_index) {
            (true, _) => repair_clock(&directory),
            (_, true) => rebuild::run(&directory),
            _ => report_tables(&directory),
        };
    };
    if !arguments.accept_loss {
        print(&report(&loss, &LostWrites::of(&loss.commits, None)))?;
        return Err(not_accepted(&directory));
    }

    let remains = new_folder(&directory);
    let cannot_keep =
        |error: io::Error| Failure::Data(format!("cannot write to {}: {error}", remains.display()));
    loss.keep_remains(&folder, &remains)
        .map_err(|error| Failure::Data(error.to_string()))?;
    let engine = open(&folder, true)?;
    let report = report(&loss, &LostWrites::of(&loss.commits, Some(&engine)));
    std::fs::write(remains.join("report.txt"), &report).map_err(cannot_keep)?;
    close(&engine)?;
    print(&format!(
        "{report}\nThe loss is accepted: the server starts again with the commits before it. The \
         cut bytes and this\nreport are in {}.\n",
        remains.display()
    ))
}

/// Dates now what is dated later than the clock, and prints how much that was.
fn repair_clock(directory: &Path) -> Result<(), Failure> {
    let engine = open(&store_folder(directory), false)?;
    if engine.has_unset_clock() {
        close(&engine)?;
        return Err(Failure::Data(
            "the clock of this machine shows a time before 2025, so it was never set; nothing is \
             changed. Set the clock, and run the command again"
                .to_owned(),
        ));
    }
    let repaired = engine.repair_clock();
    let repaired = repaired.map_err(|error| {
        Failure::Data(format!(
            "the times are repaired in part: {error}. Run the command again"
        ))
    })?;
    close(&engine)?;
    let ClockRepair {
        resources,
        items,
        versions,
    } = repaired;
    if resources + items + versions == 0 {
        return print("No time in the data is later than the clock: nothing to repair.\n");
    }
    print(&format!(
        "Dated now, because the time was later than the clock: {items} items, {versions} kept \
         versions of items,\n{resources} databases, containers and other resources. The items \
         have a new _ts and _etag, appear in change\nfeeds, and live for their time to live from \
         now on.\n"
    ))
}

/// Reports the damaged blocks of a directory whose journals are complete. Their loss cannot be
/// accepted: without index entries, queries would miss items that exist.
fn report_tables(directory: &Path) -> Result<(), Failure> {
    let engine = open(&store_folder(directory), false)?;
    wait_for_check(&engine);
    let mut text = String::new();
    for block in engine.damaged_blocks() {
        let partitions = block.partition_paths();
        if !partitions.is_empty() {
            let _ = writeln!(
                text,
                "  {}, byte {}: {}; {} of {}",
                block.file,
                block.offset,
                block.fault,
                block.contents.name(),
                partitions.join(", ")
            );
        }
    }
    close(&engine)?;
    if text.is_empty() {
        return print(&format!(
            "The data directory {} is complete: nothing to repair.\n",
            directory.display()
        ));
    }
    print(&format!("Damaged blocks:\n{text}"))?;
    Err(Failure::Data(format!(
        "the partitions named above are read-only. Make anew what follows from their items:\n  \
         orrery repair --data-dir {0} --rebuild-index\nor restore a backup of {0}, or start the \
         server, copy the items that can be read to a\nnew container, and delete the damaged one",
        directory.display()
    )))
}

/// Refuses a folder in which no store was created: opening it would create one.
pub(crate) fn refuse_missing(folder: &Path) -> Result<(), Failure> {
    let failed = |error: orrery_storage::StoreError| Failure::Data(error.to_string());
    match folder.is_dir() && LocalStore::is_created(folder).map_err(failed)? {
        true => Ok(()),
        false => Err(Failure::Data(format!(
            "there is no data in {}: name the data directory with --data-dir",
            folder.display()
        ))),
    }
}

/// Creates the failure of a repair that describes a loss and changes nothing.
fn not_accepted(directory: &Path) -> Failure {
    Failure::Data(format!(
        "restore a backup of {0}, or go on with what is left:\n  \
         orrery repair --data-dir {0} --accept-loss",
        directory.display()
    ))
}

pub(crate) fn close(engine: &Engine) -> Result<(), Failure> {
    let closed = engine.shut_down();
    closed.map_err(|error| Failure::Data(format!("cannot close the data: {error}")))
}

/// Waits until all blocks have been checked.
pub(crate) fn wait_for_check(engine: &Engine) {
    while engine
        .scrub_progress()
        .is_some_and(|progress| progress.passes == 0)
    {
        #[expect(clippy::disallowed_methods, reason = "the check announces no end")]
        std::thread::sleep(CHECK_POLL);
    }
}

/// Opens the engine on the store in `folder`, for the names of its containers and the check of its
/// blocks.
pub(crate) fn open(folder: &Path, accept_loss: bool) -> Result<Arc<Engine>, Failure> {
    let options = LocalOptions {
        accept_loss,
        scrub_bytes_per_second: CHECKED_BYTES_PER_SECOND,
        // A look at the data leaves no gap in a continuous backup.
        log: LogKeeping::AsBefore(now_second),
        ..LocalOptions::default()
    };
    let store = LocalStore::open(folder, options);
    let store: Arc<dyn Store> = Arc::new(store.map_err(|error| Failure::Data(error.to_string()))?);
    let options = EngineOptions::new(PoolOptions::new(script_host::command()?));
    open_on(store, options, Arc::new(SystemWorld::new()))
}

fn now_second() -> u64 {
    SystemWorld::new().now_ms() / 1_000
}

/// Returns the first name `lost-N` that is free in a directory.
fn new_folder(directory: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let folder = directory.join(format!("lost-{number}"));
        if !folder.exists() {
            return folder;
        }
        number += 1;
    }
}

/// Describes a loss for the user.
fn report(loss: &Loss, writes: &[LostWrites]) -> String {
    let mut text = format!("{}\n\n", loss.problem);
    let first = loss.last_group + 1;
    let lost = match loss.acknowledged_group {
        Some(last) if last >= first => {
            format!(
                "Lost group commits: {first} to {last} ({}).",
                last + 1 - first
            )
        }
        Some(_) => "No acknowledged group commit is lost.".to_owned(),
        None => format!("Lost group commits: from {first} on; their number is not known."),
    };
    let _ = writeln!(
        text,
        "{lost}\nUnreadable: {} from byte {} on, {} bytes.",
        loss.journal.display(),
        loss.offset,
        loss.bytes
    );
    if writes.is_empty() {
        text.push_str("No lost commit can be read any more, so its items are not known.\n");
        return text;
    }
    text.push_str("Lost commits that can still be read; there may be others:\n");
    for of_place in writes {
        let _ = writeln!(
            text,
            "  {}: {} commits, {} items",
            of_place.place, of_place.commits, of_place.items
        );
        let listed = &of_place.ids[..of_place.ids.len().min(IDS_LISTED)];
        if !listed.is_empty() {
            let _ = writeln!(text, "    created or deleted: {}", listed.join(", "));
        }
        let omitted = of_place.ids.len() - listed.len();
        if omitted > 0 {
            let _ = writeln!(text, "    and {omitted} more");
        }
    }
    text
}
