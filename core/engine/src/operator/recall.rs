//! The share of the nearest vectors that an approximate index finds, measured with vectors that the
//! container has. Nothing here is charged.
//!
//! Each vector of the sample is searched twice by a query as clients send it: with the index, and
//! with the comparison of all vectors. The sample is spread over the items in the order of their
//! creation, and over the physical partitions.

use crate::catalog::Container;
use crate::errors::{damaged, storage_failure};
use crate::index::paths::Step;
use crate::index::policy::path_text;
use crate::index::vectors::VectorIndex;
use crate::partition::keys::{self, EpkPrefix, PathNumber};
use crate::partition::{Partition, retry_if_moved, scan};
use crate::query::Cancel;
use crate::request::{PageRequest, QueryRequest, Scope};
use crate::{CrossPartitionQueries, Engine};
use orrery_model::json::parse;
use orrery_model::{Error, Json, Kind, Result};
use orrery_storage::{Direction, Snapshot};

/// Rows of a query: the nearest vectors that are looked for.
const NEAREST: usize = 10;
/// The largest sample.
pub const RECALL_SAMPLE_MAX: u64 = 100;
/// Milliseconds after which no further vector is taken.
const TIME_MS: u64 = 15_000;
/// Items that are looked at for one that has a vector.
const LOOKED_AT: usize = 200;
/// Pages of one query.
const PAGES_MAX: usize = 1_000;

/// The share of the nearest vectors that an index finds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecallEstimate {
    /// Vectors that were searched.
    pub sample: u64,
    /// The nearest vectors that were looked for, all searches together.
    pub wanted: u64,
    /// Those of them that the index found.
    pub found: u64,
    /// Mean milliseconds of a query by the index.
    pub index_ms: f64,
    /// Mean milliseconds of a query that compares all vectors.
    pub exact_ms: f64,
}

/// A vector of the sample, and the partition that has it.
struct SampledVector {
    partition: u32,
    components: Vec<f32>,
}

/// A row of an answer: the id of the resource, and the score.
type FoundRow = (String, Json);

impl Engine {
    /// Measures a vector index with at most `sample` stored vectors. A measurement that takes long
    /// ends with fewer.
    ///
    /// # Errors
    /// 404 if the container has no vector index with this path, 400 for a sample of no vectors or
    /// more than [`RECALL_SAMPLE_MAX`], 408 if `cancel` is set meanwhile, 500 if the store cannot
    /// be read.
    pub fn vector_recall(
        &self,
        container: &Container,
        path: &str,
        sample: u64,
        cancel: &Cancel,
    ) -> Result<RecallEstimate> {
        if !(1..=RECALL_SAMPLE_MAX).contains(&sample) {
            let message = format!("the sample must have 1 to {RECALL_SAMPLE_MAX} vectors");
            return Err(Error::bad(message));
        }
        let policies = container.policies();
        let indexes = policies.newest.1.stored_vectors();
        let index = indexes.iter().find(|index| path_text(&index.path) == path);
        let Some(index) = index else {
            let message = format!("the container has no vector index with the path '{path}'");
            return Err(Error::new(Kind::NotFound, message));
        };

        let ends_ms = self.world().monotonic_ms() + TIME_MS;
        let mut estimate = RecallEstimate::default();
        let (mut index_us, mut exact_us) = (0, 0);
        let vectors = retry_if_moved(|| sampled(container, index, sample))?;
        for (at, vector) in vectors.iter().enumerate() {
            if at == 0 {
                // The first search reads the codes and warms the caches of the store.
                self.nearest(container, index, vector, false, cancel)?;
            } else if self.world().monotonic_ms() >= ends_ms {
                break;
            }
            let (near, us) = self.nearest(container, index, vector, false, cancel)?;
            index_us += us;
            let (nearest, us) = self.nearest(container, index, vector, true, cancel)?;
            exact_us += us;
            estimate.sample += 1;
            estimate.wanted += nearest.len() as u64;
            estimate.found += found_of(&nearest, &near) as u64;
        }
        let vectors = estimate.sample.max(1) as f64;
        estimate.index_ms = index_us as f64 / 1_000.0 / vectors;
        estimate.exact_ms = exact_us as f64 / 1_000.0 / vectors;
        Ok(estimate)
    }

    /// Returns the rows nearest to a vector, and the microseconds of the query.
    fn nearest(
        &self,
        container: &Container,
        index: &VectorIndex,
        vector: &SampledVector,
        is_exact: bool,
        cancel: &Cancel,
    ) -> Result<(Vec<FoundRow>, u64)> {
        let path = query_path(&index.path);
        let text = format!(
            "SELECT TOP {NEAREST} c._rid AS id, VectorDistance({path}, @vector) AS score FROM c \
             ORDER BY VectorDistance({path}, @vector, {is_exact})"
        );
        let components = vector.components.iter();
        let components: Vec<Json> = components.map(|one| f64::from(*one).into()).collect();
        // A partition's own query where clients merge the partitions.
        let scope = match self.cross_partition_queries {
            CrossPartitionQueries::Merge => Scope::Everything,
            CrossPartitionQueries::Refuse => Scope::Range {
                id: vector.partition,
                within: None,
            },
        };
        let parameters = vec![("@vector".to_owned(), Json::Array(components))];
        let mut request = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(text, parameters, PageRequest::default())
        };
        let began_us = self.world().monotonic_us();
        let mut rows = Vec::new();
        for _ in 0..PAGES_MAX {
            let outcome = self.measure_query(container, &scope, &request, cancel);
            if cancel.is_set() {
                let message = "the measurement took too long, or the caller no longer waits";
                return Err(Error::new(Kind::RequestTimeout, message));
            }
            let page = outcome.result?.page;
            for row in &page.rows {
                rows.push(read_row(row)?);
            }
            match page.continuation {
                None => break,
                more => request.page.continuation = more,
            }
        }
        let took_us = self.world().monotonic_us().saturating_sub(began_us);
        Ok((rows, took_us))
    }
}

fn read_row(row: &[u8]) -> Result<FoundRow> {
    let row = parse(row).map_err(|_| damaged("a row of a query"))?;
    let id = row.get("id").and_then(Json::as_str);
    let id = id.ok_or_else(|| damaged("a row of a query"))?;
    let score = row.get("score").cloned().unwrap_or(Json::Null);
    Ok((id.to_owned(), score))
}

/// Returns how many of the nearest rows an answer has. A row with the score of the last one is as
/// near as that one.
fn found_of(nearest: &[FoundRow], near: &[FoundRow]) -> usize {
    let Some((_, last)) = nearest.last() else {
        return 0;
    };
    let is_found = |(id, score): &&FoundRow| {
        let mut nearest = nearest.iter();
        score == last || nearest.any(|(other, _)| other == id)
    };
    near.iter().filter(is_found).count().min(nearest.len())
}

/// Returns a path as queries write it.
fn query_path(path: &[Step]) -> String {
    let mut text = "c".to_owned();
    for step in path {
        if let Step::Name(name) = step {
            text.push_str(&format!("[{}]", Json::from(name.as_str())));
        }
    }
    text
}

/// Returns about `sample` vectors of an index, and not more.
fn sampled(container: &Container, index: &VectorIndex, sample: u64) -> Result<Vec<SampledVector>> {
    let partitions = container.partitions();
    let readable: Vec<_> = partitions.iter().filter(|one| one.is_readable()).collect();
    let mut vectors = Vec::new();
    for (at, partition) in readable.iter().enumerate() {
        // Those that earlier partitions did not have are taken from later ones.
        let left = (readable.len() - at) as u64;
        let of_partition = (sample - vectors.len() as u64).div_ceil(left);
        let snapshot = partition.snapshot()?;
        let snapshot = snapshot.as_ref();
        let path = partition.paths(snapshot)?.find_derived(&index.text);
        let Some(path) = path else { continue };
        let numbers = Partition::counters(snapshot)?.next_number;
        let mut from = 0;
        for nth in 0..of_partition {
            from = from.max(u128::from(numbers) * u128::from(nth) / u128::from(of_partition));
            let Some((number, stored)) = vector_from(snapshot, path, from as u64)? else {
                continue;
            };
            from = u128::from(number) + 1;
            let mut components = Vec::with_capacity(index.dimensions);
            let shard = index.append(&stored, &mut components);
            shard.ok_or_else(|| damaged("a vector"))?;
            vectors.push(SampledVector {
                partition: partition.id,
                components,
            });
        }
    }
    Ok(vectors)
}

/// Returns the vector of the first item from a number on that has one, with the item's number, if
/// it is among the next items.
fn vector_from(
    snapshot: &dyn Snapshot,
    path: PathNumber,
    from: u64,
) -> Result<Option<(u64, bytes::Bytes)>> {
    let range = keys::naturals_from(from);
    for row in scan(snapshot, &range, Direction::Forward).take(LOOKED_AT) {
        let (key, value) = row?;
        let number = keys::read_natural(&key).ok_or_else(|| damaged("a row"))?;
        let epk_prefix: EpkPrefix = value[..].try_into().map_err(|_| damaged("a row"))?;
        let vector = snapshot.get(&keys::vector(path, epk_prefix, number));
        if let Some(vector) = vector.map_err(storage_failure)? {
            return Ok(Some((number, vector)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_the_score_of_the_last_one_counts_as_found() {
        let row = |id: &str, score: f64| (id.to_owned(), Json::from(score));
        let nearest = [row("a", 0.9), row("b", 0.8), row("c", 0.7)];
        assert_eq!(found_of(&nearest, &nearest), 3);
        assert_eq!(found_of(&nearest, &[row("a", 0.9), row("d", 0.7)]), 2);
        let others = [row("d", 0.7), row("e", 0.7), row("f", 0.7), row("a", 0.9)];
        assert_eq!(found_of(&nearest, &others), 3);
        assert_eq!(found_of(&nearest, &[row("a", 0.9), row("x", 0.6)]), 1);
        assert_eq!(found_of(&[], &nearest), 0);
    }

    #[test]
    fn names_of_any_characters_are_quoted_in_a_query() {
        let path = [Step::Name("a\"b".to_owned()), Step::Name("c d".to_owned())];
        assert_eq!(query_path(&path), r#"c["a\"b"]["c d"]"#);
    }
}
