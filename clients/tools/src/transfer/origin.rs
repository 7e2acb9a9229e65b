//! A container of any endpoint as the source of an import.
//!
//! The physical partitions are read one after another, page by page. The mark of a record is the
//! page that it stands on, so that an interrupted import goes on with this page. If a partition is
//! split meanwhile, its successors are read from their beginning, and items come a second time;
//! the import then compares an item that exists with its own.
//!
//! An item that does not change during the import is read. Of an item that changes, the old version
//! or the new is read; an item that is created or deleted meanwhile may or may not be.

use super::ending::TransferError;
use super::feed::{Feed, Incoming, QUEUE};
use super::input::Record;
use orrery_client::{Client, PartitionKeyRange, QueryText, Scope};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

/// A container to read from.
pub(super) struct Origin {
    pub(super) client: Client,
    /// Link of the container.
    pub(super) container: String,
    /// Set when items may come a second time.
    pub(super) may_repeat: Arc<AtomicBool>,
}

/// A page of one physical partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mark {
    /// First hash of the range.
    min: String,
    /// Id of the range.
    range: String,
    /// Position of the page; `None` for the first.
    continuation: Option<String>,
}

impl Origin {
    /// Begins to read the items, as records of `feed`.
    pub(super) fn start(self, feed: Feed) -> mpsc::Receiver<Incoming> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            if let Err(e) = self.read(&feed, &sender).await {
                // Without a receiver the import has ended already.
                let _ = sender.send(Incoming::Failed(e.to_string())).await;
            }
        });
        receiver
    }

    /// Reads all items.
    async fn read(
        &self,
        feed: &Feed,
        sender: &mpsc::Sender<Incoming>,
    ) -> Result<(), TransferError> {
        let name: Arc<str> = format!("{}{}", self.client.endpoint(), self.container).into();
        let mut mark: Option<Mark> = match &feed.settled().mark {
            Some(text) => Some(serde_json::from_str(text).map_err(|e| {
                TransferError::Usage(format!("the checkpoint has no usable position: {e}"))
            })?),
            None => None,
        };
        let mut settled = feed.settled().number;
        let mut ranges = self.client.fresh_ranges(&self.container).await?;
        let mut min = mark.as_ref().map_or(String::new(), |mark| mark.min.clone());
        loop {
            // The next range is the first whose end lies behind the place that was reached.
            let Some(range) = ranges.iter().find(|range| range.max > min).cloned() else {
                return Ok(());
            };
            let start = mark.take().filter(|mark| mark.range == range.id);
            if start.is_none() {
                settled = 0;
            }
            let is_restarted = start.is_none() && range.min < min;
            let continuation = start.and_then(|mark| mark.continuation);
            if is_restarted {
                self.may_repeat.store(true, Ordering::Relaxed);
            }
            match self
                .read_range(feed, sender, &name, &range, continuation, settled)
                .await
            {
                Ok(true) => min = range.max.clone(),
                Ok(false) => return Ok(()),
                Err(ReadError::Gone) => {
                    self.may_repeat.store(true, Ordering::Relaxed);
                    ranges = self.client.fresh_ranges(&self.container).await?;
                }
                Err(ReadError::Other(e)) => return Err(e),
            }
            settled = 0;
        }
    }

    /// Reads one range from a page; returns false if the receiver has gone. `settled` records of
    /// the first page are passed over.
    async fn read_range(
        &self,
        feed: &Feed,
        sender: &mpsc::Sender<Incoming>,
        name: &Arc<str>,
        range: &PartitionKeyRange,
        mut continuation: Option<String>,
        mut settled: u64,
    ) -> Result<bool, ReadError> {
        let query = QueryText::new("SELECT * FROM c");
        loop {
            let page = self
                .client
                .query_page(
                    &self.container,
                    &query,
                    Scope::Range(&range.id),
                    1000,
                    continuation.as_deref(),
                    Vec::new(),
                )
                .await
                .map_err(|e| match e.is_range_gone() {
                    true => ReadError::Gone,
                    false => ReadError::Other(e.into()),
                })?;
            let mark = Mark {
                min: range.min.clone(),
                range: range.id.clone(),
                continuation,
            };
            let mark: Arc<str> = serde_json::to_string(&mark).unwrap_or_default().into();
            for (row, number) in page.rows.into_iter().zip(1..) {
                if number <= settled {
                    continue;
                }
                let record = Record {
                    number,
                    text: row.get().as_bytes().to_vec(),
                    mark: Some(mark.clone()),
                    ..Record::default()
                };
                let incoming = feed.incoming(name, 0, record).await;
                if sender.send(incoming).await.is_err() {
                    return Ok(false);
                }
            }
            settled = 0;
            continuation = page.continuation;
            if continuation.is_none() {
                return Ok(true);
            }
        }
    }
}

enum ReadError {
    /// The range was split.
    Gone,
    Other(TransferError),
}
