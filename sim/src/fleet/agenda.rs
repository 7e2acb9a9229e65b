//! The events of a fleet in the order of time, and the occupied parts of the machines.
//!
//! A part of a machine does one thing at a time, as a thread does. An event for a part that is
//! occupied, or for a machine that stands still, waits.

use super::connection::Delayed;
use super::machine::Machine;
use super::process::Process;
use super::requests::Call;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A part of a machine that does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The requests, the messages and the background work.
    Main,
    /// The lease.
    Lease,
}

/// Something that will happen.
pub(super) struct Event {
    /// The machine; `None` for what concerns the world.
    pub(super) machine: Option<usize>,
    /// The number of the process; the event is void when that has ended. `None` for any process.
    pub(super) process: Option<u64>,
    pub(super) part: Part,
    pub(super) what: What,
}

/// The kinds of events.
pub(super) enum What {
    /// Work that has waited goes on, on the thread with a number.
    GoesOn(usize),
    /// A client sends a request to the machine.
    Request,
    /// Background work of the machine.
    Work,
    /// A commit arrives at the store that its sender has given up.
    CommitArrives(Box<Delayed>),
    /// Something goes wrong.
    Misfortune,
    /// The definition of the container, or its partitions, change.
    CatalogChange,
    /// A process starts.
    Start,
    /// The process looks at the lease, or renews it.
    Lease,
    /// The process has the lease and opens the data.
    Open,
    /// The process asks the leaseholder for partitions.
    Poll,
    /// The time for the answer to a poll is over.
    PollOver(u64),
    /// The process carries out what a poll did not wait for.
    InBackground(Box<dyn FnOnce() + Send>),
    /// The process ends in order.
    Leave,
    /// A message arrives.
    Arrives(Message),
}

/// A message between nodes.
pub(super) enum Message {
    /// A poll, of a process of a machine, with its number.
    Poll {
        from: usize,
        process: u64,
        number: u64,
        text: String,
    },
    /// The answer to the poll with a number.
    PollAnswer {
        process: u64,
        number: u64,
        text: String,
    },
    /// A recall that has come late. The leaseholder waits for no answer any more.
    Recall(String),
    /// A request whose sender waits for no answer any more.
    Late(Call),
}

impl Event {
    /// Creates an event of the world.
    pub(super) fn of_world(what: What) -> Event {
        Event {
            machine: None,
            process: None,
            part: Part::Main,
            what,
        }
    }

    /// Creates an event of the main part of a machine.
    pub(super) fn of_machine(machine: usize, what: What) -> Event {
        Event {
            machine: Some(machine),
            ..Event::of_world(what)
        }
    }

    /// Returns the process that the event concerns, if it lives.
    pub(super) fn process_in(&self, machines: &[Machine]) -> Option<Arc<Process>> {
        let process = machines[self.machine?].process()?;
        let is_right = self.process.is_none_or(|wanted| wanted == process.number);
        is_right.then_some(process)
    }
}

/// The events to come, and the occupied parts.
#[derive(Default)]
pub(super) struct Agenda {
    /// Events by their time and a number.
    events: BTreeMap<(u64, u64), Event>,
    last_number: u64,
    occupied: BTreeSet<(usize, Part)>,
}

impl Agenda {
    /// Adds an event.
    pub(super) fn add(&mut self, at_ms: u64, event: Event) {
        self.last_number += 1;
        self.events.insert((at_ms, self.last_number), event);
    }

    /// Removes all events.
    pub(super) fn clear(&mut self) {
        self.events.clear();
    }

    /// Returns true if there is an event of a kind.
    pub(super) fn has(&self, is_wanted: impl Fn(&What) -> bool) -> bool {
        self.events.values().any(|event| is_wanted(&event.what))
    }

    /// Removes the events of a kind.
    pub(super) fn remove(&mut self, is_over: impl Fn(&What) -> bool) {
        self.events.retain(|_, event| !is_over(&event.what));
    }

    /// Takes the first event that is due at a time, whose part is not occupied, and that `is_free`.
    /// Its part is occupied from now on.
    pub(super) fn take_due(
        &mut self,
        until_ms: u64,
        is_free: impl Fn(&Event) -> bool,
    ) -> Option<(u64, Event)> {
        let mut due = self.events.range(..(until_ms + 1, 0));
        let occupied = &self.occupied;
        let (key, _) = due.find(|(_, event)| {
            let is_occupied = |machine| occupied.contains(&(machine, event.part));
            let goes_on = matches!(event.what, What::GoesOn(_));
            (goes_on || !event.machine.is_some_and(is_occupied)) && is_free(event)
        })?;
        let key = *key;
        let event = self.events.remove(&key)?;
        if let Some(machine) = event.machine
            && !matches!(event.what, What::GoesOn(_))
        {
            self.occupied.insert((machine, event.part));
        }
        Some((key.0, event))
    }

    /// Occupies a part. Returns false if the part is occupied.
    pub(super) fn occupy(&mut self, actor: (usize, Part)) -> bool {
        self.occupied.insert(actor)
    }

    /// Notes that a part is done.
    pub(super) fn set_free(&mut self, actor: (usize, Part)) {
        self.occupied.remove(&actor);
    }
}
