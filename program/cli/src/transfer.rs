//! `orrery import` and `orrery export`: arguments, results on standard error, exit codes.

use crate::command::{DataFormat, ExportArguments, ImportArguments, ImportMode};
use orrery_client::files::read_text;
use orrery_client::{Client, ClientError, ConnectionOptions, container_link};
use orrery_server::Failure;
use orrery_tools::connection;
use orrery_tools::transfer::{
    CsvRules, ExportOptions, ImportOptions, InputFormat, Mode, NewContainer, OutputFormat, Summary,
    TransferError, export, import, on_stderr,
};
use std::io::Write;
use std::path::Path;

/// Imports items.
///
/// # Errors
/// See [`Failure`]; refused records are a failure too.
pub(crate) fn run_import(arguments: &ImportArguments) -> Result<(), Failure> {
    let (client, _) = connection::client(&arguments.account.options()).map_err(client_failure)?;
    let options = ImportOptions {
        files: arguments.files.clone(),
        from: arguments.from.as_deref().map(origin).transpose()?,
        database: arguments.database.clone(),
        container: arguments.container.clone(),
        mode: match arguments.mode {
            ImportMode::Create => Mode::Create,
            ImportMode::Upsert => Mode::Upsert,
            ImportMode::SkipExisting => Mode::SkipExisting,
        },
        create: arguments.create_container.then(|| NewContainer {
            partition_key: arguments.partition_key.clone(),
            throughput: arguments.throughput,
        }),
        format: arguments.format.map(|format| match format {
            DataFormat::Jsonl => InputFormat::JsonLines,
            DataFormat::Json => InputFormat::Json,
            DataFormat::Csv => InputFormat::Csv,
        }),
        csv: CsvRules {
            text_columns: arguments.csv_text.clone(),
            flat: arguments.csv_flat,
        },
        allows_missing_key: arguments.allow_missing_key,
        dead_letter: arguments.dead_letter.clone(),
        checkpoint: arguments.resume.clone(),
        is_dry_run: arguments.dry_run,
        rate: arguments.rate,
        concurrency: arguments.concurrency,
        batch: arguments.batch,
    };
    let runtime = runtime()?;
    let progress = on_stderr();
    let outcome = runtime.block_on(import(&client, &options, &*progress));
    tell_import(&outcome.map_err(failure)?, arguments)
}

/// Exports items.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run_export(arguments: &ExportArguments) -> Result<(), Failure> {
    let (client, _) = connection::client(&arguments.account.options()).map_err(client_failure)?;
    let options = ExportOptions {
        database: arguments.database.clone(),
        container: arguments.container.clone(),
        output: arguments.output.clone(),
        format: arguments.format.map(|format| match format {
            DataFormat::Jsonl => OutputFormat::JsonLines,
            DataFormat::Json => OutputFormat::Json,
            DataFormat::Csv => OutputFormat::Csv,
        }),
        query: arguments.query.clone(),
        system_properties: arguments.system_properties,
        parallel: arguments.parallel,
        overwrite: arguments.overwrite,
    };
    let runtime = runtime()?;
    let progress = on_stderr();
    let outcome = runtime.block_on(export(&client, &options, &*progress));
    let summary = outcome.map_err(failure)?;
    let resumed = match summary.resumed_rows {
        0 => String::new(),
        rows => format!(", {rows} of them by an earlier run"),
    };
    tell(&format!(
        "{} items exported in {:.1} s, {:.2} RU{resumed}",
        summary.rows,
        summary.elapsed.as_secs_f64(),
        summary.charge
    ));
    Ok(())
}

/// Returns client and link of the container that a connection string names.
fn origin(text: &str) -> Result<(Client, String), Failure> {
    let string = match text.strip_prefix('@') {
        Some(file) => read_text(Path::new(file))
            .map_err(|e| Failure::Usage(format!("--from: cannot read {file}: {e}")))?,
        None => text.to_owned(),
    };
    let options = ConnectionOptions {
        connection_string: Some(string),
        ..ConnectionOptions::default()
    };
    let in_from = |e: ClientError| Failure::Usage(format!("--from: {e}"));
    let (client, connection) = connection::client(&options).map_err(in_from)?;
    let (Some(database), Some(container)) = (connection.database, connection.container) else {
        return Err(Failure::Usage(
            "--from: the connection string needs Database= and Container= too".into(),
        ));
    };
    Ok((client, container_link(&database, &container)))
}

/// Tells the result of an import, and fails if records were refused.
fn tell_import(summary: &Summary, arguments: &ImportArguments) -> Result<(), Failure> {
    let counts = summary.counts;
    if summary.was_complete {
        tell("the checkpoint says that the import is complete; delete it to import again");
    }
    let mut parts = vec![format!("{} records", counts.records)];
    let created = if arguments.dry_run {
        "valid"
    } else {
        "created"
    };
    for (count, word) in [
        (counts.created, created),
        (counts.replaced, "replaced"),
        (counts.existing, "kept as they were"),
        (counts.refused, "refused"),
        (counts.made_ids, "with a made id"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    if !arguments.dry_run && !summary.was_complete {
        let seconds = summary.elapsed.as_secs_f64().max(0.001);
        let rate = summary.records_of_run as f64 / seconds;
        parts.push(format!(
            "{seconds:.1} s, {rate:.0} records/s, {:.2} RU",
            summary.charge
        ));
        if summary.throttled > 0 {
            parts.push(format!("{} requests throttled", summary.throttled));
        }
    }
    tell(&parts.join(", "));
    if counts.refused == 0 {
        return Ok(());
    }
    for line in &summary.told {
        tell(line);
    }
    let place = match &arguments.dead_letter {
        Some(file) => format!("; they are in {} with their reasons", file.display()),
        None => String::new(),
    };
    Err(Failure::Failed(format!(
        "{} of {} records were refused{place}",
        counts.refused, counts.records
    )))
}

/// Writes a line to standard error, which leaves standard output to data. If it is closed, the exit
/// code alone tells the result.
pub(crate) fn tell(line: &str) {
    // A line may repeat the text of a server or a file, with characters that a terminal obeys.
    let line = Failure::Failed(line.to_owned());
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns a runtime for requests.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))
}

/// Returns the failure of a client that cannot be made, or of its request.
pub(crate) fn client_failure(error: ClientError) -> Failure {
    failure(error.into())
}

/// Returns the failure of the program for a failure of a transfer.
pub(crate) fn failure(error: TransferError) -> Failure {
    match error {
        TransferError::Usage(message) => Failure::Usage(message),
        error => Failure::Failed(error.to_string()),
    }
}
