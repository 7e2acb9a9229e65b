//! Readings of devices in a partitioned container, after "Partitioning and scaling data in
//! DocumentDB" (2016): a container of 20,000 RU/s with the partition key `/deviceId`, queries in
//! one logical partition and over all, a procedure that keeps a device's latest state, the
//! partition key chosen well and badly, and containers without a partition key.
//!
//! ```text
//! cargo build -p orrery-cli
//! cargo run -p orrery-examples --bin telemetry
//! cargo run -p orrery-examples --bin telemetry -- --endpoint http://127.0.0.1:8081 --key KEY
//! ```
//!
//! The program checks each fact that it prints and ends with an error if one does not hold. Figures
//! that depend on time have a `~`; all others are the same in each run.

#![allow(
    clippy::print_stdout,
    reason = "the output is the purpose of the program"
)]

mod hot_keys;
mod items;
mod keyless;
mod keys;
mod latest_state;
mod queries;
mod reading;

use clap::Parser as _;
use orrery_examples::Result;
use orrery_examples::container::Database;
use orrery_examples::server::Options;

#[tokio::main]
async fn main() -> Result<()> {
    let run = Options::parse().begin("telemetry").await?;
    let shown = show(&run.database).await;
    // The database is deleted after a failure too, so that the next run can create it.
    let deleted = run.database.delete().await;
    shown.and(deleted)
}

async fn show(database: &Database) -> Result<()> {
    let readings = items::show(database).await?;
    queries::show(&readings).await?;
    latest_state::show(&readings).await?;
    keys::show(database).await?;
    hot_keys::show(database).await?;
    keyless::show(database).await
}
