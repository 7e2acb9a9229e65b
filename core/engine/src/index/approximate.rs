//! Quantised vectors and their graph: the rows that a background task keeps beside the vectors of
//! an index of the type `quantizedFlat` or `diskANN`.
//!
//! ```text
//! write of a client ──▶ vector·20, mark·23                       one commit
//! task (background/link.rs) ──▶ codes·21, lists·22, state·24,    one commit
//!                               marks removed
//! query ──▶ candidates: the nearest codes, marked vectors, vectors that the task has not reached
//!           scores: whole vectors
//! ```
//!
//! The task begins once a partition has so many vectors that comparing all of them takes long: it
//! trains a quantiser and then takes the vectors in the order of their rows. The state says how far
//! it has come; a vector that is written after the beginning is marked, and the mark is removed
//! when the task has taken the change in.
//!
//! Promises: each vector of the partition has a code, or a mark, or is not reached yet, so no item
//! is missed because of the task's delay. An index that is removed and added with other settings
//! begins anew. A code may be that of a vector that has changed or gone;
//! its item is then marked. Left out: splits and merges copy none of these rows, so the task begins
//! anew in the successors.

use crate::errors::{damaged, storage_failure};
use crate::index::vectors::{Shard, VectorIndex, VectorIndexKind};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use orrery_ann::{Quantiser, QuantiserKind};
use orrery_model::Result;
use orrery_sql::DistanceFunction;
use orrery_storage::{Direction, Snapshot};

/// Bytes of a quantiser in one row.
const CHUNK_BYTES: usize = 32 << 10;
/// The subject of the error for a damaged row.
const ROW: &str = "a row of quantised vectors";

/// A vector's place in the order of its index.
pub(crate) type VectorPlace = (EpkPrefix, ItemNumber);

/// The state of the quantised vectors of an index in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ApproximateState {
    /// The LSN of the commit that brought the quantiser. A later quantiser has another one.
    pub began: u64,
    /// The number of commits of the task since then.
    pub version: u64,
    /// The first LSN whose marks may not have been taken in. Rows of removed marks are passed
    /// slowly, so marks are read from here on.
    pub marks_from: u64,
    /// The kind of the codes.
    pub codes: CodeKind,
    /// The progress of the task.
    pub progress: Progress,
}

/// The kind of the codes of an index. An index that is removed and added with other settings has
/// other codes, although its vectors are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeKind {
    /// True if the codes are nodes of a graph.
    has_graph: bool,
    /// True for codes of the kind `spherical`.
    is_spherical: bool,
    /// The number of the distance function.
    function: u8,
    /// Bytes of a code.
    code_bytes: u16,
}

impl CodeKind {
    /// Returns the kind of the codes that an index has.
    pub(crate) fn of(index: &VectorIndex) -> Self {
        CodeKind {
            has_graph: index.kind == VectorIndexKind::DiskAnn,
            is_spherical: index.quantiser == QuantiserKind::Spherical,
            function: match index.function {
                DistanceFunction::Cosine => 0,
                DistanceFunction::DotProduct => 1,
                DistanceFunction::Euclidean => 2,
            },
            code_bytes: index.code_bytes as u16,
        }
    }
}

/// The progress of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Vectors from this place on have not been taken in, except those that were written since.
    From(VectorPlace),
    /// All vectors have been taken in.
    Complete,
    /// The index is no longer wanted, and its rows are being removed.
    Removing,
}

impl ApproximateState {
    /// Returns the value of the row: both LSNs around the version, the kind of the codes, and the
    /// kind of the progress with the place.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(45);
        row.extend_from_slice(&self.began.to_be_bytes());
        row.extend_from_slice(&self.version.to_be_bytes());
        row.extend_from_slice(&self.marks_from.to_be_bytes());
        let (graph, spherical) = (self.codes.has_graph, self.codes.is_spherical);
        row.push(u8::from(graph) | u8::from(spherical) << 1);
        row.push(self.codes.function);
        row.extend_from_slice(&self.codes.code_bytes.to_be_bytes());
        match self.progress {
            Progress::From((epk_prefix, number)) => {
                row.push(0);
                row.extend_from_slice(&epk_prefix);
                row.extend_from_slice(&number.to_be_bytes());
            }
            Progress::Complete => row.push(1),
            Progress::Removing => row.push(2),
        }
        row
    }

    fn decode(row: &[u8]) -> Option<Self> {
        let [kind, function, high, low] = *row.get(24..28)?.first_chunk()?;
        let codes = CodeKind {
            has_graph: kind & 1 != 0,
            is_spherical: kind & 2 != 0,
            function,
            code_bytes: u16::from_be_bytes([high, low]),
        };
        let progress = match (row.get(28)?, row.get(29..)?) {
            (0, place) => {
                let epk_prefix = place.get(..8)?.try_into().ok()?;
                Progress::From((epk_prefix, keys::number(place.get(8..)?)?))
            }
            (1, []) => Progress::Complete,
            (2, []) => Progress::Removing,
            _ => return None,
        };
        Some(ApproximateState {
            began: keys::number(row.get(..8)?)?,
            version: keys::number(row.get(8..16)?)?,
            marks_from: keys::number(row.get(16..24)?)?,
            codes,
            progress,
        })
    }

    /// Returns the state after one more commit of the task.
    pub(crate) fn after_a_commit(self) -> Self {
        ApproximateState {
            version: self.version + 1,
            ..self
        }
    }

    /// Returns true if the codes are those that an index has now.
    pub(crate) fn serves(&self, index: &VectorIndex) -> bool {
        self.codes == CodeKind::of(index) && self.progress != Progress::Removing
    }

    /// Reads the state of an index. Returns `None` if the task has not begun.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn read(snapshot: &dyn Snapshot, path: PathNumber) -> Result<Option<Self>> {
        let row = snapshot.get(&keys::approximate_state(path));
        match row.map_err(storage_failure)? {
            None => Ok(None),
            Some(row) => Self::of_row(&row).map(Some),
        }
    }

    /// Reads the value of the row of a state.
    ///
    /// # Errors
    /// 500 for a damaged row.
    pub(crate) fn of_row(row: &[u8]) -> Result<Self> {
        Self::decode(row).ok_or_else(|| damaged(ROW))
    }
}

/// Returns the rows of a quantiser.
pub(crate) fn quantiser_rows(
    path: PathNumber,
    quantiser: &Quantiser,
) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let bytes = quantiser.to_bytes();
    let chunks: Vec<Vec<u8>> = bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec).collect();
    let numbered = (0..).zip(chunks);
    numbered.map(move |(number, chunk)| (keys::quantiser(path, number), chunk))
}

/// Reads the quantiser of an index.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn read_quantiser(snapshot: &dyn Snapshot, path: PathNumber) -> Result<Quantiser> {
    let mut bytes = Vec::new();
    for row in scan(snapshot, &keys::quantisers(path), Direction::Forward) {
        bytes.extend_from_slice(&row?.1);
    }
    Quantiser::from_bytes(&bytes).ok_or_else(|| damaged(ROW))
}

/// The code of a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VectorCode {
    /// The EPK prefix of the item.
    pub epk_prefix: EpkPrefix,
    /// The shard in whose graph the vector is.
    pub shard: Shard,
    /// The quantised vector.
    pub code: Vec<u8>,
}

impl VectorCode {
    /// Returns the value of the row.
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.epk_prefix[..], &self.code, &self.shard.bytes()].concat()
    }

    /// Reads the value of the row of a code of so many bytes.
    ///
    /// # Errors
    /// 500 for a damaged row.
    pub(crate) fn read(row: &[u8], code_bytes: usize) -> Result<Self> {
        let decoded = || {
            let (epk_prefix, rest) = row.split_first_chunk()?;
            let (code, shard) = rest.split_at_checked(code_bytes)?;
            Some(VectorCode {
                epk_prefix: *epk_prefix,
                shard: Shard::read(shard)?,
                code: code.to_vec(),
            })
        };
        decoded().ok_or_else(|| damaged(ROW))
    }
}

/// The mark of a vector that a commit has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangeMark {
    /// The commit.
    pub lsn: u64,
    /// The item of the vector.
    pub number: ItemNumber,
    /// The EPK prefix of the item.
    pub epk_prefix: EpkPrefix,
}

impl ChangeMark {
    /// Reads the row of a mark.
    ///
    /// # Errors
    /// 500 for a damaged row.
    pub(crate) fn read(key: &[u8], value: &[u8]) -> Result<Self> {
        let (lsn, number) = keys::read_changed_vector(key).ok_or_else(|| damaged(ROW))?;
        let epk_prefix = value.try_into().map_err(|_| damaged(ROW))?;
        Ok(ChangeMark {
            lsn,
            number,
            epk_prefix,
        })
    }
}

/// Returns the metric of a distance function.
pub(crate) fn metric_of(function: DistanceFunction) -> orrery_ann::Metric {
    match function {
        DistanceFunction::Cosine => orrery_ann::Metric::Cosine,
        DistanceFunction::DotProduct => orrery_ann::Metric::DotProduct,
        DistanceFunction::Euclidean => orrery_ann::Metric::Euclidean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_back_and_damage_is_found() {
        let state = |progress| ApproximateState {
            began: 7,
            version: 9,
            marks_from: 8,
            codes: CodeKind {
                has_graph: true,
                is_spherical: true,
                function: 2,
                code_bytes: 512,
            },
            progress,
        };
        for progress in [
            Progress::From((*b"abcdefgh", 5)),
            Progress::Complete,
            Progress::Removing,
        ] {
            let row = state(progress).encode();
            assert_eq!(ApproximateState::decode(&row), Some(state(progress)));
            for end in 0..row.len() {
                assert_eq!(ApproximateState::decode(&row[..end]), None);
            }
        }
        for shard in [Shard::ONLY, Shard::of_value(None)] {
            let code = VectorCode {
                epk_prefix: *b"abcdefgh",
                shard,
                code: vec![1, 2, 3],
            };
            let row = code.encode();
            assert_eq!(VectorCode::read(&row, 3).ok(), Some(code));
            assert!(VectorCode::read(&row, 4).is_err());
            assert!(VectorCode::read(&row[..row.len() - 1], 3).is_err());
        }
        assert!(ChangeMark::read(b"\x23", b"").is_err());
        let mark = ChangeMark::read(&keys::changed_vector(1, 4, 8), b"abcdefgh").expect("a mark");
        assert_eq!(
            (mark.lsn, mark.number, mark.epk_prefix),
            (4, 8, *b"abcdefgh")
        );
    }
}
