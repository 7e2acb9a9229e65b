//! The cost of a write together with the pipelines that it sets off.
//!
//! The article's table has the write alone: C2 of V3 is one create. The copies follow through the
//! change feed, and their charges are paid as well. This module makes writes one after another,
//! waits for their reactions, and divides the charges of the pipelines by the number of writes:
//!
//! ```text
//! C2 with its pipelines = create in posts + copy to users + copy to feed, with its trigger
//!                         + the pages of the change feed that carried the changes
//! ```
//! The position of a range is stored after each page, in a container of the application; its charge
//! is a row of its own. Empty pages and heartbeats depend on time and not on writes, and are left
//! out.
//!
//! The delivery time is measured by the clock of this process, from before the write to the end of
//! the last reaction. The writer wakes the pipelines, as an application in the same process does.

use crate::bench::percentile;
use crate::dataset::{Dataset, Post};
use crate::models::{Blog, Model};
use crate::pipelines::{Pipeline, Pipelines, ServiceOptions, Status};
use crate::progress::Progress;
use crate::report::{CopySummary, WriteRow};
use crate::{BlogError, Charge, Control, Meter};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most renames: each rewrites hundreds or thousands of items.
const RENAMES_MAX: usize = 10;
/// The wait between two looks for a reaction.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Time after which a reaction that has not come is an error.
const REACTION_TIME_MAX: Duration = Duration::from_secs(120);

/// A model with running pipelines.
pub(crate) struct PipelineBench<'a> {
    blog: &'a Blog,
    data: &'a Dataset,
    pipelines: Pipelines,
    runs: usize,
}

/// The writes of one kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    CreatePost,
    EditPost,
    RenameUser,
}

impl Write {
    /// Returns the name of the row.
    fn name(self) -> &'static str {
        match self {
            Self::CreatePost => "C2",
            Self::EditPost => "C2 edit",
            Self::RenameUser => "C1 edit",
        }
    }

    /// Returns the number of reactions that follow directly.
    fn reactions(self, model: Model) -> usize {
        match (self, model) {
            (Self::RenameUser, Model::V2 | Model::V3) => 1,
            (Self::CreatePost | Self::EditPost, Model::V3) => 2,
            _ => 0,
        }
    }
}

/// Charges of the pipelines up to one moment.
#[derive(Default)]
struct Spent {
    /// By name of the reaction.
    reactions: BTreeMap<String, u64>,
    /// Of pages with changes.
    feed: u64,
    /// Of stored positions.
    positions: u64,
}

impl Spent {
    fn of(status: &Status) -> Self {
        let mut spent = Self::default();
        let mut total = 0;
        for pipeline in &status.pipelines {
            total += pipeline.ranges.iter().map(|range| range.ru.0).sum::<u64>();
            for reaction in &pipeline.reactions {
                let of_reaction = spent.reactions.entry(reaction.name.clone()).or_default();
                *of_reaction += reaction.ru.0;
            }
        }
        // The ranges sum up their pages with changes and all reactions.
        spent.feed = total.saturating_sub(spent.reactions.values().sum());
        spent.positions = status.position_ru.0;
        spent
    }
}

impl<'a> PipelineBench<'a> {
    /// Starts the pipelines of a blog.
    pub(crate) fn start(
        blog: &'a Blog,
        data: &'a Dataset,
        control: &Control,
        runs: usize,
    ) -> PipelineBench<'a> {
        let of_blog = blog.clone();
        let source = Arc::new(move || Pipeline::of(&of_blog));
        let pipelines = Pipelines::new(control, source, ServiceOptions::default());
        pipelines.start();
        Self {
            blog,
            data,
            pipelines,
            runs,
        }
    }

    /// Lets the pipelines write the copies of all loaded posts.
    pub(crate) async fn copy_loaded(&self) -> Result<CopySummary, BlogError> {
        let started = Instant::now();
        self.pipelines.settled().await?;
        let status = self.pipelines.status().await?;
        let ranges = || status.pipelines.iter().flat_map(|p| &p.ranges);
        Ok(CopySummary {
            changes: ranges().map(|range| range.changes).sum(),
            written: ranges().map(|range| range.written).sum(),
            ru: Charge(ranges().map(|range| range.ru.0).sum()).ru(),
            seconds: started.elapsed().as_secs_f64(),
            ranges: ranges().count(),
        })
    }

    /// Stops the pipelines in order. The measurement of single requests must not meet reactions.
    pub(crate) async fn pause(&self) {
        self.pipelines.stop().await;
    }

    /// Measures creates and edits with their pipelines, which are running at the end.
    pub(crate) async fn measure(
        &self,
        progress: &dyn Progress,
    ) -> Result<Vec<WriteRow>, BlogError> {
        self.pipelines.start();
        self.pipelines.settled().await?;
        let mut rows = Vec::new();
        for write in [Write::CreatePost, Write::EditPost, Write::RenameUser] {
            let runs = match write {
                Write::RenameUser => self.runs.min(RENAMES_MAX),
                _ => self.runs,
            };
            let stage = format!("{} of {}", write.name(), self.blog.model);
            progress.begin(&stage, runs as u64);
            rows.extend(self.measure_write(write, runs, progress).await?);
            progress.end();
        }
        self.pipelines.stop().await;
        Ok(rows)
    }

    /// Makes `runs` writes of one kind and returns their rows.
    async fn measure_write(
        &self,
        write: Write,
        runs: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<WriteRow>, BlogError> {
        let before = Spent::of(&self.pipelines.status().await?);
        let (mut write_ru, mut write_ms, mut delivery_ms) = (0, Vec::new(), Vec::new());
        for n in 0..runs {
            let (meter, begun, started) = (Meter::recording(), Timestamp::now(), Instant::now());
            let subject = self.write(write, n, &meter).await?;
            let measurement = meter.measurement(started.elapsed());
            write_ru += measurement.ru.0;
            write_ms.push(measurement.ms);
            self.pipelines.wake().ring_after(&meter.records());
            if let Some(ms) = self.wait_for_reactions(write, &subject, begun).await? {
                delivery_ms.push(ms);
            }
            progress.advance(1);
        }
        self.pipelines.settled().await?;
        let after = Spent::of(&self.pipelines.status().await?);
        Ok(self.rows(
            write,
            runs,
            (write_ru, write_ms),
            delivery_ms,
            (before, after),
        ))
    }

    /// Makes a write and returns the id of the changed post or user.
    async fn write(&self, write: Write, n: usize, meter: &Meter) -> Result<String, BlogError> {
        match write {
            Write::CreatePost => {
                let post = self.fresh_post(n);
                self.blog.create_post(meter, &post).await?;
                Ok(post.id)
            }
            Write::EditPost => {
                let post = self.fresh_post(n);
                // Equal lengths, so that the charge is that of an edit and not of a larger item.
                let (title, content) = (reversed(&post.title), reversed(&post.content));
                let edited = self.blog.edit_post(meter, &post.id, &title, &content);
                edited.await?;
                Ok(post.id)
            }
            Write::RenameUser => {
                // The measurement of single requests has given user 0 many more posts.
                let user = self.data.user(1);
                let name = match n % 2 {
                    0 => reversed(&user.username),
                    _ => user.username,
                };
                self.blog.rename_user(meter, &user.id, &name).await?;
                Ok(user.id)
            }
        }
    }

    /// Returns the `n`-th post that this measurement creates, with the current date.
    fn fresh_post(&self, n: usize) -> Post {
        // The measurement of single requests has created the first ones.
        let mut post = self.data.fresh_post((self.runs + n) as u64);
        let now = Timestamp::now();
        post.created = now.strftime("%Y-%m-%dT%H:%M:%S%.6f0Z").to_string();
        post
    }

    /// Waits for the direct reactions to a write and, after a rename, for what follows from them.
    /// Returns the time from the write to the end of the last one; `None` if there are none.
    async fn wait_for_reactions(
        &self,
        write: Write,
        subject: &str,
        begun: Timestamp,
    ) -> Result<Option<f64>, BlogError> {
        let expected = write.reactions(self.blog.model);
        if expected == 0 {
            return Ok(None);
        }
        let started = Instant::now();
        while self.pipelines.consequences(subject, begun).len() < expected {
            if started.elapsed() > REACTION_TIME_MAX {
                let reason = match self.pipelines.last_error() {
                    Some(error) => format!("no reaction: {error}"),
                    None => "no reaction".to_owned(),
                };
                return Err(BlogError::unexpected(write.name(), reason));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        if write == Write::RenameUser {
            // The renamed posts are changes to which the copies react.
            self.pipelines.settled().await?;
        }
        let reactions = self.pipelines.consequences(subject, begun);
        let last = reactions.iter().map(|reaction| reaction.at).max();
        Ok(last.map(|at| (at.as_microsecond() - begun.as_microsecond()) as f64 / 1e3))
    }

    /// Returns the rows of one kind of write: the write, each reaction, the feed, the sum, and the
    /// positions.
    fn rows(
        &self,
        write: Write,
        runs: usize,
        (write_ru, write_ms): (u64, Vec<f64>),
        delivery_ms: Vec<f64>,
        (before, after): (Spent, Spent),
    ) -> Vec<WriteRow> {
        let mean = |hundredths: u64| hundredths as f64 / 100.0 / runs.max(1) as f64;
        let row = |name: String, hundredths: u64, times: Option<Vec<f64>>| WriteRow {
            name,
            model: self.blog.model,
            ru: mean(hundredths),
            ms: times.map(|mut times| {
                times.sort_unstable_by(f64::total_cmp);
                (percentile(&times, 50.0), percentile(&times, 99.0))
            }),
            runs,
        };
        let mut rows = vec![row(write.name().to_owned(), write_ru, Some(write_ms))];
        if delivery_ms.is_empty() {
            return rows;
        }
        let mut sum = write_ru;
        for (name, ru) in &after.reactions {
            let spent = ru - before.reactions.get(name).copied().unwrap_or(0).min(*ru);
            if spent > 0 {
                sum += spent;
                rows.push(row(format!("+ {name}"), spent, None));
            }
        }
        let feed = after.feed.saturating_sub(before.feed);
        sum += feed;
        rows.push(row("+ change feed".to_owned(), feed, None));
        let name = format!("{} with its pipelines", write.name());
        rows.push(row(name, sum, Some(delivery_ms)));
        let positions = after.positions.saturating_sub(before.positions);
        let name = format!("{}: stored positions", write.name());
        rows.push(row(name, positions, None));
        rows
    }
}

/// Returns a text of the same length with other words.
fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}
