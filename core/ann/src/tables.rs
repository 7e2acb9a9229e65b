//! Distances as sums: a table of 256 numbers for each byte of a code.
//!
//! The dimensions of a vector are divided among the bytes of its code. A *plane* has a component
//! for each value of a byte, and the planes of a byte's dimensions say which vector a value stands
//! for. Folding the planes with the components of a query gives the table of the byte. A code may
//! end with a [`Correction`], which turns the sum into a distance.
//!
//! Promise: equal arguments give equal bits on every machine, because sums have a fixed order.
//! Left out: which vector a value of a byte stands for, which is the business of the quantisers.

use std::fmt;

/// The number of values of a byte.
pub(crate) const VALUES: usize = 256;

/// A number for each value of a byte.
pub(crate) type Row = [f32; VALUES];

/// Bytes of the correction of a code.
pub(crate) const CORRECTION_BYTES: usize = 5;

/// The last bits that a stored scale lacks.
const SCALE_SHIFT: u32 = 15;

/// The last bits that a stored offset lacks.
const OFFSET_SHIFT: u32 = 8;

/// Subtracts from each number of a table the product of a component with that of the plane.
pub(crate) fn subtract_products(table: &mut Row, plane: &Row, component: f32) {
    for (sum, &other) in table.iter_mut().zip(plane) {
        *sum -= component * other;
    }
}

/// Adds to each number of a table the squared difference of a component from that of the plane.
pub(crate) fn add_squares(table: &mut Row, plane: &Row, component: f32) {
    for (sum, &other) in table.iter_mut().zip(plane) {
        let difference = component - other;
        *sum += difference * difference;
    }
}

/// Divides dimensions among the bytes of a code: the first dimension and the number of dimensions
/// of each byte. The first bytes have one more if the dimensions cannot be divided evenly.
pub(crate) fn divided(dimensions: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let (width, wider) = (dimensions / bytes, dimensions % bytes);
    (0..bytes).map(move |number| {
        (
            number * width + number.min(wider),
            width + usize::from(number < wider),
        )
    })
}

/// The distances from one vector to codes.
#[derive(Clone)]
pub struct Distances {
    /// A table for each byte.
    tables: Vec<Row>,
    /// The distance to a code whose correction is zero, if codes have corrections.
    base: Option<f32>,
}

impl Distances {
    /// Creates distances that are the sums of the tables.
    pub(crate) fn sums(tables: Vec<Row>) -> Self {
        Self { tables, base: None }
    }

    /// Creates distances to codes that end with a correction: `base`, and the offset of the
    /// correction, and its scale times the sum of the tables.
    pub(crate) fn corrected(tables: Vec<Row>, base: f32) -> Self {
        Self {
            tables,
            base: Some(base),
        }
    }

    /// Returns the distance to a code. Bytes behind the code do not count.
    #[inline]
    pub fn to(&self, code: &[u8]) -> f32 {
        let (bytes, rest) = code.split_at(self.tables.len().min(code.len()));
        let sum = self.sum(bytes);
        let Some(base) = self.base else {
            return sum;
        };
        let correction = Correction::read(rest);
        let distance = base + correction.offset + correction.scale * sum;
        // Only damaged bytes lead here. Their distance is the longest.
        if distance.is_finite() {
            distance
        } else {
            f32::MAX
        }
    }

    #[inline]
    fn sum(&self, code: &[u8]) -> f32 {
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
            .field("tables", &self.tables.len())
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// The end of a code that has a correction: the scale, in two bytes, and the offset, in three.
///
/// The numbers are f32 without their last bits, and the scale, which is not negative, also without
/// its sign. The offset has more bits, because an error of the scale can be made good by the
/// offset, and one of the offset shows in every distance.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Correction {
    pub(crate) scale: f32,
    pub(crate) offset: f32,
}

impl Correction {
    /// Returns the nearest scale that can be written.
    pub(crate) fn rounded_scale(scale: f32) -> f32 {
        f32::from_bits(rounded(scale, SCALE_SHIFT) << SCALE_SHIFT)
    }

    /// Appends the correction to a code.
    pub(crate) fn append(self, code: &mut Vec<u8>) {
        code.extend((rounded(self.scale, SCALE_SHIFT) as u16).to_le_bytes());
        code.extend(&rounded(self.offset, OFFSET_SHIFT).to_le_bytes()[..3]);
    }

    /// Reads the correction at the beginning of some bytes. Missing bytes count as zero.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let Some(&[a, b, c, d, e]) = bytes.first_chunk::<CORRECTION_BYTES>() else {
            return Self::default();
        };
        Self {
            scale: f32::from_bits(u32::from(u16::from_le_bytes([a, b])) << SCALE_SHIFT),
            offset: f32::from_le_bytes([0, c, d, e]),
        }
    }
}

/// Returns the bits of a number without the last ones, rounded. The number is finite and far below
/// the largest one.
fn rounded(number: f32, shift: u32) -> u32 {
    (number.to_bits() + (1 << (shift - 1))) >> shift
}
