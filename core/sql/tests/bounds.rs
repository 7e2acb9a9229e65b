//! Limits of a page in time, memory and rows, and the resume points of pages that end at one.

use crate::support::{
    self, FULL_SCAN, Items, RunOptions, Udfs, bounds, environment, page, rows, texts,
};
use bytes::Bytes;
use orrery_model::json::{Json, parse};
use orrery_sql::{Bounds, Candidate, Query, QueryError, ResumeFilter, ResumePoint, Source, Work};

fn items(count: usize) -> Vec<Bytes> {
    (0..count)
        .map(|n| {
            Bytes::from(format!(
                r#"{{"id":"{n}","n":{n},"g":{},"list":[1,2,3]}}"#,
                n % 7
            ))
        })
        .collect()
}

fn compile(text: &str) -> Query {
    Query::compile(text, &[], &environment()).expect("compiles")
}

/// Returns all rows, and the number of pages, if the time of each page is over at the second
/// reading of the clock.
fn in_short_pages(query: &Query, items: &[Bytes]) -> (Vec<String>, usize) {
    let (mut all, mut resume, mut pages) = (Vec::new(), None, 0);
    loop {
        let (rows, next) = page(query, items, resume.as_ref(), 2, 1 << 28).expect("a page");
        all.extend(rows);
        pages += 1;
        match next {
            Some(next) => resume = Some(ResumePoint::decode(&next.encode()).expect("own bytes")),
            None => return (all, pages),
        }
    }
}

#[test]
fn a_streamed_query_out_of_time_resumes_where_it_stopped() {
    let items = items(500);
    for text in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE l + c.n FROM c JOIN l IN c.list WHERE c.n > 100 OFFSET 10 LIMIT 900",
    ] {
        let query = compile(text);
        let whole = rows(&query, &items, FULL_SCAN, &mut Work::default()).expect("rows");
        let (paged, pages) = in_short_pages(&query, &items);
        assert_eq!(paged, whole);
        assert!(pages > 5);
    }
}

#[test]
fn an_aggregate_out_of_time_resumes_with_its_partial_state() {
    let items = items(500);
    let query = compile(
        "SELECT COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.id) AS l, MAX(c.n) AS h, \
         COUNTIF(c.n > 250) AS i FROM c",
    );
    let (paged, pages) = in_short_pages(&query, &items);
    assert_eq!(
        paged,
        [r#"{"n":500,"s":124750,"a":249.5,"l":"0","h":499,"i":249}"#]
    );
    assert!(pages > 5);
}

#[test]
fn groups_sorts_and_lists_out_of_time_fail_with_timeout() {
    for text in [
        "SELECT c.g FROM c GROUP BY c.g",
        "SELECT VALUE c.n FROM c ORDER BY c.n",
        "SELECT VALUE MAKELIST(c.n) FROM c",
    ] {
        let result = page(&compile(text), &items(500), None, 2, 1 << 28);
        assert!(matches!(result, Err(QueryError::Timeout)), "{text}");
    }
}

#[test]
fn loops_within_one_item_read_the_clock() {
    let list: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let item = Bytes::from(format!(r#"{{"id":"1","list":[{}]}}"#, list.join(",")));
    let text = "SELECT VALUE COUNT(1) FROM c \
                JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list WHERE a + b + d = -1";
    let result = page(&compile(text), &[item], None, 10, 1 << 28);
    assert!(matches!(result, Err(QueryError::Timeout)));
}

/// An aggregate may end the item in work after the time of the page is over, so a user-defined
/// function that takes long must not be called without bound for that item.
#[test]
fn an_aggregate_out_of_time_calls_a_function_few_times_more() {
    let list: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    let items = [Bytes::from(format!(
        r#"{{"id":"1","list":[{}]}}"#,
        list.join(",")
    ))];
    let query = compile("SELECT VALUE SUM(udf.add(l, 1)) FROM c JOIN l IN c.list");
    let mut source = Items::new(&items);
    let mut readings = 0;
    let mut is_expired = || {
        readings += 1;
        readings >= 10
    };
    let mut bounds = bounds(&mut is_expired);
    let mut work = Work::default();
    let result = query.run(&mut source, &mut Udfs, None, &mut bounds, &mut work);
    assert!(matches!(result, Err(QueryError::Timeout)));
    assert!(
        (10..=80).contains(&work.udf_calls),
        "{} calls",
        work.udf_calls
    );
}

#[test]
fn a_query_that_holds_too_many_bytes_is_refused() {
    let long = format!("SELECT VALUE [{}] FROM c", vec!["c"; 5000].join(","));
    for text in [
        "SELECT VALUE MAKELIST(c) FROM c",
        "SELECT c.id FROM c GROUP BY c.id",
        "SELECT MAX(REPLICATE(c.id, 2000)) AS most FROM c GROUP BY c.g",
        "SELECT MIN(CONCAT(c.id, REPLICATE('x', 2000))) AS least FROM c GROUP BY c.g",
        "SELECT DISTINCT c.id FROM c",
        "SELECT * FROM c ORDER BY c.n",
        "SELECT VALUE ARRAY(SELECT c, a, b FROM a IN c.list \
         JOIN b IN c.list JOIN d IN c.list JOIN e IN c.list) FROM c",
        long.as_str(),
    ] {
        let result = page(&compile(text), &items(500), None, usize::MAX, 10_000);
        assert!(
            matches!(result, Err(QueryError::Memory(_))),
            "{text}: {result:?}"
        );
    }
}

#[test]
fn strings_that_would_exceed_their_limit_are_undefined() {
    let doubling = (0..40).fold("c.s".to_owned(), |text, _| {
        format!("LET x = {text} IN x || x")
    });
    let item = Bytes::from(format!(r#"{{"s":"{}"}}"#, "a".repeat(1000)));
    for expression in [
        doubling.as_str(),
        "REPLACE(REPLACE(REPLACE(c.s, 'a', c.s), 'a', c.s), 'a', c.s)",
    ] {
        let query = compile(&format!("SELECT VALUE {expression} FROM c"));
        assert_eq!(
            rows(
                &query,
                std::slice::from_ref(&item),
                FULL_SCAN,
                &mut Work::default()
            )
            .expect("rows"),
            [""; 0]
        );
    }
}

#[test]
fn the_resume_point_of_another_query_or_other_parameters_is_refused() {
    let items = items(10);
    let parameter = |n: i64| [("@n".to_owned(), Json::from(n))];
    let text = "SELECT VALUE c.n FROM c WHERE c.n > @n";
    let query = Query::compile(text, &parameter(1), &environment()).expect("compiles");
    let resume = ResumePoint::default();
    assert!(matches!(
        page(&query, &items, Some(&resume), 100, 1 << 20),
        Err(QueryError::Resume(_))
    ));
    let mut source = Items::new(&items);
    let mut never = || false;
    let mut bounds = Bounds {
        max_items: 2,
        max_bytes: 1 << 20,
        max_memory: 1 << 20,
        ..bounds(&mut never)
    };
    let mut work = Work::default();
    let first_page = query
        .run(&mut source, &mut Udfs, None, &mut bounds, &mut work)
        .expect("a page");
    let resume = first_page.resume;
    let other = Query::compile(text, &parameter(2), &environment()).expect("compiles");
    assert!(matches!(
        page(&other, &items, resume.as_ref(), 100, 1 << 20),
        Err(QueryError::Resume(_))
    ));
    assert!(page(&query, &items, resume.as_ref(), 100, 1 << 20).is_ok());
}

#[test]
fn a_full_last_page_has_no_resume_point() {
    let items = items(6);
    let query = compile("SELECT * FROM c");
    let mut source = Items::new(&items);
    let mut never = || false;
    let mut bounds = Bounds {
        max_items: 6,
        max_bytes: 1 << 20,
        max_memory: 1 << 20,
        ..bounds(&mut never)
    };
    let mut work = Work::default();
    let page = query
        .run(&mut source, &mut Udfs, None, &mut bounds, &mut work)
        .expect("a page");
    assert_eq!((page.rows.len(), page.resume), (6, None));
}

#[test]
fn work_is_counted() {
    let query = compile("SELECT c.id, l FROM c JOIN l IN c.list WHERE c.n < 10");
    let mut work = Work::default();
    let rows = rows(&query, &items(100), FULL_SCAN, &mut work).expect("rows");
    assert_eq!(
        (work.candidates, work.items_parsed, work.items_filtered),
        (100, 100, 100)
    );
    assert_eq!(
        (work.tuples, work.projected, work.rows_out),
        (30, 30, rows.len() as u64)
    );
    let all = compile("SELECT * FROM c");
    let mut work = Work::default();
    let options = RunOptions {
        uses_index: true,
        ..FULL_SCAN
    };
    support::rows(&all, &items(100), options, &mut work).expect("rows");
    assert_eq!(
        (
            work.candidates,
            work.items_parsed,
            work.projected,
            work.rows_out
        ),
        (100, 0, 0, 100)
    );
}

#[test]
fn a_resume_filter_continues_an_ordered_query_at_given_sort_values() {
    // Resource ids of items 1 to 4 of one container.
    let rids = [
        "ABCDEFGHIJIBAAAAAAAAAA==",
        "ABCDEFGHIJICAAAAAAAAAA==",
        "ABCDEFGHIJIDAAAAAAAAAA==",
        "ABCDEFGHIJIEAAAAAAAAAA==",
    ];
    let keys = ["5", "5", "7", "null"];
    let items: Vec<Bytes> = rids
        .iter()
        .zip(keys)
        .map(|(rid, n)| Bytes::from(format!(r#"{{"n":{n},"_rid":"{rid}"}}"#)))
        .collect();
    let check = |text: &str, filter: &str, expected: &[usize]| {
        let filter = ResumeFilter::parse(&parse(filter.as_bytes()).expect("JSON"));
        let query = compile(text)
            .with_resume_filter(filter.expect("a filter"))
            .expect("fits");
        let rows = rows(&query, &items, FULL_SCAN, &mut Work::default()).expect("rows");
        let expected: Vec<String> = expected
            .iter()
            .map(|n| format!("\"{}\"", rids[*n]))
            .collect();
        assert_eq!(rows, expected, "{text}");
    };
    let ascending = "SELECT VALUE c._rid FROM c ORDER BY c.n";
    check(ascending, r#"{"value":[5],"exclude":false}"#, &[0, 1, 2]);
    check(ascending, r#"{"value":[5],"exclude":true}"#, &[2]);
    check(
        ascending,
        &format!(r#"{{"value":[5],"rid":"{}","exclude":false}}"#, rids[1]),
        &[1, 2],
    );
    check(
        ascending,
        &format!(r#"{{"value":[5],"rid":"{}","exclude":true}}"#, rids[1]),
        &[2],
    );
    check(ascending, r#"{"value":[[]],"exclude":true}"#, &[3, 0, 1, 2]);
    // Ties of a descending order come in descending order of resource ids: of the tied items, the
    // given one and those with smaller ids are returned.
    let descending = "SELECT VALUE c._rid FROM c ORDER BY c.n DESC";
    check(descending, r#"{"value":[7]}"#, &[2, 0, 1, 3]);
    check(
        descending,
        &format!(r#"{{"value":[5],"rid":"{}","exclude":false}}"#, rids[1]),
        &[0, 1, 3],
    );
    check(
        descending,
        &format!(r#"{{"value":[5],"rid":"{}","exclude":false}}"#, rids[0]),
        &[0, 3],
    );
    check(
        "SELECT VALUE c._rid FROM c ORDER BY c.n DESC",
        r#"{"value":[5],"exclude":true}"#,
        &[3],
    );
    assert!(
        compile("SELECT * FROM c")
            .with_resume_filter(
                ResumeFilter::parse(&parse(br#"{"value":[1]}"#).expect("JSON")).expect("a filter")
            )
            .is_err()
    );
}

#[test]
fn a_resume_filter_and_a_resume_point_together_skip_no_row_twice() {
    let items = items(20);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let run_page = |query: &Query, resume: Option<&ResumePoint>, count: usize| {
        let mut source = Items::new(&items);
        let mut never = || false;
        let mut bounds = Bounds {
            max_items: count,
            max_bytes: 1 << 20,
            max_memory: 1 << 20,
            ..bounds(&mut never)
        };
        let mut work = Work::default();
        let page = query
            .run(&mut source, &mut Udfs, resume, &mut bounds, &mut work)
            .expect("a page");
        let numbers: Vec<u32> = texts(&page)
            .map(|row| row.parse().expect("a number"))
            .collect();
        (numbers, page.resume)
    };
    let filter = |n: u32| {
        let json = parse(format!(r#"{{"value":[{n}],"exclude":false}}"#).as_bytes()).expect("JSON");
        compile(text)
            .with_resume_filter(ResumeFilter::parse(&json).expect("a filter"))
            .expect("it fits")
    };
    let (first, resume) = run_page(&compile(text), None, 5);
    assert_eq!(first, [0, 1, 2, 3, 4]);
    // First the filter is further than the resume point, then the resume point than the filter.
    let (rows_of_filter, next) = run_page(&filter(8), resume.as_ref(), 3);
    assert_eq!(rows_of_filter, [8, 9, 10]);
    assert_eq!(run_page(&filter(8), next.as_ref(), 3).0, [11, 12, 13]);
    assert_eq!(run_page(&compile(text), next.as_ref(), 3).0, [11, 12, 13]);
    assert_eq!(run_page(&filter(2), resume.as_ref(), 3).0, [5, 6, 7]);
}

#[test]
fn malformed_resume_filters_are_refused() {
    let parse_filter =
        |text: &str| ResumeFilter::parse(&parse(text.as_bytes()).expect("JSON")).map(|_| ());
    for text in [
        "{}",
        r#"{"value":1}"#,
        r#"{"value":[[1]]}"#,
        r#"{"value":[{"type":"array"}]}"#,
        r#"{"value":[{"type":"list","low":1,"high":2}]}"#,
        r#"{"value":[1],"rid":7}"#,
        r#"{"value":[1],"rid":"short"}"#,
        r#"{"value":[1],"exclude":"no"}"#,
    ] {
        assert!(
            matches!(parse_filter(text), Err(QueryError::Resume(_))),
            "{text}"
        );
    }
    let hash = r#"{"value":[{"type":"object","low":-5,"high":9007199254740993}]}"#;
    assert!(parse_filter(hash).is_ok());
}

#[test]
fn every_long_expression_reads_the_clock() {
    let list: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let text = "ab".repeat(300_000);
    let item = Bytes::from(format!(r#"{{"s":"{text}","list":[{}]}}"#, list.join(",")));
    let many = |part: &str, count: usize| vec![part; count].join(",");
    for expression in [
        format!("c.s LIKE '%{}c'", "ab".repeat(10_000)),
        format!("c.s LIKE (c.s || '%{}c')", "ab".repeat(10)),
        format!("CONTAINS_ANY_CS(c.s, {})", many("'abc'", 1_000)),
        format!("ARRAY_CONTAINS_ANY(c.list, {})", many("'x'", 5_000)),
        format!("c.list[0] IN ({})", many("c.list[1]", 20_000)),
        format!("[{}]", many("REVERSE(c.s) = c.s", 100)),
        format!("[{}]", many("c.list = c.list", 500)),
        "REGEXEXTRACTALL(c.s, '')".to_owned(),
        "EXISTS(SELECT VALUE 1 FROM a IN c.list JOIN b IN c.list WHERE a + b < 0)".to_owned(),
        "ALL(SELECT VALUE a + b >= 0 FROM a IN c.list JOIN b IN c.list)".to_owned(),
        "(SELECT VALUE COUNT(1) FROM a IN c.list JOIN b IN c.list)".to_owned(),
        "LAST(SELECT VALUE a FROM a IN c.list JOIN b IN c.list)".to_owned(),
    ] {
        let query = compile(&format!("SELECT VALUE {expression} FROM c"));
        let result = page(&query, std::slice::from_ref(&item), None, 1, 1 << 28);
        let start: String = expression.chars().take(60).collect();
        assert!(
            matches!(result, Err(QueryError::Timeout)),
            "{start}: {:?}",
            result.map(|(rows, _)| rows.len())
        );
    }
}

#[test]
fn every_expression_counts_the_bytes_that_it_holds() {
    let list: Vec<String> = (0..5_000).map(|n| format!(r#""m{n}":{n}"#)).collect();
    let item = Bytes::from(format!(
        r#"{{"s":"{}","o":{{{}}},"a":[{}]}}"#,
        "a".repeat(50_000),
        list.join(","),
        "1,".repeat(5_000) + "1"
    ));
    let nested = |call: &str, from: &str, times: usize| {
        (0..times).fold(from.to_owned(), |text, _| {
            format!("LET x = {text} IN {call}")
        })
    };
    let held = (0..40).fold("1".to_owned(), |text, n| {
        format!("LET x{n} = ARRAY_CONCAT(c.a, [{n}]) IN [x{n}[0], {text}]")
    });
    for expression in [
        nested("[x, x]", "c.a", 30),
        nested("x || x", "c.s", 8),
        nested("ARRAY_CONCAT(x, x)", "c.a", 8),
        nested("STRINGJOIN([x, x, x], x)", "c.s", 5),
        nested("REPLACE(x, 'a', 'aaaa')", "c.s", 5),
        held,
        "OBJECTTOARRAY(c.o, c.s)".to_owned(),
        "REGEXEXTRACTALL(c.s || c.s, '')".to_owned(),
        "ARRAY(SELECT VALUE [a, c.s] FROM a IN c.a)".to_owned(),
        format!("[{}]", vec!["UPPER(c.s)"; 40].join(",")),
    ] {
        let query = compile(&format!("SELECT VALUE {expression} FROM c"));
        let result = page(
            &query,
            std::slice::from_ref(&item),
            None,
            usize::MAX,
            1 << 20,
        );
        let start: String = expression.chars().rev().take(60).collect();
        assert!(
            matches!(result, Err(QueryError::Memory(_))),
            "{start}: {:?}",
            result.map(|(rows, _)| rows.len())
        );
    }
    // Dropped values do not count: values of one filter after another, or of one tuple after
    // another.
    for text in [
        "SELECT VALUE a FROM c JOIN a IN c.a \
         WHERE UPPER(c.s) != LOWER(c.s) AND LENGTH(c.s || 'x') > 1",
        "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a WHERE LENGTH(REVERSE(c.s)) > a",
        "SELECT VALUE MAX(LENGTH(UPPER(c.s))) FROM c JOIN a IN c.a",
        "SELECT VALUE EXISTS(SELECT VALUE a FROM a IN c.a WHERE UPPER(c.s) = 'x') FROM c",
    ] {
        let result = page(
            &compile(text),
            std::slice::from_ref(&item),
            None,
            usize::MAX,
            1 << 20,
        );
        assert!(result.is_ok(), "{text}: {result:?}");
    }
}

#[test]
fn an_aggregate_over_slow_items_resumes_with_its_partial_state() {
    let list: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let items: Vec<Bytes> = (0..30)
        .map(|n| Bytes::from(format!(r#"{{"id":"{n}","list":[{}]}}"#, list.join(","))))
        .collect();
    let query =
        compile("SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list WHERE a < b");
    let (rows, pages) = in_short_pages(&query, &items);
    assert_eq!(rows, ["148500"]);
    assert!(pages > 5, "{pages} pages");
}

#[test]
fn a_streamed_query_over_slow_items_loses_no_row() {
    let list: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let items: Vec<Bytes> = (0..60)
        .map(|n| Bytes::from(format!(r#"{{"id":"{n}","list":[{}]}}"#, list.join(","))))
        .collect();
    for text in [
        "SELECT VALUE c.id FROM c \
         WHERE EXISTS(SELECT VALUE 1 FROM a IN c.list JOIN b IN c.list WHERE a + b = 78)",
        "SELECT VALUE [c.id, a] FROM c JOIN a IN c.list \
         WHERE EXISTS(SELECT VALUE 1 FROM b IN c.list WHERE a + b = 40)",
        "SELECT * FROM c \
         WHERE EXISTS(SELECT VALUE 1 FROM a IN c.list JOIN b IN c.list WHERE a + b = 78)",
    ] {
        let query = compile(text);
        let whole = rows(&query, &items, FULL_SCAN, &mut Work::default()).expect("rows");
        let (paged, pages) = in_short_pages(&query, &items);
        assert_eq!(paged, whole, "{text}");
        assert!(pages > 5, "{pages} pages");
    }
}

/// A source whose budget for a page is spent after a number of items.
struct BudgetedItems {
    items: Items,
    taken: usize,
    budget: usize,
}

impl Source for BudgetedItems {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        self.taken += 1;
        self.items.next()
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        self.items.position()
    }

    fn is_page_budget_spent(&self) -> bool {
        self.taken >= self.budget
    }
}

#[test]
fn a_page_ends_when_the_budget_of_the_source_is_spent() {
    let query = compile("SELECT VALUE c.n FROM c WHERE c.g = 3");
    let items = Items::new(&items(500));
    let mut rows = Vec::new();
    let mut pages = 0;
    let mut resume: Option<ResumePoint> = None;
    loop {
        let mut source = BudgetedItems {
            items: items.starting_at(resume.as_ref()),
            taken: 0,
            budget: 100,
        };
        let mut never = || false;
        let mut bounds = Bounds {
            max_items: 1_000,
            ..bounds(&mut never)
        };
        let mut work = Work::default();
        let page = query
            .run(
                &mut source,
                &mut Udfs,
                resume.as_ref(),
                &mut bounds,
                &mut work,
            )
            .expect("a page");
        // The budget is checked every 32 candidates.
        assert!(
            source.taken <= 132,
            "{} candidates on one page",
            source.taken
        );
        rows.extend(page.rows);
        pages += 1;
        resume = page.resume;
        if resume.is_none() {
            break;
        }
    }
    assert_eq!((rows.len(), pages), (71, 4));
}

/// Returns items with a text of a length each.
fn long_items(count: usize, bytes: usize) -> Vec<Bytes> {
    let item = |n: usize| {
        let letter = char::from(b'a' + (n % 26) as u8);
        let text = String::from(letter).repeat(bytes);
        Bytes::from(format!(r#"{{"n":{n},"list":[1,2,3],"s":"{text}"}}"#))
    };
    (0..count).map(item).collect()
}

/// Runs all pages of a query with memory for `bytes` of rows on each.
fn pages_with_memory(text: &str, items: &[Bytes], bytes: usize) -> Vec<Vec<String>> {
    let query = compile(text);
    let mut pages = Vec::new();
    let mut resume: Option<ResumePoint> = None;
    loop {
        let mut source = Items::new(items).starting_at(resume.as_ref());
        let mut never = || false;
        let mut reserve = |wanted: usize| wanted <= bytes;
        let mut bounds = Bounds {
            reserve_rows: Some(&mut reserve),
            ..bounds(&mut never)
        };
        let mut work = Work::default();
        let from = resume.as_ref();
        let page = query.run(&mut source, &mut Udfs, from, &mut bounds, &mut work);
        let page = page.expect("a page");
        pages.push(texts(&page).collect());
        resume = page.resume;
        if resume.is_none() {
            return pages;
        }
    }
}

#[test]
fn a_page_ends_before_the_row_for_which_there_is_no_memory() {
    let items = long_items(20, 20_000);
    for text in [
        "SELECT * FROM c",
        "SELECT * FROM c WHERE c.n >= 0",
        "SELECT VALUE c.s FROM c",
        "SELECT DISTINCT VALUE c.s FROM c",
        "SELECT VALUE {n: x, s: c.s} FROM c JOIN x IN c.list",
        "SELECT VALUE c.s FROM c ORDER BY c.n DESC",
        "SELECT c.s, COUNT(1) AS count FROM c GROUP BY c.s",
    ] {
        let pages = pages_with_memory(text, &items, 128 * 1024);
        assert!(pages.len() > 3, "{text}: {} pages", pages.len());
        for page in &pages {
            let bytes: usize = page.iter().map(String::len).sum();
            assert!(bytes <= 128 * 1024, "{text}: a page of {bytes} bytes");
        }
        let all = rows(&compile(text), &items, FULL_SCAN, &mut Work::default());
        assert_eq!(pages.concat(), all.expect("rows"), "{text}");
    }
}

/// Runs the first page of a query and returns the memory that it asked for, for values and rows.
fn first_page_without_memory(text: &str, items: &[Bytes]) -> (bool, usize, usize) {
    let mut source = Items::new(items);
    let mut never = || false;
    let (mut of_values, mut of_rows) = (0, 0);
    let mut reserve = |wanted: usize| {
        of_values = wanted;
        false
    };
    let mut reserve_rows = |wanted: usize| {
        of_rows = wanted;
        false
    };
    let mut bounds = Bounds {
        reserve: Some(&mut reserve),
        reserve_rows: Some(&mut reserve_rows),
        ..bounds(&mut never)
    };
    let page = compile(text).run(
        &mut source,
        &mut Udfs,
        None,
        &mut bounds,
        &mut Work::default(),
    );
    let is_refused = matches!(page, Err(QueryError::MemoryTaken));
    assert!(is_refused || page.is_ok(), "{text}: {page:?}");
    (is_refused, of_values, of_rows)
}

#[test]
fn a_row_without_memory_is_refused_and_small_pages_ask_for_none() {
    let (is_refused, _, of_rows) = first_page_without_memory("SELECT * FROM c", &items(50));
    assert!(!is_refused && of_rows == 0, "{of_rows} bytes");
    let large = long_items(2, 100_000);
    let (is_refused, _, of_rows) = first_page_without_memory("SELECT * FROM c", &large);
    assert!(is_refused && of_rows > 100_000, "{of_rows} bytes");
}

#[test]
fn a_large_item_is_counted_while_the_query_is_at_it() {
    let text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list WHERE x > 0";
    let (is_refused, of_values, _) = first_page_without_memory(text, &items(50));
    assert!(!is_refused && of_values == 0, "{of_values} bytes");
    let numbers = vec!["1"; 50_000].join(",");
    let large = [Bytes::from(format!(r#"{{"list":[{numbers}]}}"#))];
    let (is_refused, of_values, _) = first_page_without_memory(text, &large);
    assert!(is_refused && of_values > 1_000_000, "{of_values} bytes");
}
