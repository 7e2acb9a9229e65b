//! Work beside requests: rebuilding an index after its policy changed, removing expired items, giving back the space of
//! deleted containers.

use crate::Engine;
use crate::catalog::{Container, IndexState};
use crate::index::terms::Terms;
use crate::keys;
use crate::partition::{Changes, Partition, outcome_error, scan, storage_failure};
use crate::transaction::{Base, Stored, Transaction, read_row};
use orrery_model::json::parse;
use orrery_model::{Error, Result};
use orrery_storage::Direction;

/// Rows that one commit of a rebuild changes at most; writes of clients go on between commits.
const ROWS_A_COMMIT: usize = 4_000;
/// Expired items that one commit removes.
const EXPIRED_A_COMMIT: usize = 100;

impl Engine {
    /// Makes a container's index follow its policy. Queries scan until it does.
    ///
    /// # Errors
    /// What the store reports; the index stays marked and is rebuilt at the next start.
    pub fn rebuild_index(&self, container: &Container) -> Result<()> {
        for partition in container.partitions() {
            self.drop_terms(partition)?;
            self.add_terms(container, partition)?;
        }
        self.catalog().index_is_ready(container)
    }

    /// Rebuilds what an earlier process left unfinished.
    ///
    /// # Errors
    /// As [`Engine::rebuild_index`].
    pub fn finish_rebuilds(&self) -> Result<()> {
        let unfinished = |c: &std::sync::Arc<Container>| c.index_state() == IndexState::Rebuilding;
        self.catalog().all_containers().iter().filter(|c| unfinished(c)).try_for_each(|c| self.rebuild_index(c))
    }

    /// Removes every index term. Items written meanwhile keep theirs or get them back below.
    fn drop_terms(&self, partition: &Partition) -> Result<()> {
        loop {
            let mut writer = partition.lock()?;
            let snapshot = partition.snapshot_with(writer.lsn)?;
            let mut changes = Changes { counters: writer.counters, ..Changes::default() };
            for row in scan(snapshot.as_ref(), &keys::all_terms(), Direction::Forward).take(ROWS_A_COMMIT) {
                let key = row?.0;
                if let Some(path) = keys::term_path(&key) {
                    *changes.entries.entry(path).or_default() -= 1;
                }
                changes.deletes.push(key.to_vec());
            }
            if changes.deletes.is_empty() {
                return Ok(());
            }
            let ordered = writer.submit(partition, changes, self.world().random());
            drop(writer);
            outcome_error(&ordered.receipt.wait()).map_or(Ok(()), Err)?;
        }
    }

    fn add_terms(&self, container: &Container, partition: &Partition) -> Result<()> {
        let mut next = 0;
        loop {
            let mut writer = partition.lock()?;
            let snapshot = partition.snapshot_with(writer.lsn)?;
            let settings = container.settings();
            let mut changes = Changes { counters: writer.counters, ..Changes::default() };
            let from = next;
            for entry in scan(snapshot.as_ref(), &keys::naturals_from(from), Direction::Forward) {
                let (key, value) = entry?;
                let damaged = || Error::internal("a row is damaged");
                let number = keys::read_natural(&key).ok_or_else(damaged)?;
                let place = value[..].try_into().map_err(|_| damaged())?;
                let row =
                    read_row(place, number, |key| snapshot.get(key).map_err(storage_failure))?.ok_or_else(damaged)?;
                next = number + 1;
                if row.leave_out_of_index {
                    continue;
                }
                let json = parse(&row.body).map_err(|_| damaged())?;
                let item = json.as_object().ok_or_else(damaged)?;
                let key_is_id = settings.partition_key_is_id();
                let terms = Terms::of(item, row.ts, &settings.policy, key_is_id, &mut *partition.paths_mut()?);
                for (path, value) in terms.entries() {
                    let term = keys::term(path, value, number, place);
                    // An item written since the old terms went has its terms already.
                    if snapshot.get(&term).map_err(storage_failure)?.is_none() {
                        *changes.entries.entry(path).or_default() += 1;
                        changes.puts.push((term, Vec::new()));
                    }
                }
                if changes.puts.len() >= ROWS_A_COMMIT {
                    break;
                }
            }
            if next == from {
                return Ok(());
            }
            let ordered = writer.submit(partition, changes, self.world().random());
            drop(writer);
            outcome_error(&ordered.receipt.wait()).map_or(Ok(()), Err)?;
        }
    }

    /// Gives back the space of deleted containers.
    ///
    /// # Errors
    /// What the store reports; the rest is tried again next time.
    pub fn destroy_deleted(&self) -> Result<()> {
        while self.catalog().destroy_one_doomed()? {}
        Ok(())
    }

    /// Removes expired items of all containers, some from each partition; how many.
    ///
    /// # Errors
    /// What the store reports.
    pub fn remove_expired(&self) -> Result<usize> {
        let mut removed = 0;
        for container in self.catalog().all_containers() {
            if container.settings().default_ttl.is_none() {
                continue;
            }
            for partition in container.partitions() {
                removed += self.remove_expired_of(&container, partition)?;
            }
        }
        Ok(removed)
    }

    fn remove_expired_of(&self, container: &Container, partition: &Partition) -> Result<usize> {
        let (now, default_ttl) = (self.world().now_seconds(), container.settings().default_ttl);
        let snapshot = partition.snapshot()?;
        let mut candidates: Vec<(keys::Number, keys::Place)> = Vec::new();
        for entry in scan(snapshot.as_ref(), &keys::expiries_until(now), Direction::Forward).take(EXPIRED_A_COMMIT) {
            let (key, value) = entry?;
            candidates.extend(keys::read_expiry(&key).zip(value[..].try_into().ok()));
        }
        if default_ttl.is_some_and(|ttl| ttl > 0) {
            // Oldest changes first: what was changed last expires last, but for items with a `ttl` of their own.
            for entry in scan(snapshot.as_ref(), &keys::feed_after(0), Direction::Forward).take(EXPIRED_A_COMMIT) {
                candidates.extend(keys::unpack(&entry?.1));
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let mut expired: Vec<Stored> = Vec::new();
        for (number, place) in candidates {
            let row = read_row(place, number, |key| snapshot.get(key).map_err(storage_failure))?;
            expired.extend(row.filter(|row| !row.is_live(now, default_ttl)).map(|row| Stored { number, row }));
        }
        if expired.is_empty() {
            return Ok(0);
        }
        drop(snapshot);
        let mut writer = partition.lock()?;
        let snapshot = partition.snapshot_with(writer.lsn)?;
        let mut transaction = Transaction::begin(container, partition, snapshot.as_ref(), self.world());
        let mut removed = 0;
        for old in expired {
            let place = keys::place(&old.row.epk);
            let now_there = read_row(place, old.number, |key| snapshot.get(key).map_err(storage_failure))?;
            if now_there.is_some_and(|row| row.lsn == old.row.lsn) {
                transaction.erase(&mut Base::Writer(&mut writer), &old)?;
                removed += 1;
            }
        }
        let ordered = transaction.commit(&mut writer, None)?;
        drop(writer);
        let failed = ordered.and_then(|ordered| outcome_error(&ordered.receipt.wait()));
        failed.map_or(Ok(removed), Err)
    }
}
