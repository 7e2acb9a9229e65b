//! Draining: a pipeline without workers and leases that processes its feed to the end.
//!
//! The positions are in memory, and their owner may store them. For tests; an application
//! uses [`super::Pipelines`].

use super::Pipeline;
use super::reactions::{Page, sum_concurrently};
use crate::{BlogError, Meter};
use futures_util::future::join_all;

/// Changes in one page of a partition's feed.
const PAGE_SIZE: usize = 500;
/// Splits during one run after which a pipeline gives up.
const SPLITS_MAX: usize = 10;

/// The work that a pipeline has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PipelineProgress {
    /// Number of changes read.
    pub changes: u64,
    /// Number of items written in reaction.
    pub written: u64,
}

impl std::ops::AddAssign for PipelineProgress {
    fn add_assign(&mut self, other: Self) {
        self.changes += other.changes;
        self.written += other.written;
    }
}

impl Pipeline {
    /// Reads changes and reacts to them until no partition has further changes.
    ///
    /// # Errors
    /// The first error of a request. The positions of partitions without an error are kept.
    pub async fn drain(&mut self) -> Result<PipelineProgress, BlogError> {
        self.drain_metered(&Meter::new()).await
    }

    /// Does the same as [`Pipeline::drain`] and adds the requests to `meter`.
    ///
    /// # Errors
    /// Those of [`Pipeline::drain`].
    pub async fn drain_metered(&mut self, meter: &Meter) -> Result<PipelineProgress, BlogError> {
        let mut progress = PipelineProgress::default();
        let mut splits = 0;
        loop {
            match self.process_next_pages(meter).await {
                Ok(done) if done.changes == 0 => return Ok(progress),
                Ok(done) => progress += done,
                Err(e) if e.is_range_gone() && splits < SPLITS_MAX => {
                    // A partition was split: the new ranges continue from the parent's position.
                    splits += 1;
                    self.blog.client.clear_cached_metadata(self.container());
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Processes the next page of every partition.
    async fn process_next_pages(&mut self, meter: &Meter) -> Result<PipelineProgress, BlogError> {
        let ranges = self.blog.client.ranges(self.container()).await?;
        let mut pages = Vec::with_capacity(ranges.len());
        for range in ranges.iter() {
            let etag = self.positions.position_of(range);
            pages.push(self.process_page(meter, &range.id, etag));
        }
        let results = join_all(pages).await;

        // A failed partition does not discard the work of the others: their positions move forward.
        let mut progress = PipelineProgress::default();
        let mut failure = None;
        for (range, result) in ranges.iter().zip(results) {
            match result {
                Ok((etag, done)) => {
                    self.positions.set(&range.id, etag);
                    progress += done;
                }
                Err(e) => failure = Some(e),
            }
        }
        match failure {
            Some(e) => Err(e),
            None => Ok(progress),
        }
    }

    /// Processes one page of a partition. Returns the position after the page.
    async fn process_page(
        &self,
        meter: &Meter,
        range: &str,
        etag: Option<&str>,
    ) -> Result<(String, PipelineProgress), BlogError> {
        let changes = self
            .blog
            .client
            .changes(meter, self.container(), range, etag, PAGE_SIZE)
            .await?;
        let mut progress = PipelineProgress {
            changes: changes.items.len() as u64,
            written: 0,
        };
        let page = Page::default();
        for reaction in &self.reactions {
            let items = reaction.concerned(&changes.items);
            let at_a_time = reaction.items_at_a_time();
            let reactions = items
                .into_iter()
                .map(|item| self.react(*reaction, &page, meter, item));
            progress.written += sum_concurrently(at_a_time, reactions.collect::<Vec<_>>()).await?;
        }
        Ok((changes.etag, progress))
    }
}
