//! Requests to the management API of a server, for `orrery clusters` and `orrery partitions`.
//!
//! Answers are passed on as the server gave them; [`rows`] makes rows of a table of them.
//!
//! Left out: repetition of requests that were not answered, since each of them may have started a
//! move.

use crate::fault::no_server;
use bytes::Bytes;
use http_body_util::Full;
use orrery_client::Trust;
use orrery_client::pool::Pool;
use orrery_client::signature::escaped_path;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// The pause between two looks at a move.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManageError {
    /// An option that cannot be used.
    Option(String),
    /// There was no answer that the tool understands.
    Unreachable(String),
    /// The server refused the request: status and message.
    Refused(u16, String),
    /// A move or drain was started and failed.
    Failed(String),
}

impl fmt::Display for ManageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManageError::Option(text)
            | ManageError::Unreachable(text)
            | ManageError::Failed(text) => f.write_str(text),
            ManageError::Refused(status, text) => {
                write!(f, "the server refused the request ({status}): {text}")
            }
        }
    }
}

impl std::error::Error for ManageError {}

/// A connection to the management API.
pub struct Manager {
    pool: Pool,
    endpoint: String,
    key: String,
}

impl Manager {
    /// Creates a connection to `endpoint`, such as `http://127.0.0.1:8082/`, that sends `key`. No
    /// request is sent.
    ///
    /// # Errors
    /// [`ManageError::Option`] for an endpoint or a file of certificates that cannot be used.
    pub fn new(endpoint: &str, key: &str, trust: &Trust) -> Result<Manager, ManageError> {
        let pool = Pool::with_trust(endpoint, 1, trust).map_err(ManageError::Option)?;
        Ok(Manager {
            pool,
            endpoint: endpoint.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Sends a request, and returns the JSON of its answer.
    ///
    /// # Errors
    /// [`ManageError::Unreachable`] without an answer in JSON, [`ManageError::Refused`] for an
    /// answer that is no success.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ManageError> {
        let unreachable =
            |cause: String| ManageError::Unreachable(format!("{}: {cause}", self.endpoint));
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.pool.authority())
            .header("authorization", format!("Bearer {}", self.key))
            .body(Full::new(body));
        let request = request.map_err(|error| ManageError::Option(error.to_string()))?;
        let answer = self.pool.exchange(request).await;
        let (head, body) = answer.map_err(|error| match error.found_server {
            true => unreachable(error.to_string()),
            false => {
                let words = no_server(&self.endpoint, &error.cause, "--admin-endpoint");
                ManageError::Unreachable(words)
            }
        })?;
        let json = serde_json::from_slice(&body).map_err(|_| {
            unreachable(format!(
                "the answer ({}) is no JSON: is this the management port?",
                head.status.as_u16()
            ))
        })?;
        if head.status.is_success() {
            return Ok(json);
        }
        let message = text(&json, "message").to_owned();
        Err(ManageError::Refused(head.status.as_u16(), message))
    }

    /// Waits until the partition with this number in the store has no move under way. Returns its
    /// placement.
    ///
    /// # Errors
    /// As [`Manager::ask`]; [`ManageError::Failed`] if the partition is not in cluster `to` then.
    pub async fn wait_for_move(&self, storage_id: u64, to: &str) -> Result<Value, ManageError> {
        let mut before = Progress::Waiting;
        loop {
            let list = self.ask("GET", "/placements", None).await?;
            let mut placements = list_of(&list, "placements").into_iter();
            let found = placements.find(|one| one["storageId"] == storage_id);
            let Some(found) = found else {
                let gone = "the partition was removed or replaced during its move";
                return Err(ManageError::Failed(gone.to_owned()));
            };
            match progress(&found, to, &before) {
                Progress::Moved => return Ok(found),
                Progress::Failed(failure) => return Err(ManageError::Failed(failure)),
                going_on => before = going_on,
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Waits until the drain of a cluster has ended. Returns the cluster.
    ///
    /// # Errors
    /// As [`Manager::ask`]; [`ManageError::Failed`] if partitions are left in the cluster.
    pub async fn wait_for_drain(&self, name: &str) -> Result<Value, ManageError> {
        loop {
            let list = self.ask("GET", "/clusters", None).await?;
            let mut clusters = list_of(&list, "clusters").into_iter();
            let Some(found) = clusters.find(|one| one["name"] == name) else {
                return Err(ManageError::Failed(format!("there is no cluster '{name}'")));
            };
            if found["draining"] == "no" {
                return match (text(&found, "drainFailure"), &found["partitions"]) {
                    ("", count) if *count == 0 => Ok(found),
                    ("", count) => {
                        let left = format!("{count} partitions are left in the cluster");
                        Err(ManageError::Failed(left))
                    }
                    (failure, _) => Err(ManageError::Failed(failure.to_owned())),
                };
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}

/// The progress of a move.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The move has not begun.
    Waiting,
    Moving,
    /// The move has ended elsewhere, and the store has noted no failure yet.
    Stopped,
    Moved,
    /// A sentence for the operator.
    Failed(String),
}

/// Returns the progress of the move of a partition to cluster `to`, after the progress `before`
/// that the last look has shown.
fn progress(placement: &Value, to: &str, before: &Progress) -> Progress {
    let (cluster, failure) = (text(placement, "cluster"), text(placement, "failure"));
    let is_settled = placement["state"] == "settled";
    if is_settled && cluster == to {
        return Progress::Moved;
    }
    if !failure.is_empty() {
        return Progress::Failed(failure.to_owned());
    }
    if !is_settled && (cluster == to || text(placement, "other") == to) {
        return Progress::Moving;
    }
    match before {
        // Before the wanted move, another one may have to end.
        Progress::Waiting => Progress::Waiting,
        // The next leaseholder undoes a move that the holder before has not completed.
        Progress::Stopped if is_settled => Progress::Failed(format!(
            "the move was broken off, since the leaseholder was replaced or started \
             again: the partition is still in cluster '{cluster}'; start the move again"
        )),
        // The store notes the failure of a move after the partition has settled.
        _ => Progress::Stopped,
    }
}

/// Returns a path of the management API, with its parts escaped.
pub fn path(parts: &[&str]) -> String {
    let escape = |piece: &str| escaped_path(piece).trim_start_matches('/').to_owned();
    let escaped = parts.iter().map(|part| {
        let pieces: Vec<String> = part.split('/').map(escape).collect();
        format!("/{}", pieces.join("%2F"))
    });
    escaped.collect()
}

/// Returns the elements of a member that is a list.
pub fn list_of(json: &Value, member: &str) -> Vec<Value> {
    json[member].as_array().cloned().unwrap_or_default()
}

/// Returns a member that is a text; the empty text if there is none.
pub fn text<'a>(json: &'a Value, member: &str) -> &'a str {
    json[member].as_str().unwrap_or_default()
}

/// Returns the rows of a table with these members as columns, in this order. A member that no
/// object has is left out.
pub fn rows(objects: &[Value], columns: &[&str]) -> Vec<Box<RawValue>> {
    let used = columns.iter();
    let used = used.filter(|column| objects.iter().any(|one| one.get(**column).is_some()));
    let used: Vec<&str> = used.copied().collect();
    let row = |one: &Value| {
        let cell = |column: &&str| one.get(*column).cloned().unwrap_or_else(|| "".into());
        let cells = used
            .iter()
            .map(|column| ((*column).to_owned(), cell(column)));
        to_raw_value(&cells.collect::<Map<String, Value>>()).ok()
    };
    objects.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::table;
    use serde_json::json;

    /// A node that is started again settles the partition where it was, without a failure.
    #[test]
    fn a_move_that_was_broken_off_is_not_waited_for() {
        let at = |cluster: &str, state: &str| json!({"cluster": cluster, "state": state});
        let moving_to = |other: &str| json!({"cluster": "main", "state": "moving", "other": other});
        let broken_off = Progress::Failed(
            "the move was broken off, since the leaseholder was replaced or started \
             again: the partition is still in cluster 'main'; start the move again"
                .to_owned(),
        );
        let failed = json!({"cluster": "main", "state": "settled", "failure": "disk full"});
        let full = || Progress::Failed("disk full".to_owned());
        let table = [
            (at("main", "settled"), Progress::Waiting, Progress::Waiting),
            (moving_to("third"), Progress::Waiting, Progress::Waiting),
            (moving_to("second"), Progress::Waiting, Progress::Moving),
            (at("second", "leaving"), Progress::Moving, Progress::Moving),
            (at("second", "settled"), Progress::Moving, Progress::Moved),
            (at("second", "settled"), Progress::Waiting, Progress::Moved),
            // The store may note a failure after the first look that shows the end.
            (at("main", "settled"), Progress::Moving, Progress::Stopped),
            (moving_to("third"), Progress::Moving, Progress::Stopped),
            (failed.clone(), Progress::Stopped, full()),
            (failed, Progress::Waiting, full()),
            (at("main", "settled"), Progress::Stopped, broken_off),
        ];
        for (placement, before, expected) in table {
            let found = progress(&placement, "second", &before);
            assert_eq!(found, expected, "{placement} {before:?}");
        }
    }

    #[test]
    fn rows_have_the_columns_that_some_object_has_and_a_table_aligns_them() {
        let objects = [
            json!({"name": "main", "bytes": 12_000, "drained": "no"}),
            json!({"name": "second", "bytes": 5, "drained": "yes", "drainFailure": "away"}),
        ];
        let columns = ["name", "partitions", "bytes", "drainFailure"];
        let expected = "name    bytes  drainFailure\n\
                        ------  -----  ------------\n\
                        main    12000\n\
                        second      5  away\n";
        assert_eq!(table(&rows(&objects, &columns), 80), expected);
    }

    #[test]
    fn parts_of_a_path_are_escaped() {
        assert_eq!(path(&["clusters", "a b", "drain"]), "/clusters/a%20b/drain");
        assert_eq!(path(&["clusters", "a/b"]), "/clusters/a%2Fb");
    }
}
