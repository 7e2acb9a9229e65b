//! The physical partition of an item: the partition key range that contains its hash.

use orrery_client::PartitionKeyRange;
use orrery_model::partition_key::Epk;
use std::sync::Arc;

/// The partition key ranges of a container in order.
#[derive(Debug, Clone)]
pub(super) struct Router {
    /// First hash of each range, and its id.
    ranges: Vec<(Epk, Arc<str>)>,
}

impl Router {
    /// Creates a router from ranges in key order.
    ///
    /// # Errors
    /// A description of a range whose bound is not hexadecimal.
    pub(super) fn new(ranges: &[PartitionKeyRange]) -> Result<Self, String> {
        let mut parsed = Vec::with_capacity(ranges.len());
        for range in ranges {
            let min = Epk::from_hex(&range.min).map_err(|e| format!("range {}: {e}", range.id))?;
            parsed.push((min, Arc::from(range.id.as_str())));
        }
        Ok(Self { ranges: parsed })
    }

    /// Returns the id of the range that contains `epk`.
    pub(super) fn range_of(&self, epk: &Epk) -> Arc<str> {
        let after = self.ranges.partition_point(|(min, _)| min <= epk);
        match self.ranges.get(after.saturating_sub(1)) {
            Some((_, id)) => id.clone(),
            None => Arc::from("0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_belongs_to_the_last_range_that_begins_before_it() {
        let range = |id: &str, min: &str| PartitionKeyRange {
            id: id.into(),
            min: min.into(),
            max: String::new(),
            parents: vec![],
        };
        let router = Router::new(&[range("1", ""), range("2", "1F")]).unwrap();
        let of = |hex: &str| router.range_of(&Epk::from_hex(hex).unwrap());
        assert_eq!(
            (&*of("00"), &*of("1E"), &*of("1F"), &*of("3A")),
            ("1", "1", "2", "2")
        );
        assert!(Router::new(&[range("1", "XY")]).is_err());
    }
}
