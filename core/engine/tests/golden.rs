//! Golden request scripts: requests with their answers and charges.
//!
//! A file in `golden/` holds comments (`#`), requests (`> …`) and below each request its answer.
//! Each file runs on two new engines, one for each pricing profile. A charge is printed once if
//! both profiles agree, otherwise as `modern | y2019`. Bodies are printed without the properties
//! that the server adds. `ORRERY_BLESS=1 cargo test` rewrites the answers; review the difference
//! before you commit it.
//!
//! ```text
//! > database NAME [ru=N | max=N]                     > container NAME {body} [ru=N | max=N]
//! > replace-container NAME {body}                    > delete-container NAME
//! > delete-database NAME
//! > ranges NAME                                      > offers
//! > create|upsert NAME {item}                        > replace NAME id {item} [if-match=TAG]
//! > big NAME id BYTES
//! > read|delete NAME [key] id [if-match=TAG]         > changes NAME after=LSN
//! > query NAME sql                                   > metrics NAME sql
//! > plan NAME sql                                    > reindex [ITEMS]
//! > wait SECONDS                                     > procedure NAME id source
//! > execute NAME [key] id [arguments]
//! ```
//!
//! `if-match=now` stands for the item's current etag.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Feed, Profile};
use orrery_model::{Error, Json};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The text of an answer, and its charge.
type Answer = (String, Option<Charge>);

fn failure(error: &Error) -> String {
    format!(
        "{}/{} {}",
        error.status(),
        error.sub_status(),
        error.message()
    )
}

fn answer<T>(outcome: Outcome<T>, show: impl FnOnce(T) -> String) -> Answer {
    let answer_text = outcome.result.map_or_else(|error| failure(&error), show);
    (answer_text, Some(outcome.charge))
}

/// Returns a body without the properties that the server adds.
fn without_system_properties(bytes: &[u8]) -> String {
    let Json::Object(mut object) = json(&text(bytes)) else {
        return text(bytes);
    };
    let added = [
        "_rid",
        "_self",
        "_etag",
        "_ts",
        "_attachments",
        "_colls",
        "_users",
        "_docs",
        "_sprocs",
        "_triggers",
        "_udfs",
        "_conflicts",
        "offerResourceId",
        "resource",
    ];
    for name in added {
        object.remove(name);
    }
    if object.get("offerVersion").is_some() {
        object.remove("id");
    }
    Json::Object(object).to_text()
}

/// Removes ` name=value` from the end of a request and returns the value.
fn take_option<'a>(request: &mut &'a str, name: &str) -> Option<&'a str> {
    let (before, value) = request.rsplit_once(&format!(" {name}="))?;
    *request = before;
    Some(value)
}

fn throughput(request: &mut &str) -> Option<Throughput> {
    let number = |text: &str| text.parse().expect("a number");
    take_option(request, "ru")
        .map(|n| Throughput::Manual(number(n)))
        .or_else(|| {
            take_option(request, "max").map(|n| Throughput::Autoscale {
                max: number(n),
                increment_percent: Some(0),
            })
        })
}

fn container(bench: &Bench, name: &str) -> Result<Arc<Container>, Answer> {
    bench
        .engine
        .container(Id::Name("db"), Id::Name(name))
        .map_err(|error| (failure(&error), None))
}

/// Splits `[key] rest` into the key in brackets and the rest.
fn split_key(text: &str) -> (&str, &str) {
    let end = text.find("] ").expect("a key in brackets");
    (&text[..=end], &text[end + 2..])
}

/// Returns a line for each physical partition: its id and its EPK range.
fn ranges_text(engine: &Engine, container: &Container) -> String {
    let (ranges, _) = engine.partition_key_ranges(container).expect("ranges");
    let mut lines = Vec::new();
    for range in &ranges {
        let (min, max) = (range.range.min.to_string(), range.range.max.to_string());
        lines.push(format!("{}: {min:?}..{max:?}", range.id));
    }
    lines.join("\n")
}

/// Runs one request.
fn run(bench: &Bench, request: &str) -> Result<Answer, Answer> {
    let engine = &bench.engine;
    let (verb, mut rest) = request.split_once(' ').unwrap_or((request, ""));
    let split = |text: &str| {
        text.split_once(' ')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("two arguments")
    };
    Ok(match verb {
        "database" => {
            let throughput = throughput(&mut rest);
            let created = engine.create_database(
                &object(&format!("{{\"id\":{}}}", Json::from(rest))),
                throughput,
            );
            answer(created, |r| {
                format!("201 {}", without_system_properties(&r.body))
            })
        }
        "delete-database" => match engine.database(Id::Name(rest)) {
            Ok(database) => answer(engine.delete_database(&database, None), |()| "204".into()),
            Err(error) => (failure(&error), None),
        },
        "container" => {
            let throughput = throughput(&mut rest);
            let database = engine
                .database(Id::Name("db"))
                .map_err(|error| (failure(&error), None))?;
            answer(
                engine.create_container(&database, &object(rest), throughput),
                |r| format!("201 {}", without_system_properties(&r.body)),
            )
        }
        "replace-container" => {
            let (name, body) = split(rest);
            let container = container(bench, &name)?;
            answer(
                engine.replace_container(&container, &object(&body), None),
                |r| format!("200 {}", without_system_properties(&r.body)),
            )
        }
        "delete-container" => answer(
            engine.delete_container(&*container(bench, rest)?, None),
            |()| "204".into(),
        ),
        "ranges" => (ranges_text(engine, &*container(bench, rest)?), None),
        "offers" => answer(engine.list(Feed::Offers, &PageRequest::default()), |page| {
            lines(&page.rows)
        }),
        "reindex" => {
            let steps = if rest.is_empty() {
                engine.finish_reindexing().map(|()| false)
            } else {
                engine.reindex_some(rest.parse().expect("items"))
            };
            (format!("more: {}", steps.expect("a step")), None)
        }
        "wait" => {
            bench
                .world
                .advance_ms(rest.parse::<u64>().expect("seconds") * 1_000);
            ("ok".into(), None)
        }
        _ => run_on_container(bench, verb, rest)?,
    })
}

fn lines(rows: &[bytes::Bytes]) -> String {
    let mut text = "200".to_owned();
    rows.iter()
        .for_each(|row| _ = write!(text, "\n{}", without_system_properties(row)));
    text
}

/// Returns the condition, and for each range the access path and the counted work.
fn plan(explanation: &Json) -> String {
    let ranges = explanation
        .get("ranges")
        .and_then(Json::as_array)
        .expect("ranges");
    let range = |range: &Json| {
        let field = |name: &str| range.get(name).expect("the field").clone();
        let access = field("access");
        format!(
            "{}: {} {}",
            field("range").as_str().expect("an id"),
            access.as_str().expect("words"),
            field("work")
        )
    };
    let condition = explanation
        .get("condition")
        .and_then(Json::as_str)
        .expect("the condition");
    [format!("where {condition}")]
        .into_iter()
        .chain(ranges.iter().map(range))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the etag of an item; `None` if the item does not exist.
fn etag_of(engine: &Engine, container: &Container, pk: &str, id: &str) -> Option<String> {
    let item = read(engine, container, pk, id).ok()?;
    json(&item).get("_etag")?.as_str().map(str::to_owned)
}

/// Runs a request that writes an item.
fn run_write(
    engine: &Engine,
    container: &Container,
    verb: &str,
    rest: &str,
    if_match: Option<&str>,
) -> Answer {
    let run = |operation, body: Option<&str>, pk: Option<&str>, if_match: Option<String>| {
        let options = WriteOptions {
            partition_key: pk.map(key),
            if_match,
            ..WriteOptions::default()
        };
        let is_delete = matches!(operation, WriteOperation::Delete(_));
        let outcome = write(engine, container, &operation, body, &options);
        answer(outcome, |written| match written.item {
            Some(item) => {
                let status = if written.created { 201 } else { 200 };
                format!("{status} {}", without_system_properties(&item))
            }
            None if is_delete => "204".to_owned(),
            None => "200".to_owned(),
        })
    };
    match verb {
        "create" => run(WriteOperation::Create, Some(rest), None, None),
        "upsert" => run(WriteOperation::Upsert, Some(rest), None, None),
        "big" => {
            let (id, bytes) = rest.split_once(' ').expect("an id and a number");
            let filler = "x".repeat(bytes.parse().expect("a number"));
            let item = format!(
                "{{\"id\":\"{id}\",\"pk\":\"p\",\"slug\":\"{id}\",\"filler\":\"{filler}\"}}"
            );
            // The script contains an ellipsis instead of the long filler.
            let (answer, charge) = run(WriteOperation::Create, Some(&item), None, None);
            (answer.replace(&filler, "…"), charge)
        }
        "replace" => {
            let (id, body) = rest.split_once(' ').expect("an id and an item");
            let if_match = match if_match {
                Some("now") => {
                    let pk = json(body).get("pk").expect("the partition key").to_text();
                    etag_of(engine, container, &format!("[{pk}]"), id)
                }
                other => other.map(str::to_owned),
            };
            let operation = WriteOperation::Replace(id.to_owned());
            run(operation, Some(body), None, if_match)
        }
        "delete" => {
            let (pk, id) = split_key(rest);
            let if_match = match if_match {
                Some("now") => etag_of(engine, container, pk, id),
                other => other.map(str::to_owned),
            };
            run(
                WriteOperation::Delete(id.to_owned()),
                None,
                Some(pk),
                if_match,
            )
        }
        other => panic!("no such write: {other}"),
    }
}

/// Runs a request whose first argument is the name of a container.
#[expect(clippy::too_many_lines, reason = "an arm for each request")]
fn run_on_container(bench: &Bench, verb: &str, rest: &str) -> Result<Answer, Answer> {
    let engine = &bench.engine;
    let (name, mut rest) = rest.split_once(' ').expect("a container's name");
    let container = &*container(bench, name)?;
    let if_match = take_option(&mut rest, "if-match");
    let run_query = |text: &str, with_explanation: bool| {
        engine.query(
            container,
            &Scope::Everything,
            &QueryRequest {
                metrics: with_explanation,
                explain: with_explanation,
                ..query(text)
            },
            None,
        )
    };
    Ok(match verb {
        "create" | "big" | "upsert" | "replace" | "delete" => {
            run_write(engine, container, verb, rest, if_match)
        }
        "read" => {
            let (pk, id) = split_key(rest);
            answer(
                engine.read_item(container, &key(pk), id, None, None).wait(),
                |reply| match reply {
                    ReadReply::Item { body, .. } => {
                        format!("200 {}", without_system_properties(&body))
                    }
                    ReadReply::NotModified { .. } => "304".into(),
                },
            )
        }
        "changes" => {
            let after = rest
                .strip_prefix("after=")
                .and_then(|n| n.parse().ok())
                .expect("an LSN");
            let page = engine.change_feed(
                container,
                &Scope::Everything,
                &FeedStart::Lsn(after),
                None,
                None,
            );
            answer(page.wait(), |page| {
                format!("{} up to {}", lines(&page.rows), page.continue_after)
            })
        }
        "query" => answer(run_query(rest, false), |answer| lines(&answer.page.rows)),
        "metrics" => answer(run_query(rest, true), |answer| {
            answer.index_metrics.expect("index metrics")
        }),
        "plan" => answer(run_query(rest, true), |answer| {
            plan(&json(&answer.explanation.expect("an explanation")))
        }),
        "procedure" => {
            let (id, source) = rest.split_once(' ').expect("an id and a source");
            let body = format!(
                "{{\"id\":{},\"body\":{}}}",
                Json::from(id),
                Json::from(source)
            );
            answer(
                engine.create_script(container, ScriptKind::Procedure, &object(&body), false),
                |_| "201".into(),
            )
        }
        "execute" => {
            let (pk, rest) = split_key(rest);
            let (id, arguments) = rest.split_once(' ').expect("an id and arguments");
            let pending = engine.execute(
                container,
                Id::Name(id),
                &key(pk),
                arguments.as_bytes(),
                ExecuteOptions::default(),
            );
            answer(pending.wait(), |reply| format!("200 {}", reply.body))
        }
        other => panic!("no such request: {other}"),
    })
}

/// Runs a script and returns it with the current answers.
fn replay(script: &str) -> String {
    let benches = [Profile::Modern, Profile::Y2019].map(|profile| Bench::new(profile, 1));
    let mut out = String::new();
    let mut answered = false;
    for line in script.lines() {
        if let Some(request) = line.strip_prefix("> ") {
            let [(modern_answer, modern), (y2019_answer, y2019)] = benches
                .each_ref()
                .map(|b| run(b, request).unwrap_or_else(|answer| answer));
            // The counted work of a plan depends on the pricing profile; the script shows that of
            // the first profile.
            let same = request.starts_with("plan ") || modern_answer == y2019_answer;
            assert!(
                same,
                "the profile changes the answer of {request}: {modern_answer} and {y2019_answer}"
            );
            let charge = match (modern, y2019) {
                (Some(a), Some(b)) if a != b => format!("{a} | {b} RU\n"),
                (Some(a), _) => format!("{a} RU\n"),
                _ => String::new(),
            };
            write!(out, "{line}\n{modern_answer}\n{charge}").expect("writing to a string");
            answered = true;
        } else if line.starts_with('#') || line.is_empty() {
            answered = false;
            writeln!(out, "{line}").expect("writing to a string");
        } else {
            assert!(answered, "an answer without a request: {line}");
        }
    }
    out
}

/// Compares a golden script with the current answers, or rewrites it with `ORRERY_BLESS`.
#[track_caller]
fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let script = std::fs::read_to_string(&path).expect("the script");
    let current = replay(&script);
    if std::env::var_os("ORRERY_BLESS").is_some() {
        std::fs::write(&path, current).expect("the script is written");
        return;
    }
    for (i, (found, expected)) in current.lines().zip(script.lines()).enumerate() {
        assert_eq!(
            found,
            expected,
            "{name}:{}: left is the current answer, right is the script",
            i + 1
        );
    }
    assert_eq!(current.lines().count(), script.lines().count(), "{name}");
}

#[test]
fn catalog_answers_match_the_golden_script() {
    check("catalog.txt");
}

#[test]
fn item_answers_match_the_golden_script() {
    check("items.txt");
}

#[test]
fn query_plans_match_the_golden_script() {
    check("plans.txt");
}

#[test]
fn query_answers_match_the_golden_script() {
    check("queries.txt");
}

#[test]
fn vector_searches_match_the_golden_script() {
    check("vectors.txt");
}

#[test]
fn text_searches_match_the_golden_script() {
    check("texts.txt");
}
