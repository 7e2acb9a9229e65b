//! The findings of a verification, and its progress.

use crate::catalog::Container;
use crate::partition::Partition;
use crate::partition::keys::RowKind;
use orrery_model::Error;
use std::fmt;

/// Findings that are kept; further ones are counted.
const KEPT_MAX: usize = 1_000;
/// Bytes of rows after which the watch is asked.
const BYTES_PER_LOOK: u64 = 1 << 20;
/// Bytes of a key that a finding shows.
const KEY_BYTES_SHOWN: usize = 80;

/// The promise that a finding breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// A file is not as it was written.
    File,
    /// A block of a file is damaged.
    Block,
    /// A row cannot be read or decoded.
    Unreadable,
    /// The keys of a scan do not ascend.
    Order,
    /// A key belongs to no kind of row.
    UnknownRow,
    /// An item contradicts itself or its partition: its key, its range, its LSN.
    Item,
    /// A row that follows from an item is missing.
    MissingRow,
    /// A row follows from no item.
    SurplusRow,
    /// A row has another value than the one that follows from its item.
    DifferentRow,
    /// The counters of the partition are not those of its rows.
    Counters,
    /// The dictionary of paths has a gap or a path twice.
    Paths,
    /// The indexing policies that items follow are not known.
    Policies,
    /// The order of the change feed.
    Feed,
    /// The versions of the change feed with all versions and deletes.
    Versions,
    /// The sizes of logical partitions.
    KeySizes,
    /// The log of the last commits.
    CommitLog,
    /// A deletion of a logical partition.
    KeyDeletion,
    /// Quantised vectors and their graphs.
    QuantisedVectors,
    /// The EPK ranges of the partitions of a container.
    Ranges,
    /// The key spaces of the store that containers use.
    KeySpaces,
}

impl Check {
    /// Returns the word for people and for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Check::File => "damaged file",
            Check::Block => "damaged block",
            Check::Unreadable => "unreadable",
            Check::Order => "order of keys",
            Check::UnknownRow => "unknown row",
            Check::Item => "item",
            Check::MissingRow => "missing row",
            Check::SurplusRow => "surplus row",
            Check::DifferentRow => "different row",
            Check::Counters => "counters",
            Check::Paths => "paths",
            Check::Policies => "indexing policies",
            Check::Feed => "change feed",
            Check::Versions => "versions",
            Check::KeySizes => "key sizes",
            Check::CommitLog => "commit log",
            Check::KeyDeletion => "key deletion",
            Check::QuantisedVectors => "quantised vectors",
            Check::Ranges => "ranges",
            Check::KeySpaces => "key spaces",
        }
    }

    /// Returns true if the rows of the check are written anew by a rebuild whatever their kind.
    fn is_rebuilt(self) -> bool {
        matches!(
            self,
            Check::UnknownRow
                | Check::Counters
                | Check::Paths
                | Check::Policies
                | Check::KeySizes
                | Check::CommitLog
                | Check::QuantisedVectors
        )
    }
}

/// The place of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum FindingPlace {
    /// A file of the store, or the store as a whole.
    #[default]
    Store,
    /// A container as a whole.
    Container {
        /// The id of the database.
        database: String,
        /// The id of the container.
        container: String,
    },
    /// A physical partition.
    Partition {
        /// The id of the database.
        database: String,
        /// The id of the container.
        container: String,
        /// The partition key range id that clients see.
        range_id: u32,
    },
}

impl FindingPlace {
    pub(super) fn of(container: &Container, partition: &Partition) -> Self {
        FindingPlace::Partition {
            database: container.database_id().to_owned(),
            container: container.id().to_owned(),
            range_id: partition.id,
        }
    }
}

impl fmt::Display for FindingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindingPlace::Store => f.write_str("store"),
            FindingPlace::Container {
                database,
                container,
            } => write!(f, "dbs/{database}/colls/{container}"),
            FindingPlace::Partition {
                database,
                container,
                range_id,
            } => write!(f, "dbs/{database}/colls/{container}/pkranges/{range_id}"),
        }
    }
}

/// A difference between what is stored and what must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The broken promise.
    pub check: Check,
    /// The place.
    pub place: FindingPlace,
    /// The key of the row in hexadecimal digits, or the file of a block; empty if the finding is
    /// about no single row.
    pub key: String,
    /// The id of the item, as far as it is known.
    pub item: Option<String>,
    /// A sentence for a person.
    pub detail: String,
    /// True if [`Engine::rebuild_partition`](crate::Engine::rebuild_partition) mends it.
    pub can_be_rebuilt: bool,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// The rows that were read, by number.
    pub progress: VerifyProgress,
    /// The findings, at most 1,000 of them.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub omitted: u64,
    /// True unless the watch ended the verification.
    pub is_complete: bool,
}

/// The progress of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Physical partitions to read, as far as they are known.
    pub partitions: u64,
    /// Physical partitions that were read.
    pub partitions_done: u64,
    /// Items that were read.
    pub items: u64,
    /// Rows that were read.
    pub rows: u64,
    /// Bytes of the rows that were read.
    pub bytes: u64,
    /// Findings so far.
    pub findings: u64,
    /// The place that is being read.
    pub place: FindingPlace,
}

/// The findings of a verification so far.
#[derive(Default)]
pub(super) struct Findings {
    kept: Vec<Finding>,
    omitted: u64,
}

impl Findings {
    /// Adds a finding.
    pub(super) fn add(&mut self, finding: Finding) {
        match self.kept.len() < KEPT_MAX {
            true => self.kept.push(finding),
            false => self.omitted += 1,
        }
    }

    /// Adds the failure of a read.
    pub(super) fn add_failure(&mut self, place: FindingPlace, error: &Error) {
        PartitionFindings::new(place, self).add_failure(&[], error);
    }

    /// Counts findings without naming them.
    pub(super) fn omit(&mut self, count: u64) {
        self.omitted += count;
    }

    /// Returns true if every finding in a partition is one that a rebuild mends.
    pub(super) fn can_be_rebuilt(&self, partition: &str) -> bool {
        let of_partition = self
            .kept
            .iter()
            .filter(|one| one.place.to_string() == partition);
        of_partition.into_iter().all(|one| one.can_be_rebuilt)
    }

    /// Returns the number of findings.
    pub(super) fn count(&self) -> u64 {
        self.kept.len() as u64 + self.omitted
    }
}

/// The findings of one partition.
pub(super) struct PartitionFindings<'a> {
    place: FindingPlace,
    all: &'a mut Findings,
}

impl<'a> PartitionFindings<'a> {
    pub(super) fn new(place: FindingPlace, all: &'a mut Findings) -> Self {
        PartitionFindings { place, all }
    }

    /// Adds a finding about a row, or about the partition if the key is empty.
    pub(super) fn add(&mut self, check: Check, key: &[u8], detail: impl Into<String>) {
        self.add_of_item(check, key, None, detail);
    }

    /// Adds a finding about a row of an item.
    pub(super) fn add_of_item(
        &mut self,
        check: Check,
        key: &[u8],
        item: Option<&str>,
        detail: impl Into<String>,
    ) {
        let is_rebuilt_row = RowKind::of(key).is_some_and(RowKind::is_rebuilt);
        self.all.add(Finding {
            check,
            place: self.place.clone(),
            key: shown_key(key),
            item: item.map(str::to_owned),
            detail: detail.into(),
            can_be_rebuilt: check.is_rebuilt() || is_rebuilt_row,
        });
    }

    /// Adds the failure of a read of rows of a kind.
    pub(super) fn add_failure(&mut self, key: &[u8], error: &Error) {
        self.add(Check::Unreadable, key, error.operator_text());
    }

    /// Counts findings without naming them.
    pub(super) fn omit(&mut self, count: u64) {
        self.all.omit(count);
    }
}

/// Returns the beginning of a key in hexadecimal digits.
fn shown_key(key: &[u8]) -> String {
    let shown = &key[..key.len().min(KEY_BYTES_SHOWN)];
    let mut text: String = shown.iter().map(|byte| format!("{byte:02X}")).collect();
    if shown.len() < key.len() {
        text.push('…');
    }
    text
}

/// The observer of a verification.
pub(super) struct Watch<'a> {
    pub(super) progress: VerifyProgress,
    ask: &'a mut dyn FnMut(&VerifyProgress) -> bool,
    /// Bytes since the observer was asked last.
    unseen_bytes: u64,
    is_ended: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(ask: &'a mut dyn FnMut(&VerifyProgress) -> bool) -> Self {
        Watch {
            progress: VerifyProgress::default(),
            ask,
            unseen_bytes: 0,
            is_ended: false,
        }
    }

    /// Notes the partition that is read from now on, and how many are left with it.
    pub(super) fn begin_partition(&mut self, place: FindingPlace, left: usize) {
        self.progress.place = place;
        self.progress.partitions = self.progress.partitions_done + left as u64;
    }

    /// Counts rows that were read. Returns false once the observer has ended the verification.
    pub(super) fn read(&mut self, rows: u64, bytes: u64, findings: u64) -> bool {
        self.progress.rows += rows;
        self.progress.bytes += bytes;
        self.unseen_bytes += bytes;
        if self.unseen_bytes >= BYTES_PER_LOOK && !self.is_ended {
            self.unseen_bytes = 0;
            self.progress.findings = findings;
            self.is_ended = !(self.ask)(&self.progress);
        }
        !self.is_ended
    }

    /// Counts the bytes of a row that was counted before. Returns false once the observer has ended
    /// the verification.
    pub(super) fn read_again(&mut self, key: &[u8], value: &[u8]) -> bool {
        let bytes = (key.len() + value.len()) as u64;
        self.read(0, bytes, self.progress.findings)
    }

    /// Returns true once the observer has ended the verification.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Returns the result.
    pub(super) fn end(self, findings: Findings) -> Verification {
        let mut progress = self.progress;
        progress.findings = findings.count();
        Verification {
            progress,
            findings: findings.kept,
            omitted: findings.omitted,
            is_complete: !self.is_ended,
        }
    }
}
