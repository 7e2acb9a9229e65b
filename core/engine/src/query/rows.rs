//! Queries over rows in memory: databases, containers, scripts, offers, the items that the
//! transaction of a script sees, and the single item that a condition is tested on.
//!
//! Each row has a key by which the list is sorted. A continuation names the last row by its key, so
//! rows that are added or removed between two pages neither repeat nor skip other rows.

use super::{Workplace, bounds, compile, run_page, token};
use crate::errors::query_error;
use crate::request::{Page, QueryRequest};
use bytes::Bytes;
use orrery_model::Result;
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, limits};
use orrery_sql::{Candidate, Environment, Functions, Query, QueryError, ResumePoint, Source, Work};

/// A row of a list.
#[derive(Clone, Debug)]
pub(crate) struct ListedRow {
    /// Sort key of the row: unique in the list and constant.
    pub key: Vec<u8>,
    /// JSON text.
    pub text: Bytes,
}

/// A list as a source of candidates. It is never ordered, so the executor sorts.
struct ListSource<'a> {
    rows: &'a [ListedRow],
    /// Index of the next row.
    next: usize,
    /// True if the first key of ORDER BY descends; `None` without ORDER BY.
    descends: Option<bool>,
}

impl ListedRow {
    /// Returns the number by which a sort orders rows with equal sort values: the first bytes of
    /// the key. In a descending order the numbers descend, since the rows come as before.
    fn number(&self, descends: bool) -> u64 {
        let mut bytes = [0; 8];
        for (byte, of_key) in bytes.iter_mut().zip(&self.key) {
            *byte = *of_key;
        }
        let number = u64::from_be_bytes(bytes);
        if descends { !number } else { number }
    }
}

impl Source for ListSource<'_> {
    fn next(&mut self) -> std::result::Result<Option<Candidate>, QueryError> {
        let Some(row) = self.rows.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        Ok(Some(Candidate {
            text: Some(row.text.clone()),
            condition_holds: false,
            item_number: self.descends.map(|descends| row.number(descends)),
        }))
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        match self.rows[..self.next.min(self.rows.len())].last() {
            Some(row) => row.key.clone(),
            None => Vec::new(),
        }
    }
}

/// Runs one page of a query over a list whose rows are sorted by their keys. `list` names the list:
/// its continuations are no others'.
///
/// # Errors
/// 400 as for any query.
pub(crate) fn query_rows(
    place: Workplace<'_>,
    list: &[u8],
    environment: &Environment,
    rows: &[ListedRow],
    request: &QueryRequest,
    functions: &mut dyn Functions,
    work: &mut Work,
) -> Result<Page> {
    let page = &request.page;
    let query = compile(&request.text, &request.parameters, environment)?;
    let resume = match &page.continuation {
        Some(continuation) => Some(token::read(continuation, list)?),
        None => None,
    };
    // The page begins behind the last row by its key, even if that row is gone.
    let next = match &resume {
        Some(resume) => rows.partition_point(|row| row.key <= resume.position),
        None => 0,
    };
    let mut source = ListSource {
        rows,
        next,
        descends: query.order().first().map(|key| key.descending),
    };
    let out = run_page(
        place,
        &query,
        &mut source,
        functions,
        resume.as_ref(),
        page,
        work,
    )
    .map_err(query_error)?;
    let continuation = match &out.resume {
        Some(resume) => {
            let limit_kb = page.continuation_limit_kb;
            let shorten = |resume: &ResumePoint| query.shortened(resume);
            Some(token::write(resume, list, limit_kb, shorten)?)
        }
        None => None,
    };
    Ok(Page {
        rows: out.rows,
        continuation,
    })
}

/// Returns true if a query over a single item returns a row.
///
/// # Errors
/// 400 as for any query; 408 after [`limits::CONDITION_TIME_MS`].
pub(crate) fn has_row(world: &dyn World, query: &Query, item: Bytes) -> Result<bool> {
    let now_ms = world.now_ms();
    let mut expired = || world.now_ms().saturating_sub(now_ms) > limits::CONDITION_TIME_MS;
    let mut bounds = bounds(world, now_ms, 1, &mut expired);
    let row = ListedRow {
        key: Vec::new(),
        text: item,
    };
    let mut source = ListSource {
        rows: &[row],
        next: 0,
        descends: None,
    };
    let mut work = Work::default();
    let page = query.run(&mut source, &mut NoFunctions, None, &mut bounds, &mut work);
    let page = page.map_err(query_error)?;

    // Without a row, a page that could be resumed has run out of time.
    if page.rows.is_empty() && page.resume.is_some() {
        return Err(Error::new(
            Kind::RequestTimeout,
            "The condition takes too long to decide.",
        ));
    }
    Ok(!page.rows.is_empty())
}

/// The user-defined functions of a query that may call none.
pub(crate) struct NoFunctions;

impl Functions for NoFunctions {
    fn call(
        &mut self,
        name: &str,
        _: &[Option<Json>],
    ) -> std::result::Result<Option<Json>, QueryError> {
        Err(QueryError::Unsupported(format!(
            "The user-defined function '{name}' does not exist here."
        )))
    }
}
