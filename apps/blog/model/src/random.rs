//! Random numbers, identifiers and texts, all derived from a seed.
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

/// A source of plain text. All texts of the data set are pieces of one long text.
#[derive(Debug)]
pub(crate) struct Texts {
    text: String,
    /// Byte offsets at which a piece may start: the beginnings of words, except near the end.
    starts: Vec<usize>,
}

impl Texts {
    /// Bytes of the longest piece.
    const PIECE_BYTES_MAX: usize = 1_000;

    /// Creates a text of 64 KiB from random common words.
    pub(crate) fn new(random: &mut Pcg32) -> Self {
        const WORDS: &str = "\
            a again all and are as at been before but by came could day did down each early end \
            even every far few find first for from garden give good great had hand have he \
            her here home house how if in into is it just keep kind know last late light like \
            line little long look made make man many may more most mountain move much must \
            name near never new next night no not now of old on one only open or other our out \
            over own page part people place point read right river road same sea see she \
            should show side small so some sound still stone story such summer take tell than \
            that the their them then there they thing think this though time to told town tree \
            turn two under up us very walk was water way we well went were what when where \
            which while white who why wide will wind window winter with word work world would \
            write year";
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let (mut text, mut starts) = (String::new(), Vec::new());
        while text.len() < 64 * 1024 {
            starts.push(text.len());
            text.push_str(words[random_below(random, words.len() as u64) as usize]);
            text.push(' ');
        }
        starts.retain(|start| start + Self::PIECE_BYTES_MAX <= text.len());
        Self { text, starts }
    }

    /// Returns a piece of exactly `length` ASCII characters, from 1 to 1,000.
    pub(crate) fn take(&self, random: &mut Pcg32, length: usize) -> String {
        let start = self.starts[random_below(random, self.starts.len() as u64) as usize];
        let mut text = self.text[start..start + length.clamp(1, Self::PIECE_BYTES_MAX)].to_owned();
        // The piece ends like a sentence: with a letter before the full stop, not a space.
        text.pop();
        if text.ends_with(' ') {
            text.pop();
            text.push('s');
        }
        text.push('.');
        text
    }
}
