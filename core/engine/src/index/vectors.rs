//! Vector indexes: the vectors of the items of a partition in binary form, one row for each vector.
//!
//! All kinds of vector index (`flat`, `quantizedFlat`, `diskANN`) keep these rows, and a query by
//! VectorDistance reads them in place of the items. The rows of one logical partition lie side by
//! side (`partition/keys.rs`).
//!
//! An index with a `vectorIndexShardKey` divides the vectors by the value at another path: each row
//! ends with the shard of the item, so a change of either value changes the row.
//!
//! ```text
//! vector (core/sql)   shard·8 (with a shard key)
//! ```
//!
//! Promises: an item has a row if and only if its value is a vector of the dimensions and the data
//! type of the policy; the distance of any other value to such a vector is undefined. Left out:
//! quantised vectors and graphs (`approximate.rs`).

use super::composite::value_at;
use super::paths::{Step, steps_of};
use super::policy::{SearchIndex, names_of};
use super::value::{self, STRING_BYTES};
use orrery_ann::QuantiserKind;
use orrery_model::partition_key::murmur3_128;
use orrery_model::{Json, Object, object};
use orrery_sql::{
    DataType, DistanceFunction, append_components, stored_vector, stored_vector_bytes,
};

/// Bytes of a stored vector that count as one index entry in the charge of a write. The service's
/// documentation has about 35 RU for an item with 1,536 components of four bytes and an index of
/// type `quantizedFlat`, of which 12 are for the item.
const BYTES_PER_UNIT: usize = 50;
/// The same with an index of type `diskANN`: about 65 RU.
const BYTES_PER_UNIT_OF_GRAPH: usize = 22;

/// Components for each byte of a quantised vector, if the policy names no number of bytes.
const COMPONENTS_PER_BYTE: usize = 4;
/// The largest number of bytes of a quantised vector.
const CODE_BYTES_MAX: usize = 512;
/// Candidates from which a vector of a graph gets its neighbours, if the policy names no number.
const BUILD_LIST_SIZE: usize = 100;

/// The type of a vector index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorIndexKind {
    /// `flat`: whole vectors.
    Flat,
    /// `quantizedFlat`: quantised vectors too.
    QuantizedFlat,
    /// `diskANN`: a graph of the quantised vectors too.
    DiskAnn,
}

/// A part of an index with a `vectorIndexShardKey`: the vectors of the items with one value at its
/// path. An index without a shard key has only the shard [`Shard::ONLY`]. Two values may have the
/// same shard, so a query tests its condition on the items of a shard as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Shard(u64);

impl Shard {
    /// The shard of an index without a shard key.
    pub(crate) const ONLY: Shard = Shard(0);

    /// Returns the shard of the items with a value, `None` for those without one.
    pub(crate) fn of_value(value: Option<&Json>) -> Shard {
        let digest = murmur3_128(&value::encode_or_undefined(value, STRING_BYTES));
        let hash = digest.first_chunk().copied().unwrap_or_default();
        // The number 0 stands for no shard key.
        Shard(u64::from_be_bytes(hash).max(1))
    }

    /// Returns the bytes of the shard in a row; none for [`Shard::ONLY`].
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Shard::ONLY => Vec::new(),
            Shard(hash) => hash.to_be_bytes().to_vec(),
        }
    }

    /// Reads the bytes of a shard. Returns `None` for other bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Shard> {
        match bytes {
            [] => Some(Shard::ONLY),
            bytes => match u64::from_be_bytes(bytes.try_into().ok()?) {
                0 => None,
                hash => Some(Shard(hash)),
            },
        }
    }
}

/// A vector index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VectorIndex {
    /// The path of the vectors, which has only names.
    pub path: Vec<Step>,
    /// The data type of the components.
    pub data_type: DataType,
    /// The number of components.
    pub dimensions: usize,
    /// The type.
    pub kind: VectorIndexKind,
    /// The distance function of the vector policy.
    pub function: DistanceFunction,
    /// The kind of quantised vectors.
    pub quantiser: QuantiserKind,
    /// The number of bytes of a quantised vector.
    pub code_bytes: usize,
    /// The number of candidates from which a vector of a graph gets its neighbours.
    pub build_list_size: usize,
    /// The path whose values divide the vectors, if there is one.
    pub shard_path: Option<Vec<Step>>,
    /// Name of the index in the dictionary of paths. Rows of different data types, dimensions or
    /// shard keys are different rows, so the name has these.
    pub text: String,
}

impl VectorIndex {
    /// Returns the index of an entry of `vectorIndexes` over vectors of a data type, a number of
    /// dimensions and a distance function.
    pub(crate) fn of(
        entry: &SearchIndex,
        data_type: DataType,
        dimensions: usize,
        function: DistanceFunction,
    ) -> Self {
        let shard_key = entry.body.get("vectorIndexShardKey");
        let shard_key = shard_key.and_then(|paths| paths.as_array()?.first()?.as_str());
        let index = Self::without_shards(entry, data_type, dimensions, function);
        match shard_key {
            Some(path) if index.kind != VectorIndexKind::Flat => index.with_shards_by(path),
            _ => index,
        }
    }

    /// Returns the index with the shards of a path.
    fn with_shards_by(self, path: &str) -> Self {
        VectorIndex {
            shard_path: names_of(path).map(|names| steps_of(&names)),
            text: format!("{} by {path:?}", self.text),
            ..self
        }
    }

    fn without_shards(
        entry: &SearchIndex,
        data_type: DataType,
        dimensions: usize,
        function: DistanceFunction,
    ) -> Self {
        let kind = match entry.body.get("type").and_then(Json::as_str) {
            Some("diskANN") => VectorIndexKind::DiskAnn,
            Some("quantizedFlat") => VectorIndexKind::QuantizedFlat,
            _ => VectorIndexKind::Flat,
        };
        let number = |name: &str, default: usize| {
            let value = entry.body.get(name).and_then(Json::as_i64);
            value.map_or(default, |value| value.unsigned_abs() as usize)
        };
        let quantiser = match entry.body.get("quantizerType").and_then(Json::as_str) {
            Some("spherical") => QuantiserKind::Spherical,
            _ => QuantiserKind::Product,
        };
        let code_bytes = dimensions / COMPONENTS_PER_BYTE + quantiser.correction_bytes();
        let code_bytes = code_bytes.clamp(1, CODE_BYTES_MAX);
        let code_bytes = number("quantizationByteSize", code_bytes);
        VectorIndex {
            path: steps_of(&entry.names),
            data_type,
            dimensions,
            kind,
            function,
            quantiser,
            code_bytes: quantiser.code_bytes(dimensions, code_bytes),
            build_list_size: number("indexingSearchListSize", BUILD_LIST_SIZE),
            shard_path: None,
            text: format!("vector {} {} {dimensions}", entry.path, data_type.name()),
        }
    }

    /// Returns the index of an entry as the versions of the engine had it that did not know shards.
    pub(crate) fn without_shard_key(&self, entry: &SearchIndex) -> Self {
        Self::without_shards(entry, self.data_type, self.dimensions, self.function)
    }

    /// Returns what [`VectorIndex::from_record`] reads.
    pub(crate) fn to_record(&self) -> Json {
        Json::Object(object! {
            "dataType" => self.data_type.name(),
            "dimensions" => self.dimensions as u64,
            "distanceFunction" => self.function.name(),
            "hasShards" => self.shard_path.is_some(),
        })
    }

    /// Reads the index of an entry of `vectorIndexes` from a record of the catalog. Returns `None`
    /// for a damaged record. Records of before lack the distance function, and then the member for
    /// shards: their rows have none.
    pub(crate) fn from_record(entry: &SearchIndex, record: &Json) -> Option<Self> {
        let data_type = DataType::parse(record.get("dataType")?.as_str()?)?;
        let dimensions = usize::try_from(record.get("dimensions")?.as_i64()?).ok()?;
        let function = match record.get("distanceFunction") {
            None => DistanceFunction::Cosine,
            Some(function) => DistanceFunction::parse(function.as_str()?)?,
        };
        let index_of = match record.get("hasShards").and_then(Json::as_bool) {
            Some(true) => Self::of,
            _ => Self::without_shards,
        };
        Some(index_of(entry, data_type, dimensions, function))
    }

    /// Returns the row of an item, if the item has a vector.
    pub(crate) fn row_of(&self, item: &Object, ts: &Json) -> Option<Vec<u8>> {
        // A path of a vector policy that begins with `_ts` names no vector.
        let value = value_at(&self.path, item, &Json::Null)?;
        let mut row = stored_vector(value, self.data_type, self.dimensions)?;
        if let Some(path) = &self.shard_path {
            let shard = Shard::of_value(value_at(path, item, ts));
            row.extend_from_slice(&shard.bytes());
        }
        Some(row)
    }

    /// Appends the components of the vector in a row. Returns the shard, or `None` for a damaged
    /// row.
    pub(crate) fn append(&self, row: &[u8], components: &mut Vec<f32>) -> Option<Shard> {
        let vector = row.get(..self.stored_bytes())?;
        append_components(vector, self.data_type, self.dimensions, components)?;
        self.shard_of_row(row)
    }

    /// Returns the shard in a row, or `None` for a damaged row.
    fn shard_of_row(&self, row: &[u8]) -> Option<Shard> {
        let shard = Shard::read(row.get(self.stored_bytes()..)?)?;
        ((shard != Shard::ONLY) == self.shard_path.is_some()).then_some(shard)
    }

    /// Returns the number of bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        let shard = self.shard_path.as_ref().map_or(0, |_| size_of::<Shard>());
        self.stored_bytes() + shard
    }

    fn stored_bytes(&self) -> usize {
        stored_vector_bytes(self.data_type, self.dimensions)
    }

    /// Returns the units that a write is charged for a vector.
    pub(crate) fn units(&self) -> u32 {
        let bytes = self.dimensions * self.data_type.component_bytes();
        let bytes_per_unit = match self.kind {
            VectorIndexKind::DiskAnn => BYTES_PER_UNIT_OF_GRAPH,
            VectorIndexKind::Flat | VectorIndexKind::QuantizedFlat => BYTES_PER_UNIT,
        };
        bytes.div_ceil(bytes_per_unit) as u32
    }
}
