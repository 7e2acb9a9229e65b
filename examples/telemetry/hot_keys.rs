//! Concurrent writers under three partition keys: a hot partition refuses writes although the
//! container has throughput left.

use crate::reading::{DeviceReading, READINGS_PER_DAY};
use orrery_examples::client::{Method, without_retries};
use orrery_examples::container::Database;
use orrery_examples::load::{Outcome, at_rate};
use orrery_examples::table::{Table, heading, text, timed};
use orrery_examples::{Result, check};

/// Throughput at the creation, which decides the number of physical partitions, in RU/s.
const THROUGHPUT_CREATED: u32 = 20_000;
/// Throughput under load, in RU/s: small, so that little load suffices. The partitions stay.
const THROUGHPUT: u32 = 2_000;
/// Devices that write, each as often as the others.
const DEVICES: usize = 320;
/// Writes to each container.
const WRITES: usize = 480;
/// Writes per second.
const RATE: f64 = 160.0;
/// Day of all writes: readings are written on the day on which they are taken.
const DAY: usize = 5;

/// Shows the load.
pub(crate) async fn show(database: &Database) -> Result<()> {
    heading("5. The partition key chosen well and badly: writers at the same time");
    let mut table = Table::new(&[
        "partition key",
        "partitions written",
        "writes",
        "refused (429)",
        "accepted RU/s",
        "p99 ms",
    ]);
    let mut share = 0;
    let mut refused = 0;
    for key in ["deviceId", "date", "metricType"] {
        let name = format!("live-by-{key}");
        let container = database
            .create_container(&name, &format!("/{key}"), THROUGHPUT_CREATED)
            .await?;
        container.set_throughput(THROUGHPUT).await?;
        let client = without_retries(&container.client);
        let writers = container.seen_by(&client);
        let outcome = at_rate(WRITES, RATE, |number| {
            let reading = reading(number);
            let value = reading[key].as_str().unwrap_or_default();
            let request = writers.docs(Method::POST).key(value).body(&reading);
            async move { request.send().await }
        })
        .await?;

        let spread = container.spread().await?;
        let written = spread.iter().filter(|count| **count > 0).count();
        refused += outcome.refused;
        share = THROUGHPUT as usize / spread.len();
        check_outcome(key, &outcome, written, spread.iter().sum())?;
        table.row([
            format!("/{key}"),
            format!("{written} of {}", spread.len()),
            WRITES.to_string(),
            format!("~{:.0}%", outcome.throttled_percent()),
            timed(outcome.charge_per_second(), 0),
            timed(outcome.latency_ms(99), 1),
        ]);
    }
    text(&format!(
        "{DEVICES} devices write {RATE} readings per second to a container with {THROUGHPUT} \
         RU/s, {share} RU/s in each physical partition. The writers do not repeat refused \
         writes."
    ));
    table.print();
    if refused == 0 {
        eprintln!(
            "No write was refused: this server does not enforce throughput, or the machine was \
         too slow for the load. Start the server with --enforce-throughput on."
        );
    }
    text(&format!(
        "Under /date all writes of a day have one key, and a key never gets more than the \
         {share} RU/s of its partition; the throughput of the other partitions is paid and \
         unused. Under /deviceId every partition takes its part."
    ));
    Ok(())
}

/// Returns the reading of a write: the devices write one after the other.
fn reading(number: usize) -> serde_json::Value {
    let (device, turn) = (number % DEVICES, number / DEVICES);
    let quarter = (number + turn) % READINGS_PER_DAY;
    let mut reading = DeviceReading::new(device, DAY * READINGS_PER_DAY + quarter);
    reading.id = format!("{}-{turn}", reading.id);
    reading.to_json()
}

fn check_outcome(key: &str, outcome: &Outcome, written: usize, stored: u64) -> Result<()> {
    check(
        outcome.succeeded + outcome.refused == WRITES && stored == outcome.succeeded as u64,
        "a write that was answered is stored, and a refused one is not",
    )?;
    check(
        key != "date" || written == 1,
        "all writes of one day have one partition key and one physical partition",
    )?;
    check(
        key != "deviceId" || written > 1,
        "the writes of many devices reach several physical partitions",
    )
}
