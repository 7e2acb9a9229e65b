//! Bounded maps in memory. A map that is full is emptied: every entry can be computed or read
//! again.

use orrery_blog::sync::lock;
use std::collections::HashMap;
use std::sync::Mutex;

/// A map with at most `entries_max` entries.
pub(crate) struct Cache<V> {
    entries: Mutex<HashMap<String, V>>,
    entries_max: usize,
}

impl<V: Clone> Cache<V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries: Mutex::default(),
            entries_max,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<V> {
        lock(&self.entries).get(key).cloned()
    }

    pub(crate) fn insert(&self, key: &str, value: V) {
        self.update(key, || value.clone(), |entry| *entry = value.clone());
    }

    pub(crate) fn remove(&self, key: &str) {
        lock(&self.entries).remove(key);
    }

    /// Changes the entry of `key`, which begins as `first`, and returns the changed entry.
    pub(crate) fn update(
        &self,
        key: &str,
        first: impl FnOnce() -> V,
        change: impl FnOnce(&mut V),
    ) -> V {
        let mut entries = lock(&self.entries);
        if entries.len() >= self.entries_max && !entries.contains_key(key) {
            entries.clear();
        }
        let entry = entries.entry(key.to_owned()).or_insert_with(first);
        change(entry);
        entry.clone()
    }

    /// Changes every entry.
    pub(crate) fn for_each(&self, change: impl FnMut(&mut V)) {
        lock(&self.entries).values_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_is_emptied_before_the_next_entry() {
        let cache = Cache::new(2);
        cache.insert("a", 1);
        cache.insert("b", 2);
        cache.insert("b", 3);
        assert_eq!((cache.get("a"), cache.get("b")), (Some(1), Some(3)));
        cache.insert("c", 4);
        assert_eq!((cache.get("a"), cache.get("c")), (None, Some(4)));
    }
}
