//! The trace of a world: one line for each event, the last of them kept, and a hash of all.
//!
//! Promise: two runs with equal hashes had, for all practical purposes, the same events. The hash
//! is FNV-1a of 64 bits; it finds differences between runs and resists no attacker.

use std::collections::VecDeque;

/// Lines that a failure shows.
const KEPT: usize = 40;

/// Receives each line of a trace.
pub type Listener = Box<dyn FnMut(&str) + Send>;

/// The trace.
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    last: VecDeque<String>,
    listener: Option<Listener>,
}

impl Trace {
    /// Creates an empty trace.
    pub(crate) fn new(listener: Option<Listener>) -> Trace {
        Trace {
            hash: 0xcbf2_9ce4_8422_2325,
            events: 0,
            last: VecDeque::new(),
            listener,
        }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, line: String) {
        for byte in line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.events += 1;
        if let Some(listener) = &mut self.listener {
            listener(&line);
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    /// Returns the hash of all lines.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the number of lines.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Returns the last lines, the oldest first.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}
