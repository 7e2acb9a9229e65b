//! `orrery query`: rows on standard output, costs and explanations on standard error.

use crate::command::{QueryArguments, RowFormat};
use crate::failure::Failure;
use orrery_client::{ClientError, PartitionKey, QueryText, container_link};
use orrery_tools::query::{QueryOptions, QueryOutcome, run as run_query};
use orrery_tools::{connection, table};
use serde_json::Value;
use std::io::Write;

/// Width of a table if the terminal's is not known.
const WIDTH_DEFAULT: usize = 120;

/// Runs a query.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(arguments: &QueryArguments) -> Result<(), Failure> {
    let connected = connection::client(&arguments.account.options());
    let (client, account) = connected.map_err(|error| match error {
        ClientError::InvalidOption(text) => Failure::Usage(text),
        error => Failure::Failed(error.to_string()),
    })?;
    let named = |given: &Option<String>, other: Option<String>, option: &str| {
        let missing = || Failure::Usage(format!("{option} is missing: name it"));
        given.clone().or(other).ok_or_else(missing)
    };
    let database = named(&arguments.database, account.database, "--database")?;
    let container = named(&arguments.container, account.container, "--container")?;
    let mut query = QueryText::new(arguments.text.as_str());
    for parameter in &arguments.parameters {
        query.parameters.push(parse_parameter(parameter)?);
    }
    let key = arguments
        .partition_key
        .as_deref()
        .map(parse_key)
        .transpose()?;
    let options = QueryOptions {
        container: container_link(&database, &container),
        query,
        partition_key: key,
        max_rows: (!arguments.all).then_some(arguments.max_items),
        max_charge: None,
        explains: arguments.explain,
    };
    let runtime = connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let outcome = runtime.block_on(run_query(&client, &options));
    let outcome = outcome.map_err(|error| Failure::Failed(error.to_string()))?;

    let text = rows_text(&outcome, arguments.format)?;
    let mut stdout = std::io::stdout();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        // The reader has seen enough, for example `head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            let message = format!("cannot write to standard output: {error}");
            return Err(Failure::Failed(message));
        }
        Ok(()) => {}
    }
    // If standard error is closed, the rows are all that the user wants.
    let _ = std::io::stderr().write_all(costs(&outcome).as_bytes());
    Ok(())
}

/// Parses `name=JSON`, with or without `@`.
fn parse_parameter(text: &str) -> Result<(String, Value), Failure> {
    let wrong = |reason: &str| {
        Failure::Usage(format!(
            "--parameter '{text}': {reason}; an example is --parameter name='\"ada\"'"
        ))
    };
    let Some((name, value)) = text.split_once('=') else {
        return Err(wrong("'=' is missing"));
    };
    let value = serde_json::from_str(value).map_err(|e| wrong(&format!("no JSON value: {e}")))?;
    Ok((format!("@{}", name.trim_start_matches('@')), value))
}

fn parse_key(text: &str) -> Result<PartitionKey, Failure> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(_)) => Ok(PartitionKey::from_json(text)),
        Ok(_) => Ok(PartitionKey::from_json(&format!("[{text}]"))),
        Err(error) => Err(Failure::Usage(format!(
            "--partition-key '{text}' is no JSON value: {error}; a string needs quotation marks: \
             '\"ada\"'"
        ))),
    }
}

fn rows_text(outcome: &QueryOutcome, format: RowFormat) -> Result<String, Failure> {
    let lines = || outcome.rows.iter().map(|row| row.get());
    let values = || -> Result<Vec<Value>, Failure> {
        let parsed = lines().map(serde_json::from_str).collect::<Result<_, _>>();
        parsed.map_err(|error| Failure::Failed(format!("a row is no JSON: {error}")))
    };
    Ok(match format {
        RowFormat::Jsonl => lines().map(|row| format!("{row}\n")).collect(),
        RowFormat::Json => format!("[{}]\n", lines().collect::<Vec<_>>().join(",\n ")),
        RowFormat::Csv => table::csv(&values()?),
        RowFormat::Table if outcome.rows.is_empty() => String::new(),
        RowFormat::Table => table::table(&values()?, width()),
    })
}

/// Returns the width of the terminal.
fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|text| text.parse().ok());
    #[cfg(unix)]
    let columns = columns.or_else(|| {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    });
    columns.unwrap_or(WIDTH_DEFAULT)
}

fn costs(outcome: &QueryOutcome) -> String {
    let mut text = String::new();
    for (title, lines) in &outcome.explanations {
        text.push_str(&format!("{title}:\n"));
        for line in lines.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text.push_str(&format!(
        "{} items, {:.2} RU, {:.1} ms, {} physical partitions, {} pages\n",
        outcome.rows.len(),
        outcome.charge,
        outcome.elapsed.as_secs_f64() * 1000.0,
        outcome.partitions,
        outcome.pages
    ));
    if outcome.is_cut {
        text.push_str("there may be more items: use --all or a larger --max-items\n");
    }
    text
}
