//! The migration of a running blog to another model and back, without an error to a user.
//!
//! ```text
//! creating ──> copying ──> comparing ──> cutting over ──> deleting the old model
//! containers   users and   full check    gate closed,     after every application
//! and scripts  posts by    of the        rest copied,     has seen the new home
//!              the feed    copies        home changed
//! ```
//! The phase is part of the stored state of the site, and the positions in the change feeds are
//! stored as well. [`run`] may therefore be killed at any point; the next [`run`] continues:
//!
//! | killed while | the next run |
//! |---|---|
//! | creating | deletes the unfinished target and creates the target again |
//! | copying | continues from the stored positions |
//! | comparing, cutting over | copies the rest and compares again |
//! | deleting | deletes the rest |
//!
//! Promises:
//!
//! 1. A write is never refused because of a migration, and waits for a few seconds at most: if the
//!    cut-over takes longer, the gate is opened and the cut-over is tried again later.
//! 2. Home changes only if every item was found equal, if everything written to the old home has
//!    been copied, and if everything copied since the comparison was compared again. A few items
//!    that change all the time are compared while the gate is closed, so that they hold nothing up.
//! 3. Home changes by one replace of the state, guarded by the etag of a state whose gate is closed
//!    by this migrator. If the applications have opened the gate of a migrator that they took for
//!    dead, home cannot change.
//! 4. One process at a time migrates (`lease`).
//!
//! If the target is present, because the application writes to all models, nothing is copied: the
//! models are compared and home is changed.
//!
//! Left out: a way back after the cut-over other than a migration in the other direction, since the
//! old model does not receive later writes.

mod convert;
mod cut_over;
mod feeds;
mod follow;
mod lease;
mod status;

pub(crate) use convert::{has_names, plain_post_item, plain_user, without_system_properties};
pub use status::MigrationStatus;

use crate::drift::{Comparison, Suspects};
use crate::site::presence::{self, random_id};
use crate::site::state::State;
use crate::sync::lock;
use crate::{Blog, BlogError, Control, Migration, Model, Phase, Progress, Site};
use cut_over::CutOver;
use follow::Follower;
use lease::Lease;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Attempts to change a state that other processes change at the same time.
const CHANGES_MAX: usize = 100;
/// Attempts to cut over, each with a limited time.
const CUT_OVERS_MAX: usize = 20;
/// Number of users and posts that may be left for the time in which the gate is closed.
const FEW: usize = 100;
/// Time between two rounds in which there was nothing to copy.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two updates of the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// The options of a migration.
#[derive(Debug, Clone)]
pub struct Options {
    /// True if the old model is kept, without further changes.
    pub keep_old: bool,
    /// Time between the moment at which every application has seen the new home and the deletion
    /// of the old model. Pages that are read at that moment still need the old model.
    pub drop_after: Duration,
    /// Longest time for which the gate is closed at a time.
    pub gate_time_max: Duration,
    /// Time after which a comparison fails that still finds many differences: by then, copies on
    /// their way have arrived.
    pub patience: Duration,
    /// Time to live of the migrator's lease in seconds. After `kill -9`, the next migrator waits
    /// for this time.
    pub lease_seconds: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_old: false,
            drop_after: Duration::from_secs(5),
            gate_time_max: Duration::from_secs(10),
            patience: Duration::from_secs(60),
            lease_seconds: 6,
        }
    }
}

/// The result of a migration.
#[derive(Debug, Clone, PartialEq)]
pub struct MigrationReport {
    /// The home model before.
    pub from: Model,
    /// The home model now.
    pub to: Model,
    /// Number of changes copied; 0 if the target was present.
    pub copied: u64,
    /// Number of items compared.
    pub compared: u64,
    /// Number of attempts to cut over, the successful one included.
    pub cut_overs: usize,
    /// Time for which the gate was closed at the last attempt, that is, for which writes waited.
    pub gate_closed: Duration,
}

/// Migrates a site to the home model `to` and returns when the migration is complete. Continues a
/// migration to `to` that was interrupted.
///
/// # Errors
/// [`BlogError::InvalidOption`] if `to` is home, if another process migrates the site, or if a
/// migration to another model is in progress; [`BlogError::Drift`] if the copies differ from their
/// source; every error of a request. After any error the migration can be continued by another call
/// or ended by [`cancel`]; the application keeps its home until the cut-over.
pub async fn run(
    site: &Site,
    to: Model,
    options: &Options,
    progress: &dyn Progress,
) -> Result<MigrationReport, BlogError> {
    let lease = Arc::new(Lease::acquire(site.control(), options).await?);
    let mut keeper = lease.keep();
    let work = async {
        let migration = begin(site, to, options).await?;
        let migrator = Migrator {
            site,
            migration,
            options,
            progress,
            lease: lease.clone(),
        };
        migrator.run().await
    };
    let result = tokio::select! {
        result = work => result,
        lost = keeper.lost() => return Err(lost),
    };
    drop(keeper);
    lease.release().await;
    result
}

/// Returns the progress of the migration of a site. `None` if no migration is in progress.
///
/// # Errors
/// Every error of a request.
pub async fn status(site: &Site) -> Result<Option<(Migration, MigrationStatus)>, BlogError> {
    let Some(migration) = site.migration() else {
        return Ok(None);
    };
    let status = match lease::read_item(site.control()).await? {
        Some(item) => MigrationStatus::from_json(&item["status"]),
        None => MigrationStatus {
            step: "interrupted; start the migration again to continue".into(),
            ..MigrationStatus::default()
        },
    };
    Ok(Some((migration, status)))
}

/// Ends a migration that has not cut over, and deletes its target unless the target was present.
/// Returns false if no migration is in progress.
///
/// # Errors
/// [`BlogError::InvalidOption`] after the cut-over, or if another process migrates the site; every
/// error of a request.
pub async fn cancel(site: &Site, options: &Options) -> Result<bool, BlogError> {
    let control = site.control();
    let lease = Arc::new(Lease::acquire(control, options).await?);
    let mut keeper = lease.keep();
    let work = async {
        let (state, _) = presence::read(control).await?;
        let Some(migration) = state.migration else {
            return Ok(false);
        };
        if migration.phase == Phase::Dropping {
            return Err(BlogError::InvalidOption(format!(
                "{} is home already; migrate to {} to go back",
                migration.to, migration.from
            )));
        }
        let ended = transition(control, &migration.id, migration.phase, |state| {
            state.migration = None;
            state.gate = None;
        });
        if ended.await?.is_none() {
            return Err(changed_meanwhile());
        }
        if !migration.was_present {
            let target = site.blog(migration.to);
            target.delete().await?;
            follow::forget_pipelines(control, &target).await?;
        }
        follow::forget(control, &migration.pipeline()).await?;
        site.refresh().await?;
        Ok(true)
    };
    let result = tokio::select! {
        result = work => result,
        lost = keeper.lost() => return Err(lost),
    };
    drop(keeper);
    lease.release().await;
    result
}

/// Begins a migration, or returns the one in progress.
async fn begin(site: &Site, to: Model, options: &Options) -> Result<Migration, BlogError> {
    let control = site.control();
    for _ in 0..CHANGES_MAX {
        let (mut state, etag) = presence::read(control).await?;
        if let Some(migration) = state.migration {
            if migration.to == to {
                return Ok(migration);
            }
            return Err(BlogError::InvalidOption(format!(
                "a migration to {} is in progress; finish or cancel it first",
                migration.to
            )));
        }
        if state.home == to {
            return Err(BlogError::InvalidOption(format!("{to} is home already")));
        }
        let was_present = state.models.contains(&to);
        let migration = Migration {
            id: random_id(),
            from: state.home,
            to,
            was_present,
            keep_old: options.keep_old || was_present,
            phase: if was_present {
                Phase::Checking
            } else {
                Phase::Creating
            },
        };
        state.migration = Some(migration.clone());
        if presence::replace(control, &state, &etag).await?.is_some() {
            return Ok(migration);
        }
    }
    Err(changed_meanwhile())
}

/// Changes the state if the migration `id` is in the phase `phase`. Returns the new state, or
/// `None` if it is not.
async fn transition(
    control: &Control,
    id: &str,
    phase: Phase,
    change: impl Fn(&mut State),
) -> Result<Option<State>, BlogError> {
    for _ in 0..CHANGES_MAX {
        let (mut state, etag) = presence::read(control).await?;
        let is_expected = state
            .migration
            .as_ref()
            .is_some_and(|migration| migration.id == id && migration.phase == phase);
        if !is_expected {
            return Ok(None);
        }
        change(&mut state);
        if presence::replace(control, &state, &etag).await?.is_some() {
            return Ok(Some(state));
        }
    }
    Err(changed_meanwhile())
}

/// Adds everything that was copied since the last call.
fn add_touched(suspects: &mut Suspects, follower: &Follower) -> Result<(), BlogError> {
    let touched = follower.take_touched();
    if touched.is_incomplete {
        return Err(BlogError::unexpected(
            "migration",
            "more changes than can be compared were copied since the comparison; start the \
             migration again to continue",
        ));
    }
    suspects.append(Suspects {
        users: touched.users,
        posts: touched.posts,
        feed: false,
    });
    Ok(())
}

fn changed_meanwhile() -> BlogError {
    BlogError::unexpected(
        "migration",
        "another process changed the state of the site; start the migration again to continue",
    )
}

/// One run of a migration.
struct Migrator<'a> {
    site: &'a Site,
    migration: Migration,
    options: &'a Options,
    progress: &'a dyn Progress,
    lease: Arc<Lease>,
}

impl Migrator<'_> {
    async fn run(mut self) -> Result<MigrationReport, BlogError> {
        let mut report = MigrationReport {
            from: self.migration.from,
            to: self.migration.to,
            copied: 0,
            compared: 0,
            cut_overs: 0,
            gate_closed: Duration::ZERO,
        };
        if self.migration.phase == Phase::CuttingOver {
            // The notes of the interrupted run are lost, so everything is compared again.
            self.open_gate().await?;
            self.advance(Phase::Checking).await?;
        }
        if self.migration.phase == Phase::Creating {
            self.show(Phase::Creating);
            self.create_target().await?;
            self.advance(Phase::Copying).await?;
        }
        if self.migration.phase < Phase::Dropping {
            let follower = self.follower().await?;
            if let Some(follower) = &follower {
                follower.start_pipelines();
            }
            if self.migration.phase == Phase::Copying {
                self.copy(&follower).await?;
                self.advance(Phase::Checking).await?;
            }
            let (compared, left) = self.compare(&follower).await?;
            report.compared = compared;
            self.advance(Phase::CuttingOver).await?;
            self.cut_over(&follower, left, &mut report).await?;
            if let Some(follower) = &follower {
                report.copied = follower.copied();
                follower.stop_pipelines().await;
            }
        }
        self.show(Phase::Dropping);
        self.drop_old().await?;
        Ok(report)
    }

    fn source(&self) -> Blog {
        self.site.blog(self.migration.from)
    }

    fn target(&self) -> Blog {
        self.site.blog(self.migration.to)
    }

    /// Shows a phase that copies nothing.
    fn show(&self, phase: Phase) {
        self.lease.set_status(MigrationStatus::of(phase));
        self.progress.begin(&phase.to_string(), 1);
    }

    async fn advance(&mut self, to: Phase) -> Result<(), BlogError> {
        let from = self.migration.phase;
        let changed = transition(self.site.control(), &self.migration.id, from, |state| {
            if let Some(migration) = &mut state.migration {
                migration.phase = to;
            }
        });
        if changed.await?.is_none() {
            return Err(changed_meanwhile());
        }
        self.migration.phase = to;
        self.progress.end();
        Ok(())
    }

    /// Creates the target and copies the users. A database of an unfinished or an earlier migration
    /// is deleted first: its data are out of date.
    async fn create_target(&self) -> Result<(), BlogError> {
        let (control, target) = (self.site.control(), self.target());
        target.delete().await?;
        follow::forget(control, &self.migration.pipeline()).await?;
        follow::forget_pipelines(control, &target).await?;
        target.create().await?;
        match self.follower().await? {
            Some(follower) => follower.copy_users_first().await,
            None => Ok(()),
        }
    }

    /// Returns the follower, if there is anything to copy.
    async fn follower(&self) -> Result<Option<Follower>, BlogError> {
        if self.migration.was_present {
            return Ok(None);
        }
        let name = self.migration.pipeline();
        let (source, target) = (self.source(), self.target());
        Follower::open(self.site, &name, &source, &target, &self.lease)
            .await
            .map(Some)
    }

    /// Copies the existing data and the changes made meanwhile, until there are no more changes for
    /// a moment.
    async fn copy(&self, follower: &Option<Follower>) -> Result<(), BlogError> {
        let Some(follower) = follower else {
            return Ok(());
        };
        let source = self.source();
        let mut total = 0;
        for container in [&source.users, &source.posts] {
            total += source.client.item_count(container).await?;
        }
        let title = format!("copying {} to {}", self.migration.from, self.migration.to);
        self.progress.begin(&title, total);
        let work = async { follower.catch_up().await.map(drop) };
        tokio::select! {
            result = work => result,
            never = self.show_copy(follower, total) => never,
        }
    }

    /// Shows the progress of the copy. Never returns.
    async fn show_copy(&self, follower: &Follower, total: u64) -> Result<(), BlogError> {
        let began = Instant::now();
        let copied_before = follower.copied();
        let mut shown = 0;
        loop {
            let copied = follower.copied();
            let seconds = began.elapsed().as_secs_f64();
            let per_second = (copied - copied_before) as f64 / seconds.max(0.001);
            let left = total.saturating_sub(copied) as f64 / per_second.max(0.001);
            let has_rate = copied > copied_before && seconds > 1.0;
            self.lease.set_status(MigrationStatus {
                step: Phase::Copying.to_string(),
                copied,
                total,
                per_second,
                lag_seconds: follower.lag_seconds(),
                seconds_left: has_rate.then_some(left.ceil() as u64),
                ..MigrationStatus::default()
            });
            let steps = copied.min(total);
            self.progress.advance(steps.saturating_sub(shown));
            shown = steps.max(shown);
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    /// Follows changes until that fails, and returns the reason.
    async fn follow(&self, follower: &Option<Follower>) -> BlogError {
        let Some(follower) = follower else {
            return std::future::pending().await;
        };
        loop {
            match follower.catch_up().await {
                Ok(true) => tokio::time::sleep(IDLE_INTERVAL).await,
                Ok(false) => {}
                Err(e) => return e,
            }
        }
    }

    /// Compares the target with the source while changes are followed. Returns the number of items
    /// compared, and the few users and posts that still differ: copies on their way, and items that
    /// change all the time. They are compared again while the gate is closed.
    async fn compare(&self, follower: &Option<Follower>) -> Result<(u64, Suspects), BlogError> {
        self.show(Phase::Checking);
        if let Some(follower) = follower {
            follower.catch_up().await?;
            follower.take_touched();
        }
        let comparison = Comparison::of_target(self.source(), self.target());
        let check = async {
            let suspects = comparison.scan().await?;
            let left = self.settle_most(&comparison, suspects).await?;
            Ok((comparison.items_read(), left))
        };
        tokio::select! {
            result = check => result,
            failed = self.follow(follower) => Err(failed),
            never = self.show_comparison(&comparison) => Err(never),
        }
    }

    /// Compares suspects again and again until few are left, and returns them.
    async fn settle_most(
        &self,
        comparison: &Comparison,
        mut suspects: Suspects,
    ) -> Result<Suspects, BlogError> {
        const ROUND: Duration = Duration::from_secs(1);
        let began = Instant::now();
        loop {
            let (report, left) = comparison.settle(suspects, ROUND).await?;
            if left.len() <= FEW {
                return Ok(left);
            }
            if began.elapsed() >= self.options.patience {
                return Err(BlogError::Drift(report.to_string()));
            }
            suspects = left;
        }
    }

    /// Shows the progress of a comparison. Never returns.
    async fn show_comparison(&self, comparison: &Comparison) -> BlogError {
        loop {
            self.lease.set_status(MigrationStatus {
                compared: comparison.items_read(),
                suspects: comparison.suspects_left(),
                ..MigrationStatus::of(Phase::Checking)
            });
            tokio::time::sleep(PROGRESS_INTERVAL).await;
        }
    }

    /// Compares everything that was copied since the comparison, until little is left. Returns the
    /// users and posts that are left: their copies are on their way, or were out of date at each
    /// look because their source changes all the time.
    async fn compare_touched(
        &self,
        follower: &Option<Follower>,
        mut suspects: Suspects,
    ) -> Result<Suspects, BlogError> {
        const ROUNDS_MAX: usize = 10;
        const PATIENCE: Duration = Duration::from_secs(1);
        let comparison = Comparison::of_target(self.source(), self.target());
        let Some(following) = follower else {
            return Ok(suspects);
        };
        for _ in 0..ROUNDS_MAX {
            following.catch_up().await?;
            add_touched(&mut suspects, following)?;
            let is_last = suspects.len() <= FEW;
            (_, suspects) = tokio::select! {
                settled = comparison.settle(suspects, PATIENCE) => settled?,
                failed = self.follow(follower) => return Err(failed),
            };
            if is_last {
                break;
            }
        }
        Ok(suspects)
    }

    /// Copies the rest while nobody writes, and compares everything that was not found equal
    /// before.
    async fn finish_copy(
        &self,
        follower: &Follower,
        left: &Mutex<Suspects>,
    ) -> Result<(), BlogError> {
        follower.drain().await?;
        add_touched(&mut lock(left), follower)?;
        self.finish_comparison(left).await
    }

    /// Compares what is left while nobody writes. Pipelines of the applications may still be at
    /// work if nothing is copied.
    async fn finish_comparison(&self, left: &Mutex<Suspects>) -> Result<(), BlogError> {
        let suspects = lock(left).clone();
        let comparison = Comparison::of_target(self.source(), self.target());
        let patience = self.options.gate_time_max / 2;
        let (report, _) = comparison.settle(suspects, patience).await?;
        if report.is_equal() {
            Ok(())
        } else {
            Err(BlogError::Drift(report.to_string()))
        }
    }

    /// Changes home.
    async fn cut_over(
        &mut self,
        follower: &Option<Follower>,
        left: Suspects,
        report: &mut MigrationReport,
    ) -> Result<(), BlogError> {
        self.show(Phase::CuttingOver);
        // An attempt that ends early leaves here what it has not compared.
        let left = Mutex::new(left);
        for _ in 0..CUT_OVERS_MAX {
            let suspects = lock(&left).clone();
            let suspects = self.compare_touched(follower, suspects).await?;
            *lock(&left) = suspects;
            report.cut_overs += 1;
            let cut_over = CutOver {
                control: self.site.control(),
                migration: &self.migration,
                gate: random_id(),
            };
            let last_step = async {
                match follower {
                    Some(follower) => self.finish_copy(follower, &left).await,
                    None => self.finish_comparison(&left).await,
                }
            };
            let switched = cut_over.run(last_step, self.options.gate_time_max).await?;
            if let Some(gate_closed) = switched {
                report.gate_closed = gate_closed;
                self.migration.phase = Phase::Dropping;
                self.site.refresh().await?;
                self.progress.end();
                return Ok(());
            }
        }
        Err(BlogError::unexpected(
            "migration",
            format!(
                "the cut-over took longer than {} s at each of {CUT_OVERS_MAX} attempts; the old \
                 home is still in use; start the migration again at a time with fewer writes",
                self.options.gate_time_max.as_secs()
            ),
        ))
    }

    /// Opens a gate that an interrupted run left closed.
    async fn open_gate(&self) -> Result<(), BlogError> {
        let phase = self.migration.phase;
        transition(self.site.control(), &self.migration.id, phase, |state| {
            state.gate = None;
        })
        .await?;
        Ok(())
    }

    /// Deletes the old model, as soon as no application uses it, and ends the migration.
    async fn drop_old(&self) -> Result<(), BlogError> {
        let control = self.site.control();
        if !self.migration.keep_old {
            let (state, _) = presence::read(control).await?;
            cut_over::wait_for_epoch(control, state.epoch).await?;
            tokio::time::sleep(self.options.drop_after).await;
            self.lease.check()?;
            self.source().delete().await?;
            follow::forget_pipelines(control, &self.source()).await?;
        }
        follow::forget(control, &self.migration.pipeline()).await?;
        let ended = transition(control, &self.migration.id, Phase::Dropping, |state| {
            state.migration = None;
        });
        if ended.await?.is_none() {
            return Err(changed_meanwhile());
        }
        self.site.refresh().await?;
        self.progress.end();
        Ok(())
    }
}
