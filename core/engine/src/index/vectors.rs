//! Vector indexes: the vectors of the items of a partition in binary form, one row for each vector.
//!
//! All kinds of vector index (`flat`, `quantizedFlat`, `diskANN`) keep these rows, and a query by
//! VectorDistance reads them in place of the items. The rows of one logical partition lie side by
//! side (`partition/keys.rs`).
//!
//! Promises: an item has a row if and only if its value is a vector of the dimensions and the data
//! type of the policy; the distance of any other value to such a vector is undefined. Left out:
//! quantised vectors and graphs (`approximate.rs`).

use super::composite::value_at;
use super::paths::Step;
use super::policy::SearchIndex;
use orrery_model::{Json, Object, object};
use orrery_sql::{DataType, DistanceFunction, stored_vector};

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
    /// The number of bytes of a quantised vector.
    pub code_bytes: usize,
    /// The number of candidates from which a vector of a graph gets its neighbours.
    pub build_list_size: usize,
    /// Name of the index in the dictionary of paths. Rows of different data types or dimensions are
    /// different rows, so the name has both.
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
        let kind = match entry.body.get("type").and_then(Json::as_str) {
            Some("diskANN") => VectorIndexKind::DiskAnn,
            Some("quantizedFlat") => VectorIndexKind::QuantizedFlat,
            _ => VectorIndexKind::Flat,
        };
        let number = |name: &str, default: usize| {
            let value = entry.body.get(name).and_then(Json::as_i64);
            value.map_or(default, |value| value.unsigned_abs() as usize)
        };
        let code_bytes = (dimensions / COMPONENTS_PER_BYTE).clamp(1, CODE_BYTES_MAX);
        VectorIndex {
            path: entry.names.iter().cloned().map(Step::Name).collect(),
            data_type,
            dimensions,
            kind,
            function,
            code_bytes: number("quantizationByteSize", code_bytes),
            build_list_size: number("indexingSearchListSize", BUILD_LIST_SIZE),
            text: format!("vector {} {} {dimensions}", entry.path, data_type.name()),
        }
    }

    /// Returns what [`VectorIndex::from_record`] reads.
    pub(crate) fn to_record(&self) -> Json {
        Json::Object(object! {
            "dataType" => self.data_type.name(),
            "dimensions" => self.dimensions as u64,
            "distanceFunction" => self.function.name(),
        })
    }

    /// Reads the index of an entry of `vectorIndexes` from a record of the catalog. Returns `None`
    /// for a damaged record. Records of before lack the distance function.
    pub(crate) fn from_record(entry: &SearchIndex, record: &Json) -> Option<Self> {
        let data_type = DataType::parse(record.get("dataType")?.as_str()?)?;
        let dimensions = usize::try_from(record.get("dimensions")?.as_i64()?).ok()?;
        let function = match record.get("distanceFunction") {
            None => DistanceFunction::Cosine,
            Some(function) => DistanceFunction::parse(function.as_str()?)?,
        };
        Some(Self::of(entry, data_type, dimensions, function))
    }

    /// Returns the stored vector of an item, if the item has one.
    pub(crate) fn vector_of(&self, item: &Object) -> Option<Vec<u8>> {
        // A path of a vector policy that begins with `_ts` names no vector.
        let value = value_at(&self.path, item, &Json::Null)?;
        stored_vector(value, self.data_type, self.dimensions)
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
