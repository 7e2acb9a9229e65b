//! Backups of the data directory, taken while the server serves.

use crate::call::{Answer, Call};
use crate::jobs::{BEGAN, ENDED, Job, STATUS};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_backup::{CreateOptions, Progress, Summary, check_address, create, is_remote};
use orrery_engine::Engine;
use orrery_model::world::World;
use orrery_model::{Json, Object, object};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Bytes a second that a backup copies if the request names no rate.
const RATE_DEFAULT: u64 = 32 << 20;
/// The word for a job in messages.
const KIND: &str = "backup";

/// Body of [`start`].
pub(crate) const START: Schema = Schema {
    name: "BackupStart",
    members: &[
        required(
            "target",
            ValueType::Text,
            "absolute path on the machine of the server: a folder with backups, which is created \
             if it is missing, or a new file that ends with .tar.zst",
        ),
        optional(
            "bytesPerSecond",
            COUNT,
            "most bytes to copy in a second; 33554432 if absent, 0 for no limit",
        ),
    ],
};

/// Response of all routes of this file.
pub(crate) const BACKUP: Schema = Schema {
    name: "Backup",
    members: &[
        required("status", STATUS, "state of the backup"),
        optional("failure", ValueType::Text, "reason of a failure"),
        optional("id", ValueType::Text, "id of the backup, once it is done"),
        required("files", COUNT, "files to copy, or those of the backup"),
        required("bytes", COUNT, "bytes of these files"),
        required("filesDone", COUNT, "files that are finished"),
        required("bytesDone", COUNT, "bytes that are finished"),
        optional(
            "newFiles",
            COUNT,
            "files that the target did not have before, once the backup is done",
        ),
        optional("newBytes", COUNT, "bytes of these files"),
        BEGAN,
        ENDED,
    ],
};

/// The result of a backup that was not cancelled.
pub(crate) type Made = Option<Summary>;

/// Starts a backup, which goes on after the response.
pub(crate) fn start(call: &Call) -> Result<Answer, Problem> {
    let target = call.arguments.get("target").and_then(Json::as_str);
    let target = PathBuf::from(target.unwrap_or_default());
    let has_parents = target.components().any(|part| part == Component::ParentDir);
    if !(target.is_absolute() || is_remote(&target)) || has_parents {
        let message = "target: the path must be absolute and without '..', as the server sees it, \
                       or s3://BUCKET/PREFIX";
        return Err(Problem::bad_request(message));
    }
    check_address(&target).map_err(|error| Problem::bad_request(format!("target: {error}")))?;
    if let Some(directory) = &call.components.data_dir
        && is_inside(&target, directory)
    {
        let message = "target: a backup inside of the data directory would be lost with it";
        return Err(Problem::bad_request(message));
    }
    let rate = call.arguments.get("bytesPerSecond").and_then(Json::as_i64);
    let bytes_per_second = rate.map_or(RATE_DEFAULT, i64::unsigned_abs);
    let engine = Arc::clone(&call.components.engine);
    let (clock, time) = (
        Arc::clone(&call.components.clock),
        Arc::clone(&call.components.clock),
    );
    let job = call.components.jobs.backup.start(
        KIND,
        move || clock.now_ms(),
        move |report| {
            // Backups are ordered by the real time, whatever the time of the data is.
            let now_ms = time.now_ms().saturating_sub(time.ahead_seconds() * 1_000);
            let options = CreateOptions {
                about: about(&engine),
                bytes_per_second,
                is_cancelled: Some(report.cancel_flag()),
                ..CreateOptions::new(now_ms, env!("CARGO_PKG_VERSION"))
            };
            let made = create(&**engine.store(), &target, &options, &mut |progress| {
                report.progress(progress.clone());
            });
            match made {
                Ok(summary) => Ok(Some(summary)),
                Err(orrery_backup::BackupError::Cancelled) => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        },
    )?;
    Answer::json(202, job_json(&job))
}

/// Returns the backup that runs, or the last one.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    Answer::json(200, job_json(&call.components.jobs.backup.job(KIND)?))
}

/// Ends the backup that runs. What was copied stays in the target for the next one.
pub(crate) fn cancel(call: &Call) -> Result<Answer, Problem> {
    Answer::json(200, job_json(&call.components.jobs.backup.cancel(KIND)?))
}

/// Returns true if a path, which need not exist, lies in a directory.
pub fn is_inside(path: &Path, directory: &Path) -> bool {
    // Links are followed as far as the path exists.
    let Ok(directory) = directory.canonicalize() else {
        return false;
    };
    let existing = path.ancestors().find_map(|one| one.canonicalize().ok());
    existing.is_some_and(|existing| existing.starts_with(directory))
}

/// Describes the data for a person who looks for a backup: each container with its items.
pub fn about(engine: &Engine) -> Json {
    let mut containers = Vec::new();
    for container in engine.every_container() {
        let mut described = object! {
            "database" => container.database_id(),
            "container" => container.id(),
        };
        // A container that cannot be counted is in the backup all the same.
        if let Ok(counters) = container.counters() {
            described.push_new("items", counters.items);
        }
        containers.push(Json::Object(described));
    }
    Json::Object(object! {
        "databases" => engine.database_count() as u64,
        "containers" => containers,
        "damagedBlocks" => engine.damaged_block_count() as u64,
    })
}

fn job_json(job: &Job<Progress, Made>) -> Object {
    let status = match &job.result {
        None => "running",
        Some(Ok(Some(_))) => "done",
        Some(Ok(None)) => "cancelled",
        Some(Err(_)) => "failed",
    };
    let mut json = object! { "status" => status };
    if let Some(Err(failure)) = &job.result {
        json.push_new("failure", failure.as_str());
    }
    let progress = &job.progress;
    match &job.result {
        Some(Ok(Some(summary))) => push_summary(&mut json, summary),
        _ => {
            for (name, value) in [
                ("files", progress.files_total),
                ("bytes", progress.bytes_total),
                ("filesDone", progress.files_done),
                ("bytesDone", progress.bytes_done),
            ] {
                json.push_new(name, value);
            }
        }
    }
    job.push_times(&mut json);
    json
}

fn push_summary(json: &mut Object, summary: &Summary) {
    json.push_new("id", summary.id.as_str());
    for (name, value) in [
        ("files", summary.files),
        ("bytes", summary.bytes),
        ("filesDone", summary.files),
        ("bytesDone", summary.bytes),
        ("newFiles", summary.new_files),
        ("newBytes", summary.new_bytes),
    ] {
        json.push_new(name, value);
    }
}

/// Returns the result of a backup as JSON, without its times.
pub fn backup_json(summary: &Summary) -> Object {
    let mut json = object! { "status" => "done" };
    push_summary(&mut json, summary);
    json
}
