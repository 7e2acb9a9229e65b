//! Values of a composite index: the encoded values of its paths in sequence, inverted where a path
//! descends.

use super::paths::Step;
use super::policy::Composite;
use super::value;
use crate::partition::row::is_system;
use orrery_model::{Json, Object};

/// Encoded bytes of all strings of one entry. Keys of the store have a maximum length.
const STRING_BYTES: usize = 1_600;

impl Composite {
    /// Returns the maximum length of an encoded string in an entry, in bytes.
    pub fn string_bytes(&self) -> usize {
        (STRING_BYTES / self.paths.len()).min(value::STRING_BYTES)
    }
}

/// Returns the value of an item in a composite index. `ts` is the `_ts` of the item, in seconds.
pub(crate) fn encode(composite: &Composite, item: &Object, ts: u64) -> Vec<u8> {
    let ts = Json::from(ts);
    let mut encoded = Vec::new();
    for (path, ascending) in &composite.paths {
        let found = value_at(path, item, &ts);
        let bytes = value::encode_or_undefined(found, composite.string_bytes());
        if *ascending {
            encoded.extend_from_slice(&bytes);
        } else {
            encoded.extend(value::inverted(&bytes));
        }
    }
    encoded
}

/// Returns the value of an item at a path of names. `ts` is the value of `_ts`, which is not among
/// the members of the item.
pub(crate) fn value_at<'a>(path: &[Step], item: &'a Object, ts: &'a Json) -> Option<&'a Json> {
    let (Step::Name(first), rest) = path.split_first()? else {
        return None;
    };
    let mut value = match first.as_str() {
        "_ts" => ts,
        name if is_system(name) => return None,
        name => item.get(name)?,
    };
    for step in rest {
        value = match step {
            Step::Name(name) => value.get(name)?,
            Step::Element => return None,
        };
    }
    Some(value)
}

/// Returns the length of the beginning of an entry that ends with the first value that
/// [hides order](value::hides_order), or `None` if all values keep their order.
///
/// The bytes after that beginning do not order the items that share the beginning.
pub(crate) fn hides_order_from(composite: &Composite, bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    for (_, ascending) in &composite.paths {
        let rest = bytes.get(length..)?;
        let rest = if *ascending {
            rest.to_vec()
        } else {
            value::inverted(rest)
        };
        let first = rest.get(..value::first_length(&rest)?)?;
        length += first.len();
        if value::hides_order(first) {
            return Some(length);
        }
    }
    None
}
