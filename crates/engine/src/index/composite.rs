//! The values of a composite index: those of its paths one after the other, turned where they descend.

use super::paths::Step;
use super::policy::Composite;
use super::value;
use orrery_model::{Json, Object};

/// Encoded bytes of strings that one entry keeps: the store's keys have a limit.
const STRING_BYTES: usize = 1_600;

impl Composite {
    /// Encoded bytes that it keeps of one string.
    pub fn string_bytes(&self) -> usize {
        (STRING_BYTES / self.paths.len()).min(value::STRING_BYTES)
    }
}

/// The value of an item.
pub fn encode(composite: &Composite, item: &Object, ts: u64) -> Vec<u8> {
    let ts = Json::from(ts);
    let part = |(path, ascending): &(Vec<Step>, bool)| {
        let bytes = value::encode_or_undefined(value_at(path, item, &ts), composite.string_bytes());
        if *ascending {
            bytes
        } else {
            value::turned(&bytes)
        }
    };
    composite.paths.iter().flat_map(part).collect()
}

/// The value at a path of names; `ts` is that of `_ts`, which is not among the item's members.
pub fn value_at<'a>(path: &[Step], item: &'a Object, ts: &'a Json) -> Option<&'a Json> {
    let (Step::Name(first), rest) = path.split_first()? else {
        return None;
    };
    let start = match first.as_str() {
        "_ts" => ts,
        own if crate::partition::row::is_system(own) => return None,
        name => item.get(name)?,
    };
    rest.iter().try_fold(start, |at, step| match step {
        Step::Name(name) => at.get(name),
        Step::Element => None,
    })
}

/// How many bytes there are up to and with the first part that different values with an order among themselves share: what
/// follows says nothing of the order of items that begin so. `None` if all parts say all.
pub fn hides_order_from(composite: &Composite, bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for (_, ascending) in &composite.paths {
        let rest = bytes.get(at..)?;
        let straight = if *ascending {
            rest.to_vec()
        } else {
            value::turned(rest)
        };
        let part = straight.get(..value::first_length(&straight)?)?;
        at += part.len();
        if value::hides_order(part) {
            return Some(at);
        }
    }
    None
}
