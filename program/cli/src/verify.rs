//! `orrery verify`: reads every row of a data directory, or of a running server, and lists what is
//! not as it must be.
//!
//! The list goes to standard output, as a text or as JSON; the progress goes to standard error if
//! that is a terminal. The exit code tells whether something was found.

use crate::backup::{ServerOf, run_job, server_of};
use crate::command::VerifyArguments;
use crate::management::print;
use crate::repair;
use orrery_admin::verification_json;
use orrery_engine::request::Id;
use orrery_engine::{Check, Engine, Finding, FindingPlace, Verification};
use orrery_model::Json;
use orrery_server::data_dir::{self, SERVER};
use orrery_server::engine::store_folder;
use orrery_server::{Failure, private_file};
use orrery_storage::{FileFault, LocalStore};
use orrery_tools::manage::{list_of, text};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::path::Path;

/// Verifies the data that the arguments name.
///
/// # Errors
/// [`Failure::Data`] if something was found or the data cannot be opened; [`Failure::Failed`] if
/// the verification did not end.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<(), Failure> {
    let directory = data_dir::locate(arguments.management.data_dir.as_deref(), SERVER)?;
    let folder = store_folder(&directory);
    let server = server_of(arguments.online, &arguments.management, &folder);
    let found = match &server {
        Some(server) => of_server(arguments, server)?,
        None => of_directory(arguments, &folder)?,
    };
    let text = match arguments.management.json {
        true => format!("{found:#}\n"),
        false => report(&found),
    };
    print(&text)?;
    match found["status"].as_str() {
        Some("done") if found["found"] == 0 => Ok(()),
        Some("done") => Err(Failure::Data(advice(&found, server.is_some()))),
        Some("failed") => Err(Failure::Failed(self::text(&found, "failure").to_owned())),
        _ => Err(Failure::Failed("the verification was cancelled".to_owned())),
    }
}

/// Verifies a data directory that no server uses.
fn of_directory(arguments: &VerifyArguments, folder: &Path) -> Result<Value, Failure> {
    private_file::restrict_new_files();
    repair::refuse_missing(folder)?;
    match LocalStore::examine(folder) {
        Ok(None) => {}
        Ok(Some(loss)) => {
            let advice = "'orrery repair' says which commits are lost";
            return Err(Failure::Data(format!("{}; {advice}", loss.problem)));
        }
        Err(error) => return Err(Failure::Data(error.to_string())),
    }
    let faults = LocalStore::file_faults(folder);
    let faults = faults.map_err(|error| Failure::Data(error.to_string()))?;
    let mut found = Verification {
        is_complete: true,
        ..Verification::default()
    };
    // A file that is not as written may lead to nothing: opening the data might lose its rest.
    if faults.iter().all(|fault| fault.is_harmless) {
        let engine = repair::open(folder, false)?;
        repair::wait_for_check(&engine);
        let only = (arguments.database.as_deref()).zip(arguments.container.as_deref());
        found = verified(&engine, only)?;
        repair::close(&engine)?;
    }
    for fault in faults {
        found.progress.findings += 1;
        found.findings.push(finding_of(fault));
    }
    Ok(value_of(&found))
}

/// Returns the finding for a file that is not as written.
fn finding_of(fault: FileFault) -> Finding {
    let detail = match fault.is_harmless {
        true => format!("{}; the file is written anew by now", fault.detail),
        false => fault.detail,
    };
    Finding {
        check: Check::File,
        place: FindingPlace::Store,
        key: fault.file.display().to_string(),
        item: None,
        detail,
        can_be_rebuilt: fault.is_harmless,
    }
}

/// Returns the JSON of a result.
fn value_of(found: &Verification) -> Value {
    let text = Json::Object(verification_json(found)).to_text();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Verifies the data of an engine, or one container of it, and shows the progress.
pub(crate) fn verified(
    engine: &Engine,
    only: Option<(&str, &str)>,
) -> Result<Verification, Failure> {
    let container = match only {
        None => None,
        Some((database, container)) => {
            let found = engine.container(Id::Name(database), Id::Name(container));
            let missing = format!("there is no container dbs/{database}/colls/{container}");
            Some(found.map_err(|_| Failure::Usage(missing))?)
        }
    };
    let mut stderr = io::stderr();
    let shows_progress = stderr.is_terminal();
    let found = engine.verify(container.as_deref(), &mut |progress| {
        if shows_progress {
            let (done, all) = (progress.partitions_done, progress.partitions);
            let megabytes = progress.bytes >> 20;
            // If standard error is closed, the result tells enough.
            let _ = write!(
                stderr,
                "\rverifying: {done} of {all} partitions, {megabytes} MB \x1b[K"
            );
        }
        true
    });
    if shows_progress {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    found.map_err(|error| Failure::Data(format!("cannot read the data: {}", error.operator_text())))
}

/// Has a server verify its data, and waits for the end.
fn of_server(arguments: &VerifyArguments, server: &ServerOf) -> Result<Value, Failure> {
    let mut body = json!({});
    for (name, value) in [
        ("database", arguments.database.clone().map(Value::from)),
        ("container", arguments.container.clone().map(Value::from)),
        (
            "bytesPerSecond",
            arguments.bytes_per_second.map(Value::from),
        ),
    ] {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    let found = run_job(&arguments.management, "/verification", &body, |_| {});
    found.map_err(|failure| server.explained(failure))
}

/// Describes the result for a person.
fn report(found: &Value) -> String {
    let mut text = String::new();
    let mut place = None;
    for finding in list_of(found, "findings") {
        let of_finding = self::text(&finding, "place").to_owned();
        if place.as_ref() != Some(&of_finding) {
            let _ = writeln!(text, "{of_finding}");
            place = Some(of_finding);
        }
        let item = match self::text(&finding, "item") {
            "" => String::new(),
            item => format!(" (item '{item}')"),
        };
        let (check, detail) = (
            self::text(&finding, "check"),
            self::text(&finding, "detail"),
        );
        let _ = writeln!(text, "  {check}: {detail}{item}");
        let key = self::text(&finding, "key");
        if !key.is_empty() {
            let _ = writeln!(text, "    {key}");
        }
    }
    let named = list_of(found, "findings").len() as u64;
    let count = |name: &str| found[name].as_u64().unwrap_or(0);
    if count("found") > named {
        let _ = writeln!(text, "and {} further differences", count("found") - named);
    }
    let result = match count("found") {
        0 => "nothing was found".to_owned(),
        1 => "1 difference".to_owned(),
        many => format!("{many} differences"),
    };
    let _ = writeln!(
        text,
        "Read {} partitions with {} items, {} rows and {} bytes: {result}.",
        count("partitionsDone"),
        count("items"),
        count("rows"),
        count("bytes"),
    );
    text
}

/// Returns what to do about differences.
fn advice(found: &Value, is_online: bool) -> String {
    let findings = list_of(found, "findings");
    let mended = findings
        .iter()
        .filter(|one| one["canBeRebuilt"] == "yes")
        .count();
    let stop = match is_online {
        true => "stop the server and run ",
        false => "run ",
    };
    let rebuild = match mended {
        0 => String::new(),
        _ => format!(
            "; to make anew what follows from the items, {stop}'orrery repair --rebuild-index'"
        ),
    };
    let restore = match mended < findings.len() {
        true => "; restore a backup for what follows from nothing else",
        false => "",
    };
    format!("the data is not as it must be{rebuild}{restore}")
}
