//! Places as index values: the cells of a grid that is halved again and again in both directions.
//!
//! A cell is named by the quarters that lead to it, one byte 1 to 4 each, and a 0 at the end; so the cells within a cell
//! are one stretch of keys. A figure has an entry for each of up to four cells, about its own size, that cover its box.
//! A search asks for the cells that cover its box, all that lie in them, and those that they lie in.

use orrery_sql::Extent;
use std::collections::BTreeSet;

/// Halvings at most: on the Earth a cell is then some 40 m wide at the equator.
const LEVELS: u32 = 20;
/// Halvings that a search goes beyond the size of its box, to leave less around it.
const FINER: u32 = 1;
const END: u8 = 0;

/// The part of the plane that the grid divides; what lies outside counts as at its edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Its sides.
    pub extent: Extent,
    /// Whether it is a part of a plane, rather than the Earth.
    pub is_planar: bool,
}

impl Frame {
    /// The Earth.
    pub const EARTH: Frame = Frame {
        extent: Extent {
            west: -180.0,
            south: -90.0,
            east: 180.0,
            north: 90.0,
        },
        is_planar: false,
    };

    /// The cells that a figure within these boxes is entered under.
    pub fn cells(&self, boxes: &[Extent]) -> BTreeSet<Vec<u8>> {
        boxes
            .iter()
            .flat_map(|extent| self.cover(extent, 0))
            .map(|mut cell| {
                cell.push(END);
                cell
            })
            .collect()
    }

    /// The stretches of values (from, to) under which all figures are entered that touch one of these boxes.
    pub fn generations(&self, boxes: &[Extent]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let cells: BTreeSet<Vec<u8>> = boxes
            .iter()
            .flat_map(|extent| self.cover(extent, FINER))
            .collect();
        let mut generations = BTreeSet::new();
        for cell in &cells {
            let is_above = |other: &Vec<u8>| other.len() < cell.len() && cell.starts_with(other);
            if !cells.iter().any(is_above) {
                generations.insert((cell.clone(), crate::partition::keys::after(cell)));
            }
            for length in 0..cell.len() {
                let (mut from, mut to) = (cell[..length].to_vec(), cell[..length].to_vec());
                from.push(END);
                to.push(END + 1);
                if !cells.contains(&cell[..length])
                    && !cells
                        .iter()
                        .any(|c| c.len() < length && cell.starts_with(c))
                {
                    generations.insert((from, to));
                }
            }
        }
        generations.into_iter().collect()
    }

    /// The cells of one level that cover a box; without their ends.
    fn cover(&self, extent: &Extent, finer: u32) -> Vec<Vec<u8>> {
        let frame = &self.extent;
        let part = |value: f64, from: f64, to: f64| ((value - from) / (to - from)).clamp(0.0, 1.0);
        let (left, right) = (
            part(extent.west, frame.west, frame.east),
            part(extent.east, frame.west, frame.east),
        );
        let (below, above) = (
            part(extent.south, frame.south, frame.north),
            part(extent.north, frame.south, frame.north),
        );
        let size = (right - left).max(above - below);
        // The finest level whose cells are at least as large.
        let level = if size > 0.0 {
            ((-size.log2()).floor().max(0.0) as u32).saturating_add(finer)
        } else {
            LEVELS
        };
        let level = level.min(LEVELS);
        let count = 1u32 << level;
        let epk_prefix = |part: f64| ((part * f64::from(count)) as u32).min(count - 1);
        let mut cells = Vec::new();
        for x in epk_prefix(left)..=epk_prefix(right) {
            for y in epk_prefix(below)..=epk_prefix(above) {
                cells.push(
                    (0..level)
                        .rev()
                        .map(|bit| 1 + (x >> bit & 1) as u8 + 2 * (y >> bit & 1) as u8)
                        .collect(),
                );
            }
        }
        cells
    }
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

    fn finds(search: &[Extent], figure: &[Extent]) -> bool {
        let cells = Frame::EARTH.cells(figure);
        Frame::EARTH
            .generations(search)
            .iter()
            .any(|(from, to)| cells.iter().any(|cell| from <= cell && cell < to))
    }

    proptest! {
        #[test]
        fn what_touches_is_found(a in extent(), b in extent()) {
            prop_assert!(!a.touches(&b) || finds(&[a], &[b]), "{a:?} {b:?}");
        }

        #[test]
        fn stretches_do_not_overlap(a in extent(), b in extent()) {
            let generations = Frame::EARTH.generations(&[a, b]);
            prop_assert!(generations.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{generations:?}");
        }
    }

    #[test]
    fn what_is_far_is_not_found() {
        let at = |x: f64, y: f64| {
            [Extent {
                west: x,
                south: y,
                east: x + 0.1,
                north: y + 0.1,
            }]
        };
        assert!(!finds(&at(8.0, 47.0), &at(9.0, 47.0)));
        assert!(Frame::EARTH.cells(&at(8.0, 47.0)).len() <= 4);
        assert!(Frame::EARTH.generations(&at(8.0, 47.0)).len() < 40);
    }
}
