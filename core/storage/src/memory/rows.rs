//! The rows of one partition: the newest ones, and the earlier ones that live snapshots see.
//!
//! ```text
//! low key of a slot     slot
//! (empty)               newest block · earlier blocks
//! 10 3f a1              newest block · earlier blocks        a slot holds the rows from its low
//! 90 00 00 00 02 15     newest block · earlier blocks        key up to the next slot's
//! ```
//!
//! A commit replaces the blocks of the slots that it touches. The block before stays in its slot,
//! with the LSN of the commit that wrote it, if a live snapshot sees it. A snapshot is an LSN, and
//! reads from each slot the newest block that is not younger.
//!
//! A slot whose block grew too large is split, together with its earlier blocks. A slot that shrank
//! is joined with an adjacent one when no snapshot needs earlier blocks of the two, so every slot
//! has a block for every live snapshot.
//!
//! Changed slots that need such care are queued. The queue is worked off in commits and when a
//! snapshot ends, in pieces of bounded size: there is no thread of its own.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::block::{BackwardRows, Block, BlockRows};
use crate::commit::{Commit, Head, Lsn};
use crate::store::{KeyRange, is_empty_range};

/// Bytes from which on a block with several rows is split. Larger blocks take less memory beside
/// the rows; each change of a row copies its block.
const BLOCK_BYTES_MAX: usize = 2 << 10;
/// Bytes below which a block is joined with an adjacent one, and of the largest joined block.
const BLOCK_BYTES_MIN: usize = BLOCK_BYTES_MAX / 4;
const JOINED_BYTES_MAX: usize = BLOCK_BYTES_MAX * 3 / 4;
/// Bytes of a slot beside its low key and its blocks: its place in the map, and what the allocator
/// adds to the key and to the block. An estimate.
const SLOT_BYTES: usize = 192;

/// Slots of the queue that are looked after at once, while commits and reads wait.
pub(super) const QUEUE_PIECE: usize = 128;

/// The lowest key of a slot.
type LowKey = Arc<[u8]>;

/// The LSNs of the live snapshots of a partition, in ascending order, each with the number of its
/// snapshots.
#[derive(Default)]
pub(super) struct LiveSnapshots {
    counts: VecDeque<(Lsn, usize)>,
}

/// The rows of a partition. The module header describes them.
pub(super) struct Rows {
    head: Head,
    /// The slot with the empty low key is always there.
    slots: BTreeMap<LowKey, Slot>,
    /// Slots to look after, with the LSN from which on a live snapshot does not stand against it.
    queue: VecDeque<(Lsn, LowKey)>,
    /// Bytes of all slots.
    bytes: usize,
}

/// The rows from one key up to another.
struct Slot {
    /// The commit that wrote the newest block.
    since: Lsn,
    newest: Block,
    /// Earlier blocks with the commits that wrote them, the oldest first.
    earlier: Vec<(Lsn, Block)>,
    is_queued: bool,
}

impl LiveSnapshots {
    /// Adds a snapshot. No snapshot was taken at a higher LSN before.
    pub(super) fn add(&mut self, lsn: Lsn) {
        match self.counts.back_mut() {
            Some((last, count)) if *last == lsn => *count += 1,
            _ => self.counts.push_back((lsn, 1)),
        }
    }

    /// Removes a snapshot. Returns true if the oldest LSN has changed.
    pub(super) fn remove(&mut self, lsn: Lsn) -> bool {
        let Ok(at) = self.counts.binary_search_by_key(&lsn, |(lsn, _)| *lsn) else {
            return false;
        };
        let count = &mut self.counts[at].1;
        *count -= 1;
        if *count == 0 {
            self.counts.remove(at);
        }
        at == 0 && self.counts.front().is_none_or(|(oldest, _)| *oldest != lsn)
    }

    /// Returns the LSNs in ascending order.
    pub(super) fn lsns(&self) -> Vec<Lsn> {
        self.counts.iter().map(|(lsn, _)| *lsn).collect()
    }
}

impl Default for Rows {
    fn default() -> Rows {
        let first = Slot::new(0, Block::default());
        let bytes = first.bytes();
        let slots = BTreeMap::from([(LowKey::default(), first)]);
        Rows {
            head: Head::default(),
            slots,
            queue: VecDeque::new(),
            bytes,
        }
    }
}

impl Rows {
    /// Returns the last commit.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// Returns the bytes of all rows that are kept, with an estimate of what is beside them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the block that has the row of a key at an LSN, if there is such a row.
    pub(super) fn block_of(&self, key: &[u8], lsn: Lsn) -> Block {
        self.slot_of(key).1.at(lsn)
    }

    /// Returns the rows of the first block with rows behind the start of a range, from that start
    /// on. They may go beyond the end of the range.
    pub(super) fn first_rows(&self, range: KeyRange<'_>, lsn: Lsn) -> Option<BlockRows> {
        for slot in self.slots_of(range) {
            let rows = slot.at(lsn).rows_from(range.0);
            if !rows.is_at_end() {
                return Some(rows);
            }
        }
        None
    }

    /// Returns the rows of a range in the last block that has any.
    pub(super) fn last_rows(&self, range: KeyRange<'_>, lsn: Lsn) -> Option<BackwardRows> {
        for slot in self.slots_of(range).rev() {
            let rows = slot.at(lsn).rows_from(range.0);
            let found = rows.backward(|key| RangeBounds::<[u8]>::contains(&range, key));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the slots in which a range that is not empty may have rows.
    fn slots_of(&self, range: KeyRange<'_>) -> impl DoubleEndedIterator<Item = &Slot> {
        let low: &[u8] = match range.0 {
            Bound::Included(start) | Bound::Excluded(start) => self.slot_of(start).0,
            Bound::Unbounded => &[],
        };
        let slots = self.slots.range::<[u8], _>((Bound::Included(low), range.1));
        slots.map(|(_, slot)| slot)
    }

    /// Returns the slot in which a key belongs, with its low key.
    fn slot_of(&self, key: &[u8]) -> (&LowKey, &Slot) {
        let not_above = (Bound::Unbounded, Bound::Included(key));
        let slot = self.slots.range::<[u8], _>(not_above).next_back();
        slot.expect("no key is below the low key of the first slot")
    }
}

/// Changes.
impl Rows {
    /// Applies a commit. `live` are the LSNs of all live snapshots in ascending order.
    pub(super) fn apply(&mut self, mut commit: Commit, live: &[Lsn]) {
        commit.normalize();
        let lsn = commit.new_lsn;
        let queued_before = self.queue.len();
        // Promise 8: range deletes and deletes take effect before puts.
        for range in &commit.range_deletes {
            let range: KeyRange<'_> = (Bound::Included(&range.start), Bound::Excluded(&range.end));
            if !is_empty_range(&range) {
                self.remove_range(range, lsn, live);
            }
        }
        for key in &commit.deletes {
            self.remove(key, lsn, live);
        }
        for (key, value) in &commit.puts {
            self.put(key, value, lsn, live);
        }
        self.head = commit.new_head();
        // More slots than this commit queued, so the queue gets shorter.
        let queued = self.queue.len() - queued_before;
        self.work_off(live, 2 * queued + QUEUE_PIECE);
    }

    /// Works off a piece of the queue, as far as the live snapshots allow. Returns true if there
    /// may be more to do.
    pub(super) fn work_off(&mut self, live: &[Lsn], slots: usize) -> bool {
        let oldest = live.first().copied().unwrap_or(Lsn::MAX);
        for _ in 0..slots {
            match self.queue.front() {
                Some((lsn, _)) if *lsn <= oldest => {}
                _ => return false,
            }
            if let Some((_, low)) = self.queue.pop_front() {
                self.look_after(low, live);
            }
        }
        true
    }

    fn put(&mut self, key: &[u8], value: &[u8], lsn: Lsn, live: &[Lsn]) {
        let (low, slot) = slot_mut(&mut self.slots, key);
        let (block, is_appended) = slot.newest.with(key, value);
        self.bytes -= slot.bytes();
        slot.replace(block, lsn, live);
        self.bytes += slot.bytes();
        let is_too_large = slot.newest.len() > BLOCK_BYTES_MAX;
        if slot.has_to_be_queued() {
            slot.is_queued = true;
            self.queue.push_back((lsn, low.clone()));
        }
        if is_too_large {
            let low = low.clone();
            self.split(low, is_appended);
        }
    }

    fn remove(&mut self, key: &[u8], lsn: Lsn, live: &[Lsn]) {
        let (low, slot) = slot_mut(&mut self.slots, key);
        if let Some(block) = slot.newest.without(key) {
            self.bytes -= slot.bytes();
            slot.replace(block, lsn, live);
            self.bytes += slot.bytes();
            if slot.has_to_be_queued() || slot.is_small() && !slot.is_queued {
                slot.is_queued = true;
                self.queue.push_back((lsn, low.clone()));
            }
        }
    }

    fn remove_range(&mut self, range: KeyRange<'_>, lsn: Lsn, live: &[Lsn]) {
        let (Bound::Included(start), end) = range else {
            return;
        };
        let first = self.slot_of(start).0.clone();
        let bounds = (Bound::Included(&first[..]), end);
        for (low, slot) in self.slots.range_mut::<[u8], _>(bounds) {
            if slot.newest.is_empty() {
                continue;
            }
            let block = slot.newest.without_range(range);
            self.bytes -= slot.bytes();
            slot.replace(block, lsn, live);
            self.bytes += slot.bytes();
            if !slot.is_queued {
                slot.is_queued = true;
                self.queue.push_back((lsn, low.clone()));
            }
        }
    }

    /// Splits a slot until each of its blocks is small enough or has one row. `at_end` splits off
    /// the last row alone: rows that are appended one after another fill their blocks.
    fn split(&mut self, low: LowKey, at_end: bool) {
        let Some(slot) = self.slots.get_mut(&low) else {
            return;
        };
        let size = slot.newest.len();
        let offset = if at_end { size } else { size / 2 };
        let Some(separator) = slot.newest.separator(offset) else {
            return;
        };
        self.bytes -= slot.bytes();
        let upper = slot.split_off(&separator);
        self.bytes += slot.bytes() + upper.bytes();

        let separator = LowKey::from(separator);
        if upper.is_queued {
            self.queue.push_back((upper.since, separator.clone()));
        }
        let sizes = [slot.newest.len(), upper.newest.len()];
        self.slots.insert(separator.clone(), upper);
        for (low, size) in [low, separator].into_iter().zip(sizes) {
            if size > BLOCK_BYTES_MAX {
                self.split(low, false);
            }
        }
    }

    /// Removes the blocks of a slot that no snapshot sees, and joins a small slot with an adjacent
    /// one.
    fn look_after(&mut self, low: LowKey, live: &[Lsn]) {
        let Some(slot) = self.slots.get_mut(&low) else {
            // The slot was joined with another.
            return;
        };
        self.bytes -= slot.bytes();
        slot.forget_unseen(live);
        self.bytes += slot.bytes();
        slot.is_queued = !slot.earlier.is_empty();
        if slot.is_queued {
            self.queue.push_back((self.head.lsn, low));
        } else if slot.is_small() {
            self.join(&low);
        }
    }

    /// Joins a small slot without earlier blocks with the slot above or below, if there is one with
    /// room and without earlier blocks. Removes a slot without rows.
    ///
    /// Every live snapshot sees the newest block of a slot without earlier blocks, so the joined
    /// block is right for all of them.
    fn join(&mut self, low: &LowKey) {
        let slot = &self.slots[low];
        if slot.newest.is_empty() && !low.is_empty() {
            self.bytes -= slot.bytes();
            self.slots.remove(low);
            return;
        }
        let above = (Bound::Excluded(&low[..]), Bound::Unbounded);
        let below = (Bound::Unbounded, Bound::Excluded(&low[..]));
        let above = self.slots.range::<[u8], _>(above).next();
        let below = self.slots.range::<[u8], _>(below).next_back();
        let (lower, upper) = if let Some((above, adjacent)) = above
            && slot.can_join(adjacent)
        {
            (low.clone(), above.clone())
        } else if let Some((below, adjacent)) = below
            && slot.can_join(adjacent)
        {
            (below.clone(), low.clone())
        } else {
            return;
        };
        let upper = self.slots.remove(&upper);
        if let (Some(lower), Some(upper)) = (self.slots.get_mut(&lower), upper) {
            self.bytes -= lower.bytes() + upper.bytes();
            lower.newest = lower.newest.followed_by(&upper.newest);
            lower.since = lower.since.max(upper.since);
            self.bytes += lower.bytes();
        }
    }
}

/// Returns the slot in which a key belongs, with its low key.
fn slot_mut<'a>(slots: &'a mut BTreeMap<LowKey, Slot>, key: &[u8]) -> (&'a LowKey, &'a mut Slot) {
    let not_above = (Bound::Unbounded, Bound::Included(key));
    let slot = slots.range_mut::<[u8], _>(not_above).next_back();
    slot.expect("no key is below the low key of the first slot")
}

impl Slot {
    fn new(since: Lsn, newest: Block) -> Slot {
        Slot {
            since,
            newest,
            earlier: Vec::new(),
            is_queued: false,
        }
    }

    /// Returns the bytes of the slot.
    fn bytes(&self) -> usize {
        let earlier = self.earlier.iter().map(|(_, block)| block.len());
        SLOT_BYTES + self.newest.len() + earlier.sum::<usize>()
    }

    /// Returns the block that a snapshot at an LSN sees.
    fn at(&self, lsn: Lsn) -> Block {
        if self.since <= lsn {
            return self.newest.clone();
        }
        let mut earlier = self.earlier.iter().rev();
        let seen = earlier.find(|(since, _)| *since <= lsn);
        seen.map(|(_, block)| block.clone()).unwrap_or_default()
    }

    /// Replaces the newest block. The block before becomes an earlier block if a live snapshot sees
    /// it.
    fn replace(&mut self, block: Block, lsn: Lsn, live: &[Lsn]) {
        let before = std::mem::replace(&mut self.newest, block);
        let since = std::mem::replace(&mut self.since, lsn);
        if since < lsn && is_seen(since, lsn, live) {
            self.earlier.push((since, before));
            self.forget_unseen(live);
        }
    }

    /// Removes the earlier blocks that no live snapshot sees.
    fn forget_unseen(&mut self, live: &[Lsn]) {
        let mut until = self.since;
        for at in (0..self.earlier.len()).rev() {
            let since = self.earlier[at].0;
            if !is_seen(since, until, live) {
                self.earlier.remove(at);
            }
            until = since;
        }
        if self.earlier.is_empty() {
            self.earlier = Vec::new();
        }
    }

    /// Moves the rows from a key on, of all blocks, to a new slot.
    fn split_off(&mut self, key: &[u8]) -> Slot {
        let (lower, upper) = self.newest.split_at(key);
        self.newest = lower;
        let mut upper = Slot::new(self.since, upper);
        for (since, block) in &mut self.earlier {
            let (lower, earlier) = block.split_at(key);
            *block = lower;
            upper.earlier.push((*since, earlier));
        }
        upper.is_queued = !upper.earlier.is_empty();
        upper
    }

    fn is_small(&self) -> bool {
        self.newest.len() < BLOCK_BYTES_MIN
    }

    fn can_join(&self, adjacent: &Slot) -> bool {
        let bytes = self.newest.len() + adjacent.newest.len();
        adjacent.earlier.is_empty() && bytes <= JOINED_BYTES_MAX
    }

    /// Returns true if the slot has earlier blocks and is not in the queue.
    fn has_to_be_queued(&self) -> bool {
        !self.is_queued && !self.earlier.is_empty()
    }
}

/// Returns true if a live snapshot sees a block that was the newest from `since` until `until`.
fn is_seen(since: Lsn, until: Lsn, live: &[Lsn]) -> bool {
    let first = live.partition_point(|lsn| *lsn < since);
    live.get(first).is_some_and(|lsn| *lsn < until)
}
