//! The environment of an expression while it runs: a chain of frames, and the context of the page.
//!
//! The [`Context`] enforces two limits of a page:
//! - Time. Loops and large values are counted in iterations, and every [`CLOCK_INTERVAL`] of them
//!   the clock is read. [`QueryError::Timeout`] ends the query, see [`Context::count_iterations`].
//! - Memory. Values that are made for the current item are counted in [`Context::held_bytes`].
//!   [`QueryError::Memory`] ends the query, see [`Context::check_memory`].

use super::stopwatch::Stopwatch;
use crate::error::QueryError;
use crate::functions::compiled_regex::RegexCache;
use crate::seams::{Functions, Work};
use crate::value::weight;
use orrery_model::json::Json;

/// A frame and its enclosing frames. Frames live on the stack of the loops that make them.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    parent: Option<&'a Scope<'a>>,
    frame: Frame<'a>,
}

#[derive(Clone, Copy)]
enum Frame<'a> {
    /// The item, an element of an array, or the value of a subquery or of LET.
    Value(Option<&'a Json>),
    /// A group of GROUP BY, or of an aggregate without GROUP BY.
    Group {
        keys: &'a [Option<Json>],
        aggregates: &'a [Option<Json>],
    },
}

impl<'a> Scope<'a> {
    /// Creates the outermost frame: the item, if the query reads any.
    pub(crate) fn root(item: Option<&'a Json>) -> Self {
        Scope {
            parent: None,
            frame: Frame::Value(item),
        }
    }

    /// Returns the scope with one more frame that holds a value.
    pub(crate) fn with_value(&'a self, value: Option<&'a Json>) -> Self {
        Scope {
            parent: Some(self),
            frame: Frame::Value(value),
        }
    }

    /// Returns the scope with one more frame that holds a group.
    pub(crate) fn with_group(
        &'a self,
        keys: &'a [Option<Json>],
        aggregates: &'a [Option<Json>],
    ) -> Self {
        Scope {
            parent: Some(self),
            frame: Frame::Group { keys, aggregates },
        }
    }

    /// Returns the frame that is `hops` frames further out.
    fn frame_at(&self, hops: usize) -> Frame<'a> {
        let mut scope = *self;
        for _ in 0..hops {
            match scope.parent {
                Some(parent) => scope = *parent,
                None => return Frame::Value(None),
            }
        }
        scope.frame
    }

    /// Returns the value of the frame that is `hops` frames further out.
    pub(crate) fn value(&self, hops: usize) -> Option<&'a Json> {
        match self.frame_at(hops) {
            Frame::Value(value) => value,
            Frame::Group { .. } => None,
        }
    }

    /// Returns a key of the group that is `hops` frames further out.
    pub(crate) fn group_key(&self, hops: usize, index: usize) -> Option<&'a Json> {
        match self.frame_at(hops) {
            Frame::Group { keys, .. } => keys.get(index)?.as_ref(),
            Frame::Value(_) => None,
        }
    }

    /// Returns an aggregate of the group that is `hops` frames further out.
    pub(crate) fn aggregate(&self, hops: usize, index: usize) -> Option<&'a Json> {
        match self.frame_at(hops) {
            Frame::Group { aggregates, .. } => aggregates.get(index)?.as_ref(),
            Frame::Value(_) => None,
        }
    }
}

/// Iterations as which a call of a user-defined function counts: so the clock is read at each call,
/// and the last item of an aggregate may make 64 calls after the time is over.
const CALL_ITERATIONS: u64 = 1 << 14;

/// The state of one page: its limits, its inputs besides the items, and caches.
pub(crate) struct Context<'a> {
    /// Runs user-defined functions.
    pub functions: &'a mut dyn Functions,
    pub work: &'a mut Work,
    /// The current time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The time at which the first page of the query began, in milliseconds since 1970.
    pub started_ms: u64,
    /// The state of the random number generator.
    pub random: u64,
    pub regexes: RegexCache,
    /// Spatial functions compute in the plane instead of on the Earth.
    pub is_planar: bool,
    /// Returns true if the time of the page is over.
    pub is_expired: &'a mut dyn FnMut() -> bool,
    /// Iterations of loops so far. Operators and bytes that are read count as well.
    iterations: u64,
    /// The value of `iterations` at which the clock is read next.
    next_clock_check: u64,
    /// The value of `iterations` when the time was found to be over.
    expired_at: Option<u64>,
    /// Iterations that the current item may still take after the time is over, so that the query
    /// can stop behind the item instead of failing.
    pub grace_iterations: u64,
    /// Limit in bytes for the values of one item, and for all groups together.
    pub max_memory: usize,
    /// Bytes of the values that were made for the current item and are in memory. Code that drops
    /// such a value sets the counter back.
    pub held_bytes: usize,
    /// The most bytes of a collection of the page: groups, distinct values, rows to be sorted.
    collected_bytes: usize,
    /// Reserves memory for the page, see [`crate::Bounds::reserve`].
    pub reserve: Option<&'a mut dyn FnMut(usize) -> bool>,
    /// Bytes that were reserved.
    reserved_bytes: usize,
    /// The number of the current item, see [`crate::Candidate::item_number`].
    pub item_number: Option<u64>,
    /// The number of items that the current one stands for, see [`crate::Source::copies`].
    pub copies: u64,
    /// Measures [`crate::Work::write_us`].
    pub writes: Stopwatch<'a>,
}

/// Iterations between two readings of the clock; about a millisecond.
const CLOCK_INTERVAL: u64 = 4096;
/// Bytes that are reserved at a time.
const RESERVATION_BYTES: usize = 256 * 1024;
/// Bytes that are read in about the time of one iteration.
const BYTES_PER_ITERATION: usize = 256;

impl<'a> Context<'a> {
    /// Creates a context at time 0 with the random seed 0.
    pub(crate) fn new(
        functions: &'a mut dyn Functions,
        work: &'a mut Work,
        is_expired: &'a mut dyn FnMut() -> bool,
        max_memory: usize,
    ) -> Self {
        Context {
            functions,
            work,
            now_ms: 0,
            started_ms: 0,
            random: 0,
            regexes: RegexCache::default(),
            is_planar: false,
            is_expired,
            iterations: 0,
            next_clock_check: CLOCK_INTERVAL,
            expired_at: None,
            grace_iterations: 0,
            max_memory,
            held_bytes: 0,
            collected_bytes: 0,
            reserve: None,
            reserved_bytes: 0,
            item_number: None,
            copies: 1,
            writes: Stopwatch::default(),
        }
    }
}

impl Context<'_> {
    /// Counts one iteration of a loop over parts of an item. Such a loop can be long, since joins
    /// multiply.
    ///
    /// # Errors
    /// As [`Context::count_iterations`].
    pub(crate) fn count_iteration(&mut self) -> Result<(), QueryError> {
        self.count_iterations(1)
    }

    /// Counts several iterations at once, and reads the clock if one is due.
    ///
    /// # Errors
    /// [`QueryError::Timeout`] if the time is over and the grace of the current item is used up.
    pub(crate) fn count_iterations(&mut self, count: u64) -> Result<(), QueryError> {
        self.iterations = self.iterations.saturating_add(count);
        if self.iterations < self.next_clock_check {
            return Ok(());
        }
        self.next_clock_check = self.iterations.saturating_add(CLOCK_INTERVAL);
        if self.expired_at.is_none() && (self.is_expired)() {
            self.expired_at = Some(self.iterations);
        }
        match self.expired_at {
            Some(at) if self.iterations - at >= self.grace_iterations => Err(QueryError::Timeout),
            _ => Ok(()),
        }
    }

    /// Counts a call of a user-defined function, which may take as long as very many iterations.
    ///
    /// # Errors
    /// As [`Context::count_iterations`].
    pub(crate) fn count_call(&mut self) -> Result<(), QueryError> {
        self.work.udf_calls += 1;
        self.count_iterations(CALL_ITERATIONS)
    }

    /// Counts bytes that are read or copied.
    ///
    /// # Errors
    /// As [`Context::count_iterations`].
    pub(crate) fn count_bytes(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.count_iterations((bytes / BYTES_PER_ITERATION) as u64)
    }

    /// Returns true if the clock should be read before the next item, because it would otherwise be
    /// read soon after the item has begun, or because the time is known to be over.
    pub(crate) fn is_clock_check_due(&self) -> bool {
        self.expired_at.is_some()
            || self.iterations.saturating_add(CLOCK_INTERVAL / 2) >= self.next_clock_check
    }

    /// Reads the clock between two items. Returns true if the time is over.
    pub(crate) fn is_time_over(&mut self) -> bool {
        self.next_clock_check = self.iterations.saturating_add(CLOCK_INTERVAL);
        self.expired_at.is_some() || (self.is_expired)()
    }

    /// Counts a value that is read from one end to the other.
    ///
    /// # Errors
    /// As [`Context::count_iterations`].
    pub(crate) fn count_value_read(&mut self, value: &Json) -> Result<(), QueryError> {
        match value {
            Json::String(_) | Json::Array(_) | Json::Object(_) => self.count_bytes(weight(value)),
            _ => Ok(()),
        }
    }

    /// Counts a value that was made, or that is about to be copied into another value.
    ///
    /// # Errors
    /// As [`Context::count_iterations`] and [`Context::check_memory`].
    pub(crate) fn count_value_made(&mut self, value: &Json) -> Result<(), QueryError> {
        let bytes = weight(value);
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.count_bytes(bytes)?;
        self.check_memory(self.held_bytes)
    }

    /// Runs `work` and then releases the memory that it counted: the values that `work` made are
    /// dropped or copied by then.
    ///
    /// # Errors
    /// The error of `work`.
    pub(crate) fn releasing<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let held_before = self.held_bytes;
        let result = work(self);
        self.held_bytes = held_before;
        result
    }

    /// Compares a number of bytes with the memory limit, and reserves them beside those of the
    /// page's collections.
    ///
    /// # Errors
    /// [`QueryError::Memory`] if the limit is exceeded; [`QueryError::MemoryTaken`] if the memory
    /// cannot be reserved.
    pub(crate) fn check_memory(&mut self, bytes: usize) -> Result<(), QueryError> {
        if bytes > self.max_memory {
            return Err(QueryError::Memory(
                "The query collects more than fits into its memory.".into(),
            ));
        }
        let needed = bytes.saturating_add(self.collected_bytes);
        if needed > self.reserved_bytes
            && let Some(reserve) = &mut self.reserve
        {
            let wanted = needed.next_multiple_of(RESERVATION_BYTES);
            if !reserve(wanted) {
                return Err(QueryError::MemoryTaken);
            }
            self.reserved_bytes = wanted;
        }
        Ok(())
    }

    /// Compares the size of a collection with the memory limit, and reserves it beside the values
    /// of the current item.
    ///
    /// # Errors
    /// As [`Context::check_memory`].
    pub(crate) fn check_collected(&mut self, bytes: usize) -> Result<(), QueryError> {
        if bytes > self.max_memory {
            return self.check_memory(bytes);
        }
        self.collected_bytes = self.collected_bytes.max(bytes);
        self.check_memory(self.held_bytes)
    }

    /// Returns the next random number in [0, 1). The generator is splitmix64.
    pub(crate) fn next_random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
