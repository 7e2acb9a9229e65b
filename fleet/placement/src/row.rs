//! A row of the ledger: the home of one partition.

use orrery_model::{Json, json, object};
use orrery_storage::PartitionId;

/// The bit of the numbers that copies get in their clusters.
///
/// A partition keeps its own number in the cluster in which it was created. Each move gives the
/// copy a number that was never used, so a removal that comes late removes nothing that lives.
const MOVED: u64 = 1 << 62;

/// The highest generation.
pub(crate) const MOST_GENERATIONS: u64 = u32::MAX as u64;

/// A copy of a partition: a cluster, and the number that the partition has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) cluster: String,
    pub(crate) number: PartitionId,
}

/// The present step of a partition's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No work is under way.
    Settled,
    /// A move has begun. The copy there is not complete.
    Moving { to: Copy },
    /// A move is complete, except for the removal of the source.
    Leaving { from: Copy },
    /// The partition is being removed.
    Destroying,
}

/// The home of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// The copy that is read and written.
    pub(crate) home: Copy,
    /// Rises with each placement and each move; the upper half of epochs.
    pub(crate) generation: u64,
    pub(crate) step: Step,
}

/// Returns the number of the copy of a generation.
pub(crate) fn copy_number(generation: u64) -> PartitionId {
    PartitionId(MOVED | generation)
}

/// Returns true for numbers that copies may have.
pub(crate) fn is_copy_number(partition: PartitionId) -> bool {
    (MOVED..=MOVED | MOST_GENERATIONS).contains(&partition.0)
}

impl Row {
    /// Returns the row as JSON.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut row = object! {
            "cluster" => self.home.cluster.as_str(),
            "number" => self.home.number.0,
            "generation" => self.generation,
        };
        match &self.step {
            Step::Settled => {}
            Step::Moving { to } => row.set("to", copy_json(to)),
            Step::Leaving { from } => row.set("from", copy_json(from)),
            Step::Destroying => row.set("destroying", true),
        }
        Json::Object(row).to_text().into_bytes()
    }

    /// Reads a row; `None` if it is damaged.
    pub(crate) fn read(text: &[u8]) -> Option<Row> {
        let row = json::parse(text).ok()?;
        let step = match (row.get("to"), row.get("from"), row.get("destroying")) {
            (Some(to), _, _) => Step::Moving { to: copy(to)? },
            (_, Some(from), _) => Step::Leaving { from: copy(from)? },
            (_, _, Some(_)) => Step::Destroying,
            _ => Step::Settled,
        };
        Some(Row {
            home: copy(&row)?,
            generation: number(row.get("generation")?)?,
            step,
        })
    }

    /// Returns every copy that the row names.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &Copy> {
        let other = match &self.step {
            Step::Moving { to } => Some(to),
            Step::Leaving { from } => Some(from),
            Step::Settled | Step::Destroying => None,
        };
        std::iter::once(&self.home).chain(other)
    }
}

fn copy_json(copy: &Copy) -> orrery_model::Object {
    object! { "cluster" => copy.cluster.as_str(), "number" => copy.number.0 }
}

fn copy(json: &Json) -> Option<Copy> {
    Some(Copy {
        cluster: json.get("cluster")?.as_str()?.to_owned(),
        number: PartitionId(number(json.get("number")?)?),
    })
}

/// Reads a number of 64 bits exactly.
fn number(json: &Json) -> Option<u64> {
    json.to_text().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_with_every_step_and_every_number() {
        let copy = |cluster: &str, number| Copy {
            cluster: cluster.to_owned(),
            number: PartitionId(number),
        };
        for step in [
            Step::Settled,
            Step::Moving {
                to: copy("b", copy_number(7).0),
            },
            Step::Leaving {
                from: copy("\"ü\"", u64::MAX - 1),
            },
            Step::Destroying,
        ] {
            let row = Row {
                home: copy("a", u64::MAX - 1),
                generation: MOST_GENERATIONS,
                step,
            };
            assert_eq!(Row::read(&row.text()), Some(row));
        }
        for damaged in [
            "",
            "{}",
            "[]",
            r#"{"cluster":"a","number":-1,"generation":1}"#,
        ] {
            assert_eq!(Row::read(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn numbers_of_copies_are_apart_from_those_of_partitions() {
        assert!(is_copy_number(copy_number(0)) && is_copy_number(copy_number(MOST_GENERATIONS)));
        for partition in [0, 1, 1 << 61, (1 << 62) | (1 << 32), u64::MAX - 1] {
            assert!(!is_copy_number(PartitionId(partition)), "{partition}");
        }
    }
}
