//! Continuation tokens of queries.
//!
//! ```text
//! query·1 scope·1 page·1 kind·1 rest
//!
//! kind 0  the token of a page, whose position is `rest`
//!      1  the same, whose state is `rest`
//!      2  the same, with `rest` behind the hash of the query
//!      3  `rest` is the text of the token
//!      4  the tokens that the engine gives: all pages together have the rows of one
//! ```
//! The checksums of tokens are computed here, because no mutation would hit them.

use crate::batch_forms::put_bytes;
use crate::fixture::{Fixture, ITEMS, check_refusal, scope};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use orrery_engine::request::{PageRequest, QueryRequest};
use orrery_model::Error;
use orrery_sql::ResumePoint;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| Fixture::new(3));

const QUERIES: &[&str] = &[
    "SELECT * FROM c",
    "SELECT c.id FROM c ORDER BY c.n",
    "SELECT c.id, c.s FROM c ORDER BY c.s DESC",
    "SELECT c.id FROM c ORDER BY c.n, c.s DESC",
    "SELECT DISTINCT VALUE c.s FROM c",
    "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n",
    "SELECT COUNT(1) AS k, c.pk FROM c GROUP BY c.pk",
    "SELECT c.s, AVG(c.n) AS a, MIN(c.s) AS b, MAX(c.n) AS c FROM c GROUP BY c.s",
    "SELECT VALUE SUM(c.n) FROM c",
    "SELECT VALUE x FROM c JOIN x IN c.list",
    "SELECT c.id FROM c OFFSET 3 LIMIT 9",
    "SELECT TOP 7 c.id FROM c ORDER BY c.o.a",
    "SELECT * FROM c WHERE c.n > 1",
    "SELECT c.id FROM c WHERE c.s = 'apple' ORDER BY c.n DESC",
    "SELECT VALUE c.n + 1 FROM c",
];

/// Pages until which every query must have ended.
const PAGES: usize = 40 * ITEMS;
/// Version of a token, and of the resume point in it.
const TOKEN_VERSION: u8 = 2;
const RESUME_VERSION: u8 = 4;

/// A query, and the form of its pages.
struct Pages {
    query: usize,
    scope: u8,
    max_items: usize,
    limit_kb: Option<usize>,
}

/// The answer to a page: its rows and its token.
type Answer = Result<(Vec<Bytes>, Option<String>), Error>;

/// Checks an input: a token is refused, or the pages from it on end, each with a token of the form
/// that the engine reads.
pub(crate) fn check(input: &[u8]) {
    let Some((&[query, scope, page, kind], rest)) = input.split_first_chunk::<4>() else {
        return;
    };
    let pages = Pages {
        query: usize::from(query) % QUERIES.len(),
        scope,
        max_items: 1 + usize::from(page % 8),
        limit_kb: (page >= 128).then_some(1),
    };
    if kind % 5 == 4 {
        return check_all_pages(&pages);
    }
    if let Some(token) = token(&pages, kind % 5, rest) {
        check_rest(&pages, token);
    }
}

/// Returns the token of an input; `None` for a query that has no second page or no room for its
/// token, and for bytes that are no text.
fn token(pages: &Pages, kind: u8, rest: &[u8]) -> Option<String> {
    if kind == 3 {
        return String::from_utf8(rest.to_vec()).ok();
    }
    let (_, genuine) = pages.read(None).ok()?;
    let mut body = body_of(&genuine?);
    match kind {
        0 => {
            let mut resume = ResumePoint::decode(&body).expect("own bytes");
            resume.position = rest.to_vec();
            body = resume.encode();
        }
        1 => {
            let resume = ResumePoint::decode(&body).expect("own bytes");
            // Three counters, no item and no digests.
            let mut tail = vec![0; 5];
            put_bytes(&resume.position, &mut tail);
            put_bytes(rest, &mut tail);
            body = resume_of(&body, &tail);
        }
        _ => body = resume_of(&body, rest),
    }
    if let Ok(resume) = ResumePoint::decode(&body) {
        let again = ResumePoint::decode(&resume.encode()).expect("own bytes");
        assert_eq!(again, resume);
    }
    let mut sum = crc32fast::Hasher::new();
    sum.update(&body);
    sum.update(FIXTURE.container.rid().as_bytes());
    let sum = sum.finalize().to_be_bytes();
    Some(URL_SAFE_NO_PAD.encode([&[TOKEN_VERSION][..], &sum, &body].concat()))
}

/// Returns the resume point in a token, which must encode as itself.
fn body_of(token: &str) -> Vec<u8> {
    let bytes = URL_SAFE_NO_PAD.decode(token).expect("base64");
    assert_eq!(bytes[0], TOKEN_VERSION);
    let body = bytes[5..].to_vec();
    let resume = ResumePoint::decode(&body).expect("own bytes");
    assert_eq!(resume.encode(), body);
    body
}

/// Returns a resume point of the query of `body`, with other bytes behind the hash of the query.
fn resume_of(body: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut resume = vec![RESUME_VERSION];
    resume.extend(&body[1..9]);
    resume.extend(tail);
    let sum = xxh3_64(&resume) as u32;
    resume.extend(sum.to_le_bytes());
    resume
}

/// Reads the pages from a token on.
fn check_rest(pages: &Pages, token: String) {
    let token_bytes = token.len();
    let mut next = Some(token);
    for _ in 0..PAGES {
        let Some(token) = next else { return };
        match pages.read(Some(token)) {
            Err(error) => return check_refusal(&error, token_bytes),
            Ok((_, token)) => next = token,
        }
        if let Some(token) = &next {
            body_of(token);
        }
    }
    panic!("the query does not end: {}", QUERIES[pages.query]);
}

/// Compares the rows of all pages with those of one.
fn check_all_pages(pages: &Pages) {
    let whole = Pages {
        max_items: 10_000,
        limit_kb: None,
        ..*pages
    };
    let (expected, token) = whole.read(None).expect("one page");
    assert_eq!(token, None);
    let mut rows = Vec::new();
    let mut next = None;
    for _ in 0..PAGES {
        let (page, token) = match pages.read(next) {
            Ok(answer) => answer,
            // A state may be longer than the client allows.
            Err(error) if pages.limit_kb.is_some() => return check_refusal(&error, 0),
            Err(error) => panic!("{error}: {}", QUERIES[pages.query]),
        };
        rows.extend(page);
        let Some(token) = token else {
            assert_eq!(rows, expected, "{}", QUERIES[pages.query]);
            return;
        };
        body_of(&token);
        next = Some(token);
    }
    panic!("the query does not end: {}", QUERIES[pages.query]);
}

impl Pages {
    /// Reads a page.
    fn read(&self, continuation: Option<String>) -> Answer {
        let page = PageRequest {
            max_items: Some(self.max_items),
            continuation,
            continuation_limit_kb: self.limit_kb,
        };
        let query = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(QUERIES[self.query], Vec::new(), page)
        };
        let Fixture { engine, container } = &*FIXTURE;
        let answer = engine.query(container, &scope(self.scope), &query, None::<&str>);
        let page = answer.result?.page;
        assert!(page.rows.len() <= self.max_items);
        Ok((page.rows, page.continuation))
    }
}
