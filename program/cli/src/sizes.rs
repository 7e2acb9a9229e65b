//! Sizes on the command line: a whole number with a unit.

use orrery_server::MemoryLimit;
use std::str::FromStr;

/// Bytes of a megabyte, as the service counts the sizes of partitions.
const MEGABYTE: u64 = 1 << 20;

/// Units in lower case with their bytes.
type Units = &'static [(&'static str, u64)];

/// The units of partition sizes. The service counts them in powers of 1024.
const PARTITION_UNITS: Units = &[
    ("", MEGABYTE),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", MEGABYTE),
    ("mb", MEGABYTE),
    ("mib", MEGABYTE),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("tib", 1 << 40),
];

/// The units of sizes of memory.
const MEMORY_UNITS: Units = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// Parses a size and returns its bytes.
///
/// # Errors
/// A description of the fault, with an example.
fn parse(text: &str, units: Units) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].trim();
    let lower_case = unit.to_ascii_lowercase();
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == lower_case) else {
        return Err(format!("'{unit}' is no unit; write a size such as 2GiB"));
    };
    let number: u64 = digits
        .trim()
        .parse()
        .map_err(|_| format!("'{digits}' is no whole number; write a size such as 2GiB"))?;
    number
        .checked_mul(*factor)
        .ok_or_else(|| "the size does not fit into 64 bits".to_owned())
}

/// Parses the memory that a server may use: a size such as `1500000000`, `900MiB`, `2GiB` or `2G`,
/// which is not below the minimum of a server.
pub(crate) fn memory_limit(text: &str) -> Result<MemoryLimit, String> {
    MemoryLimit::new(parse(text, MEMORY_UNITS)?)
}

/// The largest size of a partition, in bytes: at least a megabyte. A number without a unit counts
/// megabytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionSize(pub(crate) u64);

impl FromStr for PartitionSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse(text, PARTITION_UNITS)? {
            0..MEGABYTE => Err("the smallest limit is 1MB".to_owned()),
            bytes => Ok(PartitionSize(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("1073741824", 1 << 30),
            ("2GiB", 2 << 30),
            ("2 GiB", 2 << 30),
            ("2g", 2 << 30),
            ("256MiB", 256 << 20),
            ("1500000kB", 1_500_000_000),
        ] {
            assert_eq!(memory_limit(text), MemoryLimit::new(bytes), "{text}");
            assert!(memory_limit(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "GiB",
            "2.5GiB",
            "-1",
            "2 apples",
            "99999999999999TiB",
            "255MiB",
        ] {
            assert!(memory_limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_of_partitions_count_megabytes_unless_a_unit_is_given() {
        for (text, bytes) in [
            ("1", 1 << 20),
            ("20480", 20 << 30),
            ("20MB", 20 << 20),
            ("50 mb", 50 << 20),
            ("20GB", 20 << 30),
            ("2048kB", 2 << 20),
        ] {
            assert_eq!(text.parse(), Ok(PartitionSize(bytes)), "{text}");
        }
        for text in [
            "0",
            "-1",
            "",
            "MB",
            "1.5GB",
            "5 apples",
            "1023KB",
            "99999999999TB",
        ] {
            assert!(text.parse::<PartitionSize>().is_err(), "{text}");
        }
    }
}
