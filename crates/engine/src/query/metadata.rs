//! Queries over lists that are in memory: databases, containers, scripts, offers, and what a script's transaction sees.

use super::{compile, query_error, run_page, token};
use crate::request::{Page, QueryRequest};
use bytes::Bytes;
use orrery_model::world::World;
use orrery_model::{Error, Result};
use orrery_sql::{Candidate, Environment, Functions, QueryError, Source, Work};

/// A list as a source: never ordered, the query sorts.
struct List<'a> {
    rows: &'a [Bytes],
    next: usize,
}

impl Source for List<'_> {
    fn next(&mut self) -> std::result::Result<Option<Candidate>, QueryError> {
        let row = self.rows.get(self.next);
        self.next += usize::from(row.is_some());
        Ok(row.map(|text| Candidate { text: Some(text.clone()), satisfied: false, number: None }))
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        (self.next as u64).to_be_bytes().to_vec()
    }
}

/// Runs a query over a list.
///
/// # Errors
/// 400 as for any query.
pub fn query_rows(
    world: &dyn World,
    environment: &Environment,
    rows: &[Bytes],
    request: &QueryRequest,
    functions: &mut dyn Functions,
    work: &mut Work,
) -> Result<Page> {
    let page = &request.page;
    let query = compile(&request.text, &request.parameters, environment)?;
    let resume = page.continuation.as_deref().map(token::read).transpose()?;
    let next = match resume.as_ref().map(|r| &r.position[..]) {
        None | Some([]) => 0,
        Some(position) => {
            let number =
                crate::keys::number(position).ok_or_else(|| Error::bad("The continuation token is invalid."))?;
            usize::try_from(number).unwrap_or(usize::MAX).min(rows.len())
        }
    };
    let mut source = List { rows, next };
    let out = run_page(world, &query, &mut source, functions, resume.as_ref(), page, work).map_err(query_error)?;
    let continuation = out.resume.map(|resume| token::write(&resume, page.continuation_limit_kb)).transpose()?;
    Ok(Page { rows: out.rows, continuation })
}
