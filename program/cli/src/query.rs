//! `orrery query`: rows on standard output, costs and explanations on standard error.

use crate::command::QueryArguments;
use orrery_client::{ClientError, PartitionKey, QueryText, container_link};
use orrery_server::Failure;
use orrery_tools::connection;
use orrery_tools::fault::{self, Voice};
use orrery_tools::form::{RowForm, screen_width};
use orrery_tools::query::{QueryOptions, QueryOutcome, run as run_query};
use orrery_tools::table::for_terminal;
use serde_json::Value;
use std::io::{IsTerminal, Write};

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
        counts_partitions: true,
    };
    let runtime = connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let outcome = runtime.block_on(run_query(&client, &options));
    let outcome = outcome.map_err(|error| {
        Failure::Failed(fault::of_query(&error, &arguments.text, Voice::Command))
    })?;

    let text = RowForm::from(arguments.format).text(&outcome.rows, screen_width());
    let mut stdout = std::io::stdout();
    let text = match stdout.is_terminal() {
        true => for_terminal(&text),
        false => text.into(),
    };
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

fn costs(outcome: &QueryOutcome) -> String {
    let mut text = String::new();
    for (title, lines) in &outcome.explanations {
        text.push_str(&format!("{title}:\n"));
        for line in lines.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text.push_str(&outcome.costs(&outcome.partitions.to_string()));
    text.push('\n');
    for hint in &outcome.hints {
        text.push_str(&format!("hint: {hint}\n"));
    }
    if outcome.is_cut {
        text.push_str("there may be more items: use --all or a larger --max-items\n");
    }
    text
}
