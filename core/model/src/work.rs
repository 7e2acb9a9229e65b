//! The work of a request, counted but not priced. The engine's `throughput` module converts counts
//! to request units.

/// The counted work of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// The steps in the order of execution.
    pub steps: Vec<Step>,
}

/// One priced unit of work. Sizes are bytes of an item's JSON text, including system properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An item read by id.
    Read {
        /// Size of the item.
        bytes: usize,
    },
    /// A read that found no item, or no change since the given ETag or continuation.
    ReadNothing,
    /// An item created or deleted.
    Write {
        /// Size of the item.
        bytes: usize,
        /// Index entries written or removed.
        terms: u32,
    },
    /// An item replaced.
    Replace {
        /// Size before the replacement.
        old_bytes: usize,
        /// Size after the replacement.
        new_bytes: usize,
        /// Index entries removed and added.
        changed_terms: u32,
        /// Operations of the patch that made the replacement; 0 for a plain replacement.
        patch_operations: u32,
    },
    /// A write that was refused after its item had been examined.
    Refused {
        /// Size of the item to be written.
        bytes: usize,
        /// Index entries that the write would have changed; 0 if refused before indexing.
        terms: u32,
    },
    /// A page of a read feed or change feed.
    Feed {
        /// Size of each item on the page.
        items: Vec<usize>,
    },
    /// A database, container or script created, replaced or deleted.
    MetadataWrite {
        /// Size of the request body.
        bytes: usize,
    },
    /// A database, container or script read.
    MetadataRead,
    /// The part of a query that runs on one physical partition.
    Query(QueryWork),
    /// A script execution.
    Script {
        /// Work done through the script's collection object; for triggers, the write itself.
        inner: Vec<Step>,
        /// Number of scripts that ran.
        executions: u32,
    },
    /// The same read, feed page or query on a second replica, which strong consistency and bounded
    /// staleness require.
    SecondReplica(Box<Step>),
    /// A request that was refused because the throughput budget is spent.
    Throttled,
}

impl Step {
    /// Appends a [`Step::SecondReplica`] for each read among `steps[from..]`.
    ///
    /// A read without a result is not repeated: one replica answers it. Reads inside a script or a
    /// transactional batch are not repeated either, since they run on the replica that writes.
    pub fn add_second_replica_reads(steps: &mut Vec<Step>, from: usize) {
        let mut repeated = Vec::new();
        for step in steps.iter().skip(from) {
            let is_repeated = match step {
                Step::Read { .. } | Step::Query(_) => true,
                Step::Feed { items } => !items.is_empty(),
                _ => false,
            };
            if is_repeated {
                repeated.push(Step::SecondReplica(Box::new(step.clone())));
            }
        }
        steps.extend(repeated);
    }

    /// Converts a write that was rolled back to [`Step::Refused`]. Other steps are unchanged.
    pub fn into_refused(self) -> Step {
        match self {
            Step::Write { bytes, terms } => Step::Refused { bytes, terms },
            Step::Replace {
                new_bytes,
                changed_terms,
                ..
            } => Step::Refused {
                bytes: new_bytes,
                terms: changed_terms,
            },
            other => other,
        }
    }
}

/// Counters of a query on one physical partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryWork {
    /// Partition key range id of the partition, if it is known. Has no price.
    pub partition: Option<u32>,
    /// Equality values looked up in the index, and indexes opened for ORDER BY.
    pub seeks: u64,
    /// Distinct index values passed by range scans.
    pub scan_terms: u64,
    /// Index entries passed one by one, by ORDER BY and by intersections.
    pub walked_entries: u64,
    /// Vectors of a vector index compared with the vector of the query.
    pub compared_vectors: u64,
    /// Bytes of the rows of these vectors.
    pub compared_vector_bytes: u64,
    /// Items loaded.
    pub loaded_items: u64,
    /// Bytes of the loaded items.
    pub loaded_bytes: u64,
    /// Rows returned.
    pub returned_rows: u64,
    /// Bytes of the returned rows.
    pub returned_bytes: u64,
    /// Rows built by a SELECT list other than `*`.
    pub projected_rows: u64,
    /// Array elements iterated by JOIN and subqueries.
    pub array_elements: u64,
    /// 1 for an aggregate query.
    pub aggregates: u64,
    /// Calls of user-defined functions.
    pub udf_calls: u64,
}
