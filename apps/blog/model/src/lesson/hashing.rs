//! The place of a partition key: its hash, and the physical partition in which the database keeps
//! it.
//!
//! The hash is computed here as an official SDK computes it for containers with one key path and
//! version 2 of the partition key definition. [`locate`] asks the database as well, so that a
//! reader sees both and can compare them.
//!
//! Left out: hierarchical keys and version 1.

use crate::client::PartitionKeyRange;
use crate::meter::{Meter, Operation, RequestRecord};
use crate::{Blog, BlogError};
use orrery_client::PartitionKey;
use serde_json::Value;

/// The id of an item that [`locate`] reads. No item has it: the answer of the partition matters.
const NO_ITEM: &str = "which-partition";

/// A partition key with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The effective partition key: 32 hexadecimal digits.
    pub epk: String,
    /// Id of the physical partition whose range contains the hash, by computation.
    pub computed: Option<String>,
    /// The request that asked the database. Its range is that of the partition that answered.
    pub asked: RequestRecord,
}

/// Returns the effective partition key of a value in hexadecimal form; `None` for a list or an
/// object, which cannot be a partition key.
pub fn effective_key(key: &Value) -> Option<String> {
    let mut hash = murmur3_128(&hash_input(key)?).to_be_bytes();
    // Hashes of version 2 are below 2^126.
    hash[0] &= 0x3F;
    Some(hash.iter().map(|byte| format!("{byte:02X}")).collect())
}

/// Returns the range that contains an effective partition key. Hexadecimal texts compare like the
/// numbers: a prefix is the smaller one.
pub fn range_of<'a>(ranges: &'a [PartitionKeyRange], epk: &str) -> Option<&'a PartitionKeyRange> {
    ranges
        .iter()
        .find(|range| range.min.as_str() <= epk && epk < range.max.as_str())
}

/// Computes the place of a key in `posts` and asks the database for it by a read of an item that
/// does not exist.
///
/// # Errors
/// Every error of a request except 404, and [`BlogError::InvalidOption`] for a key that is a list
/// or an object.
pub async fn locate(blog: &Blog, key: &Value) -> Result<Place, BlogError> {
    let epk = effective_key(key)
        .ok_or_else(|| BlogError::InvalidOption("a partition key is a single value".to_owned()))?;
    let ranges = blog.client.ranges(&blog.posts).await?;
    let computed = range_of(&ranges, &epk).map(|range| range.id.clone());
    let meter = Meter::recording();
    let text = key.to_string();
    let operation = Operation::Read;
    let client = blog
        .client
        .metered(&meter, &blog.posts, operation, Some(NO_ITEM), Some(&text));
    let answer = client
        .read_item(&blog.posts, &PartitionKey::of(key), NO_ITEM)
        .await
        .map_err(BlogError::from);
    match answer {
        Err(error) if !error.is_item_missing() => return Err(error),
        _ => {}
    }
    let asked = meter.records().pop().ok_or_else(|| {
        BlogError::unexpected("read of an item", "the answer has no request charge")
    })?;
    Ok(Place {
        epk,
        computed,
        asked,
    })
}

/// Returns the bytes that are hashed: a mark of the type, then the value.
fn hash_input(key: &Value) -> Option<Vec<u8>> {
    let mut input = Vec::new();
    match key {
        Value::Null => input.push(0x01),
        Value::Bool(false) => input.push(0x02),
        Value::Bool(true) => input.push(0x03),
        Value::Number(number) => {
            input.push(0x05);
            input.extend_from_slice(&number.as_f64()?.to_le_bytes());
        }
        Value::String(text) => {
            input.push(0x08);
            input.extend_from_slice(text.as_bytes());
            input.push(0xFF);
        }
        Value::Array(_) | Value::Object(_) => return None,
    }
    Some(input)
}

/// Returns MurmurHash3 (x64, 128 bits, seed 0; Austin Appleby, public domain) with the second half
/// in front, as the SDKs read its bytes.
fn murmur3_128(data: &[u8]) -> u128 {
    const C1: u64 = 0x87C3_7B91_1142_53D5;
    const C2: u64 = 0x4CF5_AD43_2745_937F;
    let mix1 = |word: u64| word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix2 = |word: u64| word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |bytes: &[u8]| {
        let little_endian = bytes.iter().rev();
        little_endian.fold(0, |word: u64, byte| word << 8 | u64::from(*byte))
    };
    // Blocks of 16 bytes are mixed into both halves of the state.
    let (mut h1, mut h2) = (0u64, 0u64);
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        h1 ^= mix1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 ^= mix2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    // The last bytes are padded with zeros. An empty word mixes to 0 and changes nothing.
    let (low, high) = blocks.remainder().split_at(blocks.remainder().len().min(8));
    h1 ^= mix1(word(low));
    h2 ^= mix2(word(high));
    // At the end every bit of the input affects every bit of both halves.
    let length = data.len() as u64;
    (h1, h2) = (h1 ^ length, h2 ^ length);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2) = (final_mix(h1), final_mix(h2));
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h2) << 64 | u128::from(h1)
}

/// Mixes the bits of one half.
fn final_mix(mut half: u64) -> u64 {
    half ^= half >> 33;
    half = half.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    half ^= half >> 33;
    half = half.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    half ^ half >> 33
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hashes_are_those_of_the_official_sdks() {
        for (key, epk) in [
            (json!(""), "32E9366E637A71B4E710384B2F4970A0"),
            (json!("partitionKey"), "013AEFCF77FA271571CF665A58C933F1"),
            (json!("redmond"), "22E342F38A486A088463DFF7838A5963"),
            (json!("a".repeat(1024)), "332BDF5512AE49615F32C7D98C2DB86C"),
            (json!(null), "378867E4430E67857ACE5C908374FE16"),
            (json!(true), "0E711127C5B5A8E4726AC6DD306A3E59"),
        ] {
            assert_eq!(effective_key(&key).as_deref(), Some(epk), "{key}");
        }
    }

    #[test]
    fn a_text_and_a_number_with_equal_digits_are_different_keys() {
        assert_ne!(effective_key(&json!("1")), effective_key(&json!(1)));
        assert_eq!(effective_key(&json!(1)), effective_key(&json!(1.0)));
        assert_eq!(effective_key(&json!([1])), None);
    }

    #[test]
    fn a_hash_lies_in_the_range_that_begins_at_or_before_it() {
        let range = |id: &str, min: &str, max: &str| PartitionKeyRange {
            id: id.to_owned(),
            min: min.to_owned(),
            max: max.to_owned(),
            parents: Vec::new(),
        };
        let ranges = [range("0", "", "20"), range("1", "20", "FF")];
        let id = |epk: &str| range_of(&ranges, epk).map(|range| range.id.as_str());
        assert_eq!(id("1FFF"), Some("0"));
        assert_eq!(id("20"), Some("1"));
        assert_eq!(id("3FFF"), Some("1"));
    }
}
