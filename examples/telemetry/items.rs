//! A container of 20,000 RU/s with the partition key `/deviceId`, and the requests for one item.

use crate::reading::{DeviceReading, fleet, load};
use orrery_examples::client::{Method, Response};
use orrery_examples::container::{Container, Database};
use orrery_examples::table::{Table, heading, ru, text};
use orrery_examples::{Result, check};
use serde_json::json;

/// Provisioned throughput of the container, in RU/s.
const THROUGHPUT: u32 = 20_000;
/// Devices of the fleet.
pub(crate) const DEVICES: usize = 60;
/// Readings of each device: five days.
pub(crate) const READINGS_PER_DEVICE: usize = 20;

/// Creates and fills the container `readings`, and returns it.
pub(crate) async fn show(database: &Database) -> Result<Container> {
    heading("1. A container for device readings");
    let readings = database
        .create_container("readings", "/deviceId", THROUGHPUT)
        .await?;
    let partitions = readings.partitions().await?.len();
    let share = THROUGHPUT as usize / partitions;
    text(&format!(
        "The container `readings` has the partition key /deviceId and {THROUGHPUT} RU/s. The \
         server made {partitions} physical partitions, each with {share} RU/s. The hash of a \
         device's id decides which of them holds the readings of the device."
    ));
    show_requests(&readings).await?;

    load(&readings, "deviceId", &fleet(DEVICES, READINGS_PER_DEVICE)).await?;
    let spread = readings.spread().await?;
    text(&format!(
        "{DEVICES} devices wrote {READINGS_PER_DEVICE} readings each. Readings in the \
         physical partitions: {}.",
        spread
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    ));
    let total: u64 = spread.iter().sum();
    check(
        total == (DEVICES * READINGS_PER_DEVICE) as u64,
        "the physical partitions hold every reading once",
    )?;
    check(
        spread.iter().all(|count| *count > 0),
        "a key of many values reaches every physical partition",
    )?;
    Ok(readings)
}

/// Shows the requests for one item, which all name the logical partition.
async fn show_requests(readings: &Container) -> Result<()> {
    let mut reading = DeviceReading::new(1, 0);
    reading.id = "XMS-0001-FE24C".to_owned();
    let key = reading.device_id.clone();
    let mut item = reading.to_json();
    let mut table = Table::new(&["request", "status", "RU"]);
    let mut add = |request: &str, response: &Response| {
        let status = response.status.to_string();
        table.row([request.to_owned(), status, ru(response.charge())]);
    };

    let created = readings.create(&key, &item).await?;
    add("create the reading XMS-0001-FE24C", &created);
    let read = readings.read(&key, &reading.id).await?;
    add("read it by key and id", &read);
    check(
        read.charge() == 1.0,
        "a read of one item of at most 1 KB by key and id costs 1 RU",
    )?;
    item["metricValue"] = json!(104.0);
    item["unit"] = json!("Celsius");
    add("replace it", &readings.replace(&key, &item).await?);

    let elsewhere = readings.doc(Method::GET, &reading.id).key("XMS-0002");
    let elsewhere = elsewhere.send().await?;
    add("read the same id under the key XMS-0002", &elsewhere);
    check(
        elsewhere.status == 404,
        "key and id together are the primary key",
    )?;
    add("delete it", &readings.delete(&key, &reading.id).await?);
    table.print();
    Ok(())
}
