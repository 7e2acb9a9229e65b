//! What an expression sees while it runs: the chain of frames and the context of the page.

use crate::error::QueryError;
use crate::functions::compiled_regex::RegexCache;
use crate::seams::{Functions, Work};
use crate::value::weight;
use orrery_model::json::Json;

/// A frame and those around it. Frames live on the stack of the loops that make them.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    parent: Option<&'a Scope<'a>>,
    frame: Frame<'a>,
}

#[derive(Clone, Copy)]
enum Frame<'a> {
    Value(Option<&'a Json>),
    Group {
        keys: &'a [Option<Json>],
        aggregates: &'a [Option<Json>],
    },
}

impl<'a> Scope<'a> {
    /// The outermost frame: the item, if the query reads any.
    pub fn root(item: Option<&'a Json>) -> Self {
        Scope {
            parent: None,
            frame: Frame::Value(item),
        }
    }

    pub fn with(&'a self, value: Option<&'a Json>) -> Self {
        Scope {
            parent: Some(self),
            frame: Frame::Value(value),
        }
    }

    pub fn with_group(&'a self, keys: &'a [Option<Json>], aggregates: &'a [Option<Json>]) -> Self {
        Scope {
            parent: Some(self),
            frame: Frame::Group { keys, aggregates },
        }
    }

    fn up(&self, hops: usize) -> Frame<'a> {
        let mut scope = *self;
        for _ in 0..hops {
            match scope.parent {
                Some(parent) => scope = *parent,
                None => return Frame::Value(None),
            }
        }
        scope.frame
    }

    pub fn value(&self, hops: usize) -> Option<&'a Json> {
        match self.up(hops) {
            Frame::Value(value) => value,
            Frame::Group { .. } => None,
        }
    }

    pub fn key(&self, hops: usize, index: usize) -> Option<&'a Json> {
        match self.up(hops) {
            Frame::Group { keys, .. } => keys.get(index)?.as_ref(),
            Frame::Value(_) => None,
        }
    }

    pub fn aggregate(&self, hops: usize, index: usize) -> Option<&'a Json> {
        match self.up(hops) {
            Frame::Group { aggregates, .. } => aggregates.get(index)?.as_ref(),
            Frame::Value(_) => None,
        }
    }
}

/// What lasts for a page: the outside world, and caches.
pub(crate) struct Context<'a> {
    pub functions: &'a mut dyn Functions,
    pub work: &'a mut Work,
    pub now_ms: u64,
    pub started_ms: u64,
    pub random: u64,
    pub regexes: RegexCache,
    /// Spatial functions compute in the plane.
    pub planar: bool,
    pub expired: &'a mut dyn FnMut() -> bool,
    /// Work done inside items, to look at the clock every so much: turns of loops, operators, bytes gone through.
    turns: u64,
    next_look: u64,
    /// The turns at which the time was found to be over.
    late_since: Option<u64>,
    /// Turns for which an item may go on when the time is over, so that the place behind it can be kept.
    pub grace: u64,
    /// Bytes that one item, or all groups together, may make.
    pub max_memory: usize,
    /// Bytes that are made for the item at hand and still held. Whoever drops what it made takes it off again.
    pub held_bytes: usize,
    /// The number of the item at hand.
    pub item: Option<u64>,
}

/// Turns between two looks at the clock: a millisecond, roughly.
const CLOCK_EVERY: u64 = 4096;
/// Bytes that are gone through in the time of one turn.
const BYTES_A_TURN: usize = 256;

impl<'a> Context<'a> {
    /// A context at the beginning of time, with the seed 0.
    pub fn new(
        functions: &'a mut dyn Functions,
        work: &'a mut Work,
        expired: &'a mut dyn FnMut() -> bool,
        max_memory: usize,
    ) -> Self {
        Context {
            functions,
            work,
            now_ms: 0,
            started_ms: 0,
            random: 0,
            regexes: Default::default(),
            planar: false,
            expired,
            turns: 0,
            next_look: CLOCK_EVERY,
            late_since: None,
            grace: 0,
            max_memory,
            held_bytes: 0,
            item: None,
        }
    }
}

impl Context<'_> {
    /// Counts a turn of a loop inside an item, which may be long: joins multiply.
    pub fn count_iteration(&mut self) -> Result<(), QueryError> {
        self.count_iterations(1)
    }

    /// Counts several turns at once.
    pub fn count_iterations(&mut self, turns: u64) -> Result<(), QueryError> {
        self.turns = self.turns.saturating_add(turns);
        if self.turns < self.next_look {
            return Ok(());
        }
        self.next_look = self.turns.saturating_add(CLOCK_EVERY);
        if self.late_since.is_none() && (self.expired)() {
            self.late_since = Some(self.turns);
        }
        match self.late_since {
            Some(since) if self.turns - since >= self.grace => Err(QueryError::Timeout),
            _ => Ok(()),
        }
    }

    /// Counts bytes that are gone through or copied.
    pub fn count_bytes(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.count_iterations((bytes / BYTES_A_TURN) as u64)
    }

    /// Whether the clock should be looked at before the next item, lest that be done amid it.
    pub fn is_clock_check_due(&self) -> bool {
        self.turns.saturating_add(CLOCK_EVERY / 2) >= self.next_look
    }

    /// Whether the time is over, looked at between items.
    pub fn is_expired(&mut self) -> bool {
        self.next_look = self.turns.saturating_add(CLOCK_EVERY);
        self.late_since.is_some() || (self.expired)()
    }

    /// Counts a value that is gone through from one end to the other.
    pub fn count_value_read(&mut self, value: &Json) -> Result<(), QueryError> {
        match value {
            Json::String(_) | Json::Array(_) | Json::Object(_) => self.count_bytes(weight(value)),
            _ => Ok(()),
        }
    }

    /// Counts a value that is made, or about to be copied into another, and looks at the clock for large ones.
    pub fn count_value_made(&mut self, value: &Json) -> Result<(), QueryError> {
        let bytes = weight(value);
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.count_bytes(bytes)?;
        self.check_memory(self.held_bytes)
    }

    /// Refuses to hold more than the bounds allow.
    pub fn check_memory(&self, bytes: usize) -> Result<(), QueryError> {
        if bytes > self.max_memory {
            return Err(QueryError::Memory(
                "The query collects more than fits into its memory.".into(),
            ));
        }
        Ok(())
    }

    /// The next of the row of random numbers in [0, 1) that the seed begins (splitmix64).
    pub fn next_random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
