//! Random numbers and identifiers, all derived from a seed.
//!
//! Every entity has a stream of random numbers of its own, selected by seed, kind and number, so
//! that it can be created without creating those before it. The output of the generator (PCG-32)
//! must not change; a test of the data set pins it.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// The purpose of a stream of random numbers. Streams of different kinds are independent.
#[derive(Clone, Copy)]
pub(crate) enum StreamKind {
    User = 1,
    Post,
    Comment,
    Like,
    FreshUser,
    FreshPost,
    FreshComment,
    FreshLike,
    Texts,
    Dates,
}

/// Returns the stream of random numbers of one entity.
pub(crate) fn random(seed: u64, kind: StreamKind, number: u64) -> Pcg32 {
    // The xor gives each pair of kind and number another state: numbers are below 2^56.
    Pcg32::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((kind as u64) << 56) ^ number)
}

/// Returns a number from 0 (inclusive) to `bound` (exclusive).
pub(crate) fn random_below(random: &mut Pcg32, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Returns a length from `low` to `high`, both inclusive.
pub(crate) fn random_between(random: &mut Pcg32, low: u64, high: u64) -> usize {
    (low + random_below(random, high - low + 1)) as usize
}

/// Returns a version 4 UUID: 36 characters.
pub(crate) fn uuid(random: &mut Pcg32) -> String {
    let (a, b) = (random.next_u64(), random.next_u64());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        (b >> 48) & 0x3fff | 0x8000,
        b & 0xffff_ffff_ffff
    )
}
