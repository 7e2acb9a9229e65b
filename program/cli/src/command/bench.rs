//! Arguments of `orrery bench`.

use super::Profile;
use super::account::KeyArguments;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Arguments of `orrery bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    pub(crate) workload: Workload,
}

/// Workloads that can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Measure a blog in three data models: duration and charge of each request beside the figures
    /// published for the service
    #[command(after_help = BLOG_HELP)]
    Blog(BlogArguments),
}

const BLOG_HELP: &str = "\
Examples:
  A small data set, in about half a minute:
    orrery bench blog
  1,000 users, two of the models:
    orrery bench blog --scale 0.01 --models v1,v3
  JSON output:
    orrery bench blog --format json > table.json
  A running server:
    orrery bench blog --endpoint http://127.0.0.1:8081 --key-file account.key
  Copies written by the change feed pipelines, and the cost of a write with its pipelines:
    orrery bench blog --through-pipelines
  The published size, in a directory that an interrupted run can continue to use:
    orrery bench blog --scale 1 --data-dir /data/blog --resume

The published figures were measured at scale 1: 100,000 users with 5 to 50 posts each. Equal seeds
give equal data. Existing databases named blog-v1, blog-v2, blog-v3 and bench-blog-control are
deleted first, after a question or with --yes, except with --resume, which continues in them.";

/// Arguments of `orrery bench blog`.
#[derive(Debug, Args)]
pub(crate) struct BlogArguments {
    /// Size of the data set; 1 is the size of the published figures
    #[arg(long, value_name = "S", default_value_t = 0.0004)]
    pub(crate) scale: f64,
    /// Data models to measure
    #[arg(
        long,
        value_name = "MODELS",
        value_delimiter = ',',
        default_value = "v1,v2,v3"
    )]
    pub(crate) models: Vec<String>,
    /// Endpoint of a running server [default: a temporary server]
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    /// Prices that the server charges; a running server must have been started with the same
    #[arg(long, value_enum, default_value_t = Profile::Y2019)]
    pub(crate) profile: Profile,
    /// Seed of the data set
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Times that each request is measured; a request to all physical partitions is measured a
    /// tenth of that, but at least 20 times
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    pub(crate) runs: u32,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = TableFormat::Table)]
    pub(crate) format: TableFormat,
    /// Let the change feed pipelines write the copies of the third model, and measure edits and
    /// writes with their pipelines as well
    #[arg(long)]
    pub(crate) through_pipelines: bool,
    /// Data directory of the temporary server, which is kept [default: a new one, which is deleted]
    #[arg(long, value_name = "DIR", conflicts_with = "endpoint")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Delete existing databases of the same names without a question. Without a terminal to ask
    /// on, a run that would delete some is refused
    #[arg(long, conflicts_with = "resume")]
    pub(crate) yes: bool,
    /// Continue an interrupted run with the same options: loading goes on where it stopped, and
    /// models that were measured are not measured again. Needs --data-dir or --endpoint
    #[arg(long)]
    pub(crate) resume: bool,
}

impl BlogArguments {
    /// Returns the profile as it is spelled on the command line.
    pub(crate) fn profile_name(&self) -> &'static str {
        match self.profile {
            Profile::Modern => "modern",
            Profile::Y2019 => "y2019",
        }
    }
}

/// Format of a result.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TableFormat {
    /// Table for people
    Table,
    /// JSON array of rows
    Json,
}
