//! Scripts in the engine: each run is one transaction, with the service's rules for triggers and
//! user-defined functions.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json, Kind};
use orrery_storage::MemoryStore;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"]}}"#;

/// Creates a container with two items of the partition key `p` and one of `q`.
fn with_items(partitions: usize) -> (Bench, Arc<Container>) {
    let bench = Bench::new(Profile::Modern, 3);
    let container = bench.container(BODY, partitions);
    for (id, n) in [("a", 1), ("b", 2)] {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"{id}","pk":"p","n":{n}}}"#),
        );
    }
    create(&bench.engine, &container, r#"{"id":"a","pk":"q","n":100}"#);
    (bench, container)
}

/// Creates a script, or replaces it.
fn script(
    engine: &Engine,
    container: &Container,
    kind: ScriptKind,
    id: &str,
    source: &str,
    extra: &str,
) {
    let body = format!(r#"{{"id":"{id}","body":{}{extra}}}"#, Json::from(source));
    engine
        .create_script(container, kind, &object(&body), true)
        .result
        .expect("the script is created");
}

/// Creates a procedure, or replaces it, and executes it with the partition key `p`.
fn procedure(
    engine: &Engine,
    container: &Container,
    source: &str,
    arguments: &str,
) -> Outcome<ProcedureReply> {
    script(engine, container, ScriptKind::Procedure, "proc", source, "");
    let pending = engine.execute(
        container,
        Id::Name("proc"),
        &key("[\"p\"]"),
        arguments.as_bytes(),
        ExecuteOptions {
            logging: true,
            ..ExecuteOptions::default()
        },
    );
    pending.wait()
}

fn n_of(engine: &Engine, container: &Container, id: &str) -> Option<i64> {
    read(engine, container, "[\"p\"]", id)
        .ok()
        .and_then(|item| json(&item).get("n").and_then(Json::as_i64))
}

fn count(engine: &Engine, container: &Container) -> String {
    rows(
        engine,
        container,
        &Scope::Everything,
        &query("SELECT VALUE COUNT(1) FROM c"),
        &[10],
    )
    .expect("a count")
    .concat()
}

fn lsns(engine: &Engine, container: &Container) -> Vec<u64> {
    engine
        .partition_key_ranges(container)
        .expect("ranges")
        .0
        .iter()
        .map(|range| range.lsn)
        .collect()
}

/// Adds one to `a`, creates `c`, and then throws, causes a conflict or queries, as its argument
/// says.
const MOVES: &str = r#"
function moves(how) {
    var context = getContext(), collection = context.getCollection();
    var link = collection.getAltLink() + "/docs/a", self = collection.getSelfLink();
    var accepted = collection.readDocument(link, {}, function (error, item) {
        if (error) throw error;
        item.n += 1;
        var options = { etag: item._etag };
        collection.replaceDocument(item._self, item, options, function (error, replaced) {
            if (error) throw error;
            var created = { id: "c", pk: "p", n: replaced.n };
            collection.createDocument(self, created, function (error) {
                if (error) throw error;
                if (how === "throw") throw new Error("changed my mind");
                if (how === "conflict") return collection.createDocument(self, { id: "b", pk: "p" });
                collection.queryDocuments(self, "SELECT VALUE c.n FROM c ORDER BY c.n",
                    function (error, found) {
                        if (error) throw error;
                        context.getResponse().setBody(found);
                    });
            });
        });
    });
    if (!accepted) throw new Error("not accepted");
}"#;

#[test]
fn a_procedure_is_one_commit_and_reads_its_own_writes() {
    let (bench, container) = with_items(1);
    let before = lsns(&bench.engine, &container)[0];
    let outcome = procedure(&bench.engine, &container, MOVES, r#"["go"]"#);
    assert_eq!(outcome.result.expect("it succeeds").body, "[2,2,2]");
    assert_eq!(n_of(&bench.engine, &container, "a"), Some(2));
    assert_eq!(n_of(&bench.engine, &container, "c"), Some(2));
    assert_eq!(
        lsns(&bench.engine, &container)[0],
        before + 1,
        "all of it is one LSN"
    );
    assert_eq!(outcome.position.expect("a position").lsn, before + 1);
    let page = bench.engine.change_feed(
        &container,
        &Scope::Everything,
        &FeedStart::Lsn(before),
        Some(1),
        None,
    );
    assert_eq!(
        page.wait().result.expect("changes").rows.len(),
        2,
        "the items of one transaction stay together"
    );
}

#[test]
fn a_failed_procedure_leaves_no_changes() {
    for (ending, expected_message) in [("throw", "changed my mind"), ("conflict", "exists")] {
        let (bench, container) = with_items(1);
        let before = lsns(&bench.engine, &container);
        let outcome = procedure(
            &bench.engine,
            &container,
            MOVES,
            &format!(r#"["{ending}"]"#),
        );
        let error = outcome.result.expect_err("it fails");
        assert_eq!(error.status(), 400, "{error}");
        assert!(error.message().contains(expected_message), "{error}");
        assert!(
            outcome.charge.0 > 0,
            "the work before the failure is charged"
        );
        assert_eq!(n_of(&bench.engine, &container, "a"), Some(1));
        assert_eq!(n_of(&bench.engine, &container, "c"), None);
        assert_eq!(lsns(&bench.engine, &container), before);
        assert_eq!(count(&bench.engine, &container), "3");
    }
}

#[test]
fn a_procedure_stays_within_its_logical_partition() {
    let (bench, container) = with_items(1);
    let source = r#"function strays() {
        var collection = getContext().getCollection();
        collection.createDocument(collection.getSelfLink(), { id: "x", pk: "q" }, function (error) {
            if (error) throw error;
        });
    }"#;
    let error = procedure(&bench.engine, &container, source, "[]")
        .result
        .expect_err("another key");
    assert!(
        error.status() == 400 && error.message().contains("partition key"),
        "{error}"
    );
    assert_eq!(count(&bench.engine, &container), "3");
    let all = "function all() { var c = getContext().getCollection();
        c.queryDocuments(c.getSelfLink(), 'SELECT VALUE c.n FROM c', function (e, found) {
            getContext().getResponse().setBody(found); }); }";
    assert_eq!(
        procedure(&bench.engine, &container, all, "[]")
            .result
            .expect("it succeeds")
            .body,
        "[1,2]"
    );
}

#[test]
fn concurrent_writers_and_procedures_lose_no_update() {
    const EACH: usize = 12;
    let (bench, container) = with_items(1);
    let adds = r#"function adds() {
        var collection = getContext().getCollection();
        collection.readDocument(collection.getAltLink() + "/docs/a", {}, function (error, item) {
            if (error) throw error;
            item.n += 1;
            collection.replaceDocument(item._self, item, {}, function (error) {
                if (error) throw error;
            });
        });
    }"#;
    script(
        &bench.engine,
        &container,
        ScriptKind::Procedure,
        "adds",
        adds,
        "",
    );
    let (engine, container) = (&bench.engine, &*container);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let done = engine.execute(
                        container,
                        Id::Name("adds"),
                        &key("[\"p\"]"),
                        b"[]",
                        ExecuteOptions::default(),
                    );
                    done.wait().result.expect("it commits");
                }
            });
        }
        scope.spawn(|| {
            let mut done = 0;
            while done < EACH {
                let item = json(&read(engine, container, "[\"p\"]", "a").expect("the item"));
                let n = item.get("n").and_then(Json::as_i64).expect("n") + 1;
                let body = format!(r#"{{"id":"a","pk":"p","n":{n}}}"#);
                let if_match = item.get("_etag").and_then(Json::as_str).map(str::to_owned);
                let options = WriteOptions {
                    if_match,
                    ..WriteOptions::default()
                };
                match write(
                    engine,
                    container,
                    &WriteOperation::Replace("a".into()),
                    Some(&body),
                    &options,
                )
                .result
                {
                    Ok(_) => done += 1,
                    Err(error) => assert_eq!(error.kind(), Kind::PreconditionFailed),
                }
            }
        });
    });
    assert_eq!(n_of(engine, container, "a"), Some(1 + 3 * EACH as i64));
}

/// Creates an item with a pre-trigger and a post-trigger.
fn create_with_triggers(
    engine: &Engine,
    container: &Container,
    body: &str,
    pre: Option<&str>,
    post: Option<&str>,
) -> Result<String, Error> {
    let to_owned = |name: Option<&str>| name.map(str::to_owned);
    let options = WriteOptions {
        pre_trigger: to_owned(pre),
        post_trigger: to_owned(post),
        ..WriteOptions::default()
    };
    let written = write(
        engine,
        container,
        &WriteOperation::Create,
        Some(body),
        &options,
    )
    .result?;
    Ok(text(&written.item.expect("the item")))
}

/// Creates the triggers of the tests.
fn create_triggers(engine: &Engine, container: &Container) {
    let pre = |operation: &str| format!(r#","triggerType":"Pre","triggerOperation":"{operation}""#);
    let post = r#","triggerType":"Post","triggerOperation":"All""#;
    let stamps = r#"function stamps() {
        var request = getContext().getRequest(), item = request.getBody();
        if (item.n < 0) throw new Error("no negative numbers");
        item.stamped = true;
        request.setBody(item);
    }"#;
    script(
        engine,
        container,
        ScriptKind::Trigger,
        "stamps",
        stamps,
        &pre("Create"),
    );
    let moves = r#"function moves() {
        var request = getContext().getRequest(), item = request.getBody();
        item.pk = "q";
        request.setBody(item);
    }"#;
    script(
        engine,
        container,
        ScriptKind::Trigger,
        "moves",
        moves,
        &pre("All"),
    );
    script(
        engine,
        container,
        ScriptKind::Trigger,
        "late",
        "function late() {}",
        &pre("Delete"),
    );
    let counts = r#"function counts() {
        var collection = getContext().getCollection(), made = getContext().getResponse().getBody();
        collection.readDocument(collection.getAltLink() + "/docs/a", {}, function (error, item) {
            if (error) throw error;
            if (made.n > 50) throw new Error("too much");
            item.n += made.n;
            collection.replaceDocument(item._self, item, {}, function (error) {
                if (error) throw error;
            });
        });
    }"#;
    script(
        engine,
        container,
        ScriptKind::Trigger,
        "counts",
        counts,
        post,
    );
}

#[test]
fn triggers_commit_together_with_their_write() {
    let (bench, container) = with_items(2);
    let engine = &bench.engine;
    create_triggers(engine, &container);
    let before: u64 = lsns(engine, &container).iter().sum();
    let created = create_with_triggers(
        engine,
        &container,
        r#"{"id":"t","pk":"p","n":5}"#,
        Some("stamps"),
        Some("counts"),
    )
    .expect("created");
    assert_eq!(json(&created).get("stamped"), Some(&Json::Bool(true)));
    assert_eq!(
        read(engine, &container, "[\"p\"]", "t").expect("the item"),
        created
    );
    assert_eq!(n_of(engine, &container, "a"), Some(6));
    assert_eq!(lsns(engine, &container).iter().sum::<u64>(), before + 1);
}

#[test]
fn a_failed_trigger_undoes_its_write() {
    let (bench, container) = with_items(2);
    let engine = &bench.engine;
    create_triggers(engine, &container);
    let before = lsns(engine, &container);
    for (n, pre, post, expected_message) in [
        (-1, Some("stamps"), None, "no negative numbers"),
        (51, None, Some("counts"), "too much"),
        (1, Some("counts"), None, "no Pre-trigger"),
        (1, None, Some("stamps"), "no Post-trigger"),
        (1, Some("late"), None, "Delete"),
        (1, Some("missing"), None, "does not exist"),
        (1, Some("moves"), None, "Partition key"),
    ] {
        let error = create_with_triggers(
            engine,
            &container,
            &format!(r#"{{"id":"t","pk":"p","n":{n}}}"#),
            pre,
            post,
        )
        .expect_err(expected_message);
        assert_eq!(error.status(), 400, "{error}");
        assert!(
            error.message().contains(expected_message),
            "{error} does not contain {expected_message}"
        );
        assert_eq!(n_of(engine, &container, "t"), None, "{expected_message}");
        assert_eq!(n_of(engine, &container, "a"), Some(1), "{expected_message}");
        assert_eq!(lsns(engine, &container), before, "{expected_message}");
    }
}

#[test]
fn user_defined_functions_run_in_queries_and_in_queries_of_procedures() {
    let (bench, container) = with_items(2);
    let engine = &bench.engine;
    script(
        engine,
        &container,
        ScriptKind::Function,
        "twice",
        "function twice(x) { return x === undefined ? undefined : 2 * x; }",
        "",
    );
    script(
        engine,
        &container,
        ScriptKind::Function,
        "fails",
        "function fails() { throw new Error('not me'); }",
        "",
    );
    let run = |text: &str| rows(engine, &container, &Scope::Everything, &query(text), &[2]);
    let mut found =
        run("SELECT VALUE udf.twice(c.n) FROM c WHERE udf.twice(c.n) > 2").expect("rows");
    found.sort();
    assert_eq!(found, ["200", "4"]);
    let error = run("SELECT VALUE udf.fails(c.n) FROM c").expect_err("it throws");
    assert!(
        error.status() == 400 && error.message().contains("not me"),
        "{error}"
    );
    assert_eq!(
        run("SELECT VALUE udf.missing(1) FROM c")
            .expect_err("no such function")
            .status(),
        400
    );
    let within = "function within() { var c = getContext().getCollection();
        var text = 'SELECT VALUE udf.twice(c.n) FROM c';
        c.queryDocuments(c.getSelfLink(), text, function (e, found) {
            if (e) throw e; getContext().getResponse().setBody(found); }); }";
    assert_eq!(
        procedure(engine, &container, within, "[]")
            .result
            .expect("it succeeds")
            .body,
        "[2,4]"
    );
}

/// The engine reads the paths of the procedure's items before the partition's writer is open. Later
/// writes must use the same path numbers.
#[test]
fn the_first_write_of_a_partition_may_come_from_a_script() {
    let bench = Bench::new(Profile::Modern, 4);
    let container = bench.container(BODY, 1);
    let source = r#"function () {
        var items = getContext().getCollection();
        items.createDocument(items.getSelfLink(), { id: "c", pk: "p", colour: "red", size: 1 });
    }"#;
    procedure(&bench.engine, &container, source, "[]")
        .result
        .expect("the procedure runs");
    create(
        &bench.engine,
        &container,
        r#"{"size":1,"shape":"round","colour":"red","pk":"p","id":"d"}"#,
    );
    let red = query("SELECT VALUE c.id FROM c WHERE c.colour = 'red' AND c.size = 1");
    let found = rows(&bench.engine, &container, &Scope::Everything, &red, &[10])
        .expect("rows")
        .concat();
    assert_eq!(found, r#""c""d""#);
}

#[test]
fn every_container_has_the_echo_procedure() {
    let (bench, container) = with_items(1);
    let echo = bench.engine.execute(
        &container,
        Id::Name("__.sys.echo"),
        &key("[\"p\"]"),
        br#"[{"a":[1]}]"#,
        ExecuteOptions::default(),
    );
    let reply = echo.wait().result.expect("it answers");
    assert_eq!(reply.body, r#"{"a":[1]}"#);
}

#[test]
fn a_function_that_does_not_compile_fails_only_the_queries_that_name_it() {
    let (bench, container) = with_items(1);
    script(
        &bench.engine,
        &container,
        ScriptKind::Function,
        "broken",
        "function (x) { return ; } }",
        "",
    );
    script(
        &bench.engine,
        &container,
        ScriptKind::Function,
        "twice",
        "function (x) { return 2 * x; }",
        "",
    );
    let run = |text: &str| {
        rows(
            &bench.engine,
            &container,
            &Scope::Everything,
            &query(text),
            &[10],
        )
    };
    assert_eq!(
        run("SELECT VALUE udf.twice(c.n) FROM c WHERE c.id = 'b'").expect("a row"),
        ["4"]
    );
    let error = run("SELECT VALUE udf.broken(c.n) FROM c").expect_err("it does not compile");
    assert_eq!(
        (error.status(), error.sub_status()),
        (400, 65535),
        "{error}"
    );
    assert!(error.message().contains("SyntaxError"), "{error}");
    // A query that names both functions fails, because one does not compile.
    run("SELECT VALUE [udf.twice(c.n), udf.broken(c.n)] FROM c").expect_err("it does not compile");
}

#[test]
fn a_trigger_of_a_delete_reads_the_item() {
    let (bench, container) = with_items(1);
    let source = "function () { var item = getContext().getRequest().getBody(); \
        if (!item._self || item.id === 'b') throw new Error('not ' + item.n); }";
    let extra = |kind: &str| format!(r#","triggerType":"{kind}","triggerOperation":"Delete""#);
    script(
        &bench.engine,
        &container,
        ScriptKind::Trigger,
        "before",
        source,
        &extra("Pre"),
    );
    script(
        &bench.engine,
        &container,
        ScriptKind::Trigger,
        "after",
        source,
        &extra("Post"),
    );
    for (pre, post) in [(true, false), (false, true), (true, true)] {
        let options = WriteOptions {
            partition_key: Some(key("[\"p\"]")),
            pre_trigger: pre.then(|| "before".to_owned()),
            post_trigger: post.then(|| "after".to_owned()),
            ..WriteOptions::default()
        };
        let delete = |id: &str| {
            write(
                &bench.engine,
                &container,
                &WriteOperation::Delete(id.to_owned()),
                None,
                &options,
            )
            .result
        };
        let refused = delete("b").expect_err("the trigger throws");
        assert!(
            refused.status() == 400 && refused.message().contains("not 2"),
            "{refused}"
        );
        delete("a").expect("the trigger does not throw");
        assert_eq!(delete("a").expect_err("the item is deleted").status(), 404);
        create(&bench.engine, &container, r#"{"id":"a","pk":"p","n":1}"#);
    }
    assert_eq!(n_of(&bench.engine, &container, "b"), Some(2));
}

#[test]
fn an_empty_source_does_not_compile() {
    let (bench, container) = with_items(1);
    let body = object(r#"{"id":"empty","body":""}"#);
    let created = bench
        .engine
        .create_script(&container, ScriptKind::Procedure, &body, false);
    let error = created.result.expect_err("there is no function");
    assert_eq!(
        (error.status(), error.sub_status()),
        (400, 65535),
        "{error}"
    );
}

/// A post-trigger that sets the response to the ids and numbers that its queries see: all at once,
/// in a feed, and after it wrote itself.
const LOOKS: &str = r#"function looks() {
    var collection = getContext().getCollection(), self = collection.getSelfLink();
    var response = getContext().getResponse(), seen = {};
    function check(error) { if (error) throw error; }
    function query(then) {
        var text = 'SELECT VALUE CONCAT(c.id, ToString(c.n)) FROM c ORDER BY c.id';
        collection.queryDocuments(self, text, {}, function (error, rows) {
            check(error);
            then(rows.join());
        });
    }
    query(function (rows) { seen.query = rows; });
    collection.readDocuments(self, {}, function (error, items) {
        check(error);
        seen.feed = items.map(function (item) { return item.id + item.n; }).sort().join();
    });
    collection.readDocument(collection.getAltLink() + '/docs/a', {}, function (error, item) {
        seen.read = error ? error.number : item.n;
        var own = { id: 'own', pk: 'p', n: 0 };
        collection.createDocument(self, own, {}, function (error) {
            check(error);
            query(function (rows) {
                seen.own = rows;
                if (!item) return response.setBody(seen);
                item.n += 10;
                collection.replaceDocument(item._self, item, {}, function (error) {
                    check(error);
                    query(function (rows) {
                        seen.replaced = rows;
                        response.setBody(seen);
                    });
                });
            });
        });
    });
}"#;

/// Returns what the trigger [`LOOKS`] saw at a write to the item `a`.
fn seen_by_post_trigger(operation: WriteOperation, body: Option<&str>, is_new: bool) -> String {
    let (bench, container) = with_items(1);
    let engine = &bench.engine;
    let extra = r#","triggerType":"Post","triggerOperation":"All""#;
    script(
        engine,
        &container,
        ScriptKind::Trigger,
        "looks",
        LOOKS,
        extra,
    );
    let mut options = WriteOptions {
        partition_key: Some(key("[\"p\"]")),
        ..WriteOptions::default()
    };
    if is_new {
        let delete = WriteOperation::Delete("a".to_owned());
        let deleted = write(engine, &container, &delete, None, &options);
        deleted.result.expect("deleted");
    }
    options.post_trigger = Some("looks".to_owned());
    let written = write(engine, &container, &operation, body, &options);
    let written = written.result.expect("written");
    text(&written.item.expect("the body that the trigger set"))
}

#[test]
fn queries_of_a_post_trigger_see_the_items_before_the_write_and_reads_see_it() {
    let item = Some(r#"{"id":"a","pk":"p","n":7}"#);
    let created = concat!(
        r#"{"query":"b2","feed":"b2","read":7,"#,
        r#""own":"b2,own0","replaced":"a17,b2,own0"}"#
    );
    let replaced = concat!(
        r#"{"query":"a1,b2","feed":"a1,b2","read":7,"#,
        r#""own":"a1,b2,own0","replaced":"a17,b2,own0"}"#
    );
    let deleted = r#"{"query":"a1,b2","feed":"a1,b2","read":404,"own":"a1,b2,own0"}"#;
    let replace = WriteOperation::Replace("a".to_owned());
    let delete = WriteOperation::Delete("a".to_owned());
    for (operation, body, is_new, expected) in [
        (WriteOperation::Create, item, true, created),
        (WriteOperation::Upsert, item, true, created),
        (WriteOperation::Upsert, item, false, replaced),
        (replace, item, false, replaced),
        (delete, None, false, deleted),
    ] {
        let name = format!("{operation:?}");
        let seen = seen_by_post_trigger(operation, body, is_new);
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn a_post_trigger_that_counts_the_others_and_adds_one_keeps_as_many_items_as_it_says() {
    let bench = Bench::new(Profile::Modern, 3);
    let container = bench.container(BODY, 1);
    let engine = &bench.engine;
    let source = r#"function keepsFour() {
        var collection = getContext().getCollection(), self = collection.getSelfLink();
        collection.queryDocuments(self, 'SELECT VALUE COUNT(1) FROM c', function (error, counts) {
            if (error) throw error;
            var excess = counts[0] + 1 - 4;
            if (excess <= 0) return;
            var oldest = 'SELECT TOP ' + excess + ' * FROM c ORDER BY c.n';
            collection.queryDocuments(self, oldest, function (error, items) {
                if (error) throw error;
                items.forEach(function (item) {
                    collection.deleteDocument(item._self, function (error) {
                        if (error) throw error;
                    });
                });
            });
        });
    }"#;
    let extra = r#","triggerType":"Post","triggerOperation":"All""#;
    script(
        engine,
        &container,
        ScriptKind::Trigger,
        "keepsFour",
        source,
        extra,
    );
    for n in 1..=9 {
        let body = format!(r#"{{"id":"i{n}","pk":"p","n":{n}}}"#);
        create_with_triggers(engine, &container, &body, None, Some("keepsFour")).expect("created");
        assert_eq!(count(engine, &container), n.min(4).to_string());
    }
    let oldest = query("SELECT VALUE MIN(c.n) FROM c");
    let oldest = rows(engine, &container, &Scope::Everything, &oldest, &[10]);
    assert_eq!(oldest.expect("the rows"), ["6"]);
}

/// The scripts of a container that denies a script after two time-outs, and their items.
struct Denying {
    bench: Bench,
    container: Arc<Container>,
}

impl Denying {
    fn new() -> Denying {
        let world = Arc::new(SeededWorld::new(START_MS, 3));
        let mut options = options(Profile::Modern);
        options.scripts.time_ms = 400;
        options.scripts.accept_ms = 300;
        options.script_denial.timeouts = 2;
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(store, options, world.clone()).expect("the engine opens");
        let bench = Bench { engine, world };
        let container = bench.container(BODY, 1);
        create(&bench.engine, &container, r#"{"id":"a","pk":"p"}"#);
        Denying { bench, container }
    }

    /// Creates a script that never ends, or one that ends at once, or replaces the script.
    fn put(&self, kind: ScriptKind, ends: bool) {
        let source = match ends {
            true => "function () {}",
            false => "function () { for (;;); }",
        };
        let extra = match kind {
            ScriptKind::Trigger => r#","triggerType":"Pre","triggerOperation":"All""#,
            _ => "",
        };
        script(
            &self.bench.engine,
            &self.container,
            kind,
            "slow",
            source,
            extra,
        );
    }

    /// Returns the error of a request that runs the script of this kind.
    fn error(&self, kind: ScriptKind) -> Option<Error> {
        let engine = &self.bench.engine;
        match kind {
            ScriptKind::Procedure => {
                let options = ExecuteOptions::default();
                let key = key("[\"p\"]");
                let ran = engine.execute(&self.container, Id::Name("slow"), &key, b"[]", options);
                ran.wait().result.err()
            }
            ScriptKind::Trigger => {
                let options = WriteOptions {
                    partition_key: Some(key("[\"p\"]")),
                    pre_trigger: Some("slow".into()),
                    ..WriteOptions::default()
                };
                let body = Some(&br#"{"id":"b","pk":"p"}"#[..]);
                let upsert = WriteOperation::Upsert;
                let written = engine.write_item(&self.container, &upsert, body, &options);
                written.wait().result.err()
            }
            ScriptKind::Function => {
                let text = "SELECT VALUE udf.slow(c.id) FROM c";
                rows(
                    engine,
                    &self.container,
                    &Scope::Everything,
                    &query(text),
                    &[2],
                )
                .err()
            }
        }
    }

    /// Returns the status of the error of a request that runs the script, 0 if it succeeds.
    fn status(&self, kind: ScriptKind) -> u16 {
        self.error(kind).map_or(0, |error| error.status())
    }
}

#[test]
fn a_script_that_times_out_again_and_again_is_403_until_it_is_replaced() {
    let denying = Denying::new();
    for kind in ScriptKind::ALL {
        denying.put(kind, false);
        for expected in [408, 408, 403, 403] {
            assert_eq!(denying.status(kind), expected, "{kind:?}");
        }
        // A busy machine may use up the time of the new script, which is not denied for that.
        denying.put(kind, true);
        let status = denying.status(kind);
        assert!(matches!(status, 0 | 408), "{kind:?}: {status}");
    }
}

#[test]
fn time_outs_that_are_minutes_apart_deny_no_script() {
    let denying = Denying::new();
    denying.put(ScriptKind::Procedure, false);
    for _ in 0..3 {
        assert_eq!(denying.status(ScriptKind::Procedure), 408);
        denying.bench.world.advance_ms(120_000);
    }
}

#[test]
fn a_script_that_is_deleted_and_created_again_is_not_denied() {
    let denying = Denying::new();
    denying.put(ScriptKind::Procedure, false);
    for expected in [408, 408, 403] {
        assert_eq!(denying.status(ScriptKind::Procedure), expected);
    }
    let deleted = denying.bench.engine.delete_script(
        &denying.container,
        ScriptKind::Procedure,
        Id::Name("slow"),
        None,
    );
    deleted.result.expect("the script is deleted");
    denying.put(ScriptKind::Procedure, false);
    assert_eq!(denying.status(ScriptKind::Procedure), 408);
}
