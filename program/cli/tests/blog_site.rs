//! The gate of a blog's site: writes wait for a cut-over and never fail because of it, and dead
//! processes hold nothing up for long.

use crate::blog_users::{Quiet, client, open, site_with_only, throughput};
use crate::program::{Server, start};
use orrery_blog::{Meter, Model, Site, migrate};
use orrery_test_wait::wait_until_async;
use serde_json::{Value, json};
use std::future::Future;
use std::time::Duration;

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
        drop_after: Duration::ZERO,
        lease_seconds: 2,
        ..migrate::Options::default()
    }
}

/// Reads the state of a site as it is stored.
async fn stored_state(site: &Site) -> Value {
    let control = site.control();
    control
        .client
        .read(&Meter::new(), &control.state, "site", "site")
        .await
        .expect("the state")
}

/// Stores another state.
async fn store_state(site: &Site, state: &Value) {
    let control = site.control();
    control
        .client
        .upsert(&Meter::new(), &control.state, "site", state, None)
        .await
        .expect("the state is stored");
}

#[test]
fn a_site_keeps_its_home_when_it_is_opened_with_another_one() {
    with_server(async |server| {
        let site = site_with_only(&server, Model::V2).await;
        assert_eq!(site.models(), [Model::V2]);
        let again =
            Site::open_or_create(client(&server), "blog", Model::V3, false, throughput()).await;
        let again = again.expect("it opens");
        assert_eq!(again.home(), Model::V2);
        assert_eq!(again.models(), [Model::V2]);
        let missing = Site::open(client(&server), "other", throughput()).await;
        let error = missing.err().expect("there is no such site").to_string();
        assert!(error.contains("'other'"), "{error}");
    });
}

#[test]
fn a_change_of_home_waits_for_a_write_and_the_next_write_waits_for_the_change() {
    with_server(async |server| {
        let application = site_with_only(&server, Model::V1).await;
        let migrator = open(&server).await;
        let turn = application.begin_write().await.expect("the gate is open");
        assert_eq!(
            (turn.home, turn.models.clone()),
            (Model::V1, vec![Model::V1])
        );

        let migration =
            tokio::spawn(async move { migrate::run(&migrator, Model::V2, &quick(), &Quiet).await });
        // The gate closes while the write is in progress.
        wait_until_async("a closed gate", async || {
            assert!(!migration.is_finished(), "a write is in progress");
            let state = stored_state(&application).await;
            if state["gate"].is_null() {
                Err(state)
            } else {
                Ok(())
            }
        })
        .await;
        application.refresh().await.expect("the state is read");
        let site = application.clone();
        let next = tokio::spawn(async move { site.begin_write().await });
        assert_eq!(application.home(), Model::V1);
        assert!(turn.is_current().await.expect("the state is known"));
        drop(turn);

        let next = next.await.expect("no panic").expect("no error");
        assert_eq!(
            (next.home, next.models.clone()),
            (Model::V2, vec![Model::V2])
        );
        drop(next);
        let report = migration.await.expect("no panic").expect("it migrates");
        assert_eq!((report.from, report.to), (Model::V1, Model::V2));
        application.refresh().await.expect("the state is read");
        assert_eq!(application.home(), Model::V2);
        assert_eq!(application.migration(), None);
    });
}

#[test]
fn the_gate_of_a_dead_migrator_is_opened_by_the_applications() {
    with_server(async |server| {
        let site = site_with_only(&server, Model::V1).await;
        let mut state = stored_state(&site).await;
        state["gate"] = json!({"id": "of-a-dead-migrator", "renewals": 0});
        store_state(&site, &state).await;
        site.refresh().await.expect("the state is read");

        let turn = site.begin_write().await.expect("it waits and begins");
        assert_eq!(turn.home, Model::V1);
        assert!(stored_state(&site).await["gate"].is_null());
    });
}

#[test]
fn a_migrator_whose_gate_was_opened_does_not_change_home() {
    with_server(async |server| {
        let site = site_with_only(&server, Model::V1).await;
        // A write that does not end keeps the cut-over waiting.
        let turn = site.begin_write().await.expect("the gate is open");
        let migrator = open(&server).await;
        let migration =
            tokio::spawn(async move { migrate::run(&migrator, Model::V2, &quick(), &Quiet).await });
        for _ in 0..2 {
            let mut state = wait_until_async("a closed gate", async || {
                assert!(!migration.is_finished(), "a write is in progress");
                let state = stored_state(&site).await;
                if state["gate"].is_null() {
                    Err(state)
                } else {
                    Ok(state)
                }
            })
            .await;
            // As an application does that takes the migrator for dead.
            state["gate"] = Value::Null;
            store_state(&site, &state).await;
            assert_eq!(stored_state(&site).await["home"], "V1");
        }
        drop(turn);
        // The migrator tries again with another gate.
        let report = migration.await.expect("no panic").expect("it migrates");
        assert!(report.cut_overs >= 2, "{report:?}");
    });
}

#[test]
fn an_application_that_stops_answering_holds_a_change_of_home_up_for_a_few_seconds_only() {
    with_server(async |server| {
        let site = site_with_only(&server, Model::V1).await;
        // Another process begins a write and is stopped in the middle of it.
        let frozen = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let other = frozen.spawn({
            let client = client(&server);
            async move {
                let other = Site::open(client, "blog", throughput()).await;
                let other = other.expect("the site exists");
                let turn = other.begin_write().await.expect("the gate is open");
                (other, turn)
            }
        });
        let (other, turn) = other.await.expect("no panic");
        frozen.shutdown_background();

        let migrated = migrate::run(&site, Model::V2, &quick(), &Quiet).await;
        assert_eq!(migrated.expect("it migrates").to, Model::V2);
        // The process goes on: its write belongs to the earlier home.
        assert_eq!(turn.home, Model::V1);
        assert!(!turn.is_current().await.expect("the state is read"));
        assert_eq!(other.home(), Model::V2);
    });
}
