//! Full-text functions. The binder puts the language of the text before the arguments of each, so
//! argument 0 is the language and argument 1 the text. The computations are in `src/full_text.rs`.

use super::{ANY, Arguments, Function, Implementation, IndexUse, MeteredFunction, entry};
use crate::error::QueryError;
use crate::full_text::{Analyzer, Counts, Statistics, Term, count, score};
use crate::run::frame::Context;
use orrery_model::json::Json;

const fn full_text(
    names: &'static [&'static str],
    arity: (usize, usize),
    doc: &'static str,
    run: MeteredFunction,
) -> Function {
    entry(names, arity, doc, Implementation::FullText(run))
}

const fn rank(names: &'static [&'static str], doc: &'static str) -> Function {
    entry(names, (2, ANY), doc, Implementation::Rank)
}

pub(super) const TABLE: &[Function] = &[
    full_text(
        &["FULLTEXTCONTAINS", "FULLTEXT_CONTAINS"],
        (2, 2),
        "true if the text contains the word or phrase; {term, distance} is a fuzzy one",
        |cx, a| contains(cx, a, |hits| hits.iter().all(|count| *count > 0)),
    )
    .index_use(IndexUse::Seek),
    full_text(
        &[
            "FULLTEXTCONTAINSALL",
            "FULLTEXT_CONTAINS_ALL",
            "FULLTEXTCONTAINS_ALL",
        ],
        (2, ANY),
        "true if the text contains all of the words or phrases",
        |cx, a| contains(cx, a, |hits| hits.iter().all(|count| *count > 0)),
    )
    .index_use(IndexUse::Seek),
    full_text(
        &[
            "FULLTEXTCONTAINSANY",
            "FULLTEXT_CONTAINS_ANY",
            "FULLTEXTCONTAINS_ANY",
        ],
        (2, ANY),
        "true if the text contains any of the words or phrases",
        |cx, a| contains(cx, a, |hits| hits.iter().any(|count| *count > 0)),
    )
    .index_use(IndexUse::Seek),
    rank(
        &["FULLTEXTSCORE", "FULLTEXT_SCORE"],
        "the BM25 score of the text for the words or phrases, in ORDER BY RANK only",
    ),
    rank(
        &["RRF"],
        "scores fused by their ranks, with optional weights, in ORDER BY RANK only",
    ),
    full_text(
        &["_FULLTEXTWORDCOUNT"],
        (1, 1),
        "the number of words of the text without stop words; used in queries that clients merge",
        |cx, a| {
            let counts = count_terms(cx, a, &[])?;
            Ok(counts.map(|counts| Json::from(counts.length)))
        },
    ),
    full_text(
        &["_FULLTEXTSCORE"],
        (5, 5),
        "the BM25 score of the text for an array of words or phrases, given the items, words and \
         hits of the container; used in queries that clients merge",
        full_text_score,
    ),
];

/// Counts the terms in the text. The result is undefined if the text is no string or a term is
/// neither a string nor a fuzzy term.
fn count_terms(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    terms: &[&Json],
) -> Result<Option<Counts>, QueryError> {
    let (Some(language), Some(text)) = (a.text(0), a.text(1)) else {
        return Ok(None);
    };
    let analyzer = Analyzer::of(language);
    let mut parsed = Vec::with_capacity(terms.len());
    for term in terms {
        let Some(term) = Term::parse(term, &analyzer) else {
            return Ok(None);
        };
        parsed.push(term);
    }
    let counts = count(&analyzer, text, &parsed, &mut || cx.count_iteration())?;
    Ok(Some(counts))
}

/// Counts the terms of the remaining arguments and applies a test to their hits.
fn contains(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    test: fn(&[u64]) -> bool,
) -> Result<Option<Json>, QueryError> {
    let terms: Vec<&Json> = a.iter().skip(2).flatten().collect();
    let counts = count_terms(cx, a, &terms)?;
    Ok(counts.map(|counts| Json::Bool(test(&counts.hits))))
}

/// Computes the score. Arguments after language and text: the terms, the number of items of the
/// container, the number of words of all texts, and the number of items with each term.
fn full_text_score(cx: &mut Context<'_>, a: Arguments<'_, '_>) -> Result<Option<Json>, QueryError> {
    let (Some(terms), Some(documents), Some(words), Some(hits)) =
        (a.array(2), a.number(3), a.number(4), a.array(5))
    else {
        return Ok(None);
    };
    if terms.len() != hits.len() {
        return Ok(None);
    }
    let statistics = Statistics {
        documents,
        words,
        hits,
    };
    let terms: Vec<&Json> = terms.iter().collect();
    let counts = count_terms(cx, a, &terms)?;
    Ok(counts.map(|counts| Json::from(score(&counts, &statistics))))
}
