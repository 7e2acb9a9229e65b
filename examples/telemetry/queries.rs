//! Queries in one logical partition and over all physical partitions, with their charges.

use crate::items::{DEVICES, READINGS_PER_DEVICE};
use orrery_examples::container::{Container, Scope};
use orrery_examples::table::{Table, heading, quote, ru, text};
use orrery_examples::{Result, check};
use serde_json::Value;

const DEVICE: &str = "XMS-0001";

/// A query of the example.
struct Example {
    shown: &'static str,
    scope: Scope<'static>,
    text: &'static str,
}

const EXAMPLES: &[Example] = &[
    Example {
        shown: "temperatures of one device, key in the header",
        scope: Scope::Key(DEVICE),
        text: "SELECT * FROM c WHERE c.metricType = 'Temperature'",
    },
    Example {
        shown: "temperatures of one device, key in the filter",
        scope: Scope::All,
        text: "SELECT * FROM c WHERE c.deviceId = 'XMS-0001' AND c.metricType = 'Temperature'",
    },
    Example {
        shown: "newest reading of one device (TOP 1, ORDER BY)",
        scope: Scope::Key(DEVICE),
        text: "SELECT TOP 1 * FROM c ORDER BY c.readingTime DESC",
    },
    Example {
        shown: "temperatures above 115 of all devices",
        scope: Scope::All,
        text: "SELECT * FROM c WHERE c.metricType = 'Temperature' AND c.metricValue > 115",
    },
    Example {
        shown: "the 5 highest values of all (TOP 5, ORDER BY)",
        scope: Scope::All,
        text: "SELECT TOP 5 * FROM c ORDER BY c.metricValue DESC",
    },
    Example {
        shown: "number of readings of all devices (COUNT)",
        scope: Scope::All,
        text: "SELECT VALUE COUNT(1) FROM c",
    },
    Example {
        shown: "highest voltage of all devices (MAX)",
        scope: Scope::All,
        text: "SELECT VALUE MAX(c.metricValue) FROM c WHERE c.metricType = 'Voltage'",
    },
    Example {
        shown: "average of each metric (GROUP BY, AVG)",
        scope: Scope::All,
        text: "SELECT c.metricType, AVG(c.metricValue) AS average FROM c GROUP BY c.metricType",
    },
];

/// Shows the queries on the container that `items` filled.
pub(crate) async fn show(readings: &Container) -> Result<()> {
    heading("2. Queries in one logical partition and over all");
    let physical = readings.partitions().await?.len() as u64;
    let mut table = Table::new(&["query", "partitions asked", "rows", "RU"]);
    for example in EXAMPLES {
        let found = readings.query(example.scope, example.text, &[]).await?;
        let names_device = matches!(example.scope, Scope::Key(_)) || example.text.contains(DEVICE);
        let expected = if names_device { 1 } else { physical };
        // Only this server reports the partitions.
        let asked = match found.partitions {
            0 => "?".to_owned(),
            asked => format!("{asked} of {physical}"),
        };
        check(
            found.partitions == 0 || found.partitions == expected,
            "a filter on the key asks one physical partition, any other query all",
        )?;
        let rows = found.rows.len().to_string();
        table.row([example.shown.to_owned(), asked, rows, ru(found.charge)]);
    }
    table.print();

    let count = readings.count(Scope::All).await?;
    check(
        count == (DEVICES * READINGS_PER_DEVICE) as u64,
        "COUNT over all physical partitions counts every reading once",
    )?;
    show_refusal(readings).await
}

/// Shows the refusal of a query that would ask all partitions without permission.
async fn show_refusal(readings: &Container) -> Result<()> {
    let none: &[(&str, Value)] = &[];
    let query = readings.page(Scope::NotAllowed, "SELECT * FROM c", none);
    let refused = query.send().await?;
    check(
        refused.status == 400
            && refused
                .message()
                .contains("Cross partition query is required"),
        "a query over all partitions is refused unless a header allows it",
    )?;
    text(&format!(
        "A query that names no device asks every physical partition and pays in each of them, \
         so it becomes more expensive as the container grows. The request has to allow this with a \
         header; without it the answer is {}:",
        refused.status
    ));
    quote(&refused.message());
    Ok(())
}
