//! Vector indexes: the vectors of the items of a partition in binary form, one row for each vector.
//!
//! All kinds of vector index (`flat`, `quantizedFlat`, `diskANN`) keep these rows, and a query by
//! VectorDistance reads them in place of the items. The rows of one logical partition lie side by
//! side (`partition/keys.rs`).
//!
//! Promises: an item has a row if and only if its value is a vector of the dimensions and the data
//! type of the policy; the distance of any other value to such a vector is undefined. Left out:
//! quantised vectors and graphs, so every search is exact.

use super::composite::value_at;
use super::paths::Step;
use super::policy::SearchIndex;
use orrery_model::{Json, Object, object};
use orrery_sql::{DataType, stored_vector};

/// Bytes of a stored vector that count as one index entry in the charge of a write. The service's
/// documentation has about 35 RU for an item with 1,536 components of four bytes and an index of
/// type `quantizedFlat`, of which 12 are for the item.
const BYTES_PER_UNIT: usize = 50;
/// The same with an index of type `diskANN`: about 65 RU.
const BYTES_PER_UNIT_OF_GRAPH: usize = 22;

/// A vector index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VectorIndex {
    /// The path of the vectors, which has only names.
    pub path: Vec<Step>,
    /// The data type of the components.
    pub data_type: DataType,
    /// The number of components.
    pub dimensions: usize,
    /// True for the type `diskANN`.
    is_graph: bool,
    /// Name of the index in the dictionary of paths. Rows of different data types or dimensions are
    /// different rows, so the name has both.
    pub text: String,
}

impl VectorIndex {
    /// Returns the index of an entry of `vectorIndexes` over vectors of a data type and a number of
    /// dimensions.
    pub(crate) fn of(entry: &SearchIndex, data_type: DataType, dimensions: usize) -> Self {
        let kind = entry.body.get("type").and_then(Json::as_str);
        VectorIndex {
            path: entry.names.iter().cloned().map(Step::Name).collect(),
            data_type,
            dimensions,
            is_graph: kind == Some("diskANN"),
            text: format!("vector {} {} {dimensions}", entry.path, data_type.name()),
        }
    }

    /// Returns what [`VectorIndex::from_record`] reads.
    pub(crate) fn to_record(&self) -> Json {
        Json::Object(object! {
            "dataType" => self.data_type.name(),
            "dimensions" => self.dimensions as u64,
        })
    }

    /// Reads the index of an entry of `vectorIndexes` from a record of the catalog. Returns `None`
    /// for a damaged record.
    pub(crate) fn from_record(entry: &SearchIndex, record: &Json) -> Option<Self> {
        let data_type = DataType::parse(record.get("dataType")?.as_str()?)?;
        let dimensions = usize::try_from(record.get("dimensions")?.as_i64()?).ok()?;
        Some(Self::of(entry, data_type, dimensions))
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
        let bytes_per_unit = match self.is_graph {
            true => BYTES_PER_UNIT_OF_GRAPH,
            false => BYTES_PER_UNIT,
        };
        bytes.div_ceil(bytes_per_unit) as u32
    }
}
