//! The state of the pipelines, and what followed from a write.

use crate::consequences::Consequences;
use crate::frame::Frame;
use crate::text;
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::extract::Path;
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use orrery_blog::Pipelines;
use orrery_blog::pipelines::{
    DeadLetter, PipelineStatus, Precision, RangeStatus, Status, WorkerStatus,
};

/// Dead letters that the page lists.
const DEAD_LETTERS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "pipelines.html")]
struct PipelinesPage {
    frame: Frame,
    /// A sentence instead of the tables.
    words: String,
    waiting: String,
    p50: String,
    p99: String,
    ranges: Vec<RangeRow>,
    workers: Vec<WorkerStatus>,
    dead_letters: Vec<DeadLetter>,
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

/// `GET /pipelines`
pub(crate) async fn show(mut visit: Visit) -> Response {
    let result = show_state(&mut visit).await;
    visit.answer(result).await
}

async fn show_state(visit: &mut Visit) -> Result<Response, Trouble> {
    visit.load_user().await?;
    let mut page = PipelinesPage {
        frame: visit.frame("Pipelines").await,
        words: String::new(),
        waiting: String::new(),
        p50: String::new(),
        p99: String::new(),
        ranges: Vec::new(),
        workers: Vec::new(),
        dead_letters: Vec::new(),
    };
    match visit.state.options.pipelines.clone() {
        Some(pipelines) => fill(&mut page, &pipelines).await?,
        None => page.words = "This process knows no pipelines.".into(),
    }
    Ok(visit.page(StatusCode::OK, &page))
}

async fn fill(page: &mut PipelinesPage, pipelines: &Pipelines) -> Result<(), Trouble> {
    let status = pipelines.status().await?;
    page.dead_letters = pipelines.dead_letters().await?;
    page.dead_letters.truncate(DEAD_LETTERS_MAX);
    let mut waiting = Some(0);
    for pipeline in &status.pipelines {
        waiting = waiting.zip(pipeline.lag()).map(|(sum, lag)| sum + lag);
        for range in &pipeline.ranges {
            page.ranges.push(range_row(pipeline, range));
        }
    }
    page.waiting = waiting.map_or("unknown".into(), text::count);
    let (p50, p99) = delivery_times(&status);
    page.p50 = p50;
    page.p99 = p99;
    page.workers = status.workers;
    Ok(())
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
