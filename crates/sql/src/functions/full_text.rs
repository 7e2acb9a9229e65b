//! Full-text search. The binder puts the language of the text before the arguments of each function.

use super::{ANY, Arguments, Function, Implementation, IndexUse, MeteredFunction};
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
    Function {
        names,
        arity,
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::FullText(run),
    }
}

const fn rank(names: &'static [&'static str], doc: &'static str) -> Function {
    Function {
        names,
        arity: (2, ANY),
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Rank,
    }
}

pub(super) const TABLE: &[Function] = &[
    full_text(
        &["FULLTEXTCONTAINS", "FULLTEXT_CONTAINS"],
        (2, 2),
        "whether the text has the word or phrase; {term, distance} for a fuzzy one",
        |cx, a| contains(cx, a, |hits| hits.iter().all(|h| *h > 0)),
    ),
    full_text(
        &[
            "FULLTEXTCONTAINSALL",
            "FULLTEXT_CONTAINS_ALL",
            "FULLTEXTCONTAINS_ALL",
        ],
        (2, ANY),
        "whether the text has all of the words or phrases",
        |cx, a| contains(cx, a, |hits| hits.iter().all(|h| *h > 0)),
    ),
    full_text(
        &[
            "FULLTEXTCONTAINSANY",
            "FULLTEXT_CONTAINS_ANY",
            "FULLTEXTCONTAINS_ANY",
        ],
        (2, ANY),
        "whether the text has any of the words or phrases",
        |cx, a| contains(cx, a, |hits| hits.iter().any(|h| *h > 0)),
    ),
    rank(
        &["FULLTEXTSCORE", "FULLTEXT_SCORE"],
        "how well the text fits the words or phrases, in ORDER BY RANK only",
    ),
    rank(
        &["RRF"],
        "scores fused by their ranks, with optional weights, in ORDER BY RANK only",
    ),
    full_text(
        &["_FULLTEXTWORDCOUNT"],
        (1, 1),
        "how many words of the text count; for clients that merge themselves",
        |cx, a| Ok(counted(cx, a, &[])?.map(|counts| Json::from(counts.length))),
    ),
    full_text(
        &["_FULLTEXTSCORE"],
        (5, 5),
        "how well the text fits an array of words or phrases, given items, words and hits of the container; \
         for clients that merge themselves",
        fitted,
    ),
];

/// Goes through the text with some terms; undefined if it is no string or one of them is no term.
fn counted(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    terms: &[&Json],
) -> Result<Option<Counts>, QueryError> {
    let (Some(language), Some(text)) = (a.text(0), a.text(1)) else {
        return Ok(None);
    };
    let analyzer = Analyzer::of(language);
    let Some(terms) = terms
        .iter()
        .map(|term| Term::parse(term, &analyzer))
        .collect::<Option<Vec<_>>>()
    else {
        return Ok(None);
    };
    count(&analyzer, text, &terms, &mut || cx.count_iteration()).map(Some)
}

fn contains(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    holds: fn(&[u64]) -> bool,
) -> Result<Option<Json>, QueryError> {
    let terms: Vec<&Json> = a.iter().skip(2).flatten().collect();
    Ok(counted(cx, a, &terms)?.map(|counts| Json::Bool(holds(&counts.hits))))
}

fn fitted(cx: &mut Context<'_>, a: Arguments<'_, '_>) -> Result<Option<Json>, QueryError> {
    let statistics = || {
        Some(Statistics {
            documents: a.number(3)?,
            words: a.number(4)?,
            hits: a.array(5)?,
        })
    };
    let (Some(terms), Some(statistics)) = (a.array(2), statistics()) else {
        return Ok(None);
    };
    if terms.len() != statistics.hits.len() {
        return Ok(None);
    }
    let counts = counted(cx, a, &terms.iter().collect::<Vec<_>>())?;
    Ok(counts.map(|counts| Json::from(score(&counts, &statistics))))
}
