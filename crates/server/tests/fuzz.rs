//! Requests that a grammar makes up, over the wire: every path, every method, every header of the server's own tables,
//! bodies of every kind, and all of that damaged. Whatever comes, the answer is one that the service could give.
//!
//! `ORRERY_FUZZ_REQUESTS` says how many (a million for a night), `ORRERY_FUZZ_SEED` where the random numbers begin:
//!
//! ```text
//! ORRERY_FUZZ_REQUESTS=1000000 ORRERY_FUZZ_SEED=7 cargo test -p orrery-server --test fuzz -- --nocapture
//! ```
//!
//! Promised of each answer: it comes; its status and sub-status stand in the table of errors; an error has the
//! service's JSON body, without a word of our code in it; an empty answer is empty; a charge and an activity id are
//! there; and at the end the server lives and nothing in it has panicked.

#[path = "fuzz/answers.rs"]
mod answers;
#[path = "fuzz/grammar.rs"]
mod grammar;
mod program;
#[path = "fuzz/values.rs"]
mod values;

use answers::{Connection, complaint};
use grammar::{Grammar, Known};
use std::collections::BTreeMap;
use std::sync::Mutex;
use values::Dice;

/// So many connections at once, each with random numbers of its own.
const CONNECTIONS: u64 = 4;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn whatever_is_asked_the_answer_is_one_of_the_service() {
    let requests = setting("ORRERY_FUZZ_REQUESTS", 4_000);
    let seed = setting("ORRERY_FUZZ_SEED", 1);
    let server = program::start(&["--memory", "--log-level", "warn"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"d0"}"#);
    client.create(
        "/dbs/d0/colls",
        r#"{"id":"c0","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
    );
    let known = Mutex::new(Known::default());
    let statuses = Mutex::new(BTreeMap::<u16, u64>::new());
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (server, known, statuses) = (&server, &known, &statuses);
            scope.spawn(move || {
                let mut grammar = Grammar::new(
                    Dice::new(seed * CONNECTIONS + connection),
                    &server.address,
                    &server.key,
                );
                let mut wire = Connection::open(server);
                for _ in 0..requests / CONNECTIONS {
                    let request = grammar.request(&known.lock().expect("no thread failed"));
                    let answer = wire.send(server, &request);
                    if let Some(complaint) = complaint(&request, &answer) {
                        panic!(
                            "{complaint}\nseed {seed}, connection {connection}\n{request}\n{}",
                            answer.text()
                        );
                    }
                    *statuses
                        .lock()
                        .expect("no thread failed")
                        .entry(answer.status)
                        .or_default() += 1;
                    known.lock().expect("no thread failed").learn(&answer);
                }
            });
        }
    });
    let told = server.stop();
    assert_eq!(told.code, Some(0), "{}", told.told);
    assert!(!told.told.contains("panicked"), "{}", told.told);
    let statuses = statuses.into_inner().expect("no thread failed");
    eprintln!("{requests} requests: {statuses:?}");
    // A grammar that only ever meets refusals would prove little.
    let met: &[u16] = if requests < 100_000 {
        &[200, 201, 204, 400, 401, 404, 405, 409]
    } else {
        &[304, 403, 410, 412]
    };
    for status in met {
        assert!(
            statuses.contains_key(status),
            "no {status} among {statuses:?}"
        );
    }
}
