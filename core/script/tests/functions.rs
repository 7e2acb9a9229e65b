//! User-defined functions: values in and out, batches, failures.

use crate::memory::{AMBIENT, options, pool};
use orrery_script::{PoolOptions, ScriptError, ScriptPool};

fn sources(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(name, source)| ((*name).into(), (*source).into()))
        .collect()
}

fn json(text: &str) -> Option<String> {
    Some(text.into())
}

#[test]
fn values_go_in_and_come_out_as_json() {
    let pool = pool();
    let list = sources(&[
        ("id", "function (x) { return x; }"),
        (
            "tax",
            r"function tax(income) {
                if (income === undefined) throw new Error(444, 'no income');
                return income * 0.5;
            }",
        ),
        ("count", "function () { return arguments.length; }"),
        ("isUndefined", "x => x === undefined"),
    ]);
    let mut session = pool.functions(&list, AMBIENT).unwrap();
    for text in [
        "null",
        "1.5",
        "\"é\\u0000\"",
        r#"{"a":[1,{"b":null}]}"#,
        "true",
    ] {
        assert_eq!(session.call("id", &[json(text)]).unwrap(), json(text));
    }
    assert_eq!(session.call("id", &[]).unwrap(), None);
    assert_eq!(session.call("id", &[None]).unwrap(), None);
    assert_eq!(session.call("isUndefined", &[None]).unwrap(), json("true"));
    assert_eq!(session.call("tax", &[json("100")]).unwrap(), json("50"));
    assert_eq!(
        session
            .call("count", &[json("1"), None, json("2")])
            .unwrap(),
        json("3")
    );
    let error = session.call("tax", &[]).unwrap_err();
    assert!(
        matches!(
            &error,
            ScriptError::Thrown { number: Some(444), message, .. } if message == "Error: no income"
        ),
        "{error:?}"
    );
    assert_eq!(session.call("tax", &[json("2")]).unwrap(), json("1"));
    assert_eq!(
        session.call("nothing", &[]),
        Err(ScriptError::UnknownFunction("nothing".into()))
    );
}

#[test]
fn functions_run_in_sloppy_mode_and_their_globals_end_with_the_row() {
    let pool = pool();
    let list = sources(&[
        (
            "seen",
            "function (n) { var before = typeof x; x = n; return before + x; }",
        ),
        ("octal", "function () { with ({ a: 010 }) { return a; } }"),
        ("strict", "function () { 'use strict'; y = 1; }"),
        (
            "throws",
            "function () { z = 1; throw new Error(typeof z); }",
        ),
    ]);
    let mut session = pool.functions(&list, AMBIENT).unwrap();
    let rows = vec![vec![json("1")], vec![json("2")]];
    let expected = [json("\"undefined1\""), json("\"undefined2\"")];
    assert_eq!(session.call_batch("seen", rows).unwrap(), expected);
    assert_eq!(session.call("octal", &[]).unwrap(), json("8"));
    let refused = session.call("strict", &[]).unwrap_err();
    assert!(
        format!("{refused:?}").contains("ReferenceError"),
        "{refused:?}"
    );
    for _ in 0..2 {
        let thrown = session.call("throws", &[]).unwrap_err();
        assert!(format!("{thrown:?}").contains("number"), "{thrown:?}");
    }
    assert_eq!(
        session.call("seen", &[json("3")]).unwrap(),
        json("\"undefined3\"")
    );
}

#[test]
fn a_batch_answers_row_by_row_over_several_frames() {
    let pool = pool();
    let mut session = pool
        .functions(
            &sources(&[("double", "function (n, pad) { return n * 2; }")]),
            AMBIENT,
        )
        .unwrap();
    let pad = json(&format!("\"{}\"", "x".repeat(20_000)));
    let rows = (0..100)
        .map(|n| vec![json(&n.to_string()), pad.clone()])
        .collect();
    let expected: Vec<_> = (0..100).map(|n| json(&(n * 2).to_string())).collect();
    assert_eq!(session.call_batch("double", rows).unwrap(), expected);
    assert_eq!(
        session.call_batch("double", Vec::new()).unwrap(),
        Vec::new()
    );
}

#[test]
fn a_source_that_does_not_compile_fails_the_session() {
    let error = pool()
        .functions(&sources(&[("bad", "function (")]), AMBIENT)
        .unwrap_err();
    assert!(matches!(error, ScriptError::Compile { .. }), "{error:?}");
}

#[test]
fn functions_have_no_context_and_sessions_share_no_state() {
    let pool = pool();
    let list = sources(&[(
        "look",
        r"function () {
            globalThis.n = (globalThis.n || 0) + 1;
            return [typeof getContext, typeof __, n];
        }",
    )]);
    for _ in 0..2 {
        let mut session = pool.functions(&list, AMBIENT).unwrap();
        assert_eq!(
            session.call("look", &[]).unwrap(),
            json(r#"["undefined","undefined",1]"#)
        );
    }
    assert_eq!(pool.processes(), 1);
}

#[test]
fn a_function_that_does_not_end_times_out_and_ends_its_session() {
    let pool = ScriptPool::new(PoolOptions {
        time_ms: 200,
        ..options()
    });
    let list = sources(&[
        ("spin", "function () { for (;;) ; }"),
        ("one", "function () { return 1; }"),
    ]);
    let mut session = pool.functions(&list, AMBIENT).unwrap();
    assert_eq!(session.call("spin", &[]), Err(ScriptError::TimedOut));
    assert_eq!(session.call("one", &[]), Err(ScriptError::TimedOut));
    drop(session);
    assert_eq!(
        pool.functions(&list, AMBIENT)
            .unwrap()
            .call("one", &[])
            .unwrap(),
        json("1")
    );
}

#[test]
fn results_beyond_a_frame_are_refused() {
    let pool = ScriptPool::new(PoolOptions {
        memory_bytes: 256 * 1024 * 1024,
        // A busy machine takes long for a text of that size.
        time_ms: 60_000,
        accept_ms: 30_000,
        ..options()
    });
    let list = sources(&[
        ("big", "function () { return 'x'.repeat(40000000); }"),
        ("one", "() => 1"),
    ]);
    let mut session = pool.functions(&list, AMBIENT).unwrap();
    assert!(matches!(
        session.call("big", &[]),
        Err(ScriptError::TooLarge(_))
    ));
    assert_eq!(session.call("one", &[]).unwrap(), json("1"));
}
