//! The limits on the sizes of partitions: those of the account, and those of single databases that
//! have limits of their own, and the sizes from which vector indexes are approximate.
//!
//! A container reads its limits once, when it is opened, by the name of its database.

use crate::partition::key_limit::{KeyLimit, KeyReports};
use orrery_model::memory::MemoryBudget;
use std::sync::Arc;

/// Vectors of a partition from which on an index of the type `quantizedFlat` or `diskANN` proposes
/// candidates. Fewer are compared as fast.
pub const APPROXIMATE_FROM: u64 = 10_000;

/// Codes that are compared in the time in which a search in a graph reads a list.
const CODES_PER_LIST: u64 = 250;

/// The use of quantised vectors.
#[derive(Clone, Debug)]
pub(crate) struct ApproximateSearch {
    /// Vectors of a partition from which on they are quantised.
    pub from: u64,
    /// Codes that are compared in the time in which a search in a graph reads a list. A test that
    /// quantises fewer vectors has fewer in proportion, so that its graphs are searched.
    pub codes_per_list: usize,
    /// The memory for queries.
    pub memory: Arc<MemoryBudget>,
    /// The part of it that the quantised vectors of all partitions may take.
    pub codes: Arc<MemoryBudget>,
}

impl ApproximateSearch {
    /// Returns the use of quantised vectors from a number of vectors on. Their codes may take half
    /// of the memory for queries.
    pub(crate) fn new(from: u64, memory: &Arc<MemoryBudget>) -> Self {
        ApproximateSearch {
            from,
            codes_per_list: (from * CODES_PER_LIST).div_ceil(APPROXIMATE_FROM) as usize,
            memory: Arc::clone(memory),
            codes: MemoryBudget::new(memory.limit() / 2),
        }
    }
}

/// Limits of one database, in place of those of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseLimits {
    /// The id of the database, which need not exist.
    pub database: String,
    /// Bytes of items beyond which a physical partition is split.
    pub partition_bytes: u64,
    /// Bytes of items that one logical partition may have.
    pub logical_partition_bytes: u64,
}

/// The limits of all containers, and the reports about logical partitions near to theirs.
pub(crate) struct SizeLimits {
    /// Those of the account; the name of its database is empty and means nothing.
    account: DatabaseLimits,
    databases: Vec<DatabaseLimits>,
    approximate: ApproximateSearch,
    /// Reports about the logical partitions of all databases.
    pub reports: Arc<KeyReports>,
}

/// The limits of one container.
pub(crate) struct ContainerLimits {
    /// Bytes of items beyond which a physical partition is split.
    pub partition_bytes: u64,
    /// The limit on logical partitions.
    pub key: KeyLimit,
    /// The use of quantised vectors.
    pub approximate: ApproximateSearch,
}

impl SizeLimits {
    /// Returns the limits of an account in bytes, for physical and for logical partitions, with
    /// those of single databases. Of two limits of one database the first counts.
    pub(crate) fn new(
        partition_bytes: u64,
        logical_partition_bytes: u64,
        databases: Vec<DatabaseLimits>,
        approximate: ApproximateSearch,
    ) -> Self {
        SizeLimits {
            account: DatabaseLimits {
                database: String::new(),
                partition_bytes,
                logical_partition_bytes,
            },
            databases,
            approximate,
            reports: Arc::default(),
        }
    }

    /// Returns the limits of the containers of a database.
    pub(crate) fn of_database(&self, database: &str) -> ContainerLimits {
        let own = self.databases.iter().find(|own| own.database == database);
        let limits = own.unwrap_or(&self.account);
        ContainerLimits {
            partition_bytes: limits.partition_bytes,
            key: KeyLimit::new(limits.logical_partition_bytes, Arc::clone(&self.reports)),
            approximate: self.approximate.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_limits_of_its_own_has_those_of_the_account() {
        let lab = DatabaseLimits {
            database: "lab".to_owned(),
            partition_bytes: 20,
            logical_partition_bytes: 10,
        };
        let approximate = ApproximateSearch::new(APPROXIMATE_FROM, &MemoryBudget::unlimited());
        let limits = SizeLimits::new(2_000, 1_000, vec![lab], approximate);
        let sizes = |database: &str| {
            let of = limits.of_database(database);
            (of.partition_bytes, of.key.bytes_max())
        };
        assert_eq!(sizes("lab"), (20, 10));
        assert_eq!(sizes("blog"), (2_000, 1_000));
    }
}
