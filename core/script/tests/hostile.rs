//! Hostile scripts: each ends with a clear error within its bounds, and the next call works.

use crate::memory::{AMBIENT, Memory, check, main_of, options, pool, procedure, run_on};
use orrery_script::{
    Host, HostCall, HostCommand, HostFailure, HostReply, PoolOptions, ScriptError, ScriptPool,
};
use orrery_test_wait::{wait_for, wait_until};

/// Time that ends the scripts of a test soon.
const SHORT_MS: u64 = 300;
/// Time in which a busy machine, too, starts a process and runs a script.
const LONG_MS: u64 = 60_000;

fn strict_pool(time_ms: u64) -> ScriptPool {
    ScriptPool::new(PoolOptions {
        time_ms,
        accept_ms: time_ms / 2,
        grace_ms: SHORT_MS,
        memory_bytes: 24 * 1024 * 1024,
        stack_bytes: 256 * 1024,
        ..options()
    })
}

/// Runs each script, which must fail with an expected error; without its bounds it would not end. A
/// well-behaved script must run after it.
fn each_fails(time_ms: u64, scripts: &[&str], expected: impl Fn(&ScriptError) -> bool) {
    let pool = strict_pool(time_ms);
    for script in scripts {
        match run_on(&pool, &main_of(script), "", &mut Memory::default()) {
            Err(error) => assert!(expected(&error), "{script}: {error:?}"),
            Ok(outcome) => panic!("{script}: ended with {}", outcome.body),
        }
        // On a busy machine a process may start too late for the short time.
        let well = main_of("put('well')");
        let outcome = wait_until("a script that runs", || {
            run_on(&pool, &well, "", &mut Memory::default())
        });
        assert_eq!(outcome.body, r#""well""#);
    }
}

#[test]
fn endless_work_times_out() {
    each_fails(
        SHORT_MS,
        &[
            "for (;;) ;",
            "try { for (;;) ; } catch (e) { put(1); } finally { for (;;) ; }",
            "(function loop() { Promise.resolve().then(loop); })()",
            r"const storm = () => { for (let i = 0; i < 100; i++) Promise.resolve().then(storm); };
            storm();",
            "(async () => { for (;;) await null; })()",
            "/(a+)+$/.test('a'.repeat(40) + 'b')",
            "'x'.repeat(1 << 20).replace(/(x+x+)+y/, '')",
            "let big = 3n; for (;;) big = big * 3n % (2n ** 512n);",
            "function* all() { for (;;) yield 1; } for (const one of all()) ;",
            "new Proxy({}, { get() { for (;;) ; } }).x",
            "throw { get number() { for (;;) ; } }",
            "JSON.stringify({ toJSON() { for (;;) ; } })",
            "[3, 1, 2].sort(() => { for (;;) ; })",
        ],
        |error| matches!(error, ScriptError::TimedOut | ScriptError::OutOfMemory),
    );
}

#[test]
fn hangs_inside_builtins_are_killed() {
    each_fails(
        SHORT_MS,
        &[
            "new Array(4294967295).join()",
            "const sparse = []; sparse[4294967290] = 1; sparse.reverse()",
            "const sparse = []; sparse[4294967290] = 1; sparse.sort()",
            "Array.prototype.shift.call({ length: 2 ** 53 - 1 })",
            "Array.prototype.splice.call({ length: 2 ** 53 - 1 }, 0, 1)",
            "Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 1, 0)",
            "String.raw({ raw: { length: 2 ** 53 - 1 } })",
            "('a'.repeat(2 ** 21) + 'b').indexOf('a'.repeat(2 ** 20) + 'c')",
            "let n = (1n << 1000000n) - 1n, d = (1n << 500000n) + 1n; for (;;) n / d;",
        ],
        |error| matches!(error, ScriptError::TimedOut | ScriptError::OutOfMemory),
    );
}

#[test]
fn excessive_memory_is_refused() {
    each_fails(
        SHORT_MS,
        &[
            "const all = []; for (;;) all.push(new Array(10000).fill(all));",
            "let text = 'x'; for (;;) text += text;",
            "const map = new Map(); for (let i = 0; ; i++) map.set(i, 'x'.repeat(1000) + i);",
            "new Uint8Array(1 << 30)",
            "new Array(50000000).fill(1)",
            "JSON.parse('[' + '1,'.repeat(5000000) + '1]')",
        ],
        |error| {
            matches!(
                error,
                ScriptError::OutOfMemory | ScriptError::TimedOut | ScriptError::Thrown { .. }
            )
        },
    );
}

#[test]
fn running_out_of_memory_has_an_error_of_its_own() {
    let error = run_on(
        &strict_pool(LONG_MS),
        &main_of("new Uint8Array(1 << 30)"),
        "",
        &mut Memory::default(),
    )
    .unwrap_err();
    assert_eq!(error, ScriptError::OutOfMemory);
    let caught = main_of("try { new Uint8Array(1 << 30); } catch (e) { put(e.message); }");
    check(&strict_pool(LONG_MS), &caught, "", r#""out of memory""#);
}

#[test]
fn endless_recursion_is_refused() {
    each_fails(
        LONG_MS,
        &[
            "(function down() { down(); })()",
            "const o = {}; Object.defineProperty(o, 'x', { get() { return this.x; } }); o.x",
            "let nested = []; for (let i = 0; i < 100000; i++) nested = [nested]; put(nested)",
            "JSON.parse('['.repeat(100000) + ']'.repeat(100000))",
            "class A { constructor() { new A(); } } new A()",
            "let p = {}; for (let i = 0; i < 20000; i++) p = new Proxy(p, {}); p.x",
        ],
        |error| matches!(error, ScriptError::TooDeep),
    );
    let source = format!(
        "function () {{ return {}1{}; }}",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    let error = run_on(&strict_pool(LONG_MS), &source, "", &mut Memory::default()).unwrap_err();
    assert!(
        matches!(error, ScriptError::Compile { .. } | ScriptError::TooDeep),
        "{error:?}"
    );
    let arguments = "[".repeat(100_000) + &"]".repeat(100_000);
    let error = run_on(
        &strict_pool(LONG_MS),
        "function () {}",
        &arguments,
        &mut Memory::default(),
    )
    .unwrap_err();
    assert!(matches!(error, ScriptError::BadArguments(_)), "{error:?}");
}

#[test]
fn a_stack_overflow_can_be_caught() {
    let code =
        "function down() { down(); } try { down(); } catch (e) { put(e instanceof RangeError); }";
    check(&strict_pool(LONG_MS), &main_of(code), "", "true");
}

#[test]
fn a_hang_ends_its_process_and_no_other() {
    // Long enough for a busy machine to start two processes.
    let pool = strict_pool(3_000);
    let error = run_on(
        &pool,
        &main_of("new Array(4294967295).join()"),
        "",
        &mut Memory::default(),
    )
    .unwrap_err();
    assert_eq!((error, pool.processes()), (ScriptError::TimedOut, 0));
    let mut session = pool
        .functions(&[("one".into(), "() => 1".into())], AMBIENT)
        .unwrap();
    check(&pool, &main_of("put(1)"), "", "1");
    assert_eq!(session.call("one", &[]).unwrap().as_deref(), Some("1"));
    assert_eq!(pool.processes(), 2);
}

#[test]
fn the_parent_survives_programs_that_are_no_script_hosts() {
    for (program, arguments) in [
        ("/bin/true", vec![]),
        ("/bin/echo", vec!["hello, these are no frames"]),
        ("/bin/cat", vec![]),
    ] {
        let command = HostCommand {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        };
        let pool = ScriptPool::new(PoolOptions {
            command,
            ..options()
        });
        let error = run_on(&pool, "function () {}", "", &mut Memory::default()).unwrap_err();
        assert!(
            matches!(error, ScriptError::HostDied(_)),
            "{program}: {error:?}"
        );
        assert_eq!(pool.processes(), 0);
    }
    let silent = HostCommand {
        program: "/bin/sleep".into(),
        arguments: vec!["60".into()],
    };
    let pool = ScriptPool::new(PoolOptions {
        command: silent,
        time_ms: 100,
        grace_ms: 50,
        ..options()
    });
    let long = " ".repeat(1 << 20);
    assert_eq!(
        run_on(&pool, &long, "", &mut Memory::default()).unwrap_err(),
        ScriptError::TimedOut
    );
    let missing = HostCommand {
        program: "/nowhere/host".into(),
        arguments: Vec::new(),
    };
    let pool = ScriptPool::new(PoolOptions {
        command: missing,
        ..options()
    });
    let error = run_on(&pool, "function () {}", "", &mut Memory::default()).unwrap_err();
    assert!(matches!(error, ScriptError::HostNotStarted(_)), "{error:?}");
}

/// A host that runs functions and another script on the same pool while the first script waits.
struct Nested<'a> {
    pool: &'a ScriptPool,
    answer: Option<Result<Option<String>, ScriptError>>,
    busy: Option<ScriptError>,
}

impl Host for Nested<'_> {
    fn call(&mut self, _: HostCall) -> Result<HostReply, HostFailure> {
        let sources = [("one".to_string(), "() => 1".to_string())];
        self.answer = Some(
            self.pool
                .functions(&sources, AMBIENT)
                .and_then(|mut session| session.call("one", &[])),
        );
        self.busy = self
            .pool
            .run_procedure(procedure("function () {}", ""), &mut Memory::default())
            .err();
        Ok(HostReply::default())
    }
}

#[test]
fn functions_run_while_a_procedure_waits_and_a_full_pool_is_busy() {
    // Long enough for a busy machine to start two processes.
    let pool = ScriptPool::new(PoolOptions {
        time_ms: 3_000,
        grace_ms: 50,
        ..options()
    });
    let mut host = Nested {
        pool: &pool,
        answer: None,
        busy: None,
    };
    let body = main_of("coll.readDocuments(self)");
    // The nested procedure waits for a process for the whole budget, so the outer call times out
    // as well.
    assert_eq!(
        pool.run_procedure(procedure(&body, ""), &mut host)
            .unwrap_err(),
        ScriptError::TimedOut
    );
    assert_eq!(host.answer, Some(Ok(Some("1".into()))));
    assert_eq!(host.busy, Some(ScriptError::Busy));
}

/// A host whose answer is larger than a frame.
struct OversizedAnswer;

impl Host for OversizedAnswer {
    fn call(&mut self, _: HostCall) -> Result<HostReply, HostFailure> {
        Ok(HostReply {
            items: vec![format!("\"{}\"", "x".repeat(40_000_000))],
            ..HostReply::default()
        })
    }
}

#[test]
fn a_script_gets_413_for_an_answer_larger_than_a_frame() {
    let body = main_of("coll.readDocuments(self, (e) => put(e.number))");
    assert_eq!(
        pool()
            .run_procedure(procedure(&body, ""), &mut OversizedAnswer)
            .unwrap()
            .body,
        "413"
    );
}

#[test]
fn a_script_gets_413_for_an_operation_larger_than_a_frame() {
    let pool = ScriptPool::new(PoolOptions {
        memory_bytes: 512 * 1024 * 1024,
        time_ms: LONG_MS,
        accept_ms: LONG_MS / 2,
        ..options()
    });
    let body = main_of(
        "coll.createDocument(self, {id: 'a', text: 'x'.repeat(40000000)}, (e) => put(e.number))",
    );
    check(&pool, &body, "", "413");
    check(&pool, &main_of("put(1)"), "", "1");
}

#[test]
fn a_process_that_died_while_idle_is_replaced_without_an_error() {
    let pid_file = concat!(env!("CARGO_TARGET_TMPDIR"), "/idle-script-host-pid");
    let script = format!(
        "echo $$ > '{pid_file}'; exec '{}'",
        env!("CARGO_BIN_EXE_orrery-script-host")
    );
    let command = HostCommand {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
    };
    let pool = ScriptPool::new(PoolOptions {
        command,
        ..options()
    });
    let mut pids = Vec::new();
    for _ in 0..3 {
        check(&pool, &main_of("put(1)"), "", "1");
        let pid = std::fs::read_to_string(pid_file).unwrap();
        let killed = std::process::Command::new("/bin/sh")
            .arg("-c")
            .arg(format!("kill -9 {pid}"))
            .status()
            .unwrap();
        assert!(killed.success());
        pids.push(pid);
    }
    assert_eq!(pool.processes(), 1);
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[test]
fn a_request_that_is_ended_loses_its_process_at_once() {
    let pool = pool();
    let ticket = orrery_script::Ticket::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut host = Memory::default();
            ticket.run(|| run_on(&pool, &main_of("for (;;);"), "", &mut host))
        });
        wait_for(
            "a process of the script",
            || pool.processes(),
            |count| *count > 0,
        );
        ticket.lower();
        ticket.end();
        let error = running.join().expect("it ends").expect_err("it was ended");
        assert_eq!(error, ScriptError::Evicted);
    });
    assert_eq!(pool.processes(), 0, "the process is not used again");
}
