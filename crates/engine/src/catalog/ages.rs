//! Ages of the catalog: how all of its rows are exchanged at once, however many there are.
//!
//! ```text
//! 24                           age·8: whose rows count; 0 while the row is missing
//! 25 age·8 (key of a row)      a row of that age; those of age 0 stand under their own keys
//! ```
//! Only records and ranges have an age; what is to be destroyed and the snapshots are of all ages. The rows of a new age
//! are written beside the others, in as many commits as it takes, and one commit says that they count from now on. What
//! is left of other ages, of an attempt that never came to its end too, is removed after that one, before the next
//! attempt, and when the catalog is opened.

use super::ranges::RANGE;
use super::records::Record;
use super::{Batch, Catalog, RECORD};
use crate::errors::storage_failure;
use crate::partition::keys;
use crate::partition::scan;
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};
use std::sync::atomic::Ordering;

const AGE: u8 = 0x24;
const AGED: u8 = 0x25;

/// Bytes of rows that one of several commits changes.
const COMMIT_BYTES: usize = 1 << 20;

/// A row that is written, or with nothing that is removed.
pub(super) type Change = (Vec<u8>, Option<Vec<u8>>);

/// What stands before the keys of an age's rows.
fn prefix(age: u64) -> Vec<u8> {
    match age {
        0 => Vec::new(),
        age => [&[AGED][..], &age.to_be_bytes()].concat(),
    }
}

fn has_age(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(RECORD | RANGE)))
}

/// Where the records and ranges of an age lie.
fn ranges_of(age: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    [RECORD, RANGE].map(|tag| {
        let first = [prefix(age), vec![tag]].concat();
        let end = keys::after(&first);
        (first, end)
    })
}

impl Batch {
    /// The same batch with the keys under which an age has its rows.
    pub(super) fn of_age(mut self, age: u64) -> Self {
        if age > 0 {
            let keys = self
                .puts
                .iter_mut()
                .map(|(key, _)| key)
                .chain(&mut self.deletes);
            keys.filter(|key| has_age(key))
                .for_each(|key| *key = [&prefix(age)[..], key].concat());
        }
        self
    }

    /// Says whose rows count.
    pub(super) fn begin_age(&mut self, age: u64) {
        self.puts.push((vec![AGE], age.to_be_bytes().to_vec()));
    }
}

impl Catalog {
    /// Whose rows count.
    pub(super) fn age(&self) -> u64 {
        self.age.load(Ordering::Acquire)
    }

    /// The rows of this age count from now on, as a commit has said.
    pub(super) fn enter_age(&self, age: u64) {
        self.age.store(age, Ordering::Release);
    }

    /// Whose rows count, in the store.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn stored_age(&self) -> Result<u64> {
        let row = self.home.snapshot()?.get(&[AGE]).map_err(storage_failure)?;
        row.map_or(Ok(0), |row| keys::number(&row).ok_or_else(Record::damaged))
    }

    /// Every record and range that counts, under its own key.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn rows(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let (snapshot, age) = (self.home.snapshot()?, self.age());
        let ranges = ranges_of(age);
        let rows = ranges
            .iter()
            .flat_map(|range| scan(snapshot.as_ref(), range, Direction::Forward));
        let bare = prefix(age).len();
        rows.map(|row| row.map(|(key, value)| (key[bare..].to_vec(), value.to_vec())))
            .collect()
    }

    /// Writes the rows of an age that does not count yet.
    ///
    /// # Errors
    /// What the store reports.
    pub(super) fn write_age(&self, age: u64, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let prefix = prefix(age);
        self.commit_in_pieces(
            rows.iter()
                .map(|(key, value)| Ok(([&prefix[..], key].concat(), Some(value.clone())))),
        )
    }

    /// Removes the rows of all ages but the one that counts.
    ///
    /// # Errors
    /// What the store reports; the rest is removed next time.
    pub(super) fn forget_other_ages(&self) -> Result<()> {
        let (snapshot, age) = (self.home.snapshot()?, self.age());
        let snapshot: &dyn Snapshot = snapshot.as_ref();
        let all = match age {
            0 => vec![keys::tagged(AGED)],
            _ => vec![
                keys::tagged(RECORD),
                keys::tagged(RANGE),
                keys::tagged(AGED),
            ],
        };
        let rows = all
            .iter()
            .flat_map(|range| scan(snapshot, range, Direction::Forward));
        let counts = |key: &[u8]| age > 0 && key.starts_with(&prefix(age));
        let others = rows.filter(|row| row.as_ref().map_or(true, |(key, _)| !counts(key)));
        self.commit_in_pieces(others.map(|row| row.map(|(key, _)| (key.to_vec(), None))))
    }

    /// Makes changes durable under the very keys that they name, in commits of bounded size.
    ///
    /// # Errors
    /// The first of the changes, and what the store reports; what came before is durable then.
    pub(super) fn commit_in_pieces(
        &self,
        changes: impl Iterator<Item = Result<Change>>,
    ) -> Result<()> {
        let (mut batch, mut bytes) = (Batch::default(), 0);
        for change in changes {
            let (key, value) = change?;
            bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            match value {
                Some(value) => batch.puts.push((key, value)),
                None => batch.deletes.push(key),
            }
            if bytes > COMMIT_BYTES {
                self.commit_as_it_is(std::mem::take(&mut batch))?;
                bytes = 0;
            }
        }
        if bytes == 0 {
            Ok(())
        } else {
            self.commit_as_it_is(batch)
        }
    }
}
