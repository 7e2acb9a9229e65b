//! The procedure `SetLatestStateAcrossReadings`: the latest state of a device in one item, kept up
//! to date in the transaction that stores a reading.

use crate::reading::{DeviceReading, METRICS};
use orrery_examples::client::Response;
use orrery_examples::container::{Container, Scope};
use orrery_examples::table::{Table, heading, ru, text};
use orrery_examples::{Result, check};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const PROCEDURE: &str = "SetLatestStateAcrossReadings";
const SOURCE: &str = include_str!("setLatestStateAcrossReadings.js");
/// The device, which has no readings yet.
const DEVICE: usize = 700;
const KEY: &str = "XMS-0700";
/// Readings that are sent at the same time: 12 days.
const READINGS: usize = 48;
/// A number without a common divisor with [`READINGS`]: its multiples reach each reading once, and
/// neither in the order of time nor in the reverse order.
const STEP: usize = 29;
/// Callers that send readings of the same device at the same time.
const CALLERS: usize = 6;

/// Shows the procedure on the container that `items` filled.
pub(crate) async fn show(readings: &Container) -> Result<()> {
    heading("3. The latest state of a device in one item");
    readings.create_procedure(PROCEDURE, SOURCE).await?;
    send_shuffled(readings).await?;
    let later = call(readings, &DeviceReading::new(DEVICE, READINGS).to_json()).await?;
    let read = readings.read(KEY, "latest").await?;
    let state = &read.body;
    check(
        state["readings"] == READINGS + 1,
        "each of the concurrent calls took part in the state once",
    )?;

    let mut table = Table::new(&["metric", "latest value", "time"]);
    let metrics = state["metrics"].as_object().ok_or("no metrics")?;
    // Concurrent callers add the metrics in any order.
    let mut names: Vec<&String> = metrics.keys().collect();
    names.sort();
    for name in names {
        let latest = &metrics[name];
        let (newest, _) = newest_by_query(readings, KEY, name).await?;
        check(
            latest["readingId"] == newest["id"],
            "the state names the newest reading of each metric, in any order of arrival",
        )?;
        let value = format!("{} {}", latest["value"], plain(&latest["unit"]));
        table.row([name.clone(), value, plain(&latest["readingTime"])]);
    }
    text(&format!(
        "{CALLERS} callers sent the {READINGS} readings of the device {KEY} at the same time \
         and out of order. A procedure runs in a transaction of the device's logical \
         partition, so none of them was lost. After one more reading the state is:"
    ));
    table.print();
    show_prices(readings, &later, &read).await?;
    show_rollback(readings, state).await
}

/// Returns a string without quotes.
fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Calls the procedure with a reading; an answer other than 200 is an error.
async fn call(readings: &Container, reading: &Value) -> Result<Response> {
    let execution = readings.execution(PROCEDURE, KEY, &json!([reading]));
    execution.send().await?.expect(200)
}

/// Calls the procedure for all readings but the newest, from several callers at the same time.
async fn send_shuffled(readings: &Container) -> Result<()> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let readings = readings.clone();
        callers.spawn(async move {
            for turn in (0..READINGS).skip(caller).step_by(CALLERS) {
                let number = turn * STEP % READINGS;
                call(&readings, &DeviceReading::new(DEVICE, number).to_json()).await?;
            }
            Result::Ok(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok(())
}

/// Returns the newest reading of a metric, and the charge of the query.
async fn newest_by_query(readings: &Container, key: &str, metric: &str) -> Result<(Value, f64)> {
    let text = "SELECT TOP 1 * FROM c WHERE c.metricType = @metric ORDER BY c.readingTime DESC";
    let parameters = [("@metric", json!(metric))];
    let mut found = readings.query(Scope::Key(key), text, &parameters).await?;
    let newest = found.rows.pop().ok_or("the device has no such reading")?;
    Ok((newest, found.charge))
}

/// Shows the price of the state beside that of readings without a state.
async fn show_prices(readings: &Container, call: &Response, read: &Response) -> Result<()> {
    let alone = DeviceReading::new(DEVICE + 1, 0);
    let created = readings.create(&alone.device_id, &alone.to_json()).await?;
    // A device of the fleet has no state.
    let mut by_queries = 0.0;
    for (metric, _) in METRICS {
        let (_, charge) = newest_by_query(readings, "XMS-0001", metric).await?;
        by_queries += charge;
    }
    let mut table = Table::new(&["request", "with the state, RU", "without, RU"]);
    table.row([
        "store a reading".to_owned(),
        ru(call.charge()),
        ru(created.charge()),
    ]);
    table.row([
        "latest value of each metric".to_owned(),
        ru(read.charge()),
        ru(by_queries),
    ]);
    table.print();
    text(
        "The state makes a write more expensive and a read of all latest values cheaper: one point \
         read in place of one query for each metric. It pays where such reads are frequent.",
    );
    Ok(())
}

/// Shows that a transaction that fails leaves no trace.
async fn show_rollback(readings: &Container, before: &Value) -> Result<()> {
    let mut taken = DeviceReading::new(DEVICE, 0);
    taken.reading_time = "2016-03-01T00:00:00Z".to_owned();
    let execution = readings.execution(PROCEDURE, KEY, &json!([taken.to_json()]));
    let refused = execution.send().await?;
    let after = readings.read(KEY, "latest").await?.body;
    check(
        refused.status >= 400 && after["_etag"] == before["_etag"],
        "a procedure that fails changes nothing",
    )?;
    text(&format!(
        "A newer reading with an id that is taken is refused ({}), after the procedure had \
         written the state already; the state is as before.",
        refused.status
    ));
    Ok(())
}
