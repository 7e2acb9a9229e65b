//! The codes of one index in memory.

use crate::tables::Distances;
use orrery_model::Result;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::mem::size_of;

/// The node of a slot without a code: the entry, which has none here.
const VACANT: u64 = crate::ENTRY;

/// Codes between two calls of `check`.
const CHECK_EVERY: usize = 4096;

/// Codes of the vectors of one index in memory, by node. [`crate::ENTRY`] has no code here, and is
/// ignored.
#[derive(Clone, Debug)]
pub struct Codes {
    code_bytes: usize,
    /// The codes of all slots, one after the other.
    codes: Vec<u8>,
    /// The node of each slot.
    nodes: Vec<u64>,
    slots: FxHashMap<u64, u32>,
    /// Slots without a code.
    free: Vec<u32>,
}

impl Codes {
    /// Creates codes without a node, of so many bytes each (at least one).
    pub fn new(code_bytes: usize) -> Self {
        Self {
            code_bytes: code_bytes.max(1),
            codes: Vec::new(),
            nodes: Vec::new(),
            slots: FxHashMap::default(),
            free: Vec::new(),
        }
    }

    /// Sets the code of a node. A code that is too short is continued with zeros, and one that is
    /// too long is cut.
    pub fn insert(&mut self, node: u64, code: &[u8]) {
        if node == VACANT {
            return;
        }
        let slot = match self.slots.get(&node) {
            Some(&slot) => slot as usize,
            None => self.add_slot(node),
        };
        let bytes = code.iter().copied().chain(std::iter::repeat(0));
        let place = &mut self.codes[slot * self.code_bytes..(slot + 1) * self.code_bytes];
        for (place, byte) in place.iter_mut().zip(bytes) {
            *place = byte;
        }
    }

    /// Removes the code of a node, if there is one.
    pub fn remove(&mut self, node: u64) {
        if let Some(slot) = self.slots.remove(&node) {
            self.nodes[slot as usize] = VACANT;
            self.free.push(slot);
        }
    }

    /// Returns the code of a node.
    #[inline]
    pub fn get(&self, node: u64) -> Option<&[u8]> {
        let slot = *self.slots.get(&node)? as usize;
        self.codes
            .get(slot * self.code_bytes..(slot + 1) * self.code_bytes)
    }

    /// Returns the number of codes.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if there is no code.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns about how many bytes of memory the codes take.
    pub fn memory_bytes(&self) -> usize {
        // A hash table keeps a control byte for each entry, and an eighth of the entries free.
        let entry = size_of::<(u64, u32)>() + 1;
        self.codes.capacity()
            + self.nodes.capacity() * size_of::<u64>()
            + self.slots.capacity() * entry * 8 / 7
            + self.free.capacity() * size_of::<u32>()
    }

    /// Returns all codes, in no order that means anything.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let codes = self.codes.chunks_exact(self.code_bytes);
        let slots = self.nodes.iter().copied().zip(codes);
        slots.filter(|(node, _)| *node != VACANT)
    }

    /// Returns the `count` nearest codes, ascending by distance and node. `check` is called between
    /// parts of the work, and an error of `check` ends it.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn nearest(
        &self,
        distances: &Distances,
        count: usize,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<(f32, u64)>> {
        let mut best: BinaryHeap<Found> = BinaryHeap::new();
        for (number, (node, code)) in self.iter().enumerate() {
            if number.is_multiple_of(CHECK_EVERY) {
                check()?;
            }
            let found = Found {
                distance: distances.to(code),
                node,
            };
            if best.len() < count {
                best.push(found);
            } else if let Some(mut worst) = best.peek_mut()
                && found < *worst
            {
                *worst = found;
            }
        }
        let best = best.into_sorted_vec().into_iter();
        Ok(best.map(|found| (found.distance, found.node)).collect())
    }

    fn add_slot(&mut self, node: u64) -> usize {
        let slot = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if slot as usize == self.nodes.len() {
            self.nodes.push(node);
            self.codes.resize(self.nodes.len() * self.code_bytes, 0);
        } else {
            self.nodes[slot as usize] = node;
        }
        self.slots.insert(node, slot);
        slot as usize
    }
}

/// A code that was found, ordered by distance and node.
#[derive(Clone, Copy)]
struct Found {
    distance: f32,
    node: u64,
}

impl Ord for Found {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance
            .total_cmp(&other.distance)
            .then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Found {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Found {}
