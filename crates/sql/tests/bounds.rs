//! Time, memory and positions: what a page does when it may not go on.

mod support;

use bytes::Bytes;
use orrery_model::json::Json;
use orrery_sql::{Bounds, Candidate, Query, QueryError, ResumePoint, Source, Work};
use support::{Items, PLAIN, Udfs, Way, environment, page, rows};

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

/// All rows in pages whose time ends at the second look, and how many pages it took.
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
fn a_stream_that_runs_out_of_time_goes_on_where_it_stopped() {
    let items = items(500);
    for text in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE l + c.n FROM c JOIN l IN c.list WHERE c.n > 100 OFFSET 10 LIMIT 900",
    ] {
        let query = compile(text);
        let whole = rows(&query, &items, PLAIN, &mut Work::default()).expect("rows");
        let (cut, pages) = in_short_pages(&query, &items);
        assert_eq!(cut, whole);
        assert!(pages > 5);
    }
}

#[test]
fn an_aggregate_that_runs_out_of_time_takes_what_it_has_along() {
    let items = items(500);
    let query = compile(
        "SELECT COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.id) AS l, MAX(c.n) AS h, COUNTIF(c.n > 250) AS i FROM c",
    );
    let (cut, pages) = in_short_pages(&query, &items);
    assert_eq!(
        cut,
        [r#"{"n":500,"s":124750,"a":249.5,"l":"0","h":499,"i":249}"#]
    );
    assert!(pages > 5);
}

#[test]
fn groups_that_run_out_of_time_say_so() {
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
fn loops_inside_one_item_look_at_the_clock() {
    let list: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let item = Bytes::from(format!(r#"{{"id":"1","list":[{}]}}"#, list.join(",")));
    let text = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list WHERE a + b + d = -1";
    let result = page(&compile(text), &[item], None, 10, 1 << 28);
    assert!(matches!(result, Err(QueryError::Timeout)));
}

#[test]
fn what_collects_too_much_is_refused() {
    let long = format!("SELECT VALUE [{}] FROM c", vec!["c"; 5000].join(","));
    for text in [
        "SELECT VALUE MAKELIST(c) FROM c",
        "SELECT c.id FROM c GROUP BY c.id",
        "SELECT DISTINCT c.id FROM c",
        "SELECT * FROM c ORDER BY c.n",
        "SELECT VALUE ARRAY(SELECT c, a, b FROM a IN c.list JOIN b IN c.list JOIN d IN c.list JOIN e IN c.list) FROM c",
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
fn strings_do_not_grow_without_end() {
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
                PLAIN,
                &mut Work::default()
            )
            .expect("rows"),
            [""; 0]
        );
    }
}

#[test]
fn a_position_of_another_query_or_other_parameters_is_refused() {
    let items = items(10);
    let parameter = |n: i64| [("@n".to_owned(), Json::from(n))];
    let text = "SELECT VALUE c.n FROM c WHERE c.n > @n";
    let query = Query::compile(text, &parameter(1), &environment()).expect("compiles");
    let resume = ResumePoint::default();
    assert!(matches!(
        page(&query, &items, Some(&resume), 100, 1 << 20),
        Err(QueryError::Resume(_))
    ));
    let mut found = None;
    let mut source = Items {
        items: items.clone(),
        at: 0,
        ordered: false,
        satisfied: false,
        with_text: true,
    };
    let mut never = || false;
    let mut bounds = Bounds {
        max_items: 2,
        max_bytes: 1 << 20,
        max_memory: 1 << 20,
        is_expired: &mut never,
        now_ms: 0,
        started_ms: 0,
        random_seed: 0,
    };
    found = query
        .run(
            &mut source,
            &mut Udfs,
            found.as_ref(),
            &mut bounds,
            &mut Work::default(),
        )
        .expect("a page")
        .resume;
    let other = Query::compile(text, &parameter(2), &environment()).expect("compiles");
    assert!(matches!(
        page(&other, &items, found.as_ref(), 100, 1 << 20),
        Err(QueryError::Resume(_))
    ));
    assert!(page(&query, &items, found.as_ref(), 100, 1 << 20).is_ok());
}

#[test]
fn the_last_page_says_that_it_is_the_last() {
    let items = items(6);
    let query = compile("SELECT * FROM c");
    let mut source = Items {
        items,
        at: 0,
        ordered: false,
        satisfied: false,
        with_text: true,
    };
    let mut never = || false;
    let mut bounds = Bounds {
        max_items: 6,
        max_bytes: 1 << 20,
        max_memory: 1 << 20,
        is_expired: &mut never,
        now_ms: 0,
        started_ms: 0,
        random_seed: 0,
    };
    let page = query
        .run(
            &mut source,
            &mut Udfs,
            None,
            &mut bounds,
            &mut Work::default(),
        )
        .expect("a page");
    assert_eq!((page.rows.len(), page.resume), (6, None));
}

#[test]
fn work_is_counted() {
    let query = compile("SELECT c.id, l FROM c JOIN l IN c.list WHERE c.n < 10");
    let mut work = Work::default();
    let rows = rows(&query, &items(100), PLAIN, &mut work).expect("rows");
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
    let way = Way {
        clever_source: true,
        ..PLAIN
    };
    support::rows(&all, &items(100), way, &mut work).expect("rows");
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
fn a_client_resumes_an_ordered_query_at_its_own_place() {
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
        let filter = orrery_sql::ResumeFilter::parse(
            &orrery_model::json::parse(filter.as_bytes()).expect("JSON"),
        );
        let query = compile(text)
            .with_resume_filter(filter.expect("a filter"))
            .expect("fits");
        let rows = rows(&query, &items, PLAIN, &mut Work::default()).expect("rows");
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
    // Ties of a descending order come downwards: of the equal ones the given item and those before it are left.
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
                orrery_sql::ResumeFilter::parse(
                    &orrery_model::json::parse(br#"{"value":[1]}"#).expect("JSON")
                )
                .expect("a filter")
            )
            .is_err()
    );
}

#[test]
fn a_filter_and_a_position_together_skip_no_row_twice() {
    let items = items(20);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let take = |query: &Query, resume: Option<&ResumePoint>, count: usize| {
        let mut source = Items {
            items: items.clone(),
            at: 0,
            ordered: false,
            satisfied: false,
            with_text: true,
        };
        let mut never = || false;
        let mut bounds = Bounds {
            max_items: count,
            max_bytes: 1 << 20,
            max_memory: 1 << 20,
            is_expired: &mut never,
            now_ms: 0,
            started_ms: 0,
            random_seed: 0,
        };
        let page = query
            .run(
                &mut source,
                &mut Udfs,
                resume,
                &mut bounds,
                &mut Work::default(),
            )
            .expect("a page");
        (
            page.rows
                .iter()
                .map(|r| String::from_utf8_lossy(r).parse().expect("a number"))
                .collect::<Vec<u32>>(),
            page.resume,
        )
    };
    let filter = |n: u32| {
        let json =
            orrery_model::json::parse(format!(r#"{{"value":[{n}],"exclude":false}}"#).as_bytes())
                .expect("JSON");
        compile(text)
            .with_resume_filter(orrery_sql::ResumeFilter::parse(&json).expect("a filter"))
            .expect("it fits")
    };
    let (first, resume) = take(&compile(text), None, 5);
    assert_eq!(first, [0, 1, 2, 3, 4]);
    // The filter reaches further than the position, then the position further than the filter.
    let (further, next) = take(&filter(8), resume.as_ref(), 3);
    assert_eq!(further, [8, 9, 10]);
    assert_eq!(take(&filter(8), next.as_ref(), 3).0, [11, 12, 13]);
    assert_eq!(take(&compile(text), next.as_ref(), 3).0, [11, 12, 13]);
    assert_eq!(take(&filter(2), resume.as_ref(), 3).0, [5, 6, 7]);
}

#[test]
fn a_resume_filter_of_another_shape_is_refused_and_a_hash_by_name() {
    let parse = |text: &str| {
        orrery_sql::ResumeFilter::parse(&orrery_model::json::parse(text.as_bytes()).expect("JSON"))
            .map(|_| ())
    };
    for text in [
        "{}",
        r#"{"value":1}"#,
        r#"{"value":[[1]]}"#,
        r#"{"value":[{"type":"array"}]}"#,
        r#"{"value":[1],"rid":7}"#,
        r#"{"value":[1],"rid":"short"}"#,
        r#"{"value":[1],"exclude":"no"}"#,
    ] {
        assert!(matches!(parse(text), Err(QueryError::Resume(_))), "{text}");
    }
    let hash = r#"{"value":[{"type":"object","low":-5,"high":9007199254740993}]}"#;
    assert!(matches!(parse(hash), Err(QueryError::Unsupported(_))));
}

#[test]
fn a_single_expression_looks_at_the_clock() {
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
fn a_single_expression_counts_what_it_holds() {
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
    // What is dropped again is not counted: one filter after the other, one tuple after the other.
    for text in [
        "SELECT VALUE a FROM c JOIN a IN c.a WHERE UPPER(c.s) != LOWER(c.s) AND LENGTH(c.s || 'x') > 1",
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
fn an_aggregate_over_items_that_take_long_takes_what_it_has_along() {
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
fn a_stream_of_items_that_take_long_loses_none_of_them() {
    let list: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let items: Vec<Bytes> = (0..60)
        .map(|n| Bytes::from(format!(r#"{{"id":"{n}","list":[{}]}}"#, list.join(","))))
        .collect();
    for text in [
        "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE 1 FROM a IN c.list JOIN b IN c.list WHERE a + b = 78)",
        "SELECT VALUE [c.id, a] FROM c JOIN a IN c.list WHERE EXISTS(SELECT VALUE 1 FROM b IN c.list WHERE a + b = 40)",
        "SELECT * FROM c WHERE EXISTS(SELECT VALUE 1 FROM a IN c.list JOIN b IN c.list WHERE a + b = 78)",
    ] {
        let query = compile(text);
        let whole = rows(&query, &items, PLAIN, &mut Work::default()).expect("rows");
        let (cut, pages) = in_short_pages(&query, &items);
        assert_eq!(cut, whole, "{text}");
        assert!(pages > 5, "{pages} pages");
    }
}

/// Items that have cost enough after every so many.
struct Dear {
    items: Items,
    since: usize,
    most: usize,
}

impl Source for Dear {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        self.since += 1;
        self.items.next()
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        self.items.position()
    }

    fn is_page_budget_spent(&self) -> bool {
        self.since >= self.most
    }
}

#[test]
fn a_page_ends_when_the_source_has_cost_enough() {
    let (query, all) = (compile("SELECT VALUE c.n FROM c WHERE c.g = 3"), items(500));
    let (mut rows, mut resume, mut pages) = (Vec::new(), None::<ResumePoint>, 0);
    loop {
        let position = resume
            .as_ref()
            .map(|r| String::from_utf8_lossy(&r.position).into_owned())
            .unwrap_or_default();
        let at = position
            .strip_prefix("at ")
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        let items = Items {
            items: all.clone(),
            at,
            ordered: false,
            satisfied: false,
            with_text: true,
        };
        let mut source = Dear {
            items,
            since: 0,
            most: 100,
        };
        let mut never = || false;
        let mut bounds = Bounds {
            max_items: 1_000,
            max_bytes: 1 << 30,
            max_memory: 1 << 28,
            is_expired: &mut never,
            now_ms: 0,
            started_ms: 0,
            random_seed: 1,
        };
        let page = query
            .run(
                &mut source,
                &mut Udfs,
                resume.as_ref(),
                &mut bounds,
                &mut Work::default(),
            )
            .expect("a page");
        assert!(
            source.since <= 132,
            "{} candidates on one page",
            source.since
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
