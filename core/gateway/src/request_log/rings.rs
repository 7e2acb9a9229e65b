//! The recorded requests: a ring for each reason, bounded by number and by bytes.

use super::{RecordReason, RequestRecord};
use orrery_engine::request::Charge;
use std::collections::VecDeque;
use std::sync::Arc;

/// The records of a ring.
const RECORDS: usize = 2_000;
/// The bytes of a ring, approximately.
const RING_BYTES: usize = 2 * 1024 * 1024;
/// The records that one reason adds in a second. All requests of a reader who follows are recorded.
const PER_SECOND: u32 = 200;

/// The rings of all reasons.
#[derive(Debug, Default)]
pub(super) struct Rings {
    rings: [Ring; RecordReason::ALL.len()],
    /// The number of the last record.
    last_number: u64,
}

/// The records of one reason, the oldest first.
#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<Arc<RequestRecord>>,
    bytes: usize,
    /// The second in which the last record was added, and the records of that second.
    second: u64,
    in_second: u32,
    /// Requests that were left out because of [`PER_SECOND`].
    left_out: u64,
}

/// The statuses that a reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    /// One status.
    Is(u16),
    /// The statuses of a hundred: 4 for 400 to 499.
    Hundred(u16),
}

/// The records that a reader wants.
#[derive(Clone, Debug, Default)]
pub struct RecordFilter {
    /// Only records after this number. Without one, the newest records.
    pub after: Option<u64>,
    /// The largest number of records.
    pub limit: usize,
    /// Only records of this database.
    pub database: Option<String>,
    /// Only records of this container.
    pub container: Option<String>,
    /// Only records with such a status.
    pub status: Option<StatusFilter>,
    /// Only records with at least this charge.
    pub min_charge: Option<Charge>,
    /// Only records of requests that took at least this time.
    pub min_microseconds: Option<u64>,
}

/// A page of records.
#[derive(Clone, Debug, Default)]
pub struct RecordPage {
    /// The records, in ascending order of their numbers.
    pub records: Vec<Arc<RequestRecord>>,
    /// The number after which the next page begins.
    pub next: u64,
    /// Requests that were not recorded because too many were in the same second.
    pub left_out: u64,
}

impl Rings {
    /// Counts a request that wants to be recorded at `now_ms`. Returns false if too many are.
    pub(super) fn has_room(&mut self, reason: RecordReason, now_ms: u64) -> bool {
        let ring = &mut self.rings[reason as usize];
        let second = now_ms / 1000;
        if ring.second != second {
            (ring.second, ring.in_second) = (second, 0);
        }
        ring.in_second = ring.in_second.saturating_add(1);
        if ring.in_second <= PER_SECOND || reason == RecordReason::Followed {
            return true;
        }
        ring.left_out += 1;
        false
    }

    /// Adds a record under the next number.
    pub(super) fn add(&mut self, mut record: RequestRecord) {
        self.last_number += 1;
        record.number = self.last_number;
        let ring = &mut self.rings[record.reason as usize];
        ring.bytes += record.bytes();
        ring.records.push_back(Arc::new(record));
        while ring.records.len() > RECORDS || ring.bytes > RING_BYTES {
            let Some(oldest) = ring.records.pop_front() else {
                return;
            };
            ring.bytes -= oldest.bytes();
        }
    }

    /// Returns the records that a filter selects.
    pub(super) fn read(&self, filter: &RecordFilter) -> RecordPage {
        let mut records = Vec::new();
        for ring in &self.rings {
            let after = filter.after.unwrap_or(0);
            let from = ring.records.partition_point(|r| r.number <= after);
            let wanted = ring.records.range(from..).filter(|r| filter.selects(r));
            records.extend(wanted.cloned());
        }
        records.sort_unstable_by_key(|record| record.number);

        // With a position the page continues there; without one it has the newest records.
        let mut next = self.last_number.max(filter.after.unwrap_or(0));
        if filter.after.is_none() {
            let surplus = records.len().saturating_sub(filter.limit);
            records.drain(..surplus);
        } else if records.len() > filter.limit {
            records.truncate(filter.limit);
            next = records.last().map_or(next, |record| record.number);
        }
        RecordPage {
            records,
            next,
            left_out: self.rings.iter().map(|ring| ring.left_out).sum(),
        }
    }
}

impl RecordFilter {
    fn selects(&self, record: &RequestRecord) -> bool {
        let is_in = |wanted: &Option<String>, found: &str| match wanted {
            Some(wanted) => wanted == found,
            None => true,
        };
        let has_status = match self.status {
            None => true,
            Some(StatusFilter::Is(status)) => record.status == status,
            Some(StatusFilter::Hundred(hundred)) => record.status / 100 == hundred,
        };
        has_status
            && is_in(&self.database, &record.database)
            && is_in(&self.container, &record.container)
            && self.min_charge.is_none_or(|min| record.charge >= min)
            && self
                .min_microseconds
                .is_none_or(|min| record.microseconds >= min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(reason: RecordReason, status: u16, container: &str) -> RequestRecord {
        RequestRecord {
            reason,
            status,
            container: container.into(),
            ..RequestRecord::empty(reason)
        }
    }

    fn numbers(page: &RecordPage) -> Vec<u64> {
        page.records.iter().map(|record| record.number).collect()
    }

    #[test]
    fn a_reader_follows_by_number_over_all_rings() {
        let mut rings = Rings::default();
        rings.add(record(RecordReason::Slow, 200, "a"));
        rings.add(record(RecordReason::Failed, 404, "a"));
        rings.add(record(RecordReason::Slow, 200, "b"));
        rings.add(record(RecordReason::Failed, 500, "b"));
        let mut filter = RecordFilter {
            limit: 2,
            ..RecordFilter::default()
        };
        let newest = rings.read(&filter);
        assert_eq!((numbers(&newest), newest.next), (vec![3, 4], 4));
        filter.after = Some(0);
        let first = rings.read(&filter);
        assert_eq!((numbers(&first), first.next), (vec![1, 2], 2));
        filter.after = Some(first.next);
        let second = rings.read(&filter);
        assert_eq!((numbers(&second), second.next), (vec![3, 4], 4));
        filter.after = Some(4);
        assert_eq!(
            (numbers(&rings.read(&filter)), rings.read(&filter).next),
            (vec![], 4)
        );
    }

    #[test]
    fn a_filter_selects_by_container_status_charge_and_time() {
        let mut rings = Rings::default();
        rings.add(record(RecordReason::Slow, 200, "a"));
        rings.add(record(RecordReason::Failed, 404, "a"));
        rings.add(record(RecordReason::Failed, 412, "b"));
        let mut expensive = record(RecordReason::Expensive, 200, "b");
        (expensive.charge, expensive.microseconds) = (Charge(9_000), 77);
        rings.add(expensive);
        let all = RecordFilter {
            limit: 10,
            ..RecordFilter::default()
        };
        let of = |filter: RecordFilter| numbers(&rings.read(&filter));
        assert_eq!(of(all.clone()), [1, 2, 3, 4]);
        let status = |status| RecordFilter {
            status: Some(status),
            ..all.clone()
        };
        assert_eq!(of(status(StatusFilter::Is(404))), [2]);
        assert_eq!(of(status(StatusFilter::Hundred(4))), [2, 3]);
        let in_b = RecordFilter {
            container: Some("b".into()),
            ..all.clone()
        };
        assert_eq!(of(in_b), [3, 4]);
        let expensive = RecordFilter {
            min_charge: Some(Charge(9_000)),
            min_microseconds: Some(77),
            ..all.clone()
        };
        assert_eq!(of(expensive), [4]);
    }

    #[test]
    fn a_flood_of_one_reason_leaves_the_records_of_the_others() {
        let mut rings = Rings::default();
        rings.add(record(RecordReason::Slow, 200, "slow"));
        for n in 0..100_000 {
            let now_ms = 1_000_000 + n / 10;
            if rings.has_room(RecordReason::Throttled, now_ms) {
                rings.add(record(RecordReason::Throttled, 429, "flood"));
            }
        }
        let page = rings.read(&RecordFilter {
            limit: usize::MAX,
            ..RecordFilter::default()
        });
        assert_eq!(page.records[0].container, "slow");
        assert_eq!(page.records.len(), 1 + RECORDS);
        // Ten seconds had 200 records each of 10,000 requests.
        assert_eq!(page.left_out, 100_000 - 10 * 200);
    }

    #[test]
    fn long_texts_do_not_make_a_ring_larger_than_its_bound() {
        let mut rings = Rings::default();
        for _ in 0..5_000 {
            let mut long = record(RecordReason::Failed, 400, "c");
            long.path = "x".repeat(100_000);
            rings.add(long);
        }
        let ring = &rings.rings[RecordReason::Failed as usize];
        assert!(ring.bytes <= RING_BYTES && ring.records.len() < 25);
    }
}
