//! Benchmark of durable creates over HTTP: single creates, bulk requests and transactional batches.

use crate::Result;
use crate::child::{ServerProcess, ready_server};
use crate::items::{self, Batches, Creates};
use crate::load::{LoadSpec, load};
use crate::record::figure;
use crate::report::median;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Requests of each connection before the measurement. A request has up to 100 items.
const WARM_UP: usize = 2;
/// Numbers of connections to measure.
const CONCURRENCY: [usize; 2] = [1, 16];

/// Appends the request with a number to a buffer.
type WriteRequest<'a> = Box<dyn Fn(u64, &mut Vec<u8>) + 'a>;

/// A kind of request that creates items.
struct CreateMethod<'a> {
    name: &'static str,
    /// Items in one request.
    items: u64,
    request: WriteRequest<'a>,
    /// Number of the next request, over all connections and rounds, so that ids are unique.
    sent: AtomicU64,
}

/// The measurements of one kind of request with a number of connections.
struct Row {
    name: &'static str,
    connections: usize,
    /// Items per second in each round.
    rates: Vec<f64>,
}

/// Measures every kind of request in every round and prints the table.
pub(crate) fn run(rounds: usize, time: Duration, directory: &Path) -> Result<()> {
    let server = ready_server(directory, &[])?;
    items::prepare(&server)?;
    let methods = methods(&server)?;
    let mut rows: Vec<Row> = Vec::new();
    for connections in CONCURRENCY {
        rows.extend(methods.iter().map(|method| Row {
            name: method.name,
            connections,
            rates: Vec::new(),
        }));
    }
    // Each round measures all rows, so that a busy period of the machine affects all rows alike.
    for _ in 0..rounds {
        for row in &mut rows {
            let Some(method) = methods.iter().find(|method| method.name == row.name) else {
                continue;
            };
            let spec = LoadSpec {
                address: &server.address,
                counter: &method.sent,
                request: &*method.request,
                connections: row.connections,
                warm_up: WARM_UP,
                time,
            };
            let measurement = load(&spec)?;
            row.rates.push(
                (measurement.latencies.len() as u64 * method.items) as f64
                    / measurement.elapsed.as_secs_f64(),
            );
        }
    }
    print!("{}", table(&rows));
    for row in &rows {
        let name = format!("{}, {} conn., items/s", row.name, row.connections);
        figure(name, median(row.rates.clone()));
    }
    Ok(())
}

/// Returns the kinds of requests to compare.
fn methods(server: &ServerProcess) -> Result<Vec<CreateMethod<'static>>> {
    let single = Creates::new(server)?;
    let bulk = Batches::bulk(server)?;
    let atomic = Batches::atomic(server)?;
    let method = |name, items, request: WriteRequest<'static>| CreateMethod {
        name,
        items,
        request,
        sent: AtomicU64::new(0),
    };
    Ok(vec![
        method(
            "one by one",
            1,
            Box::new(move |n, out| single.write(n, out)),
        ),
        method(
            "bulk of 100",
            items::BATCH_ITEMS,
            Box::new(move |n, out| bulk.write(n, out)),
        ),
        method(
            "batch of 100",
            items::BATCH_ITEMS,
            Box::new(move |n, out| atomic.write(n, out)),
        ),
    ])
}

/// Returns the table. Rates are medians over the rounds; a ratio is the median of the ratios of
/// each round.
fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<14} {:>5} {:>10} {:>19}  {}\n",
        "creates", "conn.", "items/s", "(slowest–fastest)", "ratio"
    );
    for row in rows {
        let slowest = row.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = row.rates.iter().copied().fold(0.0, f64::max);
        // The single creates with the same number of connections are the base of the ratio.
        let single = rows
            .iter()
            .find(|other| other.connections == row.connections)
            .filter(|one| one.name != row.name);
        let ratio = single.map_or_else(String::new, |single| {
            let ratios = row
                .rates
                .iter()
                .zip(&single.rates)
                .map(|(rate, single)| rate / single)
                .collect();
            format!("{:.1} of {}", median(ratios), single.name)
        });
        let (span, rate) = (
            format!("({slowest:.0}–{fastest:.0})"),
            median(row.rates.clone()),
        );
        let line = format!(
            "{:<14} {:>5} {rate:>10.0} {span:>19}  {ratio}",
            row.name, row.connections
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_compares_measurements_of_the_same_round() {
        let row = |name, rates: [f64; 3]| Row {
            name,
            connections: 1,
            rates: rates.to_vec(),
        };
        let table = table(&[
            row("one by one", [10.0, 100.0, 1.0]),
            row("bulk of 100", [50.0, 500.0, 1.0]),
        ]);
        let bulk = table.lines().nth(2).expect("a line");
        assert!(
            bulk.contains("(1–500)") && bulk.ends_with("5.0 of one by one"),
            "{table}"
        );
    }
}
