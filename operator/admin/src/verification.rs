//! Verification: every row of the data is read and compared with what must be there, while the
//! server serves.

use crate::call::{Answer, Call};
use crate::jobs::{BEGAN, ENDED, Job, STATUS};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, YES_OR_NO, optional, required, yes_or_no};
use orrery_engine::{Engine, Finding, FindingPlace, Verification, VerifyProgress};
use orrery_model::world::World;
use orrery_model::{Json, Object, object};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes a second that a verification reads if the request names no rate.
const RATE_DEFAULT: u64 = 32 << 20;
/// The word for a job in messages.
const KIND: &str = "verification";

/// Body of [`start`].
pub(crate) const START: Schema = Schema {
    name: "VerificationStart",
    members: &[
        optional(
            "database",
            ValueType::Text,
            "id of the database of the container to read; all data if absent",
        ),
        optional(
            "container",
            ValueType::Text,
            "id of the container to read; all data if absent",
        ),
        optional(
            "bytesPerSecond",
            COUNT,
            "most bytes of rows to read in a second; 33554432 if absent, 0 for no limit",
        ),
    ],
};

/// A difference between what is stored and what must be.
const FINDING: Schema = Schema {
    name: "Finding",
    members: &[
        required("check", ValueType::Text, "the promise that is broken"),
        required(
            "place",
            ValueType::Text,
            "container or partition as a path, or the word store",
        ),
        optional("database", ValueType::Text, "id of the database"),
        optional("container", ValueType::Text, "id of the container"),
        optional("partition", ValueType::Text, "partition key range id"),
        optional(
            "key",
            ValueType::Text,
            "key of the row in hexadecimal digits, or the file of a damaged block",
        ),
        optional("item", ValueType::Text, "id of the item"),
        required("detail", ValueType::Text, "the difference in a sentence"),
        required(
            "canBeRebuilt",
            YES_OR_NO,
            "yes if orrery repair --rebuild-index mends the difference",
        ),
    ],
};

/// Response of all routes of this file.
pub(crate) const VERIFICATION: Schema = Schema {
    name: "Verification",
    members: &[
        required("status", STATUS, "state of the verification"),
        optional("failure", ValueType::Text, "reason of a failure"),
        optional("place", ValueType::Text, "partition that is being read"),
        required("partitions", COUNT, "physical partitions to read"),
        required(
            "partitionsDone",
            COUNT,
            "physical partitions that were read",
        ),
        required("items", COUNT, "items that were read"),
        required("rows", COUNT, "rows that were read"),
        required("bytes", COUNT, "bytes of rows that were read"),
        required("found", COUNT, "number of differences so far"),
        required(
            "findings",
            ValueType::ObjectList(&FINDING),
            "differences, at most 1000; empty while the verification runs",
        ),
        BEGAN,
        ENDED,
    ],
};

/// Starts a verification, which goes on after the response.
pub(crate) fn start(call: &Call) -> Result<Answer, Problem> {
    let word = |name: &str| call.arguments.get(name).and_then(Json::as_str);
    let only = match (word("database"), word("container")) {
        (None, None) => None,
        (Some(database), Some(container)) => {
            let found = call.engine().container(database.into(), container.into());
            let path = format!("dbs/{database}/colls/{container}");
            Some(found.map_err(|_| Problem::not_found(format!("there is no {path}")))?)
        }
        _ => {
            let message = "name the database and the container, or neither of them";
            return Err(Problem::bad_request(message));
        }
    };
    let rate = call.arguments.get("bytesPerSecond").and_then(Json::as_i64);
    let pace = Pace::new(rate.map_or(RATE_DEFAULT, |rate| rate.unsigned_abs()));
    let engine = Arc::clone(&call.components.engine);
    let clock = Arc::clone(&call.components.clock);
    let job = call.components.jobs.verification.start(
        KIND,
        move || clock.now_ms(),
        move |report| {
            verify(&engine, only.as_deref(), &mut |progress| {
                report.pause(pace.early(progress.bytes));
                report.progress(progress.clone())
            })
        },
    )?;
    Answer::json(202, job_json(&job))
}

/// Returns the verification that runs, or the last one.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    Answer::json(200, job_json(&call.components.jobs.verification.job(KIND)?))
}

/// Ends the verification that runs.
pub(crate) fn cancel(call: &Call) -> Result<Answer, Problem> {
    let job = call.components.jobs.verification.cancel(KIND)?;
    Answer::json(200, job_json(&job))
}

/// Runs a verification. It ends when the store stops writing: the store cannot be opened again
/// while a verification reads it.
fn verify(
    engine: &Engine,
    only: Option<&orrery_engine::Container>,
    watch: &mut dyn FnMut(&VerifyProgress) -> bool,
) -> Result<Verification, String> {
    let mut failure = None;
    let found = engine.verify(only, &mut |progress| {
        failure = engine.write_failure();
        failure.is_none() && watch(progress)
    });
    let found = found.map_err(|error| error.operator_text())?;
    match failure {
        Some(failure) => Err(format!("the verification ended before its end: {failure}")),
        None => Ok(found),
    }
}

/// The pace of a job that reads at most so many bytes in a second.
struct Pace {
    bytes_per_second: u64,
    began: Instant,
}

impl Pace {
    /// Begins a job; 0 is no limit.
    fn new(bytes_per_second: u64) -> Self {
        Pace {
            bytes_per_second,
            began: Instant::now(),
        }
    }

    /// Returns the time until so many bytes may have been read.
    fn early(&self, bytes: u64) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        due.saturating_sub(self.began.elapsed())
    }
}

fn job_json(job: &Job<VerifyProgress, Verification>) -> Object {
    let nothing = Verification::default();
    let (status, found, failure) = match &job.result {
        None => ("running", &nothing, None),
        Some(Ok(found)) if found.is_complete => ("done", found, None),
        Some(Ok(found)) => ("cancelled", found, None),
        Some(Err(failure)) => ("failed", &nothing, Some(failure)),
    };
    let is_over = job.result.is_some() && failure.is_none();
    let progress = match is_over {
        true => &found.progress,
        false => &job.progress,
    };
    let mut json = object! { "status" => status };
    if let Some(failure) = failure {
        json.push_new("failure", failure.as_str());
    }
    if job.result.is_none() && progress.partitions > 0 {
        json.push_new("place", progress.place.to_string());
    }
    push_found(&mut json, progress, &found.findings);
    job.push_times(&mut json);
    json
}

/// Returns the result of a verification as JSON, without its times.
pub fn verification_json(found: &Verification) -> Object {
    let status = match found.is_complete {
        true => "done",
        false => "cancelled",
    };
    let mut json = object! { "status" => status };
    push_found(&mut json, &found.progress, &found.findings);
    json
}

fn push_found(json: &mut Object, progress: &VerifyProgress, findings: &[Finding]) {
    for (name, value) in [
        ("partitions", progress.partitions),
        ("partitionsDone", progress.partitions_done),
        ("items", progress.items),
        ("rows", progress.rows),
        ("bytes", progress.bytes),
        ("found", progress.findings),
    ] {
        json.push_new(name, value);
    }
    let findings: Vec<Json> = findings
        .iter()
        .map(|one| finding_json(one).into())
        .collect();
    json.push_new("findings", findings);
}

fn finding_json(finding: &Finding) -> Object {
    let mut json = object! {
        "check" => finding.check.name(),
        "place" => finding.place.to_string(),
    };
    match &finding.place {
        FindingPlace::Store => {}
        FindingPlace::Container {
            database,
            container,
        } => {
            json.push_new("database", database.as_str());
            json.push_new("container", container.as_str());
        }
        FindingPlace::Partition {
            database,
            container,
            range_id,
        } => {
            json.push_new("database", database.as_str());
            json.push_new("container", container.as_str());
            json.push_new("partition", range_id.to_string());
        }
    }
    if !finding.key.is_empty() {
        json.push_new("key", finding.key.as_str());
    }
    if let Some(item) = &finding.item {
        json.push_new("item", item.as_str());
    }
    json.push_new("detail", finding.detail.as_str());
    json.push_new("canBeRebuilt", yes_or_no(finding.can_be_rebuilt));
    json
}
