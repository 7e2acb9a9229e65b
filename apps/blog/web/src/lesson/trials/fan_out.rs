//! Chapter 2: a list of posts is read for real, and every physical partition shows its answer and
//! its charge.

use super::{Bench, Shell};
use crate::lesson::figures;
use crate::lesson::parts::{Picture, Table, query, rendered};
use crate::lesson::pictures::hash_range;
use askama::Template;
use orrery_blog::client::PartitionKeyRange;
use orrery_blog::{BlogError, Charge, Meter, Model, Operation, Query, RequestRecord};
use serde_json::Value;
use std::sync::Arc;

/// Squares in a row of the drawing, and the size of a square with its gap.
const COLUMNS: usize = 17;
const SQUARE: usize = 40;
const GAP: usize = 4;

/// The query within one logical partition.
const IN_ONE_POST: &str = "SELECT * FROM c WHERE c.userId = @userId AND c.type = 'post' \
                           AND c.postId = @postId";

#[derive(Template)]
#[template(path = "lesson/trials/fan-out.html")]
struct View {
    shell: Shell,
    models: Vec<(String, String, bool)>,
    lists: [(&'static str, &'static str, bool); 2],
    picture: String,
    sent: Option<Sent>,
}

/// A list that was read.
struct Sent {
    sql: String,
    /// Words for the requests beside the squares, their number and their charge.
    parts: Vec<(String, String)>,
    total: String,
    rows: usize,
    ms: String,
}

#[derive(Template)]
#[template(path = "lesson/trials/fan-out-squares.html")]
struct Squares {
    width: usize,
    height: usize,
    squares: Vec<Square>,
}

struct Square {
    x: usize,
    y: usize,
    text_x: usize,
    text_y: usize,
    /// The charge; empty if the partition was not asked.
    charge: String,
    /// The place in the order of the answers.
    order: usize,
}

/// The chosen model and list.
#[derive(Clone, Copy)]
struct Choice {
    model: Model,
    is_feed: bool,
    with_key: bool,
}

impl Choice {
    fn of(bench: &Bench<'_>) -> Self {
        let models = bench.visit.state.site.models();
        let home = bench.visit.state.site.home();
        let first = models.first().copied().unwrap_or(home);
        let named: Option<Model> = bench.form.text("model").parse().ok();
        Self {
            model: named
                .filter(|model| models.contains(model))
                .unwrap_or(first),
            is_feed: bench.form.text("list") == "q6",
            with_key: bench.form.text("key") == "yes",
        }
    }

    /// Returns the container that the list is read from.
    fn container(self) -> &'static str {
        match (self.with_key, self.model, self.is_feed) {
            (false, Model::V3, true) => "feed",
            (false, Model::V3, false) => "users",
            _ => "posts",
        }
    }
}

/// Returns the element with the partitions that would be asked, none of them lit.
pub(super) async fn show(bench: &Bench<'_>) -> String {
    let choice = Choice::of(bench);
    let ranges = ranges(bench, choice).await;
    element(bench, bench.shell.clone(), choice, &ranges, &[], None)
}

/// Reads the list.
pub(super) async fn run(bench: &Bench<'_>) -> Result<String, BlogError> {
    let choice = Choice::of(bench);
    let user = user(bench).await?;
    let blog = bench.visit.state.site.blog(choice.model);
    let blog = blog.with_client(bench.client());
    let meter = Meter::recording();
    let started = std::time::Instant::now();
    let rows = if choice.with_key {
        let post = first_post(bench, &user).await?;
        let text = Query::new(IN_ONE_POST)
            .with("@userId", user.as_str())
            .with("@postId", post.as_str());
        let posts = blog.containers()[1].to_owned();
        blog.client().query(&meter, &posts, &post, &text).await?
    } else if choice.is_feed {
        blog.feed(&meter).await?
    } else {
        blog.posts_of_user(&meter, &user).await?
    };
    let cost = meter.measurement(started.elapsed());
    let records = meter.records();
    let (answers, others) = apart(&records, choice);
    let sent = Sent {
        sql: answers.first().map(sql_of).unwrap_or_default(),
        parts: parts(&answers, &others),
        total: figures::exact_ru(cost.ru.ru()),
        rows: rows.len(),
        ms: figures::milliseconds(cost.ms),
    };
    let ranges = ranges(bench, choice).await;
    let shell = bench.shell.saying(format!(
        "{} of {} partitions of {} answered. Together {} RU.",
        partitions_in(&answers),
        ranges.len(),
        choice.container(),
        sent.total
    ));
    Ok(element(bench, shell, choice, &ranges, &answers, Some(sent)))
}

/// Returns the user whose posts are listed: the one that was measured, or the author of the newest
/// post.
async fn user(bench: &Bench<'_>) -> Result<String, BlogError> {
    if let Some(comparison) = bench.visit.state.comparing.status().last {
        return Ok(comparison.probe.user.clone());
    }
    let newest = bench.visit.home().feed(&Meter::new()).await?;
    let user = newest.first().and_then(|post| post["userId"].as_str());
    user.map(str::to_owned).ok_or_else(no_post)
}

/// Returns the id of a post of the user, from the cheapest model.
async fn first_post(bench: &Bench<'_>, user: &str) -> Result<String, BlogError> {
    let posts = bench
        .visit
        .home()
        .posts_of_user(&Meter::new(), user)
        .await?;
    let post = posts.first().and_then(|post| post["id"].as_str());
    post.map(str::to_owned).ok_or_else(no_post)
}

fn no_post() -> BlogError {
    BlogError::InvalidOption("The blog has no post yet. Write one, then try again.".to_owned())
}

async fn ranges(bench: &Bench<'_>, choice: Choice) -> Arc<Vec<PartitionKeyRange>> {
    let blog = bench.visit.blog(choice.model);
    let link = format!("dbs/{}/colls/{}", blog.database(), choice.container());
    blog.client().ranges(&link).await.unwrap_or_default()
}

/// Returns the answers to the query for the list, and the other requests.
fn apart(records: &[RequestRecord], choice: Choice) -> (Vec<RequestRecord>, Vec<RequestRecord>) {
    let name = format!("/{}", choice.container());
    let first_text = records
        .iter()
        .find(|record| record.operation == Operation::Query)
        .map(|record| record.text.clone());
    let is_list = |record: &&RequestRecord| {
        record.operation == Operation::Query
            && record.container.ends_with(&name)
            && (record.key.is_none() || Some(&record.text) == first_text.as_ref())
    };
    let answers = records.iter().filter(is_list).cloned().collect();
    let others = records.iter().filter(|record| !is_list(record)).cloned();
    (answers, others.collect())
}

/// Returns the parts of the sum in words.
fn parts(answers: &[RequestRecord], others: &[RequestRecord]) -> Vec<(String, String)> {
    let sum = |records: &[&RequestRecord]| {
        let charge = Charge(records.iter().map(|record| record.charge.0).sum());
        figures::exact_ru(charge.ru())
    };
    let answers: Vec<&RequestRecord> = answers.iter().collect();
    let of = |operation: Operation| -> Vec<&RequestRecord> {
        let same = others.iter().filter(|record| record.operation == operation);
        same.collect()
    };
    let mut parts = vec![(
        format!("{} to the partitions", counted(answers.len(), "request")),
        sum(&answers),
    )];
    let (counts, reads) = (of(Operation::Query), of(Operation::Read));
    if !counts.is_empty() {
        let words = counted(counts.len(), "query");
        parts.push((
            format!("{words} for counts of comments and likes"),
            sum(&counts),
        ));
    }
    if !reads.is_empty() {
        let words = counted(reads.len(), "read");
        parts.push((format!("{words} for names of authors"), sum(&reads)));
    }
    parts
}

fn counted(number: usize, noun: &str) -> String {
    let plural = match noun {
        "query" => "queries".to_owned(),
        noun => format!("{noun}s"),
    };
    let noun = if number == 1 { noun } else { plural.as_str() };
    format!("{} {noun}", figures::grouped(number as f64))
}

/// Returns the query of a record as markup.
fn sql_of(record: &RequestRecord) -> String {
    let body: Value = serde_json::from_str(&record.text).unwrap_or_default();
    let mut parameters = Vec::new();
    for parameter in body["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap_or_default();
        parameters.push((name.to_owned(), parameter["value"].clone()));
    }
    query(body["query"].as_str().unwrap_or(&record.text), &parameters)
}

fn partitions_in(records: &[RequestRecord]) -> usize {
    let mut ids: Vec<&str> = records.iter().map(|record| record.range.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

fn element(
    bench: &Bench<'_>,
    shell: Shell,
    choice: Choice,
    ranges: &[PartitionKeyRange],
    answers: &[RequestRecord],
    sent: Option<Sent>,
) -> String {
    let mut models = Vec::new();
    for model in bench.visit.state.site.models() {
        let name = model.to_string();
        models.push((name.to_lowercase(), name, model == choice.model));
    }
    rendered(&View {
        shell,
        models,
        lists: [
            ("q3", "a user’s posts (Q3)", !choice.is_feed),
            ("q6", "the newest posts (Q6)", choice.is_feed),
        ],
        picture: picture(choice, ranges, answers),
        sent,
    })
}

/// Draws the partitions, those that answered with their charges.
fn picture(choice: Choice, ranges: &[PartitionKeyRange], answers: &[RequestRecord]) -> String {
    let mut table = Table::new(&["Partition", "Hash range", "Answer", "After", "Rows", "RU"]);
    let mut squares = Vec::new();
    let columns = ranges.len().clamp(1, COLUMNS);
    for (place, range) in ranges.iter().enumerate() {
        let (x, y) = (place % columns * SQUARE, place / columns * SQUARE);
        let mine = || answers.iter().filter(|record| record.range == range.id);
        let first = answers.iter().position(|record| record.range == range.id);
        let charge = Charge(mine().map(|record| record.charge.0).sum());
        let charge = match first {
            Some(_) => figures::exact_ru(charge.ru()),
            None => String::new(),
        };
        let (order, ms, rows) = match first {
            Some(order) => {
                let rows: usize = mine().filter_map(|record| record.items).sum();
                let ms = mine().map(|record| record.ms).fold(0.0, f64::max);
                (
                    format!("{}", order + 1),
                    figures::milliseconds(ms),
                    rows.to_string(),
                )
            }
            None => ("not asked".to_owned(), String::new(), String::new()),
        };
        table.row(&[&range.id, &hash_range(range), &order, &ms, &rows, &charge]);
        squares.push(Square {
            x,
            y,
            text_x: x + (SQUARE - GAP) / 2,
            text_y: y + (SQUARE - GAP) / 2 + 4,
            charge,
            order: first.map_or(0, |order| order + 1),
        });
    }
    let lit = partitions_in(answers);
    let title = match answers.is_empty() {
        true => format!("The physical partitions of {}", choice.container()),
        false => format!(
            "{lit} of {} partitions of {} answered",
            ranges.len(),
            choice.container()
        ),
    };
    Picture {
        kind: "fan-out",
        title,
        description: "Each square is a physical partition; a lit one answered, with its charge in \
                      RU."
        .to_owned(),
        drawing: rendered(&Squares {
            width: columns * SQUARE,
            height: ranges.len().div_ceil(columns).max(1) * SQUARE,
            squares,
        }),
        table,
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(
        operation: Operation,
        range: &str,
        key: Option<&str>,
        hundredths: u64,
    ) -> RequestRecord {
        RequestRecord {
            operation,
            container: "dbs/b/colls/posts".to_owned(),
            text: "{\"query\":\"SELECT * FROM c\"}".to_owned(),
            key: key.map(str::to_owned),
            range: range.to_owned(),
            status: 200,
            charge: Charge(hundredths),
            ms: 1.0,
            items: Some(2),
            index_use: None,
            throttled: 0,
        }
    }

    #[test]
    fn the_parts_of_a_list_add_up_to_its_requests() {
        let choice = Choice {
            model: Model::V1,
            is_feed: false,
            with_key: false,
        };
        let mut count = record(Operation::Query, "0", Some("p"), 283);
        count.text = "{\"query\":\"SELECT VALUE COUNT(1)\"}".to_owned();
        let records = [
            record(Operation::Query, "0", None, 250),
            record(Operation::Query, "1", None, 300),
            count,
            record(Operation::Read, "0", Some("u"), 100),
        ];
        let (answers, others) = apart(&records, choice);
        assert_eq!((answers.len(), others.len()), (2, 2));
        let charges: Vec<String> = parts(&answers, &others)
            .into_iter()
            .map(|part| part.1)
            .collect();
        assert_eq!(charges, ["5.50", "2.83", "1.00"]);
        assert_eq!(partitions_in(&answers), 2);
    }
}
