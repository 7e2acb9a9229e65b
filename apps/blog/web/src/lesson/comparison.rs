//! The part of `/compare` that follows the comparison: progress, the article's ten requests as bars
//! and as a table, and the other actions.
//!
//! The part has its whole shape before the first comparison: the article's figures stand alone,
//! named as such, until ours stand beside them.

use super::figures;
use crate::scale::{Scale, Tick};
use crate::text;
use askama::Template;
use orrery_blog::lesson::compare::{Cell, Comparison, PipelineCost};
use orrery_blog::lesson::comparing::{Running, Status};
use orrery_blog::lesson::{Action, published};
use orrery_blog::{BlogError, Model, Request};

/// The part of the article's charge within which a measured charge counts as equal.
const CLOSE: f64 = 0.25;

/// A failure in words: what happened, and what to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) happened: String,
    pub(crate) to_do: String,
}

/// The element `#comparison`.
#[derive(Template)]
#[template(path = "lesson/comparison.html")]
pub(crate) struct ComparisonPart {
    is_polled: bool,
    progress: Option<Progress>,
    failure: Option<Failure>,
    is_measured: bool,
    /// A sentence about the origin of the figures.
    origin: String,
    requests: Vec<RequestView>,
    ticks: Vec<Tick>,
    others: Option<Others>,
    /// Address of the file with icons.
    icons: String,
}

/// A comparison that runs.
struct Progress {
    /// E.g. `The models are being measured (4 of 45): V1: read a post.`
    words: String,
    number: usize,
    of: usize,
}

/// A request of the article in the three models.
struct RequestView {
    code: String,
    description: &'static str,
    bars: Vec<RequestBar>,
}

/// A request of the article in one model.
struct RequestBar {
    model: String,
    name: String,
    /// Length of the bar in percent.
    width: String,
    /// The charge beside the bar.
    short: String,
    /// True if the bar has the article's figure.
    is_theirs: bool,
    /// Place of the article's figure in percent.
    article_x: String,
    article_ru: String,
    article_ms: String,
    /// Our figures; `None` until there are any.
    ours: Option<Ours>,
    /// The reason for which there are no figures of ours.
    reason: &'static str,
}

/// Measured figures of a request.
struct Ours {
    ru: String,
    ms: String,
    partitions: String,
    /// Class, icon and factor of the mark beside the article's figure.
    mark: (&'static str, &'static str, String),
    note: &'static str,
    varies: bool,
}

/// The actions beyond the article's requests, and what follows each write.
struct Others {
    models: Vec<ModelHead>,
    rows: Vec<Row>,
}

struct ModelHead {
    model: String,
    name: String,
    facts: String,
}

struct Row {
    code: String,
    description: String,
    is_pipeline: bool,
    cells: Vec<Option<CellView>>,
}

struct CellView {
    model: String,
    name: String,
    ru: String,
    ms: String,
    asked: String,
    width: String,
    varies: bool,
}

impl ComparisonPart {
    /// Returns the part for a state of the comparison. `present` has the models of the site.
    pub(crate) fn of(status: &Status, present: &[Model], icons: &str) -> Self {
        let last = status.last.as_deref();
        let mut highest: f64 = 0.0;
        for request in Request::ALL {
            for model in Model::ALL {
                let cell = last.and_then(|last| last.cell(Action::Article(request), model));
                highest = highest.max(published(request, model).1);
                highest = highest.max(cell.map_or(0.0, |cell| cell.ru));
            }
        }
        let scale = Scale::up_to(highest);
        let mut requests = Vec::new();
        for request in Request::ALL {
            requests.push(request_view(request, status, present, scale));
        }
        Self {
            is_polled: status.is_awaited(),
            progress: status
                .is_awaited()
                .then(|| progress(status.running.as_ref())),
            failure: status.failure.as_ref().map(explain),
            is_measured: last.is_some(),
            origin: origin(status, present),
            requests,
            ticks: scale.ticks(),
            others: last.map(|last| others(last, scale)),
            icons: icons.to_owned(),
        }
    }
}

/// Returns the words and the numbers of a comparison that runs or is about to start.
fn progress(running: Option<&Running>) -> Progress {
    let Some(running) = running.filter(|running| running.step.of > 0) else {
        return Progress {
            words: "The models are being measured…".to_owned(),
            number: 0,
            of: 1,
        };
    };
    let step = &running.step;
    let left = match running.time_left() {
        Some(left) => format!(
            " About {} s left.",
            figures::grouped(left.as_secs_f64().ceil())
        ),
        None => String::new(),
    };
    Progress {
        words: format!(
            "The models are being measured ({} of {}): {}.{left}",
            step.number, step.of, step.name
        ),
        number: step.number,
        of: step.of,
    }
}

/// Returns the sentence about the origin of the figures.
fn origin(status: &Status, present: &[Model]) -> String {
    let absent = match present.len() < Model::ALL.len() {
        true => {
            let names: Vec<String> = present.iter().map(Model::to_string).collect();
            format!(
                " Only {} is on this site; the other models have the article's figures alone.",
                names.join(" and ")
            )
        }
        false => String::new(),
    };
    match status.last.as_deref() {
        Some(last) => format!(
            "Measured on {} in {} s, up to {} runs of each action; figures are medians. Reads ran \
             on this blog, writes in a database of their own.{absent}",
            last.at.strftime("%-d %B %Y, %H:%M:%S UTC"),
            figures::plain((last.seconds * 10.0).round() / 10.0),
            last.runs,
        ),
        None if !status.is_watched => format!(
            "These are the article's figures. The models of this blog are measured on demand, \
             since its database may charge for it.{absent}"
        ),
        None => format!("These are the article's figures, until ours stand beside them.{absent}"),
    }
}

fn request_view(request: Request, status: &Status, present: &[Model], scale: Scale) -> RequestView {
    let action = Action::Article(request);
    let mut bars = Vec::new();
    for model in Model::ALL {
        let last = status.last.as_deref();
        let cell = last.and_then(|last| last.cell(action, model));
        let (article_ms, article_ru) = published(request, model);
        let shown = cell.map_or(article_ru, |cell| cell.ru);
        bars.push(RequestBar {
            model: model.to_string().to_lowercase(),
            name: model.to_string(),
            width: scale.width(shown),
            short: text::short_charge(orrery_blog::Charge((shown * 100.0).round() as u64)),
            is_theirs: cell.is_none(),
            article_x: format!("{:.1}", scale.place(article_ru)),
            article_ru: figures::exact_ru(article_ru),
            article_ms: figures::plain(article_ms),
            ours: cell.map(ours),
            reason: match present.contains(&model) {
                false => "not on this site",
                true if status.is_awaited() => "being measured",
                true if !status.is_watched => "measured on demand",
                true => "cannot be measured now",
            },
        });
    }
    RequestView {
        code: request.to_string(),
        description: action.description(),
        bars,
    }
}

fn ours(cell: &Cell) -> Ours {
    let theirs = cell.article.map_or(cell.ru, |(_, ru)| ru);
    Ours {
        ru: figures::exact_ru(cell.ru),
        ms: format!("{:.1}", cell.ms_p50),
        partitions: figures::grouped(cell.partitions as f64),
        mark: mark(cell.ru / theirs),
        note: cell.note.unwrap_or_default(),
        varies: cell.varies,
    }
}

/// Explains the failure of a comparison or experiment.
pub(crate) fn explain(error: &BlogError) -> Failure {
    let failure = |happened: &str, to_do: &str| Failure {
        happened: happened.to_owned(),
        to_do: to_do.to_owned(),
    };
    match error {
        BlogError::Unreachable { .. } => failure(
            "The database does not answer.",
            "Check that it is running, then try again.",
        ),
        BlogError::Refused { status: 429, .. } => failure(
            "The database is busy: it refused a request for a whole minute.",
            "Wait until there is less traffic, then try again.",
        ),
        BlogError::Refused {
            status, sub_status, ..
        } => Failure {
            happened: format!("The database refused a request with {status}/{sub_status}."),
            to_do: "Try again. A database of another provider may not offer what was asked."
                .to_owned(),
        },
        BlogError::InvalidOption(text) => Failure {
            happened: format!("Nothing was measured: {text}."),
            to_do: "Write a post first, or name another one.".to_owned(),
        },
        _ => failure(
            "The database gave an answer that was not expected.",
            "Try again. If it happens again, the data may be changing too fast.",
        ),
    }
}

/// Returns edits and deletions, and the pipelines that follow each write.
fn others(comparison: &Comparison, scale: Scale) -> Others {
    let models: Vec<Model> = comparison.models.iter().map(|facts| facts.model).collect();
    let mut rows = Vec::new();
    for action in Action::ALL {
        let cells: Vec<Option<&Cell>> = models
            .iter()
            .map(|model| comparison.cell(action, *model))
            .collect();
        let is_of_article = matches!(action, Action::Article(_));
        if !is_of_article && cells.iter().any(Option::is_some) {
            rows.push(action_row(action, &cells, scale));
        }
        rows.extend(pipeline_rows(action, &cells, scale));
    }
    let mut heads = Vec::new();
    for facts in &comparison.models {
        heads.push(ModelHead {
            model: facts.model.to_string().to_lowercase(),
            name: facts.model.to_string(),
            facts: format!("posts on {} partitions", facts.partitions[1]),
        });
    }
    Others {
        models: heads,
        rows,
    }
}

fn action_row(action: Action, cells: &[Option<&Cell>], scale: Scale) -> Row {
    let mut views = Vec::new();
    for cell in cells {
        views.push(cell.map(|cell| action_view(cell, scale)));
    }
    Row {
        code: action.to_string(),
        description: action.description().to_owned(),
        is_pipeline: false,
        cells: views,
    }
}

fn action_view(cell: &Cell, scale: Scale) -> CellView {
    CellView {
        model: cell.model.to_string().to_lowercase(),
        name: cell.model.to_string(),
        ru: figures::exact_ru(cell.ru),
        ms: figures::milliseconds(cell.ms_p50),
        asked: format!(
            "{}, {}",
            counted(cell.requests, "request"),
            counted(cell.partitions, "partition")
        ),
        width: scale.width(cell.ru),
        varies: cell.varies,
    }
}

/// Returns one row for each pipeline that an action sets off in some model.
fn pipeline_rows(action: Action, cells: &[Option<&Cell>], scale: Scale) -> Vec<Row> {
    let mut names: Vec<&'static str> = Vec::new();
    for pipeline in cells.iter().flatten().flat_map(|cell| &cell.pipelines) {
        if !names.contains(&pipeline.name) {
            names.push(pipeline.name);
        }
    }
    let mut rows = Vec::new();
    for name in names {
        let of_model = |cell: &Cell| {
            let mut pipelines = cell.pipelines.iter();
            let pipeline = pipelines.find(|pipeline| pipeline.name == name)?;
            Some(pipeline_view(cell, pipeline, scale))
        };
        rows.push(Row {
            code: action.to_string(),
            description: format!("pipeline: {name}"),
            is_pipeline: true,
            cells: cells.iter().map(|cell| cell.and_then(of_model)).collect(),
        });
    }
    rows
}

fn pipeline_view(cell: &Cell, pipeline: &PipelineCost, scale: Scale) -> CellView {
    CellView {
        model: cell.model.to_string().to_lowercase(),
        name: cell.model.to_string(),
        ru: figures::exact_ru(pipeline.ru),
        ms: figures::milliseconds(pipeline.ms),
        asked: format!(
            "{}, {}",
            counted(pipeline.requests, "request"),
            counted(pipeline.written as usize, "item")
        ),
        width: scale.width(pipeline.ru),
        varies: false,
    }
}

/// Returns a number with its noun in the singular or plural.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", figures::grouped(number as f64))
}

/// Returns the mark for a charge that is `factor` times the article's.
fn mark(factor: f64) -> (&'static str, &'static str, String) {
    let text = format!("× {factor:.2}");
    if (factor - 1.0).abs() <= CLOSE {
        ("good", "check", text)
    } else {
        ("warn", "info", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lesson::samples::comparison;
    use orrery_blog::lesson::compare::Step;
    use std::sync::Arc;
    use std::time::Instant;

    fn html(status: &Status) -> String {
        ComparisonPart::of(status, &Model::ALL, "/assets/icons.svg")
            .render()
            .expect("it renders")
    }

    #[test]
    fn before_the_first_comparison_the_articles_figures_stand_alone_and_are_named() {
        let status = Status {
            is_watched: true,
            ..Status::default()
        };
        let html = html(&status);
        assert!(
            html.contains("These are the article&#39;s figures"),
            "{html}"
        );
        assert!(html.contains("2,063.54") && html.contains("being measured"));
        assert!(html.contains("data-poll=\"/compare\"") && !html.contains('–'));
    }

    #[test]
    fn a_running_comparison_shows_its_step_and_polls() {
        let status = Status {
            running: Some(Running {
                step: Step {
                    name: "V1: read a post".to_owned(),
                    number: 4,
                    of: 45,
                },
                started: Instant::now(),
            }),
            ..Status::default()
        };
        let html = html(&status);
        assert!(html.contains("(4 of 45): V1: read a post"), "{html}");
        assert!(html.contains("data-poll=\"/compare\"") && !html.contains("left."));
    }

    #[test]
    fn a_model_that_is_not_on_the_site_has_the_articles_figures_and_the_reason() {
        let mut only = comparison();
        only.models.retain(|facts| facts.model == Model::V3);
        only.cells.retain(|cell| cell.model == Model::V3);
        let status = Status {
            last: Some(Arc::new(only)),
            ..Status::default()
        };
        let part = ComparisonPart::of(&status, &[Model::V3], "/assets/icons.svg");
        let html = part.render().expect("it renders");
        assert!(html.contains("Only V3 is on this site"), "{html}");
        assert_eq!(html.matches("not on this site").count(), 20);
        assert!(html.contains("9.90"));
    }

    #[test]
    fn a_finished_comparison_shows_the_figures_beside_the_articles() {
        let status = Status {
            last: Some(Arc::new(comparison())),
            ..Status::default()
        };
        let html = html(&status);
        assert!(html.contains(">8.76<") && html.contains(">9.90<"), "{html}");
        assert!(html.contains("pipeline: posts to feed"));
        assert!(html.contains("× 1.13") && !html.contains("data-poll"));
    }

    #[test]
    fn a_failure_is_explained_and_the_last_figures_stay() {
        let status = Status {
            failure: Some(BlogError::Unexpected {
                operation: "GET /dbs/blog".to_owned(),
                reason: "internal".to_owned(),
            }),
            last: Some(Arc::new(comparison())),
            ..Status::default()
        };
        let html = html(&status);
        assert!(html.contains("not expected") && html.contains(">8.76<"));
        assert!(!html.contains("internal") && !html.contains("/dbs/"));
    }

    #[test]
    fn a_database_that_is_gone_is_named_as_the_cause() {
        let status = Status {
            failure: Some(BlogError::Unreachable {
                operation: "GET /".to_owned(),
                cause: "refused".to_owned(),
            }),
            ..Status::default()
        };
        assert!(html(&status).contains("The database does not answer."));
    }
}
