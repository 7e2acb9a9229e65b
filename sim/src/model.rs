//! The model of one container: what clients know of its items.
//!
//! Each write is a *change* with a number in the order of submission. It is *open* until its
//! outcome is known: while its answer is awaited, and for ever after an answer that leaves the
//! outcome unknown, until a read shows it or the resolution decides. An open change is *sure* while
//! nothing has failed: then later writes build on it.
//!
//! Promises: an item has the value of the newest change that was answered, or of a later open one;
//! a value that a read shows makes its change certain, with all items that the change wrote; a
//! change that was refused is never seen. The engine takes the lock of a partition inside of the
//! call, so the order of submission is the order in which the writes of an item take place; the
//! checker is therefore a walk over the open changes and no search, but for the resolution of
//! deletes, which no value names.

use crate::Checked;
use crate::spec::{ItemKey, Spec, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Open changes that a resolution tries in all combinations.
const TRIED_MAX: usize = 12;

/// A change that is not decided yet.
#[derive(Clone, Debug)]
pub(crate) struct OpenChange {
    /// The new value of each item; `None` for a deletion.
    pub(crate) items: Vec<(ItemKey, Option<Value>)>,
    /// True if later writes build on the change.
    pub(crate) is_sure: bool,
    /// True for the deletion of a logical partition.
    pub(crate) is_key_deletion: bool,
}

/// The last known state of an item.
#[derive(Clone, Debug, Default)]
struct Settled {
    serial: u64,
    value: Option<Value>,
    /// Expired values from before, of which one may be the present one: they are hidden, so no read
    /// has decided.
    hidden: Vec<Value>,
}

/// The ways in which clients may see an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Clients see it.
    Alive,
    /// Clients do not see it: its time is over.
    Over,
    /// Either.
    Unclear,
}

/// The version of an item that a read shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    /// `n`.
    pub(crate) n: u64,
    /// `_ts`.
    pub(crate) ts: u64,
    /// `_etag`, with its quotes.
    pub(crate) etag: String,
}

/// A deletion for the feed of all versions.
#[derive(Clone, Debug)]
pub(crate) struct Deleted {
    /// The number of the change.
    pub(crate) serial: u64,
    /// The write whose value was deleted.
    pub(crate) n: u64,
    /// True if the feed must have it.
    pub(crate) is_certain: bool,
}

/// The model of a container.
#[derive(Clone)]
pub(crate) struct ContainerModel {
    /// The settings.
    pub(crate) spec: Spec,
    /// Values that `defaultTtl` may have: one, but after a change with an unknown outcome.
    pub(crate) default_ttls: Vec<Option<i64>>,
    settled: BTreeMap<ItemKey, Settled>,
    /// The open changes by their numbers.
    pub(crate) open: BTreeMap<u64, OpenChange>,
    /// Writes that took place: the number of the change and the item by `n`.
    pub(crate) puts: BTreeMap<u64, (u64, ItemKey)>,
    /// Writes that may have taken place before others replaced them, by `n`.
    pub(crate) maybe: BTreeSet<u64>,
    /// Deletions that took place.
    pub(crate) deletions: Vec<Deleted>,
    /// Changes that took place, as a refusal says which follows from them.
    certain: BTreeSet<u64>,
    /// Changes that did not take place, as their answers say.
    failed: BTreeSet<u64>,
    /// Etags that answers have shown, by item: `n` and the etag.
    pub(crate) etags: BTreeMap<ItemKey, Vec<(u64, String)>>,
}

impl ContainerModel {
    /// Creates the model of an empty container.
    pub(crate) fn new(spec: Spec, default_ttl: Option<i64>) -> ContainerModel {
        ContainerModel {
            spec,
            default_ttls: vec![default_ttl],
            settled: BTreeMap::new(),
            open: BTreeMap::new(),
            puts: BTreeMap::new(),
            maybe: BTreeSet::new(),
            deletions: Vec::new(),
            certain: BTreeSet::new(),
            failed: BTreeSet::new(),
            etags: BTreeMap::new(),
        }
    }

    /// Returns what clients see of a value at a second.
    pub(crate) fn life(&self, value: &Value, now: u64) -> Life {
        let mut lives = self
            .default_ttls
            .iter()
            .map(|default| life_of(value, *default, now));
        let first = lives.next().unwrap_or(Life::Unclear);
        match lives.all(|life| life == first) {
            true => first,
            false => Life::Unclear,
        }
    }

    /// Returns the last known value of an item, expired or not.
    pub(crate) fn settled(&self, key: ItemKey) -> Option<&Value> {
        self.settled.get(&key)?.value.as_ref()
    }

    /// Returns the open changes of an item that follow what is known of it.
    fn later(&self, key: ItemKey) -> impl Iterator<Item = (u64, &OpenChange, Option<&Value>)> {
        let after = self.settled.get(&key).map_or(0, |settled| settled.serial);
        self.open
            .range(after + 1..)
            .filter_map(move |(serial, change)| {
                let found = change.items.iter().find(|(item, _)| *item == key);
                found.map(|(_, value)| (*serial, change, value.as_ref()))
            })
    }

    /// Returns the states that a read may show, each with the open change that it needs.
    pub(crate) fn visible_by_change(
        &self,
        key: ItemKey,
        now: u64,
    ) -> Vec<(Option<Value>, Option<u64>)> {
        let mut all = Vec::new();
        let mut add = |values: Vec<Option<Value>>, change: Option<u64>| {
            let seen = self.seen_of(values, now);
            all.extend(seen.into_iter().map(|value| (value, change)));
        };
        add(self.known(key), None);
        for (serial, _, value) in self.later(key) {
            add(vec![value.cloned()], Some(serial));
        }
        all
    }

    /// Returns the last known value of an item, and those that may have come back.
    fn known(&self, key: ItemKey) -> Vec<Option<Value>> {
        let Some(settled) = self.settled.get(&key) else {
            return vec![None];
        };
        let hidden = settled.hidden.iter().cloned().map(Some);
        [settled.value.clone()].into_iter().chain(hidden).collect()
    }

    /// Returns the states that a read may show.
    pub(crate) fn visible(&self, key: ItemKey, now: u64) -> Vec<Option<Value>> {
        let mut all = self.known(key);
        all.extend(self.later(key).map(|(_, _, value)| value.cloned()));
        self.seen_of(all, now)
    }

    /// Returns the states on which a write that is submitted now may build.
    pub(crate) fn accepted(&self, key: ItemKey, now: u64) -> Vec<Option<Value>> {
        let mut states = self.known(key);
        for (_, change, value) in self.later(key) {
            if change.is_sure {
                states.clear();
            }
            states.push(value.cloned());
        }
        self.seen_of(states, now)
    }

    /// Turns values into what clients see of them.
    fn seen_of(&self, values: Vec<Option<Value>>, now: u64) -> Vec<Option<Value>> {
        let mut seen = Vec::new();
        for value in values {
            let life = value
                .as_ref()
                .map_or(Life::Over, |value| self.life(value, now));
            let may_be_gone = value.as_ref().is_some_and(|value| value.may_be_gone);
            if life != Life::Alive || may_be_gone {
                seen.push(None);
            }
            if life != Life::Over {
                seen.push(value);
            }
        }
        seen
    }

    /// Notes a submitted change.
    pub(crate) fn submit(&mut self, serial: u64, change: OpenChange) {
        self.open.insert(serial, change);
    }

    /// Notes that a change took place.
    pub(crate) fn applied(&mut self, serial: u64) {
        let Some(change) = self.open.remove(&serial) else {
            return;
        };
        for (key, value) in change.items {
            let is_certain = !change.is_key_deletion && self.is_settled_before(key, serial);
            let settled = self.settled.entry(key).or_default();
            if let Some(value) = &value {
                self.puts.insert(value.n, (serial, key));
            }
            if settled.serial > serial {
                continue;
            }
            if let (Some(old), None) = (&settled.value, &value) {
                let is_certain = is_certain && old.ttl.is_none() && self.default_ttls == [None];
                let n = old.n;
                self.deletions.push(Deleted {
                    serial,
                    n,
                    is_certain,
                });
            }
            *settled = Settled {
                serial,
                value,
                hidden: Vec::new(),
            };
        }
    }

    /// Returns true if no open change of an item comes before this one.
    fn is_settled_before(&self, key: ItemKey, serial: u64) -> bool {
        self.later(key).all(|(later, _, _)| later > serial)
    }

    /// Notes that a change did not take place.
    pub(crate) fn refused(&mut self, serial: u64) {
        self.open.remove(&serial);
    }

    /// Notes that a change took place, because a refusal follows from it that was answered.
    pub(crate) fn is_told_of(&mut self, serial: u64) -> Checked {
        if self.failed.contains(&serial) {
            return Err(format!(
                "a refusal follows from change {serial}, which did not take place"
            ));
        }
        self.certain.insert(serial);
        self.applied(serial);
        Ok(())
    }

    /// Notes that a change did not take place, as its answer says.
    pub(crate) fn failed(&mut self, serial: u64) -> Checked {
        self.failed.insert(serial);
        self.refused(serial);
        match self.certain.contains(&serial) {
            true => Err(format!(
                "change {serial} did not take place, and a refusal has followed from it"
            )),
            false => Ok(()),
        }
    }

    /// Notes that something failed: no write builds on the open changes for sure.
    pub(crate) fn doubt(&mut self) {
        for change in self.open.values_mut() {
            change.is_sure = false;
        }
    }

    /// Returns the value that a write gave to an item, if it may be the present one.
    pub(crate) fn value_of(&self, key: ItemKey, n: u64) -> Option<Value> {
        let settled = self.settled.get(&key).into_iter();
        let settled = settled.flat_map(|settled| settled.value.iter().chain(&settled.hidden));
        let mut all = settled.chain(self.later(key).filter_map(|(_, _, value)| value));
        all.find(|value| value.n == n).cloned()
    }

    /// Returns true if the outcome of a write is not decided.
    pub(crate) fn is_open(&self, n: u64) -> bool {
        let mut items = self.open.values().flat_map(|change| &change.items);
        items.any(|(_, value)| value.as_ref().is_some_and(|value| value.n == n))
    }

    /// Notes the second of a write that was answered.
    pub(crate) fn note_stamp(&mut self, key: ItemKey, seen: &Seen) {
        let settled = self
            .settled
            .get_mut(&key)
            .and_then(|settled| settled.value.as_mut());
        if let Some(value) = settled.filter(|value| value.n == seen.n) {
            (value.ts, value.is_ts_known) = (seen.ts, true);
        }
    }

    /// Takes in what a read has shown of an item.
    pub(crate) fn observe(&mut self, key: ItemKey, seen: Option<&Seen>, now: u64) -> Checked {
        let Some(seen) = seen else {
            return self.observe_absence(key, now);
        };
        // A hidden value that is shown again is the present one.
        if let Some(settled) = self.settled.get_mut(&key) {
            let found = settled.hidden.iter().position(|value| value.n == seen.n);
            if let Some(at) = found {
                settled.value = Some(settled.hidden.swap_remove(at));
            }
        }
        let known = self.settled(key).is_some_and(|value| value.n == seen.n);
        if !known {
            let named = self
                .later(key)
                .find(|(_, _, value)| value.is_some_and(|value| value.n == seen.n));
            let Some((serial, _, _)) = named else {
                return Err(format!(
                    "{}/{key:?} shows write {}, and must have one of {:?}",
                    self.spec.name,
                    seen.n,
                    self.visible(key, now)
                ));
            };
            self.applied(serial);
        }
        let settled = self
            .settled
            .get_mut(&key)
            .and_then(|settled| settled.value.as_mut());
        let value = settled.expect("it was found or applied");
        if value.is_ts_known && value.ts != seen.ts {
            return Err(format!(
                "{key:?}: `_ts` was {} and is {}",
                value.ts, seen.ts
            ));
        }
        (value.ts, value.is_ts_known) = (seen.ts, true);
        // A write that is not durable yet may have removed an expired item for its id or its unique
        // value.
        value.may_be_gone &= !self.open.is_empty();
        let value = value.clone();
        if self.life(&value, now) == Life::Over {
            return Err(format!(
                "{key:?} is shown at {now} and has expired: {value:?}"
            ));
        }
        let etags = self.etags.entry(key).or_default();
        match etags.iter().find(|(n, _)| *n == seen.n) {
            Some((_, etag)) if *etag != seen.etag => {
                return Err(format!("{key:?}: the etag was {etag} and is {}", seen.etag));
            }
            Some(_) => {}
            None => etags.push((seen.n, seen.etag.clone())),
        }
        Ok(())
    }

    fn observe_absence(&mut self, key: ItemKey, now: u64) -> Checked {
        if self.visible(key, now).iter().any(Option::is_none) {
            return Ok(());
        }
        Err(format!(
            "{}/{key:?} is not there at {now}, and must have one of {:?}",
            self.spec.name,
            self.visible(key, now)
        ))
    }

    /// Notes at a second, before the clock or a `defaultTtl` changes, which items may be removed.
    pub(crate) fn note_expired(&mut self, now: u64) {
        let ttls = self.default_ttls.clone();
        let is_over = |value: &Value| {
            ttls.iter()
                .any(|ttl| life_of(value, *ttl, now) != Life::Alive)
        };
        let open = self.open.values_mut().flat_map(|change| &mut change.items);
        let open = open.filter_map(|(_, value)| value.as_mut());
        let settled = self.settled.values_mut();
        let settled =
            settled.flat_map(|settled| settled.hidden.iter_mut().chain(&mut settled.value));
        for value in settled.chain(open) {
            let is_over = is_over(value);
            value.may_be_gone |= is_over;
            value.was_over |= is_over;
        }
    }

    /// Decides the open changes by the complete state of the container.
    pub(crate) fn resolve(&mut self, state: &BTreeMap<ItemKey, Seen>, now: u64) -> Checked {
        for key in ItemKey::all() {
            self.observe(key, state.get(&key), now)?;
        }
        let open: Vec<(u64, OpenChange)> = self
            .open
            .iter()
            .map(|(serial, change)| (*serial, change.clone()))
            .collect();
        if open.len() > TRIED_MAX {
            return Err(format!("{} changes are open: too many", open.len()));
        }
        let numbers = state.iter().map(|(key, seen)| (*key, seen.n)).collect();
        // An expired value explains an absence as well as none does, and may be shown again later:
        // the choices with most changes come first.
        for chosen in (0..1u32 << open.len()).rev() {
            let mut world = self.clone();
            for (at, (serial, change)) in open.iter().enumerate() {
                if chosen & (1 << at) != 0 {
                    world.applied(*serial);
                } else {
                    world.refused(*serial);
                }
                let puts = change.items.iter().filter_map(|(_, value)| value.as_ref());
                world.maybe.extend(puts.map(|value| value.n));
            }
            if world.is_state(&numbers, now) {
                world.forget_certainty(&open);
                world.keep_hidden(self, &open, &numbers, now);
                *self = world;
                return Ok(());
            }
        }
        Err(format!(
            "{}: no choice of the open changes {open:?} gives {state:?}: a change took place in \
             part, or an answered one is lost",
            self.spec.name
        ))
    }

    /// A value that is expired, and may have been removed or not, may be shown again when the clock
    /// or the `defaultTtl` changes: it stays known.
    fn keep_hidden(
        &mut self,
        before: &ContainerModel,
        open: &[(u64, OpenChange)],
        state: &BTreeMap<ItemKey, u64>,
        now: u64,
    ) {
        for (key, settled) in &mut self.settled {
            let is_chosen = open.iter().any(|(serial, _)| *serial == settled.serial);
            if !is_chosen || state.contains_key(key) {
                continue;
            }
            let earlier = before.known(*key).into_iter().flatten();
            let tried = open.iter().flat_map(|(_, change)| &change.items);
            let tried = tried.filter(|(item, _)| item == key);
            let tried = tried.filter_map(|(_, value)| value.clone());
            let present = settled.value.as_ref().map(|value| value.n);
            settled.hidden = earlier
                .chain(tried)
                .filter(|value| Some(value.n) != present)
                .filter(|value| before.life(value, now) != Life::Alive)
                .collect();
            for value in settled.hidden.iter_mut().chain(&mut settled.value) {
                (value.may_be_gone, value.was_over) = (true, true);
            }
        }
    }

    /// Several choices may give the same state, so the chosen changes are no certain ones.
    fn forget_certainty(&mut self, open: &[(u64, OpenChange)]) {
        for (serial, _) in open {
            self.puts.retain(|_, (of, _)| of != serial);
        }
        for deleted in &mut self.deletions {
            deleted.is_certain &= open.iter().all(|(serial, _)| *serial > deleted.serial);
        }
    }

    /// Returns true if clients may see exactly this state.
    fn is_state(&self, state: &BTreeMap<ItemKey, u64>, now: u64) -> bool {
        ItemKey::all().all(|key| {
            let shown = state.get(&key).copied();
            let may = self.visible(key, now);
            may.iter()
                .any(|value| value.as_ref().map(|value| value.n) == shown)
        })
    }

    /// Returns true if no outcome is open and clients may see exactly these writes.
    pub(crate) fn explains(&self, state: &BTreeMap<ItemKey, u64>, now: u64) -> bool {
        self.open.is_empty() && self.is_state(state, now)
    }
}

/// Returns what clients see of a value in a container with this `defaultTtl`.
fn life_of(value: &Value, default_ttl: Option<i64>, now: u64) -> Life {
    let Some(ttl) = default_ttl.map(|default| value.ttl.unwrap_or(default)) else {
        return Life::Alive;
    };
    let Ok(ttl) = u64::try_from(ttl) else {
        return Life::Alive;
    };
    match (now < value.ts + ttl, value.is_ts_known) {
        (true, _) => Life::Alive,
        (false, true) => Life::Over,
        (false, false) => Life::Unclear,
    }
}
