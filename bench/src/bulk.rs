//! Durable creates one by one, in bulk and in transactional batches, side by side in one run.

use crate::child::{Child, ready_server};
use crate::items::{self, Batches, Creates};
use crate::load::{Call, load};
use crate::report::median;
use crate::{CONCURRENCY, Result};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Requests of each connection before time is taken; some have 100 items.
const WARM_UP: usize = 2;

/// Writes the request of a number.
type Writes<'a> = Box<dyn Fn(u64, &mut Vec<u8>) + 'a>;

/// One way to create items.
struct Way<'a> {
    name: &'static str,
    /// Items of one request.
    items: u64,
    request: Writes<'a>,
    /// Counts requests of all connections and rounds, so that no id comes twice.
    sent: AtomicU64,
}

/// What was measured of one way with so many connections.
struct Row {
    name: &'static str,
    connections: usize,
    /// Items a second, a figure for each round.
    rates: Vec<f64>,
}

/// Measures every way in every round and prints the table.
pub(crate) fn run(rounds: usize, time: Duration, directory: &Path) -> Result<()> {
    let server = ready_server(directory)?;
    items::prepare(&server)?;
    let ways = ways(&server)?;
    let mut rows: Vec<Row> = Vec::new();
    for connections in CONCURRENCY {
        rows.extend(ways.iter().map(|way| Row {
            name: way.name,
            connections,
            rates: Vec::new(),
        }));
    }
    for _ in 0..rounds {
        for row in &mut rows {
            let Some(way) = ways.iter().find(|way| way.name == row.name) else {
                continue;
            };
            let call = Call {
                address: &server.address,
                counter: &way.sent,
                request: &*way.request,
                connections: row.connections,
                warm_up: WARM_UP,
                time,
            };
            let slice = load(&call)?;
            row.rates.push(
                (slice.latencies.len() as u64 * way.items) as f64 / slice.elapsed.as_secs_f64(),
            );
        }
    }
    print!("{}", table(&rows));
    Ok(())
}

fn ways(server: &Child) -> Result<Vec<Way<'static>>> {
    let single = Creates::new(server)?;
    let bulk = Batches::bulk(server)?;
    let atomic = Batches::atomic(server)?;
    let way = |name, items, request: Writes<'static>| Way {
        name,
        items,
        request,
        sent: AtomicU64::new(0),
    };
    Ok(vec![
        way(
            "one by one",
            1,
            Box::new(move |n, out| single.write(n, out)),
        ),
        way(
            "bulk of 100",
            items::BATCH_ITEMS,
            Box::new(move |n, out| bulk.write(n, out)),
        ),
        way(
            "batch of 100",
            items::BATCH_ITEMS,
            Box::new(move |n, out| atomic.write(n, out)),
        ),
    ])
}

/// Medians over the rounds; a ratio is taken between neighbours of one round.
fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<14} {:>5} {:>10} {:>19}  {}\n",
        "creates", "conn.", "items/s", "(slowest–fastest)", "ratio"
    );
    for row in rows {
        let least = row.rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = row.rates.iter().copied().fold(0.0, f64::max);
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
        let (span, rate) = (format!("({least:.0}–{most:.0})"), median(row.rates.clone()));
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
    fn a_ratio_compares_neighbours_of_the_same_round() {
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
