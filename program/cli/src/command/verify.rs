//! Arguments of `orrery verify`.

use super::ManagementArguments;
use clap::Args;

/// Help text after the options.
pub(super) const VERIFY_HELP: &str = "\
Examples:
  Verify the data directory of a server that does not run:
    orrery verify --data-dir ./data
  Verify the data of a running server, at most 8 MB a second:
    orrery verify --data-dir ./data --bytes-per-second 8000000

Every block and every row is read. Items are compared with the rows that follow from them, in both
directions: primary keys, index entries, unique keys, change feed, times to live, vectors, words of
texts, counters; keys must be in order, partitions must cover the hash space, and each partition of
the store must belong to a container. Each difference is listed with its partition, its key and its
item. No row is changed; 'orrery repair --rebuild-index' mends what follows from the items. Without
a server, the data is opened as by a start: an unfinished write at its end is cut, and damaged
blocks are recorded. So run the command as the user of the server.

A server that runs has the data directory to itself: its management API is asked then, which reads
each partition as of one moment while requests go on. Blocks are checked by the server all the time;
see --scrub-rate of 'orrery start'.

Exit codes:
  0  nothing was found
  1  the server refused the request or did not answer, or the verification did not end
  2  wrong options
  4  differences were found, or the data directory is damaged, in use or missing";

/// Arguments of `orrery verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// Ask the server at the endpoint of the management API, whatever the data directory is;
    /// --admin-endpoint does so too
    #[arg(long)]
    pub(crate) online: bool,
    /// Database of the only container to read
    #[arg(long, value_name = "DATABASE", requires = "container")]
    pub(crate) database: Option<String>,
    /// Only container to read
    #[arg(long, value_name = "CONTAINER", requires = "database")]
    pub(crate) container: Option<String>,
    /// Most bytes of rows that a server reads in a second, 0 for no limit [default: 33554432]
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes_per_second: Option<u64>,
    #[command(flatten)]
    pub(crate) management: ManagementArguments,
}
