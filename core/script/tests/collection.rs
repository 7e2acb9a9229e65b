//! The collection object: every function, its options, its links, its callbacks, and chained
//! queries.

use crate::memory::{self, LINKS, Memory, QUOTA, check_on, main_of, pool, run_on};
use orrery_script::{DocumentLink, HostCall, IndexAction, ScriptError};

/// Runs statements. Returns the response body and the calls that reached the host.
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

/// Checks that a function of the collection is accepted and sends this operation.
#[track_caller]
fn check_sent(code: &str, expected: HostCall) {
    let statements = format!("put({code})");
    assert_eq!(
        calls_of(&statements),
        ("true".into(), vec![expected]),
        "{code}"
    );
}

fn some(text: &str) -> Option<String> {
    Some(text.into())
}

#[test]
fn a_document_is_read_by_its_id_or_its_resource_id() {
    let read = |link: DocumentLink, if_none_match| HostCall::Read {
        link,
        if_none_match,
    };
    let rid = DocumentLink::Rid("Ra".into());
    for (code, expected) in [
        (
            "coll.readDocument(alt + '/docs/a', e => {})",
            read(id("a"), None),
        ),
        (
            "coll.readDocument(alt + '/docs/a', {ifNoneMatch: '7'}, e => {})",
            read(id("a"), some("7")),
        ),
        (
            "coll.readDocument(self + 'docs/Ra/', e => {})",
            read(rid, None),
        ),
        (
            "coll.readDocument(alt + '/docs/with space & %41', e => {})",
            read(id("with space & %41"), None),
        ),
        (
            "coll.readDocument(alt + '/docs/a/attachments/b', e => {})",
            read(id("a/attachments/b"), None),
        ),
    ] {
        check_sent(code, expected);
    }
}

#[test]
fn each_reading_function_sends_its_operation_with_its_options() {
    let feed = |page_size, continuation| HostCall::ReadFeed {
        page_size,
        continuation,
    };
    let query = |text: &str, parameters: &str, page_size, continuation, flag| HostCall::Query {
        text: text.into(),
        parameters: parameters.into(),
        page_size,
        continuation,
        enable_scan: flag,
        enable_low_precision_order_by: flag,
    };
    for (code, expected) in [
        ("coll.readDocuments(self)", feed(100, None)),
        (
            "coll.readDocuments(self, {pageSize: -1})",
            feed(1_000_000, None),
        ),
        (
            "coll.queryDocuments(self, 'SELECT 1', {pageSize: -1})",
            query("SELECT 1", "[]", 1_000_000, None, false),
        ),
        (
            "coll.readDocuments(alt, {pageSize: 5, continuation: 'at 1'})",
            feed(5, some("at 1")),
        ),
        (
            "coll.queryDocuments(self, 'SELECT 1')",
            query("SELECT 1", "[]", 100, None, false),
        ),
        (
            r"coll.queryDocuments(alt,
                {query: 'SELECT @p', parameters: [{name: '@p', value: 1}]},
                {pageSize: 2, continuation: 'at 1', enableScan: true,
                 enableLowPrecisionOrderBy: true})",
            query(
                "SELECT @p",
                r#"[{"name":"@p","value":1}]"#,
                2,
                some("at 1"),
                true,
            ),
        ),
    ] {
        check_sent(code, expected);
    }
}

#[test]
fn an_empty_continuation_is_none() {
    let feed = HostCall::ReadFeed {
        page_size: 100,
        continuation: None,
    };
    check_sent("coll.readDocuments(self, {continuation: ''})", feed);
}

#[test]
fn each_writing_function_sends_its_operation_with_its_options() {
    let create = |body: &str, index| HostCall::Create {
        body: body.into(),
        index,
    };
    let upsert = |body: &str, index| HostCall::Upsert {
        body: body.into(),
        index,
    };
    let replace = |if_match, index| HostCall::Replace {
        link: id("a"),
        body: r#"{"id":"a"}"#.into(),
        if_match,
        index,
    };
    let delete = |if_match| HostCall::Delete {
        link: id("a"),
        if_match,
    };
    let patch = |spec: &str, if_match, filter_predicate| HostCall::Patch {
        link: id("a"),
        spec: spec.into(),
        if_match,
        filter_predicate,
    };
    for (code, expected) in [
        (
            "coll.createDocument(self, {id: 'b'})",
            create(r#"{"id":"b"}"#, IndexAction::Default),
        ),
        (
            r#"coll.createDocument(alt, '{"id": "b"}', {indexAction: 'exclude'})"#,
            create(r#"{"id":"b"}"#, IndexAction::Exclude),
        ),
        (
            "coll.createDocument(alt, {n: 1}, {disableAutomaticIdGeneration: true}, e => {})",
            create(r#"{"n":1}"#, IndexAction::Default),
        ),
        (
            "coll.upsertDocument(self, {id: 'a'}, {indexAction: 'include'})",
            upsert(r#"{"id":"a"}"#, IndexAction::Include),
        ),
        (
            r"coll.replaceDocument(alt + '/docs/a', {id: 'a'},
                {etag: '1', indexAction: 'include'})",
            replace(some("1"), IndexAction::Include),
        ),
        (
            r#"coll.replaceDocument(alt + '/docs/a', '{"id":"a"}')"#,
            replace(None, IndexAction::Default),
        ),
        ("coll.deleteDocument(alt + '/docs/a')", delete(None)),
        (
            "coll.deleteDocument(alt + '/docs/a', {etag: '1'})",
            delete(some("1")),
        ),
        (
            "coll.patchDocument(alt + '/docs/a', [{op: 'incr', path: '/n', value: 1}])",
            patch(r#"[{"op":"incr","path":"/n","value":1}]"#, None, None),
        ),
        (
            r"coll.patchDocument(alt + '/docs/a', {operations: []},
                {etag: '1', filterPredicate: 'from c'})",
            patch(r#"{"operations":[]}"#, some("1"), some("from c")),
        ),
    ] {
        check_sent(code, expected);
    }
}

#[test]
fn wrong_arguments_are_refused_at_once_with_400() {
    for code in [
        "coll.readDocument()",
        "coll.readDocument(5)",
        "coll.readDocument(alt + '/docs/')",
        "coll.readDocument(self + 'docs/Ra/attachments/b')",
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
            r"try {{
                coll.readDocuments({link});
            }} catch (e) {{
                const text = 'is not allowed to operate on resources outside current collection';
                put([e.number, e.message.includes(text)]);
            }}"
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
            r"try {{
                coll.readDocument({link});
            }} catch (e) {{
                put([e.number, e.message.includes('outside current collection')]);
            }}"
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
            r"coll.readDocument(alt + '/docs/zz', (e, doc) =>
                put([e instanceof Error, e.number, e.message, e.body, typeof doc]))",
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
    let code = r"
        const seen = [];
        coll.readDocument(alt + '/docs/a', () => {
            seen.push('one');
            coll.readDocument(alt + '/docs/a', () => { seen.push('three'); put(seen); });
        });
        coll.readDocument(alt + '/docs/a', () => {
            seen.push('two');
            Promise.resolve().then(() => seen.push('between'));
        });
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
    let code = r"
        coll.createDocument(self, {id: 'b'});
        coll.readDocuments(self, (e, docs) => put(docs.length));";
    assert_eq!(calls_of(code).0, "2");
}

#[test]
fn a_missing_id_is_generated_on_a_copy() {
    let (body, calls) = calls_of(
        r"const doc = {n: 1, id: ''};
        coll.createDocument(self, doc, (e, made) => put([doc.id, made.id]));",
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
        r"coll.upsertDocument(self, {}, (e, one) =>
            coll.upsertDocument(self, {}, (e, two) => put(one.id !== two.id)));",
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
fn a_page_starts_where_the_page_before_ended() {
    let code = r"
        const seen = [];
        (function next(continuation) {
            coll.readDocuments(self, {pageSize: 2, continuation}, (e, docs, options) => {
                seen.push(docs.map(d => d.n));
                if (options.continuation) next(options.continuation); else put(seen);
            });
        })();";
    check_on(
        &pool(),
        &main_of(code),
        "",
        &mut Memory::numbered(5),
        "[[0,1],[2,3],[4]]",
    );
}

#[test]
fn unchained_queries_answer_is_accepted_and_call_back() {
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
            r"coll.filter(d => d.n > 2, {pageSize: 1}, (e, r, o) =>
                put([r.length, typeof o.continuation]))",
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
            r"__.chain().sortByDescending(d => d.n).map(d => d.n).filter(n => n % 2 == 0)
                .value((e, r) => put(r))",
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
            r"__.chain().map(d => ({ kids: [d.n, d.n + 10] }))
                .unwind(d => d.kids, (d, k) => k).filter(k => k > 10).value((e, r) => put(r))",
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
fn paged_chains_lose_and_repeat_no_value() {
    for stages in [
        "map(d => d.n)",
        "filter(d => true).pluck('n')",
        "sortBy(d => d.n).map(d => d.n)",
        "unwind(d => [d.n], (d, n) => n)",
    ] {
        let code = format!(
            r"const seen = [];
            (function next(continuation) {{
                __.chain().{stages}.value({{pageSize: a, continuation}}, (e, r, o) => {{
                    if (e) throw e;
                    if (r.length > a) throw new Error('long');
                    seen.push(...r);
                    if (o.continuation) next(o.continuation);
                    else put(seen.every((n, i) => n === i) && seen.length);
                }});
            }})();"
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
    let code = r"__.response.setBody([
        __.getSelfLink() === self, __.request.getBody(), typeof __.createDocument,
        Object.getPrototypeOf(__) === coll,
    ]);";
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
fn near_the_end_of_its_time_a_script_gets_false_and_ends_normally() {
    let options = orrery_script::PoolOptions {
        accept_ms: 500,
        ..memory::options()
    };
    let pool = orrery_script::ScriptPool::new(options);
    let reread = r"
        let reads = 0;
        (function again() {
            const ok = coll.readDocument(alt + '/docs/a', (e) => {
                if (e) throw e;
                reads++;
                again();
            });
            const chained = () => __.filter(d => true), chain = () => __.chain().value();
            if (!ok) put({ok, some: reads > 0, chained: chained(), chain: chain()});
        })();";
    let mut host = Memory::with(&[("a", r#"{"id":"a"}"#)]);
    let expected =
        r#"{"ok":false,"some":true,"chained":{"isAccepted":false},"chain":{"isAccepted":false}}"#;
    check_on(&pool, &main_of(reread), "", &mut host, expected);
    let flood = main_of("let n = 0; while (coll.readDocuments(self)) n++; put(n);");
    check_on(&self::pool(), &flood, "", &mut Memory::default(), "10000");
}
