//! The same readings under three partition keys: their spread over the physical partitions, and the
//! charges of the same queries.

use crate::items::{DEVICES, READINGS_PER_DEVICE};
use crate::reading::{fleet, load};
use orrery_examples::container::{Database, Scope};
use orrery_examples::table::{Table, heading, ru, text};
use orrery_examples::{Result, check};
use std::collections::HashSet;

/// Provisioned throughput of each container, in RU/s.
const THROUGHPUT: u32 = 20_000;

/// Queries by description and text.
const QUERIES: &[(&str, &str)] = &[
    (
        "one device on one day",
        "SELECT * FROM c WHERE c.deviceId = 'XMS-0007' AND c.date = '2016-02-03'",
    ),
    (
        "the 5 newest readings of one device",
        "SELECT TOP 5 * FROM c WHERE c.deviceId = 'XMS-0007' ORDER BY c.readingTime DESC",
    ),
    (
        "all devices on one day",
        "SELECT * FROM c WHERE c.date = '2016-02-03'",
    ),
    (
        "temperatures above 115",
        "SELECT * FROM c WHERE c.metricType = 'Temperature' AND c.metricValue > 115",
    ),
];

/// Shows spread and charges.
pub(crate) async fn show(database: &Database) -> Result<()> {
    heading("4. The partition key chosen well and badly: spread and queries");
    let items = fleet(DEVICES, READINGS_PER_DEVICE);
    let keys = ["deviceId", "date", "metricType"];
    let mut containers = Vec::new();
    let mut spreads = Table::new(&[
        "partition key",
        "values",
        "readings in each physical partition",
    ]);
    for key in keys {
        let container = database
            .create_container(&format!("by-{key}"), &format!("/{key}"), THROUGHPUT)
            .await?;
        load(&container, key, &items).await?;
        let values: HashSet<&str> = items.iter().filter_map(|item| item[key].as_str()).collect();
        let spread = container.spread().await?;
        check(
            spread.iter().sum::<u64>() == items.len() as u64,
            "the containers hold the same readings",
        )?;
        let counts: Vec<String> = spread.iter().map(|count| format!("{count:>4}")).collect();
        spreads.row([
            format!("/{key}"),
            values.len().to_string(),
            counts.join("  "),
        ]);
        containers.push(container);
    }
    spreads.print();

    let mut table = Table::new(&["RU (partitions asked)", "/deviceId", "/date", "/metricType"]);
    for (shown, query) in QUERIES {
        let mut cells = Vec::new();
        let mut answers = HashSet::new();
        for container in &containers {
            let found = container.query(Scope::All, query, &[]).await?;
            cells.push(format!("{:>6} ({})", ru(found.charge), found.partitions));
            answers.insert(found.rows.len());
        }
        check(
            answers.len() == 1,
            "a query has the same rows under each partition key",
        )?;
        let [device, date, metric] = cells.try_into().map_err(|_| "a container is missing")?;
        table.row([(*shown).to_owned(), device, date, metric]);
    }
    table.print();
    text(
        "A key of few values cannot fill all partitions. A query is cheap if its filter names \
         the partition key; the best key is the one that the frequent queries and the writes \
         have in common: /deviceId here.",
    );
    Ok(())
}
