//! The move of the big tenant from the shared container to its own, while it writes.
//!
//! ```text
//! 1. copy       all orders by the change feed of the tenant's key, from the beginning
//! 2. catch up   the changes since, until few are left
//! 3. switch     close the gate, read the feed to its end, change the route, open the gate
//! 4. clean up   delete the tenant's key in the shared container
//! ```
//!
//! The feed returns each item in its newest version, in the order of the last changes. A page holds
//! an item at most once, so the writes of a page may run at the same time.

use crate::noise::{BIG, SMALL};
use crate::route::{Place, Route};
use crate::writers::{Orders, Writers};
use orrery_examples::client::Method;
use orrery_examples::container::{Container, Database, Scope};
use orrery_examples::table::{Table, heading, text};
use orrery_examples::{Result, check};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinSet;

/// Throughput of the tenant's own container, in RU/s.
const THROUGHPUT: u32 = 4_000;
/// Writes that must be acknowledged before the copy, between copy and switch, and after the switch.
const WRITES_EACH: usize = 100;
/// Changes of a page below which the gate is closed.
const FEW_CHANGES: usize = 30;
/// Pages of catching up before the gate is closed in any case.
const PAGES_MAX: usize = 200;
/// Filter of orders that are not deleted.
const LIVING: &str = "SELECT c.id, c.version FROM c WHERE NOT IS_DEFINED(c.deleted)";

/// The number of changes in each phase.
#[derive(Default)]
struct Progress {
    copied: usize,
    caught_up: usize,
    while_closed: usize,
    closed_ms: f64,
}

/// Shows the move.
pub(crate) async fn show(
    database: &Database,
    shared: &Container,
    route: &Arc<Route>,
) -> Result<()> {
    heading("4. The big tenant moves to its own container while it writes");
    let others_before = count_others(shared).await?;
    let mut writers = Writers::start(route);
    writers.wait_for(WRITES_EACH).await?;

    // The tenant's own container has another key, which spreads the orders of the tenant.
    let own = database
        .create_container("orders-of-big", "/id", THROUGHPUT)
        .await?;
    let mut feed = Feed::of(shared);
    let mut progress = Progress::default();
    copy_stored(&mut feed, &own, &mut progress).await?;
    writers.wait_for(WRITES_EACH).await?;
    catch_up(&mut feed, &own, &mut progress).await?;
    let at_switch = switch(&mut feed, &own, route, &mut progress).await?;
    let writes_before = writers.writes();
    writers.wait_for(WRITES_EACH).await?;
    let writes_after = writers.writes() - writes_before;
    let expected = writers.stop().await?;

    verify(&own, &expected).await?;
    shared.delete_key(BIG).await?;
    check(
        shared.count(Scope::Key(BIG)).await? == 0,
        "the deletion of a partition key leaves none of its items",
    )?;
    check(
        count_others(shared).await? == others_before,
        "a move leaves the items of other tenants as they are",
    )?;
    print(&progress, at_switch, writes_after, &expected);
    Ok(())
}

/// The change feed of the big tenant in the shared container, and the position in the feed.
struct Feed {
    source: Container,
    position: Option<String>,
}

impl Feed {
    fn of(source: &Container) -> Feed {
        Feed {
            source: source.clone(),
            position: None,
        }
    }

    /// Copies one page of changes and returns their number.
    async fn copy_page(&mut self, target: &Container) -> Result<usize> {
        let (items, next) = self.source.changes(BIG, self.position.as_deref()).await?;
        let copied = items.len();
        let mut writes = JoinSet::new();
        for item in items {
            writes.spawn(apply(target.clone(), item));
        }
        while let Some(done) = writes.join_next().await {
            done??;
        }
        // The position moves after the page is written: a page that is copied twice does no harm.
        self.position = Some(next);
        Ok(copied)
    }
}

/// Writes a changed item to the target, or deletes the item if the change marks a deletion.
async fn apply(target: Container, mut item: Value) -> Result<()> {
    let id = item["id"].as_str().unwrap_or_default().to_owned();
    if item["deleted"] == true {
        let response = target.doc(Method::DELETE, &id).key(&id).send().await?;
        // The target may not have the item yet.
        let status = if response.status == 404 { 404 } else { 204 };
        return response.expect(status).map(drop);
    }
    if let Some(members) = item.as_object_mut() {
        // The system properties belong to the source.
        members.retain(|name, _| !name.starts_with('_'));
    }
    target.upsert(&id, &item).await.map(drop)
}

/// Copies as many changes as the tenant had orders at the beginning.
async fn copy_stored(feed: &mut Feed, own: &Container, progress: &mut Progress) -> Result<()> {
    let stored = feed.source.count(Scope::Key(BIG)).await? as usize;
    while progress.copied < stored {
        match feed.copy_page(own).await? {
            0 => break,
            copied => progress.copied += copied,
        }
    }
    Ok(())
}

/// Copies further pages until one has few changes.
async fn catch_up(feed: &mut Feed, own: &Container, progress: &mut Progress) -> Result<()> {
    for _ in 0..PAGES_MAX {
        let copied = feed.copy_page(own).await?;
        progress.caught_up += copied;
        if copied < FEW_CHANGES {
            break;
        }
    }
    Ok(())
}

/// Closes the gate, copies the last changes, compares the counts and changes the route. Returns the
/// number of orders.
async fn switch(
    feed: &mut Feed,
    own: &Container,
    route: &Route,
    progress: &mut Progress,
) -> Result<usize> {
    let started = Instant::now();
    let mut place = route.close().await;
    loop {
        match feed.copy_page(own).await? {
            0 => break,
            copied => progress.while_closed += copied,
        }
    }
    let in_shared = feed.source.query(Scope::Key(BIG), LIVING, &[]).await?;
    let in_own = own.query(Scope::All, LIVING, &[]).await?;
    check(
        versions(&in_shared.rows) == versions(&in_own.rows),
        "both containers hold the same orders in the same versions when the route changes",
    )?;
    *place = Place {
        container: own.clone(),
        key: "id",
    };
    drop(place);
    progress.closed_ms = started.elapsed().as_secs_f64() * 1_000.0;
    Ok(in_own.rows.len())
}

/// Returns the version of each order by its id.
fn versions(rows: &[Value]) -> HashMap<&str, Option<u64>> {
    let mut versions = HashMap::new();
    for row in rows {
        let id = row["id"].as_str().unwrap_or_default();
        versions.insert(id, row["version"].as_u64());
    }
    versions
}

/// Compares the tenant's container with what the writers know to be acknowledged.
async fn verify(own: &Container, expected: &Orders) -> Result<()> {
    let found = own.query(Scope::All, LIVING, &[]).await?;
    let found = versions(&found.rows);
    for (id, version) in expected {
        let stored = found.get(id.as_str()).copied().flatten();
        check(
            stored == version.map(|version| version as u64),
            &format!("no acknowledged write is lost: {id} is {stored:?}, not {version:?}"),
        )?;
    }
    Ok(())
}

/// Returns the number of items of each small tenant.
async fn count_others(shared: &Container) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for tenant in SMALL {
        counts.push(shared.count(Scope::Key(tenant)).await?);
    }
    Ok(counts)
}

fn print(progress: &Progress, at_switch: usize, writes_after: usize, expected: &Orders) {
    let mut table = Table::new(&["phase", "changes"]);
    let mut add = |phase: String, changes: usize| table.row([phase, format!("~{changes}")]);
    add(
        "copied from the beginning of the feed".into(),
        progress.copied,
    );
    add("copied while catching up".into(), progress.caught_up);
    add("copied with the gate closed".into(), progress.while_closed);
    add("written after the switch".into(), writes_after);
    table.print();
    let deleted = expected
        .values()
        .filter(|version| version.is_none())
        .count();
    text(&format!(
        "At the switch both containers held the same ~{at_switch} orders. The gate was closed \
         for ~{:.0} ms; requests waited and none failed. In the end each of the ~{} orders of \
         the writers had its acknowledged version, and the ~{deleted} deleted ones were gone. \
         Orders lost: 0. Orders of other tenants changed: 0.",
        progress.closed_ms,
        expected.len()
    ));
}
