//! The lesson: what each request costs in each model, what traffic costs, and a lab in which a
//! reader meets the limits.
//!
//! ```text
//! compare ── scratch      every action measured: reads on the live blog, writes in a database of
//!   │                     their own, pipelines counted apart
//!   ├── comparing         the comparison of an application: at its start, after changes, on demand
//!   ├── export            the figures as CSV, Markdown and JSON
//!   ├── mix               RU/s for stated traffic, and where two models cost the same
//!   └── growth            years until a limit is reached
//! lab ── experiments      a hot key, a split, a badly chosen key, a full partition
//!   └── load              bounded load with a count for each second
//! examples ── scripts     items of the lab's database that one click changes; sources of scripts
//! hashing                 the place of a partition key, computed and asked for
//! ```
//!
//! Everything goes through the public protocol, so that the lesson works on any server.

mod action;
pub mod compare;
pub mod comparing;
pub mod examples;
mod export;
pub mod growth;
pub mod hashing;
pub mod lab;
pub mod mix;
mod scratch;
pub mod scripts;

pub use action::Action;
pub use compare::Comparison;
pub use comparing::Comparing;
pub use lab::Lab;

use crate::article;
use crate::client::PartitionKeyRange;
use crate::models::{Model, Request};

/// Returns milliseconds and RU that the article states for a request in a model.
pub fn published(request: Request, model: Model) -> (f64, f64) {
    article::published(request, model)
}

/// Returns the first and the last place of a range in the hash space, 0 to 1.
pub fn place(range: &PartitionKeyRange) -> (f64, f64) {
    (fraction(&range.min), fraction(&range.max))
}

/// Returns the place of an effective partition key in the hash space, 0 to 1.
pub fn hash_place(epk: &str) -> f64 {
    fraction(epk)
}

/// Returns the place of an effective partition key in the hash space. Keys of version 2 begin with
/// two zero bits, so the space ends at `40`; `FF` is the end of the last range.
fn fraction(epk: &str) -> f64 {
    const DIGITS: usize = 8;
    if epk.is_empty() {
        return 0.0;
    }
    let mut digits: String = epk.chars().take(DIGITS).collect();
    while digits.len() < DIGITS {
        digits.push('0');
    }
    match u32::from_str_radix(&digits, 16) {
        Ok(value) => (f64::from(value) / f64::from(0x4000_0000u32)).min(1.0),
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_in_the_hash_space_of_version_2() {
        assert_eq!(fraction(""), 0.0);
        assert_eq!(fraction("FF"), 1.0);
        assert_eq!(fraction("20"), 0.5);
        assert!((fraction("1FFFFFFFFFFFFFFF") - 0.5).abs() < 1e-6);
        assert_eq!(fraction("no"), 1.0, "an unknown form takes the whole space");
    }
}
