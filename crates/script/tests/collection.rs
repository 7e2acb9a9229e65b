//! The collection object: every function, its options, its links, its callbacks, and chained queries.

mod memory;

use memory::{LINKS, Memory, QUOTA, check_on, main_of, pool, run_on};
use orrery_script::{DocumentLink, HostCall, IndexAction, ScriptError};

/// Runs statements and answers the response body and the calls that reached the host.
#[track_caller]
fn calls_of(statements: &str) -> (String, Vec<HostCall>) {
    let mut host = Memory::with(&[("a", r#"{"id":"a","n":1}"#)]);
    let outcome =
        run_on(&pool(), &main_of(statements), "", &mut host).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outcome.host_calls as usize, host.calls.len());
    (outcome.body, host.calls)
}

fn id(id: &str) -> DocumentLink {
    DocumentLink::Id(id.into())
}

#[test]
fn each_function_sends_its_operation_with_its_options() {
    let some = |text: &str| Some(text.to_string());
    let query = |text: &str, parameters: &str, page_size, continuation, flag| HostCall::Query {
        text: text.into(),
        parameters: parameters.into(),
        page_size,
        continuation,
        enable_scan: flag,
        enable_low_precision_order_by: flag,
    };
    let (create, upsert) = (
        |body: &str, index| HostCall::Create {
            body: body.into(),
            index,
        },
        |body: &str, index| HostCall::Upsert {
            body: body.into(),
            index,
        },
    );
    let replace = |if_match, index| HostCall::Replace {
        link: id("a"),
        body: r#"{"id":"a"}"#.into(),
        if_match,
        index,
    };
    let patch = |spec: &str, if_match, filter_predicate| HostCall::Patch {
        link: id("a"),
        spec: spec.into(),
        if_match,
        filter_predicate,
    };
    let doc = "alt + '/docs/a'";
    for (code, expected) in [
        (format!("coll.readDocument({doc}, e => {{}})"), HostCall::Read { link: id("a"), if_none_match: None }),
        (format!("coll.readDocument({doc}, {{ifNoneMatch: '7'}}, e => {{}})"), HostCall::Read { link: id("a"), if_none_match: some("7") }),
        ("coll.readDocument(self + 'docs/Ra/', e => {})".into(), HostCall::Read { link: DocumentLink::Rid("Ra".into()), if_none_match: None }),
        ("coll.readDocument(alt + '/docs/with space & %41', e => {})".into(), HostCall::Read { link: id("with space & %41"), if_none_match: None }),
        ("coll.readDocuments(self)".into(), HostCall::ReadFeed { page_size: 100, continuation: None }),
        ("coll.readDocuments(alt, {pageSize: 5, continuation: 'at 1'})".into(), HostCall::ReadFeed { page_size: 5, continuation: some("at 1") }),
        ("coll.queryDocuments(self, 'SELECT 1')".into(), query("SELECT 1", "[]", 100, None, false)),
        (
            "coll.queryDocuments(alt, {query: 'SELECT @p', parameters: [{name: '@p', value: 1}]}, {pageSize: 2, continuation: 'at 1', enableScan: true, enableLowPrecisionOrderBy: true})".into(),
            query("SELECT @p", r#"[{"name":"@p","value":1}]"#, 2, some("at 1"), true),
        ),
        ("coll.createDocument(self, {id: 'b'})".into(), create(r#"{"id":"b"}"#, IndexAction::Default)),
        ("coll.createDocument(alt, '{\"id\": \"b\"}', {indexAction: 'exclude'})".into(), create(r#"{"id":"b"}"#, IndexAction::Exclude)),
        ("coll.createDocument(alt, {n: 1}, {disableAutomaticIdGeneration: true}, e => {})".into(), create(r#"{"n":1}"#, IndexAction::Default)),
        ("coll.upsertDocument(self, {id: 'a'}, {indexAction: 'include'})".into(), upsert(r#"{"id":"a"}"#, IndexAction::Include)),
        (format!("coll.replaceDocument({doc}, {{id: 'a'}}, {{etag: '1', indexAction: 'include'}})"), replace(some("1"), IndexAction::Include)),
        (format!("coll.replaceDocument({doc}, '{{\"id\":\"a\"}}')"), replace(None, IndexAction::Default)),
        (format!("coll.deleteDocument({doc})"), HostCall::Delete { link: id("a"), if_match: None }),
        (format!("coll.deleteDocument({doc}, {{etag: '1'}})"), HostCall::Delete { link: id("a"), if_match: some("1") }),
        (format!("coll.patchDocument({doc}, [{{op: 'incr', path: '/n', value: 1}}])"), patch(r#"[{"op":"incr","path":"/n","value":1}]"#, None, None)),
        (format!("coll.patchDocument({doc}, {{operations: []}}, {{etag: '1', filterPredicate: 'from c'}})"), patch(r#"{"operations":[]}"#, some("1"), some("from c"))),
    ] {
        assert_eq!(calls_of(&format!("put({code})")), ("true".into(), vec![expected]), "{code}");
    }
}

#[test]
fn wrong_arguments_are_refused_at_once_with_400() {
    for code in [
        "coll.readDocument()",
        "coll.readDocument(5)",
        "coll.readDocument(alt + '/docs/')",
        "coll.readDocument(alt + '/docs/a/attachments/b')",
        "coll.readDocument(alt + '/docs/\\ud800')",
        "coll.readDocument(alt + '/docs/a', 5)",
        "coll.readDocument(alt + '/docs/a', {}, 'callback')",
        "coll.readDocument(alt + '/docs/a', {ifNoneMatch: 1})",
        "coll.readDocuments(self, {pageSize: 0})",
        "coll.readDocuments(self, {pageSize: 'x'})",
        "coll.readDocuments(self, {pageSize: 1.5})",
        "coll.readDocuments(self, {continuation: {}})",
        "coll.queryDocuments(self)",
        "coll.queryDocuments(self, '')",
        "coll.queryDocuments(self, {query: 1})",
        "coll.queryDocuments(self, {query: 'q', parameters: {}})",
        "coll.queryDocuments(self, 'q', {enableScan: 'yes'})",
        "coll.createDocument(self)",
        "coll.createDocument(self, 5)",
        "coll.createDocument(self, [])",
        "coll.createDocument(self, '{')",
        "coll.createDocument(self, '5')",
        "coll.createDocument(self, {}, {indexAction: 'maybe'})",
        "coll.replaceDocument(alt + '/docs/a', null)",
        "coll.replaceDocument(alt + '/docs/a', {}, {etag: 1})",
        "coll.patchDocument(alt + '/docs/a', {})",
        "coll.patchDocument(alt + '/docs/a', '[')",
        "coll.createAttachment(alt + '/docs/a', {})",
        "coll.readAttachments(alt + '/docs/a')",
        "__.filter()",
        "__.filter('n > 1')",
        "__.map(5)",
        "__.pluck('')",
        "__.pluck(5)",
        "__.sortBy()",
        "__.sortByDescending('n')",
        "__.unwind()",
        "__.filter(() => true, {pageSize: -2})",
        "__.filter(() => true, {continuation: 'not ours'})",
        "__.chain().filter(() => true, {pageSize: 1})",
        "__.chain().map(d => d, () => {})",
    ] {
        let (body, calls) = calls_of(&format!(
            "try {{ {code}; put('accepted'); }} catch (e) {{ put(e.number); }}"
        ));
        assert_eq!((body.as_str(), calls), ("400", vec![]), "{code}");
    }
}

#[test]
fn links_of_other_collections_are_refused_at_once() {
    for link in [
        "'dbs/d/colls/other'",
        "'dbs/d/colls/c/'",
        "self.slice(0, -1)",
        "'/' + alt",
        "''",
        "undefined",
        "{}",
    ] {
        let code = format!(
            "try {{ coll.readDocuments({link}); }} catch (e) {{ put([e.number, e.message.includes('is not allowed to operate on resources outside current collection')]); }}"
        );
        assert_eq!(calls_of(&code), ("[400,true]".into(), vec![]), "{link}");
    }
    for link in [
        "'dbs/d/colls/other/docs/a'",
        "'dbs/d/colls/cc/docs/a'",
        "alt + 'docs/a'",
        "self + '/docs/a'",
        "'docs/a'",
        "'/' + alt + '/docs/a'",
        "alt",
    ] {
        let code = format!(
            "try {{ coll.readDocument({link}); }} catch (e) {{ put([e.number, e.message.includes('outside current collection')]); }}"
        );
        assert_eq!(calls_of(&code), ("[400,true]".into(), vec![]), "{link}");
    }
}

#[test]
fn callbacks_get_error_result_and_response_options() {
    let quota = format!(
        r#""currentCollectionSizeInMB":"{}","maxCollectionSizeInMB":"{}""#,
        QUOTA.current, QUOTA.maximum
    );
    for (code, expected) in [
        (
            "coll.readDocument(alt + '/docs/a', (...all) => put(all))",
            format!(r#"[null,{{"id":"a","n":1}},{{{quota}}}]"#),
        ),
        (
            "coll.readDocument(alt + '/docs/a', {ifNoneMatch: '1'}, (...all) => put(all))",
            format!(r#"[null,null,{{"notModified":true,{quota}}}]"#),
        ),
        (
            "coll.readDocuments(self, (...all) => put(all))",
            format!(r#"[null,[{{"id":"a","n":1}}],{{{quota}}}]"#),
        ),
        (
            "coll.deleteDocument(alt + '/docs/a', (...all) => put(all))",
            format!("[null,{{{quota}}}]"),
        ),
        (
            "coll.createDocument(self, {id: 'b'}, (...all) => put(all))",
            format!(r#"[null,{{"id":"b"}},{{{quota}}}]"#),
        ),
        (
            "coll.readDocument(alt + '/docs/zz', (e, doc) => put([e instanceof Error, e.number, e.message, e.body, typeof doc]))",
            r#"[true,404,"Resource Not Found","{\"code\":404}","undefined"]"#.into(),
        ),
        (
            "coll.createDocument(self, {id: 'a'}, (e) => put(e.number))",
            "409".into(),
        ),
        (
            "coll.replaceDocument(alt + '/docs/a', {id: 'a'}, {etag: 'old'}, (e) => put(e.number))",
            "412".into(),
        ),
        (
            "coll.deleteDocument(alt + '/docs/a', {etag: 'old'}, (e) => put(e.number))",
            "412".into(),
        ),
    ] {
        assert_eq!(calls_of(code).0, expected, "{code}");
    }
}

#[test]
fn callbacks_run_in_order_after_the_main_function_and_may_queue_more() {
    let code = "const seen = []; \
        coll.readDocument(alt + '/docs/a', () => { seen.push('one'); coll.readDocument(alt + '/docs/a', () => { seen.push('three'); put(seen); }); }); \
        coll.readDocument(alt + '/docs/a', () => { seen.push('two'); Promise.resolve().then(() => seen.push('between')); }); \
        seen.push('main');";
    assert_eq!(
        calls_of(code).0,
        r#"["main","one","two","between","three"]"#
    );
    let snapshot = "const doc = {id: 'b', n: 1}; coll.createDocument(self, doc); doc.n = 2;";
    assert_eq!(
        calls_of(snapshot).1,
        [HostCall::Create {
            body: r#"{"id":"b","n":1}"#.into(),
            index: IndexAction::Default
        }]
    );
}

#[test]
fn later_operations_see_earlier_writes() {
    let code = "coll.createDocument(self, {id: 'b'}); coll.readDocuments(self, (e, docs) => put(docs.length));";
    assert_eq!(calls_of(code).0, "2");
}

#[test]
fn a_missing_id_is_made_up_on_a_copy() {
    let (body, calls) = calls_of(
        "const doc = {n: 1, id: ''}; coll.createDocument(self, doc, (e, made) => put([doc.id, made.id]));",
    );
    let HostCall::Create { body: sent, .. } = &calls[0] else {
        panic!("{calls:?}")
    };
    let made = memory::id_in(sent).unwrap();
    assert_eq!(body, format!(r#"["","{made}"]"#));
    let shape: String = made
        .chars()
        .map(|c| {
            if c == '-' {
                '-'
            } else if c.is_ascii_hexdigit() {
                'x'
            } else {
                '?'
            }
        })
        .collect();
    assert_eq!(shape, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
    let (body, _) = calls_of(
        "coll.upsertDocument(self, {}, (e, one) => coll.upsertDocument(self, {}, (e, two) => put(one.id !== two.id)));",
    );
    assert_eq!(body, "true");
}

#[test]
fn a_failed_call_without_callback_ends_the_script_and_a_swallowed_one_does_not() {
    let pool = pool();
    let mut host = Memory::with(&[("a", r#"{"id":"a"}"#)]);
    let error = run_on(
        &pool,
        &main_of("coll.createDocument(self, {id: 'a'});"),
        "",
        &mut host,
    )
    .unwrap_err();
    let message = "Resource with specified id or name already exists.".to_string();
    assert_eq!(
        error,
        ScriptError::UnhandledHostFailure {
            number: 409,
            message
        }
    );
    check_on(
        &pool,
        &main_of("coll.createDocument(self, {id: 'a'}, () => put('alive'));"),
        "",
        &mut host,
        r#""alive""#,
    );
    let error = run_on(
        &pool,
        &main_of("coll.createDocument(self, {id: 'a'}, (e) => { throw e; });"),
        "",
        &mut host,
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            ScriptError::Thrown {
                number: Some(409),
                ..
            }
        ),
        "{error:?}"
    );
    let error = run_on(
        &pool,
        &main_of("coll.createDocument(self, {id: 'b'}, () => { throw new Error(1234, 'x'); });"),
        "",
        &mut host,
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            ScriptError::Thrown {
                number: Some(1234),
                ..
            }
        ),
        "{error:?}"
    );
}

#[test]
fn pages_go_on_where_they_ended() {
    let code = "const seen = []; (function next(continuation) { \
        coll.readDocuments(self, {pageSize: 2, continuation}, (e, docs, options) => { \
        seen.push(docs.map(d => d.n)); if (options.continuation) next(options.continuation); else put(seen); }); })();";
    check_on(
        &pool(),
        &main_of(code),
        "",
        &mut Memory::numbered(5),
        "[[0,1],[2,3],[4]]",
    );
}

#[test]
fn unchained_queries_answer_whether_they_are_accepted_and_call_back() {
    for (code, expected) in [
        (
            "put(__.filter(d => d.n > 2, (e, r) => {}))",
            r#"{"isAccepted":true}"#,
        ),
        (
            "const v = 3; __.filter(function (d) { return d.n == v; }, (e, r) => put(r))",
            r#"[{"id":"003","n":3}]"#,
        ),
        (
            "coll.filter(d => d.n > 2, {pageSize: 1}, (e, r, o) => put([r.length, typeof o.continuation]))",
            r#"[1,"string"]"#,
        ),
        (
            "__.filter(coll, d => d.n == 1, (e, r) => put(r.length))",
            "1",
        ),
        (
            "__.filter(self, d => d.n == 1, (e, r) => put(r.length))",
            "1",
        ),
        ("__.map(d => d.n * 2, (e, r) => put(r))", "[0,2,4,6,8]"),
        (
            "__.map(d => d.n > 1 ? d.n : undefined, (e, r) => put(r))",
            "[2,3,4]",
        ),
        ("__.pluck('n', (e, r) => put(r))", "[0,1,2,3,4]"),
        ("__.pluck('missing', (e, r) => put(r))", "[]"),
        (
            "__.sortBy(d => -d.n, (e, r) => put(r.map(d => d.n)))",
            "[4,3,2,1,0]",
        ),
        (
            "__.sortByDescending(d => d.n, (e, r) => put(r.map(d => d.n)))",
            "[4,3,2,1,0]",
        ),
        ("__.flatten((e, r) => put(r.length))", "5"),
        ("__.flatten(true, (e, r) => put(r.length))", "5"),
        (
            "__.unwind(d => [d.n, 'x'], (d, i) => i, {}, (e, r) => put(r.slice(0, 4)))",
            r#"[0,"x",1,"x"]"#,
        ),
        (
            "__.unwind(d => d.n == 1 ? ['k'] : undefined, {}, (e, r) => put(r))",
            r#"[[{"id":"001","n":1},"k"]]"#,
        ),
    ] {
        check_on(
            &pool(),
            &main_of(code),
            "",
            &mut Memory::numbered(5),
            expected,
        );
    }
}

#[test]
fn without_callback_the_result_is_appended_to_the_response() {
    let pool = pool();
    check_on(
        &pool,
        &main_of("__.pluck('n');"),
        "",
        &mut Memory::numbered(3),
        r#""[0,1,2]""#,
    );
    let code = "__.chain().filter(d => d.n > 0).pluck('n').value(); __.response.appendBody('!');";
    check_on(
        &pool,
        &main_of(code),
        "",
        &mut Memory::numbered(3),
        r#""![1,2]""#,
    );
}

#[test]
fn chains_combine_their_stages_in_order() {
    for (code, expected) in [
        (
            "__.chain().filter(d => d.n > 1).map(d => d.n).value((e, r) => put(r))",
            "[2,3,4]",
        ),
        (
            "__.chain().sortByDescending(d => d.n).map(d => d.n).filter(n => n % 2 == 0).value((e, r) => put(r))",
            "[4,2,0]",
        ),
        (
            "__.chain().map(d => [d.n, [d.n]]).flatten().value((e, r) => put(r.slice(0, 4)))",
            "[0,0,1,1]",
        ),
        (
            "__.chain().map(d => [d.n, [d.n]]).flatten(true).value((e, r) => put(r.slice(0, 2)))",
            "[0,[0]]",
        ),
        (
            "__.chain().map(d => ({ kids: [d.n, d.n + 10] })).unwind(d => d.kids, (d, k) => k).filter(k => k > 10).value((e, r) => put(r))",
            "[11,12,13,14]",
        ),
        (
            "put(__.chain().pluck('n').value({pageSize: 2}, () => {}))",
            r#"{"isAccepted":true}"#,
        ),
        ("put(coll.chain().isAccepted)", "true"),
    ] {
        check_on(
            &pool(),
            &main_of(code),
            "",
            &mut Memory::numbered(5),
            expected,
        );
    }
}

#[test]
fn paged_chains_lose_and_repeat_nothing() {
    for stages in [
        "map(d => d.n)",
        "filter(d => true).pluck('n')",
        "sortBy(d => d.n).map(d => d.n)",
        "unwind(d => [d.n], (d, n) => n)",
    ] {
        let code = format!(
            "const seen = []; (function next(continuation) {{ __.chain().{stages}.value({{pageSize: a, continuation}}, \
             (e, r, o) => {{ if (e) throw e; if (r.length > a) throw new Error('long'); seen.push(...r); if (o.continuation) next(o.continuation); else put(seen.every((n, i) => n === i) && seen.length); }}); }})();"
        );
        for size in ["[1000]", "[100]", "[99]", "[33]", "[7]"] {
            check_on(
                &pool(),
                &main_of(&code),
                size,
                &mut Memory::numbered(250),
                "250",
            );
        }
    }
}

#[test]
fn the_double_underscore_object_is_the_collection_with_request_and_response() {
    let code = "__.response.setBody([__.getSelfLink() === self, __.request.getBody(), typeof __.createDocument, Object.getPrototypeOf(__) === coll]);";
    check_on(
        &pool(),
        &main_of(code),
        "[1]",
        &mut Memory::default(),
        r#"[true,"[1]","function",true]"#,
    );
    assert!(LINKS.self_link.ends_with('/'));
}

#[test]
fn near_the_end_of_its_time_a_script_is_told_no_and_ends_normally() {
    let options = orrery_script::PoolOptions {
        accept_ms: 150,
        ..memory::options()
    };
    let pool = orrery_script::ScriptPool::new(options);
    let reread = "let reads = 0; (function again() { const ok = coll.readDocument(alt + '/docs/a', (e) => { if (e) throw e; reads++; again(); }); \
        if (!ok) put({ok, some: reads > 10, chained: __.filter(d => true), chain: __.chain().value()}); })();";
    let mut host = Memory::with(&[("a", r#"{"id":"a"}"#)]);
    let expected =
        r#"{"ok":false,"some":true,"chained":{"isAccepted":false},"chain":{"isAccepted":false}}"#;
    check_on(&pool, &main_of(reread), "", &mut host, expected);
    let flood = main_of("let n = 0; while (coll.readDocuments(self)) n++; put(n);");
    check_on(&self::pool(), &flood, "", &mut Memory::default(), "10000");
}
