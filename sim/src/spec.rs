//! The containers of a world and the texts of their items: settings from a small set, so that each
//! run has several kinds, and values from small sets, so that clients meet.

use crate::random::Random;
use orrery_model::partition_key::PartitionKey;

/// Logical partitions of a container.
pub(crate) const KEYS: u8 = 4;
/// Ids of items in a logical partition.
pub(crate) const IDS: u8 = 5;
/// Seconds for which versions are kept, where they are.
pub(crate) const RETENTION_SECONDS: u64 = 60 * 60;
/// Words of the texts of items.
const WORDS: [&str; 5] = ["red", "rods", "radar", "rowing", "blue"];

/// The name of an item in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemKey {
    /// The number of the logical partition.
    pub(crate) key: u8,
    /// The number of the id.
    pub(crate) id: u8,
}

/// The members of an item. `n` is different in every write, so it names the write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    /// The number of the write.
    pub(crate) n: u64,
    /// The number of the write that made the members which a patch leaves alone.
    pub(crate) base: u64,
    /// A small number, which queries compare.
    pub(crate) k: i64,
    /// The value that is unique in a logical partition, in some containers.
    pub(crate) unique: u8,
    /// `ttl`, if the item has one.
    pub(crate) ttl: Option<i64>,
    /// The second of the write: exact once an answer has shown it.
    pub(crate) ts: u64,
    /// True if `ts` is exact.
    pub(crate) is_ts_known: bool,
    /// True if the item was expired at some moment, so that it may have been removed.
    pub(crate) may_be_gone: bool,
    /// True if the item was expired at some moment: a reader of changes may have passed over it.
    pub(crate) was_over: bool,
}

impl Value {
    /// Returns the number of the tag.
    pub(crate) fn tag(&self) -> u64 {
        self.base % 6
    }

    /// Returns the words of the text.
    pub(crate) fn words(&self) -> [&'static str; 2] {
        let at = |n: u64| WORDS[(n % WORDS.len() as u64) as usize];
        [at(self.base), at(self.base / 3)]
    }

    /// Returns the vector.
    pub(crate) fn vector(&self) -> [f64; 4] {
        let at = |factor: u64, end: u64| (self.base * factor % end) as f64;
        [at(7, 19), at(11, 23), at(5, 17), at(3, 13)]
    }
}

/// The kinds of a vector index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorKind {
    /// All vectors are compared.
    Flat,
    /// A graph proposes candidates.
    DiskAnn,
}

/// The settings of a container.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// The id.
    pub(crate) name: String,
    /// Physical partitions at the creation.
    pub(crate) partitions: u32,
    /// The version of the hash.
    pub(crate) hash_version: u8,
    /// True for a key of two levels.
    pub(crate) is_hierarchical: bool,
    /// True if `u` is unique in a logical partition.
    pub(crate) has_unique_key: bool,
    /// True for a composite index over `k` and `n`.
    pub(crate) has_composite: bool,
    /// The vector index.
    pub(crate) vector: Option<VectorKind>,
    /// True for a full-text index.
    pub(crate) has_full_text: bool,
    /// True if all versions are kept.
    pub(crate) keeps_versions: bool,
    /// True if items may have a time to live.
    pub(crate) has_ttl: bool,
    /// The number of the indexing policy: 0 for everything, 1 without `k`, 2 for none.
    pub(crate) policy: u8,
}

impl Spec {
    /// Returns the settings of the container with this number.
    pub(crate) fn random(random: &mut Random, number: usize) -> Spec {
        let is_hierarchical = random.chance(30);
        Spec {
            name: format!("c{number}"),
            partitions: random.pick(&[1, 1, 2, 3, 4]),
            hash_version: if is_hierarchical {
                2
            } else {
                random.pick(&[1, 2])
            },
            is_hierarchical,
            has_unique_key: random.chance(30),
            has_composite: random.chance(40),
            vector: random.pick(&[
                None,
                None,
                Some(VectorKind::Flat),
                Some(VectorKind::DiskAnn),
            ]),
            has_full_text: random.chance(35),
            keeps_versions: random.chance(40),
            has_ttl: random.chance(40),
            policy: 0,
        }
    }

    /// Returns the numbers of the policies that the container may have.
    pub(crate) fn policies(&self) -> &'static [u8] {
        match (self.vector, self.has_full_text, self.has_composite) {
            (None, false, false) => &[0, 1, 2],
            (_, _, true) => &[0],
            _ => &[0, 1],
        }
    }

    /// Returns the definition with a policy and a `defaultTtl`.
    pub(crate) fn definition(&self, policy: u8, default_ttl: Option<i64>) -> String {
        let (paths, kind) = match self.is_hierarchical {
            true => (r#""/t","/s""#, "MultiHash"),
            false => (r#""/p""#, "Hash"),
        };
        let mut text = format!(
            r#"{{"id":"{}","partitionKey":{{"paths":[{paths}],"kind":"{kind}","version":{}}}"#,
            self.name, self.hash_version
        );
        if let Some(ttl) = default_ttl {
            text.push_str(&format!(r#","defaultTtl":{ttl}"#));
        }
        if self.has_unique_key {
            text.push_str(r#","uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}"#);
        }
        if self.keeps_versions {
            let minutes = RETENTION_SECONDS / 60;
            text.push_str(&format!(
                r#","changeFeedPolicy":{{"retentionDuration":{minutes}}}"#
            ));
        }
        if self.vector.is_some() {
            text.push_str(
                r#","vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v",
                "dataType":"float32","dimensions":4,"distanceFunction":"euclidean"}]}"#,
            );
        }
        if self.has_full_text {
            text.push_str(
                r#","fullTextPolicy":{"defaultLanguage":"en-US",
                "fullTextPaths":[{"path":"/text","language":"en-US"}]}"#,
            );
        }
        text.push_str(&format!(
            r#","indexingPolicy":{}}}"#,
            self.indexing_policy(policy)
        ));
        text
    }

    fn indexing_policy(&self, policy: u8) -> String {
        if policy == 2 {
            return r#"{"indexingMode":"none"}"#.to_owned();
        }
        let mut excluded = vec![r#"{"path":"/v/*"}"#];
        if policy == 1 {
            excluded.push(r#"{"path":"/k/?"}"#);
        }
        let mut text = format!(
            r#"{{"includedPaths":[{{"path":"/*"}}],"excludedPaths":[{}]"#,
            excluded.join(",")
        );
        match self.vector {
            None => {}
            Some(VectorKind::Flat) => {
                text.push_str(r#","vectorIndexes":[{"path":"/v","type":"flat"}]"#);
            }
            Some(VectorKind::DiskAnn) => {
                text.push_str(r#","vectorIndexes":[{"path":"/v","type":"diskANN"}]"#);
            }
        }
        if self.has_full_text {
            text.push_str(r#","fullTextIndexes":[{"path":"/text"}]"#);
        }
        if self.has_composite {
            text.push_str(
                r#","compositeIndexes":[[{"path":"/k","order":"ascending"},
                {"path":"/n","order":"descending"}]]"#,
            );
        }
        text + "}"
    }

    /// Returns the partition key with this number.
    pub(crate) fn partition_key(&self, key: u8) -> PartitionKey {
        let text = match self.is_hierarchical {
            true => format!(r#"["t{}","s{key}"]"#, key % 2),
            false => format!(r#"["p{key}"]"#),
        };
        PartitionKey::from_header(&text).expect("a partition key")
    }

    /// Returns the text of an item.
    pub(crate) fn item_text(&self, key: ItemKey, value: &Value) -> String {
        let members = match self.is_hierarchical {
            true => format!(r#""t":"t{}","s":"s{}""#, key.key % 2, key.key),
            false => format!(r#""p":"p{}""#, key.key),
        };
        let ttl = value
            .ttl
            .map_or_else(String::new, |ttl| format!(r#","ttl":{ttl}"#));
        let [first, second] = value.words();
        format!(
            r#"{{"id":"{}",{members},"n":{},"base":{},"k":{},"u":"u{}","tags":["t{}","all"],
            "text":"{first} {second}","v":{:?}{ttl}}}"#,
            key.name(),
            value.n,
            value.base,
            value.k,
            value.unique,
            value.tag(),
            value.vector(),
        )
    }
}

impl ItemKey {
    /// Returns a random item.
    pub(crate) fn random(random: &mut Random) -> ItemKey {
        ItemKey {
            key: random.below(u64::from(KEYS)) as u8,
            id: random.below(u64::from(IDS)) as u8,
        }
    }

    /// Returns all items that a logical partition may have.
    pub(crate) fn all_of(key: u8) -> impl Iterator<Item = ItemKey> {
        (0..IDS).map(move |id| ItemKey { key, id })
    }

    /// Returns all items that a container may have.
    pub(crate) fn all() -> impl Iterator<Item = ItemKey> {
        (0..KEYS).flat_map(ItemKey::all_of)
    }

    /// Returns the id.
    pub(crate) fn name(self) -> String {
        format!("i{}", self.id)
    }
}
