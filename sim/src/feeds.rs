//! Clients that read change feeds, each from the position at which it stopped: through restarts,
//! crashes, splits and merges.
//!
//! A reader of latest versions that has reached the end has seen the present version of every item.
//! A reader of all versions has seen every write since its begin, those of an item in their order.
//! Neither sees a write twice.

use crate::Checked;
use crate::model::Life;
use crate::node::Node;
use crate::reads::{named_by, seen_of};
use crate::spec::{ItemKey, KEYS, RETENTION_SECONDS};
use orrery_engine::request::{FeedPage, FeedStart, Scope};
use orrery_model::json::parse;
use orrery_model::{Json, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// A reader.
pub(crate) struct Reader {
    container: usize,
    /// The logical partition; `None` for the whole container.
    key: Option<u8>,
    is_of_all_versions: bool,
    start: FeedStart,
    /// The last change when the reader began.
    since: u64,
    /// The latest second of the end of the feed.
    read_at: u64,
    /// The version of each item that the reader knows.
    known: BTreeMap<ItemKey, u64>,
    /// Writes that the reader has seen, and deletions that one of all versions has seen.
    writes: BTreeSet<u64>,
    deletions: BTreeSet<u64>,
}

impl Node<'_> {
    /// Creates the readers of all containers.
    pub(crate) fn create_readers(&mut self) -> Checked {
        for container in 0..self.models.len() {
            let one = self.random.below(u64::from(KEYS)) as u8;
            for key in [None, Some(one)] {
                self.readers.push(Reader::new(container, key, false));
            }
            if self.models[container].spec.keeps_versions {
                self.readers.push(Reader::new(container, None, true));
                let at = self.readers.len() - 1;
                self.start_now(at)?;
            }
        }
        Ok(())
    }

    /// Lets a reader of all versions begin now.
    fn start_now(&mut self, at: usize) -> Checked {
        let container = self.readers[at].container;
        self.readers[at] = Reader {
            since: self.last_number(),
            read_at: self.now(),
            ..Reader::new(container, None, true)
        };
        if let Some(page) = self.page(at, None)? {
            self.readers[at].start = next_start(&page);
        }
        Ok(())
    }

    /// Lets a random reader read some pages.
    pub(crate) fn read_feed(&mut self) -> Checked {
        let at = self.random.index(self.readers.len());
        let pages = self.random.pick(&[1, 2, 20]);
        self.read_pages(at, pages)?;
        Ok(())
    }

    /// Lets every reader read to the end.
    pub(crate) fn finish_feeds(&mut self) -> Checked {
        for at in 0..self.readers.len() {
            if !self.read_pages(at, 10_000)? && !self.is_failing() {
                return Err(format!("the change feed of reader {at} has no end"));
            }
            if self.readers[at].is_of_all_versions {
                self.check_versions(at)?;
            }
        }
        Ok(())
    }

    /// Reads up to this many pages. Returns true at the end of the feed.
    fn read_pages(&mut self, at: usize, pages: usize) -> Checked<bool> {
        let is_of_all_versions = self.readers[at].is_of_all_versions;
        if is_of_all_versions && self.readers[at].start == FeedStart::Now {
            return Ok(true);
        }
        for _ in 0..pages {
            let page_size = self.random.pick(&[1, 2, 5, 100]);
            let Some(page) = self.page(at, Some(page_size))? else {
                return Ok(is_of_all_versions);
            };
            let container = self.readers[at].container;
            let events: Vec<_> = match is_of_all_versions {
                true => page
                    .rows
                    .iter()
                    .map(|row| self.version_of(at, row))
                    .collect(),
                false => page
                    .rows
                    .iter()
                    .map(|row| self.change_of(at, row))
                    .collect(),
            };
            let events: Checked<Vec<String>> = events.into_iter().collect();
            let line = events?.join(", ");
            self.note(format!("c{container} reader {at}: {line} cut {}", page.cut));
            self.check_order(at, &page)?;
            self.readers[at].start = next_start(&page);
            if !page.cut {
                if !is_of_all_versions {
                    self.check_latest(at)?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns a page; `None` if it cannot be read, or the reader of all versions began anew.
    fn page(&mut self, at: usize, page_size: Option<usize>) -> Checked<Option<FeedPage>> {
        let reader = &self.readers[at];
        let container = reader.container;
        let handle = self.handle(container)?;
        let scope = match reader.key {
            None => Scope::Everything,
            Some(key) => Scope::Key(self.models[container].spec.partition_key(key)),
        };
        let (engine, start) = (&self.engine, &reader.start.clone());
        let pending = match reader.is_of_all_versions {
            true => engine.all_versions_feed(&handle, &scope, start, page_size, None),
            false => engine.change_feed(&handle, &scope, start, page_size, None),
        };
        let outcome = pending.wait();
        self.note_charge(container, outcome.charge);
        self.note_read_lsn(container, outcome.position)?;
        match outcome.result {
            Ok(page) => {
                if !page.cut {
                    self.readers[at].read_at = self.now().max(self.readers[at].read_at);
                }
                Ok(Some(page))
            }
            Err(error) if error.kind() == Kind::BadRequest && self.are_versions_gone(at) => {
                self.note(format!("c{container} reader {at} begins anew"));
                match self.models[container].open.is_empty() {
                    true => self.start_now(at)?,
                    false => self.readers[at].start = FeedStart::Now,
                }
                Ok(None)
            }
            Err(error) => {
                self.check_failure(container, &error)
                    .map_err(|message| format!("reader {at} at {start:?}: {message}"))?;
                Ok(None)
            }
        }
    }

    /// Returns true if versions after the position of a reader may be gone.
    fn are_versions_gone(&self, at: usize) -> bool {
        let reader = &self.readers[at];
        let is_behind = self.now() + 120 >= reader.read_at + RETENTION_SECONDS;
        // A write that waited for its commit during a jump of the clock is too old at once.
        reader.is_of_all_versions && (is_behind || self.has_jumped)
    }

    /// Takes in a row of the feed of latest versions.
    fn change_of(&mut self, at: usize, row: &[u8]) -> Checked<String> {
        let container = self.readers[at].container;
        let item = parse(row).map_err(|error| format!("a change is no JSON: {error}"))?;
        let (key, _) = named_by(&self.models[container], &item)?;
        let (_, seen) = seen_of(&self.models[container], key, row, None)?;
        let now = self.now();
        self.models[container].observe(key, Some(&seen), now)?;
        if !self.readers[at].writes.insert(seen.n) {
            return Err(format!("reader {at} is shown write {} twice", seen.n));
        }
        self.readers[at].known.insert(key, seen.n);
        Ok(format!("{}/{} {}", key.key, key.id, seen.n))
    }

    /// Checks that a reader at the end has the present version of every item.
    fn check_latest(&mut self, at: usize) -> Checked {
        let (reader, now) = (&self.readers[at], self.now());
        let model = &self.models[reader.container];
        for key in ItemKey::all().filter(|item| reader.key.is_none_or(|key| item.key == key)) {
            let states = model.visible(key, now);
            if let [Some(value)] = &states[..]
                && !value.was_over
                && reader.known.get(&key) != Some(&value.n)
            {
                return Err(format!(
                    "reader {at} of c{} is at the end and has {:?} of {key:?}, not {}",
                    reader.container,
                    reader.known.get(&key),
                    value.n
                ));
            }
        }
        Ok(())
    }

    /// Checks that the changes of each logical partition on a page are in the order of LSNs.
    fn check_order(&mut self, at: usize, page: &FeedPage) -> Checked {
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        for row in &page.rows {
            let item = parse(row).map_err(|error| format!("a change is no JSON: {error}"))?;
            let (place, lsn) = match item.get("metadata") {
                Some(metadata) => {
                    let current = item.get("current").filter(|item| item.get("id").is_some());
                    let named = current.map_or_else(
                        || metadata.get("partitionKey").map(Json::to_text),
                        |item| self.key_text(at, item),
                    );
                    (named, metadata.get("lsn"))
                }
                None => (self.key_text(at, &item), item.get("_lsn")),
            };
            let lsn = lsn.and_then(Json::as_i64).ok_or("a change has no LSN")?;
            let before = last.insert(place.unwrap_or_default(), lsn);
            if before.is_some_and(|before| before > lsn) {
                return Err(format!("reader {at}: LSN {lsn} comes after {before:?}"));
            }
        }
        Ok(())
    }

    fn key_text(&self, at: usize, item: &Json) -> Option<String> {
        let is_hierarchical = self.models[self.readers[at].container].spec.is_hierarchical;
        let text = |name: &str| item.get(name).map(|value| format!("\"{name}\":{value}"));
        Some(match is_hierarchical {
            true => format!("{{{},{}}}", text("t")?, text("s")?),
            false => format!("{{{}}}", text("p")?),
        })
    }

    /// Takes in a row of the feed of all versions.
    fn version_of(&mut self, at: usize, row: &[u8]) -> Checked<String> {
        let container = self.readers[at].container;
        let change = parse(row).map_err(|error| format!("a change is no JSON: {error}"))?;
        let metadata = change.get("metadata").ok_or("a change has no metadata")?;
        let kind = metadata
            .get("operationType")
            .and_then(Json::as_str)
            .unwrap_or_default();
        if kind == "delete" {
            let previous = change
                .get("previous")
                .filter(|item| item.get("n").is_some());
            // An item that has expired is not shown.
            let Some(previous) = previous else {
                return Ok("expired".to_owned());
            };
            let (_, seen) = named_by(&self.models[container], previous)?;
            let reader = &mut self.readers[at];
            if !reader.deletions.insert(seen.n) {
                return Err(format!("the deletion of {} is twice in a feed", seen.n));
            }
            return Ok(format!("-{}", seen.n));
        }
        let current = change.get("current").ok_or("a change has no item")?;
        let (key, seen) = named_by(&self.models[container], current)?;
        let model = &self.models[container];
        let is_known = model.puts.contains_key(&seen.n) || model.maybe.contains(&seen.n);
        if !is_known && !model.is_open(seen.n) && model.value_of(key, seen.n).is_none() {
            return Err(format!(
                "the feed of all versions has {}, which was refused",
                seen.n
            ));
        }
        let reader = &mut self.readers[at];
        if !reader.writes.insert(seen.n) {
            return Err(format!(
                "write {} is twice in a feed of all versions",
                seen.n
            ));
        }
        let last = reader.known.entry(key).or_default();
        if *last > seen.n {
            return Err(format!("write {} of {key:?} comes after {last}", seen.n));
        }
        *last = (*last).max(seen.n);
        Ok(format!("{kind} {}/{} {}", key.key, key.id, seen.n))
    }

    /// Checks that a reader of all versions at the end has seen every change since its begin.
    fn check_versions(&mut self, at: usize) -> Checked {
        let reader = &self.readers[at];
        if reader.start == FeedStart::Now {
            return self.start_now(at);
        }
        let model = &self.models[reader.container];
        for (n, (serial, key)) in &model.puts {
            if *serial > reader.since && !reader.writes.contains(n) {
                return Err(format!(
                    "reader {at} of all versions of c{} lacks write {n} of {key:?}",
                    reader.container
                ));
            }
        }
        for deleted in &model.deletions {
            let is_wanted = deleted.is_certain && deleted.serial > reader.since;
            if is_wanted && !reader.deletions.contains(&deleted.n) {
                return Err(format!("reader {at} lacks the deletion of {}", deleted.n));
            }
        }
        for key in ItemKey::all() {
            let alive = model
                .settled(key)
                .filter(|value| model.life(value, self.now()) == Life::Alive && !value.may_be_gone);
            if alive.is_some_and(|value| reader.deletions.contains(&value.n)) {
                return Err(format!(
                    "reader {at} has a deletion of {key:?}, which is there"
                ));
            }
        }
        Ok(())
    }

    /// Lets the readers follow a restored snapshot: those of latest versions know its items, or
    /// begin anew; those of all versions see later changes only.
    pub(crate) fn restore_readers(&mut self) {
        let since = self.last_number();
        for at in 0..self.readers.len() {
            let begins_anew = self.random.chance(50);
            let reader = &mut self.readers[at];
            reader.since = since;
            reader.writes.clear();
            reader.deletions.clear();
            reader.known.clear();
            if reader.is_of_all_versions {
                continue;
            }
            if begins_anew {
                reader.start = FeedStart::Beginning;
                continue;
            }
            for key in ItemKey::all() {
                if let Some(value) = self.models[reader.container].settled(key) {
                    reader.known.insert(key, value.n);
                }
            }
        }
    }
}

impl Reader {
    fn new(container: usize, key: Option<u8>, is_of_all_versions: bool) -> Reader {
        Reader {
            container,
            key,
            is_of_all_versions,
            start: match is_of_all_versions {
                true => FeedStart::Now,
                false => FeedStart::Beginning,
            },
            since: 0,
            read_at: 0,
            known: BTreeMap::new(),
            writes: BTreeSet::new(),
            deletions: BTreeSet::new(),
        }
    }
}

/// Returns the start of the next page.
fn next_start(page: &FeedPage) -> FeedStart {
    match page.ranges.is_empty() {
        true => FeedStart::Lsn(page.continue_after),
        false => FeedStart::Ranges(page.ranges.clone()),
    }
}
