//! The figures of the chapters: those of the article, and those of the last comparison.
//!
//! A chapter never states a figure by itself. It asks the story, which answers with a dash for what
//! has not been measured.

use super::figures;
use orrery_blog::lesson::compare::{Cell, Comparison};
use orrery_blog::lesson::{Action, published};
use orrery_blog::{Model, Request};
use std::sync::Arc;

/// The text for a figure that has not been measured.
const UNKNOWN: &str = "–";

/// The figures of the chapters.
pub(crate) struct Story {
    pub(crate) comparison: Option<Arc<Comparison>>,
}

/// A row of a table of costs.
pub(crate) struct CostRow {
    pub(crate) code: String,
    pub(crate) description: &'static str,
    pub(crate) cells: Vec<CostCell>,
}

/// The figures of an action in a model.
pub(crate) struct CostCell {
    /// `v1`
    pub(crate) model: String,
    /// `V1`
    pub(crate) name: String,
    pub(crate) article: String,
    pub(crate) live: String,
    pub(crate) partitions: String,
}

/// A write with the parts of its cost.
pub(crate) struct WriteRow {
    pub(crate) code: String,
    pub(crate) description: &'static str,
    pub(crate) model: String,
    pub(crate) name: String,
    pub(crate) request: String,
    pub(crate) parts: Vec<(String, String)>,
    pub(crate) total: String,
    /// The whole cost as a multiple of the request, e.g. `3.4`.
    pub(crate) factor: String,
}

impl Story {
    /// Returns true once a comparison has succeeded.
    pub(crate) fn is_measured(&self) -> bool {
        self.comparison.is_some()
    }

    /// Returns the measured charge of an action, e.g. of `C2` in model 3.
    pub(crate) fn live(&self, code: &str, model: usize) -> String {
        let cell = self.cell(code, model);
        cell.map_or(UNKNOWN.to_owned(), |cell| figures::ru(cell.ru))
    }

    /// Returns the measured charge of an action with its pipelines.
    pub(crate) fn total(&self, code: &str, model: usize) -> String {
        let cell = self.cell(code, model);
        cell.map_or(UNKNOWN.to_owned(), |cell| {
            figures::ru(cell.price.total_ru())
        })
    }

    /// Returns the measured charge of the pipelines of an action.
    pub(crate) fn pipelines(&self, code: &str, model: usize) -> String {
        let cell = self.cell(code, model);
        cell.map_or(UNKNOWN.to_owned(), |cell| {
            figures::ru(cell.price.pipelines_ru())
        })
    }

    /// Returns the charge that the article states for a request.
    pub(crate) fn article(&self, code: &str, model: usize) -> String {
        match (action_of(code), model_of(model)) {
            (Some(Action::Article(request)), Some(model)) => {
                figures::ru(published(request, model).1)
            }
            _ => UNKNOWN.to_owned(),
        }
    }

    /// Returns the number of requests to the database that an action makes.
    pub(crate) fn requests(&self, code: &str, model: usize) -> String {
        let cell = self.cell(code, model);
        cell.map_or(UNKNOWN.to_owned(), |cell| {
            figures::grouped(cell.requests as f64)
        })
    }

    /// Returns the number of posts that show the probe user's name.
    pub(crate) fn posts_with_name(&self, model: usize) -> String {
        match self.facts(model) {
            Some(facts) => figures::grouped(facts.posts_with_name as f64),
            None => UNKNOWN.to_owned(),
        }
    }

    /// Returns the charge of one poll of all pipelines that finds nothing.
    pub(crate) fn poll(&self, model: usize) -> String {
        self.facts(model)
            .map_or(UNKNOWN.to_owned(), |facts| figures::ru(facts.poll_ru))
    }

    /// Returns the address of the probe post or user in a model, or that of the front page.
    pub(crate) fn link(&self, kind: &str, model: usize) -> String {
        match (&self.comparison, kind) {
            (Some(comparison), "post") => format!("/v{model}/posts/{}", comparison.probe.post),
            (Some(comparison), "user") => format!("/v{model}/users/{}", comparison.probe.user),
            _ => format!("/v{model}"),
        }
    }

    /// Returns a table of costs: `codes` and `models` are separated by spaces.
    pub(crate) fn table(&self, codes: &str, models: &str) -> Vec<CostRow> {
        let mut rows = Vec::new();
        for code in codes.split(' ') {
            let Some(action) = action_of(code) else {
                continue;
            };
            let mut cells = Vec::new();
            for number in models.split(' ') {
                let number = number.parse().unwrap_or_default();
                let cell = self.cell(code, number);
                let count = |count: Option<usize>| match count {
                    Some(count) => figures::grouped(count as f64),
                    None => UNKNOWN.to_owned(),
                };
                cells.push(CostCell {
                    model: format!("v{number}"),
                    name: format!("V{number}"),
                    article: self.article(code, number),
                    live: self.live(code, number),
                    partitions: count(cell.map(|cell| cell.partitions)),
                });
            }
            rows.push(CostRow {
                code: action.to_string(),
                description: action.description(),
                cells,
            });
        }
        rows
    }

    /// Returns the writes with the parts of their costs, for models with pipelines.
    pub(crate) fn writes(&self) -> Vec<WriteRow> {
        let mut rows = Vec::new();
        let Some(comparison) = &self.comparison else {
            return rows;
        };
        for cell in &comparison.cells {
            if cell.pipelines.is_empty() {
                continue;
            }
            let mut parts = Vec::new();
            for pipeline in &cell.pipelines {
                parts.push((pipeline.name.to_owned(), figures::ru(pipeline.ru)));
            }
            let total = cell.price.total_ru();
            rows.push(WriteRow {
                code: cell.action.to_string(),
                description: cell.action.description(),
                model: cell.model.to_string().to_lowercase(),
                name: cell.model.to_string(),
                request: figures::ru(cell.ru),
                parts,
                total: figures::ru(total),
                factor: figures::plain((total / cell.ru.max(0.01) * 10.0).round() / 10.0),
            });
        }
        rows
    }

    fn cell(&self, code: &str, model: usize) -> Option<&Cell> {
        let comparison = self.comparison.as_ref()?;
        comparison.cell(action_of(code)?, model_of(model)?)
    }

    fn facts(&self, model: usize) -> Option<&orrery_blog::lesson::compare::ModelFacts> {
        self.comparison.as_ref()?.facts(model_of(model)?)
    }
}

/// Returns the action with a code of the templates: the article's, `rename`, `edit` or `delete`.
pub(crate) fn action_of(code: &str) -> Option<Action> {
    match code {
        "rename" => return Some(Action::Rename),
        "edit" => return Some(Action::EditPost),
        "delete" => return Some(Action::DeletePost),
        _ => {}
    }
    let request = Request::ALL
        .into_iter()
        .find(|request| request.to_string().eq_ignore_ascii_case(code))?;
    Some(Action::Article(request))
}

/// Returns the name of an action in forms, which [`action_of`] understands.
pub(crate) fn code_of(action: Action) -> String {
    match action {
        Action::Article(request) => request.to_string().to_lowercase(),
        Action::Rename => "rename".to_owned(),
        Action::EditPost => "edit".to_owned(),
        Action::DeletePost => "delete".to_owned(),
    }
}

fn model_of(number: usize) -> Option<Model> {
    Model::ALL.get(number.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_found_by_its_code() {
        for action in Action::ALL {
            assert_eq!(action_of(&code_of(action)), Some(action));
        }
        assert_eq!(action_of("C9"), None);
        assert_eq!(
            (model_of(0), model_of(3), model_of(4)),
            (None, Some(Model::V3), None)
        );
    }

    #[test]
    fn without_a_comparison_only_the_articles_figures_are_known() {
        let story = Story { comparison: None };
        assert_eq!(story.live("C2", 3), UNKNOWN);
        assert_eq!(story.article("C2", 3), "8.76");
        assert_eq!(story.article("rename", 3), UNKNOWN);
        let table = story.table("Q3 Q6", "1 3");
        assert_eq!((table.len(), table[0].cells.len()), (2, 2));
        assert_eq!(table[1].cells[0].article, "2,064");
        assert!(story.writes().is_empty());
        assert_eq!(story.link("post", 1), "/v1");
    }
}
