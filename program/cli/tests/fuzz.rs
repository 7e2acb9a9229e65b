//! Random requests from a grammar, sent over the wire: every path, method and header of the
//! server's own tables, bodies of every kind, and damaged forms of all of these.
//!
//! `ORRERY_FUZZ_REQUESTS` sets the number of requests, `ORRERY_FUZZ_SEED` the seed:
//!
//! ```text
//! ORRERY_FUZZ_REQUESTS=1000000 ORRERY_FUZZ_SEED=7 \
//!     cargo test -p orrery-cli --test cli fuzz:: -- --nocapture
//! ```
//!
//! Every request gets a response. Its status and sub-status are in the table of errors; an error
//! has the service's JSON body and reveals nothing of the code; a response without content has no
//! body; every response has a charge and an activity id. At the end the server is running and
//! nothing in it has panicked.

mod answers;
mod grammar;
mod values;

use crate::program;
use answers::{Connection, defect};
use grammar::{Grammar, SeenValues};
use std::collections::BTreeMap;
use std::sync::Mutex;
use values::RandomSource;

/// Number of concurrent connections, each with its own random numbers.
const CONNECTIONS: u64 = 4;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn every_response_to_a_random_request_is_valid() {
    let requests = setting("ORRERY_FUZZ_REQUESTS", 4_000);
    let seed = setting("ORRERY_FUZZ_SEED", 1);
    let server = program::start(&["--memory", "--log-level", "warn"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"d0"}"#);
    client.create(
        "/dbs/d0/colls",
        r#"{"id":"c0","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
    );
    let seen = Mutex::new(SeenValues::default());
    let statuses = Mutex::new(BTreeMap::<u16, u64>::new());
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (server, seen, statuses) = (&server, &seen, &statuses);
            scope.spawn(move || {
                let mut grammar = Grammar::new(
                    RandomSource::new(seed * CONNECTIONS + connection),
                    &server.address,
                    &server.key,
                );
                let mut wire = Connection::open(server);
                for _ in 0..requests / CONNECTIONS {
                    let request = grammar.request(&seen.lock().expect("no thread failed"));
                    let answer = wire.send(server, &request);
                    if let Some(defect) = defect(&request, &answer) {
                        panic!(
                            "{defect}\nseed {seed}, connection {connection}\n{request}\n{}",
                            answer.text()
                        );
                    }
                    *statuses
                        .lock()
                        .expect("no thread failed")
                        .entry(answer.status)
                        .or_default() += 1;
                    seen.lock().expect("no thread failed").collect_from(&answer);
                }
            });
        }
    });
    let exit = server.stop();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert!(!exit.stderr.contains("panicked"), "{}", exit.stderr);
    let statuses = statuses.into_inner().expect("no thread failed");
    eprintln!("{requests} requests: {statuses:?}");
    // A grammar whose requests are all refused would prove little.
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
