//! A transaction on the items of one physical partition. It reads its own writes and becomes one
//! commit, or nothing.
//!
//! Single writes, batches, and the writes of a script or of a request with triggers are
//! transactions.
//!
//! ```text
//! begin(snapshot) ── find, create, replace, delete … ──▶ changes by item ── commit(writer) ──▶
//! rows
//!                                                        (old state, new state)
//! ```
//!
//! The transaction keeps one change per item, however often the item is written, and turns the
//! changes into rows only in [`Transaction::commit`], where the old and the new state are compared
//! and only terms that differ are written.
//!
//! A read looks at three layers, the newest first:
//!
//! 1. the changes of the transaction itself;
//! 2. accepted commits that are not durable yet, if the writer is locked ([`ReadView::Writer`]);
//! 3. the durable snapshot.
//!
//! An answer that follows from the second layer must not reach the client before these commits are
//! durable: the transaction remembers the last of them ([`Transaction::rests_on`]).
//!
//! A transaction begins in one of two ways. Under the writer's lock nothing can come between the
//! reads and the commit. Scripts run on a durable snapshot without the lock
//! ([`ReadView::Durable`]); their commit is refused with 449 if the logical partition was written
//! in the meantime.
//!
//! Promises: a transaction that is not committed leaves nothing in the memory of its partition. The
//! paths that it brings belong to it until then (`index/new_paths.rs`), and the times of background
//! work are entered when its commit is accepted. Two exceptions do no harm: numbers of items are
//! not given twice, and the size of a full logical partition is remembered.
//!
//! Left out: transactions over several physical partitions, and isolation levels; there is only
//! serializable.

use crate::container::settings::{Settings, read_ttl, ttl_invalid};
use crate::container::view::ContainerView;
use crate::errors::{
    conflicting_write, etag_differs, hashed_key_conflict, item_id_taken, storage_failure,
};
use crate::index::generations::{Policies, PolicyGenerations};
use crate::index::new_paths::{NewPaths, PathNumbers};
use crate::index::policy::Policy;
use crate::index::terms::Terms;
use crate::partition::effects::Effects;
use crate::partition::envelope::Size;
use crate::partition::item::{StoredItem, damaged, item_id};
use crate::partition::item_rows::{ItemChange, ItemState, unique_key_units, unique_keys_of};
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::row_reader::{number_of_rid, read_row, rows_of_epk_prefix};
use crate::partition::stamps::Moment;
use crate::partition::visibility::{Visibility, is_deleted_by_key};
use crate::partition::{CommitChanges, Partition, SubmittedCommit, Writer};
use crate::request::{Id, IndexingDirective, etag_matches};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::partition_key::{Definition, Epk, KeyAddress, PartitionKey};
use orrery_model::words::shortened;
use orrery_model::work::Step;
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, Object, Result, Rid, limits};
use orrery_storage::Snapshot;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// Index entries from which on a transaction [is large](Transaction::is_large).
const LARGE_ENTRIES: usize = 4_000;
/// Bytes of items from which on a transaction [is large](Transaction::is_large).
const LARGE_BYTES: usize = 2 << 20;

/// Options of a write to one item.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemOptions<'a> {
    /// The etag that the stored item must have.
    pub if_match: Option<&'a str>,
    /// The request about index entries of the item.
    pub indexing: IndexingDirective,
    /// True if the item is stored without `_self` and `_attachments`.
    pub leaves_out_links: bool,
}

/// The rows that a transaction sees below its own changes.
#[derive(Clone, Copy)]
pub(crate) enum ReadView<'w> {
    /// The writer is locked: accepted commits count, durable or not.
    Writer(&'w Writer),
    /// The snapshot only: durable commits count.
    Durable,
}

/// Changes to items of one partition that are committed together.
pub(crate) struct Transaction<'a> {
    container: &'a dyn ContainerView,
    partition: &'a Partition,
    settings: Arc<Settings>,
    policies: Arc<Policies>,
    snapshot: &'a dyn Snapshot,
    world: &'a dyn World,
    /// Second of the transaction: `_ts` of every item that it writes.
    ts: u64,
    /// The moment at which the transaction began, which decides what has expired.
    moment: Moment,
    /// LSN of the snapshot.
    base_lsn: u64,
    /// The times that the partition had been given up when the transaction began.
    hand_overs: u64,
    changes: Vec<ItemChange>,
    /// Index into `changes` by item number.
    by_number: HashMap<ItemNumber, usize>,
    /// The item that owns an id or a unique value after this transaction; `None` if no item does.
    owners: HashMap<Vec<u8>, Option<ItemNumber>>,
    /// Rows that are not rows of items: written, or removed if the value is `None`.
    other_rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Index entries of the old and the new states.
    entry_count: usize,
    /// Bytes of the old and the new states.
    item_bytes: usize,
    /// The least size of the commit, without the paths that it brings.
    size: Size,
    /// The paths that the transaction brings.
    new_paths: NewPaths,
    /// The transaction has passed a limit and cannot be committed.
    is_overfull: bool,
    /// LSN of the last accepted commit whose rows were read before a snapshot had them; 0 if there
    /// is none.
    pub rests_on: Cell<u64>,
    /// Counted work, from which the charge follows.
    pub work: Vec<Step>,
}

impl<'a> Transaction<'a> {
    /// Begins a transaction on a snapshot of a partition.
    pub(crate) fn begin(
        container: &'a dyn ContainerView,
        partition: &'a Partition,
        snapshot: &'a dyn Snapshot,
        world: &'a dyn World,
    ) -> Self {
        let now = world.now_seconds();
        Transaction {
            container,
            partition,
            settings: container.settings(),
            policies: container.policies(),
            snapshot,
            world,
            ts: partition.commit_second(now),
            moment: partition.moment(now),
            base_lsn: snapshot.head().lsn,
            hand_overs: partition.hand_overs(),
            changes: Vec::new(),
            by_number: HashMap::new(),
            owners: HashMap::new(),
            other_rows: Vec::new(),
            entry_count: 0,
            item_bytes: 0,
            size: Size::default(),
            new_paths: NewPaths::default(),
            is_overfull: false,
            rests_on: Cell::new(0),
            work: Vec::new(),
        }
    }

    /// Returns the resource id of the container.
    pub(crate) fn container_rid(&self) -> Rid {
        self.container.rid()
    }

    /// Returns the partition key definition of the container.
    pub(crate) fn key_definition(&self) -> &Definition {
        &self.settings.partition_key
    }

    /// Returns the source of time and randomness.
    pub(crate) fn world(&self) -> &'a dyn World {
        self.world
    }

    /// Returns the address of the logical partition of a key.
    pub(crate) fn address(&self, key: &PartitionKey) -> KeyAddress {
        self.settings.partition_key.address(key)
    }

    /// Returns the LSN of the snapshot on which the transaction began.
    pub(crate) fn base_lsn(&self) -> u64 {
        self.base_lsn
    }

    /// Returns true if the transaction has changed no item.
    pub(crate) fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns true if the transaction is large enough that work beside requests should commit now,
    /// so that the writer's lock is free for requests again.
    pub(crate) fn is_large(&self) -> bool {
        self.entry_count >= LARGE_ENTRIES || self.item_bytes >= LARGE_BYTES
    }

    /// Adds a row that belongs to no item: written with the commit, or removed if `value` is
    /// `None`.
    pub(crate) fn add_row(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.other_rows.push((key, value));
    }

    /// Returns the visible item with this id or resource id in a logical partition.
    ///
    /// # Errors
    /// 500 if the store cannot be read or rows contradict each other.
    pub(crate) fn find(
        &self,
        view: ReadView<'_>,
        address: &KeyAddress,
        id: Id<'_>,
    ) -> Result<Option<StoredItem>> {
        let found = match id {
            Id::Name(name) => self.find_by_id(view, address.epk(), name)?,
            Id::Rid(rid) => self.find_by_rid(view, address.epk(), rid)?,
        };
        match found {
            Some(stored) if stored.row.is_of(address) && self.is_visible(view, &stored.row)? => {
                Ok(Some(stored))
            }
            _ => Ok(None),
        }
    }

    /// Checks that no visible item of another key with the EPK of `address` has this id.
    ///
    /// # Errors
    /// 409 if one has; 500 if the store cannot be read.
    pub(crate) fn check_id_in_other_keys(
        &self,
        view: ReadView<'_>,
        address: &KeyAddress,
        id: &str,
    ) -> Result<()> {
        match self.find_by_id(view, address.epk(), id)? {
            Some(holder) if !holder.row.is_of(address) && self.is_visible(view, &holder.row)? => {
                Err(hashed_key_conflict(id))
            }
            _ => Ok(()),
        }
    }

    /// Returns the item with this id, visible or not, of whichever key with this EPK.
    fn find_by_id(&self, view: ReadView<'_>, epk: &Epk, id: &str) -> Result<Option<StoredItem>> {
        let Some(number) = self.owner(view, &keys::primary(epk, id))? else {
            return Ok(None);
        };
        if let Some(&at) = self.by_number.get(&number) {
            let own = self.changes[at].new.as_ref();
            return Ok(own.map(|state| StoredItem {
                number,
                row: state.row.clone(),
            }));
        }
        let row = self.read_row(view, keys::epk_prefix(epk), number)?;
        let row = row.ok_or_else(damaged)?;
        Ok(Some(StoredItem { number, row }))
    }

    /// Returns the item with this resource id, visible or not, if the logical partition has it.
    fn find_by_rid(&self, view: ReadView<'_>, epk: &Epk, rid: Rid) -> Result<Option<StoredItem>> {
        let Some(number) = number_of_rid(self.container.rid(), rid) else {
            return Ok(None);
        };
        let row = self.current_row(view, epk, number)?;
        let row = row.filter(|row| row.epk == *epk);
        Ok(row.map(|row| StoredItem { number, row }))
    }

    /// Returns the number of the item that owns an id or a unique value.
    fn owner(&self, view: ReadView<'_>, key: &[u8]) -> Result<Option<ItemNumber>> {
        if let Some(owner) = self.owners.get(key) {
            return Ok(*owner);
        }
        match self.get(view, key)? {
            Some(row) => keys::number(&row).map(Some).ok_or_else(damaged),
            None => Ok(None),
        }
    }

    /// Returns the row of an item as this transaction leaves the item.
    fn current_row(
        &self,
        view: ReadView<'_>,
        epk: &Epk,
        number: ItemNumber,
    ) -> Result<Option<Row>> {
        match self.by_number.get(&number) {
            Some(&at) => {
                let own = self.changes[at].new.as_ref();
                Ok(own.map(|state| state.row.clone()))
            }
            None => self.read_row(view, keys::epk_prefix(epk), number),
        }
    }

    fn read_row(
        &self,
        view: ReadView<'_>,
        epk_prefix: EpkPrefix,
        number: ItemNumber,
    ) -> Result<Option<Row>> {
        read_row(epk_prefix, number, |key| self.get(view, key))
    }

    fn get(&self, view: ReadView<'_>, key: &[u8]) -> Result<Option<Bytes>> {
        if let ReadView::Writer(writer) = view
            && let Some((lsn, row)) = writer.pending_row(key)
        {
            self.rests_on.set(self.rests_on.get().max(lsn));
            return Ok(row.cloned());
        }
        self.snapshot.get(key).map_err(storage_failure)
    }

    /// Returns true if clients see an item: it is neither expired nor deleted with its logical
    /// partition.
    fn is_visible(&self, view: ReadView<'_>, row: &Row) -> Result<bool> {
        let is_live = self.moment.has(row, self.settings.default_ttl);
        let definition = &self.settings.partition_key;
        Ok(is_live && !is_deleted_by_key(row, definition, |key| self.get(view, key))?)
    }

    /// Returns the visible items of a logical partition in natural order, as this transaction
    /// leaves them: its own changes over the snapshot.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(crate) fn logical_partition(&self, address: &KeyAddress) -> Result<Vec<StoredItem>> {
        let mut items: Vec<StoredItem> = Vec::new();
        let visibility = Visibility::of(self.snapshot, self.moment, &self.settings)?;
        for stored in rows_of_epk_prefix(self.snapshot, keys::epk_prefix(address.epk()), 0) {
            let stored = stored?;
            let is_changed = self.by_number.contains_key(&stored.number);
            if !is_changed && stored.row.is_of(address) && visibility.has(&stored.row) {
                items.push(stored);
            }
        }
        for change in &self.changes {
            if let Some(new) = &change.new
                && new.row.is_of(address)
            {
                items.push(StoredItem {
                    number: change.number,
                    row: new.row.clone(),
                });
            }
        }
        items.sort_by_key(|stored| stored.number);
        Ok(items)
    }

    /// Creates an item.
    ///
    /// # Errors
    /// 409 if the id or a unique value is taken; 400 and 413 for an item that breaks a rule.
    pub(crate) fn create(
        &mut self,
        view: ReadView<'_>,
        key: &PartitionKey,
        item: &Object,
        options: ItemOptions<'_>,
    ) -> Result<StoredItem> {
        let id = item_id(item)?;
        let address = self.address(key);
        // An item that clients do not see any more still has its rows: they make way.
        if let Some(old) = self.find_by_id(view, address.epk(), id)? {
            if self.is_visible(view, &old.row)? {
                let terms = self.terms(item, self.ts, options.indexing)?.units();
                let bytes = row::size_once_stored(item);
                self.work.push(Step::Refused { bytes, terms });
                return Err(match old.row.is_of(&address) {
                    true => item_id_taken(id, key),
                    false => hashed_key_conflict(id),
                });
            }
            self.erase(&old)?;
        }
        let new = self.new_state(address.epk(), item, id, options)?;
        let bytes = new.row.size();
        let terms = self.charged_terms(&new);
        let number = self.partition.new_item_number(self.container)?;
        let created = self.change(view, number, None, Some(new));
        self.work.push(match created {
            Ok(_) => Step::Write { bytes, terms },
            Err(_) => Step::Refused { bytes, terms },
        });
        created
    }

    /// Replaces an item. The id may change.
    ///
    /// # Errors
    /// 412 if `if_match` is not the etag of the item, 409 if the new id or a unique value is taken,
    /// 400/1001 if the partition key would change, 400 and 413 as for [`Self::create`].
    pub(crate) fn replace(
        &mut self,
        view: ReadView<'_>,
        old: &StoredItem,
        key: &PartitionKey,
        item: &Object,
        options: ItemOptions<'_>,
    ) -> Result<StoredItem> {
        let id = item_id(item)?;
        let address = self.address(key);
        if !old.row.is_of(&address) {
            let definition = self.key_definition();
            return Err(definition.change_refused(&definition.extract(&old.item()?)?, key));
        }
        self.check_etag(old, row::size_once_stored(item), options.if_match)?;
        let before = self.state_of(&old.row)?;

        // A new id must be free, or held only by an item that clients do not see any more.
        if before.id != id
            && let Some(holder) = self.find_by_id(view, address.epk(), id)?
        {
            let taken = || match holder.row.is_of(&address) {
                true => Error::conflict(),
                false => hashed_key_conflict(id),
            };
            let released = self.release(view, &holder, taken);
            if released.is_err() {
                let bytes = row::size_once_stored(item);
                self.work.push(Step::Refused { bytes, terms: 0 });
            }
            released?;
        }
        let new = self.new_state(address.epk(), item, id, options)?;

        // The charge follows from what changed, so the old state is measured before both are moved.
        let (old_bytes, new_bytes) = (old.row.size(), new.row.size());
        let terms = self.charged_terms(&new);
        let changed_terms = new.terms.units_changed_from(&before.terms);
        let replaced = self.change(view, old.number, Some(before), Some(new));
        self.work.push(match replaced {
            Ok(_) => Step::Replace {
                old_bytes,
                new_bytes,
                changed_terms,
                patch_operations: 0,
            },
            Err(_) => Step::Refused {
                bytes: new_bytes,
                terms,
            },
        });
        replaced
    }

    /// Deletes an item.
    ///
    /// # Errors
    /// 412 if `if_match` is not the etag of the item.
    pub(crate) fn delete(
        &mut self,
        view: ReadView<'_>,
        old: &StoredItem,
        if_match: Option<&str>,
    ) -> Result<()> {
        self.check_etag(old, old.row.size(), if_match)?;
        let before = self.state_of(&old.row)?;
        self.work.push(Step::Write {
            bytes: old.row.size(),
            terms: self.charged_terms(&before),
        });
        self.change(view, old.number, Some(before), None)?;
        Ok(())
    }

    /// Removes an item that clients do not see any more. The work is not charged.
    ///
    /// # Errors
    /// 500 if what is stored is no item.
    pub(crate) fn erase(&mut self, old: &StoredItem) -> Result<()> {
        let before = self.state_of(&old.row)?;
        self.record(old.number, Some(before), None)?;
        Ok(())
    }

    /// Writes an item again, with the second of the transaction. The work is not charged.
    ///
    /// # Errors
    /// 500 if what is stored is no item; 413 if the transaction is too large.
    pub(crate) fn date_anew(&mut self, old: &StoredItem) -> Result<()> {
        let before = self.state_of(&old.row)?;
        let after = self.state_of(&Row {
            lsn: row::UNCOMMITTED,
            sequence: 0,
            ts: self.ts,
            etag: self.world.random(),
            ..old.row.clone()
        })?;
        self.record(old.number, Some(before), Some(after))?;
        Ok(())
    }

    /// Checks that an item has the etag that the client names. `bytes` is what a refusal is charged
    /// for.
    ///
    /// # Errors
    /// 412 if the item has another etag.
    pub(crate) fn check_etag(
        &mut self,
        old: &StoredItem,
        bytes: usize,
        if_match: Option<&str>,
    ) -> Result<()> {
        match if_match {
            Some(wanted) if !etag_matches(wanted, &old.row.etag_text()) => {
                self.work.push(Step::Refused { bytes, terms: 0 });
                Err(etag_differs(wanted, &old.row.etag_text()))
            }
            _ => Ok(()),
        }
    }

    /// Removes the holder of an id or a unique value if clients do not see the holder any more.
    ///
    /// # Errors
    /// `refusal` if clients see the holder.
    fn release(
        &mut self,
        view: ReadView<'_>,
        holder: &StoredItem,
        refusal: impl Fn() -> Error,
    ) -> Result<()> {
        if self.is_visible(view, &holder.row)? {
            return Err(refusal());
        }
        self.erase(holder)
    }

    /// Changes an item once its unique values are known to be free.
    fn change(
        &mut self,
        view: ReadView<'_>,
        number: ItemNumber,
        old: Option<ItemState>,
        new: Option<ItemState>,
    ) -> Result<StoredItem> {
        if let Some(new) = &new {
            self.check_unique_values(view, number, new)?;
        }
        self.record(number, old, new)
    }

    /// Checks that no other visible item of the logical partition has the unique values of `new`.
    ///
    /// # Errors
    /// 409 if one has.
    fn check_unique_values(
        &mut self,
        view: ReadView<'_>,
        number: ItemNumber,
        new: &ItemState,
    ) -> Result<()> {
        for key in &new.unique_keys {
            let holder = self.owner(view, key)?;
            let Some(holder) = holder.filter(|holder| *holder != number) else {
                continue;
            };
            let row = self.current_row(view, &new.row.epk, holder)?;
            let holder = StoredItem {
                number: holder,
                row: row.ok_or_else(damaged)?,
            };
            let taken = || {
                let item = holder.item().unwrap_or_default();
                let id = item.get("id").and_then(Json::as_str).unwrap_or_default();
                Error::unique_key_taken().with_help(format!(
                    "The item with the id '{}' of the same logical partition has the same values \
                     at the paths of a unique key.",
                    shortened(id)
                ))
            };
            self.release(view, &holder, taken)?;
        }
        Ok(())
    }

    /// Records the change of an item. Returns the item after the change, or before a deletion.
    fn record(
        &mut self,
        number: ItemNumber,
        old: Option<ItemState>,
        new: Option<ItemState>,
    ) -> Result<StoredItem> {
        if let Some(old) = &old {
            for key in old.owned_keys() {
                self.owners.insert(key, None);
            }
        }
        if let Some(new) = &new {
            for key in new.owned_keys() {
                self.owners.insert(key, Some(number));
            }
        }
        self.check_not_overfull()?;
        let shown = new.as_ref().or(old.as_ref()).ok_or_else(damaged)?;
        let row = shown.row.clone();
        for state in old.iter().chain(&new) {
            self.entry_count += state.terms.units() as usize + state.terms.search_entries();
            self.item_bytes += state.row.body.len();
        }
        match self.by_number.get(&number) {
            // The state before the transaction stays that of the first change.
            Some(&at) => {
                let change = &mut self.changes[at];
                let before = Size::of(change);
                let replaced = std::mem::replace(&mut change.new, new);
                if let Some(new) = &change.new {
                    self.new_paths.hold(&new.terms);
                }
                if let Some(replaced) = replaced {
                    self.new_paths.release(&replaced.terms);
                }
                self.size.replace(before, Size::of(change));
                self.check_size()?;
            }
            None => {
                let change = ItemChange { number, old, new };
                if let Some(new) = &change.new {
                    self.new_paths.hold(&new.terms);
                }
                self.size.replace(Size::default(), Size::of(&change));
                self.check_size()?;
                self.by_number.insert(number, self.changes.len());
                self.changes.push(change);
            }
        }
        Ok(StoredItem { number, row })
    }

    /// Checks that the transaction still fits into a commit.
    ///
    /// # Errors
    /// 413 if it does not, 400 if the dictionary of paths cannot take its paths. The transaction
    /// can then not be committed.
    fn check_size(&mut self) -> Result<()> {
        let fits = self.fits();
        self.is_overfull |= fits.is_err();
        fits
    }

    fn fits(&self) -> Result<()> {
        self.size.check(&self.new_paths)?;
        if self.new_paths.rows() == 0 {
            return Ok(());
        }
        let checked = self.new_paths.check(&*self.partition.paths_for_write()?);
        // The dictionary has the paths of all accepted commits.
        checked.inspect_err(|_| self.rests_on.set(u64::MAX))
    }

    /// Checks that no change of the transaction was too large for a commit. A script may have
    /// caught the error of the change.
    ///
    /// # Errors
    /// 413 and 400 if one was.
    pub(crate) fn check_not_overfull(&self) -> Result<()> {
        match self.is_overfull {
            true => self.fits(),
            false => Ok(()),
        }
    }

    /// Checks an item and returns its new state.
    ///
    /// # Errors
    /// 400 for a `ttl` that is wrong, 413 for an item that is too large.
    fn new_state(
        &mut self,
        epk: &Epk,
        item: &Object,
        id: &str,
        options: ItemOptions<'_>,
    ) -> Result<ItemState> {
        let ttl = match item.get("ttl") {
            None => 0,
            Some(ttl) => read_ttl(ttl).ok_or_else(|| ttl_invalid("ttl", ttl))?,
        };
        let row = Row {
            lsn: row::UNCOMMITTED,
            sequence: 0,
            ts: self.ts,
            etag: self.world.random(),
            ttl,
            indexing: options.indexing,
            has_no_links: options.leaves_out_links,
            epk: epk.clone(),
            body: row::body_text(item),
        };
        if row.size() > limits::ITEM_BYTES {
            return Err(Error::new(
                Kind::RequestEntityTooLarge,
                format!(
                    "Request size is too large: the item has {} bytes, at most {} are allowed.",
                    row.size(),
                    limits::ITEM_BYTES
                ),
            )
            .with_help(
                "Store large values as several items of the logical partition, or as files \
                 elsewhere.",
            ));
        }
        Ok(ItemState {
            id: id.to_owned(),
            terms: self.terms(item, row.ts, options.indexing)?,
            unique_keys: unique_keys_of(&self.settings, epk, item),
            row,
        })
    }

    /// Returns a stored row with what follows from it.
    fn state_of(&mut self, row: &Row) -> Result<ItemState> {
        let settings = Arc::clone(&self.settings);
        ItemState::of(row.clone(), &settings, |item| {
            self.terms(item, row.ts, row.indexing)
        })
    }

    /// Returns the index terms and unique values that the charge of a write counts.
    fn charged_terms(&self, state: &ItemState) -> u32 {
        state.terms.units() + unique_key_units(&self.settings)
    }

    /// Returns the index terms of an item under the newest policy.
    fn terms(&mut self, item: &Object, ts: u64, indexing: IndexingDirective) -> Result<Terms> {
        let policy = Arc::clone(&self.policies.newest.1);
        self.terms_under(&policy, item, ts, indexing)
    }

    fn terms_under(
        &mut self,
        policy: &Policy,
        item: &Object,
        ts: u64,
        indexing: IndexingDirective,
    ) -> Result<Terms> {
        if !policy.indexes(indexing) {
            return Ok(Terms::default());
        }
        let key_is_id = self.settings.partition_key_is_id();
        let known = self.partition.paths_for_write()?;
        let mut paths = PathNumbers {
            known: &known,
            new: &mut self.new_paths,
        };
        Ok(Terms::of(item, ts, policy, key_is_id, &mut paths))
    }

    /// Gives each changed item the terms of the policy that the item's number follows now. Needed
    /// while a reindex runs, see `index/generations.rs`. The charge stays that of the newest
    /// policy.
    fn apply_policy_generations(&mut self, generations: &PolicyGenerations) -> Result<()> {
        let policies = self.container.policies();
        let mut changes = std::mem::take(&mut self.changes);
        self.new_paths.release_all();
        for change in &mut changes {
            let generation = generations.generation_of(change.number);
            let policy = policies.get(generation).ok_or_else(damaged)?;
            for state in change.old.iter_mut().chain(&mut change.new) {
                let json = parse(&state.row.body).map_err(|_| damaged())?;
                let item = json.as_object().ok_or_else(damaged)?;
                let Row { ts, indexing, .. } = state.row;
                state.terms = self.terms_under(policy, item, ts, indexing)?;
            }
            if let Some(new) = &change.new {
                self.new_paths.hold(&new.terms);
            }
        }
        self.changes = changes;
        Ok(())
    }

    /// Returns the second in which something of the transaction is to be removed: an item that it
    /// leaves, when it expires, or a version that it writes, when it is too old.
    fn next_removal(&self, settings: &Settings) -> Option<u64> {
        let mut next = match settings.retention_seconds {
            Some(retention) => self.ts.saturating_add(retention + 1),
            None => u64::MAX,
        };
        for change in &self.changes {
            let new = change.new.as_ref();
            let expires = new.and_then(|new| self.moment.expires(&new.row, settings.default_ttl));
            next = next.min(expires.unwrap_or(u64::MAX));
        }
        (next < u64::MAX).then_some(next)
    }

    /// Submits the transaction as one commit. Returns `None` if the transaction changed nothing, so
    /// that there is nothing to wait for.
    ///
    /// `unlocked_epk` is given by a transaction that ran on a durable snapshot without the writer's
    /// lock: the prefix of the logical partition that it read and wrote.
    ///
    /// # Errors
    /// 449 if that logical partition was written since the transaction began; 403/1014 if a logical
    /// partition would be larger than one may be; 400 and 413 if the transaction has passed a
    /// limit; 500 if a stored item cannot be read.
    pub(crate) fn commit(
        mut self,
        writer: &mut Writer,
        unlocked_epk: Option<EpkPrefix>,
    ) -> Result<Option<SubmittedCommit>> {
        // Reads made without the lock may be stale. The writer remembers recent writes by prefix,
        // so this costs one look-up; a forgotten write counts as one.
        // After a hand-over the dictionary of paths was read again.
        let is_written =
            unlocked_epk.is_some_and(|epk| writer.was_written_since(epk, self.base_lsn));
        if is_written || self.hand_overs != self.partition.hand_overs() {
            return Err(conflicting_write());
        }
        self.check_not_overfull()?;
        if self.changes.iter().all(ItemChange::is_empty) && self.other_rows.is_empty() {
            return Ok(None);
        }
        // The reindex moves under the writer's lock only, so the generations are stable from here
        // on.
        if !writer.generations.are_all(self.policies.newest.0) {
            self.apply_policy_generations(&writer.generations)?;
        }
        // The snapshot shows these rows now; without this the writer's memory would only grow.
        writer.forget_durable(self.base_lsn);

        // The settings are read now and not at the beginning: a script may have run for seconds.
        let settings = self.container.settings();
        let effects = Effects {
            container: self.container,
            partition: self.partition,
            ts: self.ts,
            removal: self.next_removal(&settings),
            now_ms: self.world.now_ms(),
        };
        let (partition, token) = (self.partition, self.world.random());
        let (container, limit) = (self.container, self.container.key_limit());
        let mut changes = self.into_changes(writer, settings.retention_seconds.is_some())?;
        let passed = writer.check_key_sizes(partition, limit, &changes.key_changes)?;

        // After a restart numbers go on above all that were handed out, used or not.
        let bound = partition.item_number_bound(container)?;
        changes.counters.next_number = changes.counters.next_number.max(bound);
        let submitted = writer.submit(partition, changes, token);
        if submitted.is_accepted() {
            effects.take_place(writer, &passed);
        }
        Ok(Some(submitted))
    }

    /// Turns the transaction into the changes of the next commit.
    ///
    /// # Errors
    /// 400 if the dictionary of paths cannot take the paths of the transaction.
    fn into_changes(self, writer: &Writer, keeps_versions: bool) -> Result<CommitChanges> {
        let lsn = writer.lsn + 1;
        let known = self.partition.paths_for_write()?;
        self.new_paths.check(&known)?;
        let mut changes = CommitChanges {
            counters: writer.counters,
            new_paths: self.new_paths.assign(&known),
            may_use_reserve: self.changes.iter().all(|change| change.new.is_none()),
            version_floors: writer.change_of_version_floors(keeps_versions),
            ..CommitChanges::default()
        };
        // The lock of the dictionary is free before the commit adds its paths.
        drop(known);

        // Each item becomes a version, if versions are kept, and the difference of its rows.
        for (mut change, sequence) in self.changes.into_iter().zip(0..) {
            change.set_feed_position(lsn, sequence);
            if keeps_versions
                && let Some(version) = change.version(self.ts, self.moment, &self.settings)
            {
                version.put(lsn, sequence, &mut changes);
            }
            change.write(&mut changes);
        }
        for (key, value) in self.other_rows {
            match value {
                Some(value) => changes.puts.push((key, value)),
                None => changes.deletes.push(key),
            }
        }
        Ok(changes)
    }
}
