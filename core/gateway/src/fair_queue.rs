//! The queue of requests that run scripts: which of them runs next, and which must end.
//!
//! A script may take a millisecond or five seconds, which is not known before it runs. So a request
//! begins in the class of *young* requests, and one that does not end soon moves to the
//! class of *long* requests, which has places of its own. Long requests therefore never hold the
//! places of young ones, whatever their number.
//!
//! Requests belong to groups, one for each database:
//!
//! * Among groups that wait, those without strikes come first, then those with fewer requests
//!   running, then those that had their turn longest ago.
//! * A group gets a strike when one of its requests becomes long, and loses half of its strikes
//!   when one ends while it is young. A group with strikes begins its requests in places of the
//!   long class only, so that groups without strikes find the young places free.
//! * A request that becomes long while no long place is free stays where it is, until a group
//!   without strikes needs its place. Then the group with the most aged requests gives its oldest
//!   up. A group with strikes gets the place of a request that has run for very long.
//!
//! Two requests with the same exclusive name never run at once; the later one waits in the queue
//! and holds no place.
//!
//! The queue has no clock and no locks. Its caller tells it that a request became long.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of a request in the queue, in the order of their arrival.
pub(crate) type QueueEntry = u64;

/// Strikes that a group has at most.
const MAX_STRIKES: u32 = 8;
/// Idle groups whose strikes are remembered.
const MAX_IDLE_GROUPS: usize = 1024;

/// The places of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Young requests that run at once.
    pub young: usize,
    /// Young requests of one group that run at once.
    pub young_of_group: usize,
    /// Long requests that run at once.
    pub long: usize,
    /// Long requests of one group that run at once.
    pub long_of_group: usize,
    /// Requests of either class that run and are not aged. They compete for the processor with
    /// equal priority, so there are few of them. The last place is for groups without strikes.
    pub starting: usize,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests of one group that wait.
    pub waiting_of_group: usize,
}

impl Places {
    /// Divides the places of `requests` that may run at once on a number of cores.
    pub(crate) fn of(requests: usize, cores: usize, waiting: usize) -> Places {
        let young = (requests / 4).max(1);
        let long = requests.saturating_sub(young).max(1);
        Places {
            young,
            young_of_group: young.div_ceil(2),
            long,
            long_of_group: long.div_ceil(2),
            starting: 2 * cores.max(2),
            waiting,
            waiting_of_group: waiting.div_ceil(4),
        }
    }
}

/// The class of a request that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Young,
    Long,
}

struct Waiting<W> {
    entry: QueueEntry,
    exclusive: Option<Vec<u8>>,
    waiter: W,
}

struct Running<G> {
    group: G,
    class: Class,
    exclusive: Option<Vec<u8>>,
    /// The request is older than a young request may be.
    is_aged: bool,
    /// The request runs for so long that it must end if any group needs its place.
    is_old: bool,
    /// The request was told to end.
    is_ending: bool,
}

/// A request that may start.
struct Candidate<G> {
    /// The order in which groups have their turns: strikes, requests running, last turn.
    order: (bool, usize, u64),
    group: G,
    /// The place of the request in the line of its group.
    at: usize,
    class: Class,
}

struct Group<W> {
    waiting: VecDeque<Waiting<W>>,
    young: usize,
    long: usize,
    /// Running requests that are aged, in either class.
    aged: usize,
    strikes: u32,
    /// The number of the last turn that the group had.
    last_turn: u64,
}

impl<W> Default for Group<W> {
    fn default() -> Self {
        Group {
            waiting: VecDeque::new(),
            young: 0,
            long: 0,
            aged: 0,
            strikes: 0,
            last_turn: 0,
        }
    }
}

impl<W> Group<W> {
    fn running(&self) -> usize {
        self.young + self.long
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running() == 0
    }
}

/// The queue. `G` names a group, `W` is what the caller keeps of a request that waits.
pub(crate) struct FairQueue<G, W> {
    places: Places,
    groups: BTreeMap<G, Group<W>>,
    running: BTreeMap<QueueEntry, Running<G>>,
    /// The exclusive names of the requests that run.
    exclusive: BTreeSet<Vec<u8>>,
    waiting: usize,
    next_entry: QueueEntry,
    turns: u64,
}

impl<G: Ord + Clone, W> FairQueue<G, W> {
    pub(crate) fn new(places: Places) -> Self {
        FairQueue {
            places,
            groups: BTreeMap::new(),
            running: BTreeMap::new(),
            exclusive: BTreeSet::new(),
            waiting: 0,
            next_entry: 0,
            turns: 0,
        }
    }

    /// Adds a request to the queue. Returns `None` if the queue, or the part of it that one group
    /// may fill, is full.
    pub(crate) fn enter(
        &mut self,
        group: G,
        exclusive: Option<Vec<u8>>,
        waiter: W,
    ) -> Option<QueueEntry> {
        let queued = self.groups.get(&group).map_or(0, |own| own.waiting.len());
        if self.waiting >= self.places.waiting || queued >= self.places.waiting_of_group {
            return None;
        }
        let entry = self.next_entry;
        self.next_entry += 1;
        self.waiting += 1;
        let group = self.groups.entry(group).or_default();
        group.waiting.push_back(Waiting {
            entry,
            exclusive,
            waiter,
        });
        Some(entry)
    }

    /// Starts the request whose turn it is. Returns `None` if no request may start now.
    pub(crate) fn start_next(&mut self) -> Option<(QueueEntry, W)> {
        if let Some(started) = self.start_best() {
            return Some(started);
        }
        // Long places that no waiting request can use make young ones free.
        self.move_aged();
        self.start_best()
    }

    fn start_best(&mut self) -> Option<(QueueEntry, W)> {
        let young_total = self.count(Class::Young);
        let long_total = self.count(Class::Long);
        let starting = self.running.values().filter(|one| !one.is_aged).count();
        let mut best: Option<Candidate<G>> = None;
        for (name, group) in &self.groups {
            let reserved = usize::from(group.strikes > 0);
            if starting + reserved >= self.places.starting {
                continue;
            }
            let fits_young = group.strikes == 0
                && young_total < self.places.young
                && group.young < self.places.young_of_group;
            let fits_long = long_total < self.places.long && group.long < self.places.long_of_group;
            let class = match (fits_young, fits_long) {
                (true, _) => Class::Young,
                (false, true) => Class::Long,
                (false, false) => continue,
            };
            let Some(at) = self.first_free(group) else {
                continue;
            };
            let order = (group.strikes > 0, group.running(), group.last_turn);
            if best.as_ref().is_none_or(|best| order < best.order) {
                let group = name.clone();
                best = Some(Candidate {
                    order,
                    group,
                    at,
                    class,
                });
            }
        }
        let best = best?;
        self.start(best.group, best.at, best.class)
    }

    /// Starts the request at a place of the line of a group.
    fn start(&mut self, name: G, at: usize, class: Class) -> Option<(QueueEntry, W)> {
        let group = self.groups.get_mut(&name)?;
        let waiting = group.waiting.remove(at)?;
        self.waiting -= 1;
        self.turns += 1;
        group.last_turn = self.turns;
        match class {
            Class::Young => group.young += 1,
            Class::Long => group.long += 1,
        }
        if let Some(exclusive) = &waiting.exclusive {
            self.exclusive.insert(exclusive.clone());
        }
        let running = Running {
            group: name,
            class,
            exclusive: waiting.exclusive,
            is_aged: false,
            is_old: false,
            is_ending: false,
        };
        self.running.insert(waiting.entry, running);
        Some((waiting.entry, waiting.waiter))
    }

    /// Records that a running request did not end soon. It moves to the long class
    /// as soon as there is a place.
    pub(crate) fn grow_long(&mut self, entry: QueueEntry) {
        let Some(running) = self.running.get_mut(&entry) else {
            return;
        };
        running.is_aged = true;
        if let Some(group) = self.groups.get_mut(&running.group) {
            group.strikes = (group.strikes + 1).min(MAX_STRIKES);
            group.aged += 1;
        }
    }

    /// Records that a running request is old: it may have to end for a group with strikes too.
    pub(crate) fn grow_old(&mut self, entry: QueueEntry) {
        if let Some(running) = self.running.get_mut(&entry) {
            running.is_old = true;
        }
    }

    /// Moves aged requests from young places to free long places.
    fn move_aged(&mut self) {
        let mut long_total = self.count(Class::Long);
        for running in self.running.values_mut() {
            if long_total >= self.places.long {
                return;
            }
            if !running.is_aged || running.class == Class::Long {
                continue;
            }
            if let Some(group) = self.groups.get_mut(&running.group)
                && group.long < self.places.long_of_group
            {
                running.class = Class::Long;
                group.young -= 1;
                group.long += 1;
                long_total += 1;
            }
        }
    }

    /// Chooses an aged request that must end, if a group without strikes waits for its place; or an
    /// old one, if a group with strikes waits and has no aged request.
    pub(crate) fn choose_victim(&mut self) -> Option<QueueEntry> {
        let ending = self.running.values().filter(|one| one.is_ending).count();
        let (mut fresh, mut struck) = (0, 0);
        for group in self.groups.values() {
            if self.first_free(group).is_none() {
                continue;
            }
            if group.strikes == 0 && group.young < self.places.young_of_group {
                fresh += 1;
            } else if group.aged == 0 {
                struck += 1;
            }
        }
        let needs_old = fresh <= ending;
        if fresh + struck <= ending {
            return None;
        }
        // The oldest request of the group with the most aged ones; of equal groups one that holds a
        // young place, because that place is the one that is needed.
        let mut victim: Option<((usize, bool), QueueEntry)> = None;
        for (entry, running) in &self.running {
            let may_end = running.is_aged && (running.is_old || !needs_old);
            if !may_end || running.is_ending {
                continue;
            }
            let aged = self
                .groups
                .get(&running.group)
                .map_or(0, |group| group.aged);
            let rank = (aged, running.class == Class::Young);
            if victim.as_ref().is_none_or(|(first, _)| rank > *first) {
                victim = Some((rank, *entry));
            }
        }
        let (_, entry) = victim?;
        self.running.get_mut(&entry)?.is_ending = true;
        Some(entry)
    }

    /// Returns the place in line of the first request of a group that no other request excludes.
    fn first_free(&self, group: &Group<W>) -> Option<usize> {
        group
            .waiting
            .iter()
            .position(|waiting| match &waiting.exclusive {
                Some(exclusive) => !self.exclusive.contains(exclusive),
                None => true,
            })
    }

    /// Removes a request that has ended, or that does not wait any longer.
    pub(crate) fn leave(&mut self, entry: QueueEntry) {
        if let Some(running) = self.running.remove(&entry) {
            if let Some(exclusive) = &running.exclusive {
                self.exclusive.remove(exclusive);
            }
            if let Some(group) = self.groups.get_mut(&running.group) {
                match running.class {
                    Class::Young => group.young -= 1,
                    Class::Long => group.long -= 1,
                }
                match running.is_aged {
                    true => group.aged -= 1,
                    false => group.strikes /= 2,
                }
            }
        } else {
            for group in self.groups.values_mut() {
                let before = group.waiting.len();
                group.waiting.retain(|waiting| waiting.entry != entry);
                self.waiting -= before - group.waiting.len();
            }
        }
        self.forget_idle_groups();
    }

    /// Forgets the groups without requests, except for some with strikes.
    fn forget_idle_groups(&mut self) {
        self.groups
            .retain(|_, group| group.strikes > 0 || !group.is_idle());
        let idle = self.groups.values().filter(|group| group.is_idle()).count();
        if idle > MAX_IDLE_GROUPS {
            let idle = self.groups.iter().filter(|(_, group)| group.is_idle());
            let oldest = idle.min_by_key(|(_, group)| group.last_turn);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.groups.remove(&name);
            }
        }
    }

    fn count(&self, class: Class) -> usize {
        let requests = self.running.values();
        requests.filter(|running| running.class == class).count()
    }

    /// Returns the numbers of requests that run and that wait.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.running.len(), self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a queue with 2 young and 4 long places.
    fn queue() -> FairQueue<&'static str, ()> {
        FairQueue::new(Places {
            young: 2,
            young_of_group: 1,
            long: 4,
            long_of_group: 2,
            starting: 8,
            waiting: 100,
            waiting_of_group: 10,
        })
    }

    fn enter(queue: &mut FairQueue<&'static str, ()>, group: &'static str) -> QueueEntry {
        queue.enter(group, None, ()).expect("there is room")
    }

    fn start(queue: &mut FairQueue<&'static str, ()>) -> Option<QueueEntry> {
        queue.start_next().map(|(entry, ())| entry)
    }

    #[test]
    fn a_group_that_fills_its_places_leaves_a_place_to_another() {
        let mut queue = queue();
        for _ in 0..10 {
            enter(&mut queue, "greedy");
        }
        // One young place and two long ones are all that one group gets.
        assert_eq!(std::iter::from_fn(|| start(&mut queue)).count(), 3);
        let other = enter(&mut queue, "other");
        assert_eq!(start(&mut queue), Some(other));
        assert!(queue.enter("greedy", None, ()).is_some());
    }

    #[test]
    fn groups_take_turns_and_those_with_fewer_running_come_first() {
        let mut queue = queue();
        let a = enter(&mut queue, "a");
        enter(&mut queue, "a");
        let b = enter(&mut queue, "b");
        assert_eq!(start(&mut queue), Some(a));
        assert_eq!(start(&mut queue), Some(b));
    }

    /// Starts and ages one request of each of these groups.
    fn age_one_of_each(queue: &mut FairQueue<&'static str, ()>, names: &[&'static str]) {
        for name in names {
            let entry = enter(queue, name);
            assert_eq!(start(queue), Some(entry), "{name}");
            queue.grow_long(entry);
            assert_eq!(start(queue), None);
        }
    }

    #[test]
    fn groups_whose_requests_were_long_do_not_take_the_young_places() {
        let mut queue = queue();
        let names = ["h1", "h2", "h3", "h4"];
        age_one_of_each(&mut queue, &names);
        for name in names {
            enter(&mut queue, name);
        }
        assert_eq!(start(&mut queue), None, "all of them have strikes");
        let kind = enter(&mut queue, "kind");
        assert_eq!(start(&mut queue), Some(kind));
        assert_eq!(queue.choose_victim(), None);
    }

    #[test]
    fn an_aged_request_keeps_its_young_place_until_another_group_needs_it() {
        let mut queue = queue();
        age_one_of_each(&mut queue, &["h1", "h2", "h3", "h4", "h5", "h6"]);
        assert_eq!(queue.choose_victim(), None, "no group waits");
        let kind = enter(&mut queue, "kind");
        assert_eq!(start(&mut queue), None);
        // The fifth and the sixth request found no long place.
        assert_eq!(queue.choose_victim(), Some(4));
        assert_eq!(queue.choose_victim(), None, "one is on its way out");
        queue.leave(4);
        assert_eq!(start(&mut queue), Some(kind));
    }

    #[test]
    fn a_group_with_strikes_gets_the_place_of_an_old_request_only() {
        let mut queue = queue();
        age_one_of_each(&mut queue, &["h1", "h2", "h3", "h4", "h5", "h6"]);
        queue.leave(0);
        age_one_of_each(&mut queue, &["h7"]);
        let again = enter(&mut queue, "h1");
        assert_eq!((start(&mut queue), queue.choose_victim()), (None, None));
        queue.grow_old(2);
        assert_eq!(queue.choose_victim(), Some(2));
        queue.leave(2);
        assert_eq!(start(&mut queue), Some(again));
    }

    #[test]
    fn the_group_with_the_most_aged_requests_gives_its_oldest_up() {
        let mut queue = queue();
        age_one_of_each(&mut queue, &["a", "b", "greedy", "greedy", "c", "d"]);
        let kind = enter(&mut queue, "kind");
        assert_eq!(queue.choose_victim(), Some(2));
        // The long place of the victim goes to an aged request, whose young place is free now.
        queue.leave(2);
        assert_eq!(start(&mut queue), Some(kind));
    }

    #[test]
    fn few_requests_start_at_once_and_one_place_is_for_groups_without_strikes() {
        let mut queue = FairQueue::new(Places {
            starting: 2,
            ..queue().places
        });
        age_one_of_each(&mut queue, &["a", "b"]);
        let first = enter(&mut queue, "a");
        enter(&mut queue, "b");
        assert_eq!(start(&mut queue), Some(first));
        assert_eq!(start(&mut queue), None);
        let kind = enter(&mut queue, "kind");
        assert_eq!(start(&mut queue), Some(kind));
    }

    #[test]
    fn requests_with_one_exclusive_name_run_one_after_the_other() {
        let mut queue = queue();
        let key = || Some(b"p1".to_vec());
        let first = queue.enter("a", key(), ()).expect("room");
        let second = queue.enter("a", key(), ()).expect("room");
        let other = queue.enter("a", Some(b"p2".to_vec()), ()).expect("room");
        assert_eq!(start(&mut queue), Some(first));
        assert_eq!(start(&mut queue), Some(other));
        assert_eq!(start(&mut queue), None);
        queue.leave(first);
        assert_eq!(start(&mut queue), Some(second));
    }

    #[test]
    fn strikes_are_forgiven_by_requests_that_end_soon() {
        let mut queue = queue();
        let long = enter(&mut queue, "a");
        start(&mut queue);
        queue.grow_long(long);
        queue.leave(long);
        assert_eq!(queue.groups.len(), 1, "the strike is remembered");
        let short = enter(&mut queue, "a");
        assert_eq!(start(&mut queue), Some(short));
        queue.leave(short);
        assert!(queue.groups.is_empty());
    }

    #[test]
    fn a_full_queue_refuses_and_a_request_that_leaves_makes_room() {
        let mut queue = queue();
        let first = enter(&mut queue, "a");
        for _ in 1..10 {
            enter(&mut queue, "a");
        }
        assert!(queue.enter("a", None, ()).is_none());
        queue.leave(first);
        assert!(queue.enter("a", None, ()).is_some());
        assert_eq!(queue.lengths(), (0, 10));
    }
}
