//! The queries that run now, and their cancellation by an operator.
//!
//! Promises: a query is listed from the check of its request until its reply is made; a cancelled
//! one ends at its next check point, as if its client had gone, and its client gets 403/5901. An
//! entry holds no value of a query, only the text without values.
//!
//! Left out: the charge of a cancelled query, which its partitions pay and its reply does not
//! state, because the reply does not wait for the end of the work.

use crate::call::Call;
use crate::request_log::names_of;
use http::HeaderValue;
use http::header::USER_AGENT;
use http::request::Parts;
use orrery_engine::{Engine, query_form};
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The longest text of a query that is shown, in bytes.
const TEXT_BYTES: usize = 1024;

/// A query that runs.
#[derive(Clone, Debug)]
pub struct RunningQuery {
    /// The number of the query since the server started.
    pub number: u64,
    /// The id of the database; empty for a query of databases or throughput.
    pub database: String,
    /// The id of the container; empty for a query of containers.
    pub container: String,
    /// The text with `?` in place of values; `None` for a text with an invalid token.
    pub form: Option<String>,
    /// The time since its request was checked.
    pub age: Duration,
    /// The activity id.
    pub activity_id: String,
    /// The user agent of the client; empty without one.
    pub user_agent: String,
    /// The address of the client.
    pub client: SocketAddr,
    /// True for a query of this server's own console.
    pub is_from_console: bool,
}

/// The sender of a query, as its request names the sender.
pub(crate) struct Sender<'a> {
    pub(crate) head: &'a Parts,
    pub(crate) activity: &'a HeaderValue,
    pub(crate) client: SocketAddr,
    pub(crate) is_from_console: bool,
}

/// The queries that run.
#[derive(Debug, Default)]
pub(crate) struct RunningQueries {
    begun: AtomicU64,
    entries: Mutex<BTreeMap<u64, Entry>>,
}

#[derive(Debug)]
struct Entry {
    call: Arc<Call>,
    began: Instant,
    activity: HeaderValue,
    user_agent: Option<HeaderValue>,
    client: SocketAddr,
    is_from_console: bool,
    /// Tells the waiting request that the query was cancelled.
    cancel: oneshot::Sender<()>,
}

/// Removes the entry of a query when the query has ended or its client has gone.
struct RemoveOnDrop<'a>(&'a RunningQueries, u64);

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        lock(&self.0.entries).remove(&self.1);
    }
}

impl RunningQueries {
    /// Waits for the result of a query, or for its cancellation, which drops `work`.
    ///
    /// # Errors
    /// 403/5901 for a cancelled query, otherwise those of `work`.
    pub(crate) async fn run<T>(
        &self,
        call: &Arc<Call>,
        sender: Sender<'_>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (cancel, cancelled) = oneshot::channel();
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Entry {
            call: Arc::clone(call),
            began: Instant::now(),
            activity: sender.activity.clone(),
            user_agent: sender.head.headers.get(USER_AGENT).cloned(),
            client: sender.client,
            is_from_console: sender.is_from_console,
            cancel,
        };
        lock(&self.entries).insert(number, entry);
        let _removed = RemoveOnDrop(self, number);
        // A query that has ended is answered, even if it was cancelled at the same moment.
        let mut work = pin!(work);
        let mut cancelled = pin!(cancelled);
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(result) = work.as_mut().poll(context) {
                return std::task::Poll::Ready(result);
            }
            cancelled
                .as_mut()
                .poll(context)
                .map(|_| Err(cancelled_error()))
        })
        .await
    }

    /// Returns the queries that run, the longest first.
    pub(crate) fn list(&self, engine: &Engine) -> Vec<RunningQuery> {
        let mut listed = Vec::new();
        for (number, entry) in &*lock(&self.entries) {
            listed.push(entry.shown(*number, engine));
        }
        listed
    }

    /// Cancels a query. Returns the query, or `None` if no such query runs.
    pub(crate) fn cancel(&self, number: u64, engine: &Engine) -> Option<RunningQuery> {
        let entry = lock(&self.entries).remove(&number)?;
        let shown = entry.shown(number, engine);
        // A query that ends at this moment is answered.
        let _ = entry.cancel.send(());
        Some(shown)
    }
}

impl Entry {
    fn shown(&self, number: u64, engine: &Engine) -> RunningQuery {
        let [database, container, _] = names_of(&self.call.path, engine);
        let text = self.call.query_text().ok();
        let form = text.and_then(|query| query_form(&query.text));
        RunningQuery {
            number,
            database,
            container,
            form: form.map(|mut form| {
                let mut end = TEXT_BYTES.min(form.len());
                while !form.is_char_boundary(end) {
                    end -= 1;
                }
                form.truncate(end);
                form
            }),
            age: self.began.elapsed(),
            activity_id: text_of(Some(&self.activity)),
            user_agent: text_of(self.user_agent.as_ref()),
            client: self.client,
            is_from_console: self.is_from_console,
        }
    }
}

fn text_of(value: Option<&HeaderValue>) -> String {
    let text = value.and_then(|value| value.to_str().ok());
    text.unwrap_or_default().to_owned()
}

/// Returns the error that the client of a cancelled query gets. Clients do not send the query again
/// by themselves.
fn cancelled_error() -> Error {
    Error::new(
        Kind::QueryCancelled,
        "An operator of the server cancelled the query while the query ran.",
    )
    .with_help("Ask the operator for the reason before you send the query again.")
}
