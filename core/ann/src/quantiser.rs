//! Quantisers: vectors as codes of a fixed number of bytes, and distances from a vector to codes.
//!
//! [`Quantiser`] is the door to two kinds, each a [`Coder`] in a module of its own: `product.rs`
//! and `spherical.rs`. This module prepares samples and vectors, and has the frame of the stored
//! form:
//!
//! ```text
//! form u8 │ metric u8 │ dimensions u32 │ code bytes u32 │ bytes of the kind │ CRC-32 of all these
//! ```
//!
//! The form names the kind: 1 for a product quantiser, 2 for a spherical one. Numbers are
//! little-endian.
//!
//! Promises: a quantiser depends on the arguments of its training alone; damaged bytes give `None`
//! and never more memory than a constant multiple of their length or of the dimensions.
//! Left out: codes in memory (`codes.rs`), and the choice of a kind and of a number of bytes.

use crate::metric::{Metric, prepared};
use crate::tables::{CORRECTION_BYTES, Distances};
use crate::{product, spherical};
use orrery_model::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Vectors that training looks at: 50 for each centroid of a byte. More cost time and change
/// little.
const SAMPLE_MAX: usize = 12_800;

/// The largest number of dimensions that bytes of a quantiser may claim.
const DIMENSIONS_MAX: usize = 1 << 16;

/// Bytes before those of the kind: form, metric, dimensions, code bytes.
const HEAD_BYTES: usize = 10;

/// The ways to quantise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantiserKind {
    /// Each byte of a code names one of 256 centroids of a few dimensions, which training finds.
    Product,
    /// A code has a few bits for each component of the rotated difference from the mean, and a
    /// correction of five bytes. Training finds the mean only.
    Spherical,
}

impl QuantiserKind {
    /// Returns the number of bytes nearest to `wanted` that codes of vectors of so many dimensions
    /// can have.
    ///
    /// A product quantiser has from 1 byte to a byte for each dimension. A spherical one has 5
    /// bytes for the correction, which count among the wanted ones, and from 1 byte to a byte for
    /// each dimension besides; so the result may exceed `wanted` where that is below 6. Below
    /// `5 + dimensions / 8` bytes there is less than a bit for each dimension: the code then leaves
    /// out components, and finds clearly fewer of the nearest vectors than a product quantiser
    /// with as many bytes.
    pub fn code_bytes(self, dimensions: usize, wanted: usize) -> usize {
        let range = match self {
            Self::Product => product::code_bytes(dimensions),
            Self::Spherical => spherical::code_bytes(dimensions),
        };
        wanted.clamp(*range.start(), *range.end())
    }

    /// Returns the bytes of a code that are not those of components.
    pub fn correction_bytes(self) -> usize {
        match self {
            Self::Product => 0,
            Self::Spherical => CORRECTION_BYTES,
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Self::Product => 1,
            Self::Spherical => 2,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Product),
            2 => Some(Self::Spherical),
            _ => None,
        }
    }
}

/// The numbers by which codes of the same kind differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) metric: Metric,
    pub(crate) dimensions: usize,
    pub(crate) code_bytes: usize,
}

/// Checks between parts of a training that it may go on.
pub(crate) type Check<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Makes codes, and compares with them. Vectors are prepared: they have the right length, and are
/// bounded, and normalised for the cosine.
pub(crate) trait Coder: Send + Sync {
    /// Returns the code of a vector.
    fn encode(&self, vector: &[f32]) -> Vec<u8>;

    /// Returns the distances from a vector to codes.
    fn distances(&self, vector: &[f32]) -> Distances;

    /// Appends the vector that a code stands for, in a form in which squared Euclidean distances
    /// decide about edges. It has as many components for each code, also for one of a wrong
    /// length.
    fn append_decoded(&self, code: &[u8], vector: &mut Vec<f32>);

    /// Begins to compare codes with one code.
    fn origin(&self, code: &[u8]) -> Box<dyn Origin + '_>;

    /// Returns the code of the mean of the sample.
    fn entry_code(&self) -> &[u8];

    /// Returns the root of the mean squared distance between what codes stand for and its mean.
    fn spread(&self) -> f32;

    /// Appends the stored form.
    fn append_stored(&self, bytes: &mut Vec<u8>);
}

/// A code that is compared with others.
pub(crate) trait Origin: Send + Sync {
    /// Returns the squared Euclidean distance between the vectors that [`Coder::append_decoded`]
    /// appends for the two codes.
    fn squared_distance(&self, code: &[u8]) -> f32;
}

/// Turns vectors into codes of a fixed number of bytes. A clone shares the tables.
#[derive(Clone)]
pub struct Quantiser {
    kind: QuantiserKind,
    layout: Layout,
    coder: Arc<dyn Coder>,
}

impl Quantiser {
    /// Trains a quantiser on `sample`, whose vectors lie one after the other. At most 12,800
    /// vectors of the sample are used, evenly spread over it.
    ///
    /// The result depends on the arguments alone. `check` is called between parts of the work that
    /// take some milliseconds, and an error of `check` ends the training.
    ///
    /// # Errors
    /// An internal error if the sample has no vector, if there are no dimensions or more than
    /// 65,536, or if codes cannot have `code_bytes` ([`QuantiserKind::code_bytes`]); an error of
    /// `check`.
    pub fn train(
        kind: QuantiserKind,
        metric: Metric,
        dimensions: usize,
        code_bytes: usize,
        sample: &[f32],
        seed: u64,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        // The kinds rely on possible numbers, and on at least one vector.
        if !is_possible(kind, dimensions, code_bytes) {
            return Err(Error::internal(
                "a quantiser cannot have so many dimensions and bytes",
            ));
        }
        let vectors = sample.len() / dimensions;
        if vectors == 0 {
            return Err(Error::internal(
                "a quantiser cannot be trained without vectors",
            ));
        }

        // A large sample is thinned out evenly, because its vectors may lie in an order.
        let used = vectors.min(SAMPLE_MAX);
        let mut points = Vec::with_capacity(used * dimensions);
        for number in 0..used {
            let start = number * vectors / used * dimensions;
            let vector = &sample[start..start + dimensions];
            points.extend(prepared(metric, dimensions, vector));
        }
        check()?;

        let layout = Layout {
            metric,
            dimensions,
            code_bytes,
        };
        let coder: Arc<dyn Coder> = match kind {
            QuantiserKind::Product => Arc::new(product::train(layout, &points, seed, check)?),
            QuantiserKind::Spherical => Arc::new(spherical::train(layout, &points, seed, check)?),
        };
        Ok(Self {
            kind,
            layout,
            coder,
        })
    }

    /// Returns the stored form, which the head of the module `quantiser.rs` describes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Layout {
            metric,
            dimensions,
            code_bytes,
        } = self.layout;
        let mut bytes = vec![self.kind.to_byte(), metric.to_byte()];
        bytes.extend((dimensions as u32).to_le_bytes());
        bytes.extend((code_bytes as u32).to_le_bytes());
        self.coder.append_stored(&mut bytes);
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads what [`Quantiser::to_bytes`] wrote, or returns `None` for damaged bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(bytes) != u32::from_le_bytes(*sum) {
            return None;
        }

        // The head is checked before a kind takes memory for the claimed numbers.
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| -> Option<usize> {
            let bytes = head.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let kind = QuantiserKind::of_byte(head[0])?;
        let layout = Layout {
            metric: Metric::of_byte(head[1])?,
            dimensions: number(2)?,
            code_bytes: number(6)?,
        };
        if !is_possible(kind, layout.dimensions, layout.code_bytes) {
            return None;
        }
        let coder: Arc<dyn Coder> = match kind {
            QuantiserKind::Product => Arc::new(product::read(layout, rest)?),
            QuantiserKind::Spherical => Arc::new(spherical::read(layout, rest)?),
        };
        Some(Self {
            kind,
            layout,
            coder,
        })
    }

    /// Returns the kind.
    pub fn kind(&self) -> QuantiserKind {
        self.kind
    }

    /// Returns the metric of the distances.
    pub fn metric(&self) -> Metric {
        self.layout.metric
    }

    /// Returns the number of components of a vector.
    pub fn dimensions(&self) -> usize {
        self.layout.dimensions
    }

    /// Returns the number of bytes of a code.
    pub fn code_bytes(&self) -> usize {
        self.layout.code_bytes
    }

    /// Returns the code of a vector. Components that the vector lacks count as 0, and those beyond
    /// the dimensions are ignored.
    pub fn encode(&self, vector: &[f32]) -> Vec<u8> {
        self.coder.encode(&self.prepared(vector))
    }

    /// Returns the distances from a vector to the codes.
    pub fn distances(&self, vector: &[f32]) -> Distances {
        self.coder.distances(&self.prepared(vector))
    }

    /// Returns what makes and compares the codes.
    pub(crate) fn coder(&self) -> &dyn Coder {
        &*self.coder
    }

    fn prepared(&self, vector: &[f32]) -> Vec<f32> {
        prepared(self.layout.metric, self.layout.dimensions, vector)
    }
}

impl fmt::Debug for Quantiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quantiser")
            .field("kind", &self.kind)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// Returns true if codes of vectors of so many dimensions can have so many bytes.
fn is_possible(kind: QuantiserKind, dimensions: usize, code_bytes: usize) -> bool {
    (1..=DIMENSIONS_MAX).contains(&dimensions)
        && kind.code_bytes(dimensions, code_bytes) == code_bytes
}

/// Returns the mean of vectors.
pub(crate) fn mean(points: &[f32], dimensions: usize) -> Vec<f32> {
    let mut sums = vec![0.0_f64; dimensions];
    for point in points.chunks_exact(dimensions) {
        for (sum, &component) in sums.iter_mut().zip(point) {
            *sum += f64::from(component);
        }
    }
    let count = (points.len() / dimensions) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}

/// Reads f32 numbers. Returns `None` if one is infinite or no number.
pub(crate) fn finite_numbers(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, _) = bytes.as_chunks::<4>();
    let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
    numbers
        .map(|number| number.is_finite().then_some(number))
        .collect()
}
