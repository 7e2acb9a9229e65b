//! Queries over lists that are in memory: databases, containers, scripts, offers, what a script's transaction sees, and
//! the one item that a condition is about.
//!
//! Each row has a key by which the list is sorted, and a continuation names the last row by its key: rows that come or
//! go between two pages take no others with them.

use super::{bounds, compile, run_page, token};
use crate::errors::query_error;
use crate::request::{Page, QueryRequest};
use bytes::Bytes;
use orrery_model::Result;
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, limits};
use orrery_sql::{Candidate, Environment, Functions, Query, QueryError, Source, Work};

/// A row of a list.
#[derive(Clone, Debug)]
pub struct ListedRow {
    /// What the list is sorted by; no two rows have the same, and a row keeps its own.
    pub key: Vec<u8>,
    /// JSON text.
    pub text: Bytes,
}

/// A list as a source: never ordered, the query sorts.
struct List<'a> {
    rows: &'a [ListedRow],
    next: usize,
}

impl Source for List<'_> {
    fn next(&mut self) -> std::result::Result<Option<Candidate>, QueryError> {
        let row = self.rows.get(self.next);
        self.next += usize::from(row.is_some());
        Ok(row.map(|row| Candidate {
            text: Some(row.text.clone()),
            condition_holds: false,
            item_number: None,
        }))
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        let last = self
            .next
            .checked_sub(1)
            .and_then(|last| self.rows.get(last));
        last.map(|row| row.key.clone()).unwrap_or_default()
    }
}

/// Runs a query over a list, whose rows are sorted by their keys.
///
/// # Errors
/// 400 as for any query.
pub fn query_rows(
    world: &dyn World,
    environment: &Environment,
    rows: &[ListedRow],
    request: &QueryRequest,
    functions: &mut dyn Functions,
    work: &mut Work,
) -> Result<Page> {
    let page = &request.page;
    let query = compile(&request.text, &request.parameters, environment)?;
    let resume = page.continuation.as_deref().map(token::read).transpose()?;
    let next = match resume.as_ref().map(|r| &r.position[..]) {
        None => 0,
        Some(last) => rows.partition_point(|row| row.key.as_slice() <= last),
    };
    let mut source = List { rows, next };
    let out = run_page(
        world,
        &query,
        &mut source,
        functions,
        resume.as_ref(),
        page,
        work,
    )
    .map_err(query_error)?;
    let continuation = out
        .resume
        .map(|resume| token::write(&resume, page.continuation_limit_kb))
        .transpose()?;
    Ok(Page {
        rows: out.rows,
        continuation,
    })
}

/// Whether a query gives any row of an item.
///
/// # Errors
/// 400 as for any query; 408 if it takes longer than [`limits::CONDITION_TIME_MS`].
pub fn has_row(world: &dyn World, query: &Query, item: Bytes) -> Result<bool> {
    let now_ms = world.now_ms();
    let mut expired = || world.now_ms().saturating_sub(now_ms) > limits::CONDITION_TIME_MS;
    let mut bounds = bounds(world, now_ms, 1, &mut expired);
    let mut source = List {
        rows: &[ListedRow {
            key: Vec::new(),
            text: item,
        }],
        next: 0,
    };
    let page = query.run(
        &mut source,
        &mut NoFunctions,
        None,
        &mut bounds,
        &mut Work::default(),
    );
    let page = page.map_err(query_error)?;
    if page.rows.is_empty() && page.resume.is_some() {
        return Err(Error::new(
            Kind::RequestTimeout,
            "The condition takes too long to decide.",
        ));
    }
    Ok(!page.rows.is_empty())
}

/// The user-defined functions of a query that may call none.
pub struct NoFunctions;

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
