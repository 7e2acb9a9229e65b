//! Faults of the rows of one kind: a write of the engine that was forgotten or went wrong.
//!
//! Left out: kinds of rows that no world writes (rests of large items, sizes of large logical
//! partitions, vectors, words), and deletions that no world makes (of databases, containers and
//! snapshots).

use orrery_storage::{Commit, PartitionId};

/// The partition of the store with the rows of the catalog.
const CATALOG: PartitionId = PartitionId(0);

/// Changes of what is written.
const WRITTEN: &[RowChange] = &[
    RowChange::PutDropped,
    RowChange::ValueCut,
    RowChange::ValueFlipped,
    RowChange::KeyMoved,
    RowChange::KeyDoubled,
];
/// These, and a forgotten deletion.
const ALL: &[RowChange] = &[
    RowChange::PutDropped,
    RowChange::DeleteDropped,
    RowChange::ValueCut,
    RowChange::ValueFlipped,
    RowChange::KeyMoved,
    RowChange::KeyDoubled,
];
/// Changes of a row whose doubled key is one of the same sense.
const WRITTEN_ONCE: &[RowChange] = &[
    RowChange::PutDropped,
    RowChange::ValueCut,
    RowChange::ValueFlipped,
    RowChange::KeyMoved,
];
/// Changes of a row without a value.
const WITHOUT_VALUE: &[RowChange] = &[
    RowChange::PutDropped,
    RowChange::DeleteDropped,
    RowChange::KeyMoved,
    RowChange::KeyDoubled,
];
/// Changes of a row without a value that may be there twice.
const WITHOUT_VALUE_ONCE: &[RowChange] = &[
    RowChange::PutDropped,
    RowChange::DeleteDropped,
    RowChange::KeyMoved,
];
/// Changes of a row that only the clients of one name read.
const READ_BY_NAME: &[RowChange] = &[
    RowChange::PutDropped,
    RowChange::ValueCut,
    RowChange::ValueFlipped,
];

/// The kinds of rows, by the first byte of their keys (`core/engine/src/partition/keys.rs`,
/// `core/engine/src/catalog`), with the changes that do harm in the worlds of the tests.
const KINDS: &[(&str, RowKind, &[RowChange])] = &[
    ("item", RowKind::item(0x10), ALL),
    ("primary key", RowKind::item(0x12), ALL),
    ("natural order", RowKind::item(0x13), ALL),
    ("change feed", RowKind::item(0x14), ALL),
    ("counters", RowKind::item(0x15), WRITTEN),
    ("path", RowKind::item(0x16), WRITTEN),
    ("entries per path", RowKind::item(0x17), WRITTEN),
    ("commit log", RowKind::item(0x18), WRITTEN),
    ("time to live", RowKind::item(0x19), ALL),
    ("unique key", RowKind::item(0x1A), ALL),
    ("policy generations", RowKind::item(0x1B), WRITTEN),
    ("deletion by key", RowKind::item(0x1C), WRITTEN_ONCE),
    ("version", RowKind::item(0x1D), WRITTEN),
    ("beginning of versions", RowKind::item(0x1E), WRITTEN_ONCE),
    ("index term", RowKind::item(0x90), WITHOUT_VALUE),
    ("record of the catalog", RowKind::catalog(0x20), WRITTEN),
    (
        "key space to destroy",
        RowKind::catalog(0x21),
        WITHOUT_VALUE_ONCE,
    ),
    ("range", RowKind::catalog(0x22), WRITTEN),
    ("snapshot", RowKind::catalog(0x23), READ_BY_NAME),
    ("numbered set", RowKind::catalog(0x25), WRITTEN),
];

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowKind {
    tag: u8,
    is_of_catalog: bool,
}

impl RowKind {
    const fn item(tag: u8) -> RowKind {
        RowKind {
            tag,
            is_of_catalog: false,
        }
    }

    const fn catalog(tag: u8) -> RowKind {
        RowKind {
            tag,
            is_of_catalog: true,
        }
    }
}

/// A change of the rows of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowChange {
    PutDropped,
    DeleteDropped,
    ValueCut,
    ValueFlipped,
    KeyMoved,
    KeyDoubled,
}

impl RowChange {
    fn name(self) -> &'static str {
        match self {
            RowChange::PutDropped => "is not written",
            RowChange::DeleteDropped => "is not deleted",
            RowChange::ValueCut => "is written without its last byte",
            RowChange::ValueFlipped => "is written with a flipped bit",
            RowChange::KeyMoved => "is written under the next key",
            RowChange::KeyDoubled => "is written under the next key too",
        }
    }
}

/// A fault of the rows of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFault {
    kind: RowKind,
    change: RowChange,
}

impl RowFault {
    /// Returns all faults with their descriptions.
    pub fn all() -> Vec<(String, RowFault)> {
        let mut faults = Vec::new();
        for (name, kind, changes) in KINDS {
            for change in *changes {
                let fault = RowFault {
                    kind: *kind,
                    change: *change,
                };
                faults.push((format!("{name}: {}", change.name()), fault));
            }
        }
        faults
    }

    /// Returns true if a commit has a row that the fault would change.
    pub(super) fn concerns(&self, partition: PartitionId, commit: &Commit) -> bool {
        if (partition == CATALOG) != self.kind.is_of_catalog {
            return false;
        }
        match self.change {
            RowChange::DeleteDropped => commit.deletes.iter().any(|key| self.is_of_kind(key)),
            RowChange::ValueCut | RowChange::ValueFlipped => {
                let mut puts = commit.puts.iter();
                puts.any(|(key, value)| self.is_of_kind(key) && !value.is_empty())
            }
            _ => commit.puts.iter().any(|(key, _)| self.is_of_kind(key)),
        }
    }

    /// Changes the first row of the kind.
    pub(super) fn apply(&self, commit: &mut Commit) {
        if self.change == RowChange::DeleteDropped {
            let first = commit.deletes.iter().position(|key| self.is_of_kind(key));
            first.map(|place| commit.deletes.remove(place));
            return;
        }
        let mut puts = commit.puts.iter();
        let needs_value = matches!(self.change, RowChange::ValueCut | RowChange::ValueFlipped);
        let first = puts
            .position(|(key, value)| self.is_of_kind(key) && !(needs_value && value.is_empty()));
        let Some(place) = first else {
            return;
        };
        match self.change {
            RowChange::PutDropped => {
                commit.puts.remove(place);
            }
            RowChange::ValueCut => {
                commit.puts[place].1.pop();
            }
            RowChange::ValueFlipped => {
                if let Some(last) = commit.puts[place].1.last_mut() {
                    *last ^= 1;
                }
            }
            RowChange::KeyMoved => next_key(&mut commit.puts[place].0),
            RowChange::KeyDoubled => {
                let mut row = commit.puts[place].clone();
                next_key(&mut row.0);
                commit.puts.push(row);
            }
            RowChange::DeleteDropped => {}
        }
    }

    fn is_of_kind(&self, key: &[u8]) -> bool {
        key.first() == Some(&self.kind.tag)
    }
}

/// Changes a key into one that lies close behind it.
fn next_key(key: &mut [u8]) {
    if let Some(last) = key.last_mut() {
        *last = last.wrapping_add(1);
    }
}
