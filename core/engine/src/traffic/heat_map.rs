//! The heat map: parts of the EPK space x time, in layers. Older layers have wider columns.
//!
//! The layers keep a week: 5 s for ten minutes, 1 min for two hours, 10 min for a day, 1 h for a
//! week. Columns that are too old for their layer are summed into one of the next, all columns of
//! the wider column's time at once, so no two columns cover the same moment.
//!
//! Promises: until the last layer drops a column, the sum over all columns is the sum of all
//! additions. A clock that goes back adds to the newest column.

use crate::request::{HEAT_BUCKETS, Heat, HeatColumn};
use std::collections::VecDeque;
use std::ops::AddAssign;

/// The columns of one width.
struct Layer {
    width_ms: u64,
    /// Milliseconds for which a column stays after its end.
    span_ms: u64,
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The layers. Each width is a multiple of the width before.
const LAYERS: [Layer; 4] = [
    Layer {
        width_ms: 5 * SECOND,
        span_ms: 10 * MINUTE,
    },
    Layer {
        width_ms: MINUTE,
        span_ms: 2 * HOUR,
    },
    Layer {
        width_ms: 10 * MINUTE,
        span_ms: DAY,
    },
    Layer {
        width_ms: HOUR,
        span_ms: 7 * DAY,
    },
];

impl AddAssign for Heat {
    fn add_assign(&mut self, more: Heat) {
        self.charge.0 += more.charge.0;
        self.bytes_written += more.bytes_written;
        self.requests = self.requests.saturating_add(more.requests);
        self.throttled = self.throttled.saturating_add(more.throttled);
    }
}

/// The heat map of one container: at most 539 closed columns with 25 bytes for each part that had
/// requests, 3.5 MB.
#[derive(Debug, Default)]
pub(crate) struct HeatMap {
    /// The latest time of a request.
    newest_ms: u64,
    open: Option<Box<Open>>,
    layers: [VecDeque<Column>; LAYERS.len()],
}

/// The open column, to which requests are added.
#[derive(Debug)]
struct Open {
    start_ms: u64,
    cells: [Heat; HEAT_BUCKETS],
    scans: Heat,
}

/// A closed column: only the parts that had requests.
#[derive(Debug)]
struct Column {
    start_ms: u64,
    buckets: Box<[u8]>,
    cells: Box<[Heat]>,
    scans: Heat,
}

impl HeatMap {
    /// Adds to a part of the EPK space, or to the requests for several parts, at a time.
    pub(crate) fn add(&mut self, now_ms: u64, bucket: Option<u8>, heat: Heat) {
        self.go_on(now_ms);
        let start_ms = self.newest_ms - self.newest_ms % LAYERS[0].width_ms;
        self.open.get_or_insert_with(|| Open::at(start_ms));
        if let Some(open) = &mut self.open {
            *bucket.map_or(&mut open.scans, |bucket| {
                &mut open.cells[usize::from(bucket)]
            }) += heat;
        }
    }

    /// Returns the columns that overlap `from_ms..to_ms`, the oldest first.
    pub(crate) fn columns(&mut self, now_ms: u64, from_ms: u64, to_ms: u64) -> Vec<HeatColumn> {
        self.go_on(now_ms);
        self.settle();
        let newest = self.open.as_ref().map(|open| open.closed());
        let closed = LAYERS.iter().zip(&self.layers).rev();
        let closed = closed
            .flat_map(|(layer, columns)| columns.iter().map(|column| (layer.width_ms, column)));
        closed
            .chain(newest.iter().map(|column| (LAYERS[0].width_ms, column)))
            .filter(|(width, column)| column.start_ms < to_ms && column.start_ms + width > from_ms)
            .map(|(width, column)| column.shown(width))
            .collect()
    }

    /// Closes the open column if its time is over.
    fn go_on(&mut self, now_ms: u64) {
        self.newest_ms = self.newest_ms.max(now_ms);
        let ends_ms = self
            .open
            .as_ref()
            .map(|open| open.start_ms + LAYERS[0].width_ms);
        if ends_ms.is_some_and(|ends_ms| ends_ms <= self.newest_ms) {
            let over = self.open.take();
            self.layers[0].extend(over.map(|open| open.closed()));
            self.settle();
        }
    }

    /// Moves columns that are too old for their layer into the next, and drops those that are too
    /// old for the last.
    fn settle(&mut self) {
        for (at, Layer { width_ms, span_ms }) in LAYERS.into_iter().enumerate() {
            let wider_ms = LAYERS.get(at + 1).map_or(width_ms, |wider| wider.width_ms);
            while let Some(first) = self.layers[at].front() {
                let start_ms = first.start_ms - first.start_ms % wider_ms;
                let end_ms = start_ms + wider_ms;
                if self.newest_ms < end_ms + span_ms {
                    break;
                }
                let ends = self.layers[at].partition_point(|column| column.start_ms < end_ms);
                let together = self.layers[at].drain(..ends);
                let sum = Open::sum(start_ms, together);
                if let Some(wider) = self.layers.get_mut(at + 1) {
                    wider.push_back(sum.closed());
                }
            }
        }
    }
}

impl Open {
    fn at(start_ms: u64) -> Box<Open> {
        Box::new(Open {
            start_ms,
            cells: [Heat::default(); HEAT_BUCKETS],
            scans: Heat::default(),
        })
    }

    fn sum(start_ms: u64, columns: impl Iterator<Item = Column>) -> Box<Open> {
        let mut sum = Open::at(start_ms);
        for column in columns {
            sum.scans += column.scans;
            column
                .parts()
                .for_each(|(bucket, heat)| sum.cells[usize::from(bucket)] += heat);
        }
        sum
    }

    fn closed(&self) -> Column {
        let asked = || {
            (0..=u8::MAX)
                .zip(&self.cells)
                .filter(|(_, heat)| **heat != Heat::default())
        };
        Column {
            start_ms: self.start_ms,
            buckets: asked().map(|(bucket, _)| bucket).collect(),
            cells: asked().map(|(_, heat)| *heat).collect(),
            scans: self.scans,
        }
    }
}

impl Column {
    fn parts(&self) -> impl Iterator<Item = (u8, Heat)> {
        self.buckets.iter().copied().zip(self.cells.iter().copied())
    }

    fn shown(&self, width_ms: u64) -> HeatColumn {
        let Column {
            start_ms, scans, ..
        } = *self;
        HeatColumn {
            start_ms,
            width_ms,
            buckets: self.parts().collect(),
            scans,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Charge;
    use proptest::prelude::*;

    const EVER: u64 = 1 << 50;

    fn heat(charge: u64) -> Heat {
        Heat {
            charge: Charge(charge),
            bytes_written: charge * 7,
            requests: 1,
            throttled: charge.is_multiple_of(3).into(),
        }
    }

    fn sum_of(columns: &[HeatColumn]) -> Heat {
        let mut sum = Heat::default();
        for column in columns {
            sum += column.scans;
            column.buckets.iter().for_each(|(_, heat)| sum += *heat);
        }
        sum
    }

    fn count(map: &HeatMap) -> usize {
        map.layers.iter().map(VecDeque::len).sum()
    }

    proptest! {
        #[test]
        fn sums_are_kept_and_columns_lie_side_by_side(
            steps in prop::collection::vec((0u64..2_000_000, any::<Option<u8>>(), 0u64..1_000_000), 1..300)
        ) {
            let (mut map, mut now, mut sum) = (HeatMap::default(), EVER, Heat::default());
            for (step, bucket, charge) in steps {
                now += step;
                map.add(now, bucket, heat(charge));
                sum += heat(charge);
            }
            // 300 steps of at most 2,000 s end within the week.
            let columns = map.columns(now, 0, u64::MAX);
            prop_assert_eq!(sum_of(&columns), sum);
            for pair in columns.windows(2) {
                prop_assert!(pair[0].start_ms + pair[0].width_ms <= pair[1].start_ms);
            }
            for column in &columns {
                prop_assert_eq!(column.start_ms % column.width_ms, 0);
                let layer = LAYERS.iter().find(|layer| layer.width_ms == column.width_ms).expect("a layer");
                let wider = LAYERS.iter().find(|other| other.width_ms > layer.width_ms).unwrap_or(layer);
                prop_assert!(column.start_ms + column.width_ms + layer.span_ms + wider.width_ms > now);
                prop_assert!(column.start_ms <= now);
                prop_assert!(column.buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        }
    }

    #[test]
    fn a_busy_week_stays_within_bounds_and_the_next_pushes_it_out() {
        let mut map = HeatMap::default();
        let mut most = 0;
        for step in 0..3 * 7 * 24 * 60 {
            map.add(EVER + step * MINUTE / 2, Some(step as u8), heat(1));
            most = most.max(count(&map));
        }
        // In steps of half a minute the first layer has a sixth of the columns that it could have.
        assert!((300..539).contains(&most), "{most}");
        let end = EVER + 3 * 7 * 24 * 60 * MINUTE / 2;
        let columns = map.columns(end, 0, u64::MAX);
        assert!(columns[0].start_ms + 7 * DAY + 2 * HOUR > end);
        assert_eq!(map.columns(end + 8 * DAY, 0, u64::MAX), Vec::new());
    }

    #[test]
    fn every_layer_is_full_after_a_week_of_fives_of_seconds() {
        let mut map = HeatMap::default();
        let end = EVER - EVER % HOUR + 8 * DAY;
        let mut now = EVER - EVER % HOUR;
        while now < end {
            map.add(now, None, heat(1));
            now += LAYERS[0].width_ms;
        }
        let counts: Vec<usize> = map.layers.iter().map(VecDeque::len).collect();
        assert!(
            counts
                .iter()
                .zip([133, 121, 139, 146])
                .all(|(found, most)| *found <= most),
            "{counts:?}"
        );
        assert!(
            counts
                .iter()
                .zip([119, 109, 131, 143])
                .all(|(found, least)| *found >= least),
            "{counts:?}"
        );
    }

    #[test]
    fn columns_are_chosen_by_their_time() {
        let mut map = HeatMap::default();
        let start = EVER - EVER % HOUR;
        for second in 0..20 {
            map.add(start + second * SECOND, Some(3), heat(second));
        }
        let starts = |from, to, map: &mut HeatMap| -> Vec<u64> {
            map.columns(start + 20 * SECOND, start + from, start + to)
                .iter()
                .map(|c| c.start_ms - start)
                .collect()
        };
        assert_eq!(starts(0, 20_000, &mut map), [0, 5_000, 10_000, 15_000]);
        assert_eq!(starts(5_000, 10_000, &mut map), [5_000]);
        assert_eq!(starts(9_999, 10_001, &mut map), [5_000, 10_000]);
        assert_eq!(starts(20_000, 30_000, &mut map), [0; 0]);
    }

    #[test]
    fn a_clock_that_goes_back_adds_to_the_newest_column() {
        let mut map = HeatMap::default();
        map.add(EVER, Some(1), heat(3));
        map.add(EVER - DAY, Some(1), heat(3));
        let columns = map.columns(EVER, 0, u64::MAX);
        assert_eq!(columns.len(), 1);
        assert_eq!(
            columns[0].buckets,
            [(
                1,
                Heat {
                    charge: Charge(6),
                    bytes_written: 42,
                    requests: 2,
                    throttled: 2
                }
            )]
        );
    }

    #[test]
    fn nothing_asked_is_nothing_kept() {
        let mut map = HeatMap::default();
        assert_eq!(map.columns(EVER, 0, u64::MAX), Vec::new());
        assert!(map.open.is_none());
    }
}
