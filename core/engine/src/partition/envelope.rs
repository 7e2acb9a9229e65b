//! The size of the commit that a transaction will become, measured while the transaction grows.
//!
//! A store takes commits up to [`Limits::ENVELOPE`]. A transaction that will not fit is ended when
//! it passes the limit, and not after it has collected many times as much. Paths that the
//! dictionary lacks are rows of the commit that brings them, and count as such. The measure never
//! exceeds the size of the commit, so that no transaction is refused that the store would take,
//! except while a reindex gives some items fewer terms, or if another commit brings the same paths
//! while a script runs; the writer refuses the few that the measure lets through.

use crate::index::new_paths::NewPaths;
use crate::index::terms::Terms;
use crate::partition::item_rows::ItemChange;
use orrery_model::{Error, Kind, Result};
use orrery_storage::Limits;

/// Rows that every item has besides its chunks and index entries, when it is created: its feed row,
/// its natural row and its primary key row.
const ROWS_OF_CREATE: usize = 3;
/// Rows that every replaced item has besides: the old and the new feed row.
const ROWS_OF_REPLACE: usize = 2;
/// Rows that go with a deleted item besides its chunks: as for a create.
const ROWS_OF_DELETE: usize = 3;

/// A number of rows and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    rows: usize,
    bytes: usize,
}

impl Size {
    /// Returns the least size of the rows of a change.
    pub(crate) fn of(change: &ItemChange) -> Size {
        let no_terms = Terms::default();
        let old_terms = change.old.as_ref().map_or(&no_terms, |state| &state.terms);
        let new_terms = change.new.as_ref().map_or(&no_terms, |state| &state.terms);
        let mut size = Size::default();
        for (_, value) in old_terms.difference(new_terms) {
            size.add(1, value.len());
        }
        for (_, value) in new_terms.difference(old_terms) {
            size.add(1, value.len());
        }
        for (_, _, new) in old_terms.search_unlike(new_terms) {
            size.add(usize::from(new.is_none()), 0);
        }
        for (_, value, _) in new_terms.search_unlike(old_terms) {
            size.add(1, value.len());
        }
        match (&change.old, &change.new) {
            (None, None) => {}
            (None, Some(new)) => size.add(1 + ROWS_OF_CREATE, new.row.body.len()),
            (Some(_), Some(new)) => size.add(1 + ROWS_OF_REPLACE, new.row.body.len()),
            (Some(_), None) => size.add(1 + ROWS_OF_DELETE, 0),
        }
        size
    }

    fn add(&mut self, rows: usize, bytes: usize) {
        self.rows += rows;
        self.bytes += bytes;
    }

    /// Replaces the size of one change by that of the change that takes its place.
    pub(crate) fn replace(&mut self, before: Size, after: Size) {
        self.rows = (self.rows + after.rows).saturating_sub(before.rows);
        self.bytes = (self.bytes + after.bytes).saturating_sub(before.bytes);
    }

    /// Checks that a commit of this size, which brings `paths` as well, fits into a store.
    ///
    /// # Errors
    /// 413 if it does not.
    pub(crate) fn check(&self, paths: &NewPaths) -> Result<()> {
        let limits = Limits::ENVELOPE;
        let reason = if self.bytes + paths.bytes() > limits.commit_bytes {
            format!("more than {} bytes of items and index", limits.commit_bytes)
        } else if self.rows + paths.rows() > limits.commit_keys {
            format!(
                "more than {} rows of items and index, one for each indexed value and one for each \
                 property name that is new",
                limits.commit_keys
            )
        } else {
            return Ok(());
        };
        let refusal = Error::new(
            Kind::RequestEntityTooLarge,
            format!("The request changes more than one transaction may hold: {reason}."),
        );
        Err(refusal.with_help(
            "Write fewer items or fewer properties at a time, or exclude paths from the indexing \
             policy.",
        ))
    }
}
