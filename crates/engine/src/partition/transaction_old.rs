//! A transaction on the items of one physical partition: it reads its own writes and becomes one commit, or nothing.
//!
//! Single writes, batches of a script and the write that triggers surround all go this way. A transaction keeps its
//! changes by item and turns them into rows only at the end: old and new item compared, so that only terms that changed
//! are written. It is begun either under the writer's lock, or on a durable snapshot (scripts), in which case
//! [`Transaction::commit`] refuses if the logical partition was written meanwhile.

use crate::catalog::Container;
use crate::catalog::settings::{Settings, TTL_INVALID, read_ttl};
use crate::errors::storage_failure;
use crate::index::generations::{Policies, PolicyGenerations};
use crate::index::policy::Policy;
use crate::index::terms::Terms;
use crate::index::value;
use crate::partition::item::{StoredItem, damaged, item_id};
use crate::partition::keys::{self, EpkPrefix, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::row_reader::{read_row, rows_of_epk_prefix};
use crate::partition::versions::Version;
use crate::partition::visibility::{Visibility, is_deleted_by_key};
use crate::partition::{CommitChanges, Partition, SubmittedCommit, Writer};
use crate::request::Id;
use crate::request::etag_matches;
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, PartitionKey, murmur3_128};
use orrery_model::rid::ChildKind;
use orrery_model::work::Step;
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, Object, Result, limits};
use orrery_storage::Snapshot;
use std::collections::HashMap;
use std::sync::Arc;

/// Index entries and bytes beyond which a transaction [is large](Transaction::is_large).
const LARGE_ENTRIES: usize = 4_000;
const LARGE_BYTES: usize = 2 << 20;

/// How an item is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct ItemOptions<'a> {
    /// The etag that the item must have.
    pub if_match: Option<&'a str>,
    /// Keep it out of the index.
    pub leave_out_of_index: bool,
}

/// Changes to items of one partition that take place together.
pub struct Transaction<'a> {
    container: &'a Container,
    partition: &'a Partition,
    settings: Arc<Settings>,
    policies: Arc<Policies>,
    snapshot: &'a dyn Snapshot,
    world: &'a dyn World,
    ts: u64,
    base_lsn: u64,
    changes: Vec<Change>,
    by_number: HashMap<ItemNumber, usize>,
    by_key: HashMap<Vec<u8>, Option<ItemNumber>>,
    /// Rows that go along: written, or removed if `None`.
    carried: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Index entries and bytes of all items changed.
    weight: (usize, usize),
    /// Counted work, for the charge.
    pub work: Vec<Step>,
}

/// One item before and after.
struct Change {
    number: ItemNumber,
    old: Option<Versioned>,
    new: Option<Versioned>,
}

impl Change {
    /// As it stands in a commit.
    fn at(mut self, lsn: u64, sequence: u32) -> Self {
        if let Some(v) = &mut self.new {
            (v.row.lsn, v.row.sequence) = (lsn, sequence);
        }
        self
    }
}

#[derive(Clone)]
struct Versioned {
    row: Row,
    id: String,
    terms: Terms,
    unique: Vec<Vec<u8>>,
}

impl Versioned {
    /// The rows that say whose an id and the unique values are.
    fn owned_keys(&self) -> Vec<Vec<u8>> {
        let mut own = self.unique.clone();
        own.push(keys::primary(&self.row.epk, &self.id));
        own
    }
}

/// Where reads below the transaction's own changes go.
pub enum ReadView<'w> {
    /// Under the writer's lock: accepted commits count, durable or not.
    Writer(&'w mut Writer),
    /// On a durable snapshot.
    Durable,
}

impl<'a> Transaction<'a> {
    /// Begins on a snapshot of the partition.
    pub fn begin(
        container: &'a Container,
        partition: &'a Partition,
        snapshot: &'a dyn Snapshot,
        world: &'a dyn World,
    ) -> Self {
        Transaction {
            container,
            partition,
            settings: container.settings(),
            policies: container.policies(),
            snapshot,
            world,
            ts: world.now_seconds(),
            base_lsn: snapshot.head().lsn,
            changes: Vec::new(),
            by_number: HashMap::new(),
            by_key: HashMap::new(),
            carried: Vec::new(),
            weight: (0, 0),
            work: Vec::new(),
        }
    }

    /// Whose items it changes.
    pub fn container(&self) -> &'a Container {
        self.container
    }

    /// Its time and randomness.
    pub fn world(&self) -> &'a dyn World {
        self.world
    }

    /// Where a key lives.
    pub fn epk(&self, key: &PartitionKey) -> Epk {
        self.settings.partition_key.epk(key)
    }

    /// Whether nothing has been changed.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// A row of the partition that goes along with the changes: written, or removed if there is no value.
    pub fn carry(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.carried.push((key, value));
    }

    /// Whether it changes about as much as work beside requests should hold a writer up for.
    pub fn is_large(&self) -> bool {
        let (entries, bytes) = self.weight;
        entries >= LARGE_ENTRIES || bytes >= LARGE_BYTES
    }

    /// The live item with this id in a logical partition.
    pub fn find(&self, base: &mut ReadView<'_>, epk: &Epk, id: &str) -> Result<Option<StoredItem>> {
        let Some(stored) = self.find_any(base, epk, id)? else {
            return Ok(None);
        };
        Ok(self.is_live(base, &stored.row)?.then_some(stored))
    }

    /// Whether clients may see it: neither expired, nor deleted with its logical partition.
    fn is_live(&self, base: &mut ReadView<'_>, row: &Row) -> Result<bool> {
        Ok(row.is_live(self.ts, self.settings.default_ttl)
            && !is_deleted_by_key(row, |key| self.get(base, key))?)
    }

    /// The item with this id, expired or not.
    fn find_any(&self, base: &mut ReadView<'_>, epk: &Epk, id: &str) -> Result<Option<StoredItem>> {
        let key = keys::primary(epk, id);
        let number = match self.by_key.get(&key) {
            Some(own) => *own,
            None => self
                .get(base, &key)?
                .map(|row| keys::number(&row).ok_or_else(damaged))
                .transpose()?,
        };
        let Some(number) = number else {
            return Ok(None);
        };
        if let Some(&at) = self.by_number.get(&number) {
            return Ok(self.changes[at].new.as_ref().map(|v| StoredItem {
                number,
                row: v.row.clone(),
            }));
        }
        let row = self
            .load(base, keys::epk_prefix(epk), number)?
            .ok_or_else(damaged)?;
        Ok(Some(StoredItem { number, row }))
    }

    fn get(&self, base: &mut ReadView<'_>, key: &[u8]) -> Result<Option<Bytes>> {
        match base {
            ReadView::Writer(writer) => writer.get(self.snapshot, key),
            ReadView::Durable => self.snapshot.get(key).map_err(storage_failure),
        }
    }

    fn load(
        &self,
        base: &mut ReadView<'_>,
        epk_prefix: EpkPrefix,
        number: ItemNumber,
    ) -> Result<Option<Row>> {
        read_row(epk_prefix, number, |key| self.get(base, key))
    }

    /// The live item with this id or resource id in a logical partition.
    pub fn find_by(
        &self,
        base: &mut ReadView<'_>,
        epk: &Epk,
        id: Id<'_>,
    ) -> Result<Option<StoredItem>> {
        let rid = match id {
            Id::Name(name) => return self.find(base, epk, name),
            Id::Rid(rid) => rid,
        };
        let number = match rid.child_number() {
            Some((ChildKind::Item, number)) if rid.container_part() == self.container.rid() => {
                number
            }
            _ => return Ok(None),
        };
        let row = match self.by_number.get(&number) {
            Some(&at) => self.changes[at].new.as_ref().map(|v| v.row.clone()),
            None => self.load(base, keys::epk_prefix(epk), number)?,
        };
        let Some(row) = row.filter(|row| row.epk == *epk) else {
            return Ok(None);
        };
        Ok(self
            .is_live(base, &row)?
            .then_some(StoredItem { number, row }))
    }

    /// Items of a logical partition as this transaction sees them: its own changes over the snapshot, in natural order.
    pub fn logical_partition(&self, epk: &Epk) -> Result<Vec<StoredItem>> {
        let mut items: Vec<StoredItem> = Vec::new();
        let visible = Visibility::of(self.snapshot, self.ts, self.settings.default_ttl)?;
        for stored in rows_of_epk_prefix(self.snapshot, keys::epk_prefix(epk), 0) {
            let stored = stored?;
            if stored.row.epk == *epk
                && !self.by_number.contains_key(&stored.number)
                && visible.has(&stored.row)
            {
                items.push(stored);
            }
        }
        let own = self.changes.iter().filter_map(|change| {
            let new = change.new.as_ref().filter(|v| v.row.epk == *epk)?;
            Some(StoredItem {
                number: change.number,
                row: new.row.clone(),
            })
        });
        items.extend(own);
        items.sort_by_key(|stored| stored.number);
        Ok(items)
    }

    /// Creates an item.
    ///
    /// # Errors
    /// 409 if the id or a unique key is taken; 400 and 413 for an item that breaks a rule.
    pub fn create(
        &mut self,
        base: &mut ReadView<'_>,
        key: &PartitionKey,
        item: &Object,
        options: ItemOptions<'_>,
    ) -> Result<StoredItem> {
        let id = item_id(item)?;
        let epk = self.settings.partition_key.epk(key);
        if let Some(old) = self.find_any(base, &epk, id)? {
            if self.is_live(base, &old.row)? {
                self.work.push(Step::Refused {
                    bytes: size_of(item),
                    terms: self.units(item, options)?,
                });
                return Err(Error::conflict());
            }
            self.erase(base, &old)?;
        }
        let new = self.version(&epk, item, id, options)?;
        let (bytes, terms) = (
            new.row.size(),
            new.terms.units() + unique_units(&self.settings),
        );
        let number = self.container.new_number();
        let done = self.put(base, number, None, Some(new));
        self.work.push(if done.is_ok() {
            Step::Write { bytes, terms }
        } else {
            Step::Refused { bytes, terms }
        });
        done
    }

    /// Replaces an item, whose id may change.
    ///
    /// # Errors
    /// 412 if `if_match` does not fit, 409 if the new id or a unique key is taken, 400 and 413 as for [`Self::create`].
    pub fn replace(
        &mut self,
        base: &mut ReadView<'_>,
        old: &StoredItem,
        key: &PartitionKey,
        item: &Object,
        options: ItemOptions<'_>,
    ) -> Result<StoredItem> {
        let id = item_id(item)?;
        let epk = self.settings.partition_key.epk(key);
        if epk != old.row.epk {
            return Err(Error::partition_key_mismatch());
        }
        self.check_etag(old, size_of(item), options.if_match)?;
        let before = self.versioned(&old.row)?;
        if before.id != id
            && let Some(other) = self.find_any(base, &epk, id)?
        {
            let way = self.make_way(base, &other, Error::conflict);
            if way.is_err() {
                self.work.push(Step::Refused {
                    bytes: size_of(item),
                    terms: 0,
                });
            }
            way?;
        }
        let new = self.version(&epk, item, id, options)?;
        let (old_bytes, bytes, terms) = (
            old.row.size(),
            new.row.size(),
            new.terms.units() + unique_units(&self.settings),
        );
        let changed_terms = new.terms.units_changed_from(&before.terms);
        let done = self.put(base, old.number, Some(before), Some(new));
        self.work.push(match done {
            Ok(_) => Step::Replace {
                old_bytes,
                new_bytes: bytes,
                changed_terms,
                patch_operations: 0,
            },
            Err(_) => Step::Refused { bytes, terms },
        });
        done
    }

    /// Deletes an item.
    ///
    /// # Errors
    /// 412 if `if_match` does not fit.
    pub fn delete(
        &mut self,
        base: &mut ReadView<'_>,
        old: &StoredItem,
        if_match: Option<&str>,
    ) -> Result<()> {
        self.check_etag(old, old.row.size(), if_match)?;
        let before = self.versioned(&old.row)?;
        let terms = before.terms.units() + unique_units(&self.settings);
        self.work.push(Step::Write {
            bytes: old.row.size(),
            terms,
        });
        self.put(base, old.number, Some(before), None).map(|_| ())
    }

    /// Removes an item that nobody sees any more, free of charge here.
    pub fn erase(&mut self, base: &mut ReadView<'_>, old: &StoredItem) -> Result<()> {
        let before = self.versioned(&old.row)?;
        self.put(base, old.number, Some(before), None).map(|_| ())
    }

    /// Checks that an item has the etag that its writer knows.
    ///
    /// # Errors
    /// 412 if it has another one.
    pub fn check_etag(
        &mut self,
        old: &StoredItem,
        bytes: usize,
        if_match: Option<&str>,
    ) -> Result<()> {
        match if_match {
            Some(wanted) if !etag_matches(wanted, &old.row.etag_text()) => {
                self.work.push(Step::Refused { bytes, terms: 0 });
                Err(Error::precondition_failed())
            }
            _ => Ok(()),
        }
    }

    /// Removes an item that holds an id or a unique key if nobody sees it any more. Else refuses.
    fn make_way(
        &mut self,
        base: &mut ReadView<'_>,
        holder: &StoredItem,
        refusal: fn() -> Error,
    ) -> Result<()> {
        if self.is_live(base, &holder.row)? {
            Err(refusal())
        } else {
            self.erase(base, holder)
        }
    }

    /// Records a change and checks unique keys.
    fn put(
        &mut self,
        base: &mut ReadView<'_>,
        number: ItemNumber,
        old: Option<Versioned>,
        new: Option<Versioned>,
    ) -> Result<StoredItem> {
        let kept: &[Vec<u8>] = new.as_ref().map_or(&[], |v| &v.unique);
        for key in kept {
            let holder = match self.by_key.get(key) {
                Some(own) => *own,
                None => self.get(base, key)?.and_then(|row| keys::number(&row)),
            };
            if let (Some(holder), Some(v)) = (holder.filter(|holder| *holder != number), &new) {
                let row = match self.by_number.get(&holder) {
                    Some(&at) => self.changes[at].new.as_ref().map(|v| v.row.clone()),
                    None => self.load(base, keys::epk_prefix(&v.row.epk), holder)?,
                };
                let holder = StoredItem {
                    number: holder,
                    row: row.ok_or_else(damaged)?,
                };
                self.make_way(base, &holder, Error::unique_key_taken)?;
            }
        }
        for key in old.iter().flat_map(Versioned::owned_keys) {
            self.by_key.insert(key, None);
        }
        for key in new.iter().flat_map(Versioned::owned_keys) {
            self.by_key.insert(key, Some(number));
        }
        let row = new
            .as_ref()
            .or(old.as_ref())
            .map(|v| v.row.clone())
            .ok_or_else(damaged)?;
        for version in old.iter().chain(&new) {
            self.weight.0 += version.terms.units() as usize;
            self.weight.1 += version.row.body.len();
        }
        match self.by_number.get(&number) {
            Some(&at) => self.changes[at].new = new,
            None => {
                self.by_number.insert(number, self.changes.len());
                self.changes.push(Change { number, old, new });
            }
        }
        Ok(StoredItem { number, row })
    }

    /// A new version of an item, checked.
    fn version(
        &self,
        epk: &Epk,
        item: &Object,
        id: &str,
        options: ItemOptions<'_>,
    ) -> Result<Versioned> {
        let ttl = match item.get("ttl") {
            None => 0,
            Some(ttl) => read_ttl(ttl).ok_or_else(|| Error::bad(TTL_INVALID))?,
        };
        let row = Row {
            lsn: row::UNCOMMITTED,
            sequence: 0,
            ts: self.ts,
            etag: self.world.random(),
            ttl,
            leave_out_of_index: options.leave_out_of_index,
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
            ));
        }
        let terms = self.terms(item, row.ts, options.leave_out_of_index)?;
        let unique = unique_rows(&self.settings, epk, item);
        Ok(Versioned {
            row,
            id: id.to_owned(),
            terms,
            unique,
        })
    }

    /// A stored row with what follows from it.
    fn versioned(&self, row: &Row) -> Result<Versioned> {
        let json = parse(&row.body).map_err(|_| damaged())?;
        let item = json.as_object().ok_or_else(damaged)?;
        let terms = self.terms(item, row.ts, row.leave_out_of_index)?;
        let id = item
            .get("id")
            .and_then(Json::as_str)
            .ok_or_else(damaged)?
            .to_owned();
        Ok(Versioned {
            id,
            terms,
            unique: unique_rows(&self.settings, &row.epk, item),
            row: row.clone(),
        })
    }

    fn terms(&self, item: &Object, ts: u64, leave_out: bool) -> Result<Terms> {
        if leave_out {
            return Ok(Terms::default());
        }
        self.terms_under(&self.policies.newest.1, item, ts)
    }

    fn terms_under(&self, policy: &Policy, item: &Object, ts: u64) -> Result<Terms> {
        let key_is_id = self.settings.partition_key_is_id();
        Ok(Terms::of(
            item,
            ts,
            policy,
            key_is_id,
            &mut *self.partition.paths_mut()?,
        ))
    }

    /// While the index follows a new policy: each item's terms become those that its number has by now, see
    /// `index/generations.rs`. The charge stays that of the newest policy.
    fn follow(&mut self, generations: &PolicyGenerations) -> Result<()> {
        let policies = self.container.policies();
        let mut changes = std::mem::take(&mut self.changes);
        for change in &mut changes {
            let policy = policies
                .get(generations.generation_of(change.number))
                .ok_or_else(damaged)?;
            let versions = change.old.iter_mut().chain(&mut change.new);
            for version in versions.filter(|v| !v.row.leave_out_of_index) {
                let json = parse(&version.row.body).map_err(|_| damaged())?;
                let item = json.as_object().ok_or_else(damaged)?;
                version.terms = self.terms_under(policy, item, version.row.ts)?;
            }
        }
        self.changes = changes;
        Ok(())
    }

    fn units(&self, item: &Object, options: ItemOptions<'_>) -> Result<u32> {
        Ok(self
            .terms(item, self.ts, options.leave_out_of_index)?
            .units())
    }

    /// Orders the transaction. `Ok(None)`: it changed nothing, there is nothing to wait for.
    ///
    /// # Errors
    /// 449 if it was begun on a durable snapshot and a logical partition it touches was written since.
    pub fn commit(
        mut self,
        writer: &mut Writer,
        touched: Option<EpkPrefix>,
    ) -> Result<Option<SubmittedCommit>> {
        if let Some(epk_prefix) = touched
            && writer.was_written_since(epk_prefix, self.base_lsn)
        {
            return Err(Error::new(
                Kind::RetryWith,
                "Conflicting request to resource has been attempted. Retry to avoid conflicts.",
            ));
        }
        if self
            .changes
            .iter()
            .all(|c| c.old.is_none() && c.new.is_none())
            && self.carried.is_empty()
        {
            return Ok(None);
        }
        if !writer.generations.are_all(self.policies.newest.0) {
            self.follow(&writer.generations)?;
        }
        writer.forget_durable(self.base_lsn);
        let token = self.world.random();
        let lsn = writer.lsn + 1;
        let mut changes = CommitChanges {
            counters: writer.counters,
            ..CommitChanges::default()
        };
        // As the container is now, not when this began: a script may have taken its time.
        let keeps_versions = self.container.settings().retention_seconds.is_some();
        changes.versions_after = match (keeps_versions, writer.versions_after) {
            (true, None) => Some(Some(writer.lsn)),
            (false, Some(_)) => Some(None),
            _ => None,
        };
        for (change, sequence) in self.changes.into_iter().zip(0..) {
            let change = change.at(lsn, sequence);
            if keeps_versions {
                let (old, new) = (
                    change.old.as_ref().map(|v| &v.row),
                    change.new.as_ref().map(|v| &v.row),
                );
                let version =
                    Version::between(change.number, old, new, self.ts, self.settings.default_ttl);
                version
                    .iter()
                    .for_each(|version| version.put(lsn, sequence, &mut changes));
            }
            add_change(change, &mut changes);
        }
        for (key, value) in self.carried {
            match value {
                Some(value) => changes.puts.push((key, value)),
                None => changes.deletes.push(key),
            }
        }
        changes.counters.next_number = changes
            .counters
            .next_number
            .max(self.container.numbers_used());
        Ok(Some(writer.submit(self.partition, changes, token)))
    }

    /// The LSN of the snapshot it was begun on.
    pub fn base_lsn(&self) -> u64 {
        self.base_lsn
    }
}

/// Turns one item's change into rows.
fn add_change(change: Change, out: &mut CommitChanges) {
    let Change { number, old, new } = change;
    let epk_prefix = keys::epk_prefix(match new.as_ref().or(old.as_ref()) {
        Some(v) => &v.row.epk,
        None => return,
    });
    out.epk_prefixes.push(epk_prefix);
    if let Some(v) = &old {
        out.deletes
            .push(keys::feed(v.row.lsn, v.row.sequence, number));
        out.counters.items -= 1;
        out.counters.bytes = out.counters.bytes.saturating_sub(v.row.size() as u64);
    }
    let (old_chunks, new_chunks) = put_rows(number, epk_prefix, old.as_ref(), new.as_ref(), out);
    out.deletes
        .extend((new_chunks..old_chunks).map(|chunk| keys::item_rest(number, chunk)));
    let none = Terms::default();
    let (before, after) = (
        old.as_ref().map_or(&none, |v| &v.terms),
        new.as_ref().map_or(&none, |v| &v.terms),
    );
    out.replace_terms(before, after, number, epk_prefix);
    let (before, after): (Vec<_>, Vec<_>) = (
        old.iter().flat_map(Versioned::owned_keys).collect(),
        new.iter().flat_map(Versioned::owned_keys).collect(),
    );
    out.deletes
        .extend(before.iter().filter(|key| !after.contains(key)).cloned());
    out.puts.extend(
        after
            .into_iter()
            .filter(|key| !before.contains(key))
            .map(|key| (key, number.to_be_bytes().to_vec())),
    );
    let expiry =
        |v: &Versioned| (v.row.ttl > 0).then(|| keys::expiry(v.row.ts + v.row.ttl as u64, number));
    out.deletes.extend(old.as_ref().and_then(expiry));
    out.puts.extend(
        new.as_ref()
            .and_then(expiry)
            .map(|key| (key, epk_prefix.to_vec())),
    );
}

/// Item, chunks, natural order and feed rows; how many chunks there were and are.
fn put_rows(
    number: ItemNumber,
    epk_prefix: EpkPrefix,
    old: Option<&Versioned>,
    new: Option<&Versioned>,
    out: &mut CommitChanges,
) -> (u32, u32) {
    let old_chunks = old.map_or(0, |v| row::chunks_of(v.row.encode().len()));
    let Some(v) = new else {
        out.deletes.push(keys::item(epk_prefix, number));
        out.deletes.push(keys::natural(number));
        return (old_chunks, 0);
    };
    out.counters.items += 1;
    out.counters.bytes += v.row.size() as u64;
    let (first, rest) = row::split(v.row.encode());
    let new_chunks = rest.len() as u32;
    out.puts.push((keys::item(epk_prefix, number), first));
    out.puts.extend(
        rest.into_iter()
            .zip(0..)
            .map(|(chunk, i)| (keys::item_rest(number, i), chunk)),
    );
    out.puts.push((
        keys::feed(v.row.lsn, v.row.sequence, number),
        epk_prefix.to_vec(),
    ));
    if old.is_none() {
        out.puts.push((keys::natural(number), epk_prefix.to_vec()));
    }
    (old_chunks, new_chunks)
}

fn unique_rows(settings: &Settings, epk: &Epk, item: &Object) -> Vec<Vec<u8>> {
    let digest = |paths: &[Vec<String>]| {
        let mut bytes = Vec::new();
        for path in paths {
            let found = path[1..]
                .iter()
                .try_fold(item.get(&path[0]), |at, name| Some(at?.get(name)))
                .flatten();
            let encoded = value::encode(found.unwrap_or(&Json::Null));
            bytes.extend_from_slice(&(encoded.bytes.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&encoded.bytes);
            if !encoded.exact {
                bytes.extend_from_slice(found.map(Json::to_text).unwrap_or_default().as_bytes());
            }
        }
        murmur3_128(&bytes)
    };
    settings
        .unique_keys
        .iter()
        .zip(0u8..)
        .map(|(paths, i)| keys::unique(i, epk, &digest(paths)))
        .collect()
}

fn unique_units(settings: &Settings) -> u32 {
    settings
        .unique_keys
        .iter()
        .map(|paths| paths.len() as u32)
        .sum()
}

/// The size that an item would have once stored.
fn size_of(item: &Object) -> usize {
    const SYSTEM_PROPERTIES: usize = 205;
    row::body_text(item).len() + SYSTEM_PROPERTIES
}
