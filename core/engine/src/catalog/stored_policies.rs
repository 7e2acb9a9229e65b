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
use crate::index::texts::TextIndex;
use crate::index::vectors::VectorIndex;
use orrery_model::{Json, Object, Result, object};
use std::sync::Arc;

/// The member of a record that says that vector and full-text indexes have entries.
const HAS_SEARCH_ENTRIES: &str = "hasSearchEntries";
/// The member of a record that says that full-text indexes have entries of words, which fuzzy terms
/// need.
const HAS_WORD_ENTRIES: &str = "hasWordEntries";
/// The member of a record that says that the rows of vectors have the shards of a shard key.
const HAS_SHARDS: &str = "hasShards";

/// Adds the members that say which entries this version writes.
pub(super) fn add_kinds_of_entries(internal: &mut Object) {
    for member in [HAS_SEARCH_ENTRIES, HAS_WORD_ENTRIES, HAS_SHARDS] {
        internal.push_new(member, Json::from(true));
    }
}

/// Returns the entry of an older policy in the record of a container: generation, policy, and what
/// the entries of its vector and full-text indexes follow from beside the policy.
pub(super) fn older_policy(generation: Generation, policy: &Policy) -> Json {
    let vectors = policy.stored_vectors().iter().map(VectorIndex::to_record);
    let texts = policy.stored_texts().iter();
    let texts = texts.map(|index| match index.has_words {
        true => Json::Object(object! { "language" => index.language.as_str() }),
        false => Json::from(index.language.as_str()),
    });
    Json::Array(vec![
        Json::from(generation),
        policy.to_json(),
        Json::Array(vectors.collect()),
        Json::Array(texts.collect()),
    ])
}

/// Reads an entry of [`older_policy`]. An entry without its last parts is from a version of the
/// engine that wrote no entries for vector and full-text indexes, and a language that is no member
/// of an object is from one that wrote no entries of words.
fn read_older_policy(entry: &Json) -> Option<Result<(Generation, Policy)>> {
    let (number, policy, search) = match entry.as_array()? {
        [number, policy] => (number, policy, None),
        [number, policy, vectors, languages] => {
            let search = (vectors.as_array()?, languages.as_array()?);
            (number, policy, Some(search))
        }
        _ => return None,
    };
    let generation = as_u32(number)?;
    let policy = match Policy::from_json(Some(policy)) {
        Ok(policy) => policy,
        Err(error) => return Some(Err(error)),
    };
    let Some((records, languages)) = search else {
        return Some(Ok((generation, policy.without_search())));
    };
    let (mut vectors, mut texts) = (Vec::new(), Vec::new());
    let entries = (policy.vector_indexes(), policy.full_text_indexes());
    if entries.0.len() != records.len() || entries.1.len() != languages.len() {
        return None;
    }
    for (entry, record) in entries.0.iter().zip(records) {
        vectors.push(VectorIndex::from_record(entry, record)?);
    }
    for (entry, language) in entries.1.iter().zip(languages) {
        texts.push(match language.get("language") {
            Some(language) => TextIndex::of(entry, language.as_str()?),
            None => TextIndex::of(entry, language.as_str()?).without_words(),
        });
    }
    let policy = policy.with_search_entries(vectors, texts);
    Some(Ok((generation, policy)))
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

    // A record without `hasSearchEntries` is from a version of the engine that wrote no entries for
    // vector and full-text indexes, so a policy that has them is a new generation.
    let newest = &policies.newest.1;
    let has_search = !newest.stored_vectors().is_empty() || !newest.stored_texts().is_empty();
    if internal.get(HAS_SEARCH_ENTRIES).is_none() && has_search {
        let older = match since {
            Some(_) => newest.without_search(),
            None => newest.without_search().leaving_out_excluded(),
        };
        begin_generation(&mut policies, older);
    }

    // A record without `excludedSince` is from a version of the engine that wrote no entries for
    // items with the directive Exclude, so an automatic policy is a new generation.
    if since.is_none() && policies.newest.1.is_automatic() {
        let older = policies.newest.1.leaving_out_excluded();
        begin_generation(&mut policies, older);
    }

    // A record without `hasWordEntries` is from a version of the engine whose full-text indexes had
    // no entries of words. This step and the next one come last, in the order of those versions: an
    // earlier version that has begun the steps above has numbered their generations alike.
    let newest = &policies.newest.1;
    if internal.get(HAS_WORD_ENTRIES).is_none() && !newest.stored_texts().is_empty() {
        let texts = newest.stored_texts().iter().cloned();
        let texts = texts.map(TextIndex::without_words).collect();
        let vectors = newest.stored_vectors().to_vec();
        let older = Policy::clone(newest).with_search_entries(vectors, texts);
        begin_generation(&mut policies, older);
    }

    // A record without `hasShards` is from a version of the engine whose rows of vectors had no
    // shards.
    let newest = &policies.newest.1;
    let mut vectors = newest.stored_vectors().iter();
    if internal.get(HAS_SHARDS).is_none() && vectors.any(|index| index.shard_path.is_some()) {
        let entries = newest.vector_indexes().iter();
        let entries = entries.zip(newest.stored_vectors());
        let without_shards = entries.map(|(entry, index)| index.without_shard_key(entry));
        let vectors = without_shards.collect();
        let texts = newest.stored_texts().to_vec();
        let older = Policy::clone(newest).with_search_entries(vectors, texts);
        begin_generation(&mut policies, older);
    }
    Ok(policies)
}

/// Makes the newest policy a new generation, whose entries no item has yet: all items follow
/// `older`.
fn begin_generation(policies: &mut Policies, older: Policy) {
    let (generation, _) = &mut policies.newest;
    policies.older.push((*generation, Arc::new(older)));
    *generation += 1;
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
        let (number, policy) = read_older_policy(entry).ok_or_else(Record::damaged)??;
        older.push((number, Arc::new(policy)));
    }
    Ok(Policies {
        newest: (generation.and_then(as_u32).unwrap_or(0), newest),
        older,
    })
}
