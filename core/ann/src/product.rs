//! The product quantiser: each byte of a code names a centroid of a few dimensions.
//!
//! The components of a vector are divided into one chunk for each byte of the code. A chunk has up
//! to 256 *centroids*, and a byte of a code is the number of the centroid nearest to the vector's
//! chunk. The distance from a vector to a code is a sum: for each chunk, the distance of the
//! vector's chunk to the centroid that the code names.
//!
//! The stored form: the code of the entry; for each chunk the number of its centroids u16 and their
//! components f32.
//!
//! Promise: a code stands for the centroids that it names, and a distance is that of this vector.
//! Left out: the frame of the stored form, and the preparation of vectors (`quantiser.rs`).

use crate::clusters::{Clusters, nearest};
use crate::metric::{Metric, normalise};
use crate::quantiser::{Check, Coder, Layout, Origin, finite_numbers, mean};
use crate::tables::{Distances, Row, VALUES, add_squares, divided, subtract_products};
use orrery_model::Result;
use std::iter::repeat;
use std::ops::RangeInclusive;

/// The tables of a trained quantiser.
pub(crate) struct Book {
    layout: Layout,
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
    /// The squared norms of codes, if edges are chosen by the cosine.
    norms: Option<Distances>,
}

#[derive(Clone, Copy)]
struct Chunk {
    start: usize,
    width: usize,
    /// Different centroids, at least 1.
    count: usize,
}

/// Returns the possible numbers of bytes of a code.
pub(crate) fn code_bytes(dimensions: usize) -> RangeInclusive<usize> {
    1..=dimensions.max(1)
}

/// Finds the centroids of prepared vectors.
pub(crate) fn train(layout: Layout, points: &[f32], seed: u64, check: Check<'_>) -> Result<Book> {
    let mut chunks = Vec::with_capacity(layout.code_bytes);
    let mut centroids = Vec::with_capacity(VALUES * layout.dimensions);
    for (start, width) in divided(layout.dimensions, layout.code_bytes) {
        let columns = columns(points, layout.dimensions, start, width);
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
    let mut book = Book::new(layout, chunks, centroids);
    book.entry = book.encode(&mean(points, layout.dimensions));
    Ok(book)
}

/// Reads the stored form.
pub(crate) fn read(layout: Layout, mut rest: &[u8]) -> Option<Book> {
    // Each chunk has two bytes and a centroid, and the entry has a byte, so the rest is at least
    // this long. The check comes before memory is taken for the claimed numbers.
    if rest.len() < 3 * layout.code_bytes + 4 * layout.dimensions {
        return None;
    }
    let entry = rest.split_off(..layout.code_bytes)?.to_vec();
    let mut chunks = Vec::with_capacity(layout.code_bytes);
    let mut stored = Vec::with_capacity(layout.code_bytes);
    for (start, width) in divided(layout.dimensions, layout.code_bytes) {
        let count = usize::from(u16::from_le_bytes(*rest.split_off(..2)?.first_chunk()?));
        if !(1..=VALUES).contains(&count) {
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

    // All lengths are right, so the tables, 256 times as large as a centroid, may be made.
    let mut centroids = Vec::with_capacity(VALUES * layout.dimensions);
    for (bytes, chunk) in stored.into_iter().zip(&chunks) {
        centroids.extend(padded(&finite_numbers(bytes)?, chunk.width));
    }
    let mut book = Book::new(layout, chunks, centroids);
    book.entry = entry;
    Some(book)
}

impl Book {
    fn new(layout: Layout, chunks: Vec<Chunk>, centroids: Vec<f32>) -> Self {
        let mut planes = vec![[0.0; VALUES]; layout.dimensions];
        let mut spread = 0.0_f64;
        for chunk in &chunks {
            let rows = centroids[VALUES * chunk.start..].chunks_exact(chunk.width);
            let planes = &mut planes[chunk.start..chunk.start + chunk.width];
            for (number, row) in rows.take(VALUES).enumerate() {
                for (plane, component) in planes.iter_mut().zip(row) {
                    plane[number] = *component;
                }
            }
            spread += planes
                .iter()
                .map(|plane| variance(&plane[..chunk.count]))
                .sum::<f64>();
        }
        let mut book = Self {
            layout,
            chunks,
            planes,
            centroids,
            entry: Vec::new(),
            spread: spread.sqrt() as f32,
            norms: None,
        };
        let has_norms = layout.metric == Metric::DotProduct;
        book.norms = has_norms.then(|| book.squared_distances(&vec![0.0; layout.dimensions]));
        book
    }

    fn squared_distances(&self, vector: &[f32]) -> Distances {
        Distances::sums(self.tables(vector, add_squares))
    }

    /// Returns the negative inner products of a vector with codes.
    fn inner_products(&self, vector: &[f32]) -> Distances {
        Distances::sums(self.tables(vector, subtract_products))
    }

    /// Folds the components of each chunk with those of each centroid.
    fn tables(&self, vector: &[f32], fold: fn(&mut Row, &Row, f32)) -> Vec<Row> {
        let mut tables = vec![[0.0; VALUES]; self.chunks.len()];
        for (chunk, table) in self.chunks.iter().zip(&mut tables) {
            let dimensions = chunk.start..chunk.start + chunk.width;
            let planes = &self.planes[dimensions.clone()];
            for (plane, &component) in planes.iter().zip(&vector[dimensions]) {
                fold(table, plane, component);
            }
        }
        tables
    }
}

impl Coder for Book {
    fn encode(&self, vector: &[f32]) -> Vec<u8> {
        let tables = self.tables(vector, add_squares);
        tables.iter().map(|table| nearest(table) as u8).collect()
    }

    fn distances(&self, vector: &[f32]) -> Distances {
        match self.layout.metric {
            Metric::Cosine | Metric::Euclidean => self.squared_distances(vector),
            Metric::DotProduct => self.inner_products(vector),
        }
    }

    fn append_decoded(&self, code: &[u8], vector: &mut Vec<f32>) {
        let first = vector.len();
        for (chunk, &number) in self.chunks.iter().zip(code.iter().chain(repeat(&0))) {
            let start = VALUES * chunk.start + usize::from(number) * chunk.width;
            vector.extend_from_slice(&self.centroids[start..start + chunk.width]);
        }
        if self.norms.is_some() {
            normalise(&mut vector[first..]);
        }
    }

    fn origin(&self, code: &[u8]) -> Box<dyn Origin + '_> {
        let mut vector = Vec::with_capacity(self.layout.dimensions);
        self.append_decoded(code, &mut vector);
        Box::new(match &self.norms {
            None => CentroidOrigin::Squares(self.squared_distances(&vector)),
            Some(norms) => CentroidOrigin::Products(self.inner_products(&vector), norms),
        })
    }

    fn entry_code(&self) -> &[u8] {
        &self.entry
    }

    fn spread(&self) -> f32 {
        self.spread
    }

    fn append_stored(&self, bytes: &mut Vec<u8>) {
        bytes.extend(&self.entry);
        for chunk in &self.chunks {
            bytes.extend((chunk.count as u16).to_le_bytes());
            let start = VALUES * chunk.start;
            for component in &self.centroids[start..start + chunk.count * chunk.width] {
                bytes.extend(component.to_le_bytes());
            }
        }
    }
}

/// The vector of a code, compared with other codes by tables.
enum CentroidOrigin<'a> {
    /// Squared distances.
    Squares(Distances),
    /// Negative inner products of a normalised vector, and the squared norms of codes.
    Products(Distances, &'a Distances),
}

impl Origin for CentroidOrigin<'_> {
    fn squared_distance(&self, code: &[u8]) -> f32 {
        match self {
            Self::Squares(squares) => squares.to(code),
            Self::Products(products, norms) => {
                let norm = norms.to(code).sqrt();
                let product = products.to(code);
                let cosine = if norm > 0.0 { -product / norm } else { 0.0 };
                (2.0 - 2.0 * cosine).max(0.0)
            }
        }
    }
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
    let missing = VALUES * width - centroids.len();
    centroids
        .iter()
        .copied()
        .chain(last.iter().copied().cycle().take(missing))
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
