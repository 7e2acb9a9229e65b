//! The primary among several servers of a description without Patroni.
//!
//! An old primary that was replaced by hand and comes back takes writes as well. So all servers are
//! asked at once, and of those that take writes the one with the highest timeline is the primary: a
//! promotion begins a new timeline. The others must be stopped. A store uses no timeline that is
//! older than one that it has used.
//!
//! Left out: an old primary that is the only server which answers, at the start of a process. Only
//! Patroni prevents that.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use orrery_model::sync::lock;
use tokio_postgres::Client;

use crate::connector::{Connector, NewConnection, Purpose, SUSPICION, bounded, explain};

/// The time in which the other servers answer once one takes writes.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(500);

/// A running server, and the timeline that it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    timeline: u32,
    /// The moment at which the server was started, which tells two servers from one with two
    /// addresses.
    started: String,
}

/// The memory of a store about the servers of a description without Patroni.
#[derive(Default)]
pub(crate) struct SeenServers {
    /// The highest timeline that was used.
    timeline: u32,
    /// For each server, when it last gave no answer in time.
    silent: Vec<Option<Instant>>,
    /// The last warning, which is not repeated.
    warning: Option<String>,
}

/// A server that takes writes. No instance: an engine without timelines.
struct Writer {
    host: usize,
    instance: Option<Instance>,
    connection: NewConnection,
}

impl Connector {
    /// Returns true if the servers themselves must be asked which of them is the primary.
    pub(crate) fn asks_servers(&self) -> bool {
        let hosts = &self.config.hosts;
        hosts.len() > 1 && hosts.iter().all(|host| host.patroni.is_none())
    }

    /// Connects to the server that takes writes and has the highest timeline. Adds a reason for
    /// each server that cannot be used.
    pub(crate) async fn connect_to_newest(
        &self,
        purpose: Purpose,
        reasons: &mut Vec<String>,
    ) -> Option<(usize, NewConnection)> {
        let mut writers = self.writers(purpose, reasons).await;
        // Engines without timelines have no promotion, and each server is as good as another.
        writers.sort_by_key(|writer| writer.host);
        let instances: Vec<_> = writers.iter().map(|one| one.instance.clone()).collect();
        let addresses: Vec<&str> = writers
            .iter()
            .map(|one| self.config.hosts[one.host].address.as_str())
            .collect();
        match choose(
            &self.config.name,
            &addresses,
            &instances,
            self.seen_timeline(),
        ) {
            Ok(Choice { at, warning }) => {
                self.note_choice(instances[at].as_ref(), warning);
                let writer = writers.swap_remove(at);
                Some((writer.host, writer.connection))
            }
            Err(reason) => {
                reasons.extend(reason);
                None
            }
        }
    }

    fn seen_timeline(&self) -> u32 {
        lock(&self.seen).timeline
    }

    fn note_choice(&self, chosen: Option<&Instance>, warning: Option<String>) {
        let mut seen = lock(&self.seen);
        if let Some(chosen) = chosen {
            seen.timeline = seen.timeline.max(chosen.timeline);
        }
        if seen.warning != warning {
            if let Some(warning) = &warning {
                log::error!("{warning}");
            }
            seen.warning = warning;
        }
    }

    /// Connects to all servers at once. Returns those that take writes; a server that does not
    /// answer in time is waited for only if it has answered lately.
    async fn writers(&self, purpose: Purpose, reasons: &mut Vec<String>) -> Vec<Writer> {
        let count = self.config.hosts.len();
        let is_silent = |at: &Option<Instant>| at.is_some_and(|at| at.elapsed() < SUSPICION);
        let mut awaited: Vec<bool> = {
            let mut seen = lock(&self.seen);
            seen.silent.resize(count, None);
            seen.silent.iter().map(|at| !is_silent(at)).collect()
        };
        let mut asked: FuturesUnordered<_> = (0..count)
            .map(|host| async move { (host, self.ask(host, purpose).await) })
            .collect();
        let mut writers = Vec::new();
        let mut deadline = None;
        let mut is_answered = vec![false; count];
        loop {
            if deadline.is_some() && !awaited.contains(&true) {
                break;
            }
            let answer = match deadline {
                None => asked.next().await,
                Some(deadline) => match tokio::time::timeout_at(deadline, asked.next()).await {
                    Ok(answer) => answer,
                    Err(_) => break,
                },
            };
            let Some((host, answer)) = answer else {
                break;
            };
            (awaited[host], is_answered[host]) = (false, true);
            match answer {
                Ok(writer) => {
                    writers.push(writer);
                    deadline.get_or_insert(tokio::time::Instant::now() + OTHERS_TIMEOUT);
                }
                Err(reason) => reasons.push(self.at(host, &reason)),
            }
        }
        let mut seen = lock(&self.seen);
        for (at, is_answered) in seen.silent.iter_mut().zip(is_answered) {
            match is_answered {
                true => *at = None,
                false if !is_silent(at) => *at = Some(Instant::now()),
                false => {}
            }
        }
        writers
    }

    /// Connects to a server that takes writes, and asks for its timeline.
    async fn ask(&self, host: usize, purpose: Purpose) -> Result<Writer, String> {
        let ask = async {
            let connection = self.open_connection(host, purpose).await?;
            let instance = instance_of(&connection.client).await?;
            Ok(Writer {
                host,
                instance,
                connection,
            })
        };
        bounded(self.config.connect_timeout(), ask).await
    }
}

/// Asks a server that takes writes for its timeline, which is the begin of the name of the file
/// that the server writes now. The timeline of the last checkpoint may be older.
async fn instance_of(client: &Client) -> Result<Option<Instance>, String> {
    let query = "SELECT pg_walfile_name(pg_current_wal_lsn()), pg_postmaster_start_time()::text";
    let row = match client.query_one(query, &[]).await {
        Ok(row) => row,
        // Another engine may lack the functions.
        Err(error) if error.as_db_error().is_some() => return Ok(None),
        Err(error) => return Err(explain(&error)),
    };
    let file: String = row.try_get(0).map_err(|error| explain(&error))?;
    let started = row.try_get(1).map_err(|error| explain(&error))?;
    let timeline = file.get(..8).map(|digits| u32::from_str_radix(digits, 16));
    match timeline {
        Some(Ok(timeline)) => Ok(Some(Instance { timeline, started })),
        _ => Err(format!("the file of the log '{file}' has no timeline")),
    }
}

/// The chosen server.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    /// Its index among those that take writes.
    at: usize,
    /// A sentence about another one that must be stopped.
    warning: Option<String>,
}

/// Chooses among the servers that take writes, in the order of the description; `seen` is the
/// highest timeline that was used before.
///
/// # Errors
/// The reason for which none can be used; `None` if there is none.
fn choose(
    cluster: &str,
    addresses: &[&str],
    instances: &[Option<Instance>],
    seen: u32,
) -> Result<Choice, Option<String>> {
    let timeline = |at: usize| instances[at].as_ref().map_or(0, |one| one.timeline);
    // The first of those with the highest timeline.
    let highest = (0..instances.len()).rev().max_by_key(|&at| timeline(at));
    let at = highest.ok_or(None)?;
    let (address, newest) = (addresses[at], timeline(at));
    if newest < seen {
        return Err(Some(format!(
            "{address}: the server is of timeline {newest}, and the primary of the cluster was of \
             timeline {seen}: stop this old primary, and start the present one"
        )));
    }
    let mut warning = None;
    for other in 0..instances.len() {
        // One server may have two addresses.
        if instances[other].is_none() || instances[other] == instances[at] {
            continue;
        }
        if timeline(other) == newest {
            return Err(Some(format!(
                "the servers {address} and {} both take writes, and both are of timeline \
                 {newest}: stop the one that is not the primary of the cluster '{cluster}'",
                addresses[other]
            )));
        }
        warning = Some(format!(
            "two servers of the cluster '{cluster}' take writes: {} is of timeline {}, which is \
             older than timeline {newest} of {address}, the one that is used: stop the old one",
            addresses[other],
            timeline(other)
        ));
    }
    Ok(Choice { at, warning })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [&str; 3] = ["db1", "db2", "db3"];

    fn instance(timeline: u32, started: &str) -> Option<Instance> {
        Some(Instance {
            timeline,
            started: started.to_owned(),
        })
    }

    fn chosen(instances: &[Option<Instance>], seen: u32) -> Result<Choice, String> {
        let choice = choose("main", &ADDRESSES, instances, seen);
        choice.map_err(Option::unwrap_or_default)
    }

    #[test]
    fn the_server_with_the_highest_timeline_is_the_primary() {
        let servers = [instance(1, "a"), instance(3, "b"), instance(2, "c")];
        let Choice { at, warning } = chosen(&servers, 1).expect("one");
        assert_eq!(at, 1);
        assert!(warning.is_some_and(|text| text.contains("timeline 3 of db2")));
        let alone = Choice {
            at: 0,
            warning: None,
        };
        assert_eq!(chosen(&servers[..1], 1), Ok(alone));
        assert_eq!(chosen(&[], 0), Err(String::new()));
    }

    #[test]
    fn servers_of_one_timeline_are_refused_unless_they_are_one() {
        let refusal = chosen(&[instance(2, "a"), instance(2, "b")], 0).expect_err("two");
        assert!(refusal.contains("db1 and db2"), "{refusal}");
        let one = [instance(2, "a"), instance(2, "a")];
        let first = Choice {
            at: 0,
            warning: None,
        };
        assert_eq!(chosen(&one, 2), Ok(first));
        // Engines without timelines.
        let first = Choice {
            at: 0,
            warning: None,
        };
        assert_eq!(chosen(&[None, None], 0), Ok(first));
    }

    #[test]
    fn a_timeline_that_was_left_is_not_used_again() {
        let refusal = chosen(&[instance(1, "a")], 2).expect_err("an old one");
        assert!(
            refusal.contains("db1: the server is of timeline 1"),
            "{refusal}"
        );
    }
}
