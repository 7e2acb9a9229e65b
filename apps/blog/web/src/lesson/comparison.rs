//! The part of `/compare` that follows the running comparison: its state and the table of figures.

use super::figures;
use askama::Template;
use orrery_blog::lesson::Action;
use orrery_blog::lesson::compare::{Cell, Comparison, PipelineCost, Status};
use orrery_blog::{BlogError, Model};

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
    /// The step of the running comparison.
    step: Option<String>,
    failure: Option<Failure>,
    table: Option<Table>,
    /// Address of the file with icons.
    icons: String,
}

/// The figures of a comparison.
struct Table {
    models: Vec<ModelHead>,
    rows: Vec<Row>,
    seconds: String,
    runs: usize,
    at: String,
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
    article: String,
    /// Class, icon and factor of the mark beside the article's figure.
    mark: Option<(&'static str, &'static str, String)>,
    note: &'static str,
    varies: bool,
}

impl ComparisonPart {
    /// Returns the part for a state of the comparison.
    pub(crate) fn of(status: &Status, icons: &str) -> Self {
        Self {
            step: status.step.clone(),
            failure: status.failure.as_ref().map(explain),
            table: status.last.as_deref().map(table),
            icons: icons.to_owned(),
        }
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

fn table(comparison: &Comparison) -> Table {
    let models: Vec<Model> = comparison.models.iter().map(|facts| facts.model).collect();
    let mut rows = Vec::new();
    for action in Action::ALL {
        let cells: Vec<Option<&Cell>> = models
            .iter()
            .map(|model| comparison.cell(action, *model))
            .collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        rows.push(action_row(action, &cells));
        rows.extend(pipeline_rows(action, &cells));
    }
    let mut heads = Vec::new();
    for facts in &comparison.models {
        heads.push(ModelHead {
            model: facts.model.to_string().to_lowercase(),
            name: facts.model.to_string(),
            facts: format!("posts on {} partitions", facts.partitions[1]),
        });
    }
    Table {
        models: heads,
        rows,
        seconds: figures::plain((comparison.seconds * 10.0).round() / 10.0),
        runs: comparison.runs,
        at: comparison
            .at
            .strftime("%-d %B %Y, %H:%M:%S UTC")
            .to_string(),
    }
}

fn action_row(action: Action, cells: &[Option<&Cell>]) -> Row {
    let charges = cells.iter().flatten().map(|cell| cell.ru);
    let longest = charges.fold(0.0, f64::max);
    let mut views = Vec::new();
    for cell in cells {
        views.push(cell.map(|cell| action_view(cell, longest)));
    }
    Row {
        code: action.to_string(),
        description: action.description().to_owned(),
        is_pipeline: false,
        cells: views,
    }
}

fn action_view(cell: &Cell, longest: f64) -> CellView {
    let (article, mark) = match cell.article {
        Some((ms, ru)) => (
            format!("article {} RU, {ms} ms", figures::exact_ru(ru)),
            Some(mark(cell.ru / ru)),
        ),
        None => (String::new(), None),
    };
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
        width: figures::bar(cell.ru, longest),
        article,
        mark,
        note: cell.note.unwrap_or_default(),
        varies: cell.varies,
    }
}

/// Returns one row for each pipeline that an action sets off in some model.
fn pipeline_rows(action: Action, cells: &[Option<&Cell>]) -> Vec<Row> {
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
            Some(pipeline_view(cell, pipeline))
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

fn pipeline_view(cell: &Cell, pipeline: &PipelineCost) -> CellView {
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
        width: figures::bar(pipeline.ru, cell.price.total_ru()),
        article: String::new(),
        mark: None,
        note: "",
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
    use std::sync::Arc;

    fn html(status: &Status) -> String {
        ComparisonPart::of(status, "/assets/icons.svg")
            .render()
            .expect("it renders")
    }

    #[test]
    fn before_the_first_comparison_the_part_says_so_and_does_not_poll() {
        let html = html(&Status::default());
        assert!(html.contains("id=\"comparison\"") && html.contains("Nothing has been measured"));
        assert!(!html.contains("data-poll"));
    }

    #[test]
    fn a_running_comparison_shows_its_step_and_polls() {
        let status = Status {
            step: Some("V1: read a post".to_owned()),
            ..Status::default()
        };
        let html = html(&status);
        assert!(html.contains("V1: read a post") && html.contains("data-poll=\"/compare\""));
    }

    #[test]
    fn a_finished_comparison_shows_the_figures_beside_the_articles() {
        let status = Status {
            last: Some(Arc::new(comparison())),
            ..Status::default()
        };
        let html = html(&status);
        assert!(html.contains("article 8.76 RU, 9 ms"), "{html}");
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
        assert!(html.contains("not expected") && html.contains("article 8.76 RU"));
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
