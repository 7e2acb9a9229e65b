//! Searches for words, alone and with vectors, on a container with a full-text and a flat vector
//! index, beside the same queries on a container without them; and the rank of words in rivals.

use super::answer::{Answer, Costs};
use super::container::SearchContainer;
use super::data::{Data, ITEMS_PER_KEY, TOP};
use super::http::HttpPort;
use super::nearest::query;
use super::rivals::Rivals;
use super::table::{Column, Table, milliseconds};
use crate::Result;
use crate::record::figure;
use crate::report::median;
use orrery_model::{Error, Kind, limits};

/// Runs of the query that reads all items.
const SLOW_RUNS: usize = 5;

/// A line of the table.
struct Line {
    name: &'static str,
    text: fn(&Data, usize) -> String,
    check: Check,
}

/// The answer with which that of the index is compared.
#[derive(PartialEq)]
enum Check {
    /// The rows of the container without indexes. Rows without an order are sorted: the containers
    /// were loaded by several threads, so their natural orders differ.
    Items,
    /// The rows of the same container with a filter that an index does not decide: texts with equal
    /// scores come in natural order.
    SameContainer,
}

const LINES: [Line; 7] = [
    Line {
        name: "nearest 10 of all",
        text: |data, at| query("", &data.query_text(at), ""),
        check: Check::Items,
    },
    Line {
        name: "nearest 10 of a key of 1,000 items",
        text: |data, at| {
            let key = at % (data.items() / ITEMS_PER_KEY).max(1);
            query(&format!("WHERE c.pk = 'k{key}' "), &data.query_text(at), "")
        },
        check: Check::Items,
    },
    Line {
        name: "nearest 10 with a word",
        text: |data, at| {
            let word = &data.words(at, 1)[0];
            query(
                &format!("WHERE FullTextContains(c.text, '{word}') "),
                &data.query_text(at),
                "",
            )
        },
        check: Check::Items,
    },
    Line {
        name: "all items with a word",
        text: |data, at| {
            format!(
                "SELECT VALUE c.id FROM c WHERE FullTextContains(c.text, '{}')",
                data.words(at, 1)[0]
            )
        },
        check: Check::Items,
    },
    Line {
        name: "items with two words, counted",
        text: |data, at| {
            format!(
                "SELECT VALUE COUNT(1) FROM c WHERE FullTextContainsAll(c.text, '{}')",
                data.words(at, 2).join("', '")
            )
        },
        check: Check::Items,
    },
    Line {
        name: RANK,
        text: rank_query,
        check: Check::SameContainer,
    },
    Line {
        name: "words and vector fused, 10",
        text: |data, at| {
            format!(
                "SELECT TOP {TOP} VALUE c.id FROM c ORDER BY RANK \
                 RRF(FullTextScore(c.text, '{}'), VectorDistance(c.v, {}))",
                data.words(at, 3).join("', '"),
                data.query_text(at)
            )
        },
        check: Check::SameContainer,
    },
];

const RANK: &str = "rank of three words, 10";

fn rank_query(data: &Data, at: usize) -> String {
    format!(
        "SELECT TOP {TOP} VALUE c.id FROM c ORDER BY RANK FullTextScore(c.text, '{}')",
        data.words(at, 3).join("', '")
    )
}

/// Measures each line and prints the table. Without a container that has no indexes, no line reads
/// the items.
pub(crate) fn measure(
    indexed: &SearchContainer,
    plain: Option<&SearchContainer>,
    data: &Data,
) -> Result<()> {
    let table = Table::begin(
        "words, in this process",
        &[
            Column("p50 ms", 2),
            Column("p95 ms", 2),
            Column("CPU ms", 2),
            Column("items read", 1),
            Column("ratio", 1),
        ],
    );
    for line in &LINES {
        let (mut by_items, mut by_index) = (Vec::new(), Costs::default());
        for at in 0..data.query_count() {
            let text = (line.text)(data, at);
            let answer = indexed.ask(&text)?;
            by_index.add(&answer);
            if at < SLOW_RUNS {
                by_items.extend(compare(line, &text, answer.rows, indexed, plain)?);
            }
        }
        let (p50, p95) = by_index.p50_and_p95();
        let slow = plain.is_some().then(|| median(by_items));
        let ratio = slow.map(|slow| slow / p50);
        let figures = [Some(p50), Some(p95), by_index.processor(), slow, ratio];
        table.row(line.name, &figures);
        figure(format!("search, {}, index, p50 ms", line.name), p50);
        figure(format!("search, {}, index, p95 ms", line.name), p95);
        if let Some(slow) = slow {
            figure(format!("search, {}, items read, p50 ms", line.name), slow);
        }
    }
    Ok(())
}

/// Compares an answer of the index with the one that needs no index. Returns the milliseconds of
/// the container without indexes, if there is one.
fn compare(
    line: &Line,
    text: &str,
    mut found: Vec<String>,
    indexed: &SearchContainer,
    plain: Option<&SearchContainer>,
) -> Result<Option<f64>> {
    let (mut took, mut wanted) = (None, None);
    if let Some(plain) = plain {
        match ask_in_time(plain, text)? {
            Some(answer) => (took, wanted) = (Some(milliseconds(answer.took)), Some(answer.rows)),
            // A page has so much time, and the query none for the rest of the items.
            None => took = Some(limits::REQUEST_TIME_MS as f64),
        }
    }
    if line.check == Check::SameContainer {
        let filtered = text.replace("FROM c", "FROM c WHERE LENGTH(c.id) > 0");
        wanted = ask_in_time(indexed, &filtered)?.map(|answer| answer.rows);
        // On a busy machine; the others of the first queries are compared.
        if wanted.is_none() {
            let name = line.name;
            eprintln!("{name}: a query by the items took too long to be compared");
        }
    }
    let Some(mut wanted) = wanted else {
        return Ok(took);
    };
    if !text.contains("ORDER BY") {
        wanted.sort();
        found.sort();
    }
    match wanted == found {
        true => Ok(took),
        false => Err(format!("{text} has another answer with the index").into()),
    }
}

/// Runs a query of one page. Returns `None` if it does not end within its time.
fn ask_in_time(container: &SearchContainer, text: &str) -> Result<Option<Answer>> {
    container.ask(text).map(Some).or_else(|error| {
        let timeout = error.downcast_ref::<Error>();
        match timeout.is_some_and(|error| error.kind() == Kind::RequestTimeout) {
            true => Ok(None),
            false => Err(error),
        }
    })
}

/// Measures the rank of three words beside that of the rivals, each query in each database in turn,
/// and prints the table.
pub(crate) fn measure_rivals(
    indexed: &SearchContainer,
    rivals: &mut Rivals,
    data: &Data,
) -> Result<()> {
    const NAMES: [&str; 4] = [
        "full-text index, in this process",
        "full-text index, over HTTP",
        "PostgreSQL, tsvector and GIN, ts_rank",
        "SQLite, FTS5, bm25",
    ];
    let mut port = HttpPort::open(&indexed.engine)?;
    let mut costs = NAMES.map(|_| Costs::default());
    for at in 0..data.query_count() {
        let text = rank_query(data, at);
        let words = data.words(at, 3);
        let answers = [
            indexed.ask(&text)?,
            port.ask(&text)?,
            rivals.rank("postgres", &words)?,
            rivals.rank("sqlite", &words)?,
        ];
        if answers[0].rows != answers[1].rows {
            return Err(format!("{text} has another answer over HTTP").into());
        }
        for (costs, answer) in costs.iter_mut().zip(&answers) {
            costs.add(answer);
        }
    }
    let columns = [
        Column("p50 ms", 2),
        Column("p95 ms", 2),
        Column("CPU ms", 2),
    ];
    let table = Table::begin(RANK, &columns);
    for (name, mut costs) in NAMES.into_iter().zip(costs) {
        let (p50, p95) = costs.p50_and_p95();
        table.row(name, &[Some(p50), Some(p95), costs.processor()]);
        figure(format!("search, {RANK}, {name}, p50 ms"), p50);
        figure(format!("search, {RANK}, {name}, p95 ms"), p95);
    }
    Ok(())
}
