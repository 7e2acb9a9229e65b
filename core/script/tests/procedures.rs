//! Procedures: arguments, bodies, the log, errors, compilation.

use crate::memory::{AMBIENT, LINKS, Memory, QUOTA, check, main_of, pool, procedure, run_on};
use orrery_script::{ECHO_PROCEDURE, Procedure, ScriptError};

#[test]
fn arguments_are_read_from_the_request_body_as_apply_reads_them() {
    let pool = pool();
    let body = r"function () {
        getContext().getResponse().setBody([arguments.length].concat(Array.from(arguments)));
    }";
    let long = format!("[{}0]", "0,".repeat(999));
    for (arguments, expected) in [
        ("", "[0]"),
        ("  ", "[0]"),
        ("null", "[0]"),
        ("{}", "[0]"),
        (r#"{"a":1}"#, "[0]"),
        ("[]", "[0]"),
        (r#"["x",{"y":1},null]"#, r#"[3,"x",{"y":1},null]"#),
        (r#"{"0":1,"length":2}"#, "[2,1,null]"),
        (r#"{"0":1,"1":2,"length":"2"}"#, "[2,1,2]"),
        (r#"{"0":1,"length":1.9}"#, "[1,1]"),
        (r#"{"0":1,"length":-5}"#, "[0]"),
        (r#"{"0":1,"length":"many"}"#, "[0]"),
    ] {
        check(&pool, body, arguments, expected);
    }
    check(
        &pool,
        "function () { getContext().getResponse().setBody(arguments.length); }",
        &long,
        "1000",
    );
    for arguments in [
        "1",
        "\"text\"",
        "true",
        "undefined",
        "{",
        "[1,",
        r#"{"length":600000}"#,
        r#"{"length":1e9}"#,
    ] {
        let error = run_on(&pool, body, arguments, &mut Memory::default()).unwrap_err();
        assert!(
            matches!(error, ScriptError::BadArguments(_)),
            "{arguments}: {error:?}"
        );
    }
    let bytes = Procedure {
        arguments: &[0xff],
        ..procedure(body, "")
    };
    assert!(matches!(
        pool.run_procedure(bytes, &mut Memory::default()),
        Err(ScriptError::BadArguments(_))
    ));
}

#[test]
fn a_source_is_one_function_in_any_form() {
    let pool = pool();
    for body in [
        "function () { getContext().getResponse().setBody(1); }",
        "function name() { getContext().getResponse().setBody(1); };",
        r"// first
        /* then */ function name(a, b) { getContext().getResponse().setBody(1); } // last",
        "function () { getContext().getResponse().setBody(1); }; // after",
        "() => getContext().getResponse().setBody(1)",
        "async function () { await null; getContext().getResponse().setBody(1); }",
        r"function main() { helper(); }
        function helper() { getContext().getResponse().setBody(1); }",
        "(function () { getContext().getResponse().setBody(1); })",
    ] {
        check(&pool, body, "", "1");
    }
}

#[test]
fn a_source_that_is_not_one_function_fails_to_compile_at_execution() {
    let pool = pool();
    for body in [
        "",
        "   ",
        "function (",
        "function () { let let = 1; }",
        "42",
        "'text'",
        "var x = 1;",
        "alert(1)",
        "fun\0ction",
    ] {
        let error = run_on(&pool, body, "", &mut Memory::default()).unwrap_err();
        assert!(
            matches!(error, ScriptError::Compile { .. }),
            "{body}: {error:?}"
        );
        assert!(
            error
                .to_string()
                .starts_with("Encountered exception while compiling Javascript.")
        );
    }
}

#[test]
fn the_response_body_is_the_last_set_value_as_json() {
    let pool = pool();
    for (statements, expected) in [
        ("", r#""""#),
        ("put('one')", r#""one""#),
        ("put(null)", "null"),
        ("put(undefined)", r#""""#),
        (
            "put({a: [1, 'x', null], u: undefined})",
            r#"{"a":[1,"x",null]}"#,
        ),
        (
            "for (let i = 0; i < 10; i++) res.appendBody(i)",
            r#""0123456789""#,
        ),
        (
            "for (let i = 0; i < 10; i++) res.appendValue('Body', i)",
            r#""0123456789""#,
        ),
        ("put(1); res.appendBody(2)", "3"),
        ("put(null); res.appendBody({a: 1})", r#"{"a":1}"#),
        ("put('a'); res.appendBody(null)", r#""anull""#),
        (
            r"for (let i = 0; i < 1000; i++) {
                put(i);
                if (res.getBody() !== i) throw new Error('lost');
            }",
            "999",
        ),
        (
            "res.setValue('Body', 5); put(res.getValue('Body') + 1)",
            "6",
        ),
        ("put('\\ud800')", r#""\ud800""#),
        ("put(getContext().getRequest().getBody())", r#""[7]""#),
        (
            "put(typeof getContext().getRequest().setBody)",
            r#""undefined""#,
        ),
        (
            "put(res.getMaxResourceQuota())",
            r#""documentSize=10;collectionSize=10;""#,
        ),
    ] {
        check(&pool, &main_of(statements), "[7]", expected);
    }
}

#[test]
fn unknown_and_read_only_properties_are_refused() {
    let pool = pool();
    let attempt = |code: &str| {
        main_of(&format!(
            r"try {{ {code}; put('done'); }}
            catch (e) {{ put([e instanceof TypeError, e.number, e.message]); }}"
        ))
    };
    for (code, expected) in [
        (
            "res.setValue('Test', 1)",
            r#"[false,400,"Cannot set new values: Test"]"#,
        ),
        (
            "res.appendValue('Test', 1)",
            r#"[false,400,"Cannot set new values: Test"]"#,
        ),
        (
            "res.setValue('body', 1)",
            r#"[false,400,"Cannot set new values: body"]"#,
        ),
        (
            "res.setValue('MaxResourceQuota', 1)",
            r#"[false,403,"Not a writable property: MaxResourceQuota"]"#,
        ),
        (
            "getContext().getRequest().setValue('Body', 1)",
            r#"[false,403,"Not a writable property: Body"]"#,
        ),
        (
            "res.getValue('Test')",
            r#"[true,null,"cannot read value 'Test': there is no such property"]"#,
        ),
    ] {
        check(&pool, &attempt(code), "", expected);
    }
}

#[test]
fn a_body_beyond_the_limit_is_refused_with_413() {
    let pool = pool();
    let code = r"
        const big = 'x'.repeat(3000000);
        put(big);
        try { res.appendBody(big); } catch (e) { put(e.number + e.message.slice(0, 18)); }";
    check(&pool, &main_of(code), "", r#""413Cannot appendBody ""#);
    check(
        &pool,
        &main_of("try { put('x'.repeat(5000000)); } catch (e) { put(e.number); }"),
        "",
        "413",
    );
    check(
        &pool,
        &main_of("try { put(['x'.repeat(5000000)]); } catch (e) { put(e.number); }"),
        "",
        "413",
    );
}

#[test]
fn error_takes_a_number_and_a_message() {
    let pool = pool();
    for (expression, expected) in [
        (
            "(e => [e.number, e.message, e instanceof Error, e.name])(new Error(404, 'gone'))",
            r#"[404,"gone",true,"Error"]"#,
        ),
        (
            "(e => [e.number, e.message])(Error(404, 'gone'))",
            r#"[404,"gone"]"#,
        ),
        (
            "(e => [typeof e.number, e.message])(new Error('text'))",
            r#"["undefined","text"]"#,
        ),
        (
            "(e => [typeof e.number, e.message])(new Error())",
            r#"["undefined",""]"#,
        ),
        ("new Error('outer', { cause: 'inner' }).cause", r#""inner""#),
        (
            "(class Own extends Error {}).name + (new (class Own extends Error {})(7, 'x')).number",
            r#""Own7""#,
        ),
        ("new TypeError('t') instanceof Error", "true"),
        (
            r"(() => {
                try { null.x } catch (e) { return e instanceof Error && e instanceof TypeError }
            })()",
            "true",
        ),
        (
            "Error.prototype.constructor === Error && new Error('x').constructor === Error",
            "true",
        ),
        ("Object.isFrozen(ErrorCodes) && ErrorCodes.RetryWith", "449"),
    ] {
        check(&pool, &main_of(&format!("put({expression})")), "", expected);
    }
}

#[test]
fn an_uncaught_error_carries_number_message_and_trace() {
    let pool = pool();
    let thrown =
        |code: &str| match run_on(&pool, &main_of(code), "", &mut Memory::default()).unwrap_err() {
            ScriptError::Thrown {
                number,
                message,
                stack,
            } => (number, message, stack),
            other => panic!("{other:?}"),
        };
    let (number, message, stack) = thrown("throw new Error(4444, 'mine')");
    assert_eq!((number, message.as_str()), (Some(4444), "Error: mine"));
    assert!(stack.contains("at main (p.js:2"), "{stack}");
    assert!(!stack.contains("prelude"), "{stack}");
    let numbers = [
        ("throw new Error('plain')", None, "Error: plain"),
        ("throw 'text'", None, "text"),
        ("throw null", None, "null"),
        ("throw { number: 5, message: 'm' }", Some(5), "m"),
        (
            "null.x",
            None,
            "TypeError: cannot read property 'x' of null",
        ),
        ("throw new Error(1.5, 'half')", None, "Error: half"),
        (
            "throw { get message() { throw 1; } }",
            None,
            "an exception that cannot be shown",
        ),
        (
            "put(10n)",
            None,
            "TypeError: BigInt are forbidden in JSON.stringify",
        ),
    ];
    for (code, number, message) in numbers {
        let (found_number, found_message, _) = thrown(code);
        assert_eq!(
            (found_number, found_message.as_str()),
            (number, message),
            "{code}"
        );
    }
    let text = ScriptError::Thrown {
        number: None,
        message: "Error: m".into(),
        stack: "at x".into(),
    }
    .to_string();
    assert_eq!(
        text,
        "Encountered exception while executing Javascript. Exception = Error: m\r\n\
         Stack trace: at x"
    );
}

#[test]
fn rejected_promises_without_a_handler_fail_the_procedure() {
    let pool = pool();
    for body in [
        "async function () { throw new Error(409, 'late'); }",
        "function () { Promise.reject(new Error(409, 'late')); }",
    ] {
        let error = run_on(&pool, body, "", &mut Memory::default()).unwrap_err();
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
    }
    check(
        &pool,
        r"async function () {
            try { await Promise.reject(1); } catch (e) { getContext().getResponse().setBody(e); }
        }",
        "",
        "1",
    );
    check(
        &pool,
        &main_of("Promise.reject(1).catch(() => put('handled'))"),
        "",
        r#""handled""#,
    );
}

#[test]
fn the_log_is_formatted_and_returned_only_on_request() {
    let pool = pool();
    let log = |code: &str| {
        run_on(&pool, &main_of(code), "", &mut Memory::default())
            .unwrap()
            .log
            .unwrap()
    };
    assert_eq!(
        log("console.log('The value of %s is %s.', 'a', 1)"),
        "The value of a is 1."
    );
    assert_eq!(
        log("console.log('one'); console.log({a: 1}, [2], null, undefined, true)"),
        "one\n{\"a\":1} [2] null undefined true"
    );
    assert_eq!(
        log("console.log('100%'); console.log('%d%% of %j, %x', '5', {b: 2}, 'rest')"),
        "100%\n5% of {\"b\":2}, %x rest"
    );
    assert_eq!(
        log("console.error('%s', new Error(1, 'bad'))"),
        "Error: bad"
    );
    assert_eq!(log(""), "");
    assert!(log("for (let i = 0; i < 1e4; i++) console.log('é'.repeat(100))").len() < 4096);
    assert!(log("console.log('\\ud800'.repeat(5000))").chars().count() * 9 <= 4096);
    let silent = Procedure {
        logging: false,
        ..procedure("function () { console.log('x'); }", "")
    };
    assert_eq!(
        pool.run_procedure(silent, &mut Memory::default())
            .unwrap()
            .log,
        None
    );
}

#[test]
fn the_same_call_gives_the_same_outcome_twice() {
    let pool = pool();
    let body = main_of(
        r"const text = [];
        for (let i = 0; i < 3; i++) text.push(Math.random());
        coll.createDocument(self, {}, (e, doc) => put([
            text, doc.id, Date.now(), new Date().getTime(), typeof Date(), new Date(5).getTime(),
        ]));",
    );
    let run = |seed: u64| {
        let call = Procedure {
            ambient: orrery_script::Ambient { seed, ..AMBIENT },
            ..procedure(&body, "")
        };
        pool.run_procedure(call, &mut Memory::default()).unwrap()
    };
    let (first, second, other) = (run(1), run(1), run(2));
    assert_eq!(first, second);
    assert_ne!(first.body, other.body);
    assert!(
        first
            .body
            .ends_with(r#",1700000000000,1700000000000,"string",5]"#),
        "{}",
        first.body
    );
    assert_eq!((first.host_calls, first.steps), (1, 1));
}

#[test]
fn steps_grow_with_work_and_are_the_same_in_each_run() {
    let pool = pool();
    let steps = |n: u32| {
        run_on(
            &pool,
            &main_of("for (let i = 0; i < a; i++) ;"),
            &format!("[{n}]"),
            &mut Memory::default(),
        )
        .unwrap()
        .steps
    };
    assert_eq!(steps(1), 0);
    assert_eq!(steps(100_000), steps(100_000));
    assert!((15..=25).contains(&steps(100_000)), "{}", steps(100_000));
}

#[test]
fn no_state_of_an_execution_is_visible_to_the_next() {
    let pool = pool();
    check(
        &pool,
        &main_of(
            "globalThis.left = 1; Array.prototype.left = 2; JSON.stringify = () => 'mine'; put(1)",
        ),
        "",
        "1",
    );
    check(
        &pool,
        &main_of("put([typeof left, typeof [].left, JSON.stringify(2)])"),
        "",
        r#"["undefined","undefined","2"]"#,
    );
    assert_eq!(pool.processes(), 1);
}

#[test]
fn a_script_has_no_access_to_the_system_and_no_clock() {
    let pool = pool();
    let names = [
        "require",
        "process",
        "setTimeout",
        "fetch",
        "std",
        "os",
        "performance",
        "WeakRef",
        "FinalizationRegistry",
        "SharedArrayBuffer",
        "Atomics",
    ];
    let code = format!("put({names:?}.filter(name => typeof globalThis[name] !== 'undefined'))");
    check(&pool, &main_of(&code), "", "[]");
    let error = run_on(
        &pool,
        "async function () { await import('/etc/passwd'); }",
        "",
        &mut Memory::default(),
    )
    .unwrap_err();
    assert!(matches!(error, ScriptError::Thrown { .. }), "{error:?}");
}

#[test]
fn a_script_runs_in_sloppy_mode_and_may_ask_for_strict_mode() {
    let pool = pool();
    let sloppy = main_of("undeclared = 1; with ({a: 010}) { put(a + undeclared); }");
    check(&pool, &sloppy, "", "9");
    let strict =
        main_of("(() => { 'use strict'; try { other = 1; } catch (e) { put(e.name); } })();");
    check(&pool, &strict, "", r#""ReferenceError""#);
    // A global ends with the execution.
    check(
        &pool,
        &main_of("put(typeof undeclared);"),
        "",
        r#""undefined""#,
    );
}

#[test]
fn the_echo_procedure_answers_its_first_argument() {
    check(&pool(), ECHO_PROCEDURE, r#"[{"a":[1]},2]"#, r#"{"a":[1]}"#);
}

#[test]
fn links_and_quota_reach_the_script() {
    let body = main_of("coll.readDocuments(self, (e, docs, options) => put([self, alt, options]))");
    let expected = format!(
        r#"["{}","{}",{{"currentCollectionSizeInMB":"{}","maxCollectionSizeInMB":"{}"}}]"#,
        LINKS.self_link, LINKS.alt_link, QUOTA.current, QUOTA.maximum
    );
    check(&pool(), &body, "", &expected);
}
