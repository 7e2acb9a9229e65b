//! Sends the items of one physical partition as a bulk request, until each of them is stored or
//! refused.
//!
//! | answer | what follows |
//! |---|---|
//! | an item stored, or refused for good | its verdict |
//! | an item or request throttled, or to be repeated | the item again after the server's time |
//! | no answer | the items again; a conflict is then compared with the stored item |
//! | a conflict while existing items are kept | a read of the item, unless its id is named |
//! | 410, a partition was split | the items one by one; later items by the new ranges |
//! | another refusal of the whole request | the items one by one, so that each has its own answer |
//! | 401, 403, 404 for the whole request | the end of the import |
//!
//! If the first refused item ends the import, the server stops at it too, and items behind it are
//! not sent from then on; those that were on the way may be stored.

use super::ending::TransferError;
use super::item::Item;
use super::options::Mode;
use super::pace::Pace;
use super::router::Router;
use crate::fault;
use orrery_client::{Answer, Client, ClientError, Request};
use orrery_model::json::{deep_equal, parse};
use orrery_model::{Json, Object};
use serde::Deserialize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Properties that the server sets itself.
pub(super) const SYSTEM_PROPERTIES: [&str; 6] =
    ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];
/// Repetitions of a request without an answer, and of one that the server failed to carry out.
const FAILURES_MAX: u32 = 10;
/// Waits for one request because of throttling, in total.
const THROTTLED_TIME_MAX: Duration = Duration::from_secs(600);
/// Wait if the server names no time.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_millis(50);

/// The end of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The item is new, also if an earlier attempt of this import stored it.
    Created,
    /// The item replaced another.
    Replaced,
    /// An item with this id exists and was kept (`skip-existing`).
    Existing,
    /// The item cannot be imported, for this reason.
    Refused(String),
}

/// The end of one bulk request.
pub(super) struct Sent {
    /// The items with a verdict.
    pub(super) verdicts: Vec<(Item, Verdict)>,
    /// The reason for which the import cannot go on; the other items have no verdict.
    pub(super) fatal: Option<TransferError>,
    /// Items without a verdict that may have been stored.
    pub(super) unknown: u64,
    /// Request units.
    pub(super) charge: f64,
}

/// Sends items to one container.
pub(super) struct Sender {
    /// A client without patience: this module waits itself.
    pub(super) client: Client,
    /// Link of the container.
    pub(super) container: String,
    pub(super) mode: Mode,
    pub(super) pace: Pace,
    pub(super) router: RwLock<Arc<Router>>,
    /// Items up to this ordinal may have been sent by an earlier run.
    pub(super) sent_before: u64,
    /// True if any item may come a second time, after a split of the source.
    pub(super) may_repeat: Arc<AtomicBool>,
    /// True if an item was sent alone, because its range may have gone.
    pub(super) is_stale: AtomicBool,
    /// True if the first refused item ends the import.
    pub(super) ends_at_refusal: bool,
    /// Ordinal of the first record that ends the import; [`END_NONE`] if there is none.
    pub(super) end_at: AtomicU64,
}

/// An ordinal behind the last record.
pub(super) const END_NONE: u64 = u64::MAX;
/// The first word of the reason of a record whose id exists.
const ID_EXISTS: &str = "409: ";

/// Returns true if a record was refused because an item with its id is there already.
pub(super) fn is_of_existing_id(reason: &str) -> bool {
    reason.starts_with(ID_EXISTS)
}

/// Returns true if a message of the server says that a conflict is one of ids. Unique keys conflict
/// too, and under hash version 1 the keys of two items with the same id.
fn names_the_id(message: &str) -> bool {
    message.contains("already exists") && !message.contains("conflicting hashed partition key")
}

/// One result of a bulk request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BulkResult {
    status_code: u16,
    #[serde(default)]
    sub_status_code: u32,
    #[serde(default)]
    retry_after_milliseconds: f64,
    #[serde(default)]
    message: String,
}

/// The sending of one item, boxed because the sending of several contains it.
type SendAlone<'a> = Pin<Box<dyn Future<Output = Result<(), TransferError>> + Send + 'a>>;

/// A step of the repetitions of one request.
enum Step {
    Verdict(Verdict),
    /// A conflict, which is to be judged; the message of the server.
    Conflict(String),
    Again(Duration),
    /// To be sent by its partition key, because the range has gone.
    Alone,
}

impl Sender {
    /// Returns the partition key range of an item.
    pub(super) fn range_of(&self, item: &Item) -> Arc<str> {
        let router = self.router.read().unwrap_or_else(PoisonError::into_inner);
        router.range_of(&item.epk)
    }

    /// Sends items of one range.
    pub(super) async fn send(&self, items: Vec<Item>, range: &str) -> Sent {
        let mut sent = Sent {
            verdicts: Vec::with_capacity(items.len()),
            fatal: None,
            unknown: 0,
            charge: 0.0,
        };
        let count = items.len();
        let outcome = self.send_until_done(items, Some(range), &mut sent).await;
        if let Err(fatal) = outcome {
            if may_have_arrived(&fatal) {
                sent.unknown = (count - sent.verdicts.len()) as u64;
            }
            sent.fatal = Some(fatal);
        }
        sent
    }

    /// Repeats a request until each item has a verdict. Without a range, there is one item, which
    /// is sent by its partition key.
    async fn send_until_done(
        &self,
        mut items: Vec<Item>,
        range: Option<&str>,
        sent: &mut Sent,
    ) -> Result<(), TransferError> {
        let mut failures = 0;
        let mut waited = Duration::ZERO;
        let mut may_have_arrived = false;
        while !items.is_empty() {
            let expected = self.pace.admit(items.len()).await;
            // Another request may have ended the import meanwhile.
            let end = self.end_at.load(Ordering::Relaxed);
            items.retain(|item| item.ordinal <= end);
            if items.is_empty() {
                break;
            }
            let request = self.request(&items, range, !may_have_arrived);
            let answer = match self.client.send(&request).await {
                Ok(answer) => answer,
                Err(e) => {
                    failures += 1;
                    may_have_arrived = true;
                    if failures > FAILURES_MAX || matches!(e, ClientError::InvalidOption(_)) {
                        return Err(e.into());
                    }
                    tokio::time::sleep(Duration::from_millis(250 << failures.min(5))).await;
                    continue;
                }
            };
            let charge = answer.charge();
            sent.charge += charge;
            let steps = self.steps(answer, items.len(), range.is_some())?;

            // Each item has its verdict, or is sent again with the others, or alone.
            let (mut again, mut wait, mut done) = (Vec::new(), Duration::ZERO, 0);
            for (item, step) in items.into_iter().zip(steps) {
                match step {
                    Step::Again(after) => {
                        wait = wait.max(after);
                        again.push(item);
                    }
                    Step::Alone => {
                        self.is_stale.store(true, Ordering::Relaxed);
                        self.send_alone(item, sent).await?;
                    }
                    Step::Verdict(verdict) => {
                        done += 1;
                        self.settle(item, verdict, sent);
                    }
                    Step::Conflict(message) => {
                        done += 1;
                        let verdict = self.judged(&item, &message, may_have_arrived).await?;
                        self.settle(item, verdict, sent);
                    }
                }
            }
            self.pace
                .answered(done, charge, expected, !again.is_empty());
            items = again;
            if !items.is_empty() {
                waited += wait;
                if waited > THROTTLED_TIME_MAX {
                    return Err(throttled_for_long());
                }
                tokio::time::sleep(wait.min(Duration::from_secs(10))).await;
            }
        }
        Ok(())
    }

    /// Notes the verdict of an item, and the end of the import if a refused item ends it.
    fn settle(&self, item: Item, verdict: Verdict, sent: &mut Sent) {
        if self.ends_at_refusal && matches!(&verdict, Verdict::Refused(_)) {
            self.end_at.fetch_min(item.ordinal, Ordering::Relaxed);
        }
        sent.verdicts.push((item, verdict));
    }

    /// Sends one item by its partition key.
    fn send_alone<'a>(&'a self, item: Item, sent: &'a mut Sent) -> SendAlone<'a> {
        Box::pin(self.send_until_done(vec![item], None, sent))
    }

    /// Returns true if the server shall stop at the first refused item of a request. A conflict is
    /// no refusal if existing items are kept, or if the item may be from an earlier attempt.
    fn stops_at_refusal(&self, items: &[Item]) -> bool {
        self.ends_at_refusal
            && self.mode != Mode::SkipExisting
            && !self.may_repeat.load(Ordering::Relaxed)
            && items.iter().all(|item| item.ordinal > self.sent_before)
    }

    /// Returns the bulk request for a range, or the request for one item.
    fn request(&self, items: &[Item], range: Option<&str>, is_first: bool) -> Request {
        let path = format!("{}/docs", self.container);
        let request = Request::new(http::Method::POST, path).header("prefer", "return=minimal");
        let is_upsert = self.mode == Mode::Upsert;
        if let (None, [item]) = (range, items) {
            let request = request
                .header("x-ms-documentdb-partitionkey", item.key.as_str())
                .body(item.text.clone());
            return match is_upsert {
                true => request.header("x-ms-documentdb-is-upsert", "True"),
                false => request,
            };
        }
        let operation = if is_upsert { "Upsert" } else { "Create" };
        let size: usize = items.iter().map(|item| item.text.len() + 128).sum();
        let mut body = Vec::with_capacity(size);
        for item in items {
            body.push(if body.is_empty() { b'[' } else { b',' });
            let key = orrery_model::Json::from(item.key.as_str()).to_text();
            let head =
                format!(r#"{{"operationType":"{operation}","partitionKey":{key},"resourceBody":"#);
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(&item.text);
            body.push(b'}');
        }
        body.push(b']');
        let continues = match is_first && self.stops_at_refusal(items) {
            true => "False",
            false => "True",
        };
        request
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "False")
            .header("x-ms-cosmos-batch-continue-on-error", continues)
            .header(
                "x-ms-documentdb-partitionkeyrangeid",
                range.unwrap_or_default(),
            )
            .body(body)
    }

    /// Returns the next step of each item of an answer.
    fn steps(
        &self,
        answer: Answer,
        count: usize,
        is_bulk: bool,
    ) -> Result<Vec<Step>, TransferError> {
        let all = |step: fn(Duration) -> Step, wait| (0..count).map(|_| step(wait)).collect();
        let wait = answer.retry_after().unwrap_or(RETRY_AFTER_DEFAULT);
        match answer.status {
            200 | 207 if is_bulk => {
                let results: Vec<BulkResult> = answer.json()?;
                if results.len() != count {
                    return Err(TransferError::Failed(format!(
                        "{}: {} results for {count} items",
                        answer.operation,
                        results.len()
                    )));
                }
                Ok(results.into_iter().map(step_of).collect())
            }
            409 => match answer.into_success() {
                Err(ClientError::Refused(refused)) => Ok(vec![Step::Conflict(
                    fault::in_plain_words(&refused.message),
                )]),
                Err(error) => Err(error.into()),
                Ok(_) => Ok(Vec::new()),
            },
            200 | 201 => Ok(vec![step_of(BulkResult {
                status_code: answer.status,
                sub_status_code: 0,
                retry_after_milliseconds: 0.0,
                message: String::new(),
            })]),
            408 | 429 | 449 | 500 | 502 | 503 => Ok(all(Step::Again, wait)),
            410 => Ok(all(|_| Step::Alone, wait)),
            // 403 with a sub-status concerns the item, for example a full logical partition.
            403 if !is_bulk && answer.sub_status() != 0 => self.refused(answer),
            401 | 403 | 404 => match answer.into_success() {
                Err(e) => Err(e.into()),
                Ok(_) => Ok(Vec::new()),
            },
            _ if is_bulk => Ok(all(|_| Step::Alone, wait)),
            _ => self.refused(answer),
        }
    }

    fn refused(&self, answer: Answer) -> Result<Vec<Step>, TransferError> {
        let reason = match answer.into_success() {
            Err(ClientError::Refused(r)) => {
                let told = fault::in_plain_words(&r.message);
                format!("{}/{}: {told}", r.status, r.sub_status)
            }
            Err(e) => return Err(e.into()),
            Ok(answer) => format!("unexpected status {}", answer.status),
        };
        Ok(vec![Step::Verdict(Verdict::Refused(reason))])
    }

    /// Judges a conflict: it is no fault if an item with this id exists and existing items are
    /// kept, or if an earlier attempt of this import stored the same item.
    async fn judged(
        &self,
        item: &Item,
        message: &str,
        may_have_arrived: bool,
    ) -> Result<Verdict, TransferError> {
        let is_repeated = may_have_arrived
            || item.ordinal <= self.sent_before
            || self.may_repeat.load(Ordering::Relaxed);
        let keeps = self.mode == Mode::SkipExisting;
        let mut exists = names_the_id(message);
        // A unique key of another item conflicts too; then there is no item to keep.
        if is_repeated || (keeps && !exists) {
            let patient = self.client.with_patience(THROTTLED_TIME_MAX);
            match patient
                .read_item(&self.container, &item.key, &item.id)
                .await
            {
                Ok(stored) if is_repeated && is_same(&stored.body, &item.text) => {
                    return Ok(Verdict::Created);
                }
                Ok(_) => exists = true,
                Err(e) if e.is_not_found() => exists = false,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(match (exists, message) {
            (true, _) if keeps => Verdict::Existing,
            (true, _) => Verdict::Refused(format!(
                "{ID_EXISTS}the container has an item with the id '{}' and this partition key",
                item.id
            )),
            (false, "") => Verdict::Refused(
                "409/0: the container has another item with the same value of a unique key"
                    .to_owned(),
            ),
            (false, message) => Verdict::Refused(format!("409/0: {message}")),
        })
    }

    /// Reads the ranges again if an item was sent alone, because its range may have gone.
    pub(super) async fn refresh_ranges(&self) -> Result<(), TransferError> {
        if !self.is_stale.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let ranges = self.client.fresh_ranges(&self.container).await?;
        let router = Router::new(&ranges).map_err(TransferError::Failed)?;
        *self.router.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(router);
        Ok(())
    }
}

fn throttled_for_long() -> TransferError {
    TransferError::Failed(format!(
        "the server throttled a request for {} s: raise the throughput of the container, or lower \
         the speed with --rate",
        THROTTLED_TIME_MAX.as_secs()
    ))
}

/// Returns true if the server may have carried out the request of an error.
fn may_have_arrived(error: &TransferError) -> bool {
    match error {
        TransferError::Request { error, .. } => match &**error {
            ClientError::Unreachable {
                may_have_arrived, ..
            } => *may_have_arrived,
            ClientError::Unexpected { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

/// Returns the step that follows from one result.
fn step_of(done: BulkResult) -> Step {
    match done.status_code {
        201 => Step::Verdict(Verdict::Created),
        200 => Step::Verdict(Verdict::Replaced),
        409 => Step::Conflict(fault::in_plain_words(&done.message)),
        408 | 424 | 429 | 449 | 500 | 503 => {
            let named = Duration::try_from_secs_f64(done.retry_after_milliseconds / 1000.0);
            let wait = named.unwrap_or_default();
            Step::Again(if wait.is_zero() {
                RETRY_AFTER_DEFAULT
            } else {
                wait
            })
        }
        410 => Step::Alone,
        status => {
            let message = match done.message.as_str() {
                "" => "the server gives no reason",
                message => message,
            };
            let message = fault::in_plain_words(message);
            let reason = format!("{status}/{}: {message}", done.sub_status_code);
            Step::Verdict(Verdict::Refused(reason))
        }
    }
}

/// Returns true if two items differ at most in the properties that the server sets.
fn is_same(stored: &[u8], own: &[u8]) -> bool {
    let without = |text: &[u8]| -> Option<Json> {
        let Json::Object(mut object) = parse(text).ok()? else {
            return None;
        };
        for name in SYSTEM_PROPERTIES {
            object.remove(name);
        }
        Some(Json::Object(object))
    };
    match (without(stored), without(own)) {
        (Some(Json::Object(a)), Some(Json::Object(b))) => same_members(&a, &b),
        _ => false,
    }
}

/// Compares two objects without regard to the order of their members.
fn same_members(a: &Object, b: &Object) -> bool {
    a.len() == b.len()
        && a.iter()
            .all(|(name, value)| b.get(name).is_some_and(|other| deep_equal(value, other)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_item_is_compared_without_system_properties() {
        let own = br#"{"pk":"x","id":"1","n":[1,{"a":2}]}"#;
        let stored = br#"{"id":"1","pk":"x","n":[1,{"a":2}],"_rid":"r","_ts":7}"#;
        assert!(is_same(stored, own));
        assert!(!is_same(br#"{"id":"1","pk":"x"}"#, own));
        assert!(!is_same(b"", own));
    }

    #[test]
    fn a_throttled_result_is_repeated_after_the_time_that_the_server_names() {
        let done: Vec<BulkResult> =
            serde_json::from_str(r#"[{"statusCode":429,"retryAfterMilliseconds":12}]"#).unwrap();
        for done in done {
            assert!(matches!(step_of(done), Step::Again(wait) if wait.as_millis() == 12));
        }
    }
}
