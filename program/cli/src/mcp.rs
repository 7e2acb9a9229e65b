//! `orrery mcp`: a session of an assistant over standard input and output.

use crate::command::McpArguments;
use orrery_client::ClientError;
use orrery_server::Failure;
use orrery_tools::connection;
use orrery_tools::mcp::{Options, serve};
use std::io::{BufReader, Write};

/// Serves one session.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(arguments: &McpArguments) -> Result<(), Failure> {
    let connected = connection::client(&arguments.account.options());
    let (client, account) = connected.map_err(|error| match error {
        ClientError::InvalidOption(text) => Failure::Usage(text),
        error => Failure::Failed(error.to_string()),
    })?;
    let options = Options {
        allows_writes: arguments.allow_writes,
        database: arguments.database.clone().or(account.database),
        container: arguments.container.clone().or(account.container),
        max_charge: arguments.max_request_charge,
        result_bytes_max: arguments.max_result_bytes,
    };
    let mode = match options.allows_writes {
        true => "with tools that write",
        false => "read-only",
    };
    // If standard error is closed, the session goes on without its log.
    let _ = writeln!(
        std::io::stderr(),
        "orrery mcp: {} with the key of {}, {mode}",
        client.endpoint(),
        account.key_source
    );
    let runtime = connection::runtime()
        .map_err(|error| Failure::Failed(format!("cannot start worker threads: {error}")))?;
    let client = client.with_user_agent("orrery-mcp");
    let input = BufReader::new(std::io::stdin());
    let served = runtime.block_on(serve(client, options, input, std::io::stdout()));
    // The thread that reads standard input may be blocked for ever.
    runtime.shutdown_background();
    served.map_err(|error| Failure::Failed(format!("standard input or output: {error}")))
}
