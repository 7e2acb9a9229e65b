//! Spatial values as index values: cells of a grid whose cells are halved repeatedly in both
//! directions.
//!
//! A cell is named by the quarters that lead to it, one byte of 1 to 4 for each level, and the
//! index value of a cell ends with a 0 byte. All cells inside a cell are therefore one range of
//! keys. A geometry has one entry for each of up to four cells that cover its bounding box; the
//! cells are about as large as the box. A search reads the cells that cover its own box, all cells
//! inside them, and all cells that contain them. The entries are a superset of the matches: the
//! query tests the geometry of each item.

use super::paths::Step;
use super::policy::{SearchIndex, parse_path, path_text};
use crate::partition::keys;
use orrery_sql::Extent;
use std::collections::BTreeSet;

/// Largest number of halvings. On the Earth a cell of the last level is about 40 m wide at the
/// equator.
const LEVELS: u32 = 20;
/// Levels by which the cells of a search are finer than its box, so that they cover less around the
/// box.
const SEARCH_LEVELS_FINER: u32 = 1;
/// Last byte of the index value of a cell. Smaller than every quarter.
const END: u8 = 0;

/// A range of index values: from (inclusive) and to (exclusive).
type ValueRange = (Vec<u8>, Vec<u8>);

/// The grid of a spatial index. Coordinates outside of the extent count as on its edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpatialGrid {
    /// Sides of the area that the grid divides.
    pub extent: Extent,
    /// True for a plane, false for the Earth.
    pub is_planar: bool,
}

/// A spatial index over the geometries at one path.
#[derive(Clone, Debug)]
pub struct SpatialIndex {
    /// The path, which has only names.
    pub path: Vec<Step>,
    /// The grid of the index values.
    pub grid: SpatialGrid,
    /// Name of the index in the dictionary of paths.
    pub text: String,
}

impl SpatialIndex {
    /// Returns the index of an entry of the policy, or `None` for a path of several values. Queries
    /// over such a path use no spatial index.
    pub(super) fn of(entry: &SearchIndex) -> Option<Self> {
        let (path, _) = parse_path(&entry.path)?;
        if path.is_empty() || path.contains(&Step::Element) {
            return None;
        }
        let side = |name: &str| entry.body.get("boundingBox")?.get(name)?.as_f64();
        let grid = match (side("xmin"), side("ymin"), side("xmax"), side("ymax")) {
            (Some(west), Some(south), Some(east), Some(north)) => SpatialGrid {
                extent: Extent {
                    west,
                    south,
                    east,
                    north,
                },
                is_planar: true,
            },
            _ => SpatialGrid::EARTH,
        };
        // Cells of different grids are different values, so the name of the index names its grid.
        let grid_text = if grid.is_planar {
            format!(" in {:?}", grid.extent)
        } else {
            String::new()
        };
        Some(SpatialIndex {
            text: format!("spatial {}{grid_text}", path_text(&path)),
            path,
            grid,
        })
    }
}

impl SpatialGrid {
    /// The grid of the Earth, in degrees.
    pub const EARTH: SpatialGrid = SpatialGrid {
        extent: Extent {
            west: -180.0,
            south: -90.0,
            east: 180.0,
            north: 90.0,
        },
        is_planar: false,
    };

    /// Returns the index values of a geometry with these bounding boxes.
    pub fn cells(&self, boxes: &[Extent]) -> BTreeSet<Vec<u8>> {
        let mut values = BTreeSet::new();
        for extent in boxes {
            for mut cell in self.cover(extent, 0) {
                cell.push(END);
                values.insert(cell);
            }
        }
        values
    }

    /// Returns the ranges of index values that hold every geometry whose box touches one of these
    /// boxes. The ranges ascend and do not overlap.
    pub fn search_ranges(&self, boxes: &[Extent]) -> Vec<ValueRange> {
        let mut cells: BTreeSet<Vec<u8>> = BTreeSet::new();
        for extent in boxes {
            cells.extend(self.cover(extent, SEARCH_LEVELS_FINER));
        }

        let mut ranges = BTreeSet::new();
        for cell in &cells {
            // A cell inside another cell of the search is part of the range of that cell.
            let is_nested = cells
                .iter()
                .any(|other| other.len() < cell.len() && cell.starts_with(other));
            if !is_nested {
                ranges.insert((cell.clone(), keys::after(cell)));
            }

            // Larger geometries are entered under the cells that contain this cell.
            for length in 0..cell.len() {
                let ancestor = &cell[..length];
                let is_searched = cells.contains(ancestor)
                    || cells
                        .iter()
                        .any(|other| other.len() < length && cell.starts_with(other));
                if !is_searched {
                    let from = [ancestor, &[END]].concat();
                    let to = [ancestor, &[END + 1]].concat();
                    ranges.insert((from, to));
                }
            }
        }
        ranges.into_iter().collect()
    }

    /// Returns the cells of one level that cover a box, without their end bytes. The level is the
    /// finest one whose cells are at least as large as the box, plus `levels_finer`.
    fn cover(&self, extent: &Extent, levels_finer: u32) -> Vec<Vec<u8>> {
        // The sides of the box as fractions of the sides of the grid, 0 to 1.
        let grid = &self.extent;
        let left = fraction(extent.west, grid.west, grid.east);
        let right = fraction(extent.east, grid.west, grid.east);
        let bottom = fraction(extent.south, grid.south, grid.north);
        let top = fraction(extent.north, grid.south, grid.north);

        let size = (right - left).max(top - bottom);
        let level = if size > 0.0 {
            ((-size.log2()).floor().max(0.0) as u32).saturating_add(levels_finer)
        } else {
            LEVELS
        };
        let level = level.min(LEVELS);

        // The cells by column and row; each bit of both numbers gives the quarter of one level.
        let count = 1u32 << level;
        let cell_at = |fraction: f64| ((fraction * f64::from(count)) as u32).min(count - 1);
        let mut cells = Vec::new();
        for x in cell_at(left)..=cell_at(right) {
            for y in cell_at(bottom)..=cell_at(top) {
                let mut cell = Vec::with_capacity(level as usize + 1);
                for bit in (0..level).rev() {
                    cell.push(1 + (x >> bit & 1) as u8 + 2 * (y >> bit & 1) as u8);
                }
                cells.push(cell);
            }
        }
        cells
    }
}

/// Returns the place of a value between two limits, from 0 to 1.
fn fraction(value: f64, from: f64, to: f64) -> f64 {
    ((value - from) / (to - from)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent() -> impl Strategy<Value = Extent> {
        let size = prop_oneof![Just(0.0), 0.0..0.001f64, 0.0..1.0f64, 0.0..90.0f64];
        (-190.0..190.0f64, -95.0..95.0f64, size.clone(), size).prop_map(
            |(west, south, width, height)| Extent {
                west,
                south,
                east: west + width,
                north: south + height,
            },
        )
    }

    fn finds(search: &[Extent], geometry: &[Extent]) -> bool {
        let cells = SpatialGrid::EARTH.cells(geometry);
        SpatialGrid::EARTH
            .search_ranges(search)
            .iter()
            .any(|(from, to)| cells.iter().any(|cell| from <= cell && cell < to))
    }

    proptest! {
        #[test]
        fn a_search_finds_every_geometry_that_its_box_touches(a in extent(), b in extent()) {
            prop_assert!(!a.touches(&b) || finds(&[a], &[b]), "{a:?} {b:?}");
        }

        #[test]
        fn search_ranges_do_not_overlap(a in extent(), b in extent()) {
            let ranges = SpatialGrid::EARTH.search_ranges(&[a, b]);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
        }
    }

    #[test]
    fn a_search_leaves_out_distant_geometries() {
        let at = |x: f64, y: f64| {
            [Extent {
                west: x,
                south: y,
                east: x + 0.1,
                north: y + 0.1,
            }]
        };
        assert!(!finds(&at(8.0, 47.0), &at(9.0, 47.0)));
        assert!(SpatialGrid::EARTH.cells(&at(8.0, 47.0)).len() <= 4);
        assert!(SpatialGrid::EARTH.search_ranges(&at(8.0, 47.0)).len() < 40);
    }
}
