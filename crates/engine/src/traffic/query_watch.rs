//! Measures a page of a query while it runs, and adds it to the forms of the container's queries.

use super::query_forms::QueryRun;
use crate::catalog::Container;
use crate::request::{Outcome, QueryPage};
use orrery_model::work::{QueryWork, Step};
use orrery_sql::QueryForm;
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

    /// Adds an answered page to the forms. A refused page is not added. `is_single_key` is true if
    /// the query is for a single logical partition.
    pub(crate) fn end(
        self,
        now_ms: u64,
        container: &Container,
        is_single_key: bool,
        outcome: &Outcome<QueryPage>,
    ) {
        let (Ok(page), Some(form)) = (&outcome.result, &self.form) else {
            return;
        };
        let asked: Vec<QueryWork> = outcome.work.steps.iter().filter_map(query_work).collect();
        container.traffic().note_query(QueryRun {
            form: form.hash,
            text: &form.text,
            now_ms,
            charge: outcome.charge,
            micros: u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX),
            partitions: asked.len() as u64,
            retrieved: asked.iter().map(|work| work.loaded_items).sum(),
            output: asked.iter().map(|work| work.returned_rows).sum(),
            crosses_partitions: !is_single_key,
            index_advice: page.index_metrics.clone().filter(|_| self.wants_advice),
        });
    }
}

fn query_work(step: &Step) -> Option<QueryWork> {
    match step {
        Step::Query(work) => Some(*work),
        _ => None,
    }
}
