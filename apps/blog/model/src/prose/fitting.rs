//! Texts of a given length from whole sentences.

/// The parts of a text.
pub(super) struct Frame {
    pub(super) first: String,
    pub(super) last: String,
    /// Bytes of the whole text, with the empty lines between paragraphs.
    pub(super) length: usize,
    pub(super) paragraphs: usize,
    /// Sentences between the first and the last, the preferred ones first.
    pub(super) pool: Vec<String>,
}

/// Bytes that two sentences usually have; the last two of a text are chosen by their length.
const TWO_SENTENCES: usize = 140;

/// Returns the paragraphs of a text: the first sentence, sentences of `pool` from its beginning
/// on, two of the next by which the text comes nearest to its length, and the last sentence.
pub(super) fn fitted(frame: Frame) -> Vec<String> {
    let mut pool = frame.pool;
    pool.reverse();
    // Each sentence takes one byte more, for the space after it; an empty line takes two.
    let fixed = frame.first.len() + frame.last.len() + 2 + frame.paragraphs - 1;
    let mut left = (frame.length + 1).saturating_sub(fixed);
    let mut sentences = vec![frame.first];
    while left > TWO_SENTENCES
        && let Some(sentence) = pool.pop()
    {
        left = left.saturating_sub(sentence.len() + 1);
        sentences.push(sentence);
    }
    sentences.extend(nearest(left, pool));
    sentences.push(frame.last);
    in_paragraphs(sentences, frame.paragraphs)
}

/// Returns one or two sentences of `pool`, which come nearest to `length` together.
fn nearest(length: usize, mut pool: Vec<String>) -> Vec<String> {
    let mut best = (usize::MAX, 0, 0);
    for (one, first) in pool.iter().enumerate() {
        for (other, second) in pool.iter().enumerate().skip(one) {
            let both = match one == other {
                true => first.len() + 1,
                false => first.len() + second.len() + 2,
            };
            best = best.min((both.abs_diff(length), one, other));
        }
    }
    let (_, one, other) = best;
    let mut chosen = Vec::new();
    if other != one && other < pool.len() {
        chosen.push(pool.swap_remove(other));
    }
    if one < pool.len() {
        chosen.push(pool.swap_remove(one));
    }
    chosen
}

/// Distributes sentences evenly over paragraphs.
fn in_paragraphs(sentences: Vec<String>, paragraphs: usize) -> Vec<String> {
    let count = sentences.len();
    let paragraphs = paragraphs.min(count);
    let mut texts: Vec<String> = vec![String::new(); paragraphs];
    for (place, sentence) in sentences.into_iter().enumerate() {
        let text = &mut texts[place * paragraphs / count];
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&sentence);
    }
    texts
}

/// Returns the bytes of a text with empty lines between its paragraphs.
pub(super) fn length_of(paragraphs: &[String]) -> usize {
    let texts: usize = paragraphs.iter().map(String::len).sum();
    texts + 2 * paragraphs.len().saturating_sub(1)
}
