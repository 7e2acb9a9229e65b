//! A noisy tenant measured: refusals and latency of the small tenants beside a big tenant that asks
//! for more than the container has, and after its move to a container of its own.

use crate::order::order;
use crate::route::Route;
use orrery_examples::client::{Method, without_retries};
use orrery_examples::container::{Container, Database};
use orrery_examples::load::{Outcome, at_rate};
use orrery_examples::table::{Table, heading, text, timed};
use orrery_examples::{Result, check};
use std::sync::Arc;

/// The tenant that outgrows the shared container.
pub(crate) const BIG: &str = "megacorp";
/// The tenants that stay.
pub(crate) const SMALL: [&str; 3] = ["bakery", "florist", "joiner"];
/// Throughput of the shared container, in RU/s: one physical partition.
const THROUGHPUT: u32 = 1_000;
/// Seconds of each measurement.
const SECONDS: usize = 4;
/// Requests per second of all small tenants together.
const SMALL_RATE: usize = 30;
/// Writes per second of the big tenant.
const BIG_RATE: usize = 220;

/// The measured tenants in one phase.
pub(crate) struct Phase {
    name: &'static str,
    small: Outcome,
    big: Option<Outcome>,
}

/// Creates the container that all tenants share.
pub(crate) async fn shared_container(database: &Database) -> Result<Container> {
    let shared = database
        .create_container("orders-shared", "/tenantId", THROUGHPUT)
        .await?;
    for tenant in SMALL {
        shared.create(tenant, &order(tenant, "first", 1)).await?;
    }
    Ok(shared)
}

/// Measures the small tenants alone and beside the big one.
pub(crate) async fn show_before(route: &Arc<Route>) -> Result<Vec<Phase>> {
    heading("3. A noisy tenant in the shared container");
    let alone = Phase {
        name: "small tenants alone",
        small: small_load(route, "alone").await?,
        big: None,
    };
    let beside = together(route, "big tenant in the same container", "beside").await?;
    text(&format!(
        "{} small tenants send {SMALL_RATE} requests per second to a container of \
         {THROUGHPUT} RU/s and repeat refused ones, as an SDK does. Then {BIG} writes \
         {BIG_RATE} orders per second beside them and repeats nothing.",
        SMALL.len()
    ));
    let phases = vec![alone, beside];
    print(&phases);
    Ok(phases)
}

/// Measures the same load after the move and prints all phases.
pub(crate) async fn show_after(route: &Arc<Route>, before: Vec<Phase>) -> Result<()> {
    heading("5. The same load after the move");
    let mut phases = before;
    phases.push(together(route, "big tenant in its own container", "after").await?);
    print(&phases);
    text(
        "A shared container is cheap and a tenant can take the throughput of all others. The \
         tiered mix keeps small tenants together and gives a container to each tenant that \
         needs one.",
    );
    Ok(())
}

/// Runs both loads at the same time.
async fn together(route: &Arc<Route>, name: &'static str, series: &'static str) -> Result<Phase> {
    let (small, big) = tokio::join!(small_load(route, series), big_load(route, series));
    let (small, big) = (small?, big?);
    check(
        small.refused == 0,
        "a client that repeats refused requests succeeds in the end",
    )?;
    Ok(Phase {
        name,
        small,
        big: Some(big),
    })
}

/// Sends the requests of the small tenants: three reads, then a write, each for another tenant.
async fn small_load(route: &Arc<Route>, series: &str) -> Result<Outcome> {
    let shared = route.shared();
    at_rate(SMALL_RATE * SECONDS, SMALL_RATE as f64, |number| {
        let tenant = SMALL[number % SMALL.len()];
        let request = if number % 4 == 3 {
            let item = order(tenant, &format!("{series}-{number}"), 1);
            shared.docs(Method::POST).key(tenant).body(&item)
        } else {
            shared.doc(Method::GET, "first").key(tenant)
        };
        async move { request.send().await }
    })
    .await
}

/// Sends the writes of the big tenant.
async fn big_load(route: &Arc<Route>, series: &'static str) -> Result<Outcome> {
    at_rate(BIG_RATE * SECONDS, BIG_RATE as f64, |number| {
        let route = route.clone();
        async move {
            let place = route.enter().await;
            let id = format!("{series}-{number}");
            let client = without_retries(&place.container.client);
            let container = place.container.seen_by(&client);
            let request = container.docs(Method::POST).key(place.key_of(BIG, &id));
            request.body(&order(BIG, &id, 1)).send().await
        }
    })
    .await
}

fn print(phases: &[Phase]) {
    let mut table = Table::new(&[
        "phase",
        "tenants",
        "requests",
        "refused (429)",
        "p50 ms",
        "p99 ms",
    ]);
    for phase in phases {
        let mut add = |tenants: &str, outcome: &Outcome| {
            table.row([
                phase.name.to_owned(),
                tenants.to_owned(),
                (outcome.succeeded + outcome.refused).to_string(),
                format!("~{:.0}%", outcome.throttled_percent()),
                timed(outcome.latency_ms(50), 1),
                timed(outcome.latency_ms(99), 1),
            ]);
        };
        add("small", &phase.small);
        if let Some(big) = &phase.big {
            add("big", big);
        }
    }
    table.print();
}
