//! The file descriptors of the process: the limit is raised at the start, and shared out between
//! the store, the program and the connections.
//!
//! | part | descriptors |
//! |---|---|
//! | tables that the store keeps open | up to 900, at least 64 |
//! | tables, journals and directories that the store writes, merges and copies | 128 |
//! | pipes of script hosts | 64 |
//! | listening ports, signals, log, certificate, keys, the runtime | 32 |
//! | connections to the management API and the console | 32 |
//! | connections of the visitors of a blog in the process | 1,024, at most a quarter of all |
//! | both ends of the connections of that blog to the server | 128 |
//! | connections of clients | the rest, up to `--max-connections` |
//!
//! A process without a free descriptor can neither write nor accept connections, so the shares are
//! fixed before anything is opened. Script hosts inherit the raised limit; they open no files.

use crate::failure::Failure;

/// Tables that the store keeps open if there are enough descriptors.
const STORE_TABLES: usize = 900;
/// Tables that the store must be able to keep open.
const STORE_TABLES_MIN: usize = 64;
/// Descriptors for the work of the store, for script hosts and for the rest of the program.
const PROGRAM: usize = 128 + 64 + 32;
/// Connections to the management API.
pub(crate) const ADMIN_CONNECTIONS: usize = 32;
/// Connections of clients without an option.
const CONNECTIONS: usize = 4096;
/// Connections of visitors of a blog, and the part of all descriptors that they may take.
const VISITORS: usize = 1024;
const VISITORS_PART: usize = 4;
/// Connections of clients below which a server is of no use.
const CONNECTIONS_MIN: usize = 64;
/// Descriptors without which no server starts.
pub const NEEDED_MIN: u64 =
    (PROGRAM + ADMIN_CONNECTIONS + STORE_TABLES_MIN + CONNECTIONS_MIN) as u64;

/// The shares of the descriptors that can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Tables that the store keeps open.
    pub(crate) store_tables: usize,
    /// Connections of clients.
    pub(crate) connections: usize,
}

/// Raises the limit of descriptors as far as the system allows, and shares the descriptors out.
///
/// `wanted` is the number of connections that the user asks for, `reserved` that of the descriptors
/// which the process needs for something else.
///
/// # Errors
/// The limit is too low for a server, or for the connections that the user asks for.
pub(crate) fn share_out(wanted: Option<usize>, reserved: usize) -> Result<Shares, Failure> {
    shares(raise_limit().saturating_sub(reserved), wanted)
}

/// Raises the limit of descriptors as far as the system allows, and returns the number of
/// connections that the visitors of a blog may have.
pub fn for_visitors() -> usize {
    VISITORS.min(raise_limit() / VISITORS_PART)
}

/// Shares out `limit` descriptors.
fn shares(limit: usize, wanted: Option<usize>) -> Result<Shares, Failure> {
    let fixed = PROGRAM + ADMIN_CONNECTIONS;
    let needed = fixed + STORE_TABLES_MIN + wanted.unwrap_or(CONNECTIONS_MIN);
    if limit < needed {
        let purpose = match wanted {
            Some(wanted) => format!("--max-connections {wanted}"),
            None => "a server".to_owned(),
        };
        return Err(Failure::Failed(format!(
            "the system allows this process {limit} open files, and {purpose} needs at least \
             {needed}: raise the hard limit (ulimit -Hn, or LimitNOFILE= of a systemd unit)"
        )));
    }
    let free = limit - fixed;
    if let Some(connections) = wanted {
        return Ok(Shares {
            store_tables: (free - connections).min(STORE_TABLES),
            connections,
        });
    }
    // With few descriptors, store and connections get a half each.
    let store_tables = STORE_TABLES.min(free / 2);
    Ok(Shares {
        store_tables,
        connections: (free - store_tables).min(CONNECTIONS),
    })
}

/// Raises the soft limit to the hard limit, and returns the limit that holds then.
#[cfg(unix)]
fn raise_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    // If the system refuses, the lower limit is shared out.
    let current = match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.current,
        Err(_) => before,
    };
    let most = usize::MAX;
    current.map_or(most, |current| usize::try_from(current).unwrap_or(most))
}

/// Returns a number that no share reaches: this system has no such limit.
#[cfg(not(unix))]
fn raise_limit() -> usize {
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_and_connections_share_what_there_is() {
        let of = |limit, wanted| shares(limit, wanted).map_err(|failure| failure.to_string());
        let both = |store_tables, connections| {
            Ok(Shares {
                store_tables,
                connections,
            })
        };
        assert_eq!(of(usize::MAX, None), both(900, 4096));
        assert_eq!(of(1_000_000, Some(100_000)), both(900, 100_000));
        assert_eq!(of(4096, None), both(900, 2940));
        assert_eq!(of(1024, None), both(384, 384));
        assert_eq!(of(1024, Some(700)), both(68, 700));
        assert_eq!(of(384, None), both(64, 64));
    }

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_what_is_needed() {
        let message = |limit, wanted| shares(limit, wanted).expect_err("too low").to_string();
        let text = message(383, None);
        assert!(
            text.contains("383 open files") && text.contains("at least 384"),
            "{text}"
        );
        let text = message(1024, Some(705));
        assert!(
            text.contains("--max-connections 705") && text.contains("1025"),
            "{text}"
        );
    }
}
