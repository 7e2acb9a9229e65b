//! Change feeds that a migration follows, with stored positions.
//!
//! A [`FollowedFeed`] reads the feed of each physical partition of a container page by page, and
//! stores the positions after every round, in one item of the container `state`. A migrator that
//! is started again continues from the stored positions and processes the last round once more at
//! most.

use crate::feed::Positions;
use crate::sync::lock;
use crate::{BlogError, Client, Control, Meter};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Changes in one page of a partition's feed.
const PAGE_SIZE: usize = 500;

/// The work of one round over all partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Round {
    /// Number of changes processed.
    pub changes: u64,
    /// True if no partition has moved: all changes up to the beginning of the round are processed.
    pub is_at_end: bool,
}

impl Round {
    /// Number of changes that a running application may make during one round.
    const FEW: u64 = 100;

    /// Returns the work of two rounds.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            changes: self.changes + other.changes,
            is_at_end: self.is_at_end && other.is_at_end,
        }
    }

    /// Returns true if few or no changes were left.
    pub(super) fn is_nearly_at_end(self) -> bool {
        self.is_at_end || (1..=Self::FEW).contains(&self.changes)
    }
}

/// The change feed of one container.
pub(super) struct FollowedFeed {
    client: Client,
    control: Control,
    /// Link of the container.
    container: String,
    /// Id of the stored positions.
    id: String,
    positions: Mutex<Positions>,
    /// Number of changes processed since the beginning of the feed.
    changes: AtomicU64,
    /// Time of the change processed last, in seconds since 1970; 0 at the end of the feed.
    at_seconds: AtomicI64,
}

impl FollowedFeed {
    /// Returns the feed of `container`, at its stored positions or at its beginning. `purpose`
    /// distinguishes the feeds of one migration.
    pub(super) async fn open(
        control: &Control,
        migration: &str,
        purpose: &str,
        container: &str,
    ) -> Result<Self, BlogError> {
        let id = format!("{migration}-{purpose}");
        let stored = control
            .client
            .read(&Meter::new(), &control.state, &id, &id)
            .await;
        let (positions, changes) = match stored {
            Ok(item) => (
                Positions::from_json(&item["positions"])?,
                item["changes"].as_u64().unwrap_or(0),
            ),
            Err(e) if e.is_not_found() => (Positions::default(), 0),
            Err(e) => return Err(e),
        };
        Ok(Self {
            client: control.client.clone(),
            control: control.clone(),
            container: container.to_owned(),
            id,
            positions: Mutex::new(positions),
            changes: AtomicU64::new(changes),
            at_seconds: AtomicI64::new(0),
        })
    }

    /// Returns the number of changes processed since the beginning of the feed.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Returns the time since the change processed last, in seconds. 0 at the end of the feed.
    pub(super) fn lag_seconds(&self) -> u64 {
        match self.at_seconds.load(Ordering::Relaxed) {
            0 => 0,
            at => (jiff::Timestamp::now().as_second() - at).max(0) as u64,
        }
    }

    /// Deletes the stored positions.
    pub(super) async fn forget(
        control: &Control,
        migration: &str,
        purpose: &str,
    ) -> Result<(), BlogError> {
        let id = format!("{migration}-{purpose}");
        let deleted = control
            .client
            .delete(&Meter::new(), &control.state, &id, &id, None)
            .await;
        match deleted {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Processes the next page of every partition with `react`, then stores the positions.
    ///
    /// # Errors
    /// The first error of a request or reaction. The pages of other partitions stay processed.
    pub(super) async fn round<F>(&self, react: impl Fn(Vec<Value>) -> F) -> Result<Round, BlogError>
    where
        F: Future<Output = Result<(), BlogError>>,
    {
        let ranges = self.client.ranges(&self.container).await?;
        let positions = lock(&self.positions).clone();
        let pages = ranges.iter().map(|range| {
            let etag = positions.position_of(range);
            self.page(&range.id, etag, &react)
        });
        let results = join_all(pages).await;

        let mut round = Round {
            changes: 0,
            is_at_end: true,
        };
        let mut failure = None;
        for (range, result) in ranges.iter().zip(results) {
            match result {
                Ok((etag, changes)) => {
                    let before = positions.position_of(range);
                    round.is_at_end &= changes == 0 && before == Some(etag.as_str());
                    round.changes += changes;
                    lock(&self.positions).set(&range.id, etag);
                }
                Err(e) => failure = Some(e),
            }
        }
        self.changes.fetch_add(round.changes, Ordering::Relaxed);
        if round.is_at_end {
            self.at_seconds.store(0, Ordering::Relaxed);
        } else {
            self.store().await?;
        }
        match failure {
            None => Ok(round),
            // The partition was split: the new ranges continue from its position.
            Some(e) if e.is_range_gone() => {
                self.client.clear_cached_metadata(&self.container);
                round.is_at_end = false;
                Ok(round)
            }
            Some(e) => Err(e),
        }
    }

    /// Processes one page of a partition. Returns the position after the page and the number of
    /// changes.
    async fn page<F>(
        &self,
        range: &str,
        etag: Option<&str>,
        react: &impl Fn(Vec<Value>) -> F,
    ) -> Result<(String, u64), BlogError>
    where
        F: Future<Output = Result<(), BlogError>>,
    {
        let changes = self
            .client
            .changes(&Meter::new(), &self.container, range, etag, PAGE_SIZE)
            .await?;
        let count = changes.items.len() as u64;
        if let Some(last) = changes.items.last() {
            let at = last["_ts"].as_i64().unwrap_or(0);
            self.at_seconds.store(at, Ordering::Relaxed);
            react(changes.items).await?;
        }
        Ok((changes.etag, count))
    }

    async fn store(&self) -> Result<(), BlogError> {
        let positions = lock(&self.positions).to_json();
        let item = json!({
            "id": self.id,
            "type": "positions",
            "positions": positions,
            "changes": self.changes(),
        });
        let control = &self.control;
        control
            .client
            .upsert(&Meter::new(), &control.state, &self.id, &item, None)
            .await
    }
}

/// Returns the positions at the end of the change feed of a container.
pub(super) async fn end_of_feed(client: &Client, container: &str) -> Result<Positions, BlogError> {
    let mut positions = Positions::default();
    for range in client.ranges(container).await?.iter() {
        let mut etag: Option<String> = None;
        loop {
            let changes = client
                .changes(
                    &Meter::new(),
                    container,
                    &range.id,
                    etag.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            let is_at_end = changes.items.is_empty() && etag.as_ref() == Some(&changes.etag);
            etag = Some(changes.etag);
            if is_at_end {
                break;
            }
        }
        if let Some(etag) = etag {
            positions.set(&range.id, etag);
        }
    }
    Ok(positions)
}
