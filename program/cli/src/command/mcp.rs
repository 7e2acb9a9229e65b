//! Arguments of `orrery mcp`.

use super::account::AccountArguments;
use clap::Args;
use orrery_tools::mcp::RESULT_BYTES_DEFAULT;

/// Help text after the options of `orrery mcp`.
pub(super) const MCP_HELP: &str = "\
Examples:
  The entry of an assistant's configuration, read-only:
    {\"mcpServers\": {\"orrery\": {\"command\": \"orrery\", \"args\": [\"mcp\"]}}}
  One container of another account, with a cap on the cost:
    orrery mcp --endpoint https://ACCOUNT.documents.azure.com/ --key-file account.key \\
      --database shop --container orders --max-request-charge 1000

An assistant starts the command and speaks with it over standard input and output; logs go to
standard error. Without --allow-writes there is no tool that changes anything.

Exit codes:
  0  the assistant closed standard input
  1  standard input or output failed
  2  wrong options";

/// Arguments of `orrery mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    /// Offer tools that create, change and delete
    #[arg(long)]
    pub(crate) allow_writes: bool,
    /// The only database that the assistant sees [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) database: Option<String>,
    /// The only container that the assistant sees [default: all]
    #[arg(long, value_name = "NAME", requires = "database")]
    pub(crate) container: Option<String>,
    /// Request units after which the session refuses further requests [default: no cap]
    #[arg(long, value_name = "RU", value_parser = charge)]
    pub(crate) max_request_charge: Option<f64>,
    /// Bytes of the rows of one answer at most
    #[arg(long, value_name = "N", default_value_t = RESULT_BYTES_DEFAULT)]
    pub(crate) max_result_bytes: usize,
    #[command(flatten)]
    pub(crate) account: AccountArguments,
}

/// Parses request units.
fn charge(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(charge) if charge.is_finite() && charge > 0.0 => Ok(charge),
        _ => Err("a number above 0 is needed".to_owned()),
    }
}
