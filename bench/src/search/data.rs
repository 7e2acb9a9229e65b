//! The texts and vectors of a run, and the exact answers for the nearest vectors.
//!
//! The first items are those of `bench/search_data.py` as they stand. If they are too few, all real
//! ones but the queries are items, and the synthetic ones of the same script follow them. The
//! queries are always real.

use crate::Result;
use crate::engine::on_threads;
use orrery_model::Json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// Components of a vector.
pub(crate) const DIMENSIONS: usize = 256;
/// Rows of a query.
pub(crate) const TOP: usize = 10;
/// Items with the same partition key.
pub(crate) const ITEMS_PER_KEY: usize = 1_000;
/// Percentages of the items that the filters of the measured queries keep.
pub(crate) const SHARES: [usize; 4] = [100, 1, 10, 50];
/// Place of the share that keeps all items.
pub(crate) const ALL_ITEMS: usize = 0;

/// Candidates of the computation with 32 bits among which that with 64 bits decides.
const CANDIDATES: usize = 3 * TOP;
/// Vectors that are compared with one query after another, so that they stay in a cache.
const TILE: usize = 32;
/// Sums of a scalar product, side by side.
const LANES: usize = 16;

/// A vector of length 1.
pub(crate) type Vector = [f32; DIMENSIONS];

/// The data of a run.
pub(crate) struct Data {
    /// The texts of the items.
    texts: Vec<String>,
    /// The vectors of the items at first.
    vectors: Vec<Vector>,
    /// The number of the vector of each item.
    vector_of: Vec<u32>,
    /// The texts and vectors of the queries.
    query_texts: Vec<String>,
    queries: Vec<Vector>,
    /// Number of the items that are not synthetic, which are the first ones.
    pub(crate) real: usize,
}

impl Data {
    /// Reads the data of a number of items and queries.
    pub(crate) fn read(directory: &Path, items: usize, queries: usize) -> Result<Data> {
        let mut texts = read_texts(&directory.join("texts.txt"))?;
        if texts.len() < queries {
            return Err(format!("{} texts are too few for the queries", texts.len()).into());
        }
        let real = items.min(texts.len() - queries);
        let mut vectors = Vec::with_capacity(items + queries);
        let path = directory.join("vectors.f32");
        read_vectors(&path, real + queries, &mut vectors)?;
        texts.truncate(real + queries);
        let query_texts = texts.split_off(real);
        let queries = vectors.split_off(real);
        if items > real {
            let further = read_texts(&directory.join("synthetic.txt"))?;
            texts.extend(further.into_iter().take(items - real));
            let path = directory.join("synthetic.f32");
            read_vectors(&path, items - real, &mut vectors)?;
            if texts.len() < items {
                return Err(format!("{} texts are too few for {items} items", texts.len()).into());
            }
        }
        Ok(Data {
            vector_of: (0..items as u32).collect(),
            texts,
            vectors,
            query_texts,
            queries,
            real,
        })
    }

    /// Returns the number of items.
    pub(crate) fn items(&self) -> usize {
        self.texts.len()
    }

    /// Returns the number of queries.
    pub(crate) fn query_count(&self) -> usize {
        self.queries.len()
    }

    /// Returns an item as JSON.
    pub(crate) fn item(&self, at: usize) -> Vec<u8> {
        let text = Json::from(self.texts[at].as_str()).to_text();
        format!(
            r#"{{"id":"{at}","pk":"k{}","share":{},"tenth":{},"text":{text},"v":{}}}"#,
            at / ITEMS_PER_KEY,
            share_of(at),
            share_of(at) / 10,
            vector_text(self.vector(at))
        )
        .into_bytes()
    }

    fn vector(&self, at: usize) -> &Vector {
        &self.vectors[self.vector_of[at] as usize]
    }

    /// Returns the vector of a query as JSON.
    pub(crate) fn query_text(&self, at: usize) -> String {
        vector_text(&self.queries[at])
    }

    /// Returns `count` different words of the text of a query, its longest ones.
    pub(crate) fn words(&self, at: usize, count: usize) -> Vec<String> {
        words(&self.query_texts[at], count)
    }

    /// Gives each item of one half the vector of another item of that half. Returns the numbers of
    /// these items. The half is independent of [`share_of`].
    pub(crate) fn replace_half(&mut self) -> Vec<usize> {
        let half: Vec<usize> = (0..self.items()).filter(|at| at / 100 % 2 == 1).collect();
        let before: Vec<u32> = half.iter().map(|at| self.vector_of[*at]).collect();
        // The order of the items is random, so any other one of the half will do.
        let distance = half.len() / 2 + 1;
        for (place, at) in half.iter().enumerate() {
            self.vector_of[*at] = before[(place + distance) % half.len()];
        }
        half
    }

    /// Returns the score of an item for a query: the cosine, computed as the policy says.
    fn score(&self, at: usize, query: usize) -> f64 {
        let (mut product, mut square, mut own) = (0.0, 0.0, 0.0);
        for (x, y) in self.vector(at).iter().zip(&self.queries[query]) {
            let (x, y) = (f64::from(*x), f64::from(*y));
            product += x * y;
            square += x * x;
            own += y * y;
        }
        product / f64::sqrt(square * own)
    }
}

/// Returns the property by which queries filter, from 0 to 99. The items are in random order, so
/// their numbers are independent of their vectors.
fn share_of(at: usize) -> usize {
    at % 100
}

fn read_texts(path: &Path) -> Result<Vec<String>> {
    let texts = std::fs::read_to_string(path).map_err(|_| missing(path))?;
    Ok(texts.lines().map(str::to_owned).collect())
}

/// Appends the first `count` vectors of a file.
fn read_vectors(path: &Path, count: usize, vectors: &mut Vec<Vector>) -> Result<()> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(|_| missing(path))?);
    let mut bytes = [0; DIMENSIONS * 4];
    for at in 0..count {
        match file.read_exact(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(format!("{} has {at} vectors, not {count}", path.display()).into());
            }
            read => read?,
        }
        let mut components = [0.0; DIMENSIONS];
        for (component, bytes) in components.iter_mut().zip(bytes.as_chunks().0) {
            *component = f32::from_le_bytes(*bytes);
        }
        // Cosines are scalar products only of vectors of length 1.
        if (product(&components, &components) - 1.0).abs() > 1e-3 {
            return Err(format!("vector {at} of {} is not of length 1", path.display()).into());
        }
        vectors.push(components);
    }
    Ok(())
}

fn missing(path: &Path) -> String {
    format!(
        "there is no {}: bench/search_data.py makes it",
        path.display()
    )
}

fn vector_text(vector: &Vector) -> String {
    let mut text = String::from("[");
    for (at, component) in vector.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        _ = write!(text, "{comma}{component}");
    }
    text.push(']');
    text
}

/// Returns `count` different words of a text, from its longest ones on.
fn words(text: &str, count: usize) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase)
        .collect();
    words.sort_by_key(|word| (std::cmp::Reverse(word.len()), word.clone()));
    words.dedup();
    words.truncate(count);
    words
}

/// Returns the scalar product of two vectors.
fn product(a: &Vector, b: &Vector) -> f32 {
    let mut sums = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks().0) {
        let b: &[f32; LANES] = b;
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// The exact answers of all queries: the nearest of the items that a filter keeps.
pub(crate) struct Truth {
    /// For each of [`SHARES`] and each query the scores of the nearest items, the best first.
    scores: [Vec<Vec<f64>>; SHARES.len()],
}

impl Truth {
    /// Compares all queries with all items.
    pub(crate) fn of(data: &Data) -> Result<Truth> {
        let threads = std::thread::available_parallelism()?.get();
        let queries: Vec<usize> = (0..data.query_count()).collect();
        let parts: Vec<&[usize]> = queries
            .chunks(queries.len().div_ceil(threads).max(1))
            .collect();
        let found = on_threads(parts.len(), |part| Ok(nearest(data, parts[part])))?;
        let mut scores = [const { Vec::new() }; SHARES.len()];
        for candidates in found.into_iter().flatten() {
            for (scores, own) in scores.iter_mut().zip(candidates) {
                scores.push(own);
            }
        }
        Ok(Truth { scores })
    }

    /// Returns the part of the exact answer that `ids` has. Items with the same score as the last
    /// one of the exact answer count too.
    pub(crate) fn recall(&self, data: &Data, query: usize, share: usize, ids: &[usize]) -> f64 {
        let scores = &self.scores[share][query];
        let Some(last) = scores.last() else {
            return 1.0;
        };
        let is_hit =
            |at: &&usize| share_of(**at) < SHARES[share] && data.score(**at, query) >= *last;
        ids.iter().filter(is_hit).count().min(scores.len()) as f64 / scores.len() as f64
    }

    /// Checks that an answer is one of the database: as many items as the exact answer has, each
    /// once, all of them kept by the filter, and the nearest first.
    pub(crate) fn check(
        &self,
        data: &Data,
        query: usize,
        share: usize,
        ids: &[usize],
    ) -> Result<()> {
        let wanted = self.scores[share][query].len();
        if ids.len() != wanted {
            return Err(format!("query {query} has {} rows, not {wanted}", ids.len()).into());
        }
        let mut distinct = ids.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != ids.len() {
            return Err(format!("query {query} has an item twice: {ids:?}").into());
        }
        if ids.iter().any(|at| share_of(*at) >= SHARES[share]) {
            return Err(format!("query {query} has an item that its filter drops").into());
        }
        let scores = ids.iter().map(|at| data.score(*at, query));
        match scores.is_sorted_by(|a, b| a >= b) {
            true => Ok(()),
            false => Err(format!("query {query} has its items in a wrong order: {ids:?}").into()),
        }
    }
}

/// The best candidates of a query.
#[derive(Clone)]
struct Best {
    rows: Vec<(f32, u32)>,
    /// Score that a further candidate must exceed.
    least: Option<f32>,
}

impl Best {
    const fn new() -> Best {
        Best {
            rows: Vec::new(),
            least: None,
        }
    }

    fn offer(&mut self, score: f32, at: u32) {
        if self.least.is_some_and(|least| score <= least) {
            return;
        }
        self.rows.push((score, at));
        if self.rows.len() >= 2 * CANDIDATES {
            self.rows.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            self.rows.truncate(CANDIDATES);
            self.least = self.rows.last().map(|row| row.0);
        }
    }
}

/// Returns for each of some queries the scores of the nearest items for each of [`SHARES`].
fn nearest(data: &Data, queries: &[usize]) -> Vec<[Vec<f64>; SHARES.len()]> {
    let mut best = vec![[const { Best::new() }; SHARES.len()]; queries.len()];
    for first in (0..data.items()).step_by(TILE) {
        let tile = first..(first + TILE).min(data.items());
        for (query, best) in queries.iter().zip(&mut best) {
            for at in tile.clone() {
                let score = product(data.vector(at), &data.queries[*query]);
                for (best, share) in best.iter_mut().zip(SHARES) {
                    if share_of(at) < share {
                        best.offer(score, at as u32);
                    }
                }
            }
        }
    }
    let exact = |query: usize, best: Best| {
        let scores = best
            .rows
            .iter()
            .map(|row| data.score(row.1 as usize, query));
        let mut scores: Vec<f64> = scores.collect();
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        scores.truncate(TOP);
        scores
    };
    let queries = queries.iter().zip(best);
    queries
        .map(|(query, best)| best.map(|best| exact(*query, best)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn data(items: usize, queries: usize) -> Data {
        let mut random = Random::new(7);
        let mut vectors = Vec::new();
        for _ in 0..items + queries {
            let vector: Vector = std::array::from_fn(|_| random.fraction() as f32 - 0.5);
            let length = product(&vector, &vector).sqrt();
            vectors.push(vector.map(|component| component / length));
        }
        let queries = vectors.split_off(items);
        Data {
            texts: vec!["a text".to_owned(); items],
            vectors,
            vector_of: (0..items as u32).collect(),
            query_texts: vec!["the query of a text".to_owned(); queries.len()],
            queries,
            real: items,
        }
    }

    /// Returns the nearest items that a filter keeps, by sorting all.
    fn sorted(data: &Data, query: usize, share: usize) -> Vec<usize> {
        let kept = |at: &usize| share_of(*at) < SHARES[share];
        let mut all: Vec<usize> = (0..data.items()).filter(kept).collect();
        all.sort_by(|a, b| data.score(*b, query).total_cmp(&data.score(*a, query)));
        all.truncate(TOP);
        all
    }

    #[test]
    fn the_exact_answers_are_those_of_a_sort_before_and_after_a_replacement() {
        let mut data = data(2_500, 5);
        for _ in 0..2 {
            let truth = Truth::of(&data).expect("answers");
            for query in 0..5 {
                for share in 0..SHARES.len() {
                    let ids = sorted(&data, query, share);
                    truth.check(&data, query, share, &ids).expect("good");
                    assert_eq!(truth.recall(&data, query, share, &ids), 1.0);
                }
            }
            data.replace_half();
        }
    }

    #[test]
    fn a_wrong_answer_has_less_recall_or_is_refused() {
        let data = data(2_500, 1);
        let truth = Truth::of(&data).expect("answers");
        let good = sorted(&data, 0, ALL_ITEMS);
        let next = sorted(&data, 0, 3);
        let other = next.iter().find(|at| !good.contains(at));
        let mut worse = good.clone();
        worse[TOP - 1] = *other.expect("an item outside the answer");
        truth.check(&data, 0, ALL_ITEMS, &worse).expect("an answer");
        assert_eq!(truth.recall(&data, 0, ALL_ITEMS, &worse), 0.9);
        let refused = |ids: &[usize]| truth.check(&data, 0, ALL_ITEMS, ids).is_err();
        let backwards: Vec<usize> = good.iter().rev().copied().collect();
        let twice: Vec<usize> = good.iter().map(|_| good[0]).collect();
        assert!(refused(&good[1..]) && refused(&backwards) && refused(&twice));
    }

    #[test]
    fn a_replacement_moves_the_vectors_of_one_half_and_loses_none() {
        let mut data = data(1_000, 1);
        let half = data.replace_half();
        assert_eq!(half.len(), 500);
        for at in 0..1_000 {
            assert_eq!(data.vector_of[at] != at as u32, half.contains(&at), "{at}");
        }
        data.vector_of.sort_unstable();
        assert!(data.vector_of.iter().copied().eq(0..1_000));
    }

    #[test]
    fn the_longest_words_come_first_and_once() {
        let found = words("The cat, the CATALOGUE: a cat's catalogue", 3);
        assert_eq!(found, ["catalogue", "cat", "the"]);
    }
}
