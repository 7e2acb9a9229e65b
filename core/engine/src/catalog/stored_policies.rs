//! The indexing policies in the record of a container, by generation.
//!
//! Promises: a record of an earlier version of the program is read as the policies that its index
//! entries follow. Where that version wrote other entries for the same policy, the policy is a new
//! generation, and a reindex follows. Leaves out: the generation of each item, which the rows of
//! the partitions hold (`index/generations.rs`).

use super::records::{Record, as_u32};
use crate::container::settings::Settings;
use crate::index::generations::{Generation, Policies};
use crate::index::policy::Policy;
use crate::index::vectors::VectorIndex;
use orrery_model::{Json, Object, Result};
use std::sync::Arc;

/// The member of a record that says that vector indexes have entries.
pub(super) const STORES_VECTORS: &str = "storesVectors";

/// Returns the entry of an older policy in the record of a container: generation, policy, and the
/// data types and dimensions of its vector indexes.
pub(super) fn older_policy(generation: Generation, policy: &Policy) -> Json {
    let vectors: Vec<Json> = policy
        .stored_vectors()
        .iter()
        .map(VectorIndex::to_record)
        .collect();
    Json::Array(vec![
        Json::from(generation),
        policy.to_json(),
        Json::Array(vectors),
    ])
}

/// Reads the last part of [`older_policy`].
fn read_stored_vectors(policy: &Policy, vectors: &Json) -> Result<Vec<VectorIndex>> {
    let records = vectors.as_array().ok_or_else(Record::damaged)?;
    let entries = policy.vector_indexes();
    if entries.len() != records.len() {
        return Err(Record::damaged());
    }
    let mut stored = Vec::with_capacity(records.len());
    for (entry, record) in entries.iter().zip(records) {
        stored.push(VectorIndex::from_record(entry, record).ok_or_else(Record::damaged)?);
    }
    Ok(stored)
}

/// Returns the first generation whose entries have the items with the indexing directive Exclude,
/// of the policies that some item follows.
pub(super) fn excluded_since(policies: &Policies) -> Generation {
    let mut since = policies.newest.0;
    for (generation, policy) in &policies.older {
        if !policy.leaves_out_excluded() {
            since = since.min(*generation);
        }
    }
    since
}

/// Reads the indexing policies of a container from the engine's members of its record.
pub(super) fn read_policies(internal: &Object, settings: &Settings) -> Result<Policies> {
    let mut policies = read_generations(internal, settings)?;
    let since = internal.get("excludedSince").and_then(as_u32);
    for (generation, policy) in &mut policies.older {
        if since.is_none_or(|since| *generation < since) {
            *policy = Arc::new(policy.leaving_out_excluded());
        }
    }

    // A record without `storesVectors` is from a version of the engine that wrote no entries for
    // vector indexes, so a policy that has them is a new generation.
    if internal.get(STORES_VECTORS).is_none() && !policies.newest.1.stored_vectors().is_empty() {
        let (generation, newest) = policies.newest;
        let older = Arc::new(newest.without_vectors());
        policies.older.push((generation, older));
        policies.newest = (generation + 1, newest);
    }

    // A record without `excludedSince` is from a version of the engine that wrote no entries for
    // items with the directive Exclude, so an automatic policy is a new generation.
    if since.is_none() && policies.newest.1.is_automatic() {
        let (generation, newest) = policies.newest;
        let older = Arc::new(newest.leaving_out_excluded());
        policies.older.push((generation, older));
        policies.newest = (generation + 1, newest);
    }
    Ok(policies)
}

/// Reads the indexing policies with their generations. The policies with entries for items with
/// the directive Exclude are not told from the others.
fn read_generations(internal: &Object, settings: &Settings) -> Result<Policies> {
    let newest = Arc::clone(&settings.policy);
    let generation = internal.get("generation");

    // A record without a generation is from a version of the engine that wrote no entries for
    // composite indexes, so a policy that has them is a new generation.
    if generation.is_none() && !newest.composites().is_empty() {
        let older = Arc::new(newest.without_composites());
        return Ok(Policies {
            newest: (1, newest),
            older: vec![(0, older)],
        });
    }

    let mut older = Vec::new();
    let entries = internal.get("olderPolicies").and_then(Json::as_array);
    for entry in entries.unwrap_or_default() {
        let (number, policy) = match entry.as_array() {
            // A version of the engine that wrote no entries for vector indexes.
            Some([number, policy]) => {
                let policy = Policy::from_json(Some(policy))?;
                (number, policy.without_vectors())
            }
            Some([number, policy, vectors]) => {
                let policy = Policy::from_json(Some(policy))?;
                let vectors = read_stored_vectors(&policy, vectors)?;
                (number, policy.with_stored_vectors(vectors))
            }
            _ => return Err(Record::damaged()),
        };
        let number = as_u32(number).ok_or_else(Record::damaged)?;
        older.push((number, Arc::new(policy)));
    }
    Ok(Policies {
        newest: (generation.and_then(as_u32).unwrap_or(0), newest),
        older,
    })
}
