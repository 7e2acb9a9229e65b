//! The product quantiser: vectors as codes of some bytes, and distances from a vector to codes.
//!
//! The components of a vector are divided into one chunk for each byte of the code. A chunk has up
//! to 256 *centroids*, and a byte of a code is the number of the centroid nearest to the vector's
//! chunk. The distance from a vector to a code is a sum: for each chunk, the distance of the
//! vector's chunk to the centroid that the code names.

use crate::clusters::{Clusters, nearest};
use crate::metric::{Metric, prepared};
use orrery_model::{Error, Result};
use std::fmt;
use std::iter::repeat;
use std::sync::Arc;

/// Centroids of a chunk: what a byte can name.
pub(crate) const CENTROIDS: usize = 256;

/// One number for each centroid of a chunk.
pub(crate) type Row = [f32; CENTROIDS];

/// Vectors that training looks at: 50 for each centroid. More cost time and change little.
const SAMPLE_MAX: usize = 50 * CENTROIDS;

/// The largest number of dimensions that bytes of a quantiser may claim.
const DIMENSIONS_MAX: usize = 1 << 16;

/// The first byte of the stored form.
const VERSION: u8 = 1;

/// Bytes before the code of the entry: version, metric, dimensions, code bytes.
const HEAD_BYTES: usize = 10;

/// Turns vectors into codes of a fixed number of bytes. A clone shares the tables.
#[derive(Clone)]
pub struct Quantiser {
    book: Arc<Book>,
}

struct Book {
    metric: Metric,
    dimensions: usize,
    chunks: Vec<Chunk>,
    /// For each dimension, the component of each centroid of its chunk. Chunks with fewer than 256
    /// centroids repeat the last one, so that every code has a vector.
    planes: Vec<Row>,
    /// The same numbers, centroid by centroid: those of a chunk begin at `256 * start`.
    centroids: Vec<f32>,
    /// The code of the mean of the sample.
    entry: Vec<u8>,
    /// The root of the mean squared distance between the sample's centroids and their mean.
    spread: f32,
}

#[derive(Clone, Copy)]
struct Chunk {
    start: usize,
    width: usize,
    /// Different centroids, at least 1.
    count: usize,
}

impl Quantiser {
    /// Trains a quantiser on `sample`, whose vectors lie one after the other. At most 12,800
    /// vectors of the sample are used, evenly spread over it.
    ///
    /// The result depends on the arguments alone. `check` is called between parts of the work that
    /// take some milliseconds, and an error of `check` ends the training.
    ///
    /// # Errors
    /// An internal error if the sample has no vector or if `code_bytes` is not between 1 and
    /// `dimensions`; an error of `check`.
    pub fn train(
        metric: Metric,
        dimensions: usize,
        code_bytes: usize,
        sample: &[f32],
        seed: u64,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        if !(1..=dimensions).contains(&code_bytes) || dimensions > DIMENSIONS_MAX {
            return Err(Error::internal(
                "a quantiser has a byte for each dimension at most",
            ));
        }
        let vectors = sample.len() / dimensions;
        if vectors == 0 {
            return Err(Error::internal(
                "a quantiser cannot be trained without vectors",
            ));
        }
        let used = vectors.min(SAMPLE_MAX);
        let mut points = Vec::with_capacity(used * dimensions);
        for number in 0..used {
            let start = number * vectors / used * dimensions;
            points.extend(prepared(
                metric,
                dimensions,
                &sample[start..start + dimensions],
            ));
        }
        check()?;

        let mut chunks = Vec::with_capacity(code_bytes);
        let mut centroids = Vec::with_capacity(CENTROIDS * dimensions);
        for (start, width) in divided(dimensions, code_bytes) {
            let columns = columns(&points, dimensions, start, width);
            let seed = seed.wrapping_add(start as u64);
            let found = Clusters::of(&columns, seed, check)?.into_centroids();
            let count = found.len() / width;
            centroids.extend(padded(&found, width));
            chunks.push(Chunk {
                start,
                width,
                count,
            });
        }
        let mean = mean(&points, dimensions);
        let mut book = Book::new(metric, dimensions, chunks, centroids);
        book.entry = book.encode(&mean);
        Ok(Self {
            book: Arc::new(book),
        })
    }

    /// Returns the stored form: version u8, metric u8, dimensions u32, code bytes u32, the code of
    /// the entry; for each chunk the number of its centroids u16 and their components f32; the
    /// CRC-32 of all these. Numbers are little-endian.
    pub fn to_bytes(&self) -> Vec<u8> {
        let book = &*self.book;
        let mut bytes = vec![VERSION, book.metric.to_byte()];
        bytes.extend((book.dimensions as u32).to_le_bytes());
        bytes.extend((book.chunks.len() as u32).to_le_bytes());
        bytes.extend(&book.entry);
        for chunk in &book.chunks {
            bytes.extend((chunk.count as u16).to_le_bytes());
            let start = CENTROIDS * chunk.start;
            for component in &book.centroids[start..start + chunk.count * chunk.width] {
                bytes.extend(component.to_le_bytes());
            }
        }
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
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| -> Option<usize> {
            let bytes = head.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (metric, dimensions, code_bytes) = (Metric::of_byte(head[1])?, number(2)?, number(6)?);
        let plausible = head[0] == VERSION
            && dimensions <= DIMENSIONS_MAX
            && (1..=dimensions).contains(&code_bytes)
            // Each chunk has two bytes and a centroid, so the rest is at least this long.
            && rest.len() >= 3 * code_bytes + 4 * dimensions;
        if !plausible {
            return None;
        }
        let entry = rest.split_off(..code_bytes)?.to_vec();
        let mut chunks = Vec::with_capacity(code_bytes);
        let mut stored = Vec::with_capacity(code_bytes);
        for (start, width) in divided(dimensions, code_bytes) {
            let count = usize::from(u16::from_le_bytes(*rest.split_off(..2)?.first_chunk()?));
            if !(1..=CENTROIDS).contains(&count) {
                return None;
            }
            stored.push(rest.split_off(..4 * count * width)?);
            chunks.push(Chunk {
                start,
                width,
                count,
            });
        }
        if !rest.is_empty() {
            return None;
        }
        let mut centroids = Vec::with_capacity(CENTROIDS * dimensions);
        for (bytes, chunk) in stored.into_iter().zip(&chunks) {
            let (components, _) = bytes.as_chunks::<4>();
            let components: Vec<f32> = components
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect();
            if components.iter().any(|component| !component.is_finite()) {
                return None;
            }
            centroids.extend(padded(&components, chunk.width));
        }
        let mut book = Book::new(metric, dimensions, chunks, centroids);
        book.entry = entry;
        Some(Self {
            book: Arc::new(book),
        })
    }

    /// Returns the metric of the distances.
    pub fn metric(&self) -> Metric {
        self.book.metric
    }

    /// Returns the number of components of a vector.
    pub fn dimensions(&self) -> usize {
        self.book.dimensions
    }

    /// Returns the number of bytes of a code.
    pub fn code_bytes(&self) -> usize {
        self.book.chunks.len()
    }

    /// Returns the code of a vector. Components that the vector lacks count as 0, and those beyond
    /// the dimensions are ignored.
    pub fn encode(&self, vector: &[f32]) -> Vec<u8> {
        let book = &*self.book;
        book.encode(&prepared(book.metric, book.dimensions, vector))
    }

    /// Returns the distances from a vector to the codes.
    pub fn distances(&self, vector: &[f32]) -> Distances {
        let book = &*self.book;
        let vector = prepared(book.metric, book.dimensions, vector);
        match book.metric {
            Metric::Cosine | Metric::Euclidean => book.squared_distances(&vector),
            Metric::DotProduct => book.inner_products(&vector),
        }
    }

    /// Returns the squared Euclidean distances from a vector, which is taken as it is, to codes.
    pub(crate) fn squared_distances(&self, vector: &[f32]) -> Distances {
        self.book.squared_distances(vector)
    }

    /// Returns the negative inner products of a vector, which is taken as it is, with the codes.
    pub(crate) fn inner_products(&self, vector: &[f32]) -> Distances {
        self.book.inner_products(vector)
    }

    /// Returns the squared norms of codes.
    pub(crate) fn squared_norms(&self) -> Distances {
        self.book.squared_distances(&vec![0.0; self.dimensions()])
    }

    /// Appends the vector of a code: the centroids that the code names. Missing bytes count as 0.
    pub(crate) fn append_decoded(&self, code: &[u8], vector: &mut Vec<f32>) {
        let book = &*self.book;
        for (chunk, &number) in book.chunks.iter().zip(code.iter().chain(repeat(&0))) {
            let start = CENTROIDS * chunk.start + usize::from(number) * chunk.width;
            vector.extend_from_slice(&book.centroids[start..start + chunk.width]);
        }
    }

    /// Returns the code of the mean of the sample.
    pub(crate) fn entry_code(&self) -> &[u8] {
        &self.book.entry
    }

    /// Returns the root of the mean squared distance of centroids from their mean.
    pub(crate) fn spread(&self) -> f32 {
        self.book.spread
    }
}

impl fmt::Debug for Quantiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quantiser")
            .field("metric", &self.metric())
            .field("dimensions", &self.dimensions())
            .field("code_bytes", &self.code_bytes())
            .finish_non_exhaustive()
    }
}

impl Book {
    fn new(metric: Metric, dimensions: usize, chunks: Vec<Chunk>, centroids: Vec<f32>) -> Self {
        let mut planes = vec![[0.0; CENTROIDS]; dimensions];
        let mut spread = 0.0_f64;
        for chunk in &chunks {
            let rows = centroids[CENTROIDS * chunk.start..].chunks_exact(chunk.width);
            let planes = &mut planes[chunk.start..chunk.start + chunk.width];
            for (number, row) in rows.take(CENTROIDS).enumerate() {
                for (plane, component) in planes.iter_mut().zip(row) {
                    plane[number] = *component;
                }
            }
            spread += planes
                .iter()
                .map(|plane| variance(&plane[..chunk.count]))
                .sum::<f64>();
        }
        Self {
            metric,
            dimensions,
            chunks,
            planes,
            centroids,
            entry: Vec::new(),
            spread: spread.sqrt() as f32,
        }
    }

    fn encode(&self, vector: &[f32]) -> Vec<u8> {
        let codes = self.squared_distances(vector);
        codes
            .tables
            .iter()
            .map(|table| nearest(table) as u8)
            .collect()
    }

    fn squared_distances(&self, vector: &[f32]) -> Distances {
        self.tables(vector, |sum, component, centroid| {
            let difference = component - centroid;
            sum + difference * difference
        })
    }

    fn inner_products(&self, vector: &[f32]) -> Distances {
        self.tables(vector, |sum, component, centroid| {
            sum - component * centroid
        })
    }

    /// Folds the components of each chunk with those of each centroid.
    fn tables(&self, vector: &[f32], add: impl Fn(f32, f32, f32) -> f32) -> Distances {
        let mut tables = vec![[0.0; CENTROIDS]; self.chunks.len()];
        for (chunk, table) in self.chunks.iter().zip(&mut tables) {
            let dimensions = chunk.start..chunk.start + chunk.width;
            for (plane, &component) in self.planes[dimensions.clone()]
                .iter()
                .zip(&vector[dimensions])
            {
                for (sum, &centroid) in table.iter_mut().zip(plane) {
                    *sum = add(*sum, component, centroid);
                }
            }
        }
        Distances { tables }
    }
}

/// The distances from one vector to codes: a table for each byte of a code.
#[derive(Clone)]
pub struct Distances {
    tables: Vec<Row>,
}

impl Distances {
    /// Returns the distance to a code. Bytes behind the code do not count.
    #[inline]
    pub fn to(&self, code: &[u8]) -> f32 {
        let code = code.get(..self.tables.len()).unwrap_or(code);
        // Four sums at a time, because each waits for the one before.
        let (tables, last_tables) = self.tables.as_chunks::<4>();
        let (codes, last_codes) = code.as_chunks::<4>();
        let mut sums = [0.0_f32; 4];
        for (tables, codes) in tables.iter().zip(codes) {
            for lane in 0..4 {
                sums[lane] += tables[lane][usize::from(codes[lane])];
            }
        }
        for (table, &number) in last_tables.iter().zip(last_codes) {
            sums[0] += table[usize::from(number)];
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }
}

impl fmt::Debug for Distances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distances")
            .field("code_bytes", &self.tables.len())
            .finish_non_exhaustive()
    }
}

/// Divides dimensions into chunks: start and width of each. The first chunks are one wider if the
/// dimensions cannot be divided evenly.
fn divided(dimensions: usize, chunks: usize) -> impl Iterator<Item = (usize, usize)> {
    let (width, wider) = (dimensions / chunks, dimensions % chunks);
    (0..chunks).map(move |number| {
        (
            number * width + number.min(wider),
            width + usize::from(number < wider),
        )
    })
}

/// Returns the components of a chunk, dimension by dimension.
fn columns(points: &[f32], dimensions: usize, start: usize, width: usize) -> Vec<Vec<f32>> {
    let column = |dimension: usize| {
        points
            .iter()
            .skip(dimension)
            .step_by(dimensions)
            .copied()
            .collect()
    };
    (start..start + width).map(column).collect()
}

/// Repeats the last centroid until there are 256.
fn padded(centroids: &[f32], width: usize) -> impl Iterator<Item = f32> {
    let last = &centroids[centroids.len() - width..];
    let missing = CENTROIDS * width - centroids.len();
    centroids
        .iter()
        .copied()
        .chain(last.iter().copied().cycle().take(missing))
}

fn mean(points: &[f32], dimensions: usize) -> Vec<f32> {
    let mut sums = vec![0.0_f64; dimensions];
    for point in points.chunks_exact(dimensions) {
        for (sum, &component) in sums.iter_mut().zip(point) {
            *sum += f64::from(component);
        }
    }
    let count = (points.len() / dimensions) as f64;
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}

fn variance(values: &[f32]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
    values
        .iter()
        .map(|&value| (f64::from(value) - mean).powi(2))
        .sum::<f64>()
        / count
}
