//! The state of the pipelines, and what followed from a write.

use crate::consequences::Consequences;
use crate::frame::Frame;
use crate::text;
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::extract::{Path, Query};
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use orrery_blog::Pipelines;
use orrery_blog::pipelines::{
    DeadLetter, PipelineStatus, Precision, RangeStatus, Status, WorkerStatus,
};
use std::collections::HashMap;

/// Dead letters that the page lists.
const DEAD_LETTERS_MAX: usize = 100;
/// Ranges and dead letters on one page of each list.
const ROWS: usize = 15;

#[derive(Template)]
#[template(path = "pipelines.html")]
struct PipelinesPage {
    frame: Frame,
    /// A sentence instead of the tables.
    words: String,
    waiting: String,
    p50: String,
    p99: String,
    workers: Vec<WorkerStatus>,
    lists: Lists,
}

/// One page of the lists.
#[derive(Default)]
struct Lists {
    ranges: Vec<RangeRow>,
    dead_letters: Vec<DeadLetter>,
    /// The dead letters of all pages.
    dead: usize,
    /// Ranges and letters on earlier and later pages, in words; empty on a single page.
    place: String,
    /// The number of this page, and links to its neighbours; 0 for none.
    page: usize,
    earlier: usize,
    later: usize,
}

/// A range of a pipeline.
struct RangeRow {
    pipeline: String,
    model: String,
    label: String,
    range: String,
    worker: String,
    lag: String,
    delivered: String,
    charge: String,
    mark: &'static str,
    icon: &'static str,
    state: String,
}

/// `GET /pipelines`, with the number of the page of its lists, such as `?page=2`; another text is
/// the first page.
pub(crate) async fn show(
    mut visit: Visit,
    Query(list): Query<HashMap<String, String>>,
) -> Response {
    let number = list.get("page").and_then(|page| page.parse().ok());
    let result = show_state(&mut visit, number.unwrap_or(1)).await;
    visit.answer(result).await
}

async fn show_state(visit: &mut Visit, number: usize) -> Result<Response, Trouble> {
    visit.load_user().await?;
    let mut page = PipelinesPage {
        frame: visit.frame("Pipelines").await,
        words: String::new(),
        waiting: String::new(),
        p50: String::new(),
        p99: String::new(),
        workers: Vec::new(),
        lists: Lists::default(),
    };
    match visit.state.options.pipelines.clone() {
        Some(pipelines) => fill(&mut page, &pipelines, number).await?,
        None => page.words = "This process knows no pipelines.".into(),
    }
    Ok(visit.page(StatusCode::OK, &page))
}

async fn fill(
    page: &mut PipelinesPage,
    pipelines: &Pipelines,
    number: usize,
) -> Result<(), Trouble> {
    let status = pipelines.status().await?;
    let mut dead_letters = pipelines.dead_letters().await?;
    dead_letters.truncate(DEAD_LETTERS_MAX);
    let mut ranges = Vec::new();
    let mut waiting = Some(0);
    for pipeline in &status.pipelines {
        waiting = waiting.zip(pipeline.lag()).map(|(sum, lag)| sum + lag);
        for range in &pipeline.ranges {
            ranges.push(range_row(pipeline, range));
        }
    }
    page.waiting = waiting.map_or("unknown".into(), text::count);
    let (p50, p99) = delivery_times(&status);
    page.p50 = p50;
    page.p99 = p99;
    page.workers = status.workers;
    page.lists = Lists::cut(ranges, dead_letters, number);
    Ok(())
}

impl Lists {
    /// Returns the ranges and dead letters of one page: what needs attention comes first. A page
    /// after the last is the last.
    fn cut(mut ranges: Vec<RangeRow>, dead_letters: Vec<DeadLetter>, number: usize) -> Lists {
        ranges.sort_by_key(|range| match range.mark {
            "bad" => 0,
            "warn" => 1,
            _ => 2,
        });
        let dead = dead_letters.len();
        let pages = ranges.len().max(dead).div_ceil(ROWS).max(1);
        let page = number.clamp(1, pages);
        let from = (page - 1) * ROWS;
        Lists {
            ranges: part(ranges, from),
            dead_letters: part(dead_letters, from),
            dead,
            place: match pages {
                1 => String::new(),
                _ => format!("Page {page} of {pages}"),
            },
            page,
            earlier: page - 1,
            later: if page < pages { page + 1 } else { 0 },
        }
    }
}

/// Returns the rows of one page of a list.
fn part<T>(rows: Vec<T>, from: usize) -> Vec<T> {
    rows.into_iter().skip(from).take(ROWS).collect()
}

/// Returns the longest median and 99th percentile of all reactions whose delivery times are exact.
fn delivery_times(status: &Status) -> (String, String) {
    let mut longest: Option<(f64, f64)> = None;
    for pipeline in &status.pipelines {
        for reaction in &pipeline.reactions {
            for delivery in &reaction.delivery {
                if delivery.precision != Precision::Microseconds || delivery.count == 0 {
                    continue;
                }
                let (p50, p99) = longest.unwrap_or_default();
                longest = Some((p50.max(delivery.p50_ms), p99.max(delivery.p99_ms)));
            }
        }
    }
    match longest {
        Some((p50, p99)) => (text::milliseconds(p50), text::milliseconds(p99)),
        None => ("none yet".into(), "none yet".into()),
    }
}

fn range_row(pipeline: &PipelineStatus, range: &RangeStatus) -> RangeRow {
    // The name of a pipeline begins with the database: `blog-v3.posts`.
    let database = pipeline.name.split('.').next().unwrap_or_default();
    let model = database.rsplit('-').next().unwrap_or_default();
    let lag = range.lag.map_or("unknown".into(), text::count);
    let (mark, icon, state) = if range.error.is_some() {
        ("bad", "warning", "failing; tried again")
    } else if !range.is_owner_alive {
        ("bad", "warning", "no worker")
    } else if range.lag.is_some_and(|lag| lag > 0) {
        ("warn", "info", "catching up")
    } else {
        ("good", "check", "current")
    };
    let mut reactions = Vec::new();
    for reaction in &pipeline.reactions {
        reactions.push(reaction.name.as_str());
    }
    RangeRow {
        pipeline: reactions.join(", "),
        model: model.to_owned(),
        label: model.to_uppercase(),
        range: range.range.clone(),
        worker: range.owner.clone().unwrap_or_else(|| "none".into()),
        lag,
        delivered: text::count(range.changes),
        charge: text::charge(range.ru),
        mark,
        icon,
        state: state.to_owned(),
    }
}

/// `GET /consequences/{id}`: HTML for the drawer, JSON for a program that asks for JSON.
pub(crate) async fn consequences(visit: Visit, Path(id): Path<String>) -> Response {
    let result = show_consequences(&visit, &id).await;
    visit.answer(result).await
}

async fn show_consequences(visit: &Visit, id: &str) -> Result<Response, Trouble> {
    if !text::is_id(id) {
        return Err(Trouble::NotFound("write"));
    }
    let receipt = match visit.state.receipts.get(id) {
        Some(receipt) => Some(receipt),
        None => visit.state.writes.receipt(&visit.own, id).await?,
    };
    let Some(receipt) = receipt else {
        return Err(Trouble::NotFound("write"));
    };
    let asked = visit.query.get("model").and_then(|name| name.parse().ok());
    let model = asked.unwrap_or_else(|| visit.state.site.home());
    let section = Consequences::of(&visit.state, &receipt, model);
    let accepted = visit.headers.get(header::ACCEPT);
    let wants_json = accepted
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.contains("application/json"));
    let response = if wants_json {
        let mut response = section.json().into_response();
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        response
    } else {
        Html(section.render().unwrap_or_default()).into_response()
    };
    Ok(visit.finished(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(ranges: usize, number: usize) -> Lists {
        let row = |n: usize| RangeRow {
            pipeline: n.to_string(),
            model: String::new(),
            label: String::new(),
            range: String::new(),
            worker: String::new(),
            lag: String::new(),
            delivered: String::new(),
            charge: String::new(),
            mark: if n == ranges - 1 { "bad" } else { "good" },
            icon: "check",
            state: String::new(),
        };
        Lists::cut((0..ranges).map(row).collect(), Vec::new(), number)
    }

    #[test]
    fn long_lists_have_pages_and_what_fails_comes_first() {
        let first = page(100, 1);
        assert_eq!(
            (first.ranges.len(), first.earlier, first.later),
            (ROWS, 0, 2)
        );
        assert_eq!(
            (
                first.ranges[0].pipeline.as_str(),
                first.ranges[1].pipeline.as_str()
            ),
            ("99", "0")
        );
        let last = page(100, 400);
        assert_eq!((last.page, last.earlier, last.later), (7, 6, 0));
        assert_eq!(last.ranges.len(), 100 - 6 * ROWS);
        assert_eq!(page(3, 1).place, "");
    }
}
