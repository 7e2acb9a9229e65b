//! The agenda: which containers have background work, and when.
//!
//! Work is entered where it arises: a commit that writes an item with a time to live enters the
//! second in which the item expires, a deletion by partition key enters the present. Callers wait
//! for the earliest time of a task and then run it, so a container without work costs nothing,
//! however many containers there are.
//!
//! Promise: no work is forgotten. A commit enters its work while the writer of its partition is
//! locked; a visit of a container takes the entry away first and then looks at everything that the
//! writers have accepted ([`crate::partition::Partition::snapshot_of_accepted`]). So the visit
//! sees the commit, or the entry follows the visit.
//!
//! The agenda is kept in memory only. After a start the survey visits every container once
//! (`survey.rs`) and finds what was left to do.

use crate::container::tasks::BackgroundTask;
use orrery_model::Rid;
use orrery_model::sync::lock;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, OnceLock};

/// The object of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A container.
    Container(Rid),
    /// The key spaces that no container uses any more.
    Orphans,
    /// The splits and merges that are under way.
    RangeChanges,
    /// The containers that were not visited since the start.
    Unvisited,
}

type Listener = Box<dyn Fn(BackgroundTask) + Send + Sync>;

/// The work of all tasks.
#[derive(Default)]
pub(crate) struct Agenda {
    entries: [Mutex<Entries>; BackgroundTask::ALL.len()],
    listener: OnceLock<Listener>,
}

/// The work of one task. A subject has one entry at most: that of its earliest work.
#[derive(Default)]
struct Entries {
    by_time: BTreeSet<(u64, Subject)>,
    times: HashMap<Subject, u64>,
}

impl Agenda {
    /// Sets the function that is called when the earliest time of a task moves forward. Only the
    /// first call has an effect.
    pub(crate) fn set_listener(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// Calls the listener for a task.
    pub(crate) fn wake(&self, task: BackgroundTask) {
        if let Some(listener) = self.listener.get() {
            listener(task);
        }
    }

    /// Enters work that is to be done at a millisecond. Work of the same subject that is entered
    /// for an earlier time stays as it is.
    pub(crate) fn enter(&self, task: BackgroundTask, subject: Subject, at_ms: u64) {
        if self.of(task).enter(subject, at_ms) {
            self.wake(task);
        }
    }

    /// Returns the earliest time of a task, or `None` if there is no work.
    pub(crate) fn next(&self, task: BackgroundTask) -> Option<u64> {
        self.of(task).by_time.first().map(|(at_ms, _)| *at_ms)
    }

    /// Takes the earliest work of a task away, if its time has come.
    pub(crate) fn take_due(&self, task: BackgroundTask, now_ms: u64) -> Option<Subject> {
        let mut entries = self.of(task);
        let (at_ms, subject) = entries.by_time.first().copied()?;
        if at_ms > now_ms {
            return None;
        }
        entries.by_time.remove(&(at_ms, subject));
        entries.times.remove(&subject);
        Some(subject)
    }

    fn of(&self, task: BackgroundTask) -> std::sync::MutexGuard<'_, Entries> {
        lock(&self.entries[task as usize])
    }
}

impl Entries {
    /// Enters work. Returns true if the earliest time moved forward.
    fn enter(&mut self, subject: Subject, at_ms: u64) -> bool {
        let earliest = self.by_time.first().map(|(at_ms, _)| *at_ms);
        match self.times.get(&subject) {
            Some(entered) if *entered <= at_ms => return false,
            Some(entered) => _ = self.by_time.remove(&(*entered, subject)),
            None => {}
        }
        self.times.insert(subject, at_ms);
        self.by_time.insert((at_ms, subject));
        earliest.is_none_or(|earliest| at_ms < earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TASK: BackgroundTask = BackgroundTask::Removal;

    fn subject(number: u32) -> Subject {
        Subject::Container(Rid::container(Rid::database(1), number))
    }

    #[test]
    fn work_is_due_in_the_order_of_its_times_and_once_for_each_subject() {
        let agenda = Agenda::default();
        for (number, at_ms) in [(1, 30), (2, 10), (1, 20), (2, 40)] {
            agenda.enter(TASK, subject(number), at_ms);
        }
        assert_eq!(agenda.next(TASK), Some(10));
        assert_eq!(agenda.take_due(TASK, 9), None);
        assert_eq!(agenda.take_due(TASK, 10), Some(subject(2)));
        assert_eq!(agenda.take_due(TASK, 50), Some(subject(1)));
        assert_eq!(agenda.take_due(TASK, 50), None);
        assert_eq!(agenda.next(BackgroundTask::Splits), None);
    }

    #[test]
    fn the_listener_hears_of_earlier_work_only() {
        let agenda = Agenda::default();
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        agenda.set_listener(Box::new(move |_| {
            _ = counter.fetch_add(1, Ordering::SeqCst)
        }));
        for (number, at_ms, heard) in [(1, 30, 1), (2, 40, 1), (2, 30, 1), (3, 20, 2)] {
            agenda.enter(TASK, subject(number), at_ms);
            assert_eq!(calls.load(Ordering::SeqCst), heard, "{number}");
        }
    }
}
