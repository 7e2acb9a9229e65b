//! Random numbers, identifiers and texts, all from a seed.
//!
//! Every entity has a stream of its own, named by seed, kind and number, so it can be made without making those before it.
//! The generator is one whose output is fixed for good; a test of the data set pins it.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// What a stream of random numbers is for; streams of different kinds share nothing.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
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

/// The random numbers of one entity.
pub(crate) fn random(seed: u64, kind: Kind, number: u64) -> Pcg32 {
    // The multiplier is odd, so no two numbers of one kind, and no two kinds, share a stream under one seed.
    Pcg32::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ ((kind as u64) << 56) ^ number)
}

/// A number from 0 to below `bound`.
pub(crate) fn below(random: &mut Pcg32, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// A length from `low` to `high`.
pub(crate) fn between(random: &mut Pcg32, low: u64, high: u64) -> usize {
    (low + below(random, high - low + 1)) as usize
}

/// A version 4 UUID: 36 characters.
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

/// A stretch of plain text from which all texts are cut.
#[derive(Debug)]
pub(crate) struct Texts {
    text: String,
    /// Where words begin.
    starts: Vec<usize>,
}

impl Texts {
    const LONGEST: usize = 1_000;

    pub(crate) fn new(random: &mut Pcg32) -> Self {
        const WORDS: &str = "a again all and are as at been before but by came could day did down each early end even \
            every far few find first for from garden give good great had hand have he her here home house how if in \
            into is it just keep kind know last late light like line little long look made make man many may more most \
            mountain move much must name near never new next night no not now of old on one only open or other our out \
            over own page part people place point read right river road same sea see she should show side small so \
            some sound still stone story such summer take tell than that the their them then there they thing think \
            this though time to told town tree turn two under up us very walk was water way we well went were what \
            when where which while white who why wide will wind window winter with word work world would write year";
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let (mut text, mut starts) = (String::new(), Vec::new());
        while text.len() < 64 * 1024 {
            starts.push(text.len());
            text.push_str(words[below(random, words.len() as u64) as usize]);
            text.push(' ');
        }
        starts.retain(|start| start + Self::LONGEST <= text.len());
        Self { text, starts }
    }

    /// A text of exactly `length` characters (at most 1,000).
    pub(crate) fn take(&self, random: &mut Pcg32, length: usize) -> String {
        let start = self.starts[below(random, self.starts.len() as u64) as usize];
        let mut text = self.text[start..start + length.clamp(1, Self::LONGEST)].to_owned();
        // A text ends as a sentence does, not with a space before the full stop.
        text.pop();
        if text.ends_with(' ') {
            text.pop();
            text.push('s');
        }
        text.push('.');
        text
    }
}
