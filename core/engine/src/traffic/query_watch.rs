//! Measures a page of a query while it runs, and adds it to the forms of the container's queries.

use super::query_forms::{QueryRun, QueryShape};
use crate::catalog::Container;
use crate::request::{Outcome, QueryPage, QueryRequest, Scope};
use orrery_model::partition_key::Epk;
use orrery_model::work::{QueryWork, Step};
use orrery_sql::{CountOfRows, QueryForm};
use std::time::Instant;

/// A running page of a query.
pub(crate) struct QueryWatch {
    /// True if index advice is wanted.
    pub wants_advice: bool,
    form: Option<QueryForm>,
    began: Instant,
}

impl QueryWatch {
    /// Begins to measure.
    pub(crate) fn begin(container: &Container, text: &str) -> Self {
        let form = QueryForm::of(text);
        let wants_advice = form
            .as_ref()
            .is_some_and(|form| container.traffic().wants_advice(form.hash));
        QueryWatch {
            wants_advice,
            form,
            began: Instant::now(),
        }
    }

    /// Adds an answered page to the forms. A refused page is not added.
    pub(crate) fn end(self, now_ms: u64, asked: &Asked<'_>, outcome: &Outcome<QueryPage>) {
        let container = asked.container;
        let (Ok(page), Some(form)) = (&outcome.result, &self.form) else {
            return;
        };
        let works: Vec<QueryWork> = outcome.work.steps.iter().filter_map(query_work).collect();
        container.traffic().note_query(QueryRun {
            form: form.hash,
            text: &form.text,
            now_ms,
            charge: outcome.charge,
            micros: u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX),
            partitions: works.len() as u64,
            retrieved: works.iter().map(|work| work.loaded_items).sum(),
            output: works.iter().map(|work| work.returned_rows).sum(),
            crosses_partitions: asked.key.is_none(),
            index_advice: page.index_metrics.clone().filter(|_| self.wants_advice),
            shape: asked.shape(form),
        });
    }
}

/// A request for a page of a query, and what its execution found out.
pub(crate) struct Asked<'a> {
    /// The container.
    pub container: &'a Container,
    /// The scope of the request.
    pub scope: &'a Scope,
    /// The request.
    pub query: &'a QueryRequest,
    /// The logical partition, if the query is for a single one.
    pub key: Option<&'a Epk>,
    /// The number of the first item that was loaded.
    pub item: Option<u64>,
}

impl<'a> Asked<'a> {
    fn shape(&self, form: &QueryForm) -> QueryShape<'a> {
        let mut counts = Vec::with_capacity(form.counts.len());
        for count in &form.counts {
            counts.push(match count {
                CountOfRows::Number(rows) => *rows,
                CountOfRows::Parameter(name) => self.parameter(name),
            });
        }
        QueryShape {
            counts,
            page_items: self.query.page.max_items,
            is_continued: self.query.page.continuation.is_some(),
            names_key: matches!(self.scope, Scope::Key(_)),
            names_range: matches!(self.scope, Scope::Range { .. }),
            key: self.key,
            item: self.item,
        }
    }

    /// Returns the number that a parameter has; 0 if it has none.
    fn parameter(&self, name: &str) -> u64 {
        let mut parameters = self.query.parameters.iter();
        let found = parameters.find(|(known, _)| known == name);
        let number = found.and_then(|(_, value)| value.as_i64());
        number
            .and_then(|number| u64::try_from(number).ok())
            .unwrap_or(0)
    }
}

fn query_work(step: &Step) -> Option<QueryWork> {
    match step {
        Step::Query(work) => Some(*work),
        _ => None,
    }
}
