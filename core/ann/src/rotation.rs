//! A rotation that spreads each vector over all of its components.
//!
//! The Hadamard transform does so for a power of two components. A *window* has the largest such
//! number of dimensions. If all dimensions are in one window, it is transformed three times; else
//! the first window and the last one are, then the halves of the vector are added and subtracted,
//! because the windows may overlap little, and the windows are transformed once more. Before each
//! step the signs of random components are changed; without that, steps would undo others. Each
//! step keeps lengths and angles.
//!
//! Promise: the result depends on the dimensions, the seed and the vector alone, because sums have
//! a fixed order.
//! Left out: the way back. Distances can be compared between rotated vectors.

use crate::random::Random;
use std::f32::consts::FRAC_1_SQRT_2;

/// A rotation of vectors of some dimensions.
pub(crate) struct Rotation {
    steps: &'static [Step],
    /// For each step and each dimension, 1 or -1.
    signs: Vec<f32>,
}

/// A step, after the signs were changed.
#[derive(Clone, Copy)]
enum Step {
    FirstWindow,
    LastWindow,
    Halves,
}

/// The steps if all dimensions are in one window.
const STEPS_OF_ONE: &[Step] = &[Step::FirstWindow; 3];

/// The steps if there are two windows.
const STEPS_OF_TWO: &[Step] = &[
    Step::FirstWindow,
    Step::LastWindow,
    Step::Halves,
    Step::FirstWindow,
    Step::LastWindow,
];

impl Rotation {
    /// Creates the rotation of a seed.
    pub(crate) fn new(dimensions: usize, seed: u64) -> Self {
        let steps = if dimensions.is_power_of_two() {
            STEPS_OF_ONE
        } else {
            STEPS_OF_TWO
        };
        let mut random = Random::new(seed);
        let sign = |_| if random.next() >> 63 == 0 { 1.0 } else { -1.0 };
        Self {
            steps,
            signs: (0..steps.len() * dimensions).map(sign).collect(),
        }
    }

    /// Rotates a vector of the right length.
    pub(crate) fn apply(&self, vector: &mut [f32]) {
        let dimensions = vector.len();
        let window = 1 << dimensions.ilog2();
        let half = dimensions / 2;
        for (step, signs) in self.steps.iter().zip(self.signs.chunks_exact(dimensions)) {
            for (component, sign) in vector.iter_mut().zip(signs) {
                *component *= sign;
            }
            match step {
                Step::FirstWindow => hadamard(&mut vector[..window]),
                Step::LastWindow => hadamard(&mut vector[dimensions - window..]),
                Step::Halves => {
                    let (left, right) = vector.split_at_mut(dimensions - half);
                    add_and_subtract(left, right, FRAC_1_SQRT_2);
                }
            }
        }
    }
}

/// Applies the Hadamard transform, divided by the root of the length, which is a power of two.
fn hadamard(vector: &mut [f32]) {
    let scale = 1.0 / (vector.len() as f32).sqrt();
    let mut half = 1;
    while half < vector.len() {
        for block in vector.chunks_exact_mut(2 * half) {
            let (left, right) = block.split_at_mut(half);
            add_and_subtract(left, right, 1.0);
        }
        half *= 2;
    }
    for component in vector {
        *component *= scale;
    }
}

/// Replaces the components of two vectors by their sums and differences, times a scale.
fn add_and_subtract(left: &mut [f32], right: &mut [f32], scale: f32) {
    for (left, right) in left.iter_mut().zip(right) {
        (*left, *right) = ((*left + *right) * scale, (*left - *right) * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::Rotation;
    use crate::metric::squared_distance;

    const DIMENSIONS: [usize; 10] = [1, 2, 3, 5, 24, 47, 96, 255, 256, 1536];

    fn rotated(dimensions: usize, seed: u64, mut vector: Vec<f32>) -> Vec<f32> {
        Rotation::new(dimensions, seed).apply(&mut vector);
        vector
    }

    fn axis(dimensions: usize, number: usize) -> Vec<f32> {
        let mut vector = vec![0.0; dimensions];
        vector[number] = 1.0;
        vector
    }

    #[test]
    fn distances_stay_as_they_are() {
        for dimensions in DIMENSIONS {
            let left: Vec<f32> = (0..dimensions).map(|number| number as f32).collect();
            let right = axis(dimensions, dimensions / 2);
            let before = squared_distance(&left, &right);
            let after = squared_distance(
                &rotated(dimensions, 3, left),
                &rotated(dimensions, 3, right),
            );
            assert!((after - before).abs() <= 1e-5 * before, "{after} {before}");
        }
    }

    /// Of normally distributed numbers with the mean square 1, the mean fourth power is 3.
    #[test]
    fn components_of_an_axis_are_about_normally_distributed() {
        for dimensions in [24, 47, 96, 255, 256, 1000, 1025, 2047, 3072] {
            let (mut fourth_powers, mut count) = (0.0, 0);
            for seed in 0..20 {
                for number in [0, dimensions / 3, dimensions - 1] {
                    for component in rotated(dimensions, seed, axis(dimensions, number)) {
                        fourth_powers += (component * component * dimensions as f32).powi(2);
                        count += 1;
                    }
                }
            }
            let mean = fourth_powers / count as f32;
            assert!((2.5..3.5).contains(&mean), "{dimensions}: {mean}");
        }
    }

    #[test]
    fn seeds_give_different_rotations() {
        let (first, second) = (rotated(24, 1, axis(24, 0)), rotated(24, 2, axis(24, 0)));
        assert_ne!(first, second);
    }
}
