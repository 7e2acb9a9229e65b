//! The rows of one item: what follows from the stored form of an item, and the difference between
//! two states of an item as rows of a commit.
//!
//! An item has an item row (and further chunks if the item is large), a primary key row, a row in
//! natural order, a row in the change feed, index terms, and, where the container asks for them, an
//! expiry row and unique key rows. `keys.rs` draws all of them.

use crate::container::settings::Settings;
use crate::errors::damaged;
use crate::index::terms::Terms;
use crate::index::value;
use crate::partition::CommitChanges;
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::stamps::Moment;
use crate::partition::versions::Version;
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, murmur3_128};
use orrery_model::{Json, Object, Result};

/// A row of an item with everything that follows from the row.
#[derive(Clone)]
pub(crate) struct ItemState {
    /// The item row.
    pub row: Row,
    /// The id of the item.
    pub id: String,
    /// The index terms of the item.
    pub terms: Terms,
    /// The keys of the rows that reserve the unique values of the item.
    pub unique_keys: Vec<Vec<u8>>,
}

impl ItemState {
    /// Returns a stored row with what follows from it. `terms` returns the index terms of the
    /// parsed item.
    ///
    /// # Errors
    /// 500 for a row that holds no item with an id, and the error of `terms`.
    pub(crate) fn of(
        row: Row,
        settings: &Settings,
        terms: impl FnOnce(&Object) -> Result<Terms>,
    ) -> Result<ItemState> {
        let damaged = || damaged("an item row");
        let json = parse(&row.body).map_err(|_| damaged())?;
        let item = json.as_object().ok_or_else(damaged)?;
        let id = item.get("id").and_then(Json::as_str).ok_or_else(damaged)?;
        Ok(ItemState {
            id: id.to_owned(),
            terms: terms(item)?,
            unique_keys: unique_keys_of(settings, &row.epk, item),
            row,
        })
    }

    /// Returns the keys of the rows that only one item may own: its id and its unique values.
    pub(crate) fn owned_keys(&self) -> Vec<Vec<u8>> {
        let mut own = self.unique_keys.clone();
        own.push(keys::primary(&self.row.epk, &self.id));
        own
    }

    /// Returns the key of the expiry row, or `None` if the item has no time to live of its own.
    fn expiry_key(&self, number: ItemNumber) -> Option<Vec<u8>> {
        let expires = self.row.ttl > 0;
        expires.then(|| keys::expiry(self.row.ts + self.row.ttl as u64, number))
    }
}

/// One item before and after a transaction. `None` stands for an item that does not exist.
pub(crate) struct ItemChange {
    /// The number of the item.
    pub number: ItemNumber,
    /// The item before the transaction.
    pub old: Option<ItemState>,
    /// The item after the transaction.
    pub new: Option<ItemState>,
}

impl ItemChange {
    /// Returns true if the item exists neither before nor after the transaction.
    pub(crate) fn is_empty(&self) -> bool {
        self.old.is_none() && self.new.is_none()
    }

    /// Gives the new state its place in the change feed: the LSN of the commit, and a sequence
    /// number that orders the changes of the commit.
    pub(crate) fn set_feed_position(&mut self, lsn: u64, sequence: u32) {
        if let Some(new) = &mut self.new {
            (new.row.lsn, new.row.sequence) = (lsn, sequence);
        }
    }

    /// Returns the change as a version for the change feed with all versions and deletes, or `None`
    /// if nothing changed. `ts` is the second of the commit; `moment` and the time to live in
    /// `settings` tell an expiry from a deletion.
    pub(crate) fn version(&self, ts: u64, moment: Moment, settings: &Settings) -> Option<Version> {
        let old = self.old.as_ref().map(|state| &state.row);
        let new = self.new.as_ref().map(|state| &state.row);
        Version::between(self.number, old, new, ts, moment, settings)
    }

    /// Turns the change into rows of a commit.
    pub(crate) fn write(self, out: &mut CommitChanges) {
        let Some(epk_prefix) = self.epk_prefix() else {
            return;
        };
        out.epk_prefixes.push(epk_prefix);

        // The change feed shows an item once, at its last change: the old feed row goes.
        if let Some(old) = &self.old {
            let feed_key = keys::feed(old.row.lsn, old.row.sequence, self.number);
            out.deletes.push(feed_key);
            out.counters.items -= 1;
            out.counters.bytes = out.counters.bytes.saturating_sub(old.row.size() as u64);
        }
        self.count_bytes(out);
        self.write_item_rows(epk_prefix, out);

        // Only terms that differ are written, so an update of one property costs one property.
        let no_terms = Terms::default();
        let old_terms = self.old.as_ref().map_or(&no_terms, |state| &state.terms);
        let new_terms = self.new.as_ref().map_or(&no_terms, |state| &state.terms);
        out.replace_terms(old_terms, new_terms, self.number, epk_prefix);

        self.write_owned_keys(out);
        self.write_expiry(epk_prefix, out);
    }

    /// Adds the change of the size to that of the logical partition.
    fn count_bytes(&self, out: &mut CommitChanges) {
        let Some(state) = self.new.as_ref().or(self.old.as_ref()) else {
            return;
        };
        let size = |state: &ItemState| state.row.size() as i64;
        let change = self.new.as_ref().map_or(0, size) - self.old.as_ref().map_or(0, size);
        if change != 0 {
            *out.key_changes.entry(state.row.epk.clone()).or_default() += change;
        }
    }

    fn epk_prefix(&self) -> Option<EpkPrefix> {
        let state = self.new.as_ref().or(self.old.as_ref())?;
        Some(keys::epk_prefix(&state.row.epk))
    }

    /// Writes the item row with its chunks, the natural order row and the change feed row.
    fn write_item_rows(&self, epk_prefix: EpkPrefix, out: &mut CommitChanges) {
        let old_chunks = match &self.old {
            Some(old) => row::chunks_of(old.row.encode().len()),
            None => 0,
        };
        let mut new_chunks = 0;
        match &self.new {
            None => {
                out.deletes.push(keys::item(epk_prefix, self.number));
                out.deletes.push(keys::natural(self.number));
            }
            Some(new) => {
                out.counters.items += 1;
                out.counters.bytes += new.row.size() as u64;
                let (first, rest) = row::split(new.row.encode());
                out.puts.push((keys::item(epk_prefix, self.number), first));
                for chunk in rest {
                    let key = keys::item_rest(self.number, new_chunks);
                    out.puts.push((key, chunk));
                    new_chunks += 1;
                }
                let feed_key = keys::feed(new.row.lsn, new.row.sequence, self.number);
                out.puts.push((feed_key, epk_prefix.to_vec()));
                if self.old.is_none() {
                    let natural_key = keys::natural(self.number);
                    out.puts.push((natural_key, epk_prefix.to_vec()));
                }
            }
        }
        // A shorter item leaves no chunks of the longer one behind.
        for chunk in new_chunks..old_chunks {
            out.deletes.push(keys::item_rest(self.number, chunk));
        }
    }

    /// Writes the rows that reserve the id and the unique values, as far as they changed.
    fn write_owned_keys(&self, out: &mut CommitChanges) {
        let before = self
            .old
            .as_ref()
            .map_or_else(Vec::new, ItemState::owned_keys);
        let after = self
            .new
            .as_ref()
            .map_or_else(Vec::new, ItemState::owned_keys);
        for key in &before {
            if !after.contains(key) {
                out.deletes.push(key.clone());
            }
        }
        for key in after {
            if !before.contains(&key) {
                out.puts.push((key, self.number.to_be_bytes().to_vec()));
            }
        }
    }

    fn write_expiry(&self, epk_prefix: EpkPrefix, out: &mut CommitChanges) {
        if let Some(old) = &self.old {
            out.deletes.extend(old.expiry_key(self.number));
        }
        if let Some(new) = &self.new
            && let Some(key) = new.expiry_key(self.number)
        {
            out.puts.push((key, epk_prefix.to_vec()));
        }
    }
}

/// Returns the keys of the rows that reserve the unique values of an item, one for each unique key
/// of the container.
///
/// A key holds a hash of the values: rows have a bounded size however long the values are.
pub(crate) fn unique_keys_of(settings: &Settings, epk: &Epk, item: &Object) -> Vec<Vec<u8>> {
    let mut unique_keys = Vec::with_capacity(settings.unique_keys.len());
    for (paths, policy) in settings.unique_keys.iter().zip(0u8..) {
        let mut bytes = Vec::new();
        for path in paths {
            append_unique_value(&mut bytes, value_at(item, path));
        }
        unique_keys.push(keys::unique(policy, epk, &murmur3_128(&bytes)));
    }
    unique_keys
}

/// Appends a value in a form that differs between values that are not equal. A missing value counts
/// as null.
fn append_unique_value(bytes: &mut Vec<u8>, value: Option<&Json>) {
    let encoded = value::encode(value.unwrap_or(&Json::Null));
    bytes.extend_from_slice(&(encoded.bytes.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&encoded.bytes);
    // The index form of a long value is cut, so the whole text follows.
    if !encoded.is_exact {
        let text = value.map(Json::to_text).unwrap_or_default();
        bytes.extend_from_slice(text.as_bytes());
    }
}

fn value_at<'i>(item: &'i Object, path: &[String]) -> Option<&'i Json> {
    let (first, rest) = path.split_first()?;
    let mut value = item.get(first)?;
    for name in rest {
        value = value.get(name)?;
    }
    Some(value)
}

/// Returns how many index terms the unique keys of a container count as in the charge of a write.
pub(crate) fn unique_key_units(settings: &Settings) -> u32 {
    settings
        .unique_keys
        .iter()
        .map(|paths| paths.len() as u32)
        .sum()
}
