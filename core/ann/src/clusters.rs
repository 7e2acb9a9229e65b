//! k-means: up to 256 centroids of the points of one chunk.

use crate::random::Random;
use crate::tables::{Row, VALUES};
use orrery_model::Result;

/// Rounds of Lloyd's algorithm. Later ones change little.
const ROUNDS: usize = 10;

/// Points between two calls of `check`.
const CHECK_EVERY: usize = 4096;

/// Centroids of a chunk, dimension by dimension.
pub(crate) struct Clusters {
    planes: Vec<Row>,
    count: usize,
}

impl Clusters {
    /// Finds the centroids of points, whose components are given dimension by dimension.
    pub(crate) fn of(
        columns: &[Vec<f32>],
        seed: u64,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let mut clusters = Self::first(columns, seed, check)?;
        let mut assigned = vec![usize::MAX; columns[0].len()];
        for _ in 0..ROUNDS {
            if !clusters.assign(columns, &mut assigned, check)? {
                break;
            }
            clusters.move_to_means(columns, &assigned);
        }
        Ok(clusters)
    }

    /// Returns the centroids one after the other.
    pub(crate) fn into_centroids(self) -> Vec<f32> {
        let centroid = |number: usize| self.planes.iter().map(move |plane| plane[number]);
        (0..self.count).flat_map(centroid).collect()
    }

    /// Chooses points as first centroids (k-means++): each with a probability in proportion to the
    /// squared distance from those chosen before. Equal points are chosen once.
    fn first(
        columns: &[Vec<f32>],
        seed: u64,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Self> {
        let points = columns[0].len();
        let mut random = Random::new(seed);
        let mut clusters = Self {
            planes: vec![[f32::INFINITY; VALUES]; columns.len()],
            count: 0,
        };
        let mut distances = vec![f32::INFINITY; points];
        let mut chosen = random.below(points);
        while clusters.count < VALUES {
            for (plane, column) in clusters.planes.iter_mut().zip(columns) {
                plane[clusters.count] = column[chosen];
            }
            clusters.count += 1;
            let total = lower_distances(columns, chosen, &mut distances);
            if total <= 0.0 {
                break;
            }
            chosen = at_share(&distances, total * random.fraction());
            if clusters.count.is_multiple_of(32) {
                check()?;
            }
        }
        Ok(clusters)
    }

    /// Assigns each point to its nearest centroid. Returns true if an assignment changed.
    fn assign(
        &self,
        columns: &[Vec<f32>],
        assigned: &mut [usize],
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let mut changed = false;
        for (point, assigned) in assigned.iter_mut().enumerate() {
            if point.is_multiple_of(CHECK_EVERY) {
                check()?;
            }
            let mut distances = [0.0; VALUES];
            for (plane, column) in self.planes.iter().zip(columns) {
                let component = column[point];
                for (sum, &centroid) in distances.iter_mut().zip(plane) {
                    let difference = component - centroid;
                    *sum += difference * difference;
                }
            }
            let best = nearest(&distances);
            changed |= *assigned != best;
            *assigned = best;
        }
        Ok(changed)
    }

    /// Moves each centroid to the mean of its points. One without points stays.
    fn move_to_means(&mut self, columns: &[Vec<f32>], assigned: &[usize]) {
        let mut counts = [0_u32; VALUES];
        for &number in assigned {
            counts[number] += 1;
        }
        for (plane, column) in self.planes.iter_mut().zip(columns) {
            let mut sums = [0.0_f64; VALUES];
            for (&number, &component) in assigned.iter().zip(column) {
                sums[number] += f64::from(component);
            }
            for ((centroid, sum), &count) in plane.iter_mut().zip(sums).zip(&counts) {
                if count > 0 {
                    *centroid = (sum / f64::from(count)) as f32;
                }
            }
        }
    }
}

/// Returns the place of the smallest number, the first one of equal ones.
pub(crate) fn nearest(distances: &Row) -> usize {
    // Lanes let the compiler compare several numbers at once.
    let mut lanes = [f32::INFINITY; 8];
    for block in distances.as_chunks::<8>().0 {
        for (least, &distance) in lanes.iter_mut().zip(block) {
            *least = if distance < *least { distance } else { *least };
        }
    }
    let least = lanes.into_iter().fold(f32::INFINITY, f32::min);
    distances
        .iter()
        .position(|&distance| distance <= least)
        .unwrap_or(0)
}

/// Lowers the distance of each point to the one from a new centroid, and returns their sum.
fn lower_distances(columns: &[Vec<f32>], chosen: usize, distances: &mut [f32]) -> f64 {
    let mut new = vec![0.0_f32; distances.len()];
    for column in columns {
        let centroid = column[chosen];
        for (sum, &component) in new.iter_mut().zip(column) {
            let difference = component - centroid;
            *sum += difference * difference;
        }
    }
    let mut total = 0.0;
    for (distance, new) in distances.iter_mut().zip(new) {
        *distance = if new < *distance { new } else { *distance };
        total += f64::from(*distance);
    }
    total
}

/// Returns the first point at which the running sum of distances passes `share`.
fn at_share(distances: &[f32], share: f64) -> usize {
    let mut sum = 0.0;
    let mut last = 0;
    for (point, &distance) in distances.iter().enumerate() {
        if distance > 0.0 {
            sum += f64::from(distance);
            last = point;
            if sum > share {
                break;
            }
        }
    }
    last
}
