//! Vectors: their data types, their stored form, and the distances between them.
//!
//! Components are rounded to the data type of the vector policy and computed with as doubles, one
//! after the other, which reproduces the recorded scores of the service to the last digit. A stored
//! vector has the rounded components, so a distance to it has the same bits as one that is computed
//! from the JSON of an item.
//!
//! ```text
//! stored vector:  sum of the squares·8 (f64)  components (4, 2 or 1 byte each)     little-endian
//! ```
//!
//! Promises: [`Nearest::score`] of the stored form of a vector is the score that ORDER BY
//! VectorDistance computes from the item, and is `None` where that score is undefined. Left out:
//! approximate distances.

use crate::condition::Path;
use crate::search_effort::SearchEffort;
use orrery_model::json::Json;

/// Bytes of a stored vector before its components.
const HEAD_BYTES: usize = 8;

/// Vectors whose scores are computed side by side. Each sum waits for its last addition, so several
/// sums together take little longer than one.
pub const VECTORS_AT_ONCE: usize = 4;

/// A distance function of a vector policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistanceFunction {
    /// The cosine of the angle; 1 for vectors of the same direction.
    Cosine,
    /// The sum of the products of the components.
    DotProduct,
    /// The length of the difference.
    Euclidean,
}

impl DistanceFunction {
    /// Finds a distance function by its name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [
            DistanceFunction::Cosine,
            DistanceFunction::DotProduct,
            DistanceFunction::Euclidean,
        ];
        all.into_iter()
            .find(|function| function.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name in vector policies and in the options of VectorDistance.
    pub fn name(self) -> &'static str {
        match self {
            DistanceFunction::Cosine => "cosine",
            DistanceFunction::DotProduct => "dotproduct",
            DistanceFunction::Euclidean => "euclidean",
        }
    }

    /// Returns true if a larger value means that the vectors are nearer.
    pub fn is_similarity(self) -> bool {
        self != DistanceFunction::Euclidean
    }

    /// Returns the score of a distance, which is larger for nearer vectors.
    pub(crate) fn score_of(self, distance: f64) -> f64 {
        if self.is_similarity() {
            distance
        } else {
            -distance
        }
    }
}

/// The data type of the components of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// Floats of four bytes.
    Float32,
    /// Floats of two bytes, with eleven significant binary digits.
    Float16,
    /// Integers from -128 to 127.
    Int8,
    /// Integers from 0 to 255.
    Uint8,
}

impl DataType {
    /// All data types.
    pub const ALL: [DataType; 4] = [
        DataType::Float32,
        DataType::Float16,
        DataType::Int8,
        DataType::Uint8,
    ];

    /// Finds a data type by its name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|data_type| data_type.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name in vector policies.
    pub fn name(self) -> &'static str {
        match self {
            DataType::Float32 => "float32",
            DataType::Float16 => "float16",
            DataType::Int8 => "int8",
            DataType::Uint8 => "uint8",
        }
    }

    /// Returns the bytes of a stored component.
    pub fn component_bytes(self) -> usize {
        match self {
            DataType::Float32 => 4,
            DataType::Float16 => 2,
            DataType::Int8 | DataType::Uint8 => 1,
        }
    }

    /// Rounds a component to the data type. Returns `None` if the component does not fit.
    pub(crate) fn rounded(self, value: f64) -> Option<f64> {
        let integer = |min: f64, max: f64| {
            (value.fract() == 0.0 && (min..=max).contains(&value)).then_some(value)
        };
        match self {
            DataType::Float32 => Some(f64::from(value as f32)),
            DataType::Float16 => Some(to_half(value)).filter(|half| half.abs() <= HALF_MAX),
            DataType::Int8 => integer(-128.0, 127.0),
            DataType::Uint8 => integer(0.0, 255.0),
        }
    }

    /// Appends a rounded component in its stored form.
    fn append(self, component: f64, bytes: &mut Vec<u8>) {
        match self {
            DataType::Float32 => bytes.extend_from_slice(&(component as f32).to_le_bytes()),
            DataType::Float16 => bytes.extend_from_slice(&half_bits(component).to_le_bytes()),
            DataType::Int8 => bytes.push(component as i8 as u8),
            DataType::Uint8 => bytes.push(component as u8),
        }
    }
}

/// The sums from which a distance follows, over the components in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    product: f64,
    left_square: f64,
    right_square: f64,
    difference_square: f64,
}

impl Sums {
    /// Adds a pair of rounded components.
    pub(crate) fn add(&mut self, left: f64, right: f64) {
        self.product += left * right;
        self.left_square += left * left;
        self.right_square += right * right;
        self.difference_square += (left - right) * (left - right);
    }

    /// Returns the distance; `None` if it is no finite number.
    pub(crate) fn distance(&self, function: DistanceFunction) -> Option<f64> {
        let value = match function {
            // One root, as the service's last digits show. Components are within 1e39, so the
            // product of the squares does not overflow.
            DistanceFunction::Cosine => {
                self.product / (self.left_square * self.right_square).sqrt()
            }
            DistanceFunction::DotProduct => self.product,
            DistanceFunction::Euclidean => self.difference_square.sqrt(),
        };
        value.is_finite().then_some(value)
    }
}

/// Returns the number of bytes of the stored form of a vector.
pub fn stored_vector_bytes(data_type: DataType, dimensions: usize) -> usize {
    HEAD_BYTES + dimensions * data_type.component_bytes()
}

/// Returns the stored form of the vector of an item. Returns `None` if the value is no vector of so
/// many dimensions of the data type: its distance to any such vector is undefined.
pub fn stored_vector(value: &Json, data_type: DataType, dimensions: usize) -> Option<Vec<u8>> {
    let elements = value.as_array()?;
    if elements.len() != dimensions {
        return None;
    }
    let mut bytes = Vec::with_capacity(stored_vector_bytes(data_type, dimensions));
    bytes.extend_from_slice(&[0; HEAD_BYTES]);
    let mut square = 0.0;
    for element in elements {
        let component = data_type.rounded(element.as_f64()?)?;
        if !component.is_finite() {
            return None;
        }
        square += component * component;
        data_type.append(component, &mut bytes);
    }
    bytes[..HEAD_BYTES].copy_from_slice(&f64::to_le_bytes(square));
    Some(bytes)
}

/// Appends the components of a stored vector, for approximate distances. Returns `None` for bytes
/// that are no vector of so many dimensions of the data type.
pub fn append_components(
    stored: &[u8],
    data_type: DataType,
    dimensions: usize,
    components: &mut Vec<f32>,
) -> Option<()> {
    let bytes = stored.get(HEAD_BYTES..)?;
    if bytes.len() != dimensions * data_type.component_bytes() {
        return None;
    }
    match data_type {
        DataType::Float32 => {
            let (chunks, _) = bytes.as_chunks();
            components.extend(chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        DataType::Float16 => {
            let (chunks, _) = bytes.as_chunks();
            let half = |bytes: &[u8; 2]| from_half_bits(u16::from_le_bytes(*bytes)) as f32;
            components.extend(chunks.iter().map(half));
        }
        DataType::Int8 => components.extend(bytes.iter().map(|byte| f32::from(*byte as i8))),
        DataType::Uint8 => components.extend(bytes.iter().map(|byte| f32::from(*byte))),
    }
    Some(())
}

/// The order of ORDER BY VectorDistance between the vectors at a path and one vector: the nearest
/// first.
#[derive(Clone, Debug)]
pub struct Nearest {
    /// The path of the vectors.
    pub path: Path,
    /// The data type to which components are rounded.
    pub data_type: DataType,
    /// The distance function.
    pub function: DistanceFunction,
    /// The effort of an approximate search.
    pub effort: SearchEffort,
    /// The rounded components of the one vector.
    components: Vec<f64>,
    /// The sum of their squares.
    square: f64,
}

impl Nearest {
    /// Returns the order by the distance to `vector`, or `None` if that is no vector of the data
    /// type.
    pub(crate) fn new(
        path: Path,
        vector: &Json,
        data_type: DataType,
        function: DistanceFunction,
    ) -> Option<Self> {
        let mut components = Vec::new();
        let mut square = 0.0;
        for element in vector.as_array()? {
            let component = data_type.rounded(element.as_f64()?)?;
            square += component * component;
            components.push(component);
        }
        Some(Nearest {
            path,
            data_type,
            function,
            effort: SearchEffort::default(),
            components,
            square,
        })
    }

    /// Returns the rounded components of the one vector, for approximate distances.
    pub fn components(&self) -> Vec<f32> {
        self.components.iter().map(|n| *n as f32).collect()
    }

    /// Returns the number of components of the one vector.
    pub fn dimensions(&self) -> usize {
        self.components.len()
    }

    /// Returns the score of a stored vector of the same data type, larger for nearer vectors.
    /// Returns `None` if the distance is undefined, or for bytes that are no such vector. Bytes
    /// behind the vector are left out.
    pub fn score(&self, stored: &[u8]) -> Option<f64> {
        self.scores([stored; VECTORS_AT_ONCE])[0]
    }

    /// Returns the scores of several stored vectors, as [`Nearest::score`] does for each.
    pub fn scores(&self, stored: [&[u8]; VECTORS_AT_ONCE]) -> [Option<f64>; VECTORS_AT_ONCE] {
        let bytes = stored_vector_bytes(self.data_type, self.dimensions());
        let stored = stored.map(|row| row.get(..bytes).unwrap_or(row));
        if stored.iter().any(|vector| vector.len() != bytes) {
            return stored.map(|vector| match vector.len() == bytes {
                true => self.score(vector),
                false => None,
            });
        }
        let components = stored.map(|vector| &vector[HEAD_BYTES..]);
        let sums = match self.data_type {
            DataType::Float32 => self.sums(components.map(|bytes| bytes.as_chunks().0), |bytes| {
                f64::from(f32::from_le_bytes(bytes))
            }),
            DataType::Float16 => self.sums(components.map(|bytes| bytes.as_chunks().0), |bytes| {
                from_half_bits(u16::from_le_bytes(bytes))
            }),
            DataType::Int8 => self.sums(components.map(|bytes| bytes.as_chunks().0), |[byte]| {
                f64::from(byte as i8)
            }),
            DataType::Uint8 => self.sums(components.map(|bytes| bytes.as_chunks().0), |[byte]| {
                f64::from(byte)
            }),
        };
        let mut scores = [None; VECTORS_AT_ONCE];
        for at in 0..VECTORS_AT_ONCE {
            let mut head = [0; HEAD_BYTES];
            head.copy_from_slice(&stored[at][..HEAD_BYTES]);
            let sums = Sums {
                left_square: self.square,
                right_square: f64::from_le_bytes(head),
                ..sums[at]
            };
            let distance = sums.distance(self.function);
            scores[at] = distance.map(|distance| self.function.score_of(distance));
        }
        scores
    }

    /// Returns the sum that the distance function needs, for each vector.
    fn sums<const BYTES: usize>(
        &self,
        vectors: [&[[u8; BYTES]]; VECTORS_AT_ONCE],
        component: impl Fn([u8; BYTES]) -> f64,
    ) -> [Sums; VECTORS_AT_ONCE] {
        let is_euclidean = self.function == DistanceFunction::Euclidean;
        let mut totals = [0.0; VECTORS_AT_ONCE];
        let vectors = vectors.map(|vector| &vector[..self.components.len()]);
        for (at, left) in self.components.iter().enumerate() {
            for (total, vector) in totals.iter_mut().zip(vectors) {
                let right = component(vector[at]);
                *total += match is_euclidean {
                    true => (left - right) * (left - right),
                    false => left * right,
                };
            }
        }
        totals.map(|total| Sums {
            product: total,
            difference_square: total,
            ..Sums::default()
        })
    }
}

/// The largest half-precision float.
const HALF_MAX: f64 = 65_504.0;
/// The exponent of the smallest normal half-precision float.
const HALF_EXPONENT_MIN: i32 = -14;
/// The binary digits of a half-precision float behind the first.
const HALF_DIGITS: i32 = 10;

/// Rounds to a half-precision float: eleven significant binary digits, fewer below 2^-14.
fn to_half(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = value.abs().log2().floor().max(f64::from(HALF_EXPONENT_MIN));
    let unit = (exponent - f64::from(HALF_DIGITS)).exp2();
    (value / unit).round_ties_even() * unit
}

/// Returns the bits of a number that a half-precision float holds exactly.
fn half_bits(value: f64) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    if magnitude < f64::from(HALF_EXPONENT_MIN).exp2() {
        let digits = magnitude * f64::from(HALF_DIGITS - HALF_EXPONENT_MIN).exp2();
        return sign | digits as u16;
    }
    // The exponent and the first ten digits are in the bits of the double.
    let bits = magnitude.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let digits = (bits >> 42 & 0x3FF) as u16;
    sign | ((exponent - HALF_EXPONENT_MIN + 1) as u16) << HALF_DIGITS | digits
}

/// Returns the number of a half-precision float; infinities and other values that
/// [`stored_vector`] does not write are numbers here.
fn from_half_bits(bits: u16) -> f64 {
    let exponent = i32::from(bits >> HALF_DIGITS & 0x1F);
    let digits = f64::from(bits & 0x3FF);
    let unit = f64::from(exponent.max(1) + HALF_EXPONENT_MIN - 1 - HALF_DIGITS).exp2();
    let magnitude = match exponent {
        0 => digits * unit,
        _ => (digits + 1024.0) * unit,
    };
    match bits >> 15 {
        0 => magnitude,
        _ => -magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;
    use proptest::prelude::*;

    #[test]
    fn components_are_rounded_to_half_precision() {
        for (value, rounded) in [
            (1.0, 1.0),
            (0.1, 0.099_975_585_937_5),
            (2049.0, 2048.0),
            (1e-8, 0.0),
            (6e-8, 5.960_464_477_539_063e-8),
        ] {
            assert_eq!(to_half(value), rounded);
        }
        assert_eq!(DataType::Float16.rounded(70_000.0), None);
        assert_eq!(DataType::Int8.rounded(1.5), None);
        assert_eq!(DataType::Uint8.rounded(-1.0), None);
    }

    #[test]
    fn every_half_precision_number_has_its_bits() {
        for bits in 0..=u16::MAX {
            let number = from_half_bits(bits);
            if number.abs() <= HALF_MAX {
                assert_eq!(half_bits(number), bits);
                assert_eq!(to_half(number), number);
            }
        }
    }

    #[test]
    fn a_value_that_is_no_vector_of_the_policy_is_not_stored() {
        let stored = |text: &str, data_type| {
            stored_vector(&parse(text.as_bytes()).expect("JSON"), data_type, 2)
        };
        assert!(stored("[1,2]", DataType::Float32).is_some());
        for text in [
            "[1]",
            "[1,2,3]",
            "[1,null]",
            "[1,\"2\"]",
            "7",
            "{}",
            "[1e39,0]",
        ] {
            assert_eq!(stored(text, DataType::Float32), None, "{text}");
        }
        assert_eq!(stored("[1,128]", DataType::Int8), None);
        assert_eq!(stored("[1,256]", DataType::Uint8), None);
        assert_eq!(stored("[1,65520]", DataType::Float16), None);
    }

    proptest! {
        /// The distance from a stored vector has the bits of the distance from JSON.
        #[test]
        fn stored_vectors_score_as_the_items_do(
            numbers in prop::collection::vec((-128..128i32, 0..256i32, -1e3..1e3), 1..40),
            zeros in any::<bool>(),
        ) {
            for data_type in DataType::ALL {
                let left: Vec<Json> = numbers.iter().map(|n| match data_type {
                    DataType::Int8 => Json::from(i64::from(n.0)),
                    DataType::Uint8 => Json::from(i64::from(n.1)),
                    _ => Json::from(n.2),
                }).collect();
                let right: Vec<Json> = match zeros {
                    true => left.iter().map(|_| Json::from(0)).collect(),
                    false => left.iter().rev().cloned().collect(),
                };
                let (left, right) = (Json::Array(left), Json::Array(right));
                let stored = stored_vector(&right, data_type, numbers.len()).expect("stored");
                let mut components = Vec::new();
                append_components(&stored, data_type, numbers.len(), &mut components)
                    .expect("a vector of these dimensions");
                let numbers_of = right.as_array().into_iter().flatten();
                let rounded: Vec<f32> = numbers_of
                    .map(|v| data_type.rounded(v.as_f64().expect("a number")).expect("fits") as f32)
                    .collect();
                prop_assert_eq!(components, rounded);
                for function in ["cosine", "dotproduct", "euclidean"] {
                    let function = DistanceFunction::parse(function).expect("a function");
                    let mut sums = Sums::default();
                    let pairs = left.as_array().into_iter().flatten();
                    for (x, y) in pairs.zip(right.as_array().into_iter().flatten()) {
                        let round = |v: &Json| data_type.rounded(v.as_f64().expect("a number"));
                        sums.add(round(x).expect("fits"), round(y).expect("fits"));
                    }
                    let wanted = sums.distance(function).map(|d| function.score_of(d).to_bits());
                    let nearest = Nearest::new(Path(Vec::new()), &left, data_type, function)
                        .expect("a vector");
                    let score = nearest.score(&stored).map(f64::to_bits);
                    prop_assert_eq!(score, wanted);
                }
            }
        }
    }
}
