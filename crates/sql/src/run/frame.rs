//! What an expression sees while it runs: the chain of frames and the context of the page.

use crate::error::QueryError;
use crate::functions::pattern::RegexCache;
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
    Group { keys: &'a [Option<Json>], aggregates: &'a [Option<Json>] },
}

impl<'a> Scope<'a> {
    /// The outermost frame: the item, if the query reads any.
    pub fn root(item: Option<&'a Json>) -> Self {
        Scope { parent: None, frame: Frame::Value(item) }
    }

    pub fn with(&'a self, value: Option<&'a Json>) -> Self {
        Scope { parent: Some(self), frame: Frame::Value(value) }
    }

    pub fn with_group(&'a self, keys: &'a [Option<Json>], aggregates: &'a [Option<Json>]) -> Self {
        Scope { parent: Some(self), frame: Frame::Group { keys, aggregates } }
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
    /// Turns of the loops inside items, to look at the clock every so many.
    pub turns: u64,
    /// Bytes that one item, or all groups together, may make.
    pub max_memory: usize,
    /// Bytes made for the item at hand.
    pub made: usize,
}

/// Turns between two looks at the clock.
const CLOCK_EVERY: u64 = 4096;

impl Context<'_> {
    /// Counts a turn of a loop inside an item, which may be long: joins multiply.
    pub fn turn(&mut self) -> Result<(), QueryError> {
        self.turns += 1;
        if self.turns.is_multiple_of(CLOCK_EVERY) && (self.expired)() {
            return Err(QueryError::Timeout);
        }
        Ok(())
    }

    /// Counts a value that is about to be copied into another.
    pub fn make(&mut self, value: &Json) -> Result<(), QueryError> {
        self.made = self.made.saturating_add(weight(value));
        self.fits(self.made)
    }

    /// Refuses to hold more than the bounds allow.
    pub fn fits(&self, bytes: usize) -> Result<(), QueryError> {
        if bytes > self.max_memory {
            return Err(QueryError::Memory("The query collects more than fits into its memory.".into()));
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
