//! What a request did, counted and never priced: the engine's throughput room turns counts into request units.

/// The counted work of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// In the order in which it was done.
    pub steps: Vec<Step>,
}

/// One priced piece of work. Bytes are those of an item's JSON text with its system properties.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An item read by id.
    Read {
        /// Its size.
        bytes: usize,
    },
    /// A read that found nothing, or nothing newer.
    ReadNothing,
    /// An item created or deleted.
    Write {
        /// Its size.
        bytes: usize,
        /// Index entries written or removed.
        terms: u32,
    },
    /// An item replaced.
    Replace {
        /// Size before.
        old_bytes: usize,
        /// Size after.
        new_bytes: usize,
        /// Index entries removed and added.
        changed_terms: u32,
        /// Operations of the patch that made it; 0 if none did.
        patch_operations: u32,
    },
    /// A write that was refused after it had been looked at.
    Refused {
        /// Size of what was attempted.
        bytes: usize,
        /// Index entries it would have had; 0 if refused before indexing.
        terms: u32,
    },
    /// A page of a read feed or change feed.
    Feed {
        /// The size of each item on it.
        items: Vec<usize>,
    },
    /// A database, container or script created, replaced or deleted.
    MetadataWrite {
        /// Size of its body.
        bytes: usize,
    },
    /// Metadata read.
    MetadataRead,
    /// One request of a query to one physical partition.
    Query(QueryWork),
    /// A script: its own inner steps.
    Script {
        /// What it did through its collection object, or the write that its triggers surround.
        inner: Vec<Step>,
        /// How many scripts ran.
        executions: u32,
    },
    /// A read, feed or query asked of a second replica too, as strong consistency and bounded staleness do.
    SecondReplica(Box<Step>),
    /// A request that was refused because a budget is spent.
    Throttled,
}

impl Step {
    /// Asks a second replica too for what was read in the steps from `from` on. What finds nothing, or nothing newer,
    /// asks one, and what is read inside a script or a transactional batch asks the one that writes.
    pub fn add_second_replica_reads(steps: &mut Vec<Step>, from: usize) {
        let reads = |step: &&Step| match step {
            Step::Read { .. } | Step::Query(_) => true,
            Step::Feed { items } => !items.is_empty(),
            _ => false,
        };
        let again: Vec<Step> = steps
            .iter()
            .skip(from)
            .filter(reads)
            .map(|step| Step::SecondReplica(Box::new(step.clone())))
            .collect();
        steps.extend(again);
    }

    /// The same work if what it wrote was given up: looked at, and kept nowhere.
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

/// Counters of one query request to one physical partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryWork {
    /// Equality values looked up, and ORDER BY indexes opened.
    pub seeks: u64,
    /// Distinct index values passed by scans that are not seeks.
    pub scan_terms: u64,
    /// Index entries passed one by one: walks in order, intersections.
    pub walked_entries: u64,
    /// Items loaded.
    pub loaded_items: u64,
    /// Their bytes.
    pub loaded_bytes: u64,
    /// Rows returned.
    pub returned_rows: u64,
    /// Their bytes.
    pub returned_bytes: u64,
    /// Rows whose SELECT list is not `*`.
    pub projected_rows: u64,
    /// Array elements iterated.
    pub array_elements: u64,
    /// 1 for an aggregate query.
    pub aggregates: u64,
    /// Calls of user-defined functions.
    pub udf_calls: u64,
}
