//! Grants: the leaseholder lets other nodes own single partitions for a short time.
//!
//! ```text
//! owner                                leaseholder
//!   │── poll: what it owns ──────────────▶│ round + 1
//!   │◀─ answer: round, time, grants ──────│ a grant holds until `until_ms` of its clock
//!   │◀─ recall: round, partitions ────────│ round + 1
//!   │── everything is durable ───────────▶│ it owns the partitions
//! ```
//!
//! An owner counts the time of an answer from before it sent the poll, and the leaseholder counts
//! the same time and [`MARGIN`] from after it made the answer. A recall that gets no answer ends
//! when the grant has expired by the leaseholder's clock.
//!
//! Answers and recalls have ascending numbers, the *rounds*, and the *term* of their leaseholder,
//! which is higher than that of every leaseholder before. An owner ignores an answer that was made
//! before a recall which it has followed, and every message of an earlier term: such an answer may
//! list what was recalled.
//!
//! Promise: at no moment do two processes own a partition, as long as their clocks differ by less
//! than the margin in speed, messages being late, lost, or in another order. Left out: the
//! network, and the state that an owner goes on with (`T` here).

use std::collections::BTreeMap;

/// The fifth of a time by which the leaseholder waits longer than an owner counts.
const MARGIN: u64 = 5;
/// The end of a grant that is over; 0 is that of a grant of which no owner has heard.
const EXPIRED_MS: u64 = 1;
/// The most partitions of one recall: the answer has some kilobytes for each.
const RECALLED_AT_ONCE: usize = 200;

/// The partitions that the leaseholder has given to other nodes.
#[derive(Debug)]
pub struct Given<T> {
    round: u64,
    grants: BTreeMap<u64, Grant<T>>,
}

/// One partition in the hands of an owner.
#[derive(Debug)]
struct Grant<T> {
    owner: Owner,
    /// The round in which the grant was made: no other grant of the term has it.
    id: u64,
    /// Milliseconds of the leaseholder's monotonic clock, after which the owner owns nothing.
    until_ms: u64,
    /// There once the leaseholder has given the partition up; the owner is told then.
    terms: Option<T>,
    /// The leaseholder takes the partition back, so no answer lists it any more.
    is_recalled: bool,
}

/// A process that owns partitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The random number of the process.
    pub process: u64,
    /// The address at which other nodes reach the process.
    pub address: String,
}

/// The answer to a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The number of the answer.
    pub round: u64,
    /// Partition, id of the grant, and the terms.
    pub grants: Vec<(u64, u64, T)>,
}

/// A demand to give partitions back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// The process that owns the partitions.
    pub owner: Owner,
    /// The number of the recall.
    pub round: u64,
    /// The partitions with the ids of their grants.
    pub partitions: Vec<(u64, u64)>,
    /// Milliseconds of the leaseholder's monotonic clock, after which the owner owns none of them.
    pub until_ms: u64,
}

impl<T> Default for Given<T> {
    fn default() -> Self {
        Given {
            round: 0,
            grants: BTreeMap::new(),
        }
    }
}

impl<T: Clone> Given<T> {
    /// Returns true if the leaseholder itself owns a partition.
    pub fn is_owned_here(&self, partition: u64) -> bool {
        !self.grants.contains_key(&partition)
    }

    /// Returns the owner of a partition, if the leaseholder does not own it itself.
    pub fn owner(&self, partition: u64) -> Option<&Owner> {
        Some(&self.grants.get(&partition)?.owner)
    }

    /// Returns true if a grant, of a partition with an id, has not ended.
    pub fn has(&self, (partition, id): (u64, u64)) -> bool {
        let grant = self.grants.get(&partition);
        grant.is_some_and(|grant| grant.id == id)
    }

    /// Returns true if a process owns a partition.
    pub fn is_owned_by(&self, partition: u64, process: u64) -> bool {
        let owner = self.owner(partition);
        owner.is_some_and(|owner| owner.process == process)
    }

    /// Returns all partitions of other owners.
    pub fn owners(&self) -> impl Iterator<Item = (u64, &Owner)> {
        self.grants.iter().map(|(id, grant)| (*id, &grant.owner))
    }

    /// Returns the number of partitions of other owners.
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Returns true if the leaseholder owns all partitions.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Makes another process the owner of a partition of the leaseholder. Returns the id of the
    /// grant.
    pub fn begin(&mut self, partition: u64, owner: Owner) -> u64 {
        self.round += 1;
        let grant = Grant {
            owner,
            id: self.round,
            // The owner has not heard of the grant.
            until_ms: 0,
            terms: None,
            is_recalled: false,
        };
        self.grants.insert(partition, grant);
        self.round
    }

    /// Sets the terms of a grant, of which the owner hears from now on. Does nothing if the grant
    /// has ended meanwhile.
    pub fn set_terms(&mut self, partition: u64, id: u64, terms: T) {
        if let Some(grant) = self.grants.get_mut(&partition)
            && grant.id == id
        {
            grant.terms = Some(terms);
        }
    }

    /// Answers a poll of a process: lists its partitions, which it owns for `valid_ms` from the
    /// moment before it sent the poll.
    pub fn answer(&mut self, process: u64, now_ms: u64, valid_ms: u64) -> Answer<T> {
        self.round += 1;
        let mut grants = Vec::new();
        for (partition, grant) in &mut self.grants {
            if grant.owner.process != process || grant.is_recalled {
                continue;
            }
            if let Some(terms) = &grant.terms {
                let until_ms = now_ms.saturating_add(valid_ms + valid_ms / MARGIN + 1);
                // An answer with less time does not end the time of the one before.
                grant.until_ms = grant.until_ms.max(until_ms);
                grants.push((*partition, grant.id, terms.clone()));
            }
        }
        Answer {
            round: self.round,
            grants,
        }
    }

    /// Returns the recalls by which the leaseholder takes partitions back: `None` for all. Grants
    /// of which no owner has heard end at once.
    pub fn recall(&mut self, partition: Option<u64>) -> Vec<Recall> {
        self.round += 1;
        let is_wanted = |id: u64| partition.is_none_or(|wanted| wanted == id);
        self.grants
            .retain(|id, grant| !is_wanted(*id) || grant.until_ms > 0);
        let mut recalls: BTreeMap<Owner, Vec<Recall>> = BTreeMap::new();
        for (id, grant) in self.grants.iter_mut().filter(|(id, _)| is_wanted(**id)) {
            grant.is_recalled = true;
            let of_owner = recalls.entry(grant.owner.clone()).or_default();
            if of_owner
                .last()
                .is_none_or(|recall| recall.partitions.len() >= RECALLED_AT_ONCE)
            {
                of_owner.push(Recall {
                    owner: grant.owner.clone(),
                    round: self.round,
                    partitions: Vec::new(),
                    until_ms: 0,
                });
            }
            if let Some(recall) = of_owner.last_mut() {
                recall.partitions.push((*id, grant.id));
                recall.until_ms = recall.until_ms.max(grant.until_ms);
            }
        }
        recalls.into_values().flatten().collect()
    }

    /// Ends grants that an owner has given back, or that have expired. Grants with other ids stay.
    /// Returns the partitions that the leaseholder owns again.
    pub fn end(&mut self, partitions: &[(u64, u64)]) -> Vec<u64> {
        let mut ended = Vec::new();
        for (partition, id) in partitions {
            if self
                .grants
                .get(partition)
                .is_some_and(|grant| grant.id == *id)
            {
                self.grants.remove(partition);
                ended.push(*partition);
            }
        }
        ended
    }

    /// Notes that the owner of a grant owns the partition no longer. The grant has expired, and
    /// stays until [`Given::end`]: commits of the owner may be on their way.
    pub fn expire(&mut self, (partition, id): (u64, u64)) {
        if let Some(grant) = self.grants.get_mut(&partition)
            && grant.id == id
        {
            grant.is_recalled = true;
            grant.until_ms = EXPIRED_MS;
        }
    }

    /// Returns true if another process owns a partition and was silent for so long that it owns
    /// nothing any more.
    pub fn is_expired(&self, partition: u64, now_ms: u64) -> bool {
        let grant = self.grants.get(&partition);
        grant.is_some_and(|grant| grant.until_ms > 0 && grant.until_ms < now_ms)
    }

    /// Returns the grants whose owners were silent for so long that they own nothing any more.
    pub fn expired(&self, now_ms: u64) -> Vec<(u64, u64)> {
        let told = self.grants.iter().filter(|(_, grant)| grant.until_ms > 0);
        let expired = told.filter(|(_, grant)| grant.until_ms < now_ms);
        expired
            .map(|(partition, grant)| (*partition, grant.id))
            .collect()
    }
}

/// The partitions that a process owns, without the time until which it does.
#[derive(Debug, Default)]
pub struct Owned {
    /// The term of the leaseholder that has given the partitions; 0 before the first message.
    term: u64,
    /// The highest round of that leaseholder.
    round: u64,
    /// Partitions with the ids of their grants.
    partitions: BTreeMap<u64, u64>,
    /// Grants that this process has given back, and does not take again.
    given_back: BTreeMap<u64, u64>,
}

/// The changes of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Partitions that this process owns no longer.
    pub lost: Vec<u64>,
    /// Partitions that this process may take over, with the ids of their grants.
    pub gained: Vec<(u64, u64)>,
}

impl Owned {
    /// Returns the term of the leaseholder that has made the grants; 0 before the first message.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Returns the partitions with the ids of their grants.
    pub fn partitions(&self) -> &BTreeMap<u64, u64> {
        &self.partitions
    }

    /// Returns the grants that this process has given back by itself.
    pub fn given_back(&self) -> &BTreeMap<u64, u64> {
        &self.given_back
    }

    /// Takes the answer of the leaseholder of a term in, which lists partitions with the ids of
    /// their grants. Returns `None` for an answer that a later message has overtaken: it counts for
    /// nothing, and its time does not either. The caller gives up what is lost before it extends
    /// its time, and calls [`Owned::take`] for each gained partition that it has taken over.
    pub fn apply(&mut self, term: u64, round: u64, listed: &[(u64, u64)]) -> Option<Changes> {
        if term < self.term || (term == self.term && round <= self.round) {
            return None;
        }
        let mut lost = self.begin_term(term);
        self.round = round;
        let listed: BTreeMap<u64, u64> = listed.iter().copied().collect();
        // A grant that is not listed has ended, or is being recalled and will not be listed again.
        self.given_back
            .retain(|partition, id| listed.get(partition) == Some(id));
        self.partitions.retain(|partition, id| {
            let stays = listed.get(partition) == Some(id);
            if !stays {
                lost.push(*partition);
            }
            stays
        });
        let is_new = |(partition, id): &(u64, u64)| {
            !self.partitions.contains_key(partition) && self.given_back.get(partition) != Some(id)
        };
        let gained = listed.into_iter().filter(is_new).collect();
        Some(Changes { lost, gained })
    }

    /// Notes that a gained partition was taken over.
    pub fn take(&mut self, partition: u64, id: u64) {
        self.partitions.insert(partition, id);
    }

    /// Follows a recall. Returns the partitions to be given back, or `None` for a recall of an
    /// earlier leaseholder, which counts for nothing.
    pub fn recall(&mut self, term: u64, round: u64, partitions: &[(u64, u64)]) -> Option<Vec<u64>> {
        if term < self.term {
            return None;
        }
        let mut lost = self.begin_term(term);
        self.round = self.round.max(round);
        for (partition, id) in partitions {
            if self.partitions.get(partition) == Some(id) {
                self.partitions.remove(partition);
                lost.push(*partition);
            }
            // An answer from before the recall may still come.
            self.given_back.insert(*partition, *id);
        }
        Some(lost)
    }

    /// Begins the term of a later leaseholder, which knows nothing of the grants before. Returns
    /// the partitions of these.
    fn begin_term(&mut self, term: u64) -> Vec<u64> {
        if term == self.term {
            return Vec::new();
        }
        let before = std::mem::replace(
            self,
            Owned {
                term,
                ..Owned::default()
            },
        );
        before.partitions.into_keys().collect()
    }

    /// Gives a partition back that the leaseholder did not recall. Its grant is not taken a second
    /// time.
    pub fn give_back(&mut self, partition: u64) {
        if let Some(id) = self.partitions.remove(&partition) {
            self.given_back.insert(partition, id);
        }
    }

    /// Notes that a gained partition could not be taken over.
    pub fn refuse(&mut self, partition: u64, id: u64) {
        self.given_back.insert(partition, id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::world::{SeededWorld, World};

    const PARTITIONS: u64 = 3;
    const VALID_MS: u64 = 300;

    fn owner(process: u64) -> Owner {
        Owner {
            process,
            address: format!("http://n{process}"),
        }
    }

    /// A process that owns what the leaseholder grants, with a clock of its own.
    #[derive(Default)]
    struct Node {
        owned: Owned,
        until_ms: u64,
    }

    impl Node {
        fn owns(&self, partition: u64, now_ms: u64) -> bool {
            now_ms < self.until_ms && self.owned.partitions().contains_key(&partition)
        }
    }

    /// A message on its way.
    enum Message {
        /// The answer to a poll of a node, which the node sent at a time of its own clock.
        Answer(usize, u64, Answer<()>),
        Recall(usize, Recall),
        /// The partitions that a node has given back.
        Back(Vec<(u64, u64)>),
    }

    /// A leaseholder and two nodes, whose clocks differ by a tenth in speed. Messages are late,
    /// lost and in another order.
    struct Fleet {
        world: SeededWorld,
        given: Given<()>,
        nodes: [Node; 2],
        messages: Vec<Message>,
        /// Tenths of milliseconds of real time.
        time: u64,
        /// The most partitions that other processes owned, and the partitions that changed hands.
        moved: u64,
    }

    impl Fleet {
        /// The clock of a process: the leaseholder's is right, the others are fast and slow.
        fn clock(&self, process: usize) -> u64 {
            self.time * [100, 109, 92][process] / 1_000 + 1_000 * process as u64
        }

        fn random(&self, below: u64) -> u64 {
            self.world.random() % below
        }

        fn step(&mut self) {
            self.time += self.random(200);
            let (leaseholder_ms, node) = (self.clock(0), self.random(2) as usize);
            match self.random(8) {
                // A node polls; the answer is made a moment later.
                0..=2 => {
                    let sent_ms = self.clock(node + 1);
                    self.time += self.random(300);
                    let leaseholder_ms = self.clock(0);
                    let valid_ms = VALID_MS - self.random(VALID_MS / 2);
                    let answer = self.given.answer(node as u64, leaseholder_ms, valid_ms);
                    let until = sent_ms + valid_ms;
                    self.messages.push(Message::Answer(node, until, answer));
                }
                3 => {
                    let partition = self.random(PARTITIONS);
                    if self.given.is_owned_here(partition) {
                        let id = self.given.begin(partition, owner(node as u64));
                        self.given.set_terms(partition, id, ());
                    }
                }
                4 => {
                    let one = self.random(PARTITIONS + 1);
                    let wanted = (one < PARTITIONS).then_some(one);
                    for recall in self.given.recall(wanted) {
                        let node = recall.owner.process as usize;
                        self.messages.push(Message::Recall(node, recall));
                    }
                }
                5 => {
                    let expired = self.given.expired(leaseholder_ms);
                    self.given.end(&expired);
                }
                6 => {
                    if let Some(partition) = self.nodes[node].owned.partitions().keys().next() {
                        let partition = *partition;
                        self.nodes[node].owned.give_back(partition);
                        let back = self.nodes[node].owned.given_back();
                        let back = back.iter().map(|(p, id)| (*p, *id)).collect();
                        self.messages.push(Message::Back(back));
                    }
                }
                _ => self.deliver(),
            }
        }

        /// Delivers or loses one message, in any order.
        fn deliver(&mut self) {
            if self.messages.is_empty() {
                return;
            }
            let at = self.random(self.messages.len() as u64) as usize;
            let message = self.messages.swap_remove(at);
            if self.random(5) == 0 {
                return;
            }
            match message {
                Message::Answer(node, until_ms, answer) => {
                    let listed: Vec<_> =
                        answer.grants.iter().map(|(p, id, ())| (*p, *id)).collect();
                    let node = &mut self.nodes[node];
                    if let Some(changes) = node.owned.apply(1, answer.round, &listed) {
                        node.until_ms = node.until_ms.max(until_ms);
                        for (partition, id) in changes.gained {
                            node.owned.take(partition, id);
                            self.moved += 1;
                        }
                    }
                }
                Message::Recall(node, recall) => {
                    let owned = &mut self.nodes[node].owned;
                    owned.recall(1, recall.round, &recall.partitions);
                    self.messages.push(Message::Back(recall.partitions));
                }
                Message::Back(partitions) => {
                    self.given.end(&partitions);
                }
            }
        }

        fn check(&self) {
            for partition in 0..PARTITIONS {
                let mut owners = usize::from(self.given.is_owned_here(partition));
                for (at, node) in self.nodes.iter().enumerate() {
                    owners += usize::from(node.owns(partition, self.clock(at + 1)));
                }
                assert!(owners <= 1, "{owners} processes own partition {partition}");
            }
        }
    }

    #[test]
    fn no_partition_has_two_owners_whatever_becomes_of_the_messages() {
        let mut moved = 0;
        for seed in 0..200 {
            let mut fleet = Fleet {
                world: SeededWorld::new(1_000_000, seed),
                given: Given::default(),
                nodes: Default::default(),
                messages: Vec::new(),
                time: 0,
                moved: 0,
            };
            for _ in 0..1_000 {
                fleet.step();
                fleet.check();
            }
            moved += fleet.moved;
        }
        assert!(moved > 1_500, "partitions change hands: {moved}");
    }

    #[test]
    fn an_answer_that_was_made_before_a_recall_counts_for_nothing() {
        let mut given: Given<()> = Given::default();
        let id = given.begin(7, owner(0));
        assert!(given.answer(0, 0, 100).grants.is_empty(), "no terms yet");
        given.set_terms(7, id, ());
        let answer = given.answer(0, 0, 100);
        let recalls = given.recall(Some(7));
        let mut owned = Owned::default();
        assert!(owned.apply(1, answer.round, &[]).is_some());
        let lost = owned.recall(1, recalls[0].round, &[(7, id)]);
        assert_eq!(lost, Some(Vec::new()));
        assert_eq!(owned.apply(1, answer.round, &[(7, id)]), None);
    }

    #[test]
    fn a_grant_that_was_given_back_is_not_taken_again() {
        let mut owned = Owned::default();
        let changes = owned.apply(1, 2, &[(7, 1)]).expect("a new answer");
        assert_eq!(changes.gained, [(7, 1)]);
        owned.take(7, 1);
        owned.give_back(7);
        let changes = owned.apply(1, 3, &[(7, 1)]).expect("a new answer");
        assert_eq!(changes, Changes::default());
        let changes = owned.apply(1, 4, &[(7, 3)]).expect("a new answer");
        assert_eq!(changes.gained, [(7, 3)], "another grant");
        // Another leaseholder knows nothing of the grants before.
        owned.take(7, 3);
        let changes = owned.apply(2, 1, &[]).expect("a new answer");
        assert_eq!(changes.lost, [7]);
        assert_eq!(owned.apply(1, 9, &[(7, 8)]), None, "the leaseholder before");
    }

    #[test]
    fn a_grant_that_was_never_told_ends_at_once() {
        let mut given: Given<()> = Given::default();
        let id = given.begin(7, owner(0));
        assert!(!given.is_owned_here(7));
        assert!(given.recall(None).is_empty());
        assert!(given.is_owned_here(7));
        given.set_terms(7, id, ());
        assert!(given.is_owned_here(7), "the grant has ended");
    }

    #[test]
    fn a_grant_that_its_owner_gave_up_unsettled_has_expired_but_not_ended() {
        let mut given: Given<()> = Given::default();
        let id = given.begin(7, owner(0));
        given.set_terms(7, id, ());
        given.answer(0, 1_000, 100);
        assert!(given.expired(1_010).is_empty());
        given.expire((7, id + 1));
        assert!(given.expired(1_010).is_empty(), "another grant");
        given.expire((7, id));
        assert_eq!(given.expired(1_010), [(7, id)]);
        assert!(!given.is_owned_here(7), "a commit may be on its way");
        assert!(given.answer(0, 1_010, 100).grants.is_empty());
        assert_eq!(given.expired(1_010), [(7, id)], "no answer extends it");
        assert_eq!(given.end(&[(7, id)]), [7]);
    }

    #[test]
    fn a_recall_that_overtakes_the_first_answer_of_a_leaseholder_counts() {
        let mut given: Given<()> = Given::default();
        let id = given.begin(7, owner(0));
        given.set_terms(7, id, ());
        let answer = given.answer(0, 0, 100);
        let recall = given.recall(Some(7)).remove(0);
        let mut owned = Owned::default();
        owned.recall(1, recall.round, &recall.partitions);
        given.end(&recall.partitions);
        assert!(given.is_owned_here(7));
        assert_eq!(owned.apply(1, answer.round, &[(7, id)]), None);
    }

    #[test]
    fn a_late_answer_of_the_leaseholder_before_counts_for_nothing() {
        let mut owned = Owned::default();
        assert!(owned.apply(1, 5, &[(7, 1)]).is_some());
        owned.take(7, 1);
        assert_eq!(owned.recall(1, 6, &[(7, 1)]), Some(vec![7]));
        // The next leaseholder has answered since.
        assert!(owned.apply(2, 1, &[]).is_some());
        assert_eq!(owned.apply(1, 5, &[(7, 1)]), None);
        assert_eq!(owned.recall(1, 6, &[(7, 1)]), None);
    }
}
