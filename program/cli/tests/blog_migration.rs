//! The migration of a blog under writes: no write fails, every copy agrees with its source, and the
//! contents are those that the users have written; also if the migrator is killed again and again.

use crate::blog_users::{
    Posts, Quiet, Rng, Written, assert_contents, open, simulate_user, site_with_only,
    start_pipelines,
};
use crate::program::{Server, start};
use orrery_blog::pipelines::Pipelines;
use orrery_blog::writes::Writes;
use orrery_blog::{Model, Phase, Site, drift, migrate};
use orrery_test_wait::wait_until_async;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Simulated users.
const USERS: u64 = 4;

/// Runs a test with a server whose data are in memory.
fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let server = start(&["--memory"]).expect("it starts");
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test(server));
}

/// Options of a migration that waits for nothing longer than it must.
fn quick() -> migrate::Options {
    migrate::Options {
        drop_after: Duration::from_millis(500),
        ..migrate::Options::default()
    }
}

/// An application with its pipelines and simulated users.
struct Application {
    site: Site,
    pipelines: Pipelines,
    users: JoinSet<Written>,
    stop: Arc<AtomicBool>,
    posts: Posts,
}

impl Application {
    /// Starts an application whose home is V1.
    async fn start(server: &Server, seed: u64) -> Self {
        let site = site_with_only(server, Model::V1).await;
        let stop = Arc::new(AtomicBool::new(false));
        let posts = Posts::default();
        let writes = Writes::new(site.clone());
        let mut users = JoinSet::new();
        for user in 0..USERS {
            let user = simulate_user(
                writes.clone(),
                seed * USERS + user,
                posts.clone(),
                stop.clone(),
            );
            users.spawn(user);
        }
        Self {
            pipelines: start_pipelines(&site),
            site,
            users,
            stop,
            posts,
        }
    }

    /// Waits until the users have written some posts.
    async fn wait_for_posts(&self, count: usize) {
        wait_until_async("posts of the users", async || {
            assert!(self.users.len() as u64 == USERS, "no user ends by itself");
            let written = self.posts.lock().expect("no user has failed").len();
            if written >= count {
                Ok(())
            } else {
                Err(written)
            }
        })
        .await;
    }

    /// Stops the users and compares everything: copies with sources, contents with the writes.
    async fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let mut written = Vec::new();
        while let Some(user) = self.users.join_next().await {
            written.push(user.expect("no write has failed"));
        }
        self.pipelines.settled().await.expect("the pipelines end");
        self.site.refresh().await.expect("the state is read");
        assert_no_drift(&self.site).await;
        assert_contents(&self.site.blog(self.site.home()), &written).await;
        self.pipelines.stop().await;
        written.iter().map(|user| user.writes).sum()
    }
}

async fn assert_no_drift(site: &Site) {
    let report = drift::check(site, &site.models(), &drift::Options::default())
        .await
        .expect("it compares");
    assert!(report.is_equal(), "{report}");
    assert!(report.items > 0);
}

#[test]
fn a_blog_migrates_through_all_models_while_users_write() {
    with_server(async |server| {
        let application = Application::start(&server, 1).await;
        let migrator = open(&server).await;
        let mut posts = 5;
        for (from, to) in [
            (Model::V1, Model::V2),
            (Model::V2, Model::V3),
            (Model::V3, Model::V1),
            (Model::V1, Model::V3),
        ] {
            application.wait_for_posts(posts).await;
            posts += 3;
            let report = migrate::run(&migrator, to, &quick(), &Quiet).await;
            let report = report.expect("it migrates");
            assert_eq!((report.from, report.to), (from, to));
            assert!(report.copied > 0 && report.compared > 0, "{report:?}");
            application.site.refresh().await.expect("the state is read");
            assert_eq!(application.site.models(), [to]);
            let old = application.site.blog(from);
            let gone = old.user(&orrery_blog::Meter::new(), "user-4").await;
            assert!(gone.is_err_and(|e| e.is_not_found()), "{from} is deleted");
        }
        application.stop().await;
    });
}

#[test]
fn a_migrator_that_is_killed_at_any_point_is_continued() {
    with_server(async |server| {
        let application = Application::start(&server, 2).await;
        application.wait_for_posts(10).await;
        let mut random = Rng::new(7);
        let options = quick();
        let mut killed_in = std::collections::BTreeSet::new();
        for to in [Model::V3, Model::V1] {
            loop {
                // Each migrator is a process of its own, which ends at some await.
                let migrator = open(&server).await;
                let limit = Duration::from_millis(random.next() % 1_000);
                let run = migrate::run(&migrator, to, &options, &Quiet);
                let Ok(ended) = tokio::time::timeout(limit, run).await else {
                    expire_lease(&migrator).await;
                    application.site.refresh().await.expect("the state is read");
                    killed_in.extend(application.site.migration().map(|m| m.phase));
                    if killed_in.len() + 1 >= Phase::ALL.len() || random.next().is_multiple_of(6) {
                        let ended = migrate::run(&migrator, to, &quick(), &Quiet).await;
                        ended.expect("it ends");
                        break;
                    }
                    continue;
                };
                ended.expect("it ends");
                break;
            }
            application.site.refresh().await.expect("the state is read");
            assert_eq!(application.site.home(), to);
        }
        assert!(!killed_in.is_empty());
        application.stop().await;
    });
}

#[test]
fn a_cancelled_migration_leaves_the_home_as_it_was() {
    with_server(async |server| {
        let application = Application::start(&server, 3).await;
        application.wait_for_posts(3).await;
        let migrator = open(&server).await;
        // A write that does not end keeps the migration from its cut-over.
        let turn = application.site.begin_write().await.expect("it begins");
        let options = quick();
        let run = migrate::run(&migrator, Model::V2, &options, &Quiet);
        tokio::select! {
            ended = run => panic!("a write is in progress: {ended:?}"),
            () = until_phase(&application.site, Phase::Copying) => {}
        }
        drop(turn);
        expire_lease(&migrator).await;
        assert!(migrate::cancel(&migrator, &quick()).await.expect("it ends"));
        assert!(
            !migrate::cancel(&migrator, &quick())
                .await
                .expect("it has ended")
        );
        application.site.refresh().await.expect("the state is read");
        assert_eq!(application.site.migration(), None);
        assert_eq!(application.site.models(), [Model::V1]);
        application.stop().await;
    });
}

/// Deletes the lease of a dead migrator, as its time to live does some seconds later.
async fn expire_lease(site: &Site) {
    let control = site.control();
    let meter = orrery_blog::Meter::new();
    let (client, state) = (&control.client, &control.state);
    let deleted = client
        .delete(&meter, state, "migrator", "migrator", None)
        .await;
    assert!(deleted.is_ok() || deleted.is_err_and(|e| e.is_not_found()));
}

/// Waits until the migration of a site has reached a phase.
async fn until_phase(site: &Site, phase: Phase) {
    wait_until_async("the phase of the migration", async || {
        site.refresh().await.expect("the state is read");
        let reached = site.migration().map(|m| m.phase);
        match reached.is_some_and(|reached| reached >= phase) {
            true => Ok(()),
            false => Err(reached),
        }
    })
    .await;
}
