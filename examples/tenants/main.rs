//! Many customers in one database, after "Partitioning and scaling data in DocumentDB" (2016): a
//! container for each tenant; a partition key for each tenant, with resource tokens; and the mix of
//! both, in which a big tenant moves to a container of its own while it writes.
//!
//! ```text
//! cargo build -p orrery-cli
//! cargo run -p orrery-examples --bin tenants
//! cargo run -p orrery-examples --bin tenants -- --endpoint http://127.0.0.1:8081 --key KEY
//! ```
//!
//! The program checks each fact that it prints and ends with an error if one does not hold. Figures
//! that depend on time have a `~`; all others are the same in each run.

#![allow(
    clippy::print_stdout,
    reason = "the output is the purpose of the program"
)]

mod container_per_tenant;
mod key_per_tenant;
mod moving;
mod noise;
mod order;
mod route;
mod writers;

use clap::Parser as _;
use orrery_examples::Result;
use orrery_examples::container::Database;
use orrery_examples::server::Options;
use route::Route;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<()> {
    let run = Options::parse().begin("tenants").await?;
    let shown = show(&run.database).await;
    // The database is deleted after a failure too, so that the next run can create it.
    let deleted = run.database.delete().await;
    shown.and(deleted)
}

async fn show(database: &Database) -> Result<()> {
    container_per_tenant::show(database).await?;
    key_per_tenant::show(database).await?;

    let shared = noise::shared_container(database).await?;
    let route = Arc::new(Route::new(shared.clone(), noise::BIG));
    let before = noise::show_before(&route).await?;
    moving::show(database, &shared, &route).await?;
    noise::show_after(&route, before).await
}
