//! Golden request scripts: requests as a person writes them, each with the status, the usual
//! headers and the whole body of its answer.
//!
//! A file of `requests/` has one subject. Empty lines divide its blocks; `#` begins a comment.
//! `ORRERY_BLESS=1` rewrites the answers: read the difference before it is committed.
//!
//! ```text
//! # The subject.
//!
//! given POST /dbs                    a request that must succeed and shows no answer; those
//! {"id":"${db}"}                     before the first fact run before each fact
//!
//! == A stale etag is 412             a fact, on a database of its own, whose name is `${db}`
//!
//! PUT /dbs/${db}/colls/posts/docs/1  the request: method and path,
//! key: ["p1"]                        its headers, and the words below,
//! if-match: "stale"
//! {"id":"1","postId":"p1"}           and the body up to the end of the block or `---`
//! ---
//! 412                                the answer: status, and sub-status if there is one,
//! x-ms-request-charge: 1.24          the usual headers,
//! {"code":"PreconditionFailed",…}    and the body
//! ```
//!
//! `manage PUT /clock` is a request to the management API; it has a body and no headers.
//!
//! Words before the first request, of the file for all facts or of a fact:
//!
//! ```text
//! server: own                        no other fact uses the server
//! options: --cross-partition-queries refuse
//! show: x-ms-resource-usage          every answer shows this header
//! let items = /dbs/${db}/colls/posts/docs    a name for a text; `x times 2000` repeats it
//! ```
//!
//! Words of a request:
//!
//! ```text
//! key: ["p1"]                        the header with the partition key
//! query: SELECT * FROM c             a query over all partitions; the body adds members
//! merge: ${offer}                    the body is a merge patch (RFC 7396) to this JSON
//! body: text                         a body that does not begin with `{`, `[`, `"` or `$`
//! sign: rid                          signed as the resource id with which the path ends
//! sign: none | key KEY | token TOKEN without a signature, by another key, a resource token
//! raw x-unknown: 1                   a header that the server does not know; `1 times 150`;
//!                                    `raw host: NAME` stands in place of the usual host
//! show: etag, x-a as percent, x-b as base64, all
//! hide: x-ms-session-token           a usual header that background work changes at any time
//! keep made = body.content.value     gives a name to a part of the answer, or header.etag;
//!                                    later requests use it: ${made}, ${made.member.0},
//!                                    ${made:percent} with percent signs
//! each n: 1 | 2 | x                  a request for each value, also `each n: 0 to 19`; values in
//!                                    a row whose answers are equal share one
//! pages: all                         follows the continuations to the last page
//! until x-ms-offer-replace-pending: false    repeats the request until the header is so
//! ```
//!
//! Promises: everything that is shown is compared whole. Values that differ from run to run are
//! placeholders, such as `<etag 1>`, equal for equal values of one fact. A header that is asked for
//! and absent is `(none)`. A new item is sent with the header of its partition key, as SDKs do,
//! unless the request names a key.
//!
//! Leaves out: facts about requests at the same time, about restarts, and about many generated
//! requests, which are tests in Rust.

mod difference;
mod names;
mod running;
mod script;
mod script_tests;
mod shown;
mod stable;

use difference::difference;
use std::fs;
use std::path::{Path, PathBuf};

/// Defines a test for each script.
macro_rules! scripts {
    ($($name:ident,)*) => {
        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

scripts! {
    access,
    answers,
    change_feeds,
    clock,
    cors,
    definitions,
    denied_scripts,
    encryption_keys,
    hashed_keys,
    hosts,
    offers,
    old_versions,
    permissions,
    previous_images,
    query_headers,
    ranges,
    resource_tokens,
    snapshots,
    statistics,
    system_properties,
    throughput,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requests")
}

/// Returns the path of a script as messages name it.
fn file_of(name: &str) -> String {
    format!("program/cli/tests/requests/{name}.txt")
}

/// Runs a script and compares its answers, or rewrites them with `ORRERY_BLESS`.
fn check(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).expect("the script can be read");
    let answered = replay(name, &text).unwrap_or_else(|message| panic!("{message}"));
    if std::env::var_os("ORRERY_BLESS").is_some() {
        fs::write(&path, answered).expect("the script can be written");
    } else if let Some(message) = complaint(name, &text, &answered) {
        panic!("{message}");
    }
}

/// Returns a script with the answers of the server.
fn replay(name: &str, text: &str) -> Result<String, String> {
    let file = file_of(name);
    let script = script::parse(&file, text)?;
    running::replay(&file, &script)
}

/// Returns the lines in which a script and its answers differ, and the remedy.
fn complaint(name: &str, text: &str, answered: &str) -> Option<String> {
    let lines = difference(&file_of(name), text, answered)?;
    Some(format!(
        "the answers (+) are not those of the script (-):\n{lines}\
         If the new answers are right, `ORRERY_BLESS=1 cargo test -p orrery-cli --test cli \
         requests::{name}` writes them."
    ))
}

#[test]
fn every_script_has_a_test() {
    for entry in fs::read_dir(folder()).expect("the folder of the scripts") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("UTF-8");
        if let Some(subject) = name.strip_suffix(".txt") {
            let is_known = SCRIPTS.contains(&subject);
            assert!(is_known, "name `{subject}` in `scripts!` of requests.rs");
        }
    }
}

const PLANTED: &str = "\
given POST /dbs
{\"id\":\"${db}\"}

== The account is read

GET /
show: content-type
---
200
x-ms-request-charge: 0
content-type: application/json
{}

== A container that does not exist is 404

GET /dbs/${db}/colls/none
---
404
";

#[test]
fn a_wrong_answer_fails_with_its_line_and_the_remedy() {
    let answered = replay("planted", PLANTED).expect("the script runs");
    assert_eq!(complaint("planted", &answered, &answered), None);

    let wrong = answered.replace("content-type: application/json", "content-type: text/plain");
    let message = complaint("planted", &wrong, &answered).expect("a difference");
    for part in [
        "program/cli/tests/requests/planted.txt:9\n",
        "  - content-type: text/plain\n  + content-type: application/json\n",
        "ORRERY_BLESS=1",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // The answers are the server's, and not those of the script.
    assert_eq!(replay("planted", &wrong).as_deref(), Ok(answered.as_str()));
    assert!(answered.contains("== A container that does not exist is 404\n"));
    assert!(complaint("planted", PLANTED, &answered).is_some());
}

#[test]
fn a_given_request_that_fails_ends_the_script() {
    let text = "== A\n\ngiven GET /dbs/${db}\n";
    let message = replay("planted", text).expect_err("it fails");
    let start = "program/cli/tests/requests/planted.txt:3: the given request fails: 404";
    assert!(message.starts_with(start), "{message}");
}

#[test]
fn requests_that_see_other_facts_need_a_server_of_their_own() {
    for request in [
        "GET /offers",
        "POST /dbs\nquery: SELECT * FROM c",
        "manage GET /clock",
    ] {
        let text = format!("== A\n\n{request}\n");
        let message = replay("planted", &text).expect_err("it fails");
        assert!(message.contains("planted.txt:3: "), "{message}");
        assert!(message.contains("`server: own`"), "{message}");
        let own = format!("server: own\n\n{text}");
        assert!(replay("planted", &own).is_ok(), "{request}");
    }
}

#[test]
fn an_option_that_the_server_does_not_know_is_refused_by_name() {
    let text = "options: --wheels 4\n\n== A\n\nGET /\n";
    let message = replay("planted", text).expect_err("it fails");
    assert!(message.contains("requests/planted.txt:3: "), "{message}");
    assert!(message.contains("--wheels"), "{message}");
}
