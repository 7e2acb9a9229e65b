//! The spherical quantiser: a few bits for each component of a rotated direction.
//!
//! A vector `x` lies at the length `r` from the mean of the sample. After a random rotation the
//! components of that difference are near to normally distributed whatever the vectors were, so one
//! grid fits all: a component, times `√dimensions / r`, becomes the number of a level of a uniform
//! grid of 2 to 256 levels. The levels `g` of a code point into nearly the direction of `x`.
//!
//! ```text
//! vector ──▶ minus mean ──▶ rotated ──▶ levels g: 1 to 8 components a byte ──▶ code
//!                               └─────▶ scale and offset ────────────────────▶ its last 5 bytes
//! ```
//!
//! The inner product of `x` and a query `q`, both rotated and without the mean, is estimated as
//! `scale · ⟨g, q⟩` with `scale = r² / ⟨g, x⟩`. The part of `g` beside the direction of `x` is
//! random, so the estimate has no bias, and it is exact where `q = x`. Squared distances follow as
//! `|q|² + r² - 2 · scale · ⟨g, q⟩`. The stored scale is rounded, and the stored offset is that
//! which makes the distance of a vector from its own code right. This is the idea of RaBitQ (Gao
//! and Long, 2024), with one centroid.
//!
//! A byte has the levels of `8 / n` bits of `n` neighbouring components; where this is no whole
//! number, the first ones have a bit more. With less than a bit for each component the last
//! components are left out, which the scale makes good.
//!
//! The stored form: the seed of the rotation u64, the spread f32, the mean, f32 for each dimension.
//!
//! Promise: distances are finite for all codes, also damaged ones.
//! Left out: the frame of the stored form, and the preparation of vectors (`quantiser.rs`).

use crate::metric::{COMPONENT_MAX, Metric, normalise, squared_distance};
use crate::quantiser::{Check, Coder, Layout, Origin, finite_numbers, mean};
use crate::rotation::Rotation;
use crate::tables::{
    CORRECTION_BYTES, Correction, Distances, Row, VALUES, divided, subtract_products,
};
use orrery_model::Result;
use std::ops::RangeInclusive;

/// Bits of a byte of a code.
const BITS: usize = 8;

/// For each number of bits, the distance between the levels of the uniform grid that has the least
/// squared error for normally distributed numbers, and that error. 5 to 7 bits do not occur.
const GRIDS: [(f32, f32); BITS + 1] = [
    (0.0, 1.0),
    (1.595_769, 0.363_380),
    (0.995_687, 0.118_846),
    (0.586_019, 0.037_440),
    (0.335_201, 0.011_543),
    (0.188_139, 0.003_495),
    (0.104_063, 0.001_040),
    (0.056_868, 0.000_304),
    (0.030_762, 0.000_088),
];

/// The least share of the expected inner product of levels and vector that the scale makes good.
/// Components that are left out may have nearly all of the length; the scale would be very large.
const PRODUCT_SHARE_MIN: f64 = 0.25;

/// The largest multiple of levels that is decoded: sums of squares stay finite. Only damaged codes
/// have larger ones.
const MULTIPLE_MAX: f32 = 5e15;

/// A trained quantiser.
pub(crate) struct Sphere {
    layout: Layout,
    seed: u64,
    mean: Vec<f32>,
    /// The root of the mean squared distance of the sample from its mean.
    spread: f32,
    rotation: Rotation,
    /// The place from which decoded vectors begin: the rotated mean if edges are chosen by the
    /// inner product, else zero.
    centre: Vec<f32>,
    /// The meaning of each byte of a code: the place of its first component, and a number of
    /// `grids`.
    chunks: Vec<(usize, usize)>,
    /// The grids of bytes with few components and with one more.
    grids: [Grid; 2],
    /// The number of bytes of the second grid. They are the first ones of a code.
    wide: usize,
    /// The share of the squared length of a vector that a code is expected to have.
    share: f32,
    /// The code of the mean of the sample.
    entry: Vec<u8>,
}

/// The levels of the components of a byte.
struct Grid {
    /// For each component its number of bits.
    bits: Vec<usize>,
    /// For each component its level for each value of the byte.
    planes: Vec<Row>,
    /// The same numbers, value by value.
    levels: Vec<f32>,
}

/// Returns the possible numbers of bytes of a code.
pub(crate) fn code_bytes(dimensions: usize) -> RangeInclusive<usize> {
    CORRECTION_BYTES + 1..=CORRECTION_BYTES + dimensions.max(1)
}

/// Finds the mean of prepared vectors.
pub(crate) fn train(layout: Layout, points: &[f32], seed: u64, check: Check<'_>) -> Result<Sphere> {
    let mean = mean(points, layout.dimensions);
    check()?;
    let vectors = points.chunks_exact(layout.dimensions);
    let count = vectors.len() as f64;
    let squares: f64 = vectors
        .map(|vector| f64::from(squared_distance(vector, &mean)))
        .sum();
    let spread = (squares / count).sqrt() as f32;
    check()?;
    Ok(Sphere::new(layout, seed, spread, mean))
}

/// Reads the stored form.
pub(crate) fn read(layout: Layout, mut rest: &[u8]) -> Option<Sphere> {
    let seed = u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?);
    if rest.len() != 4 * (1 + layout.dimensions) {
        return None;
    }
    let mut mean = finite_numbers(rest)?;
    let spread = mean.remove(0);
    let is_bounded = |number: &f32| number.abs() <= COMPONENT_MAX;
    let spread_max = COMPONENT_MAX * layout.dimensions as f32;
    let is_valid = (0.0..=spread_max).contains(&spread) && mean.iter().all(is_bounded);
    is_valid.then(|| Sphere::new(layout, seed, spread, mean))
}

impl Sphere {
    fn new(layout: Layout, seed: u64, spread: f32, mean: Vec<f32>) -> Self {
        // The bytes share the components that are coded: all of them, or a bit for each.
        let bytes = layout.code_bytes - CORRECTION_BYTES;
        let coded = layout.dimensions.min(BITS * bytes);
        let narrow = coded / bytes;
        let grids = [Grid::new(narrow), Grid::new((narrow + 1).min(BITS))];
        let mut chunks = Vec::with_capacity(bytes);
        let mut kept = 0.0;
        for (start, width) in divided(coded, bytes) {
            chunks.push((start, width - narrow));
            kept += grids[width - narrow].kept();
        }
        // Inner products depend on the place of zero, and other distances between vectors do not.
        let rotation = Rotation::new(layout.dimensions, seed);
        let mut centre = vec![0.0; layout.dimensions];
        if layout.metric == Metric::DotProduct {
            centre.copy_from_slice(&mean);
            rotation.apply(&mut centre);
        }
        centre.truncate(coded);

        let mut sphere = Self {
            layout,
            seed,
            mean,
            spread,
            rotation,
            centre,
            chunks,
            grids,
            wide: coded % bytes,
            share: kept / layout.dimensions as f32,
            entry: Vec::new(),
        };
        sphere.entry = sphere.encode(&sphere.mean);
        sphere
    }

    /// Returns the rotated difference of a vector from the mean.
    fn rotated(&self, vector: &[f32]) -> Vec<f32> {
        let components = vector.iter().zip(&self.mean);
        let mut difference: Vec<f32> = components.map(|(left, right)| left - right).collect();
        self.rotation.apply(&mut difference);
        difference
    }

    /// Appends the bytes of the levels of a rotated vector, and returns the inner product of the
    /// two.
    fn append_levels(&self, rotated: &[f32], scale: f32, code: &mut Vec<u8>) -> f64 {
        let mut product = 0.0;
        for &(start, number) in &self.chunks {
            let grid = &self.grids[number];
            let components = &rotated[start..start + grid.bits.len()];
            let byte = grid.byte(components, scale);
            let levels = grid.levels(byte).iter().zip(components);
            product += levels
                .map(|(level, component)| f64::from(level * component))
                .sum::<f64>();
            code.push(byte);
        }
        product
    }
}

impl Coder for Sphere {
    fn encode(&self, vector: &[f32]) -> Vec<u8> {
        let rotated = self.rotated(vector);
        let square = squares(&rotated);
        let scale = (self.layout.dimensions as f64 / square).sqrt() as f32;
        let mut code = Vec::with_capacity(self.layout.code_bytes);

        // The mean has no direction, and any levels stand for it if the scale is zero.
        if !scale.is_finite() {
            self.append_levels(&rotated, 0.0, &mut code);
            Correction::default().append(&mut code);
            return code;
        }
        let product = self.append_levels(&rotated, scale, &mut code);
        let length = (self.layout.dimensions as f64 * square).sqrt();
        let least = PRODUCT_SHARE_MIN * f64::from(self.share) * length;
        let scale = Correction::rounded_scale((square / product.max(least)) as f32);

        // The offset makes the distance from the vector itself right in spite of the rounding.
        let estimate = f64::from(scale) * product;
        let offset = match self.layout.metric {
            Metric::Cosine | Metric::Euclidean => 2.0 * estimate - square,
            Metric::DotProduct => {
                let norm = inner_product(vector, vector);
                estimate - norm + inner_product(vector, &self.mean)
            }
        };
        let offset = offset as f32;
        Correction { scale, offset }.append(&mut code);
        code
    }

    fn distances(&self, vector: &[f32]) -> Distances {
        let mut rotated = self.rotated(vector);
        let base = match self.layout.metric {
            Metric::Cosine | Metric::Euclidean => {
                let square = squares(&rotated);
                rotated.iter_mut().for_each(|component| *component *= 2.0);
                square
            }
            Metric::DotProduct => -inner_product(vector, &self.mean),
        };
        let mut tables = vec![[0.0; VALUES]; self.chunks.len()];
        for (&(start, number), table) in self.chunks.iter().zip(&mut tables) {
            let planes = self.grids[number].planes.iter();
            for (plane, &component) in planes.zip(&rotated[start..]) {
                subtract_products(table, plane, component);
            }
        }
        Distances::corrected(tables, base as f32)
    }

    fn append_decoded(&self, code: &[u8], vector: &mut Vec<f32>) {
        let first = vector.len();
        vector.resize(first + self.centre.len(), 0.0);
        let vector = &mut vector[first..];
        let (bytes, correction) = code.split_at(code.len().min(self.chunks.len()));
        // This multiple of the levels is the nearest to the vector.
        let multiple = Correction::read(correction).scale * self.share;
        let multiple = if multiple < MULTIPLE_MAX {
            multiple
        } else {
            MULTIPLE_MAX
        };
        let [narrow, wide] = &self.grids;
        let (wide_bytes, narrow_bytes) = bytes.split_at(bytes.len().min(self.wide));
        let (wide_part, narrow_part) = vector.split_at_mut(self.wide * wide.bits.len());
        wide.decode(wide_bytes, multiple, wide_part);
        narrow.decode(narrow_bytes, multiple, narrow_part);
        if self.layout.metric == Metric::DotProduct {
            for (component, centre) in vector.iter_mut().zip(&self.centre) {
                *component += centre;
            }
            normalise(vector);
        }
    }

    fn origin(&self, code: &[u8]) -> Box<dyn Origin + '_> {
        let mut vector = Vec::with_capacity(self.layout.dimensions);
        self.append_decoded(code, &mut vector);
        Box::new(DecodedOrigin {
            sphere: self,
            vector,
        })
    }

    fn entry_code(&self) -> &[u8] {
        &self.entry
    }

    fn spread(&self) -> f32 {
        self.spread
    }

    fn append_stored(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.seed.to_le_bytes());
        bytes.extend(self.spread.to_le_bytes());
        for component in &self.mean {
            bytes.extend(component.to_le_bytes());
        }
    }
}

/// The vector of a code, compared with other codes by their vectors: the grids are small, so they
/// are decoded as fast as a table is read.
struct DecodedOrigin<'a> {
    sphere: &'a Sphere,
    vector: Vec<f32>,
}

impl Origin for DecodedOrigin<'_> {
    fn squared_distance(&self, code: &[u8]) -> f32 {
        let mut other = Vec::with_capacity(self.vector.len());
        self.sphere.append_decoded(code, &mut other);
        squared_distance(&self.vector, &other)
    }
}

impl Grid {
    /// Creates the grid of a byte with so many components, from 1 to 8.
    fn new(components: usize) -> Self {
        let more = BITS % components;
        let bits: Vec<usize> = (0..components)
            .map(|component| BITS / components + usize::from(component < more))
            .collect();
        let mut planes = vec![[0.0; VALUES]; components];
        let mut levels = Vec::with_capacity(VALUES * components);
        for value in 0..VALUES {
            let mut rest = value;
            for (&bits, plane) in bits.iter().zip(&mut planes) {
                let half = (1_usize << bits) as f32 / 2.0;
                let number = rest & ((1 << bits) - 1);
                rest >>= bits;
                plane[value] = (number as f32 - half + 0.5) * GRIDS[bits].0;
                levels.push(plane[value]);
            }
        }
        Self {
            bits,
            planes,
            levels,
        }
    }

    /// Returns the byte whose levels are nearest to some components, times a scale.
    fn byte(&self, components: &[f32], scale: f32) -> u8 {
        let mut byte = 0;
        let mut shift = 0;
        for (&bits, component) in self.bits.iter().zip(components) {
            let half = (1_usize << bits) as f32 / 2.0;
            let place = (component * scale / GRIDS[bits].0).floor() + half;
            let number = place.clamp(0.0, 2.0 * half - 1.0);
            byte |= (number as u8) << shift;
            shift += bits;
        }
        byte
    }

    /// Returns the levels that a byte stands for.
    fn levels(&self, byte: u8) -> &[f32] {
        let start = usize::from(byte) * self.bits.len();
        &self.levels[start..start + self.bits.len()]
    }

    /// Writes the levels of some bytes, times a multiple.
    fn decode(&self, bytes: &[u8], multiple: f32, components: &mut [f32]) {
        // Loops over a known number of components are several times as fast.
        match self.bits.len() {
            1 => self.decode_width::<1>(bytes, multiple, components),
            2 => self.decode_width::<2>(bytes, multiple, components),
            3 => self.decode_width::<3>(bytes, multiple, components),
            4 => self.decode_width::<4>(bytes, multiple, components),
            5 => self.decode_width::<5>(bytes, multiple, components),
            6 => self.decode_width::<6>(bytes, multiple, components),
            7 => self.decode_width::<7>(bytes, multiple, components),
            _ => self.decode_width::<8>(bytes, multiple, components),
        }
    }

    fn decode_width<const WIDTH: usize>(
        &self,
        bytes: &[u8],
        multiple: f32,
        components: &mut [f32],
    ) {
        let (levels, _) = self.levels.as_chunks::<WIDTH>();
        let (components, _) = components.as_chunks_mut::<WIDTH>();
        for (components, &byte) in components.iter_mut().zip(bytes) {
            *components = levels[usize::from(byte)].map(|level| level * multiple);
        }
    }

    /// Returns the expected sum of the squares of the levels.
    fn kept(&self) -> f32 {
        self.bits.iter().map(|&bits| 1.0 - GRIDS[bits].1).sum()
    }
}

fn squares(vector: &[f32]) -> f64 {
    inner_product(vector, vector)
}

fn inner_product(left: &[f32], right: &[f32]) -> f64 {
    let components = left.iter().zip(right);
    components
        .map(|(&left, &right)| f64::from(left) * f64::from(right))
        .sum()
}
